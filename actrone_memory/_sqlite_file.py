"""One SQLite file: opened, checked and locked so that threads and processes share it. Knows no tables but their text.

Writes run one after the other on a thread of their own, each in one transaction; reads run beside them on others. A
file that is not ours, of a newer version or damaged is refused and left as it was.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from actrone_memory.errors import ConfigurationError, StoreConnectionError

logger = logging.getLogger("actrone_memory")

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]

APPLICATION_ID = 0x4143544D
"""Marks a SQLite file as ours: "ACTM" in its header."""

OLDEST_SQLITE = (3, 22, 0)
"""The first version that looks at a file in WAL mode without the right to write to it."""

WAIT_SECONDS = 10.0
"""How long a call waits for another program to let go of the file."""

SHORTEST_WAIT_SECONDS = 1.0
"""What is left of that for a write that stood behind many others."""

TIDYING_WAIT_SECONDS = 0.05
"""How long a write that is done waits to copy the log: the next one may do it as well."""

READING_THREADS = 4

LARGEST_WAL_BYTES = 4 * 1024 * 1024
"""Size of the write-ahead log from which it is copied into the file; SQLite's own default."""

LARGEST_CHECKED_BYTES = 4 * 1024 * 1024
"""Files up to this size are looked through for damage when they are opened: some 10 ms."""

LOOKS_FOR_DAMAGE = 3

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100

_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


class Schema(NamedTuple):
    """The tables of a file: their version and the statements that make them."""

    version: int
    statements: Sequence[str]


class NotAtOnceError(Exception):
    """A glance at the file would have to wait."""


