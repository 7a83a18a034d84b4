"""Filling the libraries that are compared, each within bounds of time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from benchmarks.peers.protocol import Batch, Lookup, Peer, Vectors

MOST_BYTES = 6e9
"""How much a library may take for itself: several are held at once, to be asked in turn."""

BATCH = 1_000
"""Memories of one agent that are handed over at once."""

STATM = Path("/proc/self/statm")


class Memories(NamedTuple):
    """What every library is filled with: the texts of all agents, as many for each, and their vectors."""

    texts: Sequence[str]
    vectors: Vectors
    agents: int

    @property
    def each(self) -> int:
        """Memories of one agent."""
        return len(self.texts) // self.agents

    def batches(self) -> Iterator[Batch]:
        """All memories, agent by agent."""
        for number in range(self.agents):
            end = (number + 1) * self.each
            for start in range(number * self.each, end, BATCH):
                rows = range(start, min(start + BATCH, end))
                ids = [str(UUID(int=row)) for row in rows]
                part = slice(rows.start, rows.stop)
                yield Batch(agent_name(number), ids, self.texts[part], self.vectors[part])


def agent_name(number: int) -> str:
    """The id of one agent."""
    return f"agent-{number}"


async def fill_unbounded(peer: Peer, memories: Memories, lookup: Lookup) -> float:
    """Fill ``peer``; the seconds it took."""
    steps = [seconds async for seconds, _ in _filling(peer, memories, lookup)]
    await peer.ready()
    return steps[-1]


async def fill_within(most_seconds: float, peer: Peer, memories: Memories, lookup: Lookup) -> str:
    """Fill ``peer``; "" when it holds everything, else the reason why it was given up."""
    before = _resident_bytes()
    async for seconds, filled in _filling(peer, memories, lookup):
        if filled == len(memories.texts):
            break
        reached = f"given up after {filled:,} of {len(memories.texts):,} memories"
        if seconds > most_seconds:
            return f"not filled within {most_seconds:.0f} s, {reached}"
        if _resident_bytes() - before > MOST_BYTES:
            return f"larger than {MOST_BYTES / 1e9:g} GB, {reached}"
    await peer.ready()
    return ""


async def _filling(peer: Peer, memories: Memories, lookup: Lookup) -> AsyncIterator[tuple[float, int]]:
    """Fill batch by batch; after each one the seconds that ``peer`` took so far, and what it holds."""
    seconds, filled = 0.0, 0
    for batch in memories.batches():
        lookup.know_batch(batch)
        started = time.perf_counter()
        await peer.fill(batch)
        seconds += time.perf_counter() - started
        filled += len(batch.ids)
        yield seconds, filled


def _resident_bytes() -> int:
    """The size of this process; 0 where the system does not tell."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if STATM.exists() else 0
