"""The hot tier: recent turns of sessions, and how far each session is archived."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence

from actrone_memory import _validation
from actrone_memory._store_calls import by_activity, check_ids, checked_copy
from actrone_memory._turns import flatten
from actrone_memory.models import SessionMetadata, Turn
from actrone_memory.protocols import SessionCopy
from actrone_memory.stores.sqlite.agents import agent_number, forget_name, named_agent
from actrone_memory.stores.sqlite.file import SQLiteFile
from actrone_memory.stores.sqlite.sessions import (
    Session,
    add_copy,
    find_session,
    forget_session,
    named_sessions,
    session_copy,
    turn_starts,
    turns_from,
)
from actrone_memory.stores.sqlite.window import Window


class Turns:
    """An `L1Store` in the file, with every capability of one."""

    _file: SQLiteFile
    _window: Window

    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        """Append one record; one whose id this session has seen is not appended again."""
        await self.append_turns(agent_id, session_id, [turn])

    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        """Append all records in one step. With ``hold``, turns wait for ``mark_archived`` before they are trimmed."""
        check_ids(agent_id, session_id)
        _validation.flag(hold, "hold")
        records = _validation.records(turns, session_id)
        if records:
            await self._file.write(lambda c: self._window.append(c, agent_id, session_id, records, hold=hold))

    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        """The last ``n`` whole turns, oldest first; all that are kept when None."""
        check_ids(agent_id, session_id)
        wanted = None if n is None else _validation.positive_integer(n, "n")

        def last_turns(connection: sqlite3.Connection) -> list[Turn]:
            session = self._window.find(connection, agent_id, session_id)
            starts = self._window.starts(connection, session, wanted) if session else []
            return turns_from(connection, session, starts[0]) if session and starts else []

        return await self._file.read(last_turns)

    async def turn_count(self, agent_id: str, session_id: str) -> int:
        """Whole turns that are kept."""
        metadata = await self.get_session_metadata(agent_id, session_id)
        return metadata.turn_count if metadata else 0

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        """Forget the session, its marks and the record ids it has seen."""
        check_ids(agent_id, session_id)

        def clear(connection: sqlite3.Connection) -> None:
            agent = agent_number(connection, agent_id)
            session = find_session(connection, agent_id, session_id)
            connection.execute("DELETE FROM summary_locks WHERE agent = ? AND session = ?", (agent, session_id))
            if session is not None:
                forget_session(connection, session)
            forget_name(connection, agent)

        await self._file.write(clear, wipe=True)

    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        """Size and age of the session; None when there is none."""
        check_ids(agent_id, session_id)

        def metadata(connection: sqlite3.Connection) -> SessionMetadata | None:
            session = self._window.find(connection, agent_id, session_id)
            return self._metadata(connection, agent_id, session_id, session) if session else None

        return await self._file.read(metadata)

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        """Every session of the agent, the most recently active first; an expired one until it is archived."""
        check_ids(agent_id)

        def sessions(connection: sqlite3.Connection) -> list[SessionMetadata]:
            return [
                self._metadata(connection, agent_id, name, session)
                for name, session in named_sessions(connection, agent_id)
                if not (self._window.has_expired(session) and session.is_archived())
            ]

        return by_activity(await self._file.read(sessions))

    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        """True for the first caller within ``ttl_seconds`` (0: for every caller), of whatever process."""
        check_ids(agent_id, session_id)
        _validation.whole_number(ttl_seconds, "ttl_seconds")

        def acquire(connection: sqlite3.Connection) -> bool:
            now, agent = time.time(), agent_number(connection, agent_id)
            connection.execute("DELETE FROM summary_locks WHERE until <= ?", (now,))
            taken = connection.execute(
                "INSERT OR IGNORE INTO summary_locks VALUES (?, ?, ?)", (agent, session_id, now + ttl_seconds)
            )
            return taken.rowcount > 0

        return await self._file.write(acquire)

    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        """Whole turns that end after the archived mark, trimmed-window and expired ones included."""
        check_ids(agent_id, session_id)

        def pending(connection: sqlite3.Connection) -> list[Turn]:
            session = find_session(connection, agent_id, session_id)
            if session is None:
                return []
            begun = [start for start in turn_starts(connection, session) if start <= session.archived + 1]
            turns = turns_from(connection, session, max(session.erased + 1, begun[-1] if begun else 0))
            return [turn for turn in turns if (turn.records[-1].sequence or 0) > session.archived]

        return await self._file.read(pending)

    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        """Move the archived mark behind ``turns`` and trim what waited for it."""
        check_ids(agent_id, session_id)
        last = max((record.sequence or 0 for record in flatten(_validation.turns(turns))), default=-1)

        def mark(connection: sqlite3.Connection) -> None:
            session = find_session(connection, agent_id, session_id)
            if session is not None and last > session.archived:
                connection.execute("UPDATE sessions SET archived = ? WHERE id = ?", (last, session.id))
                self._window.trim(connection, session._replace(archived=last))

        await self._file.write(mark)

    async def mark_erased(self, agent_id: str) -> None:
        """Keep what the agent's sessions hold now out of every later archive."""
        check_ids(agent_id)

        def mark(connection: sqlite3.Connection) -> None:
            agent = agent_number(connection, agent_id)
            connection.execute(
                "UPDATE sessions SET erased = next_sequence - 1, archived = next_sequence - 1 WHERE agent = ?", (agent,)
            )
            for _, session in named_sessions(connection, agent_id):
                self._window.trim(connection, session)

        await self._file.write(mark)

    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        """All that is known of the session; None when there is none."""
        check_ids(agent_id, session_id)

        def copied(connection: sqlite3.Connection) -> SessionCopy | None:
            session = self._window.find(connection, agent_id, session_id)
            return session_copy(connection, session_id, session) if session else None

        return await self._file.read(copied)

    async def add_session(self, agent_id: str, copy: SessionCopy) -> bool:
        """Add the session as it was copied; False, and nothing, when there is one of its name."""
        check_ids(agent_id)
        copy = checked_copy(copy)

        def add(connection: sqlite3.Connection) -> bool:
            if find_session(connection, agent_id, copy.session_id) is not None:
                return False
            add_copy(connection, named_agent(connection, agent_id), copy)
            return True

        return await self._file.write(add)

    def _metadata(
        self, connection: sqlite3.Connection, agent_id: str, session_id: str, session: Session
    ) -> SessionMetadata:
        return SessionMetadata(
            agent_id=agent_id,
            session_id=session_id,
            turn_count=len(self._window.starts(connection, session)),
            created_at=session.created_at,
            last_active=session.last_active,
        )
