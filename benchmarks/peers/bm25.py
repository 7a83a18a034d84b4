"""bm25s: words only, one index for each agent."""

from __future__ import annotations

from collections import defaultdict

import bm25s

from benchmarks.peers.protocol import BEST, Batch, Vectors


class Bm25s:
    """`bm25s.BM25` as its documentation shows it: tokenize, index, retrieve."""

    name = "bm25s (words only)"

    def __init__(self) -> None:
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        self._indexes: dict[str, bm25s.BM25] = {}

    async def fill(self, batch: Batch) -> None:
        """Keep the texts: bm25s indexes all at once."""
        self._texts[batch.agent] += batch.texts

    async def ready(self) -> None:
        """Index what was kept; the texts themselves are what a query returns."""
        for agent, texts in self._texts.items():
            index = self._indexes[agent] = bm25s.BM25(corpus=texts)
            index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    async def search(self, agent: str, text: str, vector: Vectors) -> int:  # noqa: ARG002 - it compares words
        """One query for the best ten texts."""
        words = bm25s.tokenize([text], show_progress=False)
        found, _ = self._indexes[agent].retrieve(words, k=BEST, show_progress=False)
        return int(found.shape[1])
