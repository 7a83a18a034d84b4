"""The floor of a hybrid search: what its two halves cost at least, without anything around them."""

from __future__ import annotations

from collections.abc import Sequence

import bm25s
import numpy as np
from numpy.typing import NDArray

from benchmarks import engine

BEST = 10
"""How many results each half returns."""

EMBEDDED_AT_ONCE = 1_000


class Floor:
    """A bare matrix-vector product with argpartition, and one bm25s query."""

    def __init__(self, vectors: NDArray[np.float32], texts: Sequence[str]) -> None:
        self._vectors = vectors
        self._lexical = bm25s.BM25()
        self._lexical.index(bm25s.tokenize(list(texts), show_progress=False), show_progress=False)

    def search(self, vector: NDArray[np.float32], text: str) -> None:
        """Find the best of each half and throw them away."""
        np.argpartition(self._vectors @ vector, -BEST)
        words = bm25s.tokenize([text], show_progress=False)
        self._lexical.retrieve(words, k=BEST, show_progress=False)


async def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors that the engine computes for ``texts``, one row each."""
    embedder = await engine.make_embedder()
    starts = range(0, len(texts), EMBEDDED_AT_ONCE)
    parts = [await embedder.embed_batch(list(texts[start : start + EMBEDDED_AT_ONCE])) for start in starts]
    return np.concatenate([np.asarray(part, np.float32) for part in parts])
