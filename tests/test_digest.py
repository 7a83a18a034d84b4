"""Summaries made of what was said, without a model."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actrone_memory._digest import LONGEST_DIGEST, digest

TALK = """\
User: Hi! I want to set up the billing service. Which database should we use?
Assistant: Sure! There are several options, and each has its merits. Let me think about it for a moment.

User: OK, we go with PostgreSQL 16 then. The address is in BILLING_DB_URL.
Tool: read_file({"path": "src/db/pool.ts"}) -> a file of 900 lines that nobody asked to remember
Assistant: I added the pool in `src/db/pool.ts` with at most 25 connections.

User: Thanks! Invoice INV-48213 fails with E1234 after the deploy, any idea?
Assistant: It is interesting how such things show up. The root cause was a missing index, fixed in commit a1b2c3d."""


def test_a_talk_that_is_short_is_told_but_for_its_greetings_and_what_tools_returned() -> None:
    told = digest(TALK)
    assert told.startswith("User: I want to set up the billing service. Which database should we use?\nAssistant: ")
    for kept in (
        "PostgreSQL 16",
        "BILLING_DB_URL",
        "src/db/pool.ts",
        "25 connections",
        "INV-48213",
        "E1234",
        "a1b2c3d",
    ):
        assert kept in told
    for dropped in ("Hi!", "Sure!", "Thanks!", "900 lines"):
        assert dropped not in told


def test_where_there_is_little_room_requests_and_decisions_come_before_talk() -> None:
    told = digest(TALK, 360)
    assert "I want to set up the billing service." in told
    assert "we go with PostgreSQL 16" in told
    assert "The root cause was a missing index, fixed in commit a1b2c3d." in told
    for talk in ("interesting", "several options", "think about it"):
        assert talk not in told


@pytest.mark.parametrize(
    ("text", "asked", "decided"),
    [
        (
            "User: 我们的支付接口应该用什么协议？\nAssistant: 有很多选择，各有各的好处。\n\n"
            "User: 我们决定改用 gRPC，端口 50051。今天天气很好，我们出去走走吧。\nAssistant: 好的。",
            "我们的支付接口应该用什么协议？",
            "我们决定改用 gRPC，端口 50051。",
        ),
        (
            "User: テストはどう実行しますか？\nAssistant: いくつかの方法があります。\n\n"
            "User: 今後は pytest 8.3 を使うことに決定しました。\nAssistant: 承知しました。",
            "テストはどう実行しますか？",
            "pytest 8.3",
        ),
        (
            "User: Welche Datenbank nehmen wir?\nAssistant: Da gibt es viele schöne Möglichkeiten auf dieser Welt.\n\n"
            "User: Wir haben uns für MariaDB 11.4 entschieden.\nAssistant: Gut.",
            "Welche Datenbank nehmen wir?",
            "MariaDB 11.4 entschieden",
        ),
    ],
    ids=["chinese", "japanese", "german"],
)
def test_other_languages_keep_what_was_asked_and_what_was_decided(text: str, asked: str, decided: str) -> None:
    told = digest(text, 90)
    assert asked in told
    assert decided in told


def test_numbers_and_identifiers_are_told_whole_or_not_at_all() -> None:
    names = [f"ORDER-{number}-{number * 7919}" for number in range(1000, 1400)]
    told = digest("User: " + ", ".join(names), 500)
    assert told.count("ORDER-") > 5
    assert {word.strip(",") for word in told.split() if "ORDER" in word} <= set(names)


def test_words_that_no_reader_would_read_are_left_out() -> None:
    blob = "QUJD" * 500
    told = digest(f"User: What does this token say? {blob}\nAssistant: It names the user 4711.")
    assert told == "User: What does this token say?\nAssistant: It names the user 4711."


def test_code_is_not_told() -> None:
    told = digest(
        "User: Write the loop.\nAssistant: It counts to ten.\n```python\nfor i in range(10): print(i)\n```\nDone it is."
    )
    assert "range" not in told
    assert "It counts to ten." in told


@pytest.mark.parametrize("text", ["", " \n", "\n\n"])
def test_nothing_said_is_no_summary(text: str) -> None:
    assert digest(text) == ""


@pytest.mark.parametrize("text", ["User: ok", "Tool: f() -> 1", "no speaker at all", "User: !!!\nAssistant: …"])
def test_whatever_was_said_leaves_something(text: str) -> None:
    assert digest(text).strip()


_WORDS = st.text(alphabet="abc XYZ019_-./:!?。？你好é\n`", max_size=80)


@given(st.lists(st.tuples(_WORDS, _WORDS), max_size=12), st.integers(120, 600))
def test_a_digest_is_bounded_and_the_same_for_the_same_text(turns: list[tuple[str, str]], longest: int) -> None:
    text = "\n\n".join(f"User: {asked}\nAssistant: {answered}" for asked, answered in turns)
    told = digest(text, longest)
    assert len(told) <= longest
    assert told == digest(text, longest)
    assert bool(told) == bool(text.strip())


def test_a_talk_of_megabytes_takes_moments() -> None:
    text = "\n\n".join(f"User: {'word w1 ' * 40_000}\nAssistant: {'数据库' * 100_000} `{'x' * 99}" for _ in range(10))
    began = time.perf_counter()
    assert 0 < len(digest(text)) <= LONGEST_DIGEST
    assert time.perf_counter() - began < 5
