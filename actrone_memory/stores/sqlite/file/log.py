"""The write-ahead log beside a file: kept small, and free of what was deleted."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from actrone_memory.errors import StoreConnectionError
from actrone_memory.stores.sqlite.file.connections import LOCKED, be_patient, primary_code, transaction

logger = logging.getLogger("actrone_memory")

LARGEST_WAL_BYTES = 4 * 1024 * 1024
"""Size of the write-ahead log from which it is copied into the file; SQLite's own default."""


class WriteAheadLog:
    """The log of the file at ``path``; ``lent`` gives another connection to it for a while."""

    def __init__(self, path: Path, lent: Callable[[], AbstractContextManager[sqlite3.Connection]]) -> None:
        self._path, self._lent = path, lent
        self._wipe_is_due = False

    def tidy(self, connection: sqlite3.Connection, *, wipe: bool, wait_seconds: float) -> None:
        """Copy the log into the file when it is time. What was written is written, whatever happens here."""
        try:
            be_patient(connection, wait_seconds)
            if wipe or self._wipe_is_due:
                self._wipe(connection)
            elif self._size() > LARGEST_WAL_BYTES:
                self._checkpoint(connection)
        except (sqlite3.Error, StoreConnectionError) as error:
            self._wipe_is_due = self._wipe_is_due or wipe
            logger.log(
                logging.DEBUG if primary_code(error) in LOCKED and not wipe else logging.WARNING,
                "%s: its write-ahead log could not be copied into it, the next write tries again: %s",
                self._path,
                error,
            )

    def finish(self, connection: sqlite3.Connection) -> None:
        """Try a wipe that is due once more, before the file is let go of."""
        if self._wipe_is_due:
            with suppress(sqlite3.Error):
                self._wipe(connection)

    def _wipe(self, connection: sqlite3.Connection) -> None:
        """Copy the log into the file and empty it: what was deleted is in neither."""
        ((blocked, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if blocked and not self._wipe_is_due:
            logger.warning(
                "%s: another reader keeps what was erased in the write-ahead log; the next write tries again",
                self._path,
            )
        self._wipe_is_due = bool(blocked)

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Copy as much of the log into the file as its readers allow.

        With the write lock held: SQLite before 3.51.3 may damage a file in which another connection commits while a
        checkpoint ends.
        """
        with transaction(connection, "IMMEDIATE"), self._lent() as other:
            other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _size(self) -> int:
        """In bytes; 0 for no file."""
        try:
            return os.stat(f"{self._path}-wal").st_size  # noqa: PTH116 - asked after every write: a Path costs more
        except OSError:
            return 0
