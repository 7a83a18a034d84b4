"""Turns: whole, in order, kept once, and recalled after their session has ended."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from pydantic import BaseModel

from actrone_memory import InMemoryStore, MemoryConfig, MemoryManager, ToolResult, Turn, ValidationError


def record(session_id: str, user: str = "", assistant: str = "", **fields: object) -> Turn:
    return Turn(session_id=session_id, user_message=user, assistant_message=assistant, **fields)


async def test_a_stored_turn_is_read_back_with_its_id(memory: MemoryManager) -> None:
    turn_id = await memory.store_turn("a", "s", "hello", "hi", metadata={"lang": "en"})
    (turn,) = await memory.get_recent_turns("a", "s")
    assert (turn.id, turn.user_message, turn.assistant_message) == (turn_id, "hello", "hi")
    assert turn.records[0].metadata == {"lang": "en"}
    assert uuid.UUID(turn_id)


async def test_records_that_continue_make_one_whole_turn(memory: MemoryManager) -> None:
    call = ToolResult(tool_name="grep", params={"q": "TODO"}, result=["a.py"], success=True)
    first = await memory.store_turn("a", "s", "find the TODOs", "")
    await memory.store_turn("a", "s", "", "", tool_results=[call], continues=True)
    await memory.store_turn("a", "s", "", "Found one.", continues=True)
    await memory.store_turn("a", "s", "thanks", "welcome")
    turns = await memory.get_recent_turns("a", "s")
    assert [(t.user_message, t.assistant_message) for t in turns] == [
        ("find the TODOs", "Found one."),
        ("thanks", "welcome"),
    ]
    assert turns[0].id == first
    assert turns[0].tool_results == [call]
    assert [len(turn.records) for turn in turns] == [3, 1]
    metadata = await memory.get_session_metadata("a", "s")
    assert metadata is not None
    assert metadata.turn_count == 2


async def test_a_record_with_nothing_before_it_opens_a_turn(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "", "Good morning!", continues=True)
    await memory.store_turn("a", "s", "hello", "hi")
    assert [t.assistant_message for t in await memory.get_recent_turns("a", "s")] == ["Good morning!", "hi"]


async def test_a_batch_is_stored_in_order_and_a_second_delivery_changes_nothing(memory: MemoryManager) -> None:
    batch = [
        record("s", "q1", id="1"),
        record("s", assistant="a1", id="2", continues=True),
        record("s", "q2", "a2", id="3"),
    ]
    assert await memory.store_turns("a", "s", batch) == ["1", "2", "3"]
    await memory.store_turns("a", "s", batch)
    await memory.store_turn("a", "s", "q1", "", turn_id="1")
    assert [(t.user_message, t.assistant_message) for t in await memory.get_recent_turns("a", "s")] == [
        ("q1", "a1"),
        ("q2", "a2"),
    ]
    assert await memory.store_turns("a", "s", []) == []


async def test_turns_that_were_read_can_be_stored_in_another_session(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "q", "", metadata={"k": 1})
    await memory.store_turn("a", "s", "", "late", continues=True)
    (turn,) = await memory.get_recent_turns("a", "s")
    for part in turn.records:
        part.session_id = "copy"
    await memory.store_turns("a", "copy", [turn])
    (copy,) = await memory.get_recent_turns("a", "copy")
    assert (copy.user_message, copy.assistant_message, copy.records[0].metadata) == ("q", "late", {"k": 1})


async def test_a_bad_record_in_a_batch_leaves_the_session_untouched(memory: MemoryManager) -> None:
    with pytest.raises(ValidationError) as error:
        await memory.store_turns("a", "s", [record("s", "fine"), record("s")])
    assert error.value.field == "turns[1].user_message"
    with pytest.raises(ValidationError) as error:
        await memory.store_turns("a", "s", [record("elsewhere", "fine")])
    assert error.value.field == "turns[0].session_id"
    assert await memory.get_recent_turns("a", "s") == []


async def test_order_follows_storing_not_timestamps(memory: MemoryManager) -> None:
    for year in (2024, 2020, 2022):
        await memory.store_turn("a", "s", str(year), "", timestamp=datetime(year, 1, 1, tzinfo=UTC))
    turns = await memory.get_recent_turns("a", "s")
    assert [turn.user_message for turn in turns] == ["2024", "2020", "2022"]
    assert turns[1].timestamp == datetime(2020, 1, 1, tzinfo=UTC)
    assert [t.user_message for t in await memory.get_recent_turns("a", "s", 2)] == ["2020", "2022"]


async def test_tool_results_and_metadata_come_back_in_json_form(memory: MemoryManager) -> None:
    class Point(BaseModel):
        x: int

    @dataclasses.dataclass
    class Size:
        w: int

    when, key = datetime(2025, 1, 2, tzinfo=UTC), uuid.uuid4()
    result = ToolResult(
        tool_name="t",
        params={"when": when, "key": key, "price": Decimal("1.50"), "pair": (1, 2)},
        result={"point": Point(x=1), "size": Size(w=2), 3: "three"},
        success=True,
    )
    await memory.store_turn("a", "s", "q", "", tool_results=[result])
    (turn,) = await memory.get_recent_turns("a", "s")
    (stored,) = turn.tool_results
    assert stored.params == {"when": "2025-01-02T00:00:00Z", "key": str(key), "price": "1.50", "pair": [1, 2]}
    assert stored.result == {"point": {"x": 1}, "size": {"w": 2}, "3": "three"}


async def test_a_turn_is_recalled_from_another_session(memory: MemoryManager) -> None:
    await memory.store_turn("a", "monday", "my locker code is 4711", "Noted.")
    await memory.store_turn("a", "monday", "what a lovely day", "Indeed.")
    context = await memory.retrieve_context("a", "tuesday", "locker code?", 800)
    assert context.recalled_turns[0].content == "User: my locker code is 4711\nAssistant: Noted."
    assert context.recalled_turns[0].content_type == "turn"
    assert context.recalled_turns[0].session_id == "monday"
    assert context.episodic_memories == []
    assert context.recent_turns == []


async def test_what_is_in_the_recent_turns_is_not_recalled_again(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "the deploy key is in vault seven", "ok")
    await memory.drain()
    context = await memory.retrieve_context("a", "s", "deploy key vault", 800)
    assert len(context.recent_turns) == 1
    assert context.recalled_turns == []


async def test_a_turn_that_the_window_dropped_is_still_recalled() -> None:
    config = MemoryConfig(max_session_turns=3)
    memory = await MemoryManager.create(config)
    await memory.store_turn("a", "s", "the pager rota is on page nine", "ok")
    for i in range(10):
        await memory.store_turn("a", "s", f"small talk {i}", "yes")
    await memory.drain()
    assert len(await memory.get_recent_turns("a", "s")) == 3
    context = await memory.retrieve_context("a", "s", "where is the pager rota?", 800)
    assert "page nine" in context.recalled_turns[0].content
    await memory.close()


async def test_a_turn_that_grows_is_archived_once_with_all_of_its_text(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "which colour is the bikeshed?", "")
    await memory.drain()
    await memory.store_turn("a", "s", "", "It is ultramarine.", continues=True)
    await memory.drain()
    (archived,) = await memory.list_memories("a", content_types=["turn"])
    assert "bikeshed" in archived.content
    assert "ultramarine" in archived.content


async def test_archived_turns_are_left_out_of_searches_unless_asked_for(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "espresso machine manual", "ok")
    await memory.inject_memory("a", "The espresso machine is descaled weekly.")
    await memory.drain()
    assert [m.content_type for m in await memory.search_memories("a", "espresso machine")] == ["injected"]
    assert [m.content_type for m in await memory.list_memories("a")] == ["injected"]
    found = await memory.search_memories("a", "espresso machine", content_types=["turn"])
    assert [m.content_type for m in found] == ["turn"]


async def test_without_archiving_no_turn_reaches_long_term_memory() -> None:
    memory = await MemoryManager.create(MemoryConfig(archive_turns=False))
    await memory.store_turn("a", "s", "the secret ingredient is fennel", "ok")
    await memory.drain()
    assert await memory.list_memories("a", content_types=["turn"]) == []
    assert (await memory.retrieve_context("a", "other", "secret ingredient", 800)).recalled_turns == []
    await memory.close()


async def test_a_new_manager_archives_what_an_earlier_one_left() -> None:
    store = InMemoryStore()
    await store.append_turns("a", "s", [record("s", "the mascot is a heron", "ok")], hold=True)
    memory = await MemoryManager.create(l1=store, l2=store)
    context = await memory.retrieve_context("a", "new", "which mascot?", 800)
    assert "heron" in context.recalled_turns[0].content
    await memory.close()


async def test_sessions_are_listed_most_recent_first(memory: MemoryManager) -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    for i, session in enumerate(["one", "two", "three"]):
        await memory.store_turn("a", session, "hello", "hi", timestamp=start + i * timedelta(days=1))
    await memory.store_turn("b", "other", "hello", "hi")
    assert [m.session_id for m in await memory.list_sessions("a")] == ["three", "two", "one"]


async def test_a_cleared_session_is_gone_from_both_tiers_and_its_facts_stay(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "the wifi password is swordfish", "ok", turn_id="1")
    await memory.store_turn("a", "kept", "the wifi network is called attic", "ok")
    fact = await memory.inject_memory("a", "The wifi is fast.", session_id="s")
    await memory.drain()
    await memory.clear_session("a", "s")
    await memory.drain()
    assert await memory.get_recent_turns("a", "s") == []
    assert [e.session_id for e in await memory.list_memories("a", content_types=["turn"])] == ["kept"]
    assert [e.id for e in await memory.list_memories("a")] == [fact]
    await memory.store_turn("a", "s", "hello again", "hi", turn_id="1")
    await memory.drain()
    assert len(await memory.list_memories("a", content_types=["turn"])) == 2


async def test_json_that_repeats_itself_without_end_is_refused(memory: MemoryManager) -> None:
    nested: list[object] = []
    for _ in range(40):
        nested = [nested, nested]
    with pytest.raises(ValidationError, match="16,777,216 bytes"):
        await memory.store_turn("a", "s", "q", "a", metadata={"k": nested})
    assert await memory.get_recent_turns("a", "s") == []
