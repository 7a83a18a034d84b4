"""The manager's way to vectors: long texts shortened, an embedder's failures and rubbish turned into one error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from actrone_memory._similarity import as_vector
from actrone_memory.embedders.cache import CachedEmbedder
from actrone_memory.errors import ActroneMemoryError, EmbeddingError, ValidationError
from actrone_memory.protocols import Embedder, L1Store, VectorCache

T = TypeVar("T")

ENTRIES_PER_BATCH = 128
"""Entries read, embedded or written in one step."""

LONGEST_EMBEDDED = 8_000
"""Characters of a text that are embedded, half from each end: about what common models read before they truncate."""


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """``items`` in pieces of at most `ENTRIES_PER_BATCH`."""
    return (items[start : start + ENTRIES_PER_BATCH] for start in range(0, len(items), ENTRIES_PER_BATCH))


def shorten(text: str) -> str:
    """Both ends of a text too long to embed."""
    half = LONGEST_EMBEDDED // 2
    return text if len(text) <= LONGEST_EMBEDDED else f"{text[:half]}\n{text[-half:]}"


def with_cache(embedder: Embedder, store: L1Store) -> Embedder:
    """``embedder``, which embeds nothing twice if ``store`` can keep vectors."""
    return CachedEmbedder(embedder, store) if isinstance(store, VectorCache) else embedder


async def embedder_of(embedder: Embedder, agent_id: str) -> Embedder:
    """The embedder for texts of the agent that are about to be stored; taken before they are read, see `with_cache`."""
    return await embedder.for_agent(agent_id) if isinstance(embedder, CachedEmbedder) else embedder


async def forget_vectors(embedder: Embedder, agent_id: str) -> None:
    """Delete what the agent's texts left in the cache, if there is one."""
    if isinstance(embedder, CachedEmbedder):
        await embedder.forget(agent_id)


async def embed_all(embedder: Embedder, texts: Sequence[str]) -> list[list[float]]:
    """One checked vector for each text, in order.

    Raises:
        EmbeddingError: the embedder raised, or returned other than one finite vector of its size for each text.
    """
    try:
        vectors = await embedder.embed_batch([shorten(text) for text in texts])
    except ActroneMemoryError:
        raise
    except Exception as error:
        raise EmbeddingError(f"{embedder.name} failed: {type(error).__name__}: {error}") from error
    return _checked(embedder, vectors, len(texts))


async def embed_one(embedder: Embedder, text: str) -> list[float]:
    """The checked vector of one text; raises like `embed_all`."""
    try:
        vector = await embedder.embed(shorten(text))
    except ActroneMemoryError:
        raise
    except Exception as error:
        raise EmbeddingError(f"{embedder.name} failed: {type(error).__name__}: {error}") from error
    return _checked(embedder, [vector], 1)[0]


def _checked(embedder: Embedder, vectors: object, expected: int) -> list[list[float]]:
    if not isinstance(vectors, Sequence) or len(vectors) != expected:
        raise EmbeddingError(f"{embedder.name} returned no list of {expected} vectors")
    return [_checked_vector(embedder, vector) for vector in vectors]


def _checked_vector(embedder: Embedder, vector: object) -> list[float]:
    try:
        values = as_vector(vector, "vector")
    except ValidationError as error:
        raise EmbeddingError(f"{embedder.name} returned something that is no vector: {error}") from None
    if values.size != embedder.dimensions:
        raise EmbeddingError(
            f"{embedder.name} promised {embedder.dimensions} numbers, returned a vector of {values.size}",
            {"dimensions": values.size, "expected": embedder.dimensions},
        )
    checked: list[float] = values.tolist()
    return checked
