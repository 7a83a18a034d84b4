"""OpenAI's embedding models (extra ``openai``)."""

from __future__ import annotations

from actrone_memory.errors import ConfigurationError
from actrone_memory.protocols import Embedder


class OpenAIEmbedder(Embedder):
    """Embeds with an OpenAI model.

    Raises:
        ConfigurationError: always, in this version: the OpenAI client is not wired in yet.
    """

    def __init__(self, api_key: str, model: str = "text-embedding-3-small", dimensions: int = 1536) -> None:
        self._dimensions = dimensions
        raise ConfigurationError(
            f"OpenAIEmbedder({model!r}) is not available in this version. Use embedding_provider='local', or pass "
            "your own embedder to MemoryManager.create(embedder=...).",
            {"missing": "openai", "api_key_given": bool(api_key)},
        )

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return self._dimensions

    async def embed(self, text: str) -> list[float]:
        """The vector of one text."""
        return (await self.embed_batch([text]))[0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        raise NotImplementedError(texts)
