"""LlamaIndex's agents and chat engines on ActroneMemory: real ones, with real tools and models that follow a script."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llamaindex_scripts import UPSTREAM, ScriptedLLM, assert_accepted, calling, said

from actrone_llamaindex import ActroneMemory
from actrone_memory import MemoryManager

pytestmark = UPSTREAM


def weather(city: str) -> str:
    """The weather in a city."""
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"sunny in {city}"


def of(memory: MemoryManager, session_id: str = "s") -> ActroneMemory:
    return ActroneMemory.from_defaults(memory=memory, agent_id="a", session_id=session_id)


def agent(llm: ScriptedLLM, **fields: Any) -> FunctionAgent:
    return FunctionAgent(tools=[weather], llm=llm, system_prompt="You are brief.", **fields)


async def test_a_function_agent_remembers_its_calls_and_continues_in_a_new_object(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Ann lives in Bern.")
    first = ScriptedLLM(
        calling(("1", "weather", {"city": "Bern"}), ("2", "weather", {"city": "Atlantis"})), "Sunny, and no such place."
    )
    answer = await agent(first).run("What is the weather where Ann lives?", memory=of(memory))
    assert str(answer) == "Sunny, and no such place."
    assert said(first.seen[0])[0] == ("system", "You are brief.")
    assert "Ann lives in Bern." in said(first.seen[0])[1][1]
    assert [role for role, _ in said(first.seen[1])[2:]] == ["user", "assistant", "tool", "tool"]

    second = ScriptedLLM("Of Bern.")
    await agent(second).run("Of what place did we speak?", memory=of(memory))
    whole = await of(memory).aget_all()
    assert [role for role, _ in said(whole)] == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]
    assert [m for m in second.seen[0] if m.role != "system"] == whole[:-1]
    turns = await memory.get_recent_turns("a", "s")
    told = turns[0].tool_results[0]
    assert (told.tool_name, told.params, told.result) == ("weather", {"city": "Bern"}, "sunny in Bern")


async def test_another_session_recalls_what_was_said(memory: MemoryManager) -> None:
    await agent(ScriptedLLM("Noted.")).run("My cat is called Momo.", memory=of(memory, "monday"))
    await memory.drain()
    llm = ScriptedLLM("Momo.")
    await agent(llm).run("What is my cat called?", memory=of(memory, "tuesday"))
    assert "Momo" in (llm.seen[0][1].content or "")
    assert said(await of(memory, "tuesday").aget_all()) == [("user", "What is my cat called?"), ("assistant", "Momo.")]


async def test_streamed_answers_are_remembered(memory: MemoryManager) -> None:
    handler = agent(ScriptedLLM(calling(("1", "weather", {"city": "Bern"})), "Sunny in Bern.")).run(
        "Weather in Bern?", memory=of(memory)
    )
    deltas = [event.response async for event in handler.stream_events() if isinstance(event, AgentStream)]
    await handler
    assert deltas[-1] == "Sunny in Bern."
    assert said(await of(memory).aget_all())[-1] == ("assistant", "Sunny in Bern.")


async def test_a_history_that_is_sent_again_is_not_doubled(memory: MemoryManager) -> None:
    history = [ChatMessage(role="system", content="Use metric units."), ChatMessage(role="user", content="Hi.")]
    await agent(ScriptedLLM("Hello.")).run(chat_history=history, memory=of(memory))
    whole = await of(memory).aget_all()
    assert said(whole) == [("system", "Use metric units."), ("user", "Hi."), ("assistant", "Hello.")]
    llm = ScriptedLLM("Bye.")
    await agent(llm).run("Bye.", chat_history=whole, memory=of(memory))
    assert (await of(memory).aget_all())[:3] == whole
    assert len(await of(memory).aget_all()) == 5
    assert said(llm.seen[0])[:2] == [("system", "You are brief."), ("system", "Use metric units.")]


async def test_a_tool_that_answers_directly_leaves_a_valid_conversation(memory: MemoryManager) -> None:
    from llama_index.core.tools import FunctionTool

    direct = FunctionTool.from_defaults(weather, return_direct=True)
    llm = ScriptedLLM(calling(("1", "weather", {"city": "Bern"}), ("2", "weather", {"city": "Ulm"})))
    await FunctionAgent(tools=[direct], llm=llm).run("Weather?", memory=of(memory))
    assert_accepted(await of(memory).aget())
    llm = ScriptedLLM("Yes.")
    await FunctionAgent(tools=[direct], llm=llm).run("Sure?", memory=of(memory))
    assert ("user", "Weather?") in said(llm.seen[0])


STOPS_EARLY = pytest.mark.skipif(
    "early_stopping_method" not in FunctionAgent.model_fields, reason="this version knows no early stopping"
)


@pytest.mark.parametrize("limits", [{}, pytest.param({"max_iterations": 2}, marks=STOPS_EARLY)])
async def test_an_agent_that_is_broken_off_goes_on_later(memory: MemoryManager, limits: dict[str, int]) -> None:
    loop = [calling((str(n), "weather", {"city": "Bern"})) for n in range(2)]
    with pytest.raises(Exception, match="iterations" if limits else "pop from empty list"):
        await agent(ScriptedLLM(*loop)).run("Weather?", memory=of(memory), **limits)
    llm = ScriptedLLM("Sunny.")
    await agent(llm).run("And now?", memory=of(memory))
    assert said(llm.seen[0])[-2:] == [("user", "Weather?"), ("user", "And now?")]


@STOPS_EARLY
async def test_early_stopping_with_an_answer_leaves_a_valid_conversation(memory: MemoryManager) -> None:
    loop = [calling((str(n), "weather", {"city": "Bern"})) for n in range(2)]
    llm = ScriptedLLM(*loop, "I stop here.")
    await agent(llm, early_stopping_method="generate").run("Weather?", memory=of(memory), max_iterations=2)
    assert said(await of(memory).aget_all()) == [("user", "Weather?"), ("assistant", "I stop here.")]
    await agent(ScriptedLLM("Sunny.")).run("And now?", memory=of(memory))
    assert said(await of(memory).aget_all())[-1] == ("assistant", "Sunny.")


async def test_a_crash_between_call_and_result_is_survived(memory: MemoryManager) -> None:
    await of(memory).aput_messages(
        [ChatMessage(role="user", content="Weather?"), calling(("1", "weather", {"city": "Bern"}))]
    )
    llm = ScriptedLLM("It broke.")
    await agent(llm).run("What happened?", memory=of(memory))
    assert "no result" in said(llm.seen[0])[3][1]
    assert [role for role, _ in said(await of(memory).aget_all())] == ["user", "assistant", "user", "assistant"]


async def test_a_react_agent_keeps_its_reasoning_and_continues(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Ann lives in Bern.")

    def react(*script: str) -> tuple[ReActAgent, ScriptedLLM]:
        llm = ScriptedLLM(*script)
        return ReActAgent(tools=[weather], llm=llm, system_prompt="You are brief."), llm

    first, llm = react(
        'Thought: I look.\nAction: weather\nAction Input: {"city": "Bern"}', "Thought: Done.\nAnswer: Sunny."
    )
    assert str(await first.run("Weather where Ann lives?", memory=of(memory))) == "Sunny."
    assert "Ann lives in Bern." in str(llm.seen[0])
    (asked, reasoned) = await of(memory).aget_all()
    assert "sunny in Bern" in (reasoned.content or "")
    second, llm = react("Thought: I know.\nAnswer: In Bern.")
    await second.run("Where was that?", memory=of(memory))
    assert asked.content in str(llm.seen[0])
    assert len(await of(memory).aget_all()) == 4


async def test_two_agents_hand_over_and_remember(memory: MemoryManager) -> None:
    def team(front: ScriptedLLM, back: ScriptedLLM) -> AgentWorkflow:
        return AgentWorkflow(
            agents=[
                FunctionAgent(name="front", description="Greets.", llm=front, tools=[weather], can_handoff_to=["back"]),
                FunctionAgent(name="back", description="Knows weather.", llm=back, tools=[weather]),
            ],
            root_agent="front",
        )

    front = ScriptedLLM(calling(("1", "handoff", {"to_agent": "back", "reason": "weather"})))
    back = ScriptedLLM(calling(("2", "weather", {"city": "Bern"})), "Sunny.")
    await team(front, back).run("Weather in Bern?", memory=of(memory))
    whole = await of(memory).aget_all()
    assert [role for role, _ in said(whole)] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert_accepted(await of(memory).aget())
    again = ScriptedLLM("As I said.")
    await team(again, ScriptedLLM()).run("Once more?", memory=of(memory))
    assert [m for m in again.seen[0] if m.role != "system"][:-1] == whole


async def test_a_code_agent_runs_and_continues(memory: MemoryManager) -> None:
    def code(*script: str) -> CodeActAgent:
        return CodeActAgent(code_execute_fn=lambda code: f"ran {code}", llm=ScriptedLLM(*script), tools=[])

    await code("<execute>print(1)</execute>", "It is 1.").run("Count.", memory=of(memory))
    await code("As I said: 1.").run("Again?", memory=of(memory))
    assert said(await of(memory).aget_all())[-1] == ("assistant", "As I said: 1.")
    assert_accepted(await of(memory).aget())


# --- chat engines -----------------------------------------------------------------------------------------------------


class Shelf(BaseRetriever):
    """A retriever with one page."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="Bern is the capital."), score=1.0)]


