"""What the manager may ask of any store: its own methods where it has them, stand-ins made of the documented ones.

Whatever a foreign store raises leaves here as a `StoreConnectionError` that names the store.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager

import numpy as np

from actrone_memory import _newer_first
from actrone_memory._turns import flatten, join_records
from actrone_memory.errors import ActroneMemoryError, ConfigurationError, StoreConnectionError
from actrone_memory.models import ContentType, MemoryEntry, SessionMetadata, Turn
from actrone_memory.protocols import (
    AgentListing,
    ArchiveLog,
    BatchWrites,
    EmbedderBinding,
    EmbedderIdentity,
    EntryAccess,
    EntryTransfer,
    L1Store,
    L2Store,
    MemoryListing,
    Page,
    PagedSearch,
    Reindexing,
    SessionCopy,
    SessionListing,
    SessionTransfer,
    SessionTurns,
    TurnBatches,
)

EVERYTHING = 1_000_000
"""Limit of a search that stands in for a listing."""


class HotTier:
    """An `L1Store` with every L1 capability."""

    def __init__(self, store: L1Store) -> None:
        self.store = store
        self._batches = store if isinstance(store, TurnBatches) else None
        self._archive_log = store if isinstance(store, ArchiveLog) else None
        self._log = _ProcessArchiveLog()

    async def append(self, agent_id: str, session_id: str, records: Sequence[Turn], *, hold: bool) -> None:
        """Append the records; in one step where the store can."""
        with _named_errors(self.store):
            if self._batches is not None:
                await self._batches.append_turns(agent_id, session_id, records, hold=hold)
            else:
                self._log.know(agent_id, session_id)
                for record in records:
                    await self.store.append_turn(agent_id, session_id, record)

    async def recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        """The last ``n`` whole turns, oldest first."""
        with _named_errors(self.store):
            counts_whole_turns = self._batches is not None
            records = await self.store.get_recent_turns(agent_id, session_id, n if counts_whole_turns else None)
        turns = join_records(records)
        return turns if n is None else turns[-n:]

    async def metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        """Size and age of the session."""
        with _named_errors(self.store):
            return await self.store.get_session_metadata(agent_id, session_id)

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        """Forget the session."""
        with _named_errors(self.store):
            await self.store.clear_session(agent_id, session_id)
        self._log.forget(agent_id, session_id)

    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        """True for the first caller within the time."""
        with _named_errors(self.store):
            return await self.store.try_acquire_summary_lock(agent_id, session_id, ttl_seconds)

    @property
    def lists_sessions(self) -> bool:
        """Whether sessions of earlier processes can be found."""
        return isinstance(self.store, SessionListing)

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        """Every session of the agent, the most recently active first."""
        if not isinstance(self.store, SessionListing):
            raise _missing(self.store, "list_sessions")
        with _named_errors(self.store):
            return await self.store.list_sessions(agent_id)

    async def list_agents(self) -> list[str]:
        """Every agent that has a session."""
        return await _agents_of(self.store)

    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        """All that is known of the session."""
        with _named_errors(self.store):
            return await self._transfer("copy_session").copy_session(agent_id, session_id)

    async def add_session(self, agent_id: str, copy: SessionCopy) -> bool:
        """Add the session as it was copied; False when there is one of its name."""
        with _named_errors(self.store):
            return await self._transfer("add_session").add_session(agent_id, copy)

    def _transfer(self, method: str) -> SessionTransfer:
        if not isinstance(self.store, SessionTransfer):
            raise _missing(self.store, method)
        return self.store

    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        """Whole turns that the archive does not hold yet, or not yet whole."""
        if self._archive_log is not None:
            with _named_errors(self.store):
                return await self._archive_log.unarchived(agent_id, session_id)
        return self._log.unarchived(agent_id, session_id, await self.recent_turns(agent_id, session_id))

    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        """Note that the archive holds these turns."""
        if self._archive_log is not None:
            with _named_errors(self.store):
                await self._archive_log.mark_archived(agent_id, session_id, turns)
        else:
            self._log.mark_archived(agent_id, session_id, turns)

    async def mark_erased(self, agent_id: str) -> None:
        """Keep what the agent's sessions hold now out of the archive for ever."""
        if self._archive_log is not None:
            with _named_errors(self.store):
                await self._archive_log.mark_erased(agent_id)
        else:
            for session_id in self._log.sessions(agent_id):
                records = flatten(await self.recent_turns(agent_id, session_id))
                self._log.mark_erased(agent_id, session_id, records)

    async def close(self) -> None:
        """Close the store."""
        with _named_errors(self.store):
            await self.store.close()


