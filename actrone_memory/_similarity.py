"""Plain vectors: their cosine similarity, and whether what an embedder returned is some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from actrone_memory.errors import EmbeddingError, ValidationError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cosine_similarity(a: Sequence[float], b: Sequence[float]) -> float:
    """Cosine of the angle between ``a`` and ``b``, in [-1, 1]; 0.0 when either is a zero vector or empty.

    Of vectors of different length the longer one's surplus is ignored.

    Raises:
        ValidationError: an argument is no sequence of finite numbers.
    """
    first, second = as_vector(a, "a"), as_vector(b, "b")
    size = min(first.size, second.size)
    return float(np.clip(unit(first[:size]) @ unit(second[:size]), -1.0, 1.0))


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """``vector`` at length 1, however small or large it is; a zero vector stays zero."""
    largest = np.abs(vector).max(initial=0.0)
    if not largest:
        return vector
    scaled = vector / largest
    shortened: NDArray[np.float64] = scaled / np.linalg.norm(scaled)
    return shortened


def as_vector(values: object, field: str) -> NDArray[np.float64]:
    """A sequence of finite numbers as an array.

    Raises:
        ValidationError: ``values`` is anything else; texts and bools are no numbers.
    """
    try:
        vector = np.asarray(values)
    except Exception as error:  # an object of another library converts itself: a tensor with a gradient does not
        raise ValidationError(field, "must be a sequence of numbers") from error
    if vector.ndim != 1 or vector.dtype.kind not in "fiu" or not np.isfinite(vector).all():
        raise ValidationError(field, "must be a sequence of finite numbers")
    return vector.astype(np.float64)


def checked_vectors(name: str, vectors: object, expected: int, dimensions: int | None) -> list[list[float]]:
    """What the embedder ``name`` returned, if it is one vector for each text; without ``dimensions``, all of one size.

    Raises:
        EmbeddingError: it is anything else.
    """
    if not isinstance(vectors, Sequence | np.ndarray) or isinstance(vectors, str | bytes):
        raise EmbeddingError(f"{name} returned {type(vectors).__name__}, not a list of {expected} vectors")
    if len(vectors) != expected:
        raise EmbeddingError(
            f"{name} returned {len(vectors)} vectors for {expected} texts",
            {"vectors": len(vectors), "expected": expected},
        )
    checked: list[list[float]] = []
    for vector in vectors:
        checked.append(_checked_vector(name, vector, dimensions))
        dimensions = len(checked[0])
    return checked


def _checked_vector(name: str, vector: object, dimensions: int | None) -> list[float]:
    try:
        values = as_vector(vector, "vector")
    except ValidationError as error:
        raise EmbeddingError(f"{name} returned something that is no vector: {error}") from None
    if not values.size or values.size != (dimensions or values.size):
        raise EmbeddingError(
            f"{name} returned a vector of {values.size} numbers, expected were {dimensions or 'some'}",
            {"dimensions": values.size, "expected": dimensions},
        )
    numbers: list[float] = values.tolist()
    return numbers
