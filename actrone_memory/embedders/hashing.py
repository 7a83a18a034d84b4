"""Words hashed into a fixed number of buckets: no model, no download, the same vector for the same text for ever."""

from __future__ import annotations

import math
import zlib

import numpy as np

from actrone_memory import _validation
from actrone_memory._lexical import document_terms
from actrone_memory.errors import ConfigurationError
from actrone_memory.protocols import Embedder

RECIPE = 1
"""Raise it when the same text would get another vector: stores remember it as part of the name."""

RELEVANCE_THRESHOLD = 0.45
"""Above what a chance collision of a one-word query with a memory of eight words gives (1 / sqrt(8) = .35)."""


class HashingEmbedder(Embedder):
    """A deterministic bag of stemmed words, L2-normalised: cosine says how many words two texts share.

    It knows no synonyms. Text without words has the zero vector.

    Raises:
        ConfigurationError: ``dimensions`` is not an integer of at least 1.
    """

    def __init__(self, dimensions: int = 256) -> None:
        if isinstance(dimensions, bool) or not isinstance(dimensions, int) or dimensions < 1:
            raise ConfigurationError(
                f"HashingEmbedder needs at least 1 dimension, got {dimensions!r}.",
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
        return [self._vector(_validation.text(text, "texts")) for text in texts]

    def _vector(self, text: str) -> list[float]:
        buckets = np.zeros(self._dimensions)
        for term, count in document_terms(text).items():
            buckets[zlib.crc32(term.encode()) % self._dimensions] += 1 + math.log(count) if count > 1 else count
        norm = float(np.linalg.norm(buckets))
        vector: list[float] = (buckets / norm if norm else buckets).tolist()
        return vector
