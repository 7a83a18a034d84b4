"""What the comparison of libraries has measured, and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from benchmarks.figures import Figure
from benchmarks.peers.bare import FLOOR
from benchmarks.peers.ours import RETRIEVE, SEARCH

OURS = (SEARCH, RETRIEVE)

TARGET_SIZE, MOST_FLOORS = 100_000, 1.5
FASTER = 1.0
"""A library is beaten when it takes longer than ours, in the median of the same queries."""


@dataclass(slots=True)
class Timing:
    """Milliseconds of the queries that one library answered, in order; or why it answered none."""

    milliseconds: list[float] = field(default_factory=list)
    given_up: str = ""

    def percentile(self, percent: int) -> float:
        """Of all its queries; there must be one."""
        return float(np.percentile(self.milliseconds, percent))

    def ratio_to(self, other: Timing) -> float:
        """Its median over the other's, of the queries that both have answered."""
        both = min(len(self.milliseconds), len(other.milliseconds))
        return float(np.median(self.milliseconds[:both]) / np.median(other.milliseconds[:both]))


class Case(NamedTuple):
    """How many memories of how many agents, and the timing of each library by its name."""

    memories: int
    agents: int
    timings: dict[str, Timing]

    @property
    def label(self) -> str:
        """``1,000``, or ``10,000 x 100`` for many agents."""
        if self.agents == 1:
            return f"{self.memories:,}"
        return f"{self.agents:,} x {self.memories // self.agents:,}"

    @property
    def measured(self) -> dict[str, Timing]:
        """The timings of the libraries that have answered."""
        return {name: timing for name, timing in self.timings.items() if timing.milliseconds}

    def figures(self) -> list[Figure]:
        """Every library in milliseconds; ours against the floor, the others against `search_memories`."""
        return [*self._milliseconds(), *self._against_floor(), *self._against_ours()]

    def _milliseconds(self) -> list[Figure]:
        return [
            Figure(f"{self.label}: {name}, p{percent}", timing.percentile(percent), "ms")
            for name, timing in self.measured.items()
            for percent in (50, 99)
        ]

    def _against_floor(self) -> list[Figure]:
        at_most = MOST_FLOORS if (self.memories, self.agents) == (TARGET_SIZE, 1) else None
        floor = self.timings[FLOOR]
        ratios = {name: self.timings[name].ratio_to(floor) for name in OURS}
        return [Figure(f"{self.label}: {name} / floor", ratio, "x", at_most=at_most) for name, ratio in ratios.items()]

    def _against_ours(self) -> list[Figure]:
        ours = self.timings[SEARCH]
        peers = {name: timing for name, timing in self.measured.items() if name not in (*OURS, FLOOR)}
        return [
            Figure(f"{self.label}: {name} / {SEARCH}", timing.ratio_to(ours), "x", at_least=FASTER)
            for name, timing in peers.items()
        ]
