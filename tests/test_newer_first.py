"""Of two results about one matter the newer takes the older one's place; nothing is dropped."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from actrone_memory import _newer_first
from actrone_memory._newer_first import CLEAR_LEAD, FIRST_RESULTS, MOST_READ
from actrone_memory.models import ContentType, MemoryEntry

START = datetime(2026, 1, 1, tzinfo=UTC)
BACKGROUND = (0.07, 0.1)
"""Like a sentence model's: with a common tag a cosine of .47 is one matter, without .645."""


def newer_first(
    found: list[MemoryEntry],
    vectors: NDArray[np.float64] | None,
    background: tuple[float, float] | None,
    scores: list[float] | None = None,
) -> list[int]:
    """No vectors stands for vectors that say nothing, no scores for results that are as good as each other."""
    rows = np.zeros((len(found), 2)) if vectors is None else vectors
    times = np.array([entry.timestamp.timestamp() for entry in found])
    return _newer_first.newer_first(np.array(scores or [1.0] * len(found)), times, rows, background, found.__getitem__)


def _memory(content: str, day: int, *tags: str, kind: ContentType = "injected") -> MemoryEntry:
    return MemoryEntry(
        agent_id="a",
        session_id="s",
        content=content,
        content_type=kind,
        topic_tags=list(tags),
        timestamp=START + timedelta(days=day),
    )


def _at_angles(*cosines_to_first: float) -> NDArray[np.float64]:
    """Unit vectors with these cosines to the first axis, which is the first vector."""
    return np.array([(1.0, 0.0), *((c, (1 - c * c) ** 0.5) for c in cosines_to_first)])


@pytest.mark.parametrize(
    ("tags", "cosine", "order"),
    [
        (("dates",), 0.5, [1, 0]),
        (("dates",), 0.4, [0, 1]),
        ((), 0.7, [1, 0]),
        ((), 0.6, [0, 1]),
    ],
)
def test_vectors_tell_one_matter_earlier_where_tags_meet(
    tags: tuple[str, ...], cosine: float, order: list[int]
) -> None:
    found = [_memory("Old words.", 1, *tags), _memory("Other terms.", 2, *tags, "more")]
    assert newer_first(found, _at_angles(cosine), BACKGROUND) == order


@pytest.mark.parametrize(
    ("old", "new", "tags"),
    [
        # the same tags, and subjects that meet
        ("Traces go through Jaeger with tags.", "Sampled traces belong to Tempo.", ("logging",)),
        ("Releases are cut by hand.", "Releases come from the main branch.", ("release",)),
        # the same tags, a word in common, and news
        ("A wrapper around zap writes our logs.", "Fields are now part of all logs.", ("logging",)),
        # half of the words, where tags meet
        ("Feature flags are declared in flags.ts", "Declare feature flags in the console", ("flags",)),
        ("单元测试放在 tests 目录。", "单元测试与源码放在一起。", ("测试",)),
        # most of the words, without tags
        ("Sessions expire after 30 minutes.", "Sessions expire after 60 minutes.", ()),
        ("Die Akten der Abteilung liegen im Archiv Nord.", "Die Akten der Abteilung liegen im Archiv Süd.", ()),
    ],
)
@pytest.mark.parametrize("vectors", [None, np.eye(2)])
def test_without_a_background_words_tell_one_matter(
    old: str, new: str, tags: tuple[str, ...], vectors: NDArray[np.float64] | None
) -> None:
    found = [_memory(old, 1, *tags), _memory(new, 2, *tags)]
    assert newer_first(found, vectors, None) == [1, 0]
    assert newer_first(found[::-1], vectors, None) == [0, 1]


@pytest.mark.parametrize(
    ("old", "new", "tags"),
    [
        ("Images are resized at upload.", "Mails wait for the nightly run.", ("web",)),
        ("Traces carry the tenant.", "Spans end before the reply.", ("tracing",)),
        ("A wrapper around zap writes our logs.", "Fields are a part of all logs.", ("logging",)),
        ("Builds are fast.", "Builds are slow.", ()),
        ("日志统一用 logback。", "单元测试与源码放在一起。", ("后端",)),
    ],
)
def test_other_matters_keep_their_places(old: str, new: str, tags: tuple[str, ...]) -> None:
    assert newer_first([_memory(old, 1, *tags), _memory(new, 2, *tags)], None, None) == [0, 1]


