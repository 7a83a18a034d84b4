"""One connection to SQLite: how it is made, what it waits for, and the codes of its errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_SECONDS = 10.0
"""How long a call waits for another program to let go of the file."""

CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def primary_code(error: BaseException) -> int:
    """SQLite's code of the error without its refinement."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def connect(path: Path, wait_seconds: float) -> sqlite3.Connection:
    """A connection to a file that is there, for whatever thread, without transactions of Python's own."""
    return sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=wait_seconds, isolation_level=None, check_same_thread=False
    )


def be_patient(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """How long the connection waits for locks of others."""
    connection.execute(f"PRAGMA busy_timeout={int(wait_seconds * 1000)}")


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """All or nothing of what is done within."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def close_all(connections: list[sqlite3.Connection]) -> None:
    """Close the connections and take them out of the list."""
    while connections:
        connections.pop().close()
