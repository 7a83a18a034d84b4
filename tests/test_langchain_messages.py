"""LangChain messages come back as they went in, and as a list that providers take."""

from __future__ import annotations

import json
import logging
import math
import string
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("langchain_core")

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
    messages_from_dict,
)
from langchain_scripts import OLD_CORE, assert_valid, calls, invalid_call

from actrone_langchain import ActroneChatMessageHistory
from actrone_memory import MemoryConfig, MemoryManager, SyncMemoryManager, ToolResult, Turn

pytestmark = OLD_CORE

IMAGE = {"type": "image", "source_type": "base64", "data": "iVBORw0KGgo=", "mime_type": "image/png"}
USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}

HAND_MADE: list[BaseMessage] = [
    SystemMessage(content="Be brief.", id="sys-1"),
    HumanMessage(content="What is the weather in Bern and Basel?", name="ann", id="h-1"),
    AIMessage(
        content=[{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "c1", "name": "weather", "input": {}}],
        tool_calls=[
            {"name": "weather", "args": {"city": "Bern"}, "id": "c1"},
            {"name": "weather", "args": {"city": "Basel", "days": [1, 2]}, "id": "c2"},
        ],
        invalid_tool_calls=[{"name": "weather", "args": "{city:", "id": "c3", "error": "no JSON"}],
        usage_metadata=USAGE,
        response_metadata={"model_name": "scripted", "logprobs": [0.5, None], "finish_reason": "tool_calls"},
        additional_kwargs={"refusal": None},
        id="ai-1",
    ),
    ToolMessage(content="Sunny", tool_call_id="c1", artifact={"raw": [1, 2.5, None]}, name="weather", id="t-1"),
    ToolMessage(content="", tool_call_id="c2", status="error", name="weather"),
    AIMessage(content="Sunny in Bern; Basel failed.", name="helper"),
    HumanMessage(content=[{"type": "text", "text": "And here?"}, IMAGE]),
    AIMessage(content=""),
    ChatMessage(content="noted", role="critic"),
    FunctionMessage(content="4", name="add", id="f-1"),
    AIMessageChunk(
        content="partly",
        tool_call_chunks=[{"name": "weather", "args": '{"city": "Be', "id": None, "index": 0}],
        usage_metadata=USAGE,
        id="run-1",
    ),
    HumanMessageChunk(content="in pieces"),
    SystemMessageChunk(content="also in pieces"),
    ToolMessageChunk(content="late", tool_call_id="nobody called"),
    ChatMessageChunk(content="x", role="critic"),
    FunctionMessageChunk(content="5", name="add"),
]


def history(
    memory: MemoryManager | SyncMemoryManager, session_id: str = "s", **options: Any
) -> ActroneChatMessageHistory:
    return ActroneChatMessageHistory(memory, "a", session_id, **options)


def same(left: BaseMessage, right: BaseMessage) -> bool:
    return type(left) is type(right) and left == right and dict(left) == dict(right)


async def back(memory: MemoryManager, *messages: BaseMessage, session_id: str = "s") -> list[BaseMessage]:
    await history(memory, session_id).aadd_messages(messages)
    return await history(memory, session_id).aget_messages()


@pytest.mark.parametrize("message", HAND_MADE, ids=lambda message: type(message).__name__)
async def test_a_message_of_every_class_comes_back_as_it_went_in(memory: MemoryManager, message: BaseMessage) -> None:
    returned = [m for m in await back(memory, message) if not m.response_metadata.get("actrone_memory")]
    assert any(same(message, m) for m in returned)


