"""What the manager may ask of any `L2Store`: its own methods where it has them, stand-ins where it lacks them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actrone_memory import _newer_first
from actrone_memory._capabilities import agents_of, missing, named_errors
from actrone_memory._stand_ins import ErasureBarrier
from actrone_memory._store_calls import unlike_vectors
from actrone_memory.models import ContentType, MemoryEntry
from actrone_memory.protocols import (
    BatchWrites,
    EmbedderBinding,
    EmbedderIdentity,
    EntryAccess,
    EntryTransfer,
    L2Store,
    MemoryListing,
    Page,
    PagedSearch,
    Reindexing,
    SessionTurns,
)

EVERYTHING = 1_000_000
"""Limit of a search that stands in for a listing."""


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
        self._copies = store if isinstance(store, EntryTransfer) else None
        self._barrier = ErasureBarrier()

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
        with named_errors(self.store):
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
        with named_errors(self.store):
            if self._batches is not None:
                return await self._batches.upsert_many(entries, epoch=epoch)
            async with self._barrier.writing(entries[0].agent_id, epoch) as allowed:
                for entry in entries if allowed else []:
                    await self.store.upsert(entry)
            return allowed

    async def erasure_epoch(self, agent_id: str) -> int:
        """Changes with every erasure of the agent's memories."""
        if self._batches is not None:
            with named_errors(self.store):
                return await self._batches.erasure_epoch(agent_id)
        return self._barrier.epoch(agent_id)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """The agent's entry of this id, superseded or not."""
        return (await self.get_many(agent_id, [memory_id])).get(memory_id)

    async def get_many(self, agent_id: str, memory_ids: Sequence[str]) -> dict[str, MemoryEntry]:
        """The agent's entries of these ids, superseded or not, in as few reads as the store allows."""
        with named_errors(self.store):
            if self._copies is not None and len(memory_ids) > 1:
                found = await self._copies.get_with_embeddings(agent_id, memory_ids)
            elif self._by_id is not None:
                each = [await self._by_id.get(agent_id, memory_id) for memory_id in memory_ids]
                found = [entry for entry in each if entry is not None]
            else:
                wanted = set(memory_ids)
                found = [entry for entry in await self._everything(agent_id, None) if entry.id in wanted]
        return {entry.id: entry for entry in found}

    async def entries(self, agent_id: str, content_types: list[ContentType]) -> list[MemoryEntry]:
        """All entries of these types, by listing or by a search that admits everything."""
        with named_errors(self.store):
            if isinstance(self.store, MemoryListing):
                return await self.store.list_memories(agent_id, content_types=content_types)
            return await self._everything(agent_id, content_types)

    async def list_memories(
        self, agent_id: str, content_types: list[ContentType], *, include_superseded: bool
    ) -> list[MemoryEntry]:
        """All of the agent's entries of these types, oldest first."""
        if not isinstance(self.store, MemoryListing):
            raise missing(self.store, "list_memories")
        with named_errors(self.store):
            return await self.store.list_memories(
                agent_id, content_types=content_types, include_superseded=include_superseded
            )

    async def list_agents(self) -> list[str]:
        """Every agent that has an entry."""
        return await agents_of(self.store)

    async def memory_ids(self, agent_id: str) -> list[str]:
        """The ids of all of the agent's entries, in the order of their writes."""
        with named_errors(self.store):
            return await self._transfer("memory_ids").memory_ids(agent_id)

    async def get_with_embeddings(self, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
        """The agent's entries of these ids, with their vectors."""
        with named_errors(self.store):
            return await self._transfer("get_with_embeddings").get_with_embeddings(agent_id, memory_ids)

    def _transfer(self, method: str) -> EntryTransfer:
        if self._copies is None:
            raise missing(self.store, method)
        return self._copies

    async def begin_reindex(self) -> list[tuple[str, str]]:
        """Agent and id of every entry that has no vector of this embedder yet."""
        with named_errors(self.store):
            return await self._reindexing("begin_reindex").begin_reindex(self._embedder)

    async def add_vectors(self, entries: Sequence[MemoryEntry]) -> None:
        """Keep the embeddings of these entries beside the present ones."""
        with named_errors(self.store):
            await self._reindexing("add_vectors").add_vectors(self._embedder, entries)

    async def finish_reindex(self) -> bool:
        """Put the new vectors in place; False while an entry needs one."""
        with named_errors(self.store):
            return await self._reindexing("finish_reindex").finish_reindex(self._embedder)

    def _reindexing(self, method: str) -> Reindexing:
        if not isinstance(self.store, Reindexing):
            raise missing(self.store, method)
        return self.store

    async def delete(self, memory_id: str) -> None:
        """Delete one entry."""
        with named_errors(self.store):
            await self.store.delete(memory_id)

    async def delete_agent(self, agent_id: str) -> None:
        """Delete all of the agent's entries; writes that began before come to nothing."""
        with named_errors(self.store):
            async with self._barrier.erasing(agent_id):
                await self.store.delete_agent_memories(agent_id)

    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        """Delete the session's archived turns; writes that began before come to nothing."""
        with named_errors(self.store):
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
            raise unlike_vectors(stored, self._embedder)

    async def close(self) -> None:
        """Close the store."""
        with named_errors(self.store):
            await self.store.close()

    async def _everything(self, agent_id: str, content_types: list[ContentType] | None) -> list[MemoryEntry]:
        probe = [1.0] + [0.0] * (self._embedder.dimensions - 1)
        found = await self.store.search(agent_id, probe, -1.0, EVERYTHING, content_types)
        return [entry for entry in found if entry.agent_id == agent_id]


async def stored_identity(store: L2Store, identity: EmbedderIdentity) -> EmbedderIdentity:
    """Whose vectors ``store`` holds: ``identity`` itself when it holds none or cannot tell."""
    return await _bound(store, identity) if isinstance(store, EmbedderBinding) else identity


async def _bound(store: EmbedderBinding, identity: EmbedderIdentity) -> EmbedderIdentity:
    with named_errors(store):
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
