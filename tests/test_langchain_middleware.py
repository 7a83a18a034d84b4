"""The middleware in real agents: what the model is told, and what is remembered."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langchain.agents", reason="agents need langchain 1")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, PIIMiddleware, SummarizationMiddleware, before_model
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_scripts import ScriptedModel, StreamingModel, assert_valid, calls, echo, invalid_call
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command
from pydantic import BaseModel

from actrone_langchain import ActroneChatMessageHistory, ActroneMemoryMiddleware
from actrone_memory import (
    ConfigurationError,
    MemoryConfig,
    MemoryManager,
    SyncMemoryManager,
    TokenBudgetError,
    ValidationError,
)

since_1_1 = pytest.mark.skipif(
    "trigger" not in inspect.signature(SummarizationMiddleware).parameters, reason="came with langchain 1.1"
)


@tool
def look_up(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def thread(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def asking(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def agent_with(memory: Any, model: ScriptedModel, *further: Any, **options: Any) -> Any:
    middleware = ActroneMemoryMiddleware(memory, agent_id="a")
    return create_agent(model, tools=[look_up], middleware=[middleware, *further], **options)


def contents(messages: list[BaseMessage]) -> list[str]:
    return [str(message.content).strip() for message in messages]


def system(asked: list[BaseMessage]) -> str:
    return "\n".join(str(message.content) for message in asked if isinstance(message, SystemMessage))


def without_system(asked: list[BaseMessage]) -> list[str]:
    return contents([message for message in asked if not isinstance(message, SystemMessage)])


async def stored(memory: MemoryManager, session_id: str, agent_id: str = "a") -> list[BaseMessage]:
    return await ActroneChatMessageHistory(memory, agent_id, session_id).aget_messages()


@pytest.mark.parametrize("sync", [True, False], ids=["plain", "async"])
@pytest.mark.parametrize("saver", [True, False], ids=["checkpointer", "no checkpointer"])
async def test_a_talk_with_tools_is_told_to_the_model_once_and_stored_once(
    memory: MemoryManager, sync: bool, saver: bool
) -> None:
    script = [calls("c1", "c2"), AIMessage(content="Both found."), AIMessage(content="As I said.")]
    agent = agent_with(memory, model := ScriptedModel(script=script), checkpointer=InMemorySaver() if saver else None)
    await memory.inject_memory("a", "Things are looked up twice.")
    for question in ("look things up", "what did you find?"):
        result = (
            agent.invoke(asking(question), thread("t")) if sync else await agent.ainvoke(asking(question), thread("t"))
        )
        assert list(result) == ["messages"]
        assert not any("looked up twice" in text for text in contents(result["messages"]))
    assert "Things are looked up twice." in system(model.asked[0])
    talk = ["look things up", "", "found c1", "found c2", "Both found.", "what did you find?", "As I said."]
    assert without_system(model.asked[1]) == talk[:4]
    assert without_system(model.asked[2]) == talk[:6]
    assert contents(await stored(memory, "t")) == talk
    first, _ = await memory.get_recent_turns("a", "t")
    assert [(r.tool_name, r.params, r.result) for r in first.tool_results] == [
        ("look_up", {"q": "c1"}, "found c1"),
        ("look_up", {"q": "c2"}, "found c2"),
    ]


async def test_an_earlier_session_is_recalled_and_the_state_is_not_changed(memory: MemoryManager) -> None:
    await memory.store_turn("a", "monday", "my locker code is 4711", "Noted.")
    saver = InMemorySaver()
    agent = agent_with(memory, model := ScriptedModel(), checkpointer=saver, system_prompt="Be brief.")
    await agent.ainvoke(asking("what is my locker code?"), thread("tuesday"))
    assert system(model.asked[0]).startswith("Be brief.\n\n<earlier_turns")
    assert "4711" in system(model.asked[0])
    state = await agent.aget_state(thread("tuesday"))
    assert contents(state.values["messages"]) == ["what is my locker code?", "re: what is my locker code?"]
    assert set(state.values) == {"messages"}
    assert "earlier_turns" not in str(await stored(memory, "tuesday"))


async def test_what_the_state_holds_is_not_recalled_too(memory: MemoryManager) -> None:
    agent = agent_with(memory, model := ScriptedModel(), checkpointer=InMemorySaver())
    for question in ("my locker code is 4711", *(f"{'small talk ' * 300} {i}" for i in range(4)), "which locker code?"):
        await agent.ainvoke(asking(question), thread("t"))
        await memory.drain()
    assert system(model.asked[-1]) == ""
    assert sum("4711" in text for text in contents(model.asked[-1])) == 2


async def test_earlier_turns_and_memories_stay_within_the_budget(memory: MemoryManager) -> None:
    budget = 1_000
    for number in range(20):
        await memory.store_turn("a", "t", f"question {number} about the lockers {'and more ' * 20}", "yes " * 20)
        await memory.inject_memory("a", f"Rule {number} about the lockers: {'be careful ' * 10}")
    await memory.drain()
    model = ScriptedModel()
    middleware = ActroneMemoryMiddleware(memory, agent_id="a", token_budget=budget)
    await create_agent(model, middleware=[middleware]).ainvoke(asking("lockers?"), thread("t"))
    *earlier, question = [m for m in model.asked[0] if not isinstance(m, SystemMessage)]
    assert question.content == "lockers?"
    assert "question 19" in earlier[-2].content
    assert isinstance(earlier[0], HumanMessage)
    added = len(system(model.asked[0])) + sum(len(str(m.content)) for m in earlier)
    assert budget / 4 < added / 4 <= 0.6 * budget


async def test_a_turn_too_long_for_the_budget_is_told_shortened(memory: MemoryManager) -> None:
    await memory.store_turn("a", "t", "start " + "long " * 5_000 + "end", "Read.")
    model = ScriptedModel()
    middleware = ActroneMemoryMiddleware(memory, agent_id="a", token_budget=800)
    await create_agent(model, middleware=[middleware]).ainvoke(asking("and now?"), thread("t"))
    shortened, answer, question = without_system(model.asked[0])
    assert shortened.startswith("start")
    assert shortened.endswith("end")
    assert len(shortened) < 1_600
    assert (answer, question) == ("Read.", "and now?")


async def test_streaming_stores_the_same(memory: MemoryManager) -> None:
    agent = agent_with(memory, StreamingModel())
    parts = [part async for part, _ in agent.astream(asking("hello"), thread("t"), stream_mode="messages")]
    assert "".join(str(part.content) for part in parts if part.type.startswith("AI")).strip() == "re: hello"
    list(agent.stream(asking("again"), thread("t"), stream_mode="updates"))
    assert contents(await stored(memory, "t")) == ["hello", "re: hello", "again", "re: again"]


@pytest.mark.parametrize("sync", [True, False], ids=["plain", "async"])
async def test_after_a_crash_in_a_tool_the_call_is_known_and_the_talk_goes_on(
    memory: MemoryManager, sync: bool
) -> None:
    @tool
    def explode(q: str) -> str:
        """Explode."""
        raise SystemError("power cut")

    script = [calls("c1", name="explode"), AIMessage(content="I am back.")]
    middleware = ActroneMemoryMiddleware(memory, agent_id="a")
    agent = create_agent(model := ScriptedModel(script=script), tools=[explode], middleware=[middleware])
    with pytest.raises(SystemError):
        agent.invoke(asking("light it"), thread("t")) if sync else await agent.ainvoke(asking("light it"), thread("t"))
    restarted = create_agent(model, tools=[explode], middleware=[ActroneMemoryMiddleware(memory, agent_id="a")])
    await restarted.ainvoke(asking("are you there?"), thread("t"))
    light, call, placeholder, there = model.asked[-1]
    assert (light.content, call.tool_calls[0]["id"], there.content) == ("light it", "c1", "are you there?")  # type: ignore[attr-defined]
    assert (placeholder.status, placeholder.tool_call_id) == ("error", "c1")  # type: ignore[attr-defined]
    turns = await memory.get_recent_turns("a", "t")
    assert sum(len(turn.records) for turn in turns) == 4


async def test_a_state_with_a_dangling_call_is_repaired_for_the_model(memory: MemoryManager) -> None:
    agent = agent_with(memory, ScriptedModel())  # which refuses invalid lists
    state = {"messages": [HumanMessage(content="q"), calls("c1"), HumanMessage(content="hello?")]}
    result = await agent.ainvoke(state, thread("t"))
    assert contents(result["messages"]) == ["q", "", "hello?", "re: hello?"]
    assert_valid(await stored(memory, "t"))


async def test_a_message_that_is_sent_again_after_a_failure_is_stored_once(memory: MemoryManager) -> None:
    await memory.store_turn("a", "t", "before", "yes")
    model = ScriptedModel(script=[RuntimeError("overloaded"), AIMessage(content="fine")])
    agent = agent_with(memory, model)
    message = {"messages": [HumanMessage(content="hello", id="h-1")]}
    with pytest.raises(RuntimeError):
        await agent.ainvoke(message, thread("t"))
    await agent.ainvoke(message, thread("t"))
    assert without_system(model.asked[-1]) == ["before", "yes", "hello"]
    assert contents(await stored(memory, "t")) == ["before", "yes", "hello", "fine"]


async def test_a_question_asked_anew_is_recalled_anew(memory: MemoryManager) -> None:
    model = ScriptedModel(script=[RuntimeError("overloaded"), AIMessage(content="blue")])
    agent = agent_with(memory, model)
    question = {"messages": [HumanMessage(content="which colour are the lockers?", id="h-1")]}
    with pytest.raises(RuntimeError):
        await agent.ainvoke(question, thread("t"))
    await memory.inject_memory("a", "Lockers are blue.")
    await agent.ainvoke(question, thread("t"))
    assert "blue" not in system(model.asked[0])
    assert "blue" in system(model.asked[1])


async def test_an_agent_that_was_told_nothing_answers(memory: MemoryManager) -> None:
    agent = agent_with(memory, model := ScriptedModel(script=lambda messages: AIMessage(content="Hello?")))
    await agent.ainvoke({"messages": []}, thread("t"))
    await memory.store_turn("a", "t", "between", "yes")
    await agent.ainvoke({"messages": []}, thread("t"))
    assert without_system(model.asked[1]) == ["Hello?", "between", "yes"]
    assert contents(await stored(memory, "t")) == ["Hello?", "between", "yes", "Hello?"]


async def test_the_model_is_given_the_same_through_all_steps_of_a_run(memory: MemoryManager) -> None:
    await memory.store_turn("a", "t", "before", "yes")
    await memory.inject_memory("a", "Lockers are blue.")
    script = [calls("c1"), calls("c2", content="long " * 5_000), AIMessage(content="done")]
    agent = agent_with(memory, model := ScriptedModel(script=script))
    await agent.ainvoke(asking("look at the lockers"), thread("t"))
    assert [system(asked) for asked in model.asked] == [system(model.asked[0])] * 3
    assert [without_system(asked)[:3] for asked in model.asked] == [["before", "yes", "look at the lockers"]] * 3


async def test_two_users_in_one_process_are_not_mixed_in_fifty_parallel_runs(memory: MemoryManager) -> None:
    @dataclass
    class Who:
        user_id: str

    middleware = ActroneMemoryMiddleware(
        memory, agent_id=lambda runtime: runtime.context.user_id, session_id=lambda runtime: "chat"
    )

    def script(messages: list[BaseMessage]) -> AIMessage:
        return echo(messages) if isinstance(messages[-1], ToolMessage) else calls(str(messages[-1].content))

    agent = create_agent(ScriptedModel(script=script), tools=[look_up], middleware=[middleware], context_schema=Who)
    await asyncio.gather(
        *(agent.ainvoke(asking(f"{user} {i}"), context=Who(user)) for i in range(25) for user in ("ann", "bob"))
    )
    for user in ("ann", "bob"):
        said = contents(await stored(memory, "chat", user))
        assert len(said) == 100
        assert sorted(text for text in said if text.startswith("re: ")) == sorted(
            f"re: found {user} {i}" for i in range(25)
        )


@since_1_1
@pytest.mark.parametrize("memory_first", [True, False])
async def test_summarising_removes_messages_from_the_state_and_none_from_memory(
    memory: MemoryManager, memory_first: bool
) -> None:
    summariser = SummarizationMiddleware(
        ScriptedModel(script=lambda messages: AIMessage(content="SUMMARY")),
        trigger=("messages", 6),
        keep=("messages", 1),
    )
    middleware = [ActroneMemoryMiddleware(memory, agent_id="a"), summariser]
    model = ScriptedModel()
    agent = create_agent(
        model, middleware=middleware if memory_first else middleware[::-1], checkpointer=InMemorySaver()
    )
    questions = [f"question {i}" for i in range(8)]
    for question in questions:
        await agent.ainvoke(asking(question), thread("t"))
    assert any("SUMMARY" in text for text in contents(model.asked[-1]))
    assert len(without_system(model.asked[-1])) <= 6
    assert contents(await stored(memory, "t")) == [line for q in questions for line in (q, f"re: {q}")]


async def test_a_text_that_takes_the_place_of_earlier_messages_is_not_stored(memory: MemoryManager) -> None:
    @before_model
    def shorten(state: Any, runtime: Any) -> dict[str, Any] | None:
        if len(state["messages"]) < 5:
            return None
        return {
            "messages": [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("So far: talk."), *state["messages"][-3:]]
        }

    agent = agent_with(memory, model := ScriptedModel(), shorten, checkpointer=InMemorySaver())
    questions = [f"question {i}" for i in range(6)]
    for question in questions:
        await agent.ainvoke(asking(question), thread("t"))
    assert without_system(model.asked[-1])[0] == "So far: talk."
    assert contents(await stored(memory, "t")) == [line for q in questions for line in (q, f"re: {q}")]


async def test_removed_messages_are_not_brought_back(memory: MemoryManager) -> None:
    @before_model
    def keep_two(state: Any, runtime: Any) -> dict[str, Any] | None:
        gone = state["messages"][:-2]
        return {"messages": [RemoveMessage(id=message.id) for message in gone]} if gone else None

    agent = agent_with(memory, model := ScriptedModel(), keep_two, checkpointer=InMemorySaver())
    for i in range(4):
        await agent.ainvoke(asking(f"question {i}"), thread("t"))
    assert without_system(model.asked[-1]) == ["re: question 2", "question 3"]
    assert len(await stored(memory, "t")) == 8


async def test_turns_that_the_state_does_not_hold_are_recalled(memory: MemoryManager) -> None:
    before = agent_with(memory, ScriptedModel())
    await before.ainvoke(asking("my locker code is 4711"), thread("t"))
    agent = agent_with(memory, model := ScriptedModel(), checkpointer=InMemorySaver())
    await agent.ainvoke(asking("the weather is fine"), thread("t"))
    assert "4711" in str(model.asked[0])
    await memory.drain()
    await agent.ainvoke(asking("what is my locker code?"), thread("t"))
    assert without_system(model.asked[1])[0] == "the weather is fine"
    assert "my locker code is 4711" in system(model.asked[1])
    await memory.drain()
    await agent.ainvoke(asking("is the weather fine?"), thread("t"))
    assert "the weather is fine" not in system(model.asked[2])


async def test_what_is_redacted_before_this_middleware_is_stored_redacted(memory: MemoryManager) -> None:
    middleware = [PIIMiddleware("email", strategy="redact"), ActroneMemoryMiddleware(memory, agent_id="a")]
    agent = create_agent(ScriptedModel(), middleware=middleware)
    await agent.ainvoke(asking("write to ann@example.com"), thread("t"))
    assert "ann@example.com" not in str(await memory.get_recent_turns("a", "t"))
    assert len(await stored(memory, "t")) == 2


async def test_a_call_that_a_human_edits_is_stored_as_the_state_has_it(memory: MemoryManager) -> None:
    script = [calls("c1"), AIMessage(content="Done.")]
    human = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
    agent = agent_with(memory, ScriptedModel(script=script), human, checkpointer=InMemorySaver())
    paused = await agent.ainvoke(asking("look it up"), thread("t"))
    assert paused["__interrupt__"]
    edit = {"type": "edit", "edited_action": {"name": "look_up", "args": {"q": "something else"}}}
    result = await agent.ainvoke(Command(resume={"decisions": [edit]}), thread("t"))
    assert "found something else" in str(result["messages"][2].content)
    assert await stored(memory, "t") == result["messages"]


async def test_structured_output_works(memory: MemoryManager) -> None:
    class Weather(BaseModel):
        degrees: int

    script = [AIMessage(content="", tool_calls=[{"name": "Weather", "args": {"degrees": 20}, "id": "w"}])]
    agent = agent_with(memory, ScriptedModel(script=script), response_format=ToolStrategy(Weather))
    result = await agent.ainvoke(asking("how warm?"), thread("t"))
    assert result["structured_response"] == Weather(degrees=20)
    assert_valid(await stored(memory, "t"))


@since_1_1
async def test_blocks_of_the_system_message_are_kept(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Lockers are blue.")
    prompt = SystemMessage(content=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    agent = agent_with(memory, model := ScriptedModel(), system_prompt=prompt)
    await agent.ainvoke(asking("which colour are the lockers?"), thread("t"))
    first, recalled = model.asked[0][0].content
    assert first == prompt.content[0]
    assert "Lockers are blue." in recalled["text"]  # type: ignore[index]


async def test_a_message_without_text_recalls_nothing_and_brings_the_earlier_turns(memory: MemoryManager) -> None:
    await memory.store_turn("a", "t", "before", "yes")
    await memory.inject_memory("a", "Lockers are blue.")
    image = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
    agent = agent_with(memory, model := ScriptedModel(script=lambda messages: AIMessage(content="A picture.")))
    await agent.ainvoke({"messages": [HumanMessage(content=[image])]}, thread("t"))
    assert system(model.asked[0]) == ""
    assert [m.content for m in model.asked[0]] == ["before", "yes", [image]]


@pytest.mark.parametrize("text", ["a\x00b", "x" * 1_000_001], ids=["nul", "long"])
@pytest.mark.parametrize("sync", [True, False], ids=["plain", "async"])
async def test_any_question_is_answered_and_stored(memory: MemoryManager, text: str, sync: bool) -> None:
    agent = agent_with(memory, ScriptedModel(script=lambda messages: AIMessage(content="Yes.")))
    question = {"messages": [HumanMessage(content=text)]}
    if sync:
        agent.invoke(question, thread("t"))
    else:
        await agent.ainvoke(question, thread("t"))
    assert [message.content for message in await stored(memory, "t")] == [text, "Yes."]


@pytest.mark.parametrize("carried", [True, False], ids=["carried", "earlier"])
async def test_an_invalid_call_has_one_result_for_the_model(memory: MemoryManager, carried: bool) -> None:
    model = ScriptedModel(script=[invalid_call("c1"), AIMessage(content="Sorry.")])
    agent = agent_with(memory, model, checkpointer=InMemorySaver() if carried else None)
    await agent.ainvoke(asking("look it up"), thread("t"))
    await agent.ainvoke(asking("and?"), thread("t"))
    assert [message.type for message in model.asked[-1]] == ["human", "ai", "tool", "human"]
    assert model.asked[-1][2].tool_call_id == "c1"  # type: ignore[attr-defined]
    assert "placeholder" not in str(await memory.get_recent_turns("a", "t"))


async def test_a_removal_that_the_session_holds_is_not_told_to_the_model(memory: MemoryManager) -> None:
    messages = [HumanMessage(content="one", id="h"), AIMessage(content="two"), RemoveMessage(id="h")]
    await ActroneChatMessageHistory(memory, "a", "t").aadd_messages(messages)
    agent = agent_with(memory, model := ScriptedModel())
    await agent.ainvoke(asking("three"), thread("t"))
    assert without_system(model.asked[0]) == ["one", "two", "three"]


async def test_without_a_session_the_error_says_what_to_do(memory: MemoryManager) -> None:
    with pytest.raises(ConfigurationError, match="thread_id"):
        await agent_with(memory, ScriptedModel()).ainvoke(asking("hello"))
    for arguments in ({"agent_id": ""}, {"agent_id": "a", "session_id": 4}):
        with pytest.raises(ValidationError):
            ActroneMemoryMiddleware(memory, **arguments)
    with pytest.raises(TokenBudgetError):
        ActroneMemoryMiddleware(memory, agent_id="a", token_budget=0)


def test_a_sync_manager_serves_both_ways() -> None:
    with SyncMemoryManager.create() as memory:
        agent = agent_with(memory, ScriptedModel())
        agent.invoke(asking("one"), thread("t"))
        asyncio.run(agent.ainvoke(asking("two"), thread("t")))
        chat = ActroneChatMessageHistory(memory, "a", "t")
        assert contents(chat.messages) == ["one", "re: one", "two", "re: two"]


async def test_a_thread_longer_than_the_window_is_not_stored_again() -> None:
    memory = await MemoryManager.create(MemoryConfig(max_session_turns=3, summarise_after_turns=3))
    agent = agent_with(memory, ScriptedModel(), checkpointer=InMemorySaver())
    for i in range(8):
        await agent.ainvoke(asking(f"question {i}"), thread("t"))
        await memory.drain()
    assert contents(await stored(memory, "t"))[::2] == ["question 5", "question 6", "question 7"]
    assert len(await memory.list_memories("a", content_types=["turn"])) == 8
    await memory.close()
