"""What holds whatever is said: isolation, the budget, the fences, whole turns kept once, errors of ours only."""

from __future__ import annotations

import math
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st

from actrone_memory import (
    ActroneMemoryError,
    MemoryConfig,
    MemoryEntry,
    MemoryManager,
    MemoryNotFoundError,
    RetrievedContext,
    ToolResult,
    Turn,
)
from actrone_memory._budget import (
    Shares,
    fit_memories,
    fit_recalled_turns,
    fit_recent_turns,
    select,
    shares,
)
from actrone_memory._render import EARLIER_TURNS, MEMORIES, RECENT_TURNS, render
from actrone_memory.testing import ID_PAIRS
from actrone_memory.tokens import TiktokenCounter, TokenCounter, heuristic_tokens

SECTIONS = (MEMORIES, EARLIER_TURNS, RECENT_TURNS)
WHEN = datetime(2025, 3, 4, tzinfo=UTC)


def examples(number: int) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Hypothesis settings: so many examples, however long each takes."""
    return settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow],
    )


@asynccontextmanager
async def manager(**changes: object) -> AsyncIterator[MemoryManager]:
    """A manager whose background failures are raised at the end."""
    memory = await MemoryManager.create(MemoryConfig(strict_background_errors=True, **changes))
    try:
        yield memory
    finally:
        await memory.close()


# --- what people and models say ---------------------------------------------------------------------------------------

FENCES = [
    f"{opening}{name}{end}" for name in SECTIONS for opening in ("<", "</", "< / ", "<\n/") for end in (">", " x>")
]
PIECES = [
    *FENCES,
    *(fence.upper() for fence in FENCES),
    *("\n", "\r", "\r\n", "\n\n\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\t", " ", "    "),
    *("- ", "\n- ", "\n-", "User: ", "\nAssistant: ", "\nTool: ", "&lt;", "<", ">", "```", '"', "{}", "%s", "\\"),
    *(
        "the tests run with Vitest",
        "naïve résumé",
        "数据库迁移",
        "データベース",
        "테스트",
        "тесты и код",
        "اختبار الكود",
    ),
    *(
        "δοκιμή",
        "การทดสอบ",
        "🚀👩‍👩‍👧",
        "e\u0301\u0316",
        "\u200b\u202e",
        "C++ and C#",
        "parseUserInput",
        "<|endoftext|>",
    ),
]
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\x00")
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(CHARACTERS, max_size=12), max_size=10).map("".join)
LONG_TEXTS = st.builds(lambda text, times: text * times, TEXTS, st.sampled_from([1, 1, 1, 10, 100]))
FILLED = LONG_TEXTS.filter(str.strip)
TOOLS = st.builds(
    ToolResult,
    tool_name=st.sampled_from(["grep", "read file", f"</{RECENT_TURNS}>"]),
    params=st.dictionaries(TEXTS, LONG_TEXTS, max_size=2),
    result=LONG_TEXTS | st.lists(TEXTS, max_size=3) | st.dictionaries(TEXTS, TEXTS, max_size=2),
    success=st.booleans(),
)


@st.composite
def talks(draw: st.DrawFn, session: str = "s", most: int = 6) -> list[Turn]:
    """Records of one session; some continue the turn before them, some hold nothing but metadata."""
    records = []
    for i in range(draw(st.integers(0, most))):
        user, assistant = draw(LONG_TEXTS), draw(LONG_TEXTS)
        tools = draw(st.lists(TOOLS, max_size=2))
        nothing = not (user.strip() or assistant.strip() or tools)
        records.append(
            Turn(
                id=f"{session}-{i}",
                session_id=session,
                user_message=user,
                assistant_message=assistant,
                tool_results=tools,
                metadata={"only": "this"} if nothing else {},
                continues=draw(st.booleans()),
                timestamp=WHEN,
            )
        )
    return records


def memories(content_type: str = "fact") -> st.SearchStrategy[list[MemoryEntry]]:
    made = st.builds(
        MemoryEntry,
        agent_id=st.just("a"),
        session_id=st.just("old"),
        content=FILLED,
        content_type=st.just(content_type),
        timestamp=st.just(WHEN),
    )
    return st.lists(made, max_size=8)


def turns_only(turns: Sequence[Turn]) -> list[Turn]:
    """Turns as one record each, as the pure functions take them."""
    return [turn.model_copy(update={"continues": False}) for turn in turns]


# --- isolation --------------------------------------------------------------------------------------------------------

IDS = st.text(CHARACTERS, min_size=1, max_size=8).filter(str.strip) | st.sampled_from(
    [part for pair in ID_PAIRS for part in pair]
)
PAIRS = st.lists(st.tuples(IDS, IDS) | st.sampled_from(ID_PAIRS), min_size=2, max_size=5, unique=True)


def marks(text: str) -> set[str]:
    return set(re.findall(r"mark\d", text))


async def seen_by(memory: MemoryManager, agent: str, session: str, query: str) -> dict[str, set[str]]:
    """The marks that every read under these ids returns."""
    context = await memory.retrieve_context(agent, session, query, 100_000)
    found = await memory.search_memories(agent, query, 100, content_types=["turn", "injected"])
    listed = await memory.list_memories(agent, content_types=["turn", "injected"], include_superseded=True)
    return {
        "turns": marks(str(await memory.get_recent_turns(agent, session))),
        "context": marks(context.render()),
        "search": {mark for entry in found for mark in marks(entry.content)},
        "list": {mark for entry in listed for mark in marks(entry.content)},
        "sessions": {one.session_id for one in await memory.list_sessions(agent)},
    }


@examples(30)
@given(PAIRS)
async def test_agents_and_sessions_of_any_ids_never_mix(pairs: list[tuple[str, str]]) -> None:
    query = " ".join(f"mark{i}" for i in range(len(pairs)))
    async with manager() as memory:
        ids = {}
        for i, (agent, session) in enumerate(pairs):
            await memory.store_turn(agent, session, f"turn of mark{i}", "", turn_id="same id everywhere")
            ids[i] = await memory.inject_memory(agent, f"fact of mark{i}", session_id=session)
        await memory.drain()

        async def check(gone: set[int], cleared: set[int]) -> None:
            for i, (agent, session) in enumerate(pairs):
                own = {k for k, pair in enumerate(pairs) if pair[0] == agent}
                talked = {k for k in own if k not in gone | cleared}
                kept = {f"mark{k}" for k in own - gone}
                assert await seen_by(memory, agent, session, query) == {
                    "turns": {f"mark{i}"} & {f"mark{k}" for k in talked},
                    "context": kept,
                    "search": kept,
                    "list": kept,
                    "sessions": {pairs[k][1] for k in talked},
                }

        await check(set(), set())
        (mine, my_session), (other, _) = pairs[0], pairs[-1]
        if mine != other:
            with pytest.raises(MemoryNotFoundError):
                await memory.delete_memory(other, ids[0])
            with pytest.raises(MemoryNotFoundError):
                await memory.inject_memory(other, "replaces it", supersedes=ids[0])
            await check(set(), set())
        await memory.clear_session(mine, my_session)
        await check(set(), {0})
        await memory.erase_agent_memories(other, all_sessions=True)
        erased = {i for i, pair in enumerate(pairs) if pair[0] == other}
        await check(erased, {0})
        await memory.drain()
        await check(erased, {0})


# --- the budget -------------------------------------------------------------------------------------------------------

tokenizer = cache(TiktokenCounter)

COUNTERS: dict[str, TokenCounter] = {
    "four characters": heuristic_tokens,
    "a character": len,
    "a word": lambda text: len(text.split()),
    "three bytes": lambda text: -(-len(text.encode()) // 3),
    "a line": lambda text: len(text.splitlines()),
    "a begun run of one kind": lambda text: len(re.findall(r"\s+|\w+|[^\w\s]+", text)),
    "a full ten characters": lambda text: len(text) // 10,
    "a token of GPT-4o": lambda text: tokenizer()(text),
}
needs_tiktoken = pytest.mark.skipif(
    find_spec("tiktoken") is None or "TIKTOKEN_CACHE_DIR" not in os.environ,
    reason="the extra tiktoken is not installed, or no vocabulary: llama-index-core brings two",
)
COUNTER_NAMES = [pytest.param(name, marks=needs_tiktoken if "GPT" in name else ()) for name in COUNTERS]
SPLITS = [
    (0.3, 0.25, 0.35, 0.1),
    (0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (0.1, 0.45, 0.45, 0.0),
    (0.7, 0.1, 0.2, 0.0),
]


@pytest.mark.parametrize("counter", COUNTER_NAMES)
@examples(25)
@given(talks(), memories(), memories("turn"), st.integers(1, 3_000), st.sampled_from(SPLITS))
def test_the_whole_text_stays_within_both_shares_with_every_counter(
    counter: str,
    records: list[Turn],
    facts: list[MemoryEntry],
    earlier: list[MemoryEntry],
    budget: int,
    split: tuple[float, ...],
) -> None:
    count, turns = COUNTERS[counter], turns_only(records)
    share = shares(budget, split[1], split[2])
    chosen = select(turns, facts, earlier, share, count)
    assert count(render(chosen.memories, chosen.recalled, chosen.recent)) <= math.floor((split[1] + split[2]) * budget)
    assert len(chosen.recent) + chosen.dropped_recent == len(turns)
    assert len(chosen.memories) + chosen.dropped_memories == len(facts)
    assert len(chosen.recalled) + chosen.dropped_recalled == len(earlier)


@pytest.mark.parametrize("counter", [name for name in COUNTER_NAMES if "full" not in str(name.values[0])])
@examples(25)
@given(talks(), memories(), memories("turn"), st.integers(0, 1_000))
def test_each_section_stays_within_its_share(
    counter: str, records: list[Turn], facts: list[MemoryEntry], earlier: list[MemoryEntry], share: int
) -> None:
    count = COUNTERS[counter]
    assert count(render([], [], fit_recent_turns(turns_only(records), share, count))) <= share
    assert count(render([], fit_recalled_turns(earlier, share, count), [])) <= share
    assert count(render(fit_memories(facts, share, count), [], [])) <= share


def test_one_that_does_not_fit_leaves_no_more_room_to_the_next() -> None:
    facts = [
        MemoryEntry(agent_id="a", session_id="s", content=text, content_type="fact") for text in ("x" * 400, "y" * 60)
    ]
    for share in range(60):
        for kept in (fit_memories(facts, share, heuristic_tokens), fit_memories(facts[1:], share, heuristic_tokens)):
            assert heuristic_tokens(render(kept, [], [])) <= share
        assert heuristic_tokens(render([], fit_recalled_turns(facts, share, heuristic_tokens), [])) <= share


@examples(100)
@given(talks(), memories(), st.integers(0, 1_000))
def test_what_fits_keeps_its_order_and_is_whole_but_for_the_first_choice(
    records: list[Turn], facts: list[MemoryEntry], share: int
) -> None:
    turns = turns_only(records)
    kept = fit_recent_turns(turns, share, heuristic_tokens)
    assert [turn.id for turn in kept] == [turn.id for turn in turns][len(turns) - len(kept) :]
    assert kept[:-1] == turns[len(turns) - len(kept) : -1]
    chosen = fit_memories(facts, share, heuristic_tokens)
    places = [[fact.id for fact in facts].index(entry.id) for entry in chosen]
    assert places == sorted(places)
    assert all(entry == facts[place] for entry, place in zip(chosen, places, strict=True) if place > 0)


CUT = re.compile(r"\[[^\[\]]*cut[^\[\]]*\]")


@examples(150)
@given(talks().filter(bool), st.integers(200, 1_200))
def test_from_200_tokens_up_the_newest_turn_comes_back_and_shows_where_it_was_cut(
    records: list[Turn], budget: int
) -> None:
    newest = turns_only(records)[-1]
    kept = fit_recent_turns([newest], shares(budget, 0.25, 0.35).session, heuristic_tokens)
    assert [turn.id for turn in kept] == [newest.id]
    whole, told = render([], [], [newest]), render([], [], kept)
    assert told == whole or len(CUT.findall(told)) > len(CUT.findall(newest.user_message + newest.assistant_message))
    assert told == whole or kept[0].metadata == {}


@examples(100)
@given(memories().filter(bool), st.integers(200, 1_200))
def test_from_200_tokens_up_the_best_memory_comes_back_and_shows_where_it_was_cut(
    facts: list[MemoryEntry], budget: int
) -> None:
    kept = fit_memories(facts, shares(budget, 0.25, 0.35).memories, heuristic_tokens)
    assert kept[0].id == facts[0].id
    assert kept[0] == facts[0] or "[...cut...]" in kept[0].content


@examples(300)
@given(st.integers(1, 10**40), st.lists(st.integers(0, 1000), min_size=4, max_size=4).filter(sum))
def test_shares_of_any_split_stay_within_the_budget(budget: int, parts: list[int]) -> None:
    _, episodic, session, _ = (part / sum(parts) for part in parts)
    share = shares(budget, episodic, session)
    assert min(share) >= 0
    assert sum(share) <= math.floor((episodic + session) * min(budget, 10**15))


async def adds_up(memory: MemoryManager, context: RetrievedContext, query: str) -> None:
    """What came back and what was dropped are all the candidates there were."""
    recent = await memory.get_recent_turns("a", "s")
    facts = await memory.search_memories("a", query, 500)
    turns = await memory.search_memories("a", query, 500, content_types=["turn"])
    told = {(turn.session_id, turn.id) for turn in context.recent_turns}
    earlier = [turn for turn in turns if (turn.session_id, turn.source_turn_ids[0]) not in told]
    assert len(context.recent_turns) + context.dropped.turns == len(recent)
    assert len(context.episodic_memories) + context.dropped.memories == len(facts)
    assert len(context.recalled_turns) + context.dropped.recalled_turns == len(earlier)


@examples(20)
@given(
    talks(),
    talks("old"),
    st.lists(FILLED, max_size=5),
    FILLED,
    st.lists(st.integers(1, 3_000), min_size=3, max_size=3),
    st.sampled_from(SPLITS),
)
async def test_what_is_reported_is_what_is_rendered_and_never_over_the_budget(
    now: list[Turn], before: list[Turn], facts: list[str], query: str, budgets: list[int], split: tuple[float, ...]
) -> None:
    names = ("system", "episodic", "session", "current_turn")
    fractions = {f"budget_fraction_{name}": part for name, part in zip(names, split, strict=True)}
    async with manager(**fractions) as memory:
        await memory.store_turns("a", "s", now)
        await memory.store_turns("a", "old", before)
        for fact in facts:
            await memory.inject_memory("a", fact)
        await memory.drain()
        for budget in (1, 2, 3, 10, *budgets):
            context = await memory.retrieve_context("a", "s", query, budget)
            text = context.render()
            assert context.total_tokens_used == heuristic_tokens(text)
            assert context.total_tokens_used <= math.floor((split[1] + split[2]) * budget)
            assert 0 <= context.budget_utilisation <= 1
            for tier in context.tiers.values():
                assert 0 <= tier.used <= tier.allowed
            assert context.render(turns=False) in text
            assert (await memory.retrieve_context("a", "s", query, budget)).render() == text
            await adds_up(memory, context, query)


@pytest.mark.parametrize("budget", [1, 50, 200, 800, 3_000, 20_000, 1_000_000])
async def test_hundreds_of_candidates_are_all_counted(budget: int) -> None:
    async with manager(max_session_turns=300) as memory:
        for session in ("s", "old"):
            turns = [
                Turn(session_id=session, user_message=f"deploy {session} {i}", assistant_message="done " * (i % 40))
                for i in range(150)
            ]
            await memory.store_turns("a", session, turns)
        for i in range(150):
            await memory.inject_memory("a", f"Deploy rule {i}: " + "wait " * (i % 60))
        await memory.drain()
        await adds_up(memory, await memory.retrieve_context("a", "s", "deploy", budget), "deploy")


# --- fences -----------------------------------------------------------------------------------------------------------


def assert_nothing_poses_as_anything_else(text: str, items: dict[str, int]) -> None:
    """Every line is a fence of a section that has items, an item, or indented under one."""
    present = [name for name in SECTIONS if items[name]]
    lines = text.splitlines()
    fences = [line for line in lines if not line.startswith(("- ", "  "))]
    assert [re.match(r"</?(\w+)", fence).group(1) for fence in fences] == [name for name in present for _ in (0, 1)]
    assert [fence.startswith("</") for fence in fences] == [closing for _ in present for closing in (False, True)]
    inside, counted = "", dict.fromkeys(SECTIONS, 0)
    for line in lines:
        if line in fences:
            inside = re.match(r"</?(\w+)", line).group(1)
        else:
            counted[inside] += line.startswith("- ")
    assert counted == items
    named = re.findall(rf"<\s*/?\s*(?:{'|'.join(SECTIONS)})\b", text, re.IGNORECASE)
    assert len(named) == 2 * len(present)


@examples(120)
@given(talks(), memories(), memories("turn"))
def test_no_text_closes_a_fence_or_poses_as_another_item(
    records: list[Turn], facts: list[MemoryEntry], earlier: list[MemoryEntry]
) -> None:
    turns = turns_only(records)
    items = {MEMORIES: len(facts), EARLIER_TURNS: len(earlier), RECENT_TURNS: len(turns)}
    assert_nothing_poses_as_anything_else(render(facts, earlier, turns), items)


@examples(60)
@given(talks(), memories(), memories("turn"), st.integers(1, 2_000))
def test_no_text_that_was_cut_closes_a_fence_or_poses_as_another_item(
    records: list[Turn], facts: list[MemoryEntry], earlier: list[MemoryEntry], budget: int
) -> None:
    kept = select(turns_only(records), facts, earlier, Shares(budget, budget), heuristic_tokens)
    items = {MEMORIES: len(kept.memories), EARLIER_TURNS: len(kept.recalled), RECENT_TURNS: len(kept.recent)}
    assert_nothing_poses_as_anything_else(render(kept.memories, kept.recalled, kept.recent), items)


# --- whole turns, kept once -------------------------------------------------------------------------------------------


def chunked(records: list[Turn], cuts: Sequence[int]) -> list[list[Turn]]:
    places = sorted({0, len(records), *(cut % (len(records) + 1) for cut in cuts)})
    return [records[start:end] for start, end in pairwise(places)]


async def deliver(memory: MemoryManager, records: Sequence[Turn], *, one_by_one: bool) -> list[str]:
    copies = [record.model_copy(deep=True) for record in records]
    if not one_by_one:
        return await memory.store_turns("a", "s", copies)
    return [
        await memory.store_turn(
            "a",
            "s",
            record.user_message,
            record.assistant_message,
            record.tool_results,
            record.metadata,
            record.id,
            record.timestamp,
            record.continues,
        )
        for record in copies
    ]


async def kept(memory: MemoryManager) -> tuple[list[Turn], dict[str, tuple[str, list[str]]]]:
    """The session's turns, and the archived ones by id."""
    await memory.drain()
    archived = await memory.list_memories("a", content_types=["turn"])
    return await memory.get_recent_turns("a", "s"), {e.id: (e.content, e.source_turn_ids) for e in archived}


