"""OpenAI's embedding models, or those of a server that speaks OpenAI's API (extra ``openai``)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from actrone_memory import _validation
from actrone_memory._openai import OpenAIAccess, UnreadableAnswerError, parsed
from actrone_memory.config import MAX_DIMENSIONS
from actrone_memory.errors import ConfigurationError, EmbeddingError
from actrone_memory.protocols import Embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

EMBEDDING_SECONDS = 60.0
"""For one request with its retries: a query that has waited longer is not waited for any more."""

SHORTENABLE = "text-embedding-3"
"""Models whose names begin so are asked for vectors of the wanted size; others have one size."""

TEXTS_PER_REQUEST = 2_048
BYTES_PER_REQUEST = 300_000
"""The API takes 300,000 tokens, and no token is shorter than a byte."""

SURE_BYTES = 8_191
"""What fits into the 8,191 tokens of one text in any case."""

LIKELY_BYTES = 3 * SURE_BYTES
"""What nearly always fits: prose has three to five bytes a token. A text that does not is cut to `SURE_BYTES`."""

TOO_LONG = frozenset({400, 413})
"""The status of a refused request, which may be one for its length."""


class OpenAIEmbedder(Embedder):
    """Embeds with an OpenAI model, or with one of a compatible server at ``base_url``.

    Rate limits, errors of the server, lost connections and broken answers are tried again, at most three times and for
    at most 60 seconds a request. Of texts that are too long for the model both ends are embedded; a blank text has the
    zero vector. Usable from any thread and event loop; each loop has connections of its own until it ends.

    Raises:
        ConfigurationError: the package openai is missing, or an argument cannot be used.
    """

    def __init__(
        self,
        api_key: str,
        model: str = "text-embedding-3-small",
        dimensions: int = 1536,
        *,
        base_url: str | None = None,
    ) -> None:
        self._access = OpenAIAccess(
            type(self).__name__, api_key, model, base_url, setting="embedding_model", error=EmbeddingError
        )
        if isinstance(dimensions, bool) or not isinstance(dimensions, int) or not 1 <= dimensions <= MAX_DIMENSIONS:
            raise ConfigurationError(
                f"OpenAIEmbedder takes 1 to {MAX_DIMENSIONS:,} dimensions, got {_validation.shown(dimensions)}.",
                {"setting": "embedding_dimensions"},
            )
        self._model, self._dimensions = model, dimensions

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return self._dimensions

    @property
    def name(self) -> str:
        """``openai``, the model and the dimensions; not the address, a model makes the same space wherever it runs."""
        return f"openai:{self._model}@{self._dimensions}"

    async def embed(self, text: str) -> list[float]:
        """The vector of one text.

        Raises:
            EmbeddingError: the server refused, cannot be reached, or answered nothing useful; the message says which.
        """
        return (await self.embed_batch([_validation.text(text, "text")]))[0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text, in as few requests as the API's limits allow; raises like `embed`."""
        texts = _validation.texts(texts, "texts")
        vectors = [[0.0] * self._dimensions] * len(texts)
        told = [(place, _both_ends(text, LIKELY_BYTES)) for place, text in enumerate(texts) if text.strip()]
        for batch in _batches(told):
            places, batched = zip(*batch, strict=True)
            for place, vector in zip(places, await self._vectors(list(batched)), strict=True):
                vectors[place] = vector
        return vectors

    async def close(self) -> None:
        """Close the connections; a later call opens them again."""
        await self._access.close()

    async def _vectors(self, texts: list[str]) -> list[list[float]]:
        try:
            return await self._request(texts)
        except EmbeddingError as error:
            suspects = [text for text in texts if len(text.encode()) > SURE_BYTES]
            if error.details.get("status") not in TOO_LONG or not suspects:
                raise
        if len(texts) == 1:
            return await self._request([_both_ends(texts[0], SURE_BYTES)])
        half = len(texts) // 2  # the API does not say which text it was, and the others are not to be cut
        return [*await self._vectors(texts[:half]), *await self._vectors(texts[half:])]

    async def _request(self, texts: list[str]) -> list[list[float]]:
        wanted: dict[str, Any] = {"dimensions": self._dimensions} if self._model.startswith(SHORTENABLE) else {}
        return await self._access.ask(
            lambda client: client.embeddings.with_raw_response.create(
                input=texts, model=self._model, encoding_format="base64", **wanted
            ),
            lambda content: self._read(content, len(texts)),
            EMBEDDING_SECONDS,
        )

    def _read(self, content: bytes, expected: int) -> list[list[float]]:
        items = parsed(content, "data")
        if len(items) != expected:
            raise UnreadableAnswerError(f"{len(items)} vectors for {expected} texts")
        vectors = [_vector(item) for item in _in_order(items)]
        sizes = {vector.size for vector in vectors} - {self._dimensions}
        if sizes:
            raise EmbeddingError(
                f"{self._model!r} makes vectors of {min(sizes)} dimensions, not of {self._dimensions}: set "
                "ACTRONE_EMBEDDING_DIMENSIONS to what it makes.",
                {"dimensions": min(sizes), "expected": self._dimensions, "setting": "embedding_dimensions"},
            )
        return [vector.tolist() for vector in vectors]


def _batches(texts: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """The texts with their places, in order, parted by the limits of one request."""
    batch: list[tuple[int, str]] = []
    size = 0
    for place, text in texts:
        length = len(text.encode())
        if batch and (len(batch) == TEXTS_PER_REQUEST or size + length > BYTES_PER_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append((place, text))
        size += length
    if batch:
        yield batch


def _both_ends(text: str, most_bytes: int) -> str:
    """The text, or its beginning and its end when it has more bytes than that."""
    encoded = text.encode()
    if len(encoded) <= most_bytes:
        return text
    half = (most_bytes - 1) // 2
    start, end = encoded[:half].decode(errors="ignore"), encoded[-half:].decode(errors="ignore")
    return f"{start}\n{end}"


def _in_order(items: list[Any]) -> list[Any]:
    """The items by their ``index``; as they stand when none has one."""
    places = [item.get("index") if isinstance(item, dict) else None for item in items]
    if all(place is None for place in places):
        return items
    by_place = {place: item for place, item in zip(places, items, strict=True) if type(place) is int}
    if by_place.keys() != set(range(len(items))):
        raise UnreadableAnswerError("its vectors are not numbered from 0 on")
    return [by_place[place] for place in range(len(items))]


def _vector(item: Any) -> NDArray[np.float64]:
    given = item.get("embedding") if isinstance(item, dict) else None
    try:
        values = np.frombuffer(base64.b64decode(given, validate=True), "<f4") if isinstance(given, str) else given
        vector = np.asarray(values, np.float64)
    except (TypeError, ValueError, binascii.Error):
        raise UnreadableAnswerError("a vector is none") from None
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise UnreadableAnswerError("a vector is none")
    return vector
