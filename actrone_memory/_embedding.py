"""The manager's way to vectors: long texts shortened, an embedder's failures and rubbish turned into one error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from actrone_memory._similarity import checked_vectors
from actrone_memory._statements import stated_text
from actrone_memory._store_calls import pieces
from actrone_memory.embedders.cache import CachedEmbedder
from actrone_memory.errors import EmbeddingError, failing_as, told
from actrone_memory.models import MemoryEntry
from actrone_memory.protocols import Embedder, L1Store, VectorCache

T = TypeVar("T")

ENTRIES_PER_BATCH = 128
"""Entries read, embedded or written in one step."""

LONGEST_EMBEDDED = 8_000
"""Characters of a text that are embedded, half from each end: about what common models read before they truncate."""


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """``items`` in pieces of at most `ENTRIES_PER_BATCH`."""
    return pieces(items, ENTRIES_PER_BATCH)


def shorten(text: str) -> str:
    """Both ends of a text too long to embed."""
    half = LONGEST_EMBEDDED // 2
    return text if len(text) <= LONGEST_EMBEDDED else f"{text[:half]}\n{text[-half:]}"


def with_cache(embedder: Embedder, store: L1Store) -> CachedEmbedder:
    """``embedder``, which encodes no query twice, and no stored text if ``store`` can keep vectors."""
    return CachedEmbedder(embedder, store if isinstance(store, VectorCache) else None)


async def embed_all(embedder: Embedder, texts: Sequence[str]) -> list[list[float]]:
    """One checked vector for each text, in order; equal texts are embedded once, at most `ENTRIES_PER_BATCH` in a step.

    Raises:
        EmbeddingError: the embedder raised, or returned other than one finite vector of its size for each text.
    """
    shortened = [shorten(text) for text in texts]
    vectors: dict[str, list[float]] = {}
    for batch in batches(list(dict.fromkeys(shortened))):
        answer = await _answered(embedder, embedder.embed_batch, list(batch))
        vectors |= zip(batch, checked_vectors(embedder.name, answer, len(batch), embedder.dimensions), strict=True)
    return [vectors[text] for text in shortened]


async def embed_entries(embedder: Embedder, entries: Sequence[MemoryEntry]) -> None:
    """Give each entry the vector of what is searched of it; raises like `embed_all`."""
    vectors = await embed_all(embedder, [stated_text(entry) for entry in entries])
    for entry, vector in zip(entries, vectors, strict=True):
        entry.embedding = vector


async def embed_query(embedder: Embedder, query: str) -> list[float]:
    """The checked vector of a query; raises like `embed_all`."""
    answer = await _answered(embedder, embedder.embed_query, shorten(query))
    return checked_vectors(embedder.name, [answer], 1, embedder.dimensions)[0]


async def _answered(embedder: Embedder, ask: Callable[[T], Awaitable[object]], question: T) -> object:
    with failing_as(lambda error: EmbeddingError(f"{embedder.name} failed: {told(error)}")):
        return await ask(question)
