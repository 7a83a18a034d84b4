"""From scores to one order: which memories are admitted, and which comes first. Pure; every store ranks with it.

Arrays hold one value for each candidate memory: cosine in [-1, 1], lexical (BM25) >= 0, importance in [0, 1],
timestamps in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
ExactCosine = Callable[[NDArray[np.intp]], Floats]
"""The cosines of some rows, the same for the same vector in whatever row it stands."""

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

LOWEST = 0.0
MEANING_WEIGHT = 0.9
"""Worth of one deviation above the background, in BM25 points."""

STANDS_OUT = 1.0
"""Deviations above the background of unrelated texts from which a cosine may admit."""

STANDS_OUT_IN_STORE = 1.5
"""Deviations above the mean cosine of the store: where all memories are near, none is nearer than by chance."""

NEAREST = 4
"""Memories that meaning alone admits at most."""

SMALL_STORE = 8
"""Below this many memories a mean over the store says nothing."""

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
    """Positions of the admitted candidates, best first, their scores, and what those were made of."""

    positions: NDArray[np.intp]
    scores: Floats
    parts: Mapping[str, Floats] = {}


def inverse_document_frequency(containing: int, total: int) -> float:
    """BM25's idf, ``ln(1 + (N - n + 0.5) / (n + 0.5))`` (Robertson and Zaragoza 2009), for a collection of N >= 24."""
    total = max(total, SMALLEST_COLLECTION)
    return float(np.log1p((total - containing + 0.5) / (containing + 0.5)))


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
    recency = weights.recency * _recency(np.maximum(0.0, now - timestamps[near]))
    scores = weights.relevance * cosine[near] + recency
    first = _rivals(scores, min(limit, EXACT_PLACES), COSINE_ERROR)
    scores[first] = weights.relevance * exact(near[first]) + recency[first]
    return _order(near, scores, importance, timestamps, limit)


def rank_hybrid(
    cosine: Floats,
    exact: ExactCosine,
    lexical: Floats,
    importance: Floats,
    timestamps: Floats,
    *,
    threshold: float,
    background: tuple[float, float] | None,
    lexical_floor: float,
    weights: Weights,
    limit: int,
) -> Ranked:
    """A close meaning or a lexical match admits; both together order, nudged by importance and recency.

    Close is a cosine that stands out of the background, see `_standing_out`; without one, a cosine >= threshold.
    Recency is measured against the newest of the admitted, not against the clock: the same state, the same order.
    """
    admitted = lexical >= lexical_floor
    if background is None:
        admitted |= cosine >= threshold - ROUNDING
    else:
        admitted[_standing_out(cosine, background)] = True
    admitted = np.flatnonzero(admitted)
    if not admitted.size:
        return Ranked(admitted, np.empty(0))
    newest = timestamps[admitted].max()
    meaning = _Meaning.of(cosine[admitted], lexical[admitted], background)
    relevance = lexical[admitted] + meaning.worth(cosine[admitted])
    best = float(relevance.max())
    largest_boost = 1 + IMPORTANCE_BOOST + RECENCY_BOOST * weights.recency
    rivals = np.flatnonzero(relevance * largest_boost >= _kth_largest(relevance, limit))
    near, relevance = admitted[rivals], relevance[rivals]
    recency = _recency(newest - timestamps[near])
    boost = 1 + IMPORTANCE_BOOST * importance[near] + RECENCY_BOOST * weights.recency * recency
    first = _rivals(relevance * boost, min(limit, EXACT_PLACES), meaning.error)
    relevance[first] = lexical[near[first]] + meaning.worth(exact(near[first]))
    scores = relevance * boost / (max(best, SMALLEST_FLOOR) * largest_boost)
    return _order(near, scores, importance, timestamps, limit)


class _Meaning(NamedTuple):
    """What a cosine adds to a BM25 score: ``slope x max(cosine - zero, lowest)``."""

    zero: float
    slope: float

    @classmethod
    def of(cls, cosine: Floats, lexical: Floats, background: tuple[float, float] | None) -> _Meaning:
        if background is not None:
            return cls(background[0], MEANING_WEIGHT / background[1])
        best = max(float(lexical.max()), SMALLEST_FLOOR)
        return cls(0.0, DENSE_WEIGHT * best / max(float(cosine.max()), COSINE_ERROR))

    def worth(self, cosine: Floats) -> Floats:
        worth: Floats = self.slope * np.maximum(LOWEST, cosine - self.zero)
        return worth

    @property
    def error(self) -> float:
        return self.slope * COSINE_ERROR


def _standing_out(cosine: Floats, background: tuple[float, float]) -> NDArray[np.intp]:
    """The nearest few whose cosine is far above that of unrelated texts, and above that of most of the store."""
    count = min(NEAREST, cosine.size)
    nearest = np.argpartition(cosine, cosine.size - count)[cosine.size - count :]
    limit = background[0] + STANDS_OUT * background[1]
    if cosine.size >= SMALL_STORE:
        among = cosine[np.isfinite(cosine)]
        limit = max(limit, float(among.mean()) + STANDS_OUT_IN_STORE * float(among.std()))
    return nearest[cosine[nearest] >= limit]


def _rivals(scores: Floats, limit: int, error: float) -> NDArray[np.intp]:
    """Positions of the scores that may be among the ``limit`` largest, when each may be off by ``error``."""
    return np.flatnonzero(scores >= _kth_largest(scores, limit) - 2 * error) if scores.size else np.empty(0, np.intp)


def _kth_largest(scores: Floats, k: int) -> float:
    """The k-th largest score, the smallest when there are fewer."""
    return float(np.partition(scores, scores.size - k)[scores.size - k] if k < scores.size else scores.min())


def _share_of_best(scores: Floats) -> Floats:
    best = scores.max()
    return scores / best if best > 0 else np.zeros_like(scores)


def _recency(age_seconds: Floats) -> Floats:
    decayed: Floats = np.exp2(-age_seconds / RECENCY_HALF_LIFE_SECONDS)
    return decayed


def _order(admitted: NDArray[np.intp], scores: Floats, importance: Floats, timestamps: Floats, limit: int) -> Ranked:
    """Best score first; ties by importance, then the newer, then the later stored."""
    # Every candidate that ties with the last one taken stays, so that ties are broken by the rule.
    rivals = _rivals(scores, limit, error=0.0)
    rows, scores = admitted[rivals], scores[rivals]
    best_first = np.lexsort((-rows, -timestamps[rows], -importance[rows], -scores))[:limit]
    return Ranked(rows[best_first], scores[best_first])
