"""Of two results that speak of the same matter, the newer comes first. Pure; nothing is dropped.

What speaks of the same matter is told by tags together with vectors, or with words where vectors tell nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from actrone_memory._updates import LONGEST_STATEMENT, UPDATED_TYPES, content_words
from actrone_memory.models import MemoryEntry

FIRST_RESULTS = 64
"""Results that are ordered: more than a context takes, few enough to compare each with each."""

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
    found: Sequence[MemoryEntry], vectors: _Floats | None, background: tuple[float, float] | None
) -> list[int]:
    """The positions of ``found``, ranked best first, with each newer memory in the place of the older one it follows.

    ``vectors`` holds one unit row for each result, ``background`` the embedder's; without either, words decide. Only
    injected memories and facts move, and only among the first `FIRST_RESULTS`.
    """
    first = found[:FIRST_RESULTS]
    times = np.array([entry.timestamp.timestamp() for entry in first])
    later = times[np.newaxis, :] > times[:, np.newaxis]
    if not np.triu(later).any():
        return list(range(len(found)))
    newer = later & _same_matter(first, None if vectors is None else vectors[:FIRST_RESULTS], background)
    order = _in_order(newer, times) if np.triu(newer).any() else list(range(len(first)))
    return order + list(range(len(first), len(found)))


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


def _same_matter(
    entries: Sequence[MemoryEntry], vectors: _Floats | None, background: tuple[float, float] | None
) -> _Pairs:
    """``[i, j]``: whether entry j, were it the newer, could be an update of entry i."""
    if vectors is None or background is None:
        alike = _by_words(entries)
    else:
        alike = _by_vectors(entries, vectors, background)
        unspaced = np.array([_UNSPACED.search(entry.content) is not None for entry in entries])
        if unspaced.any():
            alike = np.where(np.logical_or.outer(unspaced, unspaced), _by_words(entries), alike)
    updated = np.array([entry.content_type in UPDATED_TYPES for entry in entries])
    both: _Pairs = alike & updated & updated[:, np.newaxis]
    return both


def _by_vectors(entries: Sequence[MemoryEntry], vectors: _Floats, background: tuple[float, float]) -> _Pairs:
    mean, deviation = background
    likeness = (_each_with_each(vectors) - mean) / deviation
    alike: _Pairs = likeness >= np.where(_common([entry.topic_tags for entry in entries]) > 0, LIKE, VERY_LIKE)
    return alike


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
