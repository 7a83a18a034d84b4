"""The rows of sessions and their records: found, read, copied and forgotten, one session at a time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from actrone_memory import _validation
from actrone_memory._session_log import record_document, starts_of
from actrone_memory._turns import join_records
from actrone_memory.models import Turn
from actrone_memory.protocols import SessionCopy
from actrone_memory.stores.sqlite.agents import agent_hash

_SESSION = (
    "sessions.id, next_sequence, archived, erased, expired, hold, created_at, last_active, written_at "
    "FROM sessions JOIN agents ON agents.id = agent"
)


class Session(NamedTuple):
    """A row of ``sessions``; the numbers are those of `actrone_memory._session_log`."""

    id: int
    next_sequence: int
    archived: int
    erased: int
    expired: int
    hold: bool
    created_at: datetime | None
    last_active: datetime | None
    written_at: float

    @classmethod
    def of(cls, row: Sequence[Any]) -> Session:
        """The session of the columns in `_SESSION`."""
        return cls._make((*row[:6], _time(row[6]), _time(row[7]), row[8]))

    def is_archived(self, last: int | None = None) -> bool:
        """Whether nothing up to record ``last`` (default: the newest) waits for the archive."""
        return not self.hold or self.archived >= (self.next_sequence - 1 if last is None else last)


def find_session(connection: sqlite3.Connection, agent_id: str, session_id: str) -> Session | None:
    """The session, expired or not."""
    rows = connection.execute(
        f"SELECT {_SESSION} WHERE agents.hash = ? AND sessions.name = ?", (agent_hash(agent_id), session_id)
    ).fetchall()
    return Session.of(rows[0]) if rows else None


def named_sessions(connection: sqlite3.Connection, agent_id: str) -> list[tuple[str, Session]]:
    """Every session of the agent with its name, the first made first."""
    rows = connection.execute(
        f"SELECT sessions.name, {_SESSION} WHERE agents.hash = ? ORDER BY sessions.id", (agent_hash(agent_id),)
    ).fetchall()
    return [(name, Session.of(row)) for name, *row in rows]


def sessions_not_written_since(connection: sqlite3.Connection, moment: float) -> list[Session]:
    """Sessions of all agents to which nothing was appended since."""
    rows = connection.execute(f"SELECT {_SESSION} WHERE written_at < ?", (moment,)).fetchall()
    return [Session.of(row) for row in rows]


def save_session(connection: sqlite3.Connection, session: Session) -> None:
    """Write what appending changes."""
    connection.execute(
        "UPDATE sessions SET next_sequence = ?, hold = ?, created_at = ?, last_active = ?, written_at = ? WHERE id = ?",
        (
            session.next_sequence,
            session.hold,
            _text(session.created_at),
            _text(session.last_active),
            session.written_at,
            session.id,
        ),
    )


def forget_session(connection: sqlite3.Connection, session: Session) -> None:
    """Delete the session and the record ids it has seen."""
    connection.execute("DELETE FROM records WHERE session = ?", (session.id,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session.id,))
    # A mark for this session may still be on its way: it must lie before what comes next.
    connection.execute("UPDATE file SET first_sequence = max(first_sequence, ?)", (session.next_sequence,))


# --- turns ------------------------------------------------------------------------------------------------------------


def turn_starts(
    connection: sqlite3.Connection, session: Session, first: int = 0, *, last: int = _validation.LARGEST_INTEGER
) -> list[int]:
    """The numbers at which the ``last`` kept turns begin, none before ``first``, in order."""
    rows = connection.execute(
        "SELECT sequence FROM records WHERE session = ? AND opens AND document IS NOT NULL AND sequence >= ? "
        "ORDER BY sequence DESC LIMIT ?",
        (session.id, first, last),
    ).fetchall()
    return [sequence for (sequence,) in reversed(rows)]


def turns_from(connection: sqlite3.Connection, session: Session, first: int) -> list[Turn]:
    """The turns of the kept records from number ``first`` on."""
    rows = connection.execute(
        "SELECT CAST(document AS BLOB) FROM records WHERE session = ? AND sequence >= ? AND document IS NOT NULL "
        "ORDER BY sequence",
        (session.id, first),
    )
    return join_records(Turn.model_validate_json(document) for (document,) in rows)


# --- copies -----------------------------------------------------------------------------------------------------------


def session_copy(connection: sqlite3.Connection, session_id: str, session: Session) -> SessionCopy:
    """All that is known of the session."""
    rows = connection.execute(
        "SELECT name, CAST(document AS BLOB) FROM records WHERE session = ? ORDER BY sequence", (session.id,)
    ).fetchall()
    return SessionCopy(
        session_id=session_id,
        records=[Turn.model_validate_json(document) for _, document in rows if document is not None],
        given_up=[name for name, document in rows if document is None],
        next_sequence=session.next_sequence,
        archived=session.archived,
        erased=session.erased,
        hold=bool(session.hold),
        created_at=session.created_at,
        last_active=session.last_active,
    )


def add_copy(connection: sqlite3.Connection, agent: int, copy: SessionCopy) -> None:
    """Add the session as it was copied."""
    session = connection.execute(
        "INSERT INTO sessions "
        "(agent, name, next_sequence, archived, erased, hold, created_at, last_active, written_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            agent,
            copy.session_id,
            copy.next_sequence,
            copy.archived,
            copy.erased,
            copy.hold,
            _text(copy.created_at),
            _text(copy.last_active),
            time.time(),
        ),
    ).lastrowid
    starts = set(starts_of(copy.records))
    first = copy.next_sequence - len(copy.records)
    rows: list[tuple[object, ...]] = [
        (session, sequence, name, False, None)
        for sequence, name in enumerate(copy.given_up, start=first - len(copy.given_up))
    ]
    rows += [
        (session, record.sequence, record.id, record.sequence in starts, record_document(record).decode())
        for record in copy.records
    ]
    connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", rows)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