class SQLiteFile:
    """The file at ``path``, opened by the first call and again by the first after `close` or a fork.

    ``store`` is the name that errors give.
    """

    def __init__(self, path: Path, schema: Schema, store: str) -> None:
        self.path = path
        self._schema, self._store = schema, store
        self._state = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._borrowed = 0
        self._opening = threading.Lock()
        self._is_prepared = False
        self._glancing: list[sqlite3.Connection] = []  # none or one
        self._glance = threading.Lock()
        self._threads: _Threads | None = None
        self._wipe_is_due = False
        _files.add(self)
        for connections in (self._idle, self._glancing):
            weakref.finalize(self, _close_all, connections)

    # --- calls ----------------------------------------------------------------------------------------------------

    async def write(self, work: Work[Result], *, wipe: bool = False) -> Result:
        """What ``work`` returns, done in one transaction; with ``wipe`` nothing that it deleted stays in the files.

        Raises:
            StoreConnectionError: the file stayed locked for `WAIT_SECONDS`, or SQLite failed; nothing was written.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        with self._state:
            done = self._running().writer.submit(lambda: self._write(work, deadline, wipe=wipe))
        return await asyncio.wrap_future(done)

    async def read(self, work: Work[Result]) -> Result:
        """What ``work`` returns, seeing one state of the file; it may be under way beside others."""
        with self._state:
            done = self._running().readers.submit(lambda: self._read(work))
        return await asyncio.wrap_future(done)

    def glance(self, query: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """The first row of a quick query, on the calling thread.

        Raises:
            NotAtOnceError: the file is not open yet, or something would have to be waited for.
        """
        with self._glance:
            if not self._glancing:
                raise NotAtOnceError
            try:
                rows = self._glancing[0].execute(query, parameters).fetchall()
            except sqlite3.Error:
                raise NotAtOnceError from None  # the slow way meets the same failure and explains it
        return rows[0] if rows else None

    async def close(self) -> None:
        """Finish what is under way, copy the log into the file and let go of it; a later call opens it again."""
        with self._state:
            threads, self._threads = self._threads, None
        if threads is None:
            return
        try:
            await asyncio.wrap_future(threads.writer.submit(lambda: self._let_go(threads.readers)))
        finally:
            threads.writer.end()

    # --- threads --------------------------------------------------------------------------------------------------

    def _running(self) -> _Threads:
        """The threads; called with the state held, so that none is ended before it is given work."""
        if self._threads is None:
            self._threads = _Threads(
                Workers(1, "actrone-sqlite-write"), Workers(READING_THREADS, "actrone-sqlite-read")
            )
        return self._threads

    def _write(self, work: Work[Result], deadline: float, *, wipe: bool) -> Result:
        with self._connection() as connection:
            left = max(deadline - time.monotonic(), SHORTEST_WAIT_SECONDS)
            _be_patient(connection, left)
            with _transaction(connection, "IMMEDIATE"):
                result = work(connection)
            self._tidy(connection, wipe=wipe, wait_seconds=left if wipe else TIDYING_WAIT_SECONDS)
        return result

    def _read(self, work: Work[Result]) -> Result:
        with self._connection() as connection, _transaction(connection, "DEFERRED"):
            return work(connection)

    # --- the write-ahead log --------------------------------------------------------------------------------------

    def _tidy(self, connection: sqlite3.Connection, *, wipe: bool, wait_seconds: float) -> None:
        """Keep the log small and free of what was deleted. What was written is written, whatever happens here."""
        try:
            _be_patient(connection, wait_seconds)
            if wipe or self._wipe_is_due:
                self._wipe(connection)
            elif _size(f"{self.path}-wal") > LARGEST_WAL_BYTES:
                self._checkpoint(connection)
        except (sqlite3.Error, StoreConnectionError) as error:
            self._wipe_is_due = self._wipe_is_due or wipe
            logger.log(
                logging.DEBUG if _primary(error) in _LOCKED and not wipe else logging.WARNING,
                "%s: its write-ahead log could not be copied into it, the next write tries again: %s",
                self.path,
                error,
            )

    def _wipe(self, connection: sqlite3.Connection) -> None:
        """Copy the log into the file and empty it: what was deleted is in neither."""
        ((blocked, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if blocked and not self._wipe_is_due:
            logger.warning(
                "%s: another reader keeps what was erased in the write-ahead log; the next write tries again", self.path
            )
        self._wipe_is_due = bool(blocked)

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Copy as much of the log into the file as its readers allow.

        With the write lock held: SQLite before 3.51.3 may damage a file in which another connection commits while a
        checkpoint ends.
        """
        with _transaction(connection, "IMMEDIATE"), self._connection() as other:
            other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    # --- connections ----------------------------------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that is nobody else's meanwhile; after a failure it is not used again."""
        with self._state:
            self._borrowed += 1
            connection = self._idle.pop() if self._idle else None
        broken = False
        try:
            with self._explained():
                connection = connection or self._opened()
                yield connection
        except StoreConnectionError as error:
            broken = _primary(error.cause) not in _LOCKED
            raise
        finally:
            with self._state:
                self._borrowed -= 1
                if connection is not None and not broken:
                    self._idle.append(connection)
                self._state.notify_all()
            if connection is not None and broken:
                connection.close()

    def _opened(self) -> sqlite3.Connection:
        with self._opening:
            if not self._is_prepared:
                self._prepare()
        return self._connected(WAIT_SECONDS)

    def _connected(self, wait_seconds: float) -> sqlite3.Connection:
        connection = _connect(self.path, wait_seconds)
        try:
            for pragma in (
                "synchronous=NORMAL",  # a killed process loses nothing; a power cut may lose the last commits
                "secure_delete=ON",
                "temp_store=MEMORY",
                "wal_autocheckpoint=0",  # see _checkpoint
                "journal_size_limit=0",  # once copied, the log begins anew and is cut to what is in it
            ):
                connection.execute(f"PRAGMA {pragma}")
            self._check_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _let_go(self, readers: Workers) -> None:
        """Close every connection when nobody uses one."""
        readers.end()
        with self._state:
            self._state.wait_for(lambda: not self._borrowed)
            self._close_connections()

    def _close_connections(self) -> None:
        with self._glance:
            _close_all(self._glancing)
        if self._wipe_is_due and self._idle:
            with suppress(sqlite3.Error):
                self._wipe(self._idle[0])
        _close_all(self._idle)
        self._is_prepared = False

    # --- opening --------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Look whether the file is ours and sound, make it if there is none, and keep a connection for glances."""
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise ConfigurationError(
                f"The SQLite of this Python is {sqlite3.sqlite_version}; {'.'.join(map(str, OLDEST_SQLITE))} or newer "
                "is needed. Use a newer Python, or backend='memory'."
            )
        try:
            self._refuse_what_is_not_ours()
            self._refuse_damage()
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise self._unusable(error) from error
        self._make_tables()
        glancing = self._connected(0)
        with self._glance:
            _close_all(self._glancing)
            self._glancing.append(glancing)
        self._is_prepared = True

    def _refuse_what_is_not_ours(self) -> None:
        """By the header alone: opening a foreign file with SQLite could already change what lies beside it."""
        if not self.path.exists():
            return
        if not self.path.is_file():
            kind = "a folder" if self.path.is_dir() else "no regular file"
            raise self._refusal(f"is {kind}", "Name a file, for example memory.db in it")
        with self.path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        if not header:
            return
        if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
            raise self._refusal("is no SQLite database", "Name another file")
        (version,), (application,) = struct.unpack(">I", header[60:64]), struct.unpack(">I", header[68:72])
        if application != APPLICATION_ID:
            raise self._refusal("is a SQLite database of another program", "Name another file")
        self._refuse_newer(version)

    def _refuse_newer(self, version: int) -> None:
        if version > self._schema.version:
            raise self._refusal(
                f"was written by a newer actrone-memory (format {version}, this one knows {self._schema.version})",
                "Upgrade the package, or name another file",
            )

    def _refuse_damage(self) -> None:
        """A look that cannot write, so that a damaged file stays as it is for whoever wants to save it."""
        finding = self._finding()
        for _ in range(LOOKS_FOR_DAMAGE - 1):
            if finding is None:
                return
            time.sleep(0.05)  # a process that makes the file right now looks like damage too
            finding = self._finding()
        if finding is not None:
            raise self._damaged(finding)

    def _finding(self) -> str | None:
        """What is damaged; None also for a file too large to be looked through, and for one that is being changed."""
        if Path(f"{self.path}-journal").exists() or not 0 < _size(self.path) <= LARGEST_CHECKED_BYTES:
            return None
        # Without a log there is nothing to lock, and locking would leave files of its own there.
        mode = "ro" if Path(f"{self.path}-wal").exists() else "ro&immutable=1"
        try:
            connection = sqlite3.connect(f"{self.path.as_uri()}?mode={mode}", uri=True, timeout=WAIT_SECONDS)
            try:
                ((verdict,), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
            finally:
                connection.close()
        except sqlite3.Error as error:
            # Of other failures the opening for writing says what they are.
            return str(error) if _primary(error) in _CORRUPT else None
        return None if verdict == "ok" else str(verdict)

    def _make_tables(self) -> None:
        connection = _connect(self.path, WAIT_SECONDS)
        try:
            if _version(connection) == 0:
                # In SQLite's plain mode, so that the header tells whose file it is from the first byte on.
                with _transaction(connection, "EXCLUSIVE"):
                    if _version(connection) == 0:
                        self._fill(connection)
            _into_wal_mode(connection, self.path)
        except sqlite3.Error as error:
            if _primary(error) in _CORRUPT:
                raise self._damaged(str(error)) from error
            raise
        finally:
            connection.close()

    def _fill(self, connection: sqlite3.Connection) -> None:
        with suppress(OSError):
            self.path.chmod(0o600)  # it may have been there, empty, with another mode
        for statement in self._schema.statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={self._schema.version}")

    def _check_version(self, connection: sqlite3.Connection) -> None:
        self._refuse_newer(_version(connection))

    # --- errors ---------------------------------------------------------------------------------------------------

    def _refusal(self, problem: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.path} {problem}; it was left as it is. {remedy} (ACTRONE_SQLITE_PATH, or sqlite_path).",
            {"setting": "sqlite_path", "path": str(self.path)},
        )

    def _damaged(self, finding: str) -> ConfigurationError:
        return self._refusal(
            f"is damaged ({' '.join(finding.split())})",
            "Put a copy in its place, save what can be read with the sqlite3 tool's .recover, or name another file",
        )

    def _unusable(self, error: OSError) -> StoreConnectionError:
        return StoreConnectionError(
            self._store,
            error,
            advice=f"{self.path} must be a file that may be read and written, in a folder that may be too; or set "
            "ACTRONE_SQLITE_PATH to another place.",
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreConnectionError(
                self._store, error, {"path": str(self.path)}, advice=self._advice(_primary(error))
            ) from error

    def _advice(self, code: int) -> str:
        if code in _LOCKED:
            return (
                f"Another program kept {self.path} locked for {WAIT_SECONDS:g} seconds: look for one that holds a "
                "transaction open, then try again."
            )
        if code == sqlite3.SQLITE_FULL:
            return f"Nothing was written. Make room on the drive of {self.path}, then try again."
        if code == sqlite3.SQLITE_IOERR:
            return f"Nothing was written. Look whether the drive of {self.path} is full, unplugged or a network drive."
        if code in _UNWRITABLE:
            return f"Look whether {self.path} and its folder may be written, or set ACTRONE_SQLITE_PATH."
        if code in _CORRUPT:
            return f"{self.path} is damaged: put a copy in its place, or save what can be read with sqlite3's .recover."
        return f"The file is {self.path}."

    # --- forks ----------------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Let go of the file: SQLite's locks are worth nothing in a child that inherits them."""
        self._state.acquire()
        self._state.wait_for(lambda: not self._borrowed)
        self._close_connections()

    def after_fork(self, *, in_child: bool) -> None:
        """Let calls go on; each side opens the file anew, and the child starts threads of its own."""
        if in_child:
            self._threads = None
        self._state.release()


class _Threads(NamedTuple):
    writer: Workers
    readers: Workers


class Workers:
    """At most ``most`` threads that do what they are given, in order; they start with the work.

    Unlike those of an executor they still work while a program ends, so that it may close its memory then, and end with
    the program when it does not.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        weakref.finalize(self, _end_all, self._queue, self._threads).atexit = False

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """What ``work`` will return."""
        future: Future[Result] = Future()
        self._queue.put((future, work))
        if len(self._threads) < self._most:
            thread = threading.Thread(target=_serve, args=(self._queue,), name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def end(self) -> None:
        """Finish what was given, and end."""
        _end_all(self._queue, self._threads)
        for thread in self._threads:
            thread.join()


def _serve(queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (task := queue.get()) is not None:
        future, work = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:  # whatever it is, it belongs to who waits
                future.set_exception(error)
        del task, future, work  # an idle thread must keep no store alive


def _end_all(queue: SimpleQueue[Any], threads: Sequence[threading.Thread]) -> None:
    for _ in threads:
        queue.put(None)


def _connect(path: Path, wait_seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=wait_seconds, isolation_level=None, check_same_thread=False
    )


def _size(path: str | Path) -> int:
    """In bytes; 0 for no file."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - asked after every write: a Path costs more
    except OSError:
        return 0


def _be_patient(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """How long the connection waits for locks of others."""
    connection.execute(f"PRAGMA busy_timeout={int(wait_seconds * 1000)}")


def _version(connection: sqlite3.Connection) -> int:
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    return int(version)


def _into_wal_mode(connection: sqlite3.Connection, path: Path) -> None:
    """Readers beside a writer need it; SQLite does not wait for others here, so this does."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            ((mode,),) = connection.execute("PRAGMA journal_mode=WAL").fetchall()
            break
        except sqlite3.OperationalError as error:
            if _primary(error) not in _LOCKED or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise ConfigurationError(
            f"The drive of {path} has no shared memory for SQLite (a network drive?): put the file on a local one "
            "(ACTRONE_SQLITE_PATH, or sqlite_path).",
            {"setting": "sqlite_path", "path": str(path)},
        )


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _primary(error: BaseException) -> int:
    """SQLite's code of the error without its refinement."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


_files: weakref.WeakSet[SQLiteFile] = weakref.WeakSet()
_held: list[SQLiteFile] = []
_forking = threading.Lock()


def _before_fork() -> None:
    _forking.acquire()
    _held.extend(_files)
    for file in _held:
        file.before_fork()


def _after_fork(*, in_child: bool) -> None:
    while _held:
        _held.pop().after_fork(in_child=in_child)
    _forking.release()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(in_child=False),
        after_in_child=lambda: _after_fork(in_child=True),
    )
