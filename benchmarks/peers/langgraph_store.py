"""LangGraph: `InMemoryStore` with an ``index``, one namespace for each agent."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.store.base import IndexConfig
from langgraph.store.memory import InMemoryStore

from benchmarks.peers.protocol import BEST, Batch, Lookup, Vectors

NAMESPACE = "memories"


class LangGraphStore:
    """`InMemoryStore.search` in the namespace of the agent, for the best ten items."""

    name = "LangGraph InMemoryStore"

    def __init__(self, lookup: Lookup, dimensions: int) -> None:
        def embed(texts: Sequence[str]) -> list[list[float]]:
            return [lookup.vector(text) for text in texts]

        index: IndexConfig = {"dims": dimensions, "embed": embed, "fields": ["text"]}
        self._store = InMemoryStore(index=index)

    async def fill(self, batch: Batch) -> None:
        """Put one item after the other: the store has no public way to put many."""
        for memory_id, text in zip(batch.ids, batch.texts, strict=True):
            self._store.put((NAMESPACE, batch.agent), memory_id, {"text": text})

    async def ready(self) -> None:
        """Nothing is left to do."""

    async def search(self, agent: str, text: str, vector: Vectors) -> int:  # noqa: ARG002 - the lookup has the vector
        """The ten nearest items."""
        return len(self._store.search((NAMESPACE, agent), query=text, limit=BEST))
