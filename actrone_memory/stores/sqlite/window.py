"""What a session keeps: its last turns, for a time, and longer what waits for the archive."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import NamedTuple

from actrone_memory._session_log import REMEMBERED_RECORD_IDS, record_document, turns_given_up
from actrone_memory.models import Turn
from actrone_memory.stores.sqlite.agents import named_agent
from actrone_memory.stores.sqlite.sessions import (
    Session,
    find_session,
    forget_session,
    save_session,
    sessions_not_written_since,
    turn_starts,
)


class Window(NamedTuple):
    """The last ``max_turns`` whole turns of a session, until ``ttl_seconds`` after the last of them was appended."""

    max_turns: int
    ttl_seconds: float | None

    def has_expired(self, session: Session) -> bool:
        """Whether the session reads as gone."""
        return self.ttl_seconds is not None and session.written_at < time.time() - self.ttl_seconds

    def find(self, connection: sqlite3.Connection, agent_id: str, session_id: str) -> Session | None:
        """The session as readers see it: None when it has expired."""
        session = find_session(connection, agent_id, session_id)
        return None if session is None or self.has_expired(session) else session

    def starts(self, connection: sqlite3.Connection, session: Session, last: int | None = None) -> list[int]:
        """The numbers at which the ``last`` turns begin that readers see (default: all), in order."""
        most = self.max_turns if last is None else min(last, self.max_turns)
        return turn_starts(connection, session, session.expired + 1, last=most)

    def append(
        self, connection: sqlite3.Connection, agent_id: str, session_id: str, records: Sequence[Turn], *, hold: bool
    ) -> None:
        """Append records that the session has not seen, and give up what they push out."""
        self._forget_expired(connection)
        before = self._session_to_append(connection, agent_id, session_id)._replace(hold=hold)
        goes_on = bool(self.starts(connection, before, last=1))
        session = _with_records(connection, before, records, goes_on=goes_on)
        save_session(connection, session._replace(written_at=time.time()))
        if session.next_sequence > before.next_sequence:
            self.trim(connection, session)

    def trim(self, connection: sqlite3.Connection, session: Session) -> None:
        """Give up turns beyond the window or expired, and the ids of records given up long ago."""
        starts = turn_starts(connection, session)
        living = [start for start in starts if start > session.expired]
        given_up = turns_given_up(starts, self.max_turns, session.archived if session.hold else None)
        end = starts[given_up] if given_up else 0
        if len(living) < len(starts) and session.is_archived(session.expired):
            end = max(end, session.expired + 1)
        connection.execute(
            "UPDATE records SET document = NULL WHERE session = ? AND sequence < ? AND document IS NOT NULL",
            (session.id, end),
        )
        connection.execute(
            "DELETE FROM records WHERE session = ? AND sequence < ? AND document IS NULL",
            (session.id, session.next_sequence - REMEMBERED_RECORD_IDS),
        )

    def _session_to_append(self, connection: sqlite3.Connection, agent_id: str, session_id: str) -> Session:
        """The session, made if there is none; what has expired of it is only kept for the archive."""
        session = find_session(connection, agent_id, session_id)
        if session is None:
            connection.execute(
                "INSERT INTO sessions (agent, name, next_sequence) SELECT ?, ?, first_sequence FROM file",
                (named_agent(connection, agent_id), session_id),
            )
            session = find_session(connection, agent_id, session_id)
            assert session is not None, "it was made just now, in this transaction"
        elif self.has_expired(session):
            session = session._replace(expired=session.next_sequence - 1, created_at=None, last_active=None)
            connection.execute("UPDATE sessions SET expired = ? WHERE id = ?", (session.expired, session.id))
        return session

    def _forget_expired(self, connection: sqlite3.Connection) -> None:
        """Forget the sessions of all agents that have expired and need no archive any more."""
        if self.ttl_seconds is None:
            return
        for session in sessions_not_written_since(connection, time.time() - self.ttl_seconds):
            if session.is_archived():
                forget_session(connection, session)


def _with_records(
    connection: sqlite3.Connection, session: Session, records: Sequence[Turn], *, goes_on: bool
) -> Session:
    """The session after these records; with ``goes_on`` the first of them may continue a turn."""
    for record in records:
        stored = record.model_copy(update={"sequence": session.next_sequence})
        opens = not record.continues or not goes_on
        written = connection.execute(
            "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?)",
            (session.id, stored.sequence, stored.id, opens, record_document(stored).decode()),
        )
        if written.rowcount:
            goes_on = True
            session = session._replace(
                next_sequence=session.next_sequence + 1,
                created_at=min(session.created_at or record.timestamp, record.timestamp),
                last_active=max(session.last_active or record.timestamp, record.timestamp),
            )
    return session