class Echo(CustomQueryEngine):
    """A query engine that says what it was asked."""

    def custom_query(self, query_str: str) -> str:
        return f"answer to {query_str}"


def engine(kind: str, llm: ScriptedLLM, memory: ActroneMemory) -> Any:
    if kind == "simple":
        return SimpleChatEngine.from_defaults(llm=llm, memory=memory, system_prompt="You are brief.")
    if kind == "context":
        return ContextChatEngine.from_defaults(
            retriever=Shelf(), llm=llm, memory=memory, system_prompt="You are brief."
        )
    return CondensePlusContextChatEngine.from_defaults(
        retriever=Shelf(), llm=llm, memory=memory, system_prompt="You are brief.", skip_condense=True
    )


@pytest.mark.parametrize("kind", ["simple", "context", "condense"])
@pytest.mark.parametrize("way", ["chat", "achat", "stream_chat", "astream_chat"])
async def test_a_chat_engine_continues_in_a_new_object(memory: MemoryManager, kind: str, way: str) -> None:
    async def ask(question: str, llm: ScriptedLLM) -> None:
        answer = getattr(engine(kind, llm, of(memory)), way)
        if way == "chat":
            await asyncio.to_thread(answer, question)
        elif way == "achat":
            await answer(question)
        elif way == "stream_chat":
            streamed = await asyncio.to_thread(answer, question)
            assert "".join(await asyncio.to_thread(list, streamed.response_gen))
            thread = getattr(streamed, "write_response_to_history_thread", None)
            if thread is not None:
                await asyncio.to_thread(thread.join)
        else:
            streamed = await answer(question)
            assert [token async for token in streamed.async_response_gen()]
            task = getattr(streamed, "awrite_response_to_history_task", None)
            if task is not None:
                await task

    await memory.inject_memory("a", "Ann lives in Bern.")
    first, second = ScriptedLLM("It is Bern."), ScriptedLLM("Yes, Bern.")
    await ask("Which town does Ann live in?", first)
    await ask("Sure?", second)
    talk = [
        ("user", "Which town does Ann live in?"),
        ("assistant", "It is Bern."),
        ("user", "Sure?"),
        ("assistant", "Yes, Bern."),
    ]
    assert said(await of(memory).aget_all()) == talk
    assert "Ann lives in Bern." in str(first.seen[0])
    assert all(text in str(second.seen[0]) for _, text in talk[:3])


