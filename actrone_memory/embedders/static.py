"""Meaning without a model: one vector for each WordPiece of a text, summed, from the table of the package."""

from __future__ import annotations

from actrone_memory import _validation
from actrone_memory._lexical import is_german
from actrone_memory._wordpieces import packaged_table
from actrone_memory.protocols import Embedder

RECIPE = 1
"""Raise it with every new table, or other pieces for the same text: stores remember it as part of the name."""

RELEVANCE_THRESHOLD = 0.35
"""A cosine two deviations above that of unrelated texts, for stores that know no background."""


class StaticEmbedder(Embedder):
    """Embeds with the table of the package: no download, no network, microseconds a text. English in substance.

    The table is read on first use, once in a process, and shared by all objects. Text without a known word has the
    zero vector.
    """

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return packaged_table().dimensions

    @property
    def relevance_threshold(self) -> float | None:
        """Cosine that few unrelated texts reach."""
        return RELEVANCE_THRESHOLD

    @property
    def background(self) -> tuple[float, float] | None:
        """Mean and deviation of the cosine of unrelated texts, as measured when the table was made."""
        return packaged_table().background

    @property
    def name(self) -> str:
        """``static`` and the version of the table."""
        return f"static-v{RECIPE}"

    async def embed(self, text: str) -> list[float]:
        """The vector of one text; see the class."""
        return self._vector(_validation.text(text, "text"))

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        return [self._vector(text) for text in _validation.texts(texts, "texts")]

    def _vector(self, text: str) -> list[float]:
        # German without the words that give it away is left to the table, which knows a foreign language by its pieces.
        vector: list[float] = packaged_table().vector("" if is_german(text) else text).tolist()
        return vector