async def test_a_whole_conversation_comes_back_in_order(memory: MemoryManager) -> None:
    conversation = HAND_MADE[:10]
    returned = await back(memory, *conversation)
    assert returned == conversation
    assert all(map(same, returned, conversation))
    assert_valid(returned[:8])


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
IDS = st.text(string.ascii_letters, min_size=1, max_size=8)
CONTENT = TEXT | st.lists(TEXT | st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}) | OBJECT, max_size=3)
COMMON = {
    "content": CONTENT,
    "additional_kwargs": OBJECT.map(lambda kwargs: {k: v for k, v in kwargs.items() if k != "tool_calls"}),
    "response_metadata": OBJECT,
    "name": st.none() | TEXT,
}
CALL = st.fixed_dictionaries({"name": TEXT, "args": OBJECT, "id": st.none() | IDS})
INVALID = st.fixed_dictionaries(
    {"name": st.none() | TEXT, "args": st.none() | TEXT, "id": st.none() | IDS, "error": st.none() | TEXT}
)
MESSAGES = st.one_of(
    st.builds(HumanMessage, **COMMON),
    st.builds(SystemMessage, **COMMON),
    st.builds(ChatMessage, role=TEXT, **COMMON),
    st.builds(FunctionMessage, **{**COMMON, "name": TEXT}),
    st.builds(
        AIMessage,
        tool_calls=st.lists(CALL, max_size=2),
        invalid_tool_calls=st.lists(INVALID, max_size=2),
        usage_metadata=st.none() | st.just(USAGE),
        **COMMON,
    ),
    st.builds(AIMessageChunk, tool_calls=st.lists(CALL, max_size=2), **COMMON),
    st.builds(ToolMessage, tool_call_id=IDS, artifact=JSON, status=st.sampled_from(["success", "error"]), **COMMON),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(MESSAGES, min_size=1, max_size=5))
def test_random_messages_come_back_equal_in_a_list_that_providers_take(messages: list[BaseMessage]) -> None:
    with SyncMemoryManager.create() as memory:
        history(memory).add_messages(messages)
        returned = history(memory).messages
        assert all(any(same(message, other) for other in returned) for message in messages)
        assert_valid([_without_ids_that_are_none(message) for message in returned])
        if not any(isinstance(message, ToolMessage) or getattr(message, "tool_calls", []) for message in messages):
            assert returned == messages


def _without_ids_that_are_none(message: BaseMessage) -> BaseMessage:
    # A call without an id can have no result; no list can be valid for it.
    if isinstance(message, AIMessage):
        return AIMessage(content="", tool_calls=[call for call in message.tool_calls if call["id"] is not None])
    return message


@pytest.mark.skipif(not hasattr(BaseMessage, "content_blocks"), reason="came with langchain-core 1")
async def test_standard_content_blocks_come_back(memory: MemoryManager) -> None:
    blocks = [
        {"type": "reasoning", "reasoning": "Look first."},
        {"type": "text", "text": "A cat", "annotations": [{"type": "citation", "url": "https://example.org"}]},
        {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"},
        {"type": "tool_call", "name": "zoom", "args": {"by": 2}, "id": "z1"},
    ]
    message = AIMessage(content_blocks=blocks)
    returned = (await back(memory, message, ToolMessage(content="zoomed", tool_call_id="z1")))[0]
    assert same(message, returned)
    assert returned.content_blocks == message.content_blocks == blocks


async def test_what_was_changed_after_it_was_made_stays_changed(memory: MemoryManager) -> None:
    message = AIMessage(
        content="", additional_kwargs={"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}
    )
    message.tool_calls = []
    (returned,) = await back(memory, message)
    assert same(message, returned)


async def test_values_of_python_are_kept_in_json_form(memory: MemoryManager) -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    message = ToolMessage(content="x", tool_call_id="1", artifact={"when": when, "pair": (1, 2), 3: {"b", "a"}})
    returned = (await back(memory, message))[-1]
    assert returned.artifact == {"when": "2026-01-02T00:00:00Z", "pair": [1, 2], "3": ["a", "b"]}


class Opaque:
    def __repr__(self) -> str:
        return "Opaque!"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(b"\x00\x01", "\\x00"), (math.nan, "nan"), (Opaque(), "Opaque!"), ("\ud800", "\\ud800"), (10**2000, "0x")],
    ids=["bytes", "nan", "object", "surrogate", "integer"],
)
async def test_what_json_cannot_say_is_kept_as_marked_text_with_one_warning(
    memory: MemoryManager, caplog: pytest.LogCaptureFixture, value: object, shown: str
) -> None:
    message = ToolMessage(content="kept", tool_call_id="1", artifact={"value": value, "fine": [1]})
    with caplog.at_level(logging.WARNING, "actrone_langchain"):
        returned = (await back(memory, message))[-1]
    assert (returned.content, returned.artifact["fine"]) == ("kept", [1])
    assert shown in returned.artifact["value"]
    assert len(caplog.records) == 1
    assert "artifact.value" in caplog.text


