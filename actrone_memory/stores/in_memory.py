"""Both tiers in the memory of this process: no service, no file, nothing left when the process ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from actrone_memory import _validation
from actrone_memory._index import AgentIndex
from actrone_memory._page_search import PageSearch
from actrone_memory._ranking import Weights
from actrone_memory._session_log import SessionLog
from actrone_memory._shelf import Query, prepare
from actrone_memory._store_calls import (
    by_activity,
    check_dimensions,
    check_identity,
    check_ids,
    check_settings,
    checked_copy,
    dimensions_with,
    foreign_id,
    new_vectors,
)
from actrone_memory._turns import flatten, join_records
from actrone_memory.models import ContentType, MemoryEntry, SessionMetadata, Turn
from actrone_memory.protocols import EmbedderIdentity, Page, SessionCopy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class InMemoryStore(PageSearch):
    """An `L1Store` and an `L2Store` with every capability, safe to use from many threads and event loops.

    ``max_turns`` is the number of whole turns a session keeps. The weights order a search without ``query_text``.

    Raises:
        ConfigurationError: ``max_turns`` below 1, or a weight outside [0, 1].
    """

    def __init__(self, max_turns: int = 50, *, relevance_weight: float = 0.7, recency_weight: float = 0.3) -> None:
        check_settings(max_turns, relevance_weight, recency_weight)
        self._max_turns = max_turns
        self._weights = Weights(relevance_weight, recency_weight)
        # Reentrant, and held for computation only: no method waits for anything else while it holds it.
        self._lock = threading.RLock()
        self._sessions: dict[str, dict[str, SessionLog]] = {}
        self._summary_locks: dict[tuple[str, str], float] = {}
        self._indexes: dict[str, AgentIndex] = {}
        self._owners: dict[str, str] = {}
        self._epochs: dict[str, int] = {}
        self._embedder: EmbedderIdentity | None = None
        self._dimensions: int | None = None
        self._first_sequence = 0
        self._new_embedder: EmbedderIdentity | None = None
        self._new_vectors: dict[str, tuple[bytes, NDArray[np.float32]]] = {}

    # --- hot tier -------------------------------------------------------------------------------------------------

    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        """Append one record; one whose id this session has seen is not appended again."""
        await self.append_turns(agent_id, session_id, [turn])

    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        """Append all records in one step. With ``hold``, turns wait for ``mark_archived`` before they are trimmed."""
        check_ids(agent_id, session_id)
        _validation.flag(hold, "hold")
        records = _validation.records(turns, session_id)
        if not records:
            return
        with self._lock:
            session = self._sessions.setdefault(agent_id, {}).get(session_id)
            if session is None:
                session = self._sessions[agent_id][session_id] = SessionLog(self._first_sequence)
            session.append(records, hold=hold)
            session.trim(self._max_turns)

    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        """The last ``n`` whole turns, oldest first; all that are kept when None."""
        limit = self._max_turns if n is None else min(_validation.positive_integer(n, "n"), self._max_turns)
        with self._lock:
            session = self._session(agent_id, session_id)
            documents = session.last_turns(limit) if session else []
        return join_records(map(Turn.model_validate_json, documents))

    async def turn_count(self, agent_id: str, session_id: str) -> int:
        """Whole turns that are kept."""
        with self._lock:
            session = self._session(agent_id, session_id)
            return min(len(session.starts), self._max_turns) if session else 0

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        """Forget the session, its marks and the record ids it has seen."""
        check_ids(agent_id, session_id)
        with self._lock:
            session = self._sessions.get(agent_id, {}).pop(session_id, None)
            if session:
                # A mark for the cleared session may still be on its way: it must lie before what comes next.
                self._first_sequence = max(self._first_sequence, session.next_sequence)
            self._summary_locks.pop((agent_id, session_id), None)

    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        """Size and age of the session; None when there is none."""
        with self._lock:
            session = self._session(agent_id, session_id)
            return self._metadata(agent_id, session_id, session) if session else None

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        """Every session of the agent, the most recently active first."""
        check_ids(agent_id)
        with self._lock:
            sessions = self._sessions.get(agent_id, {})
            found = [self._metadata(agent_id, name, session) for name, session in sessions.items()]
        return by_activity(found)

    async def list_agents(self) -> list[str]:
        """Every agent that has a session or a memory here."""
        with self._lock:
            return sorted({*(agent for agent, sessions in self._sessions.items() if sessions), *self._indexes})

    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        """True for the first caller within ``ttl_seconds`` (0: for every caller)."""
        check_ids(agent_id, session_id)
        _validation.whole_number(ttl_seconds, "ttl_seconds")
        with self._lock:
            now = time.monotonic()
            if self._summary_locks.get((agent_id, session_id), now) > now:
                return False
            self._summary_locks[agent_id, session_id] = now + ttl_seconds
            return True

    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        """Whole turns that end after the archived mark, trimmed-window backlog included."""
        with self._lock:
            session = self._session(agent_id, session_id)
            documents = session.pending() if session else []
            archived = session.archived if session else -1
        turns = join_records(map(Turn.model_validate_json, documents))
        return [turn for turn in turns if (turn.records[-1].sequence or 0) > archived]

    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        """Move the archived mark behind ``turns`` and trim what waited for it."""
        last = max((record.sequence or 0 for record in flatten(_validation.turns(turns))), default=-1)
        with self._lock:
            session = self._session(agent_id, session_id)
            if session:
                session.archived = max(session.archived, last)
                session.trim(self._max_turns)

    async def mark_erased(self, agent_id: str) -> None:
        """Keep what the agent's sessions hold now out of every later archive."""
        check_ids(agent_id)
        with self._lock:
            for session in self._sessions.get(agent_id, {}).values():
                session.erased = session.archived = session.next_sequence - 1
                session.trim(self._max_turns)

    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        """All that is known of the session; None when there is none."""
        with self._lock:
            session = self._session(agent_id, session_id)
            return session.copy(session_id) if session else None

    async def add_session(self, agent_id: str, copy: SessionCopy) -> bool:
        """Add the session as it was copied; False, and nothing, when there is one of its name."""
        check_ids(agent_id)
        copy = checked_copy(copy)
        with self._lock:
            sessions = self._sessions.setdefault(agent_id, {})
            if copy.session_id in sessions:
                return False
            sessions[copy.session_id] = SessionLog.of(copy)
            return True

    def _session(self, agent_id: str, session_id: str) -> SessionLog | None:
        check_ids(agent_id, session_id)
        return self._sessions.get(agent_id, {}).get(session_id)

    def _metadata(self, agent_id: str, session_id: str, session: SessionLog) -> SessionMetadata:
        return SessionMetadata(
            agent_id=agent_id,
            session_id=session_id,
            turn_count=min(len(session.starts), self._max_turns),
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
        agent_id = checked[0].agent_id
        prepared = [prepare(entry) for entry in checked]
        with self._lock:
            if epoch is not None and epoch != self._epochs.get(agent_id, 0):
                return False
            for entry in checked:
                if self._owners.get(entry.id, agent_id) != agent_id:
                    raise foreign_id(entry.id)
            self._dimensions = dimensions_with(self._dimensions, checked)
            index = self._indexes.setdefault(agent_id, AgentIndex())
            for one in prepared:
                index.put(one)
                self._owners[one.entry.id] = agent_id
        return True

    async def erasure_epoch(self, agent_id: str) -> int:
        """Changes whenever memories of the agent are erased."""
        check_ids(agent_id)
        with self._lock:
            return self._epochs.get(agent_id, 0)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """The agent's entry of this id, superseded or not."""
        check_ids(agent_id)
        _validation.identifier(memory_id, "memory_id")
        with self._lock:
            index = self._indexes.get(agent_id)
            return index.get(memory_id) if index else None

    async def memory_ids(self, agent_id: str) -> list[str]:
        """The ids of all of the agent's entries, superseded ones included, in the order of their writes."""
        check_ids(agent_id)
        with self._lock:
            index = self._indexes.get(agent_id)
            return index.ids() if index else []

    async def get_with_embeddings(self, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
        """The agent's entries of these ids, in order, each with the vector that is compared; others are left out."""
        check_ids(agent_id)
        wanted = _validation.texts(memory_ids, "memory_ids")
        with self._lock:
            index = self._indexes.get(agent_id)
            found = [index.get_with_embedding(memory_id) for memory_id in wanted] if index else []
        return [entry for entry in found if entry is not None]

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
        with self._lock:
            index = self._indexes.get(agent_id)
            return index.entries(types, include_superseded=include_superseded) if index else []

    async def _answer(self, agent_id: str, query: Query) -> Page:
        with self._lock:
            index = self._indexes.get(agent_id)
            if not index:
                return Page([], [])
            check_dimensions(self._dimensions, query.vector.size, "query_embedding")
            return index.search(query)

    async def delete(self, memory_id: str) -> None:
        """Delete one entry, whoever owns it; deleting nothing is no error."""
        _validation.identifier(memory_id, "memory_id")
        with self._lock:
            owner = self._owners.get(memory_id)
            if owner is not None:
                self._indexes[owner].remove(memory_id)
                self._disown(owner, [memory_id])

    async def delete_agent_memories(self, agent_id: str) -> None:
        """Delete every entry of the agent and change its erasure epoch."""
        check_ids(agent_id)
        with self._lock:
            self._epochs[agent_id] = self._epochs.get(agent_id, 0) + 1
            index = self._indexes.get(agent_id)
            if index:
                self._indexes[agent_id] = AgentIndex()
                self._disown(agent_id, index.ids())

    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        """Delete the archived turns of one session and change the agent's erasure epoch."""
        check_ids(agent_id, session_id)
        with self._lock:
            self._epochs[agent_id] = self._epochs.get(agent_id, 0) + 1
            index = self._indexes.get(agent_id)
            if index:
                self._disown(agent_id, index.remove_session_turns(session_id))

    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        """Remember whose vectors these are; once some are stored, the answer is the one that filled the store."""
        check_identity(identity)
        with self._lock:
            if self._embedder is None or not self._owners:
                self._embedder = identity
            return self._embedder

    async def begin_reindex(self, identity: EmbedderIdentity) -> list[tuple[str, str]]:
        """Agent and id of every entry that has no vector of this embedder yet; what another one began is dropped."""
        check_identity(identity)
        with self._lock:
            if identity == self._embedder:
                return []
            if identity != self._new_embedder:
                self._new_embedder, self._new_vectors = identity, {}
            return self._without_new_vector()

    async def add_vectors(self, identity: EmbedderIdentity, entries: Sequence[MemoryEntry]) -> None:
        """Keep these embeddings beside the present ones; an entry that has changed since needs another."""
        check_identity(identity)
        rows = new_vectors(identity, entries)
        with self._lock:
            if identity == self._new_embedder:
                self._new_vectors.update((memory_id, (document, vector)) for memory_id, document, vector in rows)

    async def finish_reindex(self, identity: EmbedderIdentity) -> bool:
        """Put the new vectors in place and remember their embedder; False, and nothing, while an entry needs one."""
        check_identity(identity)
        with self._lock:
            if identity == self._embedder:
                return True
            if identity != self._new_embedder or self._without_new_vector():
                return False
            vectors = {memory_id: vector for memory_id, (_, vector) in self._new_vectors.items()}
            for index in self._indexes.values():
                index.replace_vectors(vectors, identity.dimensions)
            self._embedder, self._new_embedder, self._new_vectors = identity, None, {}
            self._dimensions = identity.dimensions if self._owners else None
            return True

    def _without_new_vector(self) -> list[tuple[str, str]]:
        """Agent and id of what is searched and has no new vector for its present state."""
        return [
            (agent_id, memory_id)
            for agent_id, index in self._indexes.items()
            for memory_id, document in index.searched()
            if self._new_vectors.get(memory_id, (None,))[0] != document
        ]

    async def close(self) -> None:
        """Nothing to release: the data stays until the object is gone."""

    def _disown(self, agent_id: str, removed: Iterable[str]) -> None:
        for memory_id in removed:
            del self._owners[memory_id]
            self._new_vectors.pop(memory_id, None)
        if not len(self._indexes[agent_id]):
            del self._indexes[agent_id]
        if not self._owners:
            self._dimensions = None
