"""The connections of this process to one file, lent to one call at a time."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from actrone_memory.errors import StoreConnectionError
from actrone_memory.stores.sqlite.file.connections import (
    LOCKED,
    WAIT_SECONDS,
    be_patient,
    close_all,
    primary_code,
)
from actrone_memory.stores.sqlite.file.failures import Failures
from actrone_memory.stores.sqlite.file.opening import Opening


class NotAtOnceError(Exception):
    """A glance at the file would have to wait."""


class Pool:
    """Connections that are made when they are needed, the first one after the file was prepared."""

    def __init__(self, opening: Opening, failures: Failures) -> None:
        self._opening, self._failures = opening, failures
        self._state = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._borrowed = 0
        self._first = threading.Lock()
        self._is_prepared = False
        self._glancing: list[sqlite3.Connection] = []  # none or one
        self._glance = threading.Lock()
        for connections in (self._idle, self._glancing):
            weakref.finalize(self, close_all, connections)

    @contextmanager
    def lent(self) -> Iterator[sqlite3.Connection]:
        """A connection that is nobody else's meanwhile; after a failure it is not used again."""
        with self._state:
            self._borrowed += 1
            connection = self._idle.pop() if self._idle else None
        broken = False
        try:
            with self._failures.explained():
                connection = connection or self._opened()
                yield connection
        except StoreConnectionError as error:
            broken = primary_code(error.cause) not in LOCKED
            raise
        finally:
            with self._state:
                self._borrowed -= 1
                if connection is not None and not broken:
                    self._idle.append(connection)
                self._state.notify_all()
            if connection is not None and broken:
                connection.close()

    def glance(self, query: str, parameters: Sequence[object]) -> tuple[Any, ...] | None:
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

    def close(self, farewell: Callable[[sqlite3.Connection], None]) -> None:
        """Close every connection when nobody uses one; ``farewell`` is what one of them is still used for."""
        with self._state:
            self._close_when_idle(farewell)

    def hold(self, farewell: Callable[[sqlite3.Connection], None]) -> None:
        """As `close`, and lend none until `release`, by the same thread."""
        self._state.acquire()
        self._close_when_idle(farewell)

    def release(self) -> None:
        """Lend connections again."""
        self._state.release()

    def _opened(self) -> sqlite3.Connection:
        with self._first:
            if not self._is_prepared:
                self._prepare()
        return self._opening.connected(WAIT_SECONDS)

    def _prepare(self) -> None:
        """Prepare the file and keep a connection for glances."""
        self._opening.prepare()
        glancing = self._opening.connected(WAIT_SECONDS)
        be_patient(glancing, 0)  # only now: opening may meet another process that opens or closes the file
        with self._glance:
            close_all(self._glancing)
            self._glancing.append(glancing)
        self._is_prepared = True

    def _close_when_idle(self, farewell: Callable[[sqlite3.Connection], None]) -> None:
        self._state.wait_for(lambda: not self._borrowed)
        with self._glance:
            close_all(self._glancing)
        if self._idle:
            farewell(self._idle[0])
        close_all(self._idle)
        self._is_prepared = False
