"""Filling the libraries that are compared, each within bounds of time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from benchmarks.peers.protocol import Batch, Lookup, Peer, Vectors

MOST_SECONDS = 120.0
"""How long a library may take to be filled. What takes longer is no library for so many memories in one process."""

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


async def fill(peer: Peer, memories: Memories, lookup: Lookup) -> str:
    """Fill ``peer``; "" when it holds everything, else the reason why it was given up."""
    seconds, filled, before = 0.0, 0, _resident_bytes()
    for batch in memories.batches():
        lookup.know_batch(batch)
        started = time.perf_counter()
        await peer.fill(batch)
        seconds += time.perf_counter() - started
        filled += len(batch.ids)
        reason = _given_up(seconds, _resident_bytes() - before)
        if reason and filled < len(memories.texts):
            return f"{reason} after {filled:,} of {len(memories.texts):,} memories"
    await peer.ready()
    return ""


def _given_up(seconds: float, size: float) -> str:
    if seconds > MOST_SECONDS:
        return f"not filled within {MOST_SECONDS:.0f} s, given up"
    return f"larger than {MOST_BYTES / 1e9:g} GB, given up" if size > MOST_BYTES else ""


def _resident_bytes() -> int:
    """The size of this process; 0 where the system does not tell."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if STATM.exists() else 0