def test_vectors_say_nothing_of_scripts_without_spaces() -> None:
    found = [_memory("日志统一用 logback。", 1), _memory("单元测试与源码放在一起。", 2), _memory("Plain words.", 3)]
    assert newer_first(found[:2], np.ones((2, 1)), BACKGROUND) == [0, 1]
    assert newer_first(found[1:], np.ones((2, 1)), BACKGROUND) == [1, 0], "one of them has vectors that mean something"


def test_the_newer_takes_the_place_and_the_older_follows_it() -> None:
    found = [
        _memory("Sessions expire after 30 minutes.", 1),
        _memory("Images are resized at upload.", 2),
        _memory("Sessions expire after 90 minutes.", 4),
        _memory("Sessions expire after 60 minutes.", 3),
    ]
    assert newer_first(found, None, None) == [2, 3, 0, 1]


@pytest.mark.parametrize("kind", ["turn", "summary", "tool_result"])
def test_only_injected_memories_and_facts_move(kind: ContentType) -> None:
    texts = ("Sessions expire after 30 minutes.", "Sessions expire after 60 minutes.")
    moving = [_memory(texts[0], 1, kind="fact"), _memory(texts[1], 2, kind="injected")]
    assert newer_first(moving, None, None) == [1, 0]
    for old, new in itertools.product((kind, "fact"), (kind, "fact")):
        if kind in (old, new):
            found = [_memory(texts[0], 1, kind=old), _memory(texts[1], 2, kind=new)]  # type: ignore[arg-type]
            assert newer_first(found, None, None) == [0, 1]


def test_only_the_first_results_are_compared() -> None:
    found = [_memory(f"Sessions expire after {i} minutes.", i) for i in range(FIRST_RESULTS + 3)]
    by_words = newer_first(found, None, None)
    assert by_words == [*range(MOST_READ - 1, -1, -1), *range(MOST_READ, len(found))]


@pytest.mark.parametrize("count", [0, 1])
def test_few_results_stay_as_they_are(count: int) -> None:
    assert newer_first([_memory("One.", 1)] * count, None, BACKGROUND) == list(range(count))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 2)), max_size=80))
def test_nothing_is_lost_and_no_newer_one_follows_an_older_of_its_matter(rows: list[tuple[int, int, int]]) -> None:
    subjects = ("sessions expire", "uploads finish", "logs rotate")
    found = [_memory(f"{subjects[s]} after {n} minutes", day) for day, n, s in rows]
    order = newer_first(found, None, None)
    assert sorted(order) == list(range(len(found)))
    first = [found[i] for i in order if i < MOST_READ]
    for older, newer in itertools.combinations(first, 2):
        same = older.content.split()[:2] == newer.content.split()[:2]
        assert not same or older.timestamp >= newer.timestamp


def test_documents_do_not_move() -> None:
    long = "Sessions expire after 30 minutes. " * 40
    assert newer_first([_memory(long, 1), _memory(f"{long} Really.", 2)], np.ones((2, 1)), BACKGROUND) == [0, 1]


def test_only_the_first_results_are_looked_at() -> None:
    found = [_memory(f"Sessions expire after {i} minutes.", 1) for i in range(FIRST_RESULTS)]
    found.append(_memory("Sessions expire after 99 minutes.", 2))
    assert newer_first(found, np.ones((len(found), 1)), BACKGROUND) == list(range(len(found)))


@pytest.mark.parametrize(("share", "order"), [(1.0, [1, 0]), (CLEAR_LEAD, [1, 0]), (CLEAR_LEAD - 0.01, [0, 1])])
def test_an_older_one_that_leads_clearly_stays_first(share: float, order: list[int]) -> None:
    found = [_memory("Sessions expire after 30 minutes.", 1), _memory("Sessions expire after 60 minutes.", 2)]
    assert newer_first(found, None, None, [1.0, share]) == order