@examples(20)
@given(talks(most=10), st.lists(st.integers(0, 10), max_size=6), st.lists(st.booleans(), min_size=8, max_size=8))
@example([], [], [True] * 8)
async def test_the_same_records_in_any_chunks_give_the_same_turns(
    records: list[Turn], cuts: list[int], one_by_one: list[bool]
) -> None:
    for window in (2, 50):
        async with manager(max_session_turns=window) as at_once, manager(max_session_turns=window) as in_chunks:
            ids = await deliver(at_once, records, one_by_one=False)
            delivered = []
            for chunk, singly in zip(chunked(records, cuts), one_by_one, strict=False):
                delivered += await deliver(in_chunks, chunk, one_by_one=singly)
                await in_chunks.drain()
            assert delivered == ids == [record.id for record in records]
            assert await kept(in_chunks) == await kept(at_once)


@examples(20)
@given(talks(most=10), st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10), st.booleans()), max_size=8))
async def test_repeated_deliveries_change_nothing(records: list[Turn], repeats: list[tuple[int, int, bool]]) -> None:
    for window in (2, 50):
        async with manager(max_session_turns=window) as once, manager(max_session_turns=window) as often:
            await deliver(once, records, one_by_one=False)
            so_far = 0
            for start, more, singly in repeats:
                # A client that sends what it already sent, and some more.
                start = min(start, so_far)
                so_far = max(so_far, min(len(records), start + more))
                await deliver(often, records[start:so_far], one_by_one=singly)
                await deliver(often, records[:so_far], one_by_one=singly)
            await deliver(often, records, one_by_one=False)
            assert await kept(often) == await kept(once)
            assert await often.get_session_metadata("a", "s") == await once.get_session_metadata("a", "s")


