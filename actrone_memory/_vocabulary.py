"""The terms of an index, sorted, so that terms that look alike are found without looking at all of them. Pure.

A query's word is often not the memory's: "Formularfeld" asks for "Formularfelder", "Eingangsdatum" for "Datum". Alike
are terms that share a long beginning, a term that begins or ends another (compounds), and terms one typo apart whose
first or last four letters are right.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator

SHORTEST = 4
"""Shorter terms are matched exactly only: too many words begin alike."""

SHORTEST_ENDING = 5
SHORTEST_TYPO = 6

PREFIX_WEIGHT = 0.6
ENDING_WEIGHT = 0.5
BEGINNING_WEIGHT = 0.5
TYPO_WEIGHT = 0.4

REMEMBERED = 4096
"""Answers kept until the vocabulary changes: queries repeat their words."""

COMMON_BEGINNING = 0.7
"""Share of the longer term that must be common when neither begins the other."""


class Vocabulary:
    """A sorted set of terms; only words of letters, at least `SHORTEST` long, take part in matching."""

    def __init__(self) -> None:
        self._terms: list[str] = []
        self._reversed: list[str] = []
        self._remembered: dict[str, dict[str, float]] = {}

    def add(self, term: str) -> None:
        """Add a term that is not in the vocabulary yet."""
        if len(term) >= SHORTEST and term.isalpha() and _spaced(term):
            bisect.insort(self._terms, term)
            bisect.insort(self._reversed, term[::-1])
            self._remembered.clear()

    def similar(self, term: str) -> dict[str, float]:
        """Terms of the vocabulary that look like ``term``, without itself, each with a weight in (0, 1); read only."""
        if term not in self._remembered:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            self._remembered[term] = self._similar(term)
        return self._remembered[term]

    def _similar(self, term: str) -> dict[str, float]:
        if len(term) < SHORTEST or not term.isalpha() or not _spaced(term):
            return {}
        found: dict[str, float] = {}
        for candidate in self._candidates(term):
            weight = likeness(term, candidate)
            if weight and candidate != term:
                found[candidate] = weight
        return found

    def _candidates(self, term: str) -> Iterator[str]:
        yield from _beginning_with(self._terms, term[:SHORTEST])
        for ending in _endings(term):
            if _contains(self._terms, ending):
                yield ending
        if len(term) >= SHORTEST_ENDING:
            yield from (found[::-1] for found in _beginning_with(self._reversed, term[::-1]))
        if len(term) >= SHORTEST_TYPO:
            # A typo in the first letters leaves the last ones alone.
            yield from (found[::-1] for found in _beginning_with(self._reversed, term[: -SHORTEST - 1 : -1]))


def likeness(a: str, b: str) -> float:
    """How alike two terms look, 0 for not at all."""
    shorter, longer = sorted((len(a), len(b)))
    common = _common_beginning(a, b)
    if common == shorter:
        return PREFIX_WEIGHT * math.sqrt(common / longer)
    if common >= max(SHORTEST, COMMON_BEGINNING * longer):
        return BEGINNING_WEIGHT * common / longer
    if shorter >= SHORTEST_ENDING and (a.endswith(b) or b.endswith(a)):
        return ENDING_WEIGHT * math.sqrt(shorter / longer)
    if shorter >= SHORTEST_TYPO and _one_edit(a, b, common):
        return TYPO_WEIGHT
    return 0.0


def _spaced(term: str) -> bool:
    return term[0] < "\u0e00" or "\u1e00" <= term[0] < "\u2000"


def _common_beginning(a: str, b: str) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


def _one_edit(a: str, b: str, common: int) -> bool:
    """Whether one letter inserted, removed, replaced, or swapped with its neighbour turns ``a`` into ``b``."""
    a, b = a[common:], b[common:]
    swapped = len(a) > 1 and a[1] + a[0] + a[2:] == b
    return swapped or a[1:] == b[1:] or a[1:] == b or a == b[1:]


def _endings(term: str) -> Iterator[str]:
    return (term[start:] for start in range(1, len(term) - SHORTEST_ENDING + 1))


def _contains(terms: list[str], term: str) -> bool:
    position = bisect.bisect_left(terms, term)
    return position < len(terms) and terms[position] == term


def _beginning_with(terms: list[str], beginning: str) -> Iterator[str]:
    for position in range(bisect.bisect_left(terms, beginning), len(terms)):
        if not terms[position].startswith(beginning):
            return
        yield terms[position]
