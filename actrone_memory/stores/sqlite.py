"""Both tiers in one SQLite file: no service, and everything is there again in the next process."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic_core import from_json, to_json

from actrone_memory import _validation
from actrone_memory._index import AgentIndex
from actrone_memory._ranking import Weights
from actrone_memory._session_log import REMEMBERED_RECORD_IDS, record_document, starts_of, turns_given_up
from actrone_memory._shelf import Prepared, Query, prepare, read_entry, terms_of, terms_recipe
from actrone_memory._sqlite_file import NotAtOnceError, Schema, SQLiteFile
from actrone_memory._store_calls import (
    by_activity,
    check_dimensions,
    check_identity,
    check_ids,
    check_settings,
    checked_copy,
    checked_query,
    dimensions_with,
    foreign_id,
    new_vectors,
)
from actrone_memory._turns import flatten, join_records
from actrone_memory.errors import ConfigurationError
from actrone_memory.models import ContentType, MemoryEntry, SessionMetadata, Turn
from actrone_memory.protocols import EmbedderIdentity, Page, SessionCopy

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA = Schema(
    version=1,
    statements=(
        # What holds for the whole file; one row.
        """CREATE TABLE file (
            embedder TEXT,
            embedder_dimensions INTEGER,
            dimensions INTEGER,
            first_sequence INTEGER NOT NULL DEFAULT 0,
            reindexes INTEGER NOT NULL DEFAULT 0,
            new_embedder TEXT,
            new_dimensions INTEGER
        )""",
        "INSERT INTO file (first_sequence) VALUES (0)",
        # An agent that was erased leaves the hash of its name, so that late writes are still refused.
        """CREATE TABLE agents (
            id INTEGER PRIMARY KEY,
            hash BLOB NOT NULL UNIQUE,
            name TEXT,
            epoch INTEGER NOT NULL DEFAULT 0,
            changes INTEGER NOT NULL DEFAULT 0,
            deletions INTEGER NOT NULL DEFAULT 0
        )""",
        """CREATE TABLE sessions (
            id INTEGER PRIMARY KEY,
            agent INTEGER NOT NULL,
            name TEXT NOT NULL,
            next_sequence INTEGER NOT NULL,
            archived INTEGER NOT NULL DEFAULT -1,
            erased INTEGER NOT NULL DEFAULT -1,
            expired INTEGER NOT NULL DEFAULT -1,
            hold INTEGER NOT NULL DEFAULT 0,
            created_at TEXT,
            last_active TEXT,
            written_at REAL NOT NULL DEFAULT 0,
            UNIQUE (agent, name)
        )""",
        "CREATE INDEX sessions_by_age ON sessions (written_at)",
        # A record that was trimmed keeps its id, without its document, so that a late retry is recognised.
        """CREATE TABLE records (
            session INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            name TEXT NOT NULL,
            opens INTEGER NOT NULL,
            document TEXT,
            UNIQUE (session, sequence),
            UNIQUE (session, name)
        )""",
        "CREATE INDEX turns ON records (session, sequence) WHERE opens AND document IS NOT NULL",
        """CREATE TABLE summary_locks (
            agent INTEGER NOT NULL,
            session TEXT NOT NULL,
            until REAL NOT NULL,
            PRIMARY KEY (agent, session)
        )""",
        # ``changed`` numbers the writes of an agent: what another process wrote since is what lies above. The terms of
        # the text are kept because to find them takes longer than all else that an index does when it is read.
        """CREATE TABLE memories (
            id TEXT NOT NULL UNIQUE,
            agent INTEGER NOT NULL,
            changed INTEGER NOT NULL,
            is_turn INTEGER NOT NULL,
            session TEXT NOT NULL,
            is_superseded INTEGER NOT NULL,
            document TEXT NOT NULL,
            vector BLOB,
            terms TEXT NOT NULL,
            terms_recipe INTEGER NOT NULL,
            UNIQUE (agent, changed)
        )""",
        "CREATE INDEX archived_turns ON memories (agent, session) WHERE is_turn",
        # Vectors of another embedder, until every entry has one.
        "CREATE TABLE new_vectors (id TEXT NOT NULL UNIQUE, changed INTEGER NOT NULL, vector BLOB)",
        "CREATE TRIGGER deleted AFTER DELETE ON memories BEGIN DELETE FROM new_vectors WHERE id = OLD.id; END",
    ),
)


class _Session(NamedTuple):
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


@dataclass(slots=True)
class _Held:
    """The index of one agent in this process, and up to which change of the file it goes."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    index: AgentIndex = field(default_factory=AgentIndex)
    changes: int = 0
    deletions: int = 0
    reindexes: int = 0

    def is_at(self, state: _State) -> bool:
        """Whether nothing was written since."""
        return (self.changes, self.deletions, self.reindexes) == state[1:]


