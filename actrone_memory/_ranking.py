"""From scores to one order: which memories are admitted, and which comes first. Pure; every store ranks with it.

Arrays hold one value for each candidate memory: cosine in [-1, 1], lexical (BM25) >= 0, importance in [0, 1],
timestamps in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """Positions of the admitted candidates, best first, and their scores."""

    positions: NDArray[np.intp]
    scores: Floats


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
    lexical_floor: float,
    weights: Weights,
    limit: int,
) -> Ranked:
    """Cosine >= threshold or a lexical match admits; both together order, nudged by importance and recency.

    Recency is measured against the newest of the admitted, not against the clock: the same state, the same order.
    """
    admitted = np.flatnonzero((cosine >= threshold - ROUNDING) | (lexical >= lexical_floor))
    if not admitted.size:
        return Ranked(admitted, np.empty(0))
    newest = timestamps[admitted].max()
    words = _share_of_best(lexical[admitted])
    closest = max(float(cosine[admitted].max()), COSINE_ERROR)
    largest_boost = 1 + IMPORTANCE_BOOST + RECENCY_BOOST * weights.recency
    relevance = words + DENSE_WEIGHT * np.maximum(0.0, cosine[admitted]) / closest
    rivals = np.flatnonzero(relevance * largest_boost >= _kth_largest(relevance, limit))
    near, relevance = admitted[rivals], relevance[rivals]
    recency = _recency(newest - timestamps[near])
    boost = 1 + IMPORTANCE_BOOST * importance[near] + RECENCY_BOOST * weights.recency * recency
    first = _rivals(relevance * boost, min(limit, EXACT_PLACES), COSINE_ERROR / closest)
    relevance[first] = words[rivals[first]] + DENSE_WEIGHT * np.maximum(0.0, exact(near[first])) / closest
    scores = relevance * boost / ((1 + DENSE_WEIGHT) * largest_boost)
    return _order(near, scores, importance, timestamps, limit)


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
