"""Admission and order, with numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from actrone_memory._ranking import (
    COSINE_ERROR,
    DENSE_WEIGHT,
    FULL_MATCH,
    IMPORTANCE_BOOST,
    LEXICAL_FLOOR,
    MEANING_WEIGHT,
    NEAREST,
    RECENCY_BOOST,
    RECENCY_HALF_LIFE_SECONDS,
    SMALL_STORE,
    SMALLEST_COLLECTION,
    STANDS_OUT,
    WORTHLESS,
    Ranked,
    Weights,
    bm25_norm,
    bm25_term,
    inverse_document_frequency,
    lexical_floor,
    rank_by_cosine,
    rank_hybrid,
)

NOW = 1_800_000_000.0
DAY = 86_400.0
WEIGHTS = Weights(relevance=0.7, recency=0.3)


def column(values: Any, size: int) -> np.ndarray:
    return np.array([values] * size if isinstance(values, float) else values, dtype=np.float64)


def classic(
    cosine: list[float], *, importance: Any = 0.5, days_ago: Any = 0.0, threshold: float = 0.0, limit: int = 20,
    weights: Weights = WEIGHTS,
) -> Ranked:  # fmt: skip
    size = len(cosine)
    cosines = column(cosine, size)
    return rank_by_cosine(
        cosines,
        lambda rows: cosines[rows],
        column(importance, size),
        NOW - DAY * column(days_ago, size),
        threshold=threshold,
        weights=weights,
        now=NOW,
        limit=limit,
    )


def hybrid(
    cosine: Any, lexical: list[float], *, importance: Any = 0.5, days_ago: Any = 0.0, threshold: float = 0.5,
    floor: float = 0.7, limit: int = 20, weights: Weights = WEIGHTS, background: tuple[float, float] | None = None,
) -> Ranked:  # fmt: skip
    size = len(lexical)
    cosines = column(cosine, size)
    return rank_hybrid(
        cosines,
        lambda rows: cosines[rows],
        column(lexical, size),
        column(importance, size),
        NOW - DAY * column(days_ago, size),
        threshold=threshold,
        background=background,
        lexical_floor=floor,
        weights=weights,
        limit=limit,
    )


def order(ranked: Ranked) -> list[int]:
    return ranked.positions.tolist()


# --- the classic blend ------------------------------------------------------------------------------------------------


def test_the_threshold_admits_from_its_own_value_on() -> None:
    assert order(classic([0.49, 0.5, 0.51, -0.5], threshold=0.5)) == [2, 1]
    assert order(classic([-1.0, 1.0], threshold=-1.0)) == [1, 0]
    assert order(classic([0.1, 0.2], threshold=0.3)) == []


def test_what_is_left_out_of_the_search_is_not_admitted_by_any_threshold() -> None:
    assert order(classic([-math.inf, 0.2], threshold=-1.0)) == [1]


def test_the_score_is_relevance_times_cosine_plus_recency_halved_every_thirty_days() -> None:
    ranked = classic([0.9, 0.5, 0.8], days_ago=[0.0, 30.0, 60.0])
    assert order(ranked) == [0, 2, 1]
    assert ranked.scores.tolist() == pytest.approx([0.7 * 0.9 + 0.3, 0.7 * 0.8 + 0.3 / 4, 0.7 * 0.5 + 0.3 / 2])
    assert RECENCY_HALF_LIFE_SECONDS == 30 * DAY


def test_the_weights_decide_between_close_and_new() -> None:
    close_and_old, far_and_new = [1.0, 0.5], [365.0, 0.0]
    assert order(classic(close_and_old, days_ago=far_and_new, weights=Weights(1.0, 0.0))) == [0, 1]
    assert order(classic(close_and_old, days_ago=far_and_new, weights=Weights(0.0, 1.0))) == [1, 0]


def test_a_time_in_the_future_counts_as_now() -> None:
    ranked = classic([0.5, 0.5], days_ago=[-10.0, 0.0])
    assert ranked.scores.tolist() == pytest.approx([0.65, 0.65])
    assert order(ranked) == [0, 1]


def test_importance_breaks_exact_ties_and_nothing_else() -> None:
    assert order(classic([0.5, 0.5, 0.5], importance=[0.1, 0.9, 0.5])) == [1, 2, 0]
    assert order(classic([0.6, 0.5], importance=[0.0, 1.0])) == [0, 1]
    assert order(classic([0.4, 0.6], importance=[1.0, 0.0], threshold=0.5)) == [1]


def test_of_full_ties_the_later_stored_comes_first() -> None:
    assert order(classic([0.5, 0.5, 0.5])) == [2, 1, 0]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_a_limit_takes_the_head_of_the_whole_order_ties_included(limit: int) -> None:
    cosine, importance = [0.5, 0.9, 0.5, 0.5, 0.1, 0.5], [0.2, 0.0, 0.8, 0.4, 1.0, 0.6]
    whole = classic(cosine, importance=importance)
    assert order(whole) == [1, 2, 5, 3, 0, 4]
    ranked = classic(cosine, importance=importance, limit=limit)
    assert order(ranked) == order(whole)[:limit]
    assert ranked.scores.tolist() == whole.scores.tolist()[:limit]


def test_nothing_ranks_to_nothing() -> None:
    assert order(classic([])) == []
    assert order(hybrid([], [])) == []


# --- both together ----------------------------------------------------------------------------------------------------


def test_a_cosine_or_a_strong_match_of_words_admits() -> None:
    assert sorted(order(hybrid([0.5, 0.49, 0.49, -1.0], [0.0, 0.7, 0.69, 9.0], floor=0.7))) == [0, 1, 3]
    assert order(hybrid(0.1, [0.0, 0.0])) == []


def test_half_of_a_query_of_common_words_is_a_strong_match_and_no_word_never_is() -> None:
    assert lexical_floor(100.0) == LEXICAL_FLOOR
    assert lexical_floor(0.4) == pytest.approx(FULL_MATCH * 0.4)
    assert lexical_floor(0.0) > 0


@pytest.mark.parametrize("weights", [Weights(1.0, 1.0), Weights(0.0, 1.0)])
def test_neither_importance_nor_recency_admits(weights: Weights) -> None:
    assert order(hybrid(0.49, [0.0, 0.69], importance=1.0, weights=weights)) == []


def test_what_is_left_out_of_the_search_stays_out_whatever_its_importance() -> None:
    assert order(hybrid([-math.inf, 0.9], [0.0, 0.0], importance=[1.0, 0.0], threshold=-1.0)) == [1]


def test_the_score_fuses_shares_of_the_best_with_boosts() -> None:
    ranked = hybrid([0.8, 0.4], [1.0, 2.0], importance=[1.0, 0.0], days_ago=[0.0, 30.0])
    meaning = [DENSE_WEIGHT * 2.0, DENSE_WEIGHT * 2.0 * 0.5]  # the closest adds a share of the best match of words
    first = (1.0 + meaning[0]) * (1 + IMPORTANCE_BOOST + RECENCY_BOOST * 0.3)
    second = (2.0 + meaning[1]) * (1 + RECENCY_BOOST * 0.3 * 0.5)
    most = (2.0 + meaning[1]) * (1 + IMPORTANCE_BOOST + RECENCY_BOOST * 0.3)
    assert order(ranked) == [1, 0]
    assert ranked.scores.tolist() == pytest.approx([second / most, first / most])


def test_the_parts_of_a_score_explain_it() -> None:
    ranked = hybrid([0.8, 0.4], [1.0, 2.0], importance=[1.0, 0.0], days_ago=[0.0, 30.0])
    assert {name: values.tolist() for name, values in ranked.parts.items()} == {
        "words": [2.0, 1.0],
        "meaning": pytest.approx([DENSE_WEIGHT, DENSE_WEIGHT * 2.0]),
        "importance": pytest.approx([0.0, IMPORTANCE_BOOST]),
        "recency": pytest.approx([RECENCY_BOOST * 0.3 * 0.5, RECENCY_BOOST * 0.3]),
    }
    parts = classic([0.9], days_ago=[30.0]).parts
    assert parts["meaning"].tolist() == pytest.approx([0.7 * 0.9])
    assert set(parts) == {"meaning", "recency"}


def test_the_best_possible_score_is_one() -> None:
    assert hybrid([0.7], [3.0], importance=1.0).scores.tolist() == pytest.approx([1.0])


def test_of_equally_relevant_memories_the_more_important_then_the_newer_comes_first() -> None:
    assert order(hybrid(0.6, [2.0, 2.0, 2.0], importance=[0.1, 0.9, 0.5])) == [1, 2, 0]
    assert order(hybrid(0.6, [2.0, 2.0], days_ago=[400.0, 1.0])) == [1, 0]


def test_importance_never_lifts_a_weak_match_over_a_strong_one() -> None:
    assert order(hybrid(0.6, [1.0, 3.0], importance=[1.0, 0.0])) == [1, 0]


def test_a_year_old_rule_is_not_buried_under_yesterdays_chat() -> None:
    assert order(hybrid(0.6, [3.0, 2.5], days_ago=[365.0, 1.0])) == [0, 1]


def test_the_order_does_not_depend_on_the_clock() -> None:
    ages = np.array([5.0, 50.0, 20.0])
    first = hybrid(0.6, [2.0, 2.1, 2.05], days_ago=ages)
    later = hybrid(0.6, [2.0, 2.1, 2.05], days_ago=ages + 1_000)
    assert order(first) == order(later)
    assert first.scores.tolist() == pytest.approx(later.scores.tolist())


def test_a_hybrid_limit_keeps_ties_right() -> None:
    importance = [0.1, 0.1, 0.1, 0.1]
    whole = hybrid(0.6, [2.0, 2.0, 2.0, 1.0], importance=importance)
    assert order(whole) == [2, 1, 0, 3]
    assert [order(hybrid(0.6, [2.0, 2.0, 2.0, 1.0], importance=importance, limit=n)) for n in (1, 2, 3)] == [
        [2],
        [2, 1],
        [2, 1, 0],
    ]


def test_words_alone_and_vectors_alone_rank_too() -> None:
    assert order(hybrid(0.0, [1.0, 2.0])) == [1, 0]
    assert order(hybrid([0.6, 0.9], [0.0, 0.0])) == [1, 0]
    assert order(hybrid([-0.2, -0.9], [0.0, 0.0], threshold=-1.0)) == [1, 0]


# --- meaning against a background -------------------------------------------------------------------------------------

BACKGROUND = (0.1, 0.1)


def spread(*near: float, far: int = 20) -> list[float]:
    """The cosines given, and those of so many strangers, half of them a little closer than the others."""
    return [*near, *[0.05, 0.15] * (far // 2)]


def by_meaning(cosine: list[float], lexical: list[float] | None = None, **more: Any) -> list[int]:
    return order(hybrid(cosine, lexical or [0.0] * len(cosine), background=BACKGROUND, **more))


def test_what_stands_out_of_the_background_and_of_the_store_is_admitted_by_its_meaning() -> None:
    assert by_meaning(spread(0.6, 0.5)) == [0, 1]
    assert by_meaning(spread()) == []
    assert by_meaning([0.6] * 12 + [0.5] * 10) == [], "near to everything means nothing"
    assert by_meaning(spread(STANDS_OUT * 0.1 + 0.1 - 0.01)) == []


def test_a_threshold_does_not_admit_beside_a_background() -> None:
    assert by_meaning(spread(), threshold=-1.0) == []
    assert by_meaning(spread(0.5), threshold=1.0) == [0]


def test_meaning_alone_admits_only_the_nearest_few() -> None:
    cosine = spread(0.70, 0.69, 0.68, 0.67, 0.66, 0.65, far=60)
    assert by_meaning(cosine) == [0, 1, 2, 3, 4, 5][:NEAREST]
    words = [0.0] * 5 + [5.0] + [0.0] * 60
    assert 5 in by_meaning(cosine, words), "words admit beyond them"


@pytest.mark.parametrize("size", range(1, SMALL_STORE))
def test_in_a_store_of_a_few_the_background_alone_decides(size: int) -> None:
    assert by_meaning([0.5] * size) == list(range(size))[::-1][:NEAREST]
    assert by_meaning([0.1] * size) == []


def test_what_is_left_out_of_the_search_counts_neither_as_near_nor_as_store() -> None:
    cosine = [0.6, -math.inf, *[-math.inf] * 10, *spread()]
    assert by_meaning(cosine) == [0]


def test_meaning_and_words_add_up_and_a_far_meaning_is_worth_nothing() -> None:
    ranked = hybrid([0.3, 0.1, -1.0], [1.0, 2.0, 3.0], background=BACKGROUND)
    assert ranked.parts["meaning"].tolist() == pytest.approx(
        [MEANING_WEIGHT * (2 + WORTHLESS), 0.0, MEANING_WEIGHT * WORTHLESS]
    )
    assert ranked.parts["words"].tolist() == [1.0, 3.0, 2.0]
    assert order(ranked) == [0, 2, 1]


# --- fast cosines, a little off ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_cosines_that_are_a_little_off_change_no_result(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 40
    exact = rng.integers(-5, 10, size) / 10  # with many ties, some on the threshold
    fast = exact + rng.uniform(-COSINE_ERROR / 4, COSINE_ERROR / 4, size)
    lexical = rng.integers(0, 3, size) * 1.0
    importance = rng.permutation(size) / size
    timestamps = NOW - DAY * rng.integers(0, 3, size)
    for limit in (1, 3, 10, 100):
        common = {"threshold": 0.3, "weights": WEIGHTS, "limit": limit}
        found = rank_by_cosine(fast, lambda rows: exact[rows], importance, timestamps, now=NOW, **common)
        expected = rank_by_cosine(exact, lambda rows: exact[rows], importance, timestamps, now=NOW, **common)
        assert order(found) == order(expected)
        assert len(order(found)) == min(limit, int((exact >= 0.3).sum()))
        # The threshold itself is left to the fast cosines here, so it keeps away from them.
        common = {**common, "threshold": 0.25, "lexical_floor": 0.7, "background": None}
        found = rank_hybrid(fast, lambda rows: exact[rows], lexical, importance, timestamps, **common)
        expected = rank_hybrid(exact, lambda rows: exact[rows], lexical, importance, timestamps, **common)
        assert order(found) == order(expected)


def test_what_lies_just_below_the_threshold_takes_no_place_of_what_is_admitted() -> None:
    below, at = 0.5 - COSINE_ERROR / 2, 0.5
    assert order(classic([below, at], days_ago=[0.0, 365.0], threshold=0.5, limit=1)) == [1]


# --- BM25 -------------------------------------------------------------------------------------------------------------


def test_a_rare_word_says_more_and_a_small_collection_counts_as_a_larger_one() -> None:
    assert inverse_document_frequency(1, 1000) == pytest.approx(math.log(1 + 999.5 / 1.5))
    assert inverse_document_frequency(1, 1000) > inverse_document_frequency(500, 1000) > 0
    assert inverse_document_frequency(1, 2) == inverse_document_frequency(1, SMALLEST_COLLECTION)
    assert inverse_document_frequency(1, 1) >= LEXICAL_FLOOR


def test_a_term_saturates_and_counts_less_in_a_longer_text() -> None:
    def score(tf: float, length: float, mean_length: float = 10.0) -> float:
        return float(bm25_term(np.array(tf), bm25_norm(np.array(length), mean_length)))

    assert score(1.0, 10.0) == pytest.approx(1.0)
    assert 1.0 < score(2.0, 10.0) < score(100.0, 10.0) < 1.9
    assert score(1.0, 100.0) < 1.0 < score(1.0, 1.0)
    assert score(0.0, 0.0, mean_length=0.0) == 0.0
