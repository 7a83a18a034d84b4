"""Cosine similarity of plain vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from actrone_memory import ValidationError, cosine_similarity


@pytest.mark.parametrize(
    ("a", "b", "cosine"),
    [
        ([1.0, 0.0], [1.0, 0.0], 1.0),
        ([1.0, 0.0], [0.0, 1.0], 0.0),
        ([1.0, 0.0], [-2.0, 0.0], -1.0),
        ([3.0, 4.0], [4.0, 3.0], 0.96),
        ([1, 1], [1, 0], math.sqrt(0.5)),
        ((1.0, 2.0), np.array([2.0, 4.0]), 1.0),
    ],
)
def test_it_is_the_cosine_of_the_angle(a: Any, b: Any, cosine: float) -> None:
    assert cosine_similarity(a, b) == pytest.approx(cosine)
    assert cosine_similarity(b, a) == pytest.approx(cosine)
    assert type(cosine_similarity(a, b)) is float


@pytest.mark.parametrize(("a", "b"), [([], []), ([0.0, 0.0], [1.0, 1.0]), ([1.0], [0.0]), ([], [1.0]), ([0], [0])])
def test_without_a_direction_it_is_zero(a: list[float], b: list[float]) -> None:
    assert cosine_similarity(a, b) == 0.0


def test_the_longer_ones_surplus_is_ignored() -> None:
    assert cosine_similarity([1.0, 0.0, 99.0], [1.0, 0.0]) == 1.0
    assert cosine_similarity([0.0, 1.0], [1.0]) == 0.0


def test_it_never_leaves_its_range() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        vector = rng.normal(size=rng.integers(1, 50))
        assert cosine_similarity(vector, vector * 3) <= 1.0
        assert cosine_similarity(vector, vector * -3) >= -1.0


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e150, 1e200, 1e308])
def test_length_does_not_matter_however_small_or_large(scale: float) -> None:
    assert cosine_similarity([scale, 0.0], [scale, scale]) == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize(
    "wrong",
    [None, "12", 3.0, [None], [math.nan], [math.inf], [[1.0]], [1j], {"x": 1}, object(), ["x"], [[1.0], [1.0, 2.0]],
     [10**400], np.array([], object)],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_no_sequence_of_finite_numbers_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        cosine_similarity(wrong, [1.0])
    assert refused.value.field == "a"
    with pytest.raises(ValidationError) as refused:
        cosine_similarity([1.0], wrong)
    assert refused.value.field == "b"
