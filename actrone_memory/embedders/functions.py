"""An embedder made of functions: the way to a model of any library."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from actrone_memory import _validation
from actrone_memory._foreign import ForeignFunction
from actrone_memory._similarity import checked_vectors
from actrone_memory.config import MAX_DIMENSIONS
from actrone_memory.errors import ConfigurationError, EmbeddingError, ValidationError, failing_as, told
from actrone_memory.protocols import Embedder

Vector: TypeAlias = Sequence[float]
"""Or an array of numpy."""

SAMPLE = "size"
"""What is embedded to learn how long vectors are."""


class FunctionEmbedder(Embedder):
    """Embeds with functions of yours.

    Plain functions are called on threads beside the event loop, at most ``parallel_calls`` at a time; coroutine
    functions are awaited, and so is what a plain one returns where it can be. A blank text has the zero vector.

    Args:
        embed_documents: a list of texts to one vector for each, as lists or arrays.
        embed_query: one text to its vector, for a model that encodes queries otherwise.
        name: identity of the vector space. Equal names must mean comparable vectors: name the model and its version.
        dimensions: length of every vector; None: the model is asked once, when it is first needed.
        parallel_calls: more than 1 for a model that is safe to be called from many threads at once.

    Raises:
        ValidationError: an argument that is not acceptable.
    """

    def __init__(
        self,
        embed_documents: Callable[[list[str]], Sequence[Vector] | Awaitable[Sequence[Vector]]],
        embed_query: Callable[[str], Vector | Awaitable[Vector]] | None = None,
        *,
        name: str,
        dimensions: int | None = None,
        parallel_calls: int = 1,
    ) -> None:
        places = threading.Semaphore(_validation.positive_integer(parallel_calls, "parallel_calls"))
        self._documents = ForeignFunction(embed_documents, "embed_documents", places)
        self._query = None if embed_query is None else ForeignFunction(embed_query, "embed_query", places)
        self._name = _validation.identifier(name, "name")
        self._dimensions = None if dimensions is None else _validation.positive_integer(dimensions, "dimensions")
        if self._dimensions is not None and self._dimensions > MAX_DIMENSIONS:
            raise ValidationError("dimensions", f"must be at most {MAX_DIMENSIONS:,}, is {self._dimensions:,}")
        self._sampling = threading.Lock()

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def dimensions(self) -> int:
        """Length of every vector. While it is not known, this asks the model and waits.

        Raises:
            EmbeddingError: the model failed.
            ConfigurationError: it can only be awaited.
        """
        if self._dimensions is None:
            with self._sampling:
                return self._dimensions or self._learnt(self._sampled())
        return self._dimensions

    async def embed(self, text: str) -> list[float]:
        """The vector of one text; raises like `embed_batch`."""
        return (await self.embed_batch([_validation.text(text, "text")]))[0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text, in order, from one call.

        Raises:
            EmbeddingError: the function raised, or returned other than one finite vector of its size for each text.
        """
        texts = _validation.texts(texts, "texts")
        filled = [text for text in texts if text.strip()]
        vectors = iter(await self._asked(self._documents, filled, len(filled)) if filled else ())
        blank = [0.0] * await self._known_dimensions() if len(filled) < len(texts) else []
        return [next(vectors) if text.strip() else list(blank) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        """The vector of a query; raises like `embed_batch`."""
        if self._query is None or not _validation.text(text, "text").strip():
            return await self.embed(text)
        return (await self._asked(self._query, text, None))[0]

    async def _asked(
        self, function: ForeignFunction[Any, Any], question: list[str] | str, expected: int | None
    ) -> list[list[float]]:
        """Checked vectors, as many as expected; None: the answer is one vector."""
        with failing_as(self._failed):
            answer = await function(question)
        vectors = checked_vectors(self._name, [answer] if expected is None else answer, expected or 1, self._dimensions)
        self._learnt(vectors)
        return vectors

    async def _known_dimensions(self) -> int:
        return self._dimensions or self._learnt(await self._asked(self._documents, [SAMPLE], 1))

    def _learnt(self, vectors: list[list[float]]) -> int:
        self._dimensions = len(vectors[0])
        return self._dimensions

    def _sampled(self) -> list[list[float]]:
        try:
            answer = self._documents.now([SAMPLE])
        except Exception as error:
            raise self._failed(error) from error
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise ConfigurationError(
                f"{type(self).__name__}: this model can only be awaited; pass dimensions=, the length of its vectors.",
                {"embedder": self._name, "missing": "dimensions"},
            )
        return checked_vectors(self._name, answer, 1, None)

    def _failed(self, error: Exception) -> EmbeddingError:
        return EmbeddingError(f"{self._name} failed: {told(error)}")