class ColdTier:
    """An `L2Store` with every L2 capability, for the vectors of one embedder."""

    def __init__(self, store: L2Store, embedder: EmbedderIdentity) -> None:
        self.store = store
        self._embedder = embedder
        # Looked up once: asking a protocol costs more than many a call.
        self._paged = store if isinstance(store, PagedSearch) else None
        self._batches = store if isinstance(store, BatchWrites) else None
        self._by_id = store if isinstance(store, EntryAccess) else None
        self._binding = store if isinstance(store, EmbedderBinding) else None
        self._barrier = _ErasureBarrier()

    async def search_page(
        self,
        agent_id: str,
        vector: list[float],
        threshold: float,
        *,
        background: tuple[float, float] | None,
        newer_first: bool,
        limit: int,
        consider: int,
        content_types: list[ContentType],
        query_text: str | None,
        tags: list[str] | None,
    ) -> Page:
        """The ``limit`` best of at most ``consider`` entries, without what was superseded and each id once."""
        await self.check_embedder()
        with _named_errors(self.store):
            if self._paged is not None:
                return await self._paged.search_page(
                    agent_id,
                    vector,
                    threshold,
                    background=background,
                    newer_first=newer_first,
                    limit=limit,
                    consider=consider,
                    content_types=content_types,
                    query_text=query_text,
                    tags=tags,
                )
            most = consider if tags is None else EVERYTHING
            while True:
                found = await self.store.search(agent_id, vector, threshold, most, content_types, query_text)
                unique = {entry.id: entry for entry in reversed(found) if _may_return(entry, agent_id, tags)}
                if len(unique) >= consider or len(found) < most or most >= EVERYTHING:
                    break
                most *= 2  # what may not be returned took the places of what may
        entries = [entry.model_copy(update={"embedding": None}) for entry in reversed(unique.values())][:consider]
        if newer_first and query_text is not None:
            entries = _with_newer_first(entries)
        return Page(entries[:limit], [entry.id for entry in entries])

    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int) -> bool:
        """Store all entries of one agent; False, and none, after an erasure since ``epoch``."""
        if not entries:
            return True
        await self.check_embedder()
        with _named_errors(self.store):
            if self._batches is not None:
                return await self._batches.upsert_many(entries, epoch=epoch)
            async with self._barrier.writing(entries[0].agent_id, epoch) as allowed:
                for entry in entries if allowed else []:
                    await self.store.upsert(entry)
            return allowed

    async def erasure_epoch(self, agent_id: str) -> int:
        """Changes with every erasure of the agent's memories."""
        if self._batches is not None:
            with _named_errors(self.store):
                return await self._batches.erasure_epoch(agent_id)
        return self._barrier.epoch(agent_id)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """The agent's entry of this id, superseded or not."""
        with _named_errors(self.store):
            if self._by_id is not None:
                return await self._by_id.get(agent_id, memory_id)
            found = await self._everything(agent_id, None)
        return next((entry for entry in found if entry.id == memory_id), None)

    async def entries(self, agent_id: str, content_types: list[ContentType]) -> list[MemoryEntry]:
        """All entries of these types, by listing or by a search that admits everything."""
        with _named_errors(self.store):
            if isinstance(self.store, MemoryListing):
                return await self.store.list_memories(agent_id, content_types=content_types)
            return await self._everything(agent_id, content_types)

    async def list_memories(
        self, agent_id: str, content_types: list[ContentType], *, include_superseded: bool
    ) -> list[MemoryEntry]:
        """All of the agent's entries of these types, oldest first."""
        if not isinstance(self.store, MemoryListing):
            raise _missing(self.store, "list_memories")
        with _named_errors(self.store):
            return await self.store.list_memories(
                agent_id, content_types=content_types, include_superseded=include_superseded
            )

    async def list_agents(self) -> list[str]:
        """Every agent that has an entry."""
        return await _agents_of(self.store)

    async def memory_ids(self, agent_id: str) -> list[str]:
        """The ids of all of the agent's entries, in the order of their writes."""
        with _named_errors(self.store):
            return await self._transfer("memory_ids").memory_ids(agent_id)

    async def get_with_embeddings(self, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
        """The agent's entries of these ids, with their vectors."""
        with _named_errors(self.store):
            return await self._transfer("get_with_embeddings").get_with_embeddings(agent_id, memory_ids)

    def _transfer(self, method: str) -> EntryTransfer:
        if not isinstance(self.store, EntryTransfer):
            raise _missing(self.store, method)
        return self.store

    async def begin_reindex(self) -> list[tuple[str, str]]:
        """Agent and id of every entry that has no vector of this embedder yet."""
        with _named_errors(self.store):
            return await self._reindexing("begin_reindex").begin_reindex(self._embedder)

    async def add_vectors(self, entries: Sequence[MemoryEntry]) -> None:
        """Keep the embeddings of these entries beside the present ones."""
        with _named_errors(self.store):
            await self._reindexing("add_vectors").add_vectors(self._embedder, entries)

    async def finish_reindex(self) -> bool:
        """Put the new vectors in place; False while an entry needs one."""
        with _named_errors(self.store):
            return await self._reindexing("finish_reindex").finish_reindex(self._embedder)

    def _reindexing(self, method: str) -> Reindexing:
        if not isinstance(self.store, Reindexing):
            raise _missing(self.store, method)
        return self.store

    async def delete(self, memory_id: str) -> None:
        """Delete one entry."""
        with _named_errors(self.store):
            await self.store.delete(memory_id)

    async def delete_agent(self, agent_id: str) -> None:
        """Delete all of the agent's entries; writes that began before come to nothing."""
        with _named_errors(self.store):
            async with self._barrier.erasing(agent_id):
                await self.store.delete_agent_memories(agent_id)

    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        """Delete the session's archived turns; writes that began before come to nothing."""
        with _named_errors(self.store):
            if isinstance(self.store, SessionTurns):
                await self.store.delete_session_turns(agent_id, session_id)
                return
            async with self._barrier.erasing(agent_id):
                for entry in await self._everything(agent_id, ["turn"]):
                    if entry.session_id == session_id:
                        await self.store.delete(entry.id)

    async def check_embedder(self) -> None:
        """Refuse to compare vectors of two embedders.

        Raises:
            ConfigurationError: the store holds another embedder's vectors.
        """
        if self._binding is None:
            return
        stored = await _bound(self._binding, self._embedder)
        if stored != self._embedder:
            raise ConfigurationError(
                f"The store was filled with the embedder {stored.name!r} ({stored.dimensions} dimensions), this "
                f"manager uses {self._embedder.name!r} ({self._embedder.dimensions}): their vectors cannot be "
                "compared. Use the first one again, or embed all memories with this one: MemoryManager.reindex().",
                {"stored": stored._asdict(), "configured": self._embedder._asdict()},
            )

    async def close(self) -> None:
        """Close the store."""
        with _named_errors(self.store):
            await self.store.close()

    async def _everything(self, agent_id: str, content_types: list[ContentType] | None) -> list[MemoryEntry]:
        probe = [1.0] + [0.0] * (self._embedder.dimensions - 1)
        found = await self.store.search(agent_id, probe, -1.0, EVERYTHING, content_types)
        return [entry for entry in found if entry.agent_id == agent_id]


async def stored_identity(store: L2Store, identity: EmbedderIdentity) -> EmbedderIdentity:
    """Whose vectors ``store`` holds: ``identity`` itself when it holds none or cannot tell."""
    return await _bound(store, identity) if isinstance(store, EmbedderBinding) else identity


async def _bound(store: EmbedderBinding, identity: EmbedderIdentity) -> EmbedderIdentity:
    with _named_errors(store):
        return await store.bind_embedder(identity)


def _may_return(entry: MemoryEntry, agent_id: str, tags: list[str] | None) -> bool:
    tagged = tags is None or not set(tags).isdisjoint(entry.topic_tags)
    return tagged and entry.superseded_by is None and entry.agent_id == agent_id


def _with_newer_first(entries: list[MemoryEntry]) -> list[MemoryEntry]:
    """Of memories about the same matter, as far as words tell, the newer in the place of the older, with its score."""
    times = np.array([entry.timestamp.timestamp() for entry in entries])
    scores = np.array([entry.score or 0.0 for entry in entries])
    order = _newer_first.newer_first(scores, times, np.empty((len(entries), 0)), None, entries.__getitem__)
    places = zip(order, [entry.score for entry in entries], strict=True)
    return [entries[place].model_copy(update={"score": score}) for place, score in places]


async def _agents_of(store: object) -> list[str]:
    if not isinstance(store, AgentListing):
        raise _missing(store, "list_agents")
    with _named_errors(store):
        return await store.list_agents()


def _missing(store: object, method: str) -> ConfigurationError:
    return ConfigurationError(
        f"{type(store).__name__} has no method {method}(), which this call needs; "
        "actrone_memory.protocols describes it.",
        {"store": type(store).__name__, "missing": method},
    )


@contextmanager
def _named_errors(store: object) -> Iterator[None]:
    try:
        yield
    except ActroneMemoryError:
        raise
    except Exception as error:
        raise StoreConnectionError(type(store).__name__, error) from error


class _ProcessArchiveLog:
    """Remembers, for this process, which records of a foreign store are archived or erased."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._archived: dict[tuple[str, str], set[str]] = {}
        self._erased: dict[tuple[str, str], set[str]] = {}

    def know(self, agent_id: str, session_id: str) -> None:
        with self._lock:
            self._archived.setdefault((agent_id, session_id), set())

    def sessions(self, agent_id: str) -> list[str]:
        with self._lock:
            return [session for agent, session in self._archived if agent == agent_id]

    def unarchived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> list[Turn]:
        key = agent_id, session_id
        records = flatten(turns)
        present = {record.id for record in records}
        with self._lock:
            archived = self._archived[key] = self._archived.get(key, set()) & present
            erased = self._erased[key] = self._erased.get(key, set()) & present
        living = join_records(record for record in records if record.id not in erased)
        return [turn for turn in living if not {record.id for record in turn.records} <= archived]

    def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        with self._lock:
            archived = self._archived.setdefault((agent_id, session_id), set())
            archived.update(record.id for record in flatten(turns))

    def mark_erased(self, agent_id: str, session_id: str, records: Sequence[Turn]) -> None:
        with self._lock:
            self._erased.setdefault((agent_id, session_id), set()).update(record.id for record in records)

    def forget(self, agent_id: str, session_id: str) -> None:
        with self._lock:
            self._archived.pop((agent_id, session_id), None)
            self._erased.pop((agent_id, session_id), None)


class _ErasureBarrier:
    """Keeps writes of this process that began before an erasure from landing after it, on any loop or thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epochs: dict[str, int] = {}
        self._writes: dict[str, set[Future[None]]] = {}

    def epoch(self, agent_id: str) -> int:
        with self._lock:
            return self._epochs.get(agent_id, 0)

    @asynccontextmanager
    async def writing(self, agent_id: str, epoch: int) -> AsyncIterator[bool]:
        """True while the write may go on; an erasure waits until it has ended."""
        done: Future[None] = Future()
        with self._lock:
            allowed = self._epochs.get(agent_id, 0) == epoch
            if allowed:
                self._writes.setdefault(agent_id, set()).add(done)
        try:
            yield allowed
        finally:
            with self._lock:
                writes = self._writes.get(agent_id, set())
                writes.discard(done)
                if not writes:
                    self._writes.pop(agent_id, None)
            done.set_result(None)

    @asynccontextmanager
    async def erasing(self, agent_id: str) -> AsyncIterator[None]:
        """From here on older epochs may not write; entered when the last such write has ended."""
        with self._lock:
            self._epochs[agent_id] = self._epochs.get(agent_id, 0) + 1
            running = list(self._writes.get(agent_id, ()))
        for write in running:
            # Shielded: an erasure that is cancelled while it waits must not cancel what the writer will report.
            await asyncio.shield(asyncio.wrap_future(write))
        yield
