"""What fits into a share of the budget, counted as rendered text."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from actrone_memory import MemoryEntry, ToolResult, Turn
from actrone_memory import _render as rendering
from actrone_memory._budget import (
    LARGEST_BUDGET,
    SMALLEST_EXCERPT,
    fit_memories,
    fit_recalled_turns,
    fit_recent_turns,
    shares,
)
from actrone_memory._turns import CUT_MARK
from actrone_memory.tokens import TokenCounter, heuristic_tokens

COUNTERS: dict[str, TokenCounter] = {
    "heuristic": heuristic_tokens,
    "words": lambda text: len(text.split()),
    "characters": len,
    "bytes": lambda text: -(-len(text.encode()) // 3),
}
every_counter = pytest.mark.parametrize("count", COUNTERS.values(), ids=COUNTERS)


def turn(user: str = "", assistant: str = "", **fields: Any) -> Turn:
    return Turn(session_id="s", user_message=user, assistant_message=assistant, **fields)


def memory(content: str, **fields: Any) -> MemoryEntry:
    fields = {"content_type": "fact", "timestamp": datetime(2025, 3, 4, tzinfo=UTC), **fields}
    return MemoryEntry(agent_id="a", session_id="s", content=content, **fields)


def cost_of_turns(turns: list[Turn], count: TokenCounter = heuristic_tokens) -> int:
    return count(rendering.render([], [], turns))


def cost_of_memories(entries: list[MemoryEntry], count: TokenCounter = heuristic_tokens) -> int:
    return count(rendering.render(entries, [], []))


def contents(entries: list[MemoryEntry]) -> list[str]:
    return [entry.content for entry in entries]


# --- shares -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [*range(1, 50), 100, 800, 1_433, 4_096, 10**6, LARGEST_BUDGET])
@pytest.mark.parametrize(("episodic", "session"), [(0.25, 0.35), (0.1, 0.2), (0.0, 1.0), (1.0, 0.0), (1 / 3, 1 / 3)])
def test_both_shares_together_stay_within_their_part_of_the_budget(
    budget: int, episodic: float, session: float
) -> None:
    share = shares(budget, episodic, session)
    assert 0 <= share.memories <= episodic * budget
    assert 0 <= share.session <= session * budget
    assert sum(share) <= math.floor((episodic + session) * budget)
    assert sum(share) >= math.floor((episodic + session) * budget) - 2


def test_the_default_shares_of_800_tokens_are_200_and_280() -> None:
    assert shares(800, 0.25, 0.35) == (200, 280)


def test_a_budget_beyond_any_model_is_treated_as_the_largest() -> None:
    assert shares(10**30, 0.25, 0.35) == shares(LARGEST_BUDGET, 0.25, 0.35)


# --- recent turns -----------------------------------------------------------------------------------------------------


def test_the_newest_turns_that_fit_are_kept_oldest_first_and_without_a_gap() -> None:
    turns = [turn("short"), turn("x" * 4_000), *(turn(str(i)) for i in range(5))]
    assert fit_recent_turns(turns, 500, heuristic_tokens) == turns[2:]
    assert fit_recent_turns(turns, 10_000, heuristic_tokens) == turns


def test_all_turns_are_kept_when_they_cost_exactly_their_share() -> None:
    turns = [turn(f"question {i}", f"answer {i}") for i in range(10)]
    exact = cost_of_turns(turns)
    assert fit_recent_turns(turns, exact, heuristic_tokens) == turns
    assert fit_recent_turns(turns, exact - 1, heuristic_tokens) == turns[1:]


def test_the_newest_turn_is_cut_in_the_middle_rather_than_left_out() -> None:
    long = turn(
        "begin" + "q" * 9_000 + "end", "BEGIN" + "a" * 9_000 + "END", metadata={"langchain": {}}, records=[turn("raw")]
    )
    (cut,) = fit_recent_turns([turn("older"), long], 70, heuristic_tokens)
    assert cut.id == long.id
    assert cut.user_message.startswith("begin")
    assert cut.user_message.endswith("end")
    assert CUT_MARK in cut.user_message
    assert CUT_MARK in cut.assistant_message
    assert 60 <= cost_of_turns([cut]) <= 70
    assert (cut.metadata, cut.records) == ({}, [])
    assert long.records
    assert len(long.user_message) > 9_000


def test_a_long_tool_result_is_cut_with_its_turn() -> None:
    result = ToolResult(tool_name="dump", params={"q": 1}, result="x" * 40_000, success=True)
    (cut,) = fit_recent_turns([turn("q", "a", tool_results=[result])], 100, heuristic_tokens)
    assert (cut.user_message, cut.assistant_message) == ("q", "a")
    assert CUT_MARK in str(cut.tool_results[0].result)
    assert cost_of_turns([cut]) <= 100
    assert len(str(result.result)) == 40_000


def test_more_tool_results_than_fit_are_replaced_by_their_number() -> None:
    results = [ToolResult(tool_name=f"tool{i}", params={}, result="x" * 99, success=True) for i in range(200)]
    (cut,) = fit_recent_turns([turn("q", "done", tool_results=results)], 70, heuristic_tokens)
    assert cut.tool_results == []
    assert cut.assistant_message == "[200 tool results cut] done"


@pytest.mark.parametrize("share", [-5, 0, 1, 10, 15])
def test_a_share_without_room_for_a_readable_part_stays_empty(share: int) -> None:
    assert fit_recent_turns([turn("q" * 1_000)], share, heuristic_tokens) == []
    assert fit_memories([memory("m" * 1_000)], share, heuristic_tokens) == []
    assert fit_recalled_turns([memory("m" * 1_000)], share, heuristic_tokens) == []


def test_nothing_fits_as_nothing() -> None:
    assert fit_recent_turns([], 100, heuristic_tokens) == []
    assert fit_memories([], 100, heuristic_tokens) == []
    assert fit_recalled_turns([], 100, heuristic_tokens) == []


# --- memories and recalled turns --------------------------------------------------------------------------------------


def test_the_best_memories_come_first_and_one_that_is_too_long_is_passed_over() -> None:
    entries = [memory("first"), memory("x" * 4_000), memory("third"), memory("fourth")]
    assert contents(fit_memories(entries, 60, heuristic_tokens)) == ["first", "third", "fourth"]
    assert contents(fit_recalled_turns(entries, 60, heuristic_tokens)) == ["first", "third", "fourth"]


@pytest.mark.parametrize("share", range(10, 60, 5))
def test_a_candidate_that_did_not_fit_does_not_pay_the_frame_of_those_that_do(share: int) -> None:
    entries = [memory("x" * 4_000), memory("y" * 40), memory("z" * 40)]
    assert cost_of_memories(fit_memories(entries, share, heuristic_tokens)) <= share
    recalled = fit_recalled_turns(entries, share, heuristic_tokens)
    assert heuristic_tokens(rendering.render([], recalled, [])) <= share


def test_the_best_memory_comes_back_as_an_excerpt_with_room_left_for_the_others() -> None:
    best = memory("begin" + "x" * 9_000 + "end")
    kept = fit_memories([best, memory("second"), memory("third")], 100, heuristic_tokens)
    assert contents(kept)[1:] == ["second", "third"]
    assert kept[0].id == best.id
    assert kept[0].content.startswith("begin")
    assert kept[0].content.endswith("end")
    assert CUT_MARK in kept[0].content
    assert 90 <= cost_of_memories(kept) <= 100
    assert len(best.content) > 9_000


def test_others_take_at_most_half_of_the_share_beside_an_excerpt() -> None:
    kept = fit_memories([memory("x" * 9_000), *(memory("y" * 60) for _ in range(50))], 200, heuristic_tokens)
    assert len(kept[0].content) > 200
    assert cost_of_memories(kept[1:]) <= 100


def test_a_lone_recalled_turn_that_is_too_long_comes_back_as_an_excerpt() -> None:
    (kept,) = fit_recalled_turns([memory("User: " + "x" * 9_000)], 60, heuristic_tokens)
    assert CUT_MARK in kept.content
    assert heuristic_tokens(rendering.render([], [kept], [])) <= 60


@pytest.mark.parametrize("text", ["</memories>" * 900, "\n" * 9_000, "<memories " * 900, "\u2028\r\n\x0b" * 900])
def test_text_that_grows_when_rendered_is_measured_as_rendered(text: str) -> None:
    kept = fit_memories([memory(text)], 50, heuristic_tokens)
    assert 0 < cost_of_memories(kept) <= 50
    (cut,) = fit_recent_turns([turn(text, text)], 70, heuristic_tokens)
    assert cost_of_turns([cut]) <= 70


# --- the promise ------------------------------------------------------------------------------------------------------


def _text(rng: random.Random) -> str:
    pieces = ["word ", "x" * 30, "\n", "数据库", "🚀", "</memories>", "<recent_turns>", " ", "e\u0301", "C++ "]
    return "".join(rng.choices(pieces, k=rng.choice([0, 1, 3, 10, 60, 300])))


def _turn(rng: random.Random) -> Turn:
    results = [
        ToolResult(tool_name="tool", params={"q": _text(rng)}, result=_text(rng), success=rng.random() < 0.5)
        for _ in range(rng.choice([0, 0, 1, 5]))
    ]
    return turn(_text(rng), _text(rng), tool_results=results)


@every_counter
@pytest.mark.parametrize("share", [0, 1, 5, 17, 40, 70, 150, 400, 2_000])
def test_what_fits_costs_no_more_than_its_share(count: TokenCounter, share: int) -> None:
    rng = random.Random(share)
    for _ in range(30):
        turns = [_turn(rng) for _ in range(rng.randint(0, 8))]
        entries = [memory(_text(rng)) for _ in range(rng.randint(0, 12))]
        kept_turns = fit_recent_turns(turns, share, count)
        kept_memories = fit_memories(entries, share, count)
        kept_recalled = fit_recalled_turns(entries, share, count)
        assert cost_of_turns(kept_turns, count) <= share
        assert cost_of_memories(kept_memories, count) <= share
        assert count(rendering.render([], kept_recalled, [])) <= share
        assert [t.id for t in kept_turns] == [t.id for t in turns[len(turns) - len(kept_turns) :]]
        assert [e.id for e in kept_memories] == [e.id for e in entries if e.id in {k.id for k in kept_memories}]


@pytest.mark.parametrize("seed", range(25))
def test_a_usual_share_never_loses_the_newest_turn_or_the_best_memory(seed: int) -> None:
    rng = random.Random(seed)
    turns, entries = [_turn(rng) for _ in range(5)], [memory(_text(rng) + ".") for _ in range(5)]
    share = shares(200, 0.25, 0.35)
    assert fit_recent_turns(turns, share.session, heuristic_tokens)[-1].id == turns[-1].id
    assert fit_memories(entries, share.memories, heuristic_tokens)[0].id == entries[0].id


def test_an_excerpt_is_never_shorter_than_the_smallest() -> None:
    for share in range(60):
        for kept in fit_memories([memory("x" * 500)], share, heuristic_tokens):
            assert len(kept.content) >= SMALLEST_EXCERPT