async def test_chat_engines_forget_and_show_their_history(memory: MemoryManager) -> None:
    talking = engine("simple", ScriptedLLM("Hello.", "Hello again."), of(memory))
    await asyncio.to_thread(talking.chat, "Hi.")
    assert said(talking.chat_history) == [("user", "Hi."), ("assistant", "Hello.")]
    talking.reset()
    assert talking.chat_history == []
    await talking.achat("Hi.", chat_history=[ChatMessage(role="user", content="Earlier.")])
    assert [text for _, text in said(talking.chat_history)] == ["Earlier.", "Hi.", "Hello again."]


async def test_condensing_engines_use_the_conversation(memory: MemoryManager) -> None:
    talking = CondenseQuestionChatEngine.from_defaults(
        query_engine=Echo(), llm=ScriptedLLM("standalone question"), memory=of(memory)
    )
    await talking.achat("Hi.")
    await talking.achat("And?")
    assert said(await of(memory).aget_all())[-1] == ("assistant", "answer to standalone question")


def test_plain_calls_of_an_engine_in_a_script() -> None:
    manager = asyncio.run(MemoryManager.create())
    engine("simple", ScriptedLLM("Hello."), of(manager)).chat("Hi.")
    assert said(of(manager).get_all()) == [("user", "Hi."), ("assistant", "Hello.")]
    asyncio.run(manager.close())
