"""Joining records into whole turns, and turns into text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from actrone_memory import ToolResult, Turn
from actrone_memory._turns import CUT_MARK, cut_middle, flatten, join_records, tool_text, turn_text

T0 = datetime(2025, 3, 4, tzinfo=UTC)


def record(id_: str, user: str = "", assistant: str = "", **fields: Any) -> Turn:
    return Turn(id=id_, session_id="s", user_message=user, assistant_message=assistant, **fields)


def said(turns: list[Turn]) -> list[tuple[str, str]]:
    return [(turn.user_message, turn.assistant_message) for turn in turns]


def tool(name: str = "search", result: object = "found", **fields: Any) -> ToolResult:
    return ToolResult(**{"tool_name": name, "params": {}, "result": result, "success": True, **fields})


# --- joining ----------------------------------------------------------------------------------------------------------


def test_a_record_that_continues_belongs_to_the_turn_before_it() -> None:
    turns = join_records(
        [
            record("1", "question"),
            record("2", assistant="let me look", tool_results=[tool("a")], continues=True),
            record("3", assistant="answer", tool_results=[tool("b")], continues=True),
            record("4", "next"),
        ]
    )
    assert said(turns) == [("question", "let me look\n\nanswer"), ("next", "")]
    assert [[part.id for part in turn.records] for turn in turns] == [["1", "2", "3"], ["4"]]
    assert [result.tool_name for result in turns[0].tool_results] == ["a", "b"]


def test_a_joined_turn_has_its_first_records_id_time_and_place_and_all_tokens() -> None:
    (turn,) = join_records(
        [
            record("1", "q", timestamp=T0, sequence=7, token_count=2),
            record("2", assistant="a", timestamp=T0 - timedelta(days=1), sequence=8, token_count=3, continues=True),
        ]
    )
    assert (turn.id, turn.session_id, turn.timestamp, turn.sequence, turn.token_count) == ("1", "s", T0, 7, 5)


def test_metadata_stays_on_the_records_of_a_turn_and_shows_on_a_turn_of_one() -> None:
    first, second = record("1", "q", metadata={"k": 1}), record("2", assistant="a", metadata={"k": 2}, continues=True)
    (joined,) = join_records([first, second])
    assert joined.metadata == {}
    assert [part.metadata for part in joined.records] == [{"k": 1}, {"k": 2}]
    (alone,) = join_records([first])
    assert alone.metadata == {"k": 1}
    assert alone.records == [first]


def test_a_record_with_nothing_before_it_opens_a_headless_turn_that_is_kept() -> None:
    turns = join_records(
        [
            record("1", assistant="late", continues=True),
            record("2", assistant="later", continues=True),
            record("3", "q"),
        ]
    )
    assert said(turns) == [("", "late\n\nlater"), ("q", "")]
    assert turns[0].continues


def test_a_repeated_record_id_counts_once_wherever_it_comes_back() -> None:
    turns = join_records(
        [record("1", "q"), record("1", "q again"), record("2", "next"), record("1", assistant="late", continues=True)]
    )
    assert said(turns) == [("q", ""), ("next", "")]


def test_joined_turns_stand_for_their_records() -> None:
    records = [record("1", "q"), record("2", assistant="a", continues=True), record("3", "r")]
    turns = join_records(records)
    assert join_records(turns) == turns
    assert flatten(turns) == records
    (grown,) = join_records([*turns[:1], record("4", assistant="more", continues=True)])
    assert said([grown]) == [("q", "a\n\nmore")]


def test_order_is_the_order_given_not_that_of_the_times() -> None:
    turns = join_records([record(str(i), str(i), timestamp=T0 - timedelta(days=i)) for i in range(5)])
    assert [turn.id for turn in turns] == ["0", "1", "2", "3", "4"]


def test_nothing_joins_to_nothing() -> None:
    assert join_records([]) == flatten([]) == []


def test_joining_changes_none_of_its_records() -> None:
    records = [record("1", "q"), record("2", assistant="a", continues=True)]
    before = [part.model_dump() for part in records]
    join_records(records)
    assert [part.model_dump() for part in records] == before


# --- text -------------------------------------------------------------------------------------------------------------


def test_a_turn_reads_as_lines_of_speakers_with_tools_before_the_answer() -> None:
    turn = record("1", "q", "a", tool_results=[tool("look", "x", params={"q": "é"}), tool("fail", 3, success=False)])
    assert turn_text(turn) == 'User: q\nTool: look({"q": "é"}) -> x\nTool: fail() -> failed: 3\nAssistant: a'


def test_what_is_empty_has_no_line() -> None:
    assert turn_text(record("1", "q")) == "User: q"
    assert turn_text(record("1", "", "a")) == "Assistant: a"
    assert turn_text(record("1")) == ""


def test_a_tools_output_is_cut_on_request_only() -> None:
    turn = record("1", tool_results=[tool("dump", "x" * 40_000)])
    assert len(turn_text(turn)) > 40_000
    assert len(turn_text(turn, tool_characters=2_000)) == len("Tool: ") + 2_000


@pytest.mark.parametrize(
    ("result", "text"),
    [({"rows": [1, "é"]}, '{"rows": [1, "é"]}'), (None, "null"), ("plain", "plain"), (True, "true"), (T0, f'"{T0}"')],
)
def test_a_result_that_is_no_text_reads_as_json(result: object, text: str) -> None:
    assert tool_text(tool("t", result)) == f"t() -> {text}"


@pytest.mark.parametrize("limit", [0, 1, 5, 11, 12, 13, 14, 15, 16, 40, 99])
def test_a_cut_text_has_exactly_the_length_allowed(limit: int) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(100))
    cut = cut_middle(text, limit)
    assert len(cut) == min(limit, max(limit, len(CUT_MARK)) if limit > len(CUT_MARK) else len(CUT_MARK.strip()))


@pytest.mark.parametrize("limit", [14, 15, 50, 99])
def test_a_cut_text_keeps_its_beginning_and_end_around_the_mark(limit: int) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(100))
    head, tail = cut_middle(text, limit).split(CUT_MARK)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert 0 <= len(head) - len(tail) <= 1


@pytest.mark.parametrize("limit", [None, 3, 4, 1_000])
def test_a_text_within_the_limit_is_not_touched(limit: int | None) -> None:
    assert cut_middle("abc", limit) == "abc"
    assert cut_middle("", limit) == ""


def test_a_limit_below_zero_leaves_nothing() -> None:
    assert cut_middle("abc", -5) == ""
