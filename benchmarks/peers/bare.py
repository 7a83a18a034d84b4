"""The floor as one more peer: nothing can search words and vectors of every memory for less."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.floor import BEST, Floor
from benchmarks.peers.protocol import Batch, Vectors

FLOOR = "floor"


class Bare:
    """For each agent a numpy product with argpartition, and one bm25s query."""

    name = FLOOR

    def __init__(self) -> None:
        self._batches: defaultdict[str, list[Batch]] = defaultdict(list)
        self._floors: dict[str, Floor] = {}

    async def fill(self, batch: Batch) -> None:
        """Keep the batch: bm25s indexes all texts at once."""
        self._batches[batch.agent].append(batch)

    async def ready(self) -> None:
        """Index what was kept."""
        for agent, batches in self._batches.items():
            texts = [text for batch in batches for text in batch.texts]
            self._floors[agent] = Floor(np.concatenate([batch.vectors for batch in batches]), texts)
        self._batches.clear()

    async def search(self, agent: str, text: str, vector: Vectors) -> int:
        """Both halves; nobody merges their results."""
        self._floors[agent].search(vector, text)
        return BEST
