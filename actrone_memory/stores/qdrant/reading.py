"""Reading memories of the collection by their ids and their agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actrone_memory import _validation
from actrone_memory._shelf import read_entry
from actrone_memory._store_calls import check_ids, pieces
from actrone_memory.models import ContentType, MemoryEntry
from actrone_memory.stores.qdrant.collection import PER_PAGE
from actrone_memory.stores.qdrant.points import (
    SHELVES,
    STORE_POINT,
    agent_point,
    agent_state,
    entry_of,
    entry_point,
    filling_of,
)
from actrone_memory.stores.qdrant.questions import equals, is_any, of_agent, since
from actrone_memory.stores.qdrant.vectors import Vectors

PER_REQUEST = 100
"""Parts of one batched request."""


class Reading(Vectors):
    """What the collection holds, but for the search."""

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """The agent's entry of this id, superseded or not."""
        check_ids(agent_id)
        _validation.identifier(memory_id, "memory_id")
        if await self._collection.layout() is None:
            return None
        wanted, about = entry_point(agent_id, memory_id), agent_point(agent_id)
        points = {str(point.id): point.payload for point in await self._collection.retrieve([wanted, about])}
        payload = points.get(wanted)
        if payload is None or payload["epoch"] < agent_state(points.get(about)).erased:
            return None
        return read_entry(payload["document"].encode())

    async def list_memories(
        self,
        agent_id: str,
        *,
        content_types: Sequence[ContentType] | None = None,
        include_superseded: bool = False,
    ) -> list[MemoryEntry]:
        """All entries of these types, oldest first."""
        from qdrant_client import models

        check_ids(agent_id)
        _validation.flag(include_superseded, "include_superseded")
        types = _validation.content_types(content_types)
        if types == [] or await self._collection.layout() is None:
            return []
        conditions = [equals("agent_id", agent_id)]
        conditions += [] if types is None else [is_any("content_type", types)]
        conditions += [] if include_superseded else [is_any("shelf", list(SHELVES.values()))]
        which = models.Filter(must=conditions)
        points = await self._collection.scroll(which, with_payload=True)
        living = await self._living(agent_id, [point.payload for point in points])
        return sorted((read_entry(p["document"].encode()) for p in living), key=lambda entry: entry.timestamp)

    async def memory_ids(self, agent_id: str) -> list[str]:
        """The ids of all of the agent's entries, superseded ones included, in the order of their writes."""
        check_ids(agent_id)
        if await self._collection.layout() is None:
            return []
        points = await self._collection.scroll(of_agent(agent_id), with_payload=["id", "written", "epoch"])
        living = await self._living(agent_id, [point.payload for point in points])
        return [payload["id"] for payload in living]

    async def get_with_embeddings(self, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
        """The agent's entries of these ids, in order, each with the vector that is compared; others are left out."""
        check_ids(agent_id)
        wanted = [entry_point(agent_id, name) for name in _validation.texts(memory_ids, "memory_ids")]
        return await self._in_place(lambda: self._with_vectors(agent_id, wanted))

    async def _with_vectors(self, agent_id: str, wanted: Sequence[str]) -> list[MemoryEntry]:
        layout = await self._comparable()
        if layout is None:
            return []
        points: list[Any] = []
        for some in pieces(wanted, PER_PAGE):
            points += await self._collection.retrieve(some, with_vectors=[layout.vector])
        about = {
            str(one.id): one.payload for one in await self._collection.retrieve([STORE_POINT, agent_point(agent_id)])
        }
        self._collection.check_filling(filling_of(about.get(STORE_POINT)))
        erased = agent_state(about.get(agent_point(agent_id))).erased
        found = {str(point.id): entry_of(point, layout.vector) for point in points if point.payload["epoch"] >= erased}
        return [found[point] for point in wanted if point in found]

    async def list_agents(self) -> list[str]:
        """Every agent that has a memory here, in the order of their names."""
        if await self._collection.layout() is None:
            return []
        agents = await self._collection.values("agent_id")
        erased = await self._erased(agents)
        gone = set(erased) - await self._with_memories_since(erased)
        return sorted(set(agents) - gone)

    async def _with_memories_since(self, erased: Mapping[str, int]) -> set[str]:
        """The agents that were written for again: what a writer left behind an erasure does not count."""
        from qdrant_client import models

        found = set[str]()
        for agents in pieces(list(erased), PER_REQUEST):
            requests = [
                models.QueryRequest(
                    filter=models.Filter(must=[*of_agent(agent).must, since(erased[agent])]),
                    limit=1,
                    with_payload=["agent_id"],
                )
                for agent in agents
            ]
            answers = await self._collection.batch(requests)
            found |= {point.payload["agent_id"] for points in answers for point in points}
        return found

    async def _living(self, agent_id: str, payloads: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that no erasure has overtaken, in the order of their writes."""
        erased = (await self._agent(agent_id)).erased
        living = [payload for payload in payloads if payload["epoch"] >= erased]
        return sorted(living, key=lambda payload: payload["written"])
