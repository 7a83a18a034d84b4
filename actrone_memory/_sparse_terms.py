"""Terms as sparse vectors, for a server that finds candidates by words. Pure; exact scores are computed elsewhere.

A term is a number made of its letters. Beside the terms stand their shapes, their first and last letters, so that what
only looks like a query's word is among the candidates too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from actrone_memory._lexical import query_terms
from actrone_memory._ranking import bm25_norm, bm25_term
from actrone_memory._vocabulary import SHORTEST, SHORTEST_ENDING

if TYPE_CHECKING:
    from numpy.typing import NDArray

TYPICAL_LENGTH = 20.0
"""Terms of a memory for the stored saturation: the mean of the whole moves with every write, a stored value cannot."""

SHAPE_WEIGHT = 0.3
"""Of a shape beside the term itself: enough to be a candidate, too little to come before an exact match."""

SHAPES = 2
"""Shapes of a term at most."""

MOST_DIMENSIONS = 1_000
"""Numbers of a query at most; a page of text has no more terms that tell anything."""


class SparseTerms(NamedTuple):
    """A sparse vector: ascending numbers and their values."""

    indices: list[int]
    values: list[float]


@lru_cache(maxsize=65536)
def term_number(term: str) -> int:
    """The dimension of a term, in 32 bits."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest())


def stored_terms(terms: Mapping[str, float]) -> SparseTerms:
    """The sparse vector of a text with these weighted counts: BM25's saturated frequencies, without idf."""
    names, counts = list(terms), np.fromiter(terms.values(), np.float64, len(terms))
    saturated = bm25_term(counts, bm25_norm(np.full(1, counts.sum()), TYPICAL_LENGTH))
    return _vector(zip(names, saturated.tolist(), strict=True))


def stored_values(texts: Sequence[Mapping[str, float]], terms: Sequence[str]) -> NDArray[np.float64]:
    """What the sparse vector of each text (a row) stores for each term (a column)."""
    counts = np.array([[text.get(term, 0.0) for term in terms] for text in texts]).reshape(len(texts), len(terms))
    lengths = np.array([sum(text.values()) for text in texts])
    return np.asarray(bm25_term(counts, bm25_norm(lengths, TYPICAL_LENGTH)[:, np.newaxis]), np.float64)


def is_stored_whole(terms: Mapping[str, float]) -> bool:
    """Whether no term of a text is left out of its sparse vector."""
    return len(terms) * (1 + SHAPES) <= MOST_DIMENSIONS


def asked_terms(text: str, *, talk: bool) -> SparseTerms:
    """The sparse vector of a query; a long word asks for the words that end it too."""
    asked = query_terms(text, generic_words=talk)
    endings = (
        (term[start:], SHAPE_WEIGHT * weight)
        for term, weight in asked.items()
        if _has_shape(term)
        for start in range(1, len(term) - SHORTEST_ENDING + 1)
    )
    return _vector([*asked.items(), *endings])


def _vector(weighted: Iterator[tuple[str, float]] | list[tuple[str, float]]) -> SparseTerms:
    values: dict[int, float] = {}
    for term, weight in weighted:
        for name, share in ((term, 1.0), *((shape, SHAPE_WEIGHT) for shape in _shapes(term))):
            number = term_number(name)
            values[number] = max(values.get(number, 0.0), share * weight)
    heaviest = sorted(values, key=lambda number: (-values[number], number))[:MOST_DIMENSIONS]
    indices = sorted(heaviest)
    return SparseTerms(indices, [values[number] for number in indices])


def _shapes(term: str) -> tuple[str, ...]:
    """Names of the shapes of a term; no term has a space in it."""
    return (f"{term[:SHORTEST]} ", f" {term[-SHORTEST:]}") if _has_shape(term) else ()


def _has_shape(term: str) -> bool:
    return len(term) > SHORTEST and term.isalpha()