def default_path() -> Path:
    """The file of this user: ``actrone-memory/memory.db`` where the system keeps data of programs.

    Raises:
        ConfigurationError: the user has no home folder.
    """
    try:
        return _data_folder() / "actrone-memory" / "memory.db"
    except RuntimeError:
        raise ConfigurationError(
            "There is no home folder for the default of sqlite_path: set ACTRONE_SQLITE_PATH to a file.",
            {"setting": "sqlite_path"},
        ) from None


def _data_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    named = Path(os.environ.get("XDG_DATA_HOME") or "-")
    return named if named.is_absolute() else Path.home() / ".local" / "share"


class SQLiteStore:
    """An `L1Store` and an `L2Store` with every capability in the file ``path``, for many threads and processes at once.

    A read sees what any process has written before it. A write that has returned survives a killed process. Each agent
    that is searched has its index in this process, read from the file by the first search and kept up to date.

    The file is opened by the first call, and made with mode 0600 if there is none or an empty one; `close` lets go of
    it, and a later call opens it again.

    ``path`` defaults to a file in the user's data folder. ``max_turns`` is the number of whole turns a session keeps;
    the weights order a search without ``query_text``. With ``session_ttl_seconds`` a session that nothing was appended
    to for so long reads as gone; the archive still gets what it has not taken over, and lists the session until then.

    Raises:
        ConfigurationError: ``path`` is no path, ``max_turns`` or ``session_ttl_seconds`` is not positive, or a weight
            lies outside [0, 1]. Also from every call: the file is not ours, newer or damaged.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        max_turns: int = 50,
        *,
        relevance_weight: float = 0.7,
        recency_weight: float = 0.3,
        session_ttl_seconds: float | None = None,
    ) -> None:
        check_settings(max_turns, relevance_weight, recency_weight)
        _check_ttl(session_ttl_seconds)
        self._file = SQLiteFile(_checked_path(path), SCHEMA, type(self).__name__)
        self._max_turns = max_turns
        self._weights = Weights(relevance_weight, recency_weight)
        self._ttl_seconds = session_ttl_seconds
        self._guard = threading.Lock()
        self._held: dict[str, _Held] = {}

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    # --- hot tier -------------------------------------------------------------------------------------------------

    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        """Append one record; one whose id this session has seen is not appended again."""
        await self.append_turns(agent_id, session_id, [turn])

    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        """Append all records in one step. With ``hold``, turns wait for ``mark_archived`` before they are trimmed."""
        check_ids(agent_id, session_id)
        _validation.flag(hold, "hold")
        records = _validation.records(turns, session_id)
        if records:
            await self._file.write(lambda c: self._append(c, agent_id, session_id, records, hold=hold))

    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        """The last ``n`` whole turns, oldest first; all that are kept when None."""
        check_ids(agent_id, session_id)
        limit = self._max_turns if n is None else min(_validation.positive_integer(n, "n"), self._max_turns)

        def last_turns(connection: sqlite3.Connection) -> list[Turn]:
            session = self._session(connection, agent_id, session_id)
            if session is None:
                return []
            starts = _starts(connection, session, session.expired + 1, last=limit)
            return _joined(_documents(connection, session, starts[0])) if starts else []

        return await self._file.read(last_turns)

    async def turn_count(self, agent_id: str, session_id: str) -> int:
        """Whole turns that are kept."""
        metadata = await self.get_session_metadata(agent_id, session_id)
        return metadata.turn_count if metadata else 0

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        """Forget the session, its marks and the record ids it has seen."""
        check_ids(agent_id, session_id)

        def clear(connection: sqlite3.Connection) -> None:
            agent = _agent(connection, agent_id)
            session = self._any_session(connection, agent_id, session_id)
            connection.execute("DELETE FROM summary_locks WHERE agent = ? AND session = ?", (agent, session_id))
            if session is not None:
                _forget_session(connection, session)
            _forget_name(connection, agent)

        await self._file.write(clear, wipe=True)

    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        """Size and age of the session; None when there is none."""
        check_ids(agent_id, session_id)

        def metadata(connection: sqlite3.Connection) -> SessionMetadata | None:
            session = self._session(connection, agent_id, session_id)
            return self._metadata(connection, agent_id, session_id, session) if session else None

        return await self._file.read(metadata)

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        """Every session of the agent, the most recently active first; an expired one until it is archived."""
        check_ids(agent_id)

        def sessions(connection: sqlite3.Connection) -> list[SessionMetadata]:
            found = connection.execute(
                f"SELECT sessions.name, {_SESSION} WHERE agents.hash = ? ORDER BY sessions.id", (_hash(agent_id),)
            ).fetchall()
            named = [(name, _session_of(row)) for name, *row in found]
            return [
                self._metadata(connection, agent_id, name, session)
                for name, session in named
                if not (self._has_expired(session) and _is_archived(session))
            ]

        return by_activity(await self._file.read(sessions))

    async def list_agents(self) -> list[str]:
        """Every agent that has a session or a memory here."""

        def names(connection: sqlite3.Connection) -> list[str]:
            found = connection.execute(
                "SELECT name FROM agents WHERE EXISTS (SELECT 1 FROM memories WHERE agent = agents.id) "
                "OR EXISTS (SELECT 1 FROM sessions WHERE agent = agents.id)"
            )
            return sorted(name for (name,) in found)

        return await self._file.read(names)

    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        """True for the first caller within ``ttl_seconds`` (0: for every caller), of whatever process."""
        check_ids(agent_id, session_id)
        _validation.whole_number(ttl_seconds, "ttl_seconds")

        def acquire(connection: sqlite3.Connection) -> bool:
            now, agent = time.time(), _agent(connection, agent_id)
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
            session = self._any_session(connection, agent_id, session_id)
            if session is None:
                return []
            begun = [start for start in _starts(connection, session) if start <= session.archived + 1]
            turns = _joined(_documents(connection, session, max(session.erased + 1, begun[-1] if begun else 0)))
            return [turn for turn in turns if (turn.records[-1].sequence or 0) > session.archived]

        return await self._file.read(pending)

    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        """Move the archived mark behind ``turns`` and trim what waited for it."""
        check_ids(agent_id, session_id)
        last = max((record.sequence or 0 for record in flatten(_validation.turns(turns))), default=-1)

        def mark(connection: sqlite3.Connection) -> None:
            session = self._any_session(connection, agent_id, session_id)
            if session is not None and last > session.archived:
                connection.execute("UPDATE sessions SET archived = ? WHERE id = ?", (last, session.id))
                self._trim(connection, session._replace(archived=last))

        await self._file.write(mark)

    async def mark_erased(self, agent_id: str) -> None:
        """Keep what the agent's sessions hold now out of every later archive."""
        check_ids(agent_id)

        def mark(connection: sqlite3.Connection) -> None:
            agent = _agent(connection, agent_id)
            connection.execute(
                "UPDATE sessions SET erased = next_sequence - 1, archived = next_sequence - 1 WHERE agent = ?", (agent,)
            )
            for row in connection.execute(f"SELECT {_SESSION} WHERE agent = ?", (agent,)).fetchall():
                self._trim(connection, _session_of(row))

        await self._file.write(mark)

    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        """All that is known of the session; None when there is none."""
        check_ids(agent_id, session_id)

        def copied(connection: sqlite3.Connection) -> SessionCopy | None:
            session = self._session(connection, agent_id, session_id)
            return _session_copy(connection, session_id, session) if session else None

        return await self._file.read(copied)

    async def add_session(self, agent_id: str, copy: SessionCopy) -> bool:
        """Add the session as it was copied; False, and nothing, when there is one of its name."""
        check_ids(agent_id)
        copy = checked_copy(copy)

        def add(connection: sqlite3.Connection) -> bool:
            if self._any_session(connection, agent_id, copy.session_id) is not None:
                return False
            _add_session(connection, _named_agent(connection, agent_id), copy)
            return True

        return await self._file.write(add)

    def _append(
        self, connection: sqlite3.Connection, agent_id: str, session_id: str, records: Sequence[Turn], *, hold: bool
    ) -> None:
        self._remove_expired(connection)
        session = self._session_to_append(connection, agent_id, session_id)._replace(hold=hold)
        first, goes_on = session.next_sequence, bool(_starts(connection, session, session.expired + 1, last=1))
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
        connection.execute(
            "UPDATE sessions SET next_sequence = ?, hold = ?, created_at = ?, last_active = ?, written_at = ? "
            "WHERE id = ?",
            (
                session.next_sequence,
                hold,
                _text(session.created_at),
                _text(session.last_active),
                time.time(),
                session.id,
            ),
        )
        if session.next_sequence > first:
            self._trim(connection, session)

    def _session_to_append(self, connection: sqlite3.Connection, agent_id: str, session_id: str) -> _Session:
        """The session, made if there is none; what has expired of it is only kept for the archive."""
        session = self._any_session(connection, agent_id, session_id)
        if session is None:
            connection.execute(
                "INSERT INTO sessions (agent, name, next_sequence) SELECT ?, ?, first_sequence FROM file",
                (_named_agent(connection, agent_id), session_id),
            )
            session = self._any_session(connection, agent_id, session_id)
            assert session is not None, "it was made just now, in this transaction"
        elif self._has_expired(session):
            session = session._replace(expired=session.next_sequence - 1, created_at=None, last_active=None)
            connection.execute("UPDATE sessions SET expired = ? WHERE id = ?", (session.expired, session.id))
        return session

    def _trim(self, connection: sqlite3.Connection, session: _Session) -> None:
        """Give up turns beyond the window or expired, and the ids of records given up long ago."""
        starts = _starts(connection, session)
        living = [start for start in starts if start > session.expired]
        given_up = turns_given_up(starts, self._max_turns, session.archived if session.hold else None)
        end = starts[given_up] if given_up else 0
        if len(living) < len(starts) and _is_archived(session, session.expired):
            end = max(end, session.expired + 1)
        connection.execute(
            "UPDATE records SET document = NULL WHERE session = ? AND sequence < ? AND document IS NOT NULL",
            (session.id, end),
        )
        connection.execute(
            "DELETE FROM records WHERE session = ? AND sequence < ? AND document IS NULL",
            (session.id, session.next_sequence - REMEMBERED_RECORD_IDS),
        )

    def _remove_expired(self, connection: sqlite3.Connection) -> None:
        """Forget the sessions of all agents that have expired and need no archive any more."""
        if self._ttl_seconds is None:
            return
        oldest = time.time() - self._ttl_seconds
        rows = connection.execute(f"SELECT {_SESSION} WHERE written_at < ?", (oldest,)).fetchall()
        for session in map(_session_of, rows):
            if _is_archived(session):
                _forget_session(connection, session)

    def _has_expired(self, session: _Session) -> bool:
        return self._ttl_seconds is not None and session.written_at < time.time() - self._ttl_seconds

    def _session(self, connection: sqlite3.Connection, agent_id: str, session_id: str) -> _Session | None:
        """The session as readers see it: None when it has expired."""
        session = self._any_session(connection, agent_id, session_id)
        return None if session is None or self._has_expired(session) else session

    def _any_session(self, connection: sqlite3.Connection, agent_id: str, session_id: str) -> _Session | None:
        rows = connection.execute(
            f"SELECT {_SESSION} WHERE agents.hash = ? AND sessions.name = ?", (_hash(agent_id), session_id)
        ).fetchall()
        return _session_of(rows[0]) if rows else None

    def _metadata(
        self, connection: sqlite3.Connection, agent_id: str, session_id: str, session: _Session
    ) -> SessionMetadata:
        return SessionMetadata(
            agent_id=agent_id,
            session_id=session_id,
            turn_count=len(_starts(connection, session, session.expired + 1, last=self._max_turns)),
            created_at=session.created_at,
            last_active=session.last_active,
        )

    # --- cold tier ------------------------------------------------------------------------------------------------

    async def upsert(self, entry: MemoryEntry) -> None:
        """Store or replace one entry.

        Raises:
            ValidationError: another agent owns the id, or the embedding has other dimensions than those stored.
        """
        await self.upsert_many([entry])

    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        """Store all entries of one agent; none, and False, when ``epoch`` is no longer the agent's erasure epoch."""
        checked = _validation.entries(entries)
        if epoch is not None:
            _validation.whole_number(epoch, "epoch")
        if not checked:
            return True
        rows = [prepare(entry) for entry in checked]
        return await self._file.write(lambda c: _put(c, rows, epoch))

    async def erasure_epoch(self, agent_id: str) -> int:
        """Changes whenever memories of the agent are erased, by whatever process."""
        check_ids(agent_id)
        row = await self._glance("SELECT epoch FROM agents WHERE hash = ?", (_hash(agent_id),))
        return int(row[0]) if row else 0

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """The agent's entry of this id, superseded or not."""
        check_ids(agent_id)
        _validation.identifier(memory_id, "memory_id")

        def entry(connection: sqlite3.Connection) -> MemoryEntry | None:
            rows = connection.execute(
                "SELECT CAST(document AS BLOB) FROM memories JOIN agents ON agents.id = agent "
                "WHERE memories.id = ? AND hash = ?",
                (memory_id, _hash(agent_id)),
            ).fetchall()
            return read_entry(rows[0][0]) if rows else None

        return await self._file.read(entry)

    async def memory_ids(self, agent_id: str) -> list[str]:
        """The ids of all of the agent's entries, superseded ones included, in the order of their writes."""
        check_ids(agent_id)

        def ids(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute(
                "SELECT memories.id FROM memories JOIN agents ON agents.id = agent WHERE hash = ? "
                "ORDER BY is_superseded, is_turn, changed",
                (_hash(agent_id),),
            )
            return [memory_id for (memory_id,) in rows]

        return await self._file.read(ids)

    async def get_with_embeddings(self, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
        """The agent's entries of these ids, in order, each with the vector that is compared; others are left out."""
        check_ids(agent_id)
        wanted = _validation.texts(memory_ids, "memory_ids")
        return await self._file.read(lambda c: _with_embeddings(c, agent_id, wanted))

    async def list_memories(
        self,
        agent_id: str,
        *,
        content_types: Sequence[ContentType] | None = None,
        include_superseded: bool = False,
    ) -> list[MemoryEntry]:
        """All entries of these types, oldest first."""
        check_ids(agent_id)
        _validation.flag(include_superseded, "include_superseded")
        types = _validation.content_types(content_types)

        def entries(connection: sqlite3.Connection) -> list[MemoryEntry]:
            rows = connection.execute(
                "SELECT CAST(document AS BLOB) FROM memories JOIN agents ON agents.id = agent "
                "WHERE hash = ? AND is_superseded <= ? ORDER BY is_superseded, is_turn, changed",
                (_hash(agent_id), include_superseded),
            )
            found = [read_entry(document) for (document,) in rows]
            wanted = [entry for entry in found if types is None or entry.content_type in types]
            return sorted(wanted, key=lambda entry: entry.timestamp)

        return await self._file.read(entries)

    async def search(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        limit: int = 20,
        content_types: list[ContentType] | None = None,
        query_text: str | None = None,
    ) -> list[MemoryEntry]:
        """The best matches, each with its ``score``; as `InMemoryStore.search` finds and orders them.

        Raises:
            ValidationError: ``limit`` below 1, or a query of other dimensions than the stored vectors.
        """
        page = await self.search_page(
            agent_id,
            query_embedding,
            threshold,
            limit=limit,
            consider=limit,
            content_types=content_types,
            query_text=query_text,
        )
        return page.entries

    async def search_page(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        *,
        background: tuple[float, float] | None = None,
        newer_first: bool = False,
        limit: int,
        consider: int,
        content_types: list[ContentType] | None = None,
        query_text: str | None = None,
        tags: list[str] | None = None,
    ) -> Page:
        """The ``limit`` best matches that carry any of ``tags``, and the ids of all considered; see `PagedSearch`."""
        check_ids(agent_id)
        query = checked_query(
            query_embedding,
            threshold,
            self._weights,
            background=background,
            newer_first=newer_first,
            limit=limit,
            consider=consider,
            content_types=content_types,
            query_text=query_text,
            tags=tags,
        )
        held = self._held_index(agent_id)
        page = self._search_at_once(agent_id, held, query)
        return page if page is not None else await self._file.read(lambda c: _search(c, agent_id, held, query))

    async def delete(self, memory_id: str) -> None:
        """Delete one entry, whoever owns it; deleting nothing is no error."""
        _validation.identifier(memory_id, "memory_id")

        def delete(connection: sqlite3.Connection) -> None:
            owners = connection.execute("SELECT agent FROM memories WHERE id = ?", (memory_id,)).fetchall()
            for (agent,) in owners:
                _delete(connection, agent, "id = ?", memory_id)

        await self._file.write(delete, wipe=True)

    async def delete_agent_memories(self, agent_id: str) -> None:
        """Delete every entry of the agent and change its erasure epoch."""
        check_ids(agent_id)

        def delete(connection: sqlite3.Connection) -> None:
            agent = _next_epoch(connection, agent_id)
            _delete(connection, agent, "1")

        await self._file.write(delete, wipe=True)
        with self._guard:
            self._held.pop(agent_id, None)

    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        """Delete the archived turns of one session and change the agent's erasure epoch."""
        check_ids(agent_id, session_id)

        def delete(connection: sqlite3.Connection) -> None:
            agent = _next_epoch(connection, agent_id)
            _delete(connection, agent, "is_turn AND session = ?", session_id)

        await self._file.write(delete, wipe=True)

    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        """Remember whose vectors these are; once some are stored, the answer is the one that filled the store."""
        check_identity(identity)
        if await self._glance("SELECT embedder, embedder_dimensions FROM file") == tuple(identity):
            return identity

        def bind(connection: sqlite3.Connection) -> EmbedderIdentity:
            ((name, dimensions),) = connection.execute("SELECT embedder, embedder_dimensions FROM file").fetchall()
            if name is not None and connection.execute("SELECT 1 FROM memories LIMIT 1").fetchall():
                return EmbedderIdentity(name, dimensions)
            connection.execute("UPDATE file SET embedder = ?, embedder_dimensions = ?", tuple(identity))
            return identity

        return await self._file.write(bind)

    async def begin_reindex(self, identity: EmbedderIdentity) -> list[tuple[str, str]]:
        """Agent and id of every entry that has no vector of this embedder yet; what another one began is dropped."""
        check_identity(identity)

        def begin(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            embedders = _embedders(connection)
            if embedders.present == identity:
                return []
            if embedders.new != identity:
                connection.execute("DELETE FROM new_vectors")
                connection.execute("UPDATE file SET new_embedder = ?, new_dimensions = ?", tuple(identity))
            return connection.execute(f"SELECT agents.name, memories.id {_WITHOUT_NEW_VECTOR}").fetchall()

        return await self._file.write(begin)

    async def add_vectors(self, identity: EmbedderIdentity, entries: Sequence[MemoryEntry]) -> None:
        """Keep these embeddings beside the present ones; an entry that has changed since needs another."""
        check_identity(identity)
        rows = new_vectors(identity, entries)

        def add(connection: sqlite3.Connection) -> None:
            if _embedders(connection).new == identity:
                connection.executemany(
                    "INSERT OR REPLACE INTO new_vectors "
                    "SELECT id, changed, ? FROM memories WHERE id = ? AND document = ?",
                    ((_blob(vector), memory_id, document.decode()) for memory_id, document, vector in rows),
                )

        await self._file.write(add)

    async def finish_reindex(self, identity: EmbedderIdentity) -> bool:
        """Put the new vectors in place and remember their embedder; False, and nothing, while an entry needs one."""
        check_identity(identity)

        def finish(connection: sqlite3.Connection) -> bool:
            embedders = _embedders(connection)
            if embedders.present == identity:
                return True
            if embedders.new != identity or connection.execute(f"SELECT 1 {_WITHOUT_NEW_VECTOR} LIMIT 1").fetchall():
                return False
            connection.execute(
                "UPDATE memories SET vector = (SELECT vector FROM new_vectors WHERE new_vectors.id = memories.id)"
            )
            connection.execute("DELETE FROM new_vectors")
            connection.execute(
                "UPDATE file SET embedder = new_embedder, embedder_dimensions = new_dimensions, new_embedder = NULL, "
                "reindexes = reindexes + 1, "
                "dimensions = CASE WHEN EXISTS (SELECT 1 FROM memories) THEN new_dimensions END"
            )
            return True

        return await self._file.write(finish)

    async def close(self) -> None:
        """Let go of the file and of the indexes; a later call opens the file again."""
        await self._file.close()
        with self._guard:
            self._held.clear()

    async def _glance(self, query: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """The first row of a quick query."""
        try:
            return self._file.glance(query, parameters)
        except NotAtOnceError:
            rows = await self._file.read(lambda c: c.execute(query, parameters).fetchall())
            return rows[0] if rows else None

    def _held_index(self, agent_id: str) -> _Held:
        with self._guard:
            return self._held.setdefault(agent_id, _Held())

    def _search_at_once(self, agent_id: str, held: _Held, query: Query) -> Page | None:
        """What the index finds, without waiting for anything; None when it is busy or behind the file."""
        if not held.lock.acquire(blocking=False):
            return None
        try:
            state = _State.of(self._file.glance(_STATE, (_hash(agent_id),)))
            if not held.is_at(state):
                return None
            return _found(held.index, query, state.dimensions)
        except NotAtOnceError:
            return None
        finally:
            held.lock.release()


# --- agents -----------------------------------------------------------------------------------------------------------


def _hash(agent_id: str) -> bytes:
    return hashlib.sha256(agent_id.encode()).digest()


def _agent(connection: sqlite3.Connection, agent_id: str) -> int:
    """The number of the agent, whose name the file learns with the first thing that it stores."""
    connection.execute("INSERT OR IGNORE INTO agents (hash) VALUES (?)", (_hash(agent_id),))
    ((agent,),) = connection.execute("SELECT id FROM agents WHERE hash = ?", (_hash(agent_id),)).fetchall()
    return int(agent)


def _named_agent(connection: sqlite3.Connection, agent_id: str) -> int:
    agent = _agent(connection, agent_id)
    connection.execute("UPDATE agents SET name = ? WHERE id = ? AND name IS NULL", (agent_id, agent))
    return agent


def _forget_name(connection: sqlite3.Connection, agent: int) -> None:
    """Forget the name of an agent of which nothing is stored any more."""
    connection.execute(
        "UPDATE agents SET name = NULL WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM memories WHERE agent = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM sessions WHERE agent = ?1)",
        (agent,),
    )


def _next_epoch(connection: sqlite3.Connection, agent_id: str) -> int:
    """Refuse every write that began before; returns the number of the agent."""
    agent = _agent(connection, agent_id)
    connection.execute("UPDATE agents SET epoch = epoch + 1 WHERE id = ?", (agent,))
    return agent


# --- sessions ---------------------------------------------------------------------------------------------------------

_SESSION = (
    "sessions.id, next_sequence, archived, erased, expired, hold, created_at, last_active, written_at "
    "FROM sessions JOIN agents ON agents.id = agent"
)


def _session_of(row: Sequence[Any]) -> _Session:
    return _Session._make((*row[:6], _time(row[6]), _time(row[7]), row[8]))


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _is_archived(session: _Session, last: int | None = None) -> bool:
    """Whether nothing up to record ``last`` (default: the newest) waits for the archive."""
    return not session.hold or session.archived >= (session.next_sequence - 1 if last is None else last)


def _starts(
    connection: sqlite3.Connection, session: _Session, first: int = 0, *, last: int = _validation.LARGEST_INTEGER
) -> list[int]:
    """The numbers at which the ``last`` kept turns begin, none before ``first``, in order."""
    rows = connection.execute(
        "SELECT sequence FROM records WHERE session = ? AND opens AND document IS NOT NULL AND sequence >= ? "
        "ORDER BY sequence DESC LIMIT ?",
        (session.id, first, last),
    ).fetchall()
    return [sequence for (sequence,) in reversed(rows)]


def _documents(connection: sqlite3.Connection, session: _Session, first: int) -> Iterator[bytes]:
    rows = connection.execute(
        "SELECT CAST(document AS BLOB) FROM records WHERE session = ? AND sequence >= ? AND document IS NOT NULL "
        "ORDER BY sequence",
        (session.id, first),
    )
    return (document for (document,) in rows)


def _joined(documents: Iterator[bytes]) -> list[Turn]:
    return join_records(map(Turn.model_validate_json, documents))


def _session_copy(connection: sqlite3.Connection, session_id: str, session: _Session) -> SessionCopy:
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


def _add_session(connection: sqlite3.Connection, agent: int, copy: SessionCopy) -> None:
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


def _forget_session(connection: sqlite3.Connection, session: _Session) -> None:
    connection.execute("DELETE FROM records WHERE session = ?", (session.id,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session.id,))
    # A mark for this session may still be on its way: it must lie before what comes next.
    connection.execute("UPDATE file SET first_sequence = max(first_sequence, ?)", (session.next_sequence,))


# --- memories ---------------------------------------------------------------------------------------------------------

_STATE = (
    "SELECT dimensions, coalesce(changes, 0), coalesce(deletions, 0), reindexes "
    "FROM file LEFT JOIN agents ON agents.hash = ?"
)


class _State(NamedTuple):
    """How far an agent's memories have come in the file, and the dimensions of the vectors of all."""

    dimensions: int | None
    changes: int
    deletions: int
    reindexes: int

    @classmethod
    def of(cls, row: tuple[Any, ...] | None) -> _State:
        assert row is not None, "the table of the file has one row"
        return cls(*row)


def _put(connection: sqlite3.Connection, rows: Sequence[Prepared], epoch: int | None) -> bool:
    """Store the entries, after what an erasure, another owner or other dimensions forbid."""
    entries = [row.entry for row in rows]
    agent_id = entries[0].agent_id
    agent = _agent(connection, agent_id)
    ((current, changes),) = connection.execute("SELECT epoch, changes FROM agents WHERE id = ?", (agent,)).fetchall()
    if epoch is not None and epoch != current:
        return False
    for entry in entries:
        if connection.execute("SELECT 1 FROM memories WHERE id = ? AND agent <> ?", (entry.id, agent)).fetchall():
            raise foreign_id(entry.id)
    ((held,),) = connection.execute("SELECT dimensions FROM file").fetchall()
    dimensions = dimensions_with(held, entries)
    if dimensions != held:
        connection.execute("UPDATE file SET dimensions = ?", (dimensions,))
    connection.executemany(
        "INSERT OR REPLACE INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (_columns(row, agent, changed) for changed, row in enumerate(rows, start=changes + 1)),
    )
    connection.execute("UPDATE agents SET changes = ? WHERE id = ?", (changes + len(rows), agent))
    _named_agent(connection, agent_id)
    return True


def _columns(row: Prepared, agent: int, changed: int) -> tuple[object, ...]:
    entry, superseded = row.entry, row.entry.superseded_by is not None
    return (
        entry.id,
        agent,
        changed,
        entry.content_type == "turn",
        entry.session_id,
        superseded,
        row.document.decode(),
        None if superseded else _blob(row.vector),  # what is superseded is never compared again
        to_json(row.terms).decode(),
        terms_recipe(),
    )


def _blob(vector: NDArray[np.float32]) -> bytes | None:
    """A vector as it is stored; one without a direction says no more than none."""
    return vector.tobytes() if vector.any() else None


def _with_embeddings(connection: sqlite3.Connection, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
    found = []
    for memory_id in memory_ids:
        rows = connection.execute(
            "SELECT CAST(document AS BLOB), vector FROM memories JOIN agents ON agents.id = agent "
            "WHERE memories.id = ? AND hash = ?",
            (memory_id, _hash(agent_id)),
        ).fetchall()
        for document, vector in rows:
            entry = read_entry(document)
            entry.embedding = None if vector is None else np.frombuffer(vector, np.float32).tolist()
            found.append(entry)
    return found


_WITHOUT_NEW_VECTOR = (
    "FROM memories JOIN agents ON agents.id = agent "
    "LEFT JOIN new_vectors ON new_vectors.id = memories.id AND new_vectors.changed = memories.changed "
    "WHERE new_vectors.id IS NULL AND NOT is_superseded"
)


class _Embedders(NamedTuple):
    """Whose vectors are in place, and whose are being made."""

    present: EmbedderIdentity
    new: EmbedderIdentity


def _embedders(connection: sqlite3.Connection) -> _Embedders:
    ((*present, new, dimensions),) = connection.execute(
        "SELECT embedder, embedder_dimensions, new_embedder, new_dimensions FROM file"
    ).fetchall()
    return _Embedders(EmbedderIdentity(*present), EmbedderIdentity(new, dimensions))


def _prepared(document: bytes, vector: bytes | None, terms: bytes, recipe: int) -> Prepared:
    """The entry of some columns, with its terms as they would be found today."""
    entry = read_entry(document)
    known = from_json(terms) if recipe == terms_recipe() else terms_of(entry)
    return Prepared(entry, document, np.frombuffer(vector or b"", np.float32), known)


def _delete(connection: sqlite3.Connection, agent: int, condition: str, *parameters: object) -> None:
    """Delete the agent's memories that meet a condition of ours."""
    deleted = connection.execute(f"DELETE FROM memories WHERE agent = ? AND {condition}", (agent, *parameters))  # noqa: S608
    if deleted.rowcount:
        connection.execute("UPDATE agents SET deletions = deletions + 1 WHERE id = ?", (agent,))
        connection.execute("UPDATE file SET dimensions = NULL WHERE NOT EXISTS (SELECT 1 FROM memories)")
    _forget_name(connection, agent)


def _search(connection: sqlite3.Connection, agent_id: str, held: _Held, query: Query) -> Page:
    """What the index finds once it holds what the file holds."""
    with held.lock:
        state = _State.of(connection.execute(_STATE, (_hash(agent_id),)).fetchall()[0])
        _bring_up_to_date(connection, agent_id, held, state)
        return _found(held.index, query, state.dimensions)


def _found(index: AgentIndex, query: Query, dimensions: int | None) -> Page:
    if not len(index):
        return Page([], [])
    check_dimensions(dimensions, query.vector.size, "query_embedding")
    return index.search(query)


def _bring_up_to_date(connection: sqlite3.Connection, agent_id: str, held: _Held, state: _State) -> None:
    """Put into the index what was written since it was last looked at, and take out what was deleted."""
    if state.reindexes != held.reindexes or state.changes < held.changes or state.deletions < held.deletions:
        # Other vectors, or another file, took the place of those that were read.
        held.index, held.changes, held.deletions = AgentIndex(), 0, 0
    if state.deletions != held.deletions:
        _take_out_deleted(connection, agent_id, held)
    rows = connection.execute(
        "SELECT CAST(document AS BLOB), vector, CAST(terms AS BLOB), terms_recipe "
        "FROM memories JOIN agents ON agents.id = agent WHERE hash = ? AND changed > ? ORDER BY changed",
        (_hash(agent_id), held.changes),
    )
    for row in rows:
        held.index.put(_prepared(*row))
    held.changes, held.deletions, held.reindexes = state[1:]


def _take_out_deleted(connection: sqlite3.Connection, agent_id: str, held: _Held) -> None:
    rows = connection.execute(
        "SELECT memories.id FROM memories JOIN agents ON agents.id = agent WHERE hash = ?", (_hash(agent_id),)
    )
    gone = set(held.index.ids()).difference(memory_id for (memory_id,) in rows)
    if 2 * len(gone) > len(held.index):
        held.index, held.changes = AgentIndex(), 0  # quicker to read what is left
    for memory_id in gone if held.changes else ():
        held.index.remove(memory_id)


def _check_ttl(seconds: object) -> None:
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ConfigurationError(f"session_ttl_seconds must be a positive number, is {_validation.shown(seconds)}")


def _checked_path(path: object) -> Path:
    if path is None:
        return default_path()
    try:
        if not isinstance(path, str | os.PathLike) or not str(path).strip() or str(path) == ":memory:":
            raise ValueError("name a file, or use InMemoryStore")
        checked = Path(path).expanduser().absolute()
        os.fsencode(checked)
        if "\x00" in str(checked):
            raise ValueError("a path holds no NUL character")
    except (ValueError, RuntimeError, TypeError) as error:
        raise ConfigurationError(
            f"sqlite_path={_validation.shown(path)} is no path of a file: {error}.", {"setting": "sqlite_path"}
        ) from None
    return checked
