"""A sentence-transformers model on this machine (extra ``local``)."""

from __future__ import annotations

from actrone_memory.errors import ConfigurationError
from actrone_memory.protocols import Embedder

MINILM_DIMENSIONS = 384


class LocalEmbedder(Embedder):
    """Embeds with sentence-transformers/all-MiniLM-L6-v2, in this process.

    Raises:
        ConfigurationError: always, in this version: the model is not wired in yet.
    """

    def __init__(self) -> None:
        raise ConfigurationError(
            "LocalEmbedder needs sentence-transformers, which this version does not load yet. Use "
            "embedding_provider='hashing', or pass your own embedder to MemoryManager.create(embedder=...).",
            {"missing": "sentence-transformers"},
        )

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return MINILM_DIMENSIONS

    async def embed(self, text: str) -> list[float]:
        """The vector of one text."""
        return (await self.embed_batch([text]))[0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        raise NotImplementedError(texts)
