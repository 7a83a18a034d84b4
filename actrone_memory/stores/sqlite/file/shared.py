"""`SQLiteFile`: the calls that threads, event loops and processes make on one file.

Writes run one after the other on a thread of their own, each in one transaction; reads run beside them on others.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from actrone_memory.stores.sqlite.file import forks
from actrone_memory.stores.sqlite.file.connections import WAIT_SECONDS, be_patient, transaction
from actrone_memory.stores.sqlite.file.failures import Failures
from actrone_memory.stores.sqlite.file.log import WriteAheadLog
from actrone_memory.stores.sqlite.file.opening import Opening, Schema
from actrone_memory.stores.sqlite.file.pool import NotAtOnceError, Pool
from actrone_memory.stores.sqlite.file.workers import Workers

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]

SHORTEST_WAIT_SECONDS = 1.0
"""What is left of `WAIT_SECONDS` for a write that stood behind many others."""

TIDYING_WAIT_SECONDS = 0.05
"""How long a write that is done waits to copy the log: the next one may do it as well."""

READING_THREADS = 4


class _Threads(NamedTuple):
    writer: Workers
    readers: Workers


class SQLiteFile:
    """The file at ``path``, opened by the first call and again by the first after `close` or a fork.

    ``store`` is the name that errors give.
    """

    def __init__(self, path: Path, schema: Schema, store: str) -> None:
        self.path = path
        failures = Failures(path, store)
        self._pool = Pool(Opening(path, schema, failures), failures)
        self._log = WriteAheadLog(path, self._pool.lent)
        self._calls = threading.RLock()
        self._threads: _Threads | None = None
        forks.watch(self)

    async def write(self, work: Work[Result], *, wipe: bool = False) -> Result:
        """What ``work`` returns, done in one transaction; with ``wipe`` nothing that it deleted stays in the files.

        Raises:
            StoreConnectionError: the file stayed locked for `WAIT_SECONDS`, or SQLite failed; nothing was written.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        with self._calls:
            done = self._running().writer.submit(lambda: self._write(work, deadline, wipe=wipe))
        return await asyncio.wrap_future(done)

    async def read(self, work: Work[Result]) -> Result:
        """What ``work`` returns, seeing one state of the file; it may be under way beside others."""
        with self._calls:
            done = self._running().readers.submit(lambda: self._read(work))
        return await asyncio.wrap_future(done)

    def glance(self, query: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """The first row of a quick query, on the calling thread.

        Raises:
            NotAtOnceError: the file is not open yet, or something would have to be waited for.
        """
        return self._pool.glance(query, parameters)

    async def first_row(self, query: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """The first row of a quick query: at a glance, or by a `read`."""
        try:
            return self.glance(query, parameters)
        except NotAtOnceError:
            rows = await self.read(lambda c: c.execute(query, parameters).fetchall())
            return rows[0] if rows else None

    async def close(self) -> None:
        """Finish what is under way, copy the log into the file and let go of it; a later call opens it again."""
        with self._calls:
            threads, self._threads = self._threads, None
        if threads is None:
            return
        try:
            await asyncio.wrap_future(threads.writer.submit(lambda: self._let_go(threads.readers)))
        finally:
            threads.writer.end()

    def before_fork(self) -> None:
        """Let go of the file, and let no call at it."""
        self._pool.hold(self._log.finish)
        self._calls.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        """Let calls go on; each side opens the file anew, and the child starts threads of its own."""
        if in_child:
            self._threads = None
        self._calls.release()
        self._pool.release()

    def _running(self) -> _Threads:
        """The threads; called with the lock of calls held, so that none is ended before it is given work."""
        if self._threads is None:
            self._threads = _Threads(
                Workers(1, "actrone-sqlite-write"), Workers(READING_THREADS, "actrone-sqlite-read")
            )
        return self._threads

    def _write(self, work: Work[Result], deadline: float, *, wipe: bool) -> Result:
        with self._pool.lent() as connection:
            left = max(deadline - time.monotonic(), SHORTEST_WAIT_SECONDS)
            be_patient(connection, left)
            with transaction(connection, "IMMEDIATE"):
                result = work(connection)
            self._log.tidy(connection, wipe=wipe, wait_seconds=left if wipe else TIDYING_WAIT_SECONDS)
        return result

    def _read(self, work: Work[Result]) -> Result:
        with self._pool.lent() as connection, transaction(connection, "DEFERRED"):
            return work(connection)

    def _let_go(self, readers: Workers) -> None:
        readers.end()
        self._pool.close(self._log.finish)
