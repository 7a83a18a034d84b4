"""The point of each agent, which outlives its memories: epochs of erasures, under a hash of the name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from actrone_memory._store_calls import pieces
from actrone_memory.stores.qdrant.collection import MARKS_PER_PAGE, Collection
from actrone_memory.stores.qdrant.points import AgentState, agent_point, agent_state


class Agents:
    """What the collection says of its agents."""

    _collection: Collection

    async def _agent(self, agent_id: str) -> AgentState:
        points = await self._collection.retrieve([agent_point(agent_id)])
        return agent_state(points[0].payload if points else None)

    async def _erased(self, agents: Iterable[str]) -> dict[str, int]:
        """The epochs of the last erasures of everything, of the agents that had one."""
        names = {agent_point(agent): agent for agent in agents}
        points: list[Any] = []
        for some in pieces(list(names), MARKS_PER_PAGE):
            points += await self._collection.retrieve(some)
        states = {names[str(point.id)]: agent_state(point.payload) for point in points}
        return {agent: state.erased for agent, state in states.items() if state.erased}