@examples(25)
@given(talks(most=10))
async def test_no_record_is_lost_or_doubled_between_the_tiers(records: list[Turn]) -> None:
    async with manager(max_session_turns=3) as memory:
        await memory.store_turns("a", "s", records)
        turns, archived = await kept(memory)
        whole = sum(not record.continues or i == 0 for i, record in enumerate(records))
        assert len(turns) == min(3, whole)
        assert [record.id for turn in turns for record in turn.records] == [
            record.id for record in records[len(records) - sum(len(turn.records) for turn in turns) :]
        ]
        spoken = [turn for turn in turns if turn.user_message or turn.assistant_message or turn.tool_results]
        assert {turn.id for turn in spoken} <= {turn_id for _, ids in archived.values() for turn_id in ids}


@examples(30)
@given(st.lists(FILLED, min_size=1, max_size=6))
async def test_a_fact_said_twice_is_one_memory(facts: list[str]) -> None:
    async with manager() as memory:
        first = [await memory.inject_memory("a", fact) for fact in facts]
        again = [await memory.inject_memory("a", f"  {fact.upper()}\n", 0.4) for fact in facts]
        assume(all(fact.upper().casefold() == fact.casefold() for fact in facts))
        assert again == first
        assert {entry.id for entry in await memory.list_memories("a")} == set(first)


