"""A conversation goes on from one framework to the other: readable, in order, nothing doubled."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
pytest.importorskip("llama_index.core", reason="the extra llamaindex is not installed")

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from llama_index.core.base.llms.types import ChatMessage, MessageRole

from actrone_langchain import ActroneChatMessageHistory
from actrone_llamaindex import ActroneMemory
from actrone_memory import MemoryManager, ToolResult, create_memory_manager

CALL = {"name": "orders", "args": {"id": 4711}, "id": "call-1", "type": "tool_call"}

CHAIN = [
    SystemMessage("Be brief.", id="0"),
    HumanMessage("Where is order 4711?", id="1"),
    AIMessage("Let me look.", tool_calls=[CALL], id="2"),
    ToolMessage('{"status": "shipped"}', tool_call_id="call-1", id="3"),
    AIMessage("It has shipped.", id="4"),
]

INDEX_CALL = {"id": "call-2", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}

INDEX = [
    ChatMessage(role="user", content="And the weather in Bern?"),
    ChatMessage(role="assistant", content=None, additional_kwargs={"tool_calls": [INDEX_CALL]}),
    ChatMessage(role="tool", content="sunny", additional_kwargs={"tool_call_id": "call-2", "name": "weather"}),
    ChatMessage(role="assistant", content="Sunny."),
]


@pytest.fixture
async def memory() -> AsyncIterator[MemoryManager]:
    async with create_memory_manager() as manager:
        yield manager


def chain(memory: MemoryManager) -> ActroneChatMessageHistory:
    return ActroneChatMessageHistory(memory, "support", "ann")


def index(memory: MemoryManager) -> ActroneMemory:
    return ActroneMemory.from_defaults(memory, agent_id="support", session_id="ann")


def chain_texts(messages: list[BaseMessage]) -> list[tuple[str, str]]:
    return [(message.type, str(message.content)) for message in messages if message.content]


def index_texts(messages: list[ChatMessage]) -> list[tuple[str, str]]:
    return [(message.role.value, message.content) for message in messages if message.content]


async def test_what_langchain_stored_llamaindex_reads(memory: MemoryManager) -> None:
    await chain(memory).aadd_messages(CHAIN)
    for read in (await index(memory).aget_all(), await index(memory).aget()):
        assert index_texts(read) == [
            ("system", "Be brief."),
            ("user", "Where is order 4711?"),
            ("assistant", "Let me look."),
            ("tool", '{"status": "shipped"}'),
            ("assistant", "It has shipped."),
        ]
    calling, answer = (await index(memory).aget())[3:5]
    assert calling.role == MessageRole.ASSISTANT
    told = calling.model_dump_json()  # in a block or beside them, as the version has it
    assert "orders" in told
    assert "4711" in told
    assert answer.additional_kwargs["tool_call_id"] in told


async def test_what_llamaindex_stored_langchain_reads(memory: MemoryManager) -> None:
    await index(memory).aput_messages(INDEX)
    read = await chain(memory).aget_messages()
    assert chain_texts(read) == [
        ("human", "And the weather in Bern?"),
        ("tool", "sunny"),
        ("ai", "Sunny."),
    ]
    (calling,) = [message for message in read if isinstance(message, AIMessage) and message.tool_calls]
    assert (calling.tool_calls[0]["name"], calling.tool_calls[0]["args"]) == ("weather", {"city": "Bern"})
    (answer,) = [message for message in read if isinstance(message, ToolMessage)]
    assert answer.tool_call_id == calling.tool_calls[0]["id"]


async def test_a_talk_that_changes_hands_stays_one_talk(memory: MemoryManager) -> None:
    await chain(memory).aadd_messages(CHAIN)
    await index(memory).aput_messages(INDEX)
    await chain(memory).aadd_messages([HumanMessage("Thanks.", id="5"), AIMessage("Gladly.", id="6")])
    told = [
        "Be brief.",
        "Where is order 4711?",
        "Let me look.",
        '{"status": "shipped"}',
        "It has shipped.",
        "And the weather in Bern?",
        "sunny",
        "Sunny.",
        "Thanks.",
        "Gladly.",
    ]
    assert [text for _, text in chain_texts(await chain(memory).aget_messages())] == told
    assert [text for _, text in index_texts(await index(memory).aget_all())] == told


async def test_each_framework_still_reads_its_own_messages_exactly(memory: MemoryManager) -> None:
    await chain(memory).aadd_messages(CHAIN)
    await index(memory).aput_messages(INDEX)
    assert (await chain(memory).aget_messages())[: len(CHAIN)] == CHAIN
    assert (await index(memory).aget_all())[-len(INDEX) :] == INDEX


async def test_what_was_read_and_is_written_again_is_not_doubled(memory: MemoryManager) -> None:
    await chain(memory).aadd_messages(CHAIN)
    await index(memory).aput_messages(INDEX)
    before = await memory.get_recent_turns("support", "ann")
    await chain(memory).aadd_messages(await chain(memory).aget_messages())
    await index(memory).aset(await index(memory).aget_all())
    await index(memory).aset(await index(memory).aget())
    assert await memory.get_recent_turns("support", "ann") == before


async def test_a_plain_turn_is_read_by_both(memory: MemoryManager) -> None:
    result = ToolResult(tool_name="orders", params={"id": 1}, result={"status": "open"}, success=True)
    await memory.store_turn("support", "ann", "Where?", "On its way.", tool_results=[result])
    assert [type(message) for message in await chain(memory).aget_messages()] == [
        HumanMessage,
        AIMessage,
        ToolMessage,
        AIMessage,
    ]
    roles = [message.role for message in await index(memory).aget()]
    assert roles == [MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL, MessageRole.ASSISTANT]
