"""This package: `search_memories`, which does what the others do, and `retrieve_context`, which does the whole job."""

from __future__ import annotations

from actrone_memory import Embedder, InMemoryStore, MemoryConfig, MemoryEntry, MemoryManager
from benchmarks import engine
from benchmarks.peers.protocol import BEST, Batch, Lookup, Vectors

SEARCH, RETRIEVE = "search_memories", "retrieve_context"


class Search:
    """`MemoryManager.search_memories` for ten results: words and vectors together.

    A million single injects would take ten minutes, so the memories go into the store of the manager in batches of
    ready entries (`InMemoryStore.upsert_many`), as an import does. What is stored is the same.
    """

    name = SEARCH

    def __init__(self, embedder: Embedder, lookup: Lookup) -> None:
        self._store = InMemoryStore()
        self._embedder = _LookupEmbedder(embedder, lookup)

    async def fill(self, batch: Batch) -> None:
        """Store the memories as `inject_memory` does, in one step."""
        rows = zip(batch.ids, batch.texts, batch.vectors.tolist(), strict=True)
        await self._store.upsert_many([_entry(batch.agent, *row) for row in rows])

    async def ready(self) -> None:
        """Put a manager before the store."""
        self.manager = await MemoryManager.create(
            MemoryConfig(), l1=self._store, l2=self._store, embedder=self._embedder
        )

    async def search(self, agent: str, text: str, vector: Vectors) -> int:  # noqa: ARG002 - the lookup has the vector
        """One query, ten results."""
        return len(await self.manager.search_memories(agent, text, limit=BEST))


class Retrieve:
    """`MemoryManager.retrieve_context` over what a `Search` was filled with: all that fits into the token budget."""

    name = RETRIEVE

    def __init__(self, filled: Search) -> None:
        self._filled = filled

    async def search(self, agent: str, text: str, vector: Vectors) -> int:  # noqa: ARG002 - the lookup has the vector
        """One retrieval, as before a model call."""
        context = await self._filled.manager.retrieve_context(agent, engine.SESSION, text, engine.TOKEN_BUDGET)
        return len(context.episodic_memories)


def _entry(agent: str, memory_id: str, text: str, vector: list[float]) -> MemoryEntry:
    return MemoryEntry(
        id=memory_id,
        agent_id=agent,
        session_id="injected",
        content=text,
        content_type="injected",
        embedding=vector,
        importance_score=0.8,
        source="injected",
    )


class _LookupEmbedder(Embedder):
    """Answers from the lookup in the name of the embedder that made its vectors."""

    def __init__(self, made_by: Embedder, lookup: Lookup) -> None:
        self._made_by, self._lookup = made_by, lookup

    async def embed(self, text: str) -> list[float]:
        return self._lookup.vector(text)

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return [self._lookup.vector(text) for text in texts]

    @property
    def dimensions(self) -> int:
        return self._made_by.dimensions

    @property
    def relevance_threshold(self) -> float | None:
        return self._made_by.relevance_threshold

    @property
    def background(self) -> tuple[float, float] | None:
        return self._made_by.background

    @property
    def name(self) -> str:
        return self._made_by.name