async def test_bytes_in_a_content_block_are_kept_as_base64(memory: MemoryManager) -> None:
    (returned,) = await back(memory, HumanMessage(content=[{"type": "media", "data": b"abc", "mime_type": "x/y"}]))
    assert returned.content == [{"type": "media", "data": "YWJj", "mime_type": "x/y"}]


@pytest.mark.parametrize("text", ["a\x00b", "\ud800 alone", "x" * 1_000_001], ids=["nul", "surrogate", "long"])
async def test_a_text_that_no_plain_field_holds_is_stored_all_the_same(memory: MemoryManager, text: str) -> None:
    (returned,) = await back(memory, HumanMessage(content=text))
    assert returned.content == text.replace("\ud800", "\\ud800")


async def test_a_message_larger_than_the_engine_takes_is_cut_not_lost(
    memory: MemoryManager, caplog: pytest.LogCaptureFixture
) -> None:
    message = HumanMessage(content=[{"type": "text", "text": "the end"}, {**IMAGE, "data": "A" * 17_000_000}], id="big")
    (returned,) = await back(memory, message)
    assert returned.id == "big"
    assert returned.content[0] == {"type": "text", "text": "the end"}
    assert returned.content[1]["data"].endswith("[...cut...]")
    assert "content[1].data" in caplog.text


async def test_nested_without_end_is_marked(memory: MemoryManager) -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    returned = (await back(memory, ToolMessage(content="x", tool_call_id="1", artifact=endless)))[-1]
    assert "no JSON" in json.dumps(returned.artifact)


@dataclass
class Node:
    name: str
    links: list[Node] = field(default_factory=list, repr=False)


async def test_objects_that_refer_to_each_other_are_kept_as_far_as_they_go(memory: MemoryManager) -> None:
    parent, child = Node("parent"), Node("child")
    parent.links, child.links = [child, child], [parent]
    returned = (await back(memory, ToolMessage(content="x", tool_call_id="1", artifact=parent)))[-1]
    first, second = returned.artifact["links"]
    assert first == second
    assert (returned.artifact["name"], first["name"]) == ("parent", "child")
    assert "no JSON: Node" in first["links"][0]


async def test_a_graph_with_ways_without_end_is_stored(memory: MemoryManager) -> None:
    nodes = [Node(str(number)) for number in range(25)]
    for node in nodes:
        node.links = nodes
    ladder: list[Any] = ["end"]
    for _ in range(60):
        ladder = [ladder, ladder]
    message = HumanMessage(content="kept", additional_kwargs={"graph": nodes, "ladder": ladder, "fine": [1]}, id="h")
    (returned,) = await back(memory, message)
    assert (returned.content, returned.id, returned.additional_kwargs["fine"]) == ("kept", "h", [1])
    assert "no JSON: list" in json.dumps(returned.additional_kwargs["ladder"])


async def test_a_value_that_stands_in_many_places_is_kept_in_each(memory: MemoryManager) -> None:
    shared = {"unit": "kg", "sources": []}
    message = HumanMessage(content="x", additional_kwargs={"rows": [{"meta": shared, "none": ()}] * 10_000})
    (returned,) = await back(memory, message)
    assert returned.additional_kwargs["rows"] == [{"meta": shared, "none": []}] * 10_000


class Rated(HumanMessage):
    rating: int = 0


class Homemade(BaseMessage):
    type: str = "homemade"
    colour: str = ""


