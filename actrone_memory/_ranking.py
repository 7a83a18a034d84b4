"""From scores to one order: which memories are admitted, and which comes first. Pure; every store ranks with it.

Arrays hold one value for each candidate memory: cosine in [-1, 1], lexical (BM25) >= 0, importance in [0, 1],
timestamps in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]
    ExactCosine = Callable[[NDArray[np.intp]], Floats]
    """The cosines of some rows, the same for the same vector in whatever row it stands."""

Background = tuple[float, float]
"""Mean and deviation of the cosine of unrelated texts; see `Embedder.background`."""

DEFAULT_THRESHOLD = 0.3
"""Cosine that admits a memory when neither the settings nor the embedder name one."""

LEXICAL_FLOOR = 0.7
"""BM25 score that admits a memory by its words alone: about one match of a word that most memories lack."""

SMALLEST_FLOOR = 1e-6
"""Keeps what has no word in common out, whatever the query."""

FULL_MATCH = 0.5
"""Share of a query's possible BM25 score that admits too: where every rule is about tests, "tests" must find them."""

DENSE_WEIGHT = 0.2
"""Share of the cosine beside BM25 (weight 1) in the fused relevance."""

MEANING_WEIGHT = 1.5
"""Worth of one deviation of the cosine, in BM25 points, where the embedder's background is known.

On the development conventions 1.5 puts the wanted one .02 to .03 (mean reciprocal rank) higher than 1.0."""

MEANING_WEIGHT_OF_TURNS = 1.0
"""The same for turns, which have more words than a rule, and those of the turns around them: 1.5 costs .014 there."""

WORTHLESS = 0.5
"""Deviations below the background from which a cosine is worth nothing: further down it says no more."""

STANDS_OUT = 1.0
"""Deviations above the background from which meaning alone may admit."""

STANDS_OUT_IN_STORE = 1.0
"""The same above the mean cosine of the store: where a query is near to everything, nothing is meant."""

NEAREST = 5
"""Memories that meaning alone admits at most: the more, the more of them are wrong."""

FEWEST_GROUPS, GROUPS_PER_PLACE = 512, 4
"""Of many scores only the largest of each group is looked at first: enough groups that few share one with a better."""

SMALL_STORE = 8
"""With fewer memories than this their mean and deviation say nothing."""

COSINE_ERROR = 1e-5
"""How far a fast matrix product of 32-bit vectors may be off; what lies so close to a limit is looked at exactly."""

EXACT_PLACES = 64
"""Places of an order that are decided by exact cosines; no one looks at ties further down."""

ROUNDING = 1e-6
"""How far the cosine of two 32-bit unit vectors may be off: a vector meets the threshold of its own cosine."""

IMPORTANCE_BOOST = 0.15
"""The most that importance adds to relevance: orders neighbours, never lifts a weak match over a strong one."""

RECENCY_BOOST = 0.1
"""The most that recency adds to relevance at recency_weight 1: the newer of equals first, old rules not buried."""

RECENCY_HALF_LIFE_SECONDS = 30 * 24 * 3600.0

BM25_K1 = 0.9
BM25_B = 0.6
"""Short texts of uneven length. On the development conversations 0.6 finds .006 more of the evidence than 0.4."""

SMALLEST_COLLECTION = 24
"""Below this many memories idf is computed as if there were so many, or one or two memories could never be found."""


class Weights(NamedTuple):
    """``MemoryConfig.relevance_weight`` and ``recency_weight``."""

    relevance: float
    recency: float


class Ranked(NamedTuple):
    """Positions of the admitted candidates, best first, their scores, and what each score was made of."""

    positions: NDArray[np.intp]
    scores: Floats
    parts: Mapping[str, Floats] = MappingProxyType({})


NOTHING = Ranked(np.empty(0, np.intp), np.empty(0))


def inverse_document_frequency(containing: int, total: int) -> float:
    """BM25's idf, ``ln(1 + (N - n + 0.5) / (n + 0.5))`` (Robertson and Zaragoza 2009), for a collection of N >= 24."""
    total = max(total, SMALLEST_COLLECTION)
    return math.log1p((total - containing + 0.5) / (containing + 0.5))


def bm25_norm(lengths: Floats, mean_length: float) -> Floats:
    """What BM25 adds to a term frequency in its denominator; ``lengths`` are weighted counts of terms."""
    return BM25_K1 * (1 - BM25_B + BM25_B * lengths / max(mean_length, 1e-9))


