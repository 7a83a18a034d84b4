"""ActroneMemoryBlock in LlamaIndex's own Memory: what leaves its queue is kept, and recalled when it matters."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.sql import MessageStatus
from llamaindex_scripts import UPSTREAM, answering, calling
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from actrone_llamaindex import ActroneMemory, ActroneMemoryBlock
from actrone_memory import ConfigurationError, MemoryManager, ValidationError

pytestmark = UPSTREAM


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


@pytest.fixture
async def database() -> AsyncIterator[AsyncEngine]:
    """Where the framework's Memory keeps its queue; closed, which the framework itself does not do."""
    engine = create_async_engine("sqlite+aiosqlite:///:memory:")
    yield engine
    await engine.dispose()


async def test_what_leaves_the_queue_is_recalled(memory: MemoryManager, database: AsyncEngine) -> None:
    await memory.inject_memory("a", "Ann prefers tea.")
    talking = Memory.from_defaults(
        session_id="s",
        memory_blocks=[ActroneMemoryBlock(memory=memory, agent_id="a")],
        token_limit=400,
        token_flush_size=100,
        async_engine=database,
    )
    await talking.aput_messages([user("My cat is called Momo."), assistant("A fine name.")])
    for number in range(12):
        await talking.aput_messages([user(f"item {number} " + "word " * 20), assistant("Noted " * 10)])
    await memory.drain()
    await talking.aput(user("What is my cat called, and what does Ann prefer?"))
    assert all("Momo" not in (message.content or "") for message in await talking.aget_all(MessageStatus.ACTIVE))
    recalled = (await talking.aget())[0]
    assert recalled.role == "system"
    assert "Momo" in (recalled.content or "")
    assert "Ann prefers tea." in (recalled.content or "")
    first, *_ = await memory.get_recent_turns("a", "s")
    assert (first.user_message, first.assistant_message) == ("My cat is called Momo.", "A fine name.")


async def test_the_same_messages_flushed_again_are_stored_once(memory: MemoryManager) -> None:
    block = ActroneMemoryBlock(memory=memory, agent_id="a", session_id="mine")
    flushed = [user("yes"), calling(("1", "f", {"x": 1})), answering("1", "found"), assistant("yes"), user("yes")]
    for _ in range(2):
        await block.aput([message.model_copy(deep=True) for message in flushed], from_short_term_memory=True)
    kept = ActroneMemory.from_defaults(memory=memory, agent_id="a", session_id="mine")
    assert await kept.aget_all() == flushed
    await block.aput([user("no")], session_id="of the framework")
    assert await kept.aget_all() == [*flushed, user("no")]
    await block.aput([], session_id="x")


async def test_without_a_question_nothing_is_recalled(memory: MemoryManager) -> None:
    block = ActroneMemoryBlock(memory=memory, agent_id="a")
    assert await block.aget() == await block.aget([]) == await block.aget([assistant("hi")]) == ""
    assert await block.aget([user("anything?")], session_id="s") == ""


async def test_it_gets_shorter_by_whole_items_and_stays_fenced(memory: MemoryManager) -> None:
    block = ActroneMemoryBlock(memory=memory, agent_id="a")
    for number in range(6):
        await memory.inject_memory("a", f"Parcel {number} goes to\nstreet <memories> {number} in town.")
    await memory.store_turn("a", "old", "Where is the parcel?", "In town.")
    await memory.drain()
    text = await block.aget([user("parcel street town")])
    assert "<earlier_turns" in text
    whole = -(-len(text) // 4)
    previous = text
    for cut in range(1, whole):
        shorter = await block.atruncate(text, cut)
        if shorter is None:
            break
        assert -(-len(shorter) // 4) <= whole - cut
        assert len(shorter) <= len(previous)
        assert shorter.count("<memories note") == shorter.count("</memories>") == 1
        assert shorter.count("<earlier_turns") == shorter.count("</earlier_turns>")
        assert shorter.count("- Parcel") == shorter.count("in town.")
        previous = shorter
    assert previous.count("- Parcel") == 1
    assert await block.atruncate(text, 10**6) is None


async def test_the_session_must_be_known_and_arguments_are_checked(memory: MemoryManager) -> None:
    with pytest.raises(ValueError, match="tokenbudget"):
        ActroneMemoryBlock(memory=memory, agent_id="a", tokenbudget=9)
    with pytest.raises(ConfigurationError, match="session_id"):
        await ActroneMemoryBlock(memory=memory, agent_id="a").aput([user("hi")])
    for bad in ({"agent_id": " "}, {"agent_id": "a", "session_id": ""}, {"agent_id": "a", "token_budget": "9"}):
        with pytest.raises(ValidationError):
            ActroneMemoryBlock(memory=memory, **bad)
