"""Cosine similarity of two plain vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from actrone_memory.errors import ValidationError

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
    except (TypeError, ValueError, OverflowError):
        raise ValidationError(field, "must be a sequence of numbers") from None
    if vector.ndim != 1 or (vector.size and vector.dtype.kind not in "fiu") or not np.isfinite(vector).all():
        raise ValidationError(field, "must be a sequence of finite numbers")
    return vector.astype(np.float64)
