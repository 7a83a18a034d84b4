"""Of two results that speak of the same matter, the newer comes first. Pure; nothing is dropped.

What speaks of the same matter is told by tags together with vectors, or with words where vectors tell nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from actrone_memory._updates import LONGEST_STATEMENT, UPDATED_TYPES, content_words
from actrone_memory.models import MemoryEntry

FIRST_RESULTS = 64
"""Results that are compared: more than a context takes, few enough to compare each with each."""

MOST_READ = 20
"""The first of them that are read to be compared in earnest: reading costs more than comparing vectors."""

SOMEWHAT_LIKE = 2.0
"""Standard deviations above unrelated texts below which two memories are not looked at."""

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

_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts in which common embedding models find everything alike."""

_Floats = NDArray[np.floating]
_Pairs = NDArray[np.bool_]


def newer_first(
    times: _Floats,
    vectors: _Floats,
    background: tuple[float, float] | None,
    entry: Callable[[int], MemoryEntry],
) -> list[int]:
    """The positions of results, ranked best first, with each newer memory in the place of the older one it follows.

    ``times`` (seconds) and ``vectors`` (unit rows) hold a row for each result, ``entry`` reads one. ``background`` is
    the embedder's; without it words alone decide. Only injected memories and facts move that are statements, not
    documents, and only among the first `FIRST_RESULTS`.
    """
    unmoved = list(range(len(times)))
    if len(unmoved) < 2:
        return unmoved
    times, vectors = times[:FIRST_RESULTS], vectors[:FIRST_RESULTS]
    likeness = None if background is None else (_each_with_each(vectors) - background[0]) / background[1]
    near: _Pairs = np.greater.outer(times, times).T
    if likeness is not None:
        silent = np.array([not vector.any() for vector in vectors])
        near &= (likeness >= SOMEWHAT_LIKE) | (silent & silent[:, np.newaxis])
    if not np.triu(near).any():
        return unmoved
    read = np.flatnonzero(near.any(axis=0) | near.any(axis=1))[:MOST_READ]
    among = np.ix_(read, read)
    newer = np.zeros_like(near)
    newer[among] = near[among] & _same_matter(
        [entry(place) for place in read.tolist()], None if likeness is None else likeness[among]
    )
    return _in_order(newer, times) + unmoved[len(times) :] if np.triu(newer).any() else unmoved


def _same_matter(entries: Sequence[MemoryEntry], likeness: _Floats | None) -> _Pairs:
    """``[i, j]``: whether one of these entries, were it the newer, could be an update of the other."""
    alike = _by_words(entries)
    if likeness is not None:
        tagged = _common([entry.topic_tags for entry in entries]) > 0
        spaced = np.array([_UNSPACED.search(entry.content) is None for entry in entries])
        alike |= (likeness >= np.where(tagged, LIKE, VERY_LIKE)) & (spaced | spaced[:, np.newaxis])
    movable = np.array([_may_move(entry) for entry in entries])
    both: _Pairs = alike & movable & movable[:, np.newaxis]
    return both


def _may_move(entry: MemoryEntry) -> bool:
    return entry.content_type in UPDATED_TYPES and len(entry.content) <= LONGEST_STATEMENT


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


def _by_words(entries: Sequence[MemoryEntry]) -> _Pairs:
    words = [_words(entry.content[:LONGEST_STATEMENT]) for entry in entries]
    shared, tags = _common(words), _common([entry.topic_tags for entry in entries])
    sizes, tagged = np.diag(shared), np.diag(tags)
    overlap = shared / np.maximum(1, np.minimum.outer(sizes, sizes))
    enough = (shared >= FEWEST_SHARED_WORDS) & (overlap >= np.where(tags > 0, OVERLAP, LARGE_OVERLAP))
    same_tags = (tags > 0) & (tags == tagged) & (tags == tagged[:, np.newaxis])
    openings = _common([text[:OPENING_WORDS] for text in words])
    news = np.array([_NEWS.search(entry.content[:LONGEST_STATEMENT]) is not None for entry in entries])
    alike: _Pairs = enough | same_tags & ((openings > 0) | (shared > 0) & news)
    return alike


@lru_cache(maxsize=1024)
def _words(text: str) -> list[str]:
    # The same memories are found again and again.
    return content_words(text)


def _common(groups: Sequence[Collection[str]]) -> _Floats:
    """How many members each two of the groups have in common."""
    columns: dict[str, int] = {}
    held = [[columns.setdefault(member, len(columns)) for member in group] for group in groups]
    members = np.zeros((len(groups), len(columns)), np.float32)
    for row, places in enumerate(held):
        members[row, places] = 1
    return _each_with_each(members)


def _each_with_each(rows: _Floats) -> _Floats:
    """The dot product of each row with each."""
    return np.concatenate([rows[start : start + _BLOCK] @ rows.T for start in range(0, len(rows), _BLOCK)])