def bm25_term(tf: Floats, norm: Floats) -> Floats:
    """BM25's saturated term frequency, without idf; ``norm`` is `bm25_norm` of the same rows."""
    return tf * (BM25_K1 + 1) / (tf + norm)


def lexical_floor(possible: float) -> float:
    """The BM25 score that admits; ``possible`` is what a memory with every term of the query would score."""
    return max(min(LEXICAL_FLOOR, FULL_MATCH * possible), SMALLEST_FLOOR)


def rank_by_cosine(
    cosine: Floats,
    exact: ExactCosine,
    importance: Floats,
    timestamps: Floats,
    *,
    threshold: float,
    weights: Weights,
    now: float,
    limit: int,
) -> Ranked:
    """The documented blend: cosine >= threshold admits; relevance x cosine + recency x 0.5^(age / 30 days) orders.

    ``cosine`` may be off by `COSINE_ERROR`; for the rows that matter ``exact`` decides, so that equals tie.
    """
    near = np.flatnonzero(cosine >= threshold - COSINE_ERROR)
    doubtful = np.flatnonzero(cosine[near] < threshold + COSINE_ERROR)
    near = np.delete(near, doubtful[exact(near[doubtful]) < threshold - ROUNDING])
    meaning = weights.relevance * cosine[near]
    recency = weights.recency * _recency(np.maximum(0.0, now - timestamps[near]))
    first = _rivals(meaning + recency, min(limit, EXACT_PLACES), COSINE_ERROR)
    meaning[first] = weights.relevance * exact(near[first])
    scores = meaning + recency
    order = _order(near, scores, importance, timestamps, limit)
    return Ranked(near[order], scores[order], {"meaning": meaning[order], "recency": recency[order]})


def rank_hybrid(
    cosine: Floats,
    exact: ExactCosine,
    lexical: Floats,
    importance: Floats,
    timestamps: Floats,
    *,
    threshold: float,
    background: Background | None,
    lexical_floor: float,
    weights: Weights,
    limit: int,
    sample: Floats | None = None,
    meaning_weight: float = MEANING_WEIGHT,
) -> Ranked:
    """A close meaning or a lexical match admits; both together order, nudged by importance and recency.

    Close is a cosine that stands out of the background, see `_standing_out`; without one, a cosine >= threshold.
    Where only a part of the store was handed in, ``sample`` holds cosines of any of its memories, to stand out of.
    Recency is measured against the newest of the admitted, not against the clock: the same state, the same order.
    """
    admitted = _admitted(cosine, lexical, threshold, background, lexical_floor, cosine if sample is None else sample)
    if not admitted.any():
        return NOTHING
    if background is None:
        worth = _Worth.beside_words(cosine[admitted], lexical[admitted])
    else:
        worth = _Worth.of_deviations(*background, meaning_weight)
    # Over all rows, the others as zeros: taking half of them out costs more than computing with all.
    relevance = worth.points(cosine)
    relevance += lexical
    relevance *= admitted
    best = max(float(relevance.max()), SMALLEST_FLOOR)
    largest_boost = 1 + IMPORTANCE_BOOST + RECENCY_BOOST * weights.recency
    rivals = np.flatnonzero(relevance >= _reached_by_the_best(relevance, limit) / largest_boost)
    near = rivals[admitted[rivals]]
    words, meaning = lexical[near], worth.points(cosine[near])
    newest = _newest(timestamps, admitted)
    boosts = {
        "importance": IMPORTANCE_BOOST * importance[near],
        "recency": RECENCY_BOOST * weights.recency * _recency(newest - timestamps[near]),
    }
    boost = (1 + boosts["importance"] + boosts["recency"]) / (best * largest_boost)
    first = _rivals((words + meaning) * boost, min(limit, EXACT_PLACES), worth.error * float(boost.max()))
    meaning[first] = worth.points(exact(near[first]))
    scores = (words + meaning) * boost
    order = _order(near, scores, importance, timestamps, limit)
    parts = {"words": words, "meaning": meaning, **boosts}
    return Ranked(near[order], scores[order], {name: values[order] for name, values in parts.items()})


