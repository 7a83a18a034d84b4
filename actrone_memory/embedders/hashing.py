"""Words hashed into a fixed number of buckets: no model, no download, the same vector for the same text for ever."""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from actrone_memory import _validation
from actrone_memory._lexical import document_terms
from actrone_memory.config import MAX_DIMENSIONS
from actrone_memory.errors import ConfigurationError
from actrone_memory.protocols import Embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

RECIPE = 1
"""Raise it when the same text would get another vector: stores remember it as part of the name."""

BUCKETS_PER_TERM = 8
"""A term is spread over so many buckets, half of them negative: a chance collision of two terms then costs an eighth
of a cosine at most, where a single bucket each would make strangers of one short text look alike."""

RELEVANCE_THRESHOLD = 0.4
"""Texts without a common word stay below .19 at 256 dimensions (p99.9 of 130,000 pairs, the largest .29)."""


class HashingEmbedder(Embedder):
    """A deterministic bag of hashed word stems, L2-normalised: cosine says how many words two texts share.

    It knows no synonyms. Text without words has the zero vector.

    Raises:
        ConfigurationError: ``dimensions`` is not an integer from 1 to 65,536.
    """

    def __init__(self, dimensions: int = 256) -> None:
        if isinstance(dimensions, bool) or not isinstance(dimensions, int) or not 1 <= dimensions <= MAX_DIMENSIONS:
            raise ConfigurationError(
                f"HashingEmbedder takes 1 to {MAX_DIMENSIONS:,} dimensions, got {_validation.shown(dimensions)}.",
                {"setting": "hashing_dimensions"},
            )
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int:
        """Number of buckets."""
        return self._dimensions

    @property
    def relevance_threshold(self) -> float | None:
        """Cosine from which the shared words are no accident of hashing."""
        return RELEVANCE_THRESHOLD

    @property
    def name(self) -> str:
        """``hashing`` and the version of the recipe."""
        return f"hashing-v{RECIPE}"

    async def embed(self, text: str) -> list[float]:
        """The vector of one text; see the class."""
        return self._vector(_validation.text(text, "text"))

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        return [self._vector(text) for text in _validation.texts(texts, "texts")]

    def _vector(self, text: str) -> list[float]:
        counts = document_terms(text)
        if not counts:
            return [0.0] * self._dimensions
        buckets, signs = (np.concatenate(parts) for parts in zip(*map(_spread, counts), strict=True))
        damped = [1 + math.log(count) if count > 1 else count for count in counts.values()]
        weights = signs * np.repeat(damped, BUCKETS_PER_TERM)
        values = np.bincount(buckets % self._dimensions, weights, minlength=self._dimensions)
        norm = float(np.linalg.norm(values))
        vector: list[float] = (values / norm if norm else values).tolist()
        return vector


@lru_cache(maxsize=32768)
def _spread(term: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The buckets of a term (before the modulo) and the sign it has in each."""
    digest = hashlib.blake2b(term.encode(), digest_size=4 * BUCKETS_PER_TERM).digest()
    numbers = np.frombuffer(digest, "<u4")
    return (numbers >> 1).astype(np.int64), np.where(numbers & 1, 1.0, -1.0)
