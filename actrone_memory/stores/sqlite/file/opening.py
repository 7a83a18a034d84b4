"""What comes before the first use of a file: is it ours and sound, and if there is none, it is made.

A file that is not ours, of a newer version or damaged is refused and left as it was.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from actrone_memory.errors import ConfigurationError
from actrone_memory.stores.sqlite.file.connections import (
    CORRUPT,
    LOCKED,
    WAIT_SECONDS,
    connect,
    primary_code,
    transaction,
)
from actrone_memory.stores.sqlite.file.failures import Failures

APPLICATION_ID = 0x4143544D
"""Marks a SQLite file as ours: "ACTM" in its header."""

OLDEST_SQLITE = (3, 22, 0)
"""The first version that looks at a file in WAL mode without the right to write to it."""

LARGEST_CHECKED_BYTES = 4 * 1024 * 1024
"""Files up to this size are looked through for damage when they are opened: some 10 ms."""

LOOKS_FOR_DAMAGE = 3

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100


class Schema(NamedTuple):
    """The tables of a file: their version and the statements that make them."""

    version: int
    statements: Sequence[str]


class Opening:
    """The way to the file at ``path`` with tables of ``schema``."""

    def __init__(self, path: Path, schema: Schema, failures: Failures) -> None:
        self._path, self._schema, self._failures = path, schema, failures

    def prepare(self) -> None:
        """Look whether the file is ours and sound, and make it if there is none."""
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise ConfigurationError(
                f"The SQLite of this Python is {sqlite3.sqlite_version}; {'.'.join(map(str, OLDEST_SQLITE))} or newer "
                "is needed. Use a newer Python, or backend='memory'."
            )
        try:
            self._refuse_what_is_not_ours()
            self._refuse_damage()
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise self._failures.unusable(error) from error
        self._make_tables()

    def connected(self, wait_seconds: float) -> sqlite3.Connection:
        """A connection to the file as all calls use it."""
        connection = connect(self._path, wait_seconds)
        try:
            for pragma in (
                "synchronous=NORMAL",  # a killed process loses nothing; a power cut may lose the last commits
                "secure_delete=ON",
                "temp_store=MEMORY",
                "wal_autocheckpoint=0",  # see log.py
                "journal_size_limit=0",  # once copied, the log begins anew and is cut to what is in it
            ):
                connection.execute(f"PRAGMA {pragma}")
            self._refuse_newer(_version(connection))
        except BaseException:
            connection.close()
            raise
        return connection

    # --- whose file it is -----------------------------------------------------------------------------------------

    def _refuse_what_is_not_ours(self) -> None:
        """By the header alone: opening a foreign file with SQLite could already change what lies beside it."""
        if not self._path.exists():
            return
        if not self._path.is_file():
            kind = "a folder" if self._path.is_dir() else "no regular file"
            raise self._failures.refusal(f"is {kind}", "Name a file, for example memory.db in it")
        with self._path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        if not header:
            return
        if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
            raise self._failures.refusal("is no SQLite database", "Name another file")
        (version,), (application,) = struct.unpack(">I", header[60:64]), struct.unpack(">I", header[68:72])
        if application != APPLICATION_ID:
            raise self._failures.refusal("is a SQLite database of another program", "Name another file")
        self._refuse_newer(version)

    def _refuse_newer(self, version: int) -> None:
        if version > self._schema.version:
            raise self._failures.refusal(
                f"was written by a newer actrone-memory (format {version}, this one knows {self._schema.version})",
                "Upgrade the package, or name another file",
            )

    # --- whether it is sound --------------------------------------------------------------------------------------

    def _refuse_damage(self) -> None:
        """A look that cannot write, so that a damaged file stays as it is for whoever wants to save it."""
        finding = self._finding()
        for _ in range(LOOKS_FOR_DAMAGE - 1):
            if finding is None:
                return
            time.sleep(0.05)  # a process that makes the file right now looks like damage too
            finding = self._finding()
        if finding is not None:
            raise self._failures.damaged(finding)

    def _finding(self) -> str | None:
        """What is damaged; None also for a file too large to be looked through, and for one that is being changed."""
        journal, log = Path(f"{self._path}-journal"), Path(f"{self._path}-wal")
        try:
            size = self._path.stat().st_size
        except OSError:
            return None
        if journal.exists() or not 0 < size <= LARGEST_CHECKED_BYTES:
            return None
        # Without a log there is nothing to lock, and locking would leave files of its own there.
        mode = "ro" if log.exists() else "ro&immutable=1"
        try:
            connection = sqlite3.connect(f"{self._path.as_uri()}?mode={mode}", uri=True, timeout=WAIT_SECONDS)
            try:
                ((verdict,), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
            finally:
                connection.close()
        except sqlite3.Error as error:
            # Of other failures the opening for writing says what they are.
            return str(error) if primary_code(error) in CORRUPT else None
        return None if verdict == "ok" else str(verdict)

    # --- making it ------------------------------------------------------------------------------------------------

    def _make_tables(self) -> None:
        connection = connect(self._path, WAIT_SECONDS)
        try:
            if _version(connection) == 0:
                # In SQLite's plain mode, so that the header tells whose file it is from the first byte on.
                with transaction(connection, "EXCLUSIVE"):
                    if _version(connection) == 0:
                        self._fill(connection)
            if _mode_for_readers_beside_a_writer(connection) != "wal":
                raise self._failures.without_shared_memory()
        except sqlite3.Error as error:
            if primary_code(error) in CORRUPT:
                raise self._failures.damaged(str(error)) from error
            raise
        finally:
            connection.close()

    def _fill(self, connection: sqlite3.Connection) -> None:
        with suppress(OSError):
            self._path.chmod(0o600)  # it may have been there, empty, with another mode
        for statement in self._schema.statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={self._schema.version}")


def _version(connection: sqlite3.Connection) -> int:
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    return int(version)


def _mode_for_readers_beside_a_writer(connection: sqlite3.Connection) -> str:
    """WAL if the drive can have it. SQLite does not wait for others here, so this does."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            ((mode,),) = connection.execute("PRAGMA journal_mode=WAL").fetchall()
            return str(mode)
        except sqlite3.OperationalError as error:
            if primary_code(error) not in LOCKED or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