async def test_a_class_of_the_user_comes_back_as_the_nearest_of_langchain_with_all_its_data(
    memory: MemoryManager,
) -> None:
    rated, homemade = await back(memory, Rated(content="q", rating=5), Homemade(content="h", colour="red"))
    assert (type(rated), rated.content, rated.rating) == (HumanMessage, "q", 5)  # type: ignore[attr-defined]
    assert (type(homemade), homemade.role, homemade.colour) == (ChatMessage, "homemade", "red")  # type: ignore[attr-defined]


# --- ids --------------------------------------------------------------------------------------------------------------


async def test_a_message_id_that_was_seen_is_not_stored_again(memory: MemoryManager) -> None:
    twice = [HumanMessage(content="q", id="1"), HumanMessage(content="q", id="1"), AIMessage(content="a", id="2")]
    await back(memory, *twice)
    assert [m.id for m in await back(memory, *twice)] == ["1", "2"]


@pytest.mark.parametrize("odd", ["x" * 300, "a\x00b", "   ", "\ud800"])
async def test_an_id_that_no_store_holds_still_counts_once(memory: MemoryManager, odd: str) -> None:
    await back(memory, HumanMessage(content="q", id=odd))
    (returned,) = await back(memory, HumanMessage(content="q", id=odd))
    assert returned.id == odd.replace("\ud800", "\\ud800")


@pytest.mark.parametrize("no_id", [None, ""])
async def test_equal_texts_without_an_id_are_two_messages(memory: MemoryManager, no_id: str | None) -> None:
    await back(memory, HumanMessage(content="again", id=no_id))
    again = [HumanMessage(content="again", id=no_id), calls("c"), ToolMessage(content="found", tool_call_id="c")]
    assert len(await back(memory, *again)) == 4


async def test_what_was_read_and_is_written_again_is_not_doubled(memory: MemoryManager) -> None:
    await memory.store_turn(
        "a", "s", "from elsewhere", "answer", [ToolResult(tool_name="t", params={}, result=1, success=True)]
    )
    read = await back(memory, *HAND_MADE[:6], HumanMessage(content="no id"), calls("open"))
    assert await back(memory, *read) == read
    for message in read:
        message.id = message.id or str(uuid.uuid4())  # as LangGraph does with messages it is given
    assert len(await back(memory, *read)) == len(read)


async def test_an_id_that_looks_like_a_part_of_another_is_a_message_of_its_own(memory: MemoryManager) -> None:
    ids = ["m", "m:0", "m:1", "m:call"]
    await back(memory, HumanMessage(content="first", id="m"))
    returned = await back(memory, *(AIMessage(content="next", id=id_) for id_ in ids[1:]))
    assert [m.id for m in returned] == ids


async def test_an_id_that_was_trimmed_is_not_stored_again() -> None:
    memory = await MemoryManager.create(MemoryConfig(max_session_turns=3, summarise_after_turns=3))
    await back(memory, *(HumanMessage(content=f"question {i}", id=f"h{i}") for i in range(10)))
    await memory.drain()
    assert [m.id for m in await back(memory, HumanMessage(content="question 0", id="h0"))] == ["h7", "h8", "h9"]
    await memory.close()


async def test_what_was_read_can_be_copied_into_another_session(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "q", "answer", [ToolResult(tool_name="t", params={}, result=1, success=True)])
    read = await back(memory, *HAND_MADE[:6])
    copied = await back(memory, *read, session_id="copy")
    assert [dict(m) for m in copied] == [dict(m) for m in read]


@pytest.mark.filterwarnings("ignore:The class `RemoveMessage` is in beta")
async def test_a_removal_does_not_count_as_the_message_it_removes(memory: MemoryManager) -> None:
    assert await back(memory, RemoveMessage(id="1"), HumanMessage(content="q", id="1")) == [
        RemoveMessage(id="1"),
        HumanMessage(content="q", id="1"),
    ]


# --- the plain fields -------------------------------------------------------------------------------------------------


