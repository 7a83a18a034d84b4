"""Of two results that speak of the same matter, the newer comes first. Pure; nothing is dropped.

What speaks of the same matter is told by tags together with vectors, or with words where vectors tell nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from actrone_memory._lexical import holds_unspaced
from actrone_memory._statements import LONGEST_STATEMENT, UPDATED_TYPES, content_words
from actrone_memory.models import MemoryEntry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Floats = NDArray[np.floating]
    _Pairs = NDArray[np.bool_]

FIRST_RESULTS = 32
"""Results that are compared with each other: further down nothing speaks of the query's matter as well as its first."""

_RANKED_BEFORE = np.triu(np.ones((FIRST_RESULTS, FIRST_RESULTS), bool), k=1)
"""True where the result of the row is ranked before that of the column."""

MOST_READ = 16
"""The first of them that are read to be compared in earnest: reading costs more than comparing vectors."""

SOMEWHAT_LIKE = 3.0
"""Standard deviations above unrelated texts below which two memories are not looked at."""

CLEAR_LEAD = 0.7
"""Share of the older one's score that the newer one needs."""

LIKE = 4.0
"""Standard deviations above unrelated texts from which two memories with a common tag speak of the same matter."""

VERY_LIKE = 5.75
"""The same without a common tag. For a sentence model whose unrelated cosines are .07 +- .1 these are .45 and .62."""

OVERLAP = 0.5
"""Share of the shorter text's words from which two memories with a common tag speak of the same matter."""

LARGE_OVERLAP = 0.75
"""The same without a common tag."""

FEWEST_SHARED_WORDS = 2
"""One word in common is no matter in common, however short a text is."""

OPENING_WORDS = 2
"""Content words that open a text and tell its subject: with all tags alike, one in common is enough."""

_BLOCK = 8
"""Rows multiplied at once: so few that BLAS stays in this thread, where waking another costs more than the product."""

_NEWS = re.compile(
    r"\b(?:now|nowadays|as of|from now on|no longer|instead of|moved|switched|migrated|replaced|"
    r"jetzt|nun|nunmehr|seit|ab sofort|künftig|nicht mehr|statt|désormais|maintenant|ahora|ya no)\b|"
    "现在|今后|改用|不再|改为",
    re.IGNORECASE,
)
"""Says that something is new: then, with all tags alike, any word in common is enough."""


def newer_first(
    scores: _Floats,
    times: _Floats,
    vectors: _Floats,
    background: tuple[float, float] | None,
    entry: Callable[[int], MemoryEntry],
) -> list[int]:
    """The positions of results, ranked best first, with each newer memory in the place of the older one it follows.

    ``scores``, ``times`` (seconds) and ``vectors`` (unit rows) hold a row for each result, ``entry`` reads one.
    ``background`` is the embedder's; without it words alone decide. Only injected memories and facts move that are
    statements, not documents, and only among the first `FIRST_RESULTS`. An older one that leads clearly stays: it says
    what the query asks for, and the newer one speaks of something beside it.
    """
    unmoved = list(range(len(times)))
    if len(unmoved) < 2:
        return unmoved
    scores, times, vectors = scores[:FIRST_RESULTS], times[:FIRST_RESULTS], vectors[:FIRST_RESULTS]
    likeness = _likeness(vectors, background)
    rivals = scores >= CLEAR_LEAD * scores[:, np.newaxis]
    near = np.less.outer(times, times) & rivals & ~(likeness < SOMEWHAT_LIKE)
    out_of_order = near & _RANKED_BEFORE[: len(times), : len(times)]
    read = np.flatnonzero(out_of_order.any(axis=0) | out_of_order.any(axis=1))[:MOST_READ].tolist()
    entries = {place: entry(place) for place in read}
    newer = np.zeros_like(near)
    for old, new in np.argwhere(near).tolist():
        if old in entries and new in entries:
            newer[old, new] = _same_matter(entries[old], entries[new], float(likeness[old, new]))
    return _in_order(newer, times) + unmoved[len(times) :] if (newer & out_of_order).any() else unmoved


def _likeness(vectors: _Floats, background: tuple[float, float] | None) -> _Floats:
    """Of each with each, in standard deviations above unrelated texts; NaN where vectors tell nothing."""
    if background is None:
        return np.full((len(vectors), len(vectors)), np.nan)
    mean, deviation = background
    likeness: _Floats = (_each_with_each(vectors) - mean) / deviation
    silent = ~vectors.any(axis=1)
    likeness[np.logical_and.outer(silent, silent)] = np.nan
    return likeness


def _same_matter(old: MemoryEntry, new: MemoryEntry, likeness: float) -> bool:
    """Whether ``new`` could be an update of ``old``; with a ``likeness`` of NaN words decide alone."""
    if not (_may_move(old) and _may_move(new)):
        return False
    tagged = not set(old.topic_tags).isdisjoint(new.topic_tags)
    if likeness < LIKE and not tagged:
        return False
    before, after = _statement(old.content), _statement(new.content)
    if likeness >= (LIKE if tagged else VERY_LIKE) and (before.spaced or after.spaced):
        return True
    shared = len(before.words & after.words)
    overlap = shared / max(1, min(len(before.words), len(after.words)))
    if shared >= FEWEST_SHARED_WORDS and overlap >= (OVERLAP if tagged else LARGE_OVERLAP):
        return True
    same_subject = not before.opening.isdisjoint(after.opening) or (after.news and shared > 0)
    return tagged and set(old.topic_tags) == set(new.topic_tags) and same_subject


def _may_move(entry: MemoryEntry) -> bool:
    return entry.content_type in UPDATED_TYPES and len(entry.content) <= LONGEST_STATEMENT


class _Statement(NamedTuple):
    """What is compared of a text."""

    words: frozenset[str]
    opening: frozenset[str]
    news: bool
    spaced: bool


@lru_cache(maxsize=4096)
def _statement(text: str) -> _Statement:
    # The same memories are found again and again.
    words = content_words(text)
    opening = frozenset(words[:OPENING_WORDS])
    return _Statement(frozenset(words), opening, _NEWS.search(text) is not None, not holds_unspaced(text))


def _in_order(newer: _Pairs, times: _Floats) -> list[int]:
    """As ranked, but nothing before what is newer than it: ``newer[i, j]`` says that j is newer than i."""
    waiting, order = list(range(len(times))), []
    while waiting:
        chosen = waiting[0]
        while rivals := [other for other in waiting if newer[chosen, other]]:
            chosen = max(rivals, key=times.__getitem__)
        waiting.remove(chosen)
        order.append(chosen)
    return order


def _each_with_each(rows: _Floats) -> _Floats:
    """The dot product of each row with each."""
    return np.concatenate([rows[start : start + _BLOCK] @ rows.T for start in range(0, len(rows), _BLOCK)])
