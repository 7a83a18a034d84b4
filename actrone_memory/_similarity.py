"""Cosine similarity of two plain vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actrone_memory.errors import ValidationError


def cosine_similarity(a: Sequence[float], b: Sequence[float]) -> float:
    """Cosine of the angle between ``a`` and ``b``, in [-1, 1]; 0.0 when either is a zero vector or empty.

    Of vectors of different length the longer one's surplus is ignored.

    Raises:
        ValidationError: an argument is no sequence of finite numbers.
    """
    first, second = _vector(a, "a"), _vector(b, "b")
    size = min(first.size, second.size)
    first, second = first[:size], second[:size]
    norms = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    if not norms:
        return 0.0
    return float(np.clip(first @ second / norms, -1.0, 1.0))


def _vector(values: Sequence[float], field: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValidationError(field, "must be a sequence of numbers") from None
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValidationError(field, "must be a sequence of finite numbers")
    return vector