async def test_anyone_can_read_what_was_said(memory: MemoryManager) -> None:
    await back(memory, *HAND_MADE[:6])
    alone, turn = await memory.get_recent_turns("a", "s")
    assert alone.metadata["system"] == "Be brief."
    assert (turn.user_message, turn.assistant_message) == (
        "What is the weather in Bern and Basel?",
        "I look.\n\nSunny in Bern; Basel failed.",
    )
    assert turn.tool_results == [
        ToolResult(tool_name="weather", params={"city": "Bern"}, result="Sunny", success=True),
        ToolResult(tool_name="weather", params={"city": "Basel", "days": [1, 2]}, result="", success=False),
    ]
    assert len(turn.records) == 5


async def test_a_result_that_comes_later_knows_its_call(memory: MemoryManager) -> None:
    await back(memory, HumanMessage(content="q"), calls("c1", days=2))
    await back(memory, ToolMessage(content="found", tool_call_id="c1"))
    (turn,) = await memory.get_recent_turns("a", "s")
    assert turn.tool_results == [
        ToolResult(tool_name="look_up", params={"q": "c1", "days": 2}, result="found", success=True)
    ]


async def test_the_other_roles_take_the_nearest_plain_field(memory: MemoryManager) -> None:
    await back(
        memory,
        ChatMessage(content="as a user", role="user"),
        ChatMessage(content="as a critic", role="critic"),
        FunctionMessage(content="4", name="add"),
        ChatMessage(content="rules", role="developer"),
    )
    turn, rules = await memory.get_recent_turns("a", "s")
    assert (turn.user_message, turn.assistant_message) == ("as a user", "as a critic")
    assert [(r.tool_name, r.result) for r in turn.tool_results] == [("add", "4")]
    assert rules.metadata["system"] == "rules"


async def test_a_tool_that_gave_no_text_is_told_by_the_kind_of_its_blocks(memory: MemoryManager) -> None:
    await back(memory, ToolMessage(content=[IMAGE], tool_call_id="1"))
    (turn,) = await memory.get_recent_turns("a", "s")
    assert turn.tool_results[0].result == "[image]"


async def test_what_another_writer_stored_reads_as_messages(memory: MemoryManager) -> None:
    results = [
        ToolResult(tool_name="orders", params={"id": 1}, result={"status": "shipped"}, success=True),
        ToolResult(tool_name="stock", params={}, result="out of order", success=False),
    ]
    await memory.store_turn("a", "s", "Where is it?", "On its way.", results, turn_id="r", metadata={"system": "Help."})
    await memory.store_turn("a", "s", "", "", metadata={"llamaindex": {"role": "assistant"}}, continues=True)
    returned = await history(memory).aget_messages()
    assert_valid(returned)
    assert [(m.type, m.content) for m in returned] == [
        ("system", "Help."),
        ("human", "Where is it?"),
        ("ai", ""),
        ("tool", '{"status": "shipped"}'),
        ("tool", "out of order"),
        ("ai", "On its way."),
    ]
    assert [(c["name"], c["args"], c["id"]) for c in returned[2].tool_calls] == [
        ("orders", {"id": 1}, "r:0"),
        ("stock", {}, "r:1"),
    ]
    assert [m.status for m in returned[3:5]] == ["success", "error"]
    assert len({m.id for m in returned}) == 6
    assert returned == await history(memory).aget_messages()


@pytest.mark.parametrize("broken", [7, {}, {"type": "ai"}, {"type": "tool", "data": {"content": "x"}}, {"type": "?"}])
async def test_metadata_that_is_no_message_is_read_by_its_plain_fields(memory: MemoryManager, broken: Any) -> None:
    await memory.store_turn("a", "s", "q", "", metadata={"langchain": broken})
    assert [m.content for m in await history(memory).aget_messages()] == ["q"]