# --- anything at all --------------------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | ANY_TEXT
    | st.binary(max_size=4)
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.timedeltas()
    | st.decimals()
    | st.fractions()
    | st.uuids()
    | st.sampled_from([object(), object, len, ..., NotImplemented, ValueError("x"), range(3), re.compile("x")])
    | st.builds(Turn, session_id=ANY_TEXT, user_message=ANY_TEXT, assistant_message=ANY_TEXT)
    | st.builds(
        ToolResult, tool_name=ANY_TEXT, params=st.just({}), result=st.floats() | st.binary(), success=st.booleans()
    )
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(ANY_TEXT | st.integers() | st.none(), inner, max_size=3)
        | st.frozensets(st.integers() | ANY_TEXT, max_size=3)
    ),
    max_leaves=5,
)
METHODS: dict[str, dict[str, object]] = {
    "store_turn": {
        "agent_id": "a",
        "session_id": "s",
        "user_message": "hello",
        "assistant_message": "hi",
        "tool_results": None,
        "metadata": None,
        "turn_id": None,
        "timestamp": None,
        "continues": False,
    },
    "store_turns": {"agent_id": "a", "session_id": "s", "turns": []},
    "get_recent_turns": {"agent_id": "a", "session_id": "s", "n": None},
    "get_session_metadata": {"agent_id": "a", "session_id": "s"},
    "list_sessions": {"agent_id": "a"},
    "clear_session": {"agent_id": "a", "session_id": "s"},
    "inject_memory": {
        "agent_id": "a",
        "content": "fact",
        "importance": 0.5,
        "session_id": "s",
        "topic_tags": None,
        "source": "user",
        "sensitivity": "none",
        "supersedes": None,
    },
    "inject_memories": {"agent_id": "a", "memories": ["fact", {"content": "other fact"}]},
    "search_memories": {"agent_id": "a", "query": "fact", "limit": 5, "content_types": None, "tags": None},
    "list_memories": {"agent_id": "a", "content_types": None, "include_superseded": True},
    "delete_memory": {"agent_id": "a", "memory_id": "id"},
    "erase_agent_memories": {"agent_id": "a", "session_id": None, "all_sessions": False},
    "extract_memories": {"agent_id": "a", "session_id": "s", "n": None},
    "retrieve_context": {"agent_id": "a", "session_id": "s", "query": "fact", "token_budget": 800},
}


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """A method and arguments of which some are acceptable and some are anything."""
    method = draw(st.sampled_from(sorted(METHODS)))
    strange = draw(st.sets(st.sampled_from(sorted(METHODS[method])), min_size=1))
    return method, {
        name: draw(ANYTHING | st.lists(ANYTHING, max_size=2)) if name in strange else fine
        for name, fine in METHODS[method].items()
    }


@examples(100)
@given(st.lists(calls(), min_size=1, max_size=8))
async def test_whatever_is_passed_only_errors_of_ours_come_out_and_reads_still_work(
    attempts: list[tuple[str, dict[str, object]]],
) -> None:
    async with manager() as memory:
        for method, arguments in attempts:
            with suppress(ActroneMemoryError):
                await getattr(memory, method)(**arguments)
        await memory.drain()
        assert memory.background_failures == 0
        await memory.get_recent_turns("a", "s")
        await memory.list_memories("a", content_types=["turn", "injected"], include_superseded=True)
        assert str(await memory.retrieve_context("a", "s", "fact", 800))