def _admitted(
    cosine: Floats,
    lexical: Floats,
    threshold: float,
    background: Background | None,
    lexical_floor: float,
    store: Floats,
) -> NDArray[np.bool_]:
    admitted: NDArray[np.bool_] = lexical >= lexical_floor
    if background is None:
        admitted |= cosine >= threshold - ROUNDING
    else:
        admitted[_standing_out(cosine, background, store)] = True
    return admitted


def _newest(timestamps: Floats, admitted: NDArray[np.bool_]) -> float:
    """The latest time of an admitted row, of which there is one; soon found where the rows are nearly in order."""
    last = timestamps[len(admitted) - 1 - int(admitted[::-1].argmax())]
    newer = np.flatnonzero(timestamps > last)
    return float(timestamps[newer[admitted[newer]]].max(initial=last))


def _standing_out(cosine: Floats, background: Background, store: Floats) -> NDArray[np.intp]:
    """The nearest few whose cosine is far above that of unrelated texts, and above that of most of the store."""
    mean, deviation = background
    least = max(mean + STANDS_OUT * deviation, _reached_by_the_best(cosine, NEAREST))
    if store.size >= SMALL_STORE:
        least = max(least, _above_most(store))
    near = np.flatnonzero(cosine >= least)
    if near.size <= NEAREST:
        return near
    return near[np.argpartition(cosine[near], near.size - NEAREST)[near.size - NEAREST :]]


def _reached_by_the_best(scores: Floats, k: int) -> float:
    """A score that the ``k`` largest reach and few others do, found without looking for them all."""
    groups = max(FEWEST_GROUPS, GROUPS_PER_PLACE * k)
    each = scores.size // groups
    if each < 2:
        return _kth_largest(scores, k)
    return _kth_largest(scores[: each * groups].reshape(each, groups).max(axis=0), k)


def _above_most(cosine: Floats) -> float:
    """The cosine from which a memory stands out in its store; what is left out of the search does not count."""
    mean = float(cosine.sum()) / cosine.size
    if not math.isfinite(mean):
        return _above_most(cosine[np.isfinite(cosine)])
    variance = float(cosine @ cosine) / cosine.size - mean * mean
    return mean + STANDS_OUT_IN_STORE * math.sqrt(max(0.0, variance))


class _Worth(NamedTuple):
    """What a cosine is worth beside a BM25 score: ``slope x max(0, cosine - zero)`` points."""

    zero: float
    slope: float

    @classmethod
    def of_deviations(cls, mean: float, deviation: float, weight: float) -> _Worth:
        """``weight`` points for each deviation above what unrelated texts have in common."""
        return cls(mean - WORTHLESS * deviation, weight / deviation)

    @classmethod
    def beside_words(cls, cosine: Floats, lexical: Floats) -> _Worth:
        """So that the closest adds `DENSE_WEIGHT` of what the best match of words has; of the admitted memories."""
        best = float(lexical.max()) or 1.0
        return cls(0.0, DENSE_WEIGHT * best / max(float(cosine.max()), COSINE_ERROR))

    def points(self, cosine: Floats) -> Floats:
        points: Floats = cosine - self.zero
        np.maximum(points, 0.0, out=points)
        points *= self.slope
        return points

    @property
    def error(self) -> float:
        """How far the points may be off because the cosine is."""
        return self.slope * COSINE_ERROR


def _rivals(scores: Floats, limit: int, error: float) -> NDArray[np.intp]:
    """Positions of the scores that may be among the ``limit`` largest, when each may be off by ``error``."""
    return np.flatnonzero(scores >= _kth_largest(scores, limit) - 2 * error) if scores.size else np.empty(0, np.intp)


def _kth_largest(scores: Floats, k: int) -> float:
    """The k-th largest score, the smallest when there are fewer."""
    return float(np.partition(scores, scores.size - k)[scores.size - k] if k < scores.size else scores.min())


def _recency(age_seconds: Floats) -> Floats:
    decayed: Floats = np.exp2(-age_seconds / RECENCY_HALF_LIFE_SECONDS)
    return decayed


def _order(
    rows: NDArray[np.intp], scores: Floats, importance: Floats, timestamps: Floats, limit: int
) -> NDArray[np.intp]:
    """Positions in ``rows``, best score first; ties by importance, then the newer, then the later stored."""
    # Every candidate that ties with the last one taken stays, so that ties are broken by the rule.
    rivals = _rivals(scores, limit, error=0.0)
    near = rows[rivals]
    return rivals[np.lexsort((-near, -timestamps[near], -importance[near], -scores[rivals]))[:limit]]