async def test_langchain_itself_reads_the_stored_form(memory: MemoryManager) -> None:
    await back(memory, *HAND_MADE[:6])
    turns = await memory.get_recent_turns("a", "s")
    stored = [record.metadata["langchain"] for turn in turns for record in turn.records]
    assert messages_from_dict(stored) == HAND_MADE[:6]


# --- repair -----------------------------------------------------------------------------------------------------------


async def test_a_call_without_a_result_is_followed_by_a_placeholder_until_the_result_comes(
    memory: MemoryManager,
) -> None:
    asked = [HumanMessage(content="q"), calls("c1", "c2"), ToolMessage(content="one", tool_call_id="c1")]
    returned = await back(memory, *asked, HumanMessage(content="still there?"))
    assert_valid(returned)
    placeholder = returned[3]
    assert (placeholder.tool_call_id, placeholder.status, placeholder.name) == ("c2", "error", "look_up")
    assert placeholder.response_metadata == {"actrone_memory": "placeholder"}
    late = ToolMessage(content="two", tool_call_id="c2")
    assert await back(memory, placeholder, late) == [*asked, late, HumanMessage(content="still there?")]


async def test_results_stand_behind_their_call_whoever_wrote_in_between(memory: MemoryManager) -> None:
    call, first, second = calls("c1", "c2"), *(ToolMessage(content=i, tool_call_id=i) for i in ("c1", "c2"))
    await back(memory, call, first)
    await memory.store_turn("a", "s", "", "a word from another writer", continues=True)
    returned = await back(memory, second)
    assert [m.content for m in returned] == ["", "c1", "c2", "a word from another writer"]
    assert_valid(returned)


async def test_a_result_without_a_call_gets_the_call_before_it(memory: MemoryManager) -> None:
    result = ToolResult(tool_name="orders", params={"id": 4}, result="gone", success=True)
    orphan = {"type": "tool", "data": {"content": "gone", "tool_call_id": "lost"}}
    await memory.store_turns(
        "a",
        "s",
        [
            Turn(
                session_id="s",
                user_message="",
                assistant_message="",
                tool_results=[result],
                metadata={"langchain": orphan},
            )
        ],
    )
    call, tool = await history(memory).aget_messages()
    assert_valid([call, tool])
    assert [(c["name"], c["args"], c["id"]) for c in call.tool_calls] == [("orders", {"id": 4}, "lost")]
    assert tool == ToolMessage(content="gone", tool_call_id="lost")


async def test_a_result_of_an_invalid_call_stands_behind_it_and_none_is_made_up(memory: MemoryManager) -> None:
    answered = [invalid_call("c1"), ToolMessage(content="What do you mean?", tool_call_id="c1", status="error")]
    conversation = [HumanMessage(content="q"), *answered, invalid_call("c2"), HumanMessage(content="again")]
    assert await back(memory, *conversation) == conversation


async def test_call_ids_that_are_used_again_keep_their_own_results(memory: MemoryManager) -> None:
    conversation = [
        calls("0"),
        ToolMessage(content="first", tool_call_id="0"),
        calls("0"),
        ToolMessage(content="second", tool_call_id="0"),
    ]
    assert await back(memory, *conversation) == conversation


async def test_a_result_belongs_to_the_latest_call_of_its_id(memory: MemoryManager) -> None:
    first, second, result = calls("0"), calls("0", days=2), ToolMessage(content="r", tool_call_id="0")
    returned = await back(memory, first, second, result)
    assert_valid(returned)
    assert [returned[0], *returned[2:]] == [first, second, result]


async def test_a_second_result_of_one_call_is_kept(memory: MemoryManager) -> None:
    twice = [ToolMessage(content=text, tool_call_id="c") for text in ("one", "two")]
    returned = await back(memory, calls("c"), *twice)
    assert_valid(returned)
    assert [m.content for m in returned if isinstance(m, ToolMessage)] == ["one", "two"]


async def test_a_result_written_before_its_call_follows_it(memory: MemoryManager) -> None:
    result, call = ToolMessage(content="r", tool_call_id="c"), calls("c")
    assert await back(memory, result, call) == [call, result]
