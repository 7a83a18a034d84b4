"""Writing memories of the collection, and erasing them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from actrone_memory import _validation
from actrone_memory._shelf import prepare
from actrone_memory._store_calls import check_ids, dimensions_with, foreign_id
from actrone_memory.errors import ConfigurationError
from actrone_memory.models import MemoryEntry
from actrone_memory.stores.qdrant.kept import HeldIndexes, KeptEntries
from actrone_memory.stores.qdrant.points import (
    EPOCH_STEP,
    WORDS,
    AgentState,
    agent_point,
    agent_state,
    batches,
    point_of,
)
from actrone_memory.stores.qdrant.questions import equals, has_id, is_any, of_agent
from actrone_memory.stores.qdrant.reading import Reading


class Writing(Reading):
    """What changes the collection."""

    _held: HeldIndexes
    _kept: KeptEntries

    async def upsert(self, entry: MemoryEntry) -> None:
        """Store or replace one entry.

        Raises:
            ValidationError: another agent owns the id, or the embedding has other dimensions than those stored.
        """
        await self.upsert_many([entry])

    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        """Store all entries of one agent; none, and False, when ``epoch`` is no longer the agent's erasure epoch.

        One request up to 16 MiB, which is all or nothing; of more, a failure may leave the first ones.
        """
        checked = list({entry.id: entry for entry in _validation.entries(entries)}.values())
        if epoch is not None:
            _validation.whole_number(epoch, "epoch")
        if not checked:
            return True
        return await self._in_place(lambda: self._upsert(checked, epoch))

    async def _upsert(self, checked: Sequence[MemoryEntry], epoch: int | None) -> bool:
        agent_id = checked[0].agent_id
        layout = await self._comparable()
        bound = self._bound.dimensions if self._bound else None
        dimensions = dimensions_with(layout.dimensions if layout else None, checked) or bound
        if dimensions is None:
            raise ConfigurationError(
                "The first memory of a collection needs an embedding: it tells the dimensions of all.",
                {"collection": self._collection.name},
            )
        layout = await self._writable(dimensions)
        now = await self._check_owners(agent_id, [entry.id for entry in checked])
        if epoch is not None and epoch != now.epoch:
            return False
        points = [
            point_of(prepare(entry), dimensions, epoch=now.epoch, written=time.time_ns() + place)
            for place, entry in enumerate(checked)
        ]
        await self._write_points(points, layout.vector)
        if epoch is None or (await self._agent(agent_id)).epoch == epoch:
            return True
        await self._take_back(points)
        return False

    async def _write_points(self, points: Sequence[dict[str, Any]], vector: str) -> None:
        from qdrant_client import models

        for batch in batches(points):
            structs = [
                models.PointStruct(
                    id=point["id"],
                    payload=point["payload"],
                    vector={vector: point["meaning"], WORDS: models.SparseVector(**point["words"]._asdict())},
                )
                for point in batch
            ]
            await self._collection.ask("upsert", points=structs, wait=True)

    async def _take_back(self, points: Sequence[dict[str, Any]]) -> None:
        """Delete what an erasure overtook, unless somebody has written it anew since."""
        from qdrant_client import models

        ours = has_id([point["id"] for point in points]).must
        await self._collection.delete(models.Filter(must=[*ours, equals("epoch", points[0]["payload"]["epoch"])]))

    async def _check_owners(self, agent_id: str, ids: Sequence[str]) -> AgentState:
        """The agent's epochs, after a look that no other agent owns one of ``ids``."""
        from qdrant_client import models

        foreign = models.Filter(must=[is_any("id", list(ids))], must_not=[equals("agent_id", agent_id)])
        answers = await self._collection.batch(
            [
                models.QueryRequest(filter=foreign, limit=1, with_payload=["id"]),
                models.QueryRequest(filter=has_id([agent_point(agent_id)]), limit=1, with_payload=True),
            ]
        )
        for point in answers[0]:
            raise foreign_id(point.payload["id"])
        return agent_state(answers[1][0].payload if answers[1] else None)

    async def erasure_epoch(self, agent_id: str) -> int:
        """Changes whenever memories of the agent are erased."""
        check_ids(agent_id)
        return (await self._agent(agent_id)).epoch if await self._collection.layout() is not None else 0

    async def delete(self, memory_id: str) -> None:
        """Delete one entry, whoever owns it; deleting nothing is no error."""
        from qdrant_client import models

        _validation.identifier(memory_id, "memory_id")
        if await self._collection.layout() is not None:
            await self._collection.delete(models.Filter(must=[equals("id", memory_id)]))

    async def delete_agent_memories(self, agent_id: str) -> None:
        """Change the agent's erasure epoch, and delete every entry."""
        check_ids(agent_id)
        if await self._change_epoch(agent_id, erased=True):
            await self._collection.delete(of_agent(agent_id))
        self._held.forget(agent_id)
        self._kept.forget(agent_id)

    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        """Change the agent's erasure epoch, and delete the archived turns of one session."""
        from qdrant_client import models

        check_ids(agent_id, session_id)
        if await self._change_epoch(agent_id, erased=False):
            conditions = [
                equals("agent_id", agent_id),
                equals("session_id", session_id),
                equals("content_type", "turn"),
            ]
            await self._collection.delete(models.Filter(must=conditions))

    async def _change_epoch(self, agent_id: str, *, erased: bool) -> bool:
        """Give the agent a new epoch; False when there is no collection, and nothing that could be erased."""
        from qdrant_client import models

        if await self._collection.layout() is None:
            if self._bound is None:
                return False
            await self._writable(self._bound.dimensions)
        before = await self._agent(agent_id)
        epoch = max(time.time_ns(), before.epoch + EPOCH_STEP)
        payload = {"epoch": epoch, "erased": epoch if erased else before.erased}
        point = models.PointStruct(id=agent_point(agent_id), payload=payload, vector={})
        await self._collection.ask("upsert", points=[point], wait=True)
        return True
