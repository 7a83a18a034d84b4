"""The chat history: on its own, in the real RunnableWithMessageHistory, with and without an event loop."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableFieldSpec, RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_scripts import OLD_CORE, ScriptedModel, StreamingModel, calls
from watching import settled_threads

from actrone_langchain import (
    ActroneChatMessageHistory,
    SessionHistory,
    session_history,
    user_agent_id,
    user_session_history,
)
from actrone_memory import (
    ConfigurationError,
    InMemoryStore,
    MemoryConfig,
    MemoryManager,
    StoreConnectionError,
    SyncMemoryManager,
    TokenBudgetError,
    ValidationError,
)

pytestmark = [
    OLD_CORE,
    pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated"),
]


def at(session_id: str, **further: str) -> Any:
    return {"configurable": {"session_id": session_id, **further}}


def told(messages: list[BaseMessage]) -> list[tuple[str, str]]:
    """Who said what; an answer that was streamed counts as an answer."""
    return [(m.type.removesuffix("MessageChunk").lower(), str(m.content).strip()) for m in messages]


def stored(memory: MemoryManager | SyncMemoryManager, session_id: str, agent_id: str = "a") -> list[tuple[str, str]]:
    return told(ActroneChatMessageHistory(memory, agent_id, session_id).messages)


def exchange(*questions: str) -> list[tuple[str, str]]:
    return [line for question in questions for line in (("human", question), ("ai", f"re: {question}"))]


# --- on its own -------------------------------------------------------------------------------------------------------


def test_making_a_history_does_no_io_and_starts_no_thread() -> None:
    class Untouchable(InMemoryStore):
        async def get_recent_turns(self, *args: Any) -> Any:
            raise AssertionError

        append_turns = get_session_metadata = get_recent_turns

    store = Untouchable()
    memory = asyncio.run(MemoryManager.create(l1=store, l2=store))
    before = settled_threads()
    ActroneChatMessageHistory(memory, "a", "s", 100)
    session_history(memory, "a")("s")
    assert threading.active_count() == before


async def test_the_async_members_and_the_plain_ones_show_the_same(memory: MemoryManager) -> None:
    chat = ActroneChatMessageHistory(memory, "a", "s")
    await chat.aadd_messages([HumanMessage(content="one")])
    chat.add_user_message("two")
    chat.add_ai_message("three")
    assert (
        told(chat.messages) == told(await chat.aget_messages()) == [("human", "one"), ("human", "two"), ("ai", "three")]
    )
    assert str(chat) == "Human: one\nHuman: two\nAI: three"
    await chat.aclear()
    assert chat.messages == []
    chat.add_messages([])
    chat.add_user_message("again")
    chat.clear()
    assert await chat.aget_messages() == []


def test_a_manager_made_in_another_loop_serves_scripts_threads_and_further_loops() -> None:
    memory = asyncio.run(MemoryManager.create())

    def in_a_thread(number: int) -> None:
        chat = ActroneChatMessageHistory(memory, "a", f"s{number}")
        chat.add_user_message(f"plain {number}")
        asyncio.run(chat.aadd_messages([AIMessage(content=f"awaited {number}")]))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(in_a_thread, range(50)))
    assert all(stored(memory, f"s{n}") == [("human", f"plain {n}"), ("ai", f"awaited {n}")] for n in range(50))
    asyncio.run(memory.close())


def test_a_sync_manager_serves_both_ways() -> None:
    with SyncMemoryManager.create() as memory:
        chat = ActroneChatMessageHistory(memory=memory, agent_id="a", session_id="s")
        chat.add_user_message("plain")
        assert told(asyncio.run(chat.aget_messages())) == [("human", "plain")]


async def test_all_histories_of_a_manager_share_one_thread_which_ends_with_it() -> None:
    memory = await MemoryManager.create(MemoryConfig(archive_turns=False))
    before = settled_threads()
    histories = [ActroneChatMessageHistory(memory, "a", f"s{i}") for i in range(20)]
    assert [chat.messages for chat in histories] == [[]] * 20
    assert threading.active_count() == before + 1
    await memory.close()
    assert threading.active_count() == before
    with pytest.raises(ConfigurationError) as closed:
        assert histories[0].messages
    assert closed.value.code == "closed"


def test_a_history_does_not_keep_a_forgotten_manager_alive() -> None:
    before = settled_threads()
    memory = asyncio.run(MemoryManager.create())
    assert stored(memory, "s") == []
    reference = weakref.ref(memory)
    del memory
    gc.collect()
    assert reference() is None
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"memory": object()}, "memory"),
        ({"agent_id": " "}, "agent_id"),
        ({"agent_id": "\ud800"}, "agent_id"),
        ({"session_id": 7}, "session_id"),
        ({"session_id": "x" * 257}, "session_id"),
        ({"session_id": "a\x00"}, "session_id"),
        ({"token_budget": True}, "token_budget"),
        ({"token_budget": 1.5}, "token_budget"),
    ],
)
async def test_an_argument_that_is_not_acceptable_is_refused_at_once(
    memory: MemoryManager, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        ActroneChatMessageHistory(**{"memory": memory, "agent_id": "a", "session_id": "s", **arguments})
    assert refused.value.field == field
    with pytest.raises(TokenBudgetError):
        ActroneChatMessageHistory(memory, "a", "s", token_budget=0)


async def test_a_budget_gives_the_newest_whole_turns_that_fit(memory: MemoryManager) -> None:
    chat = ActroneChatMessageHistory(memory, "a", "s")
    for number in range(6):
        await chat.aadd_messages(
            [
                HumanMessage(content=f"question {number} " * 10),
                calls(f"c{number}"),
                ToolMessage(content="found " * 20, tool_call_id=f"c{number}"),
                AIMessage(content="answer"),
            ]
        )
    turns = await memory.get_recent_turns("a", "s")
    two = sum(turn.token_count for turn in turns[-2:])
    within = await ActroneChatMessageHistory(memory, "a", "s", two).aget_messages()
    assert within == (await chat.aget_messages())[-8:]
    almost = await ActroneChatMessageHistory(memory, "a", "s", two - 1).aget_messages()
    assert almost == within[4:]
    assert await ActroneChatMessageHistory(memory, "a", "s", 1).aget_messages() == within[4:]
    assert await ActroneChatMessageHistory(memory, "a", "empty", 1).aget_messages() == []


async def test_messages_are_recalled_in_other_sessions(memory: MemoryManager) -> None:
    await ActroneChatMessageHistory(memory, "a", "monday").aadd_messages(
        [HumanMessage(content="The locker code is 4711."), AIMessage(content="Noted.")]
    )
    context = await memory.retrieve_context("a", "tuesday", "locker code?", 800)
    assert "4711" in context.recalled_turns[0].content


async def test_what_is_no_message_is_refused_and_any_iterable_of_messages_is_taken(memory: MemoryManager) -> None:
    chat = ActroneChatMessageHistory(memory, "a", "s")
    with pytest.raises(ValidationError, match=r"messages\[1\]"):
        await chat.aadd_messages([HumanMessage(content="x"), "y"])  # type: ignore[list-item]
    await chat.aadd_messages(m for m in [HumanMessage(content="x", id="x:1")])  # type: ignore[arg-type]
    assert told(chat.messages) == [("human", "x")]


@pytest.mark.parametrize("messages", [None, 7, HumanMessage(content="x")], ids=["none", "number", "message"])
async def test_what_is_no_list_of_messages_is_refused(memory: MemoryManager, messages: Any) -> None:
    chat = ActroneChatMessageHistory(memory, "a", "s")
    with pytest.raises(ValidationError, match="messages: must be a list of messages"):
        await chat.aadd_messages(messages)
    with pytest.raises(ValidationError, match="messages: must be a list of messages"):
        chat.add_messages(messages)
    assert (chat.failed_writes, chat.messages) == (2, [])


class Failing(InMemoryStore):
    broken = False

    async def append_turns(self, *args: Any, **kwargs: Any) -> None:
        if self.broken:
            raise OSError("disk full")
        await super().append_turns(*args, **kwargs)


async def test_a_write_that_fails_is_raised_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    store = Failing()
    store.broken = True
    memory = await MemoryManager.create(l1=store, l2=store)
    chat = ActroneChatMessageHistory(memory, "agent-7", "session-8")
    with pytest.raises(StoreConnectionError):
        await chat.aadd_messages([HumanMessage(content="a"), AIMessage(content="b")])
    with pytest.raises(StoreConnectionError):
        chat.add_user_message("c")
    with pytest.raises(StoreConnectionError):
        await chat.aadd_messages(message for message in [HumanMessage(content="d")])  # type: ignore[arg-type]
    assert chat.failed_writes == len(caplog.records) == 3
    first = next(record for record in caplog.records if record.name == "actrone_langchain")
    assert first.levelno == logging.ERROR
    assert "agent-7" in first.message
    assert "session-8" in first.message
    assert "2 messages" in first.message
    await memory.close()


# --- users ------------------------------------------------------------------------------------------------------------

ANY_ID = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=256).filter(
    lambda text: bool(text.strip())
)


@given(first=st.tuples(ANY_ID, ANY_ID), second=st.tuples(ANY_ID, ANY_ID))
def test_two_pairs_of_agent_and_user_never_share_an_id(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert (user_agent_id(*first) == user_agent_id(*second)) == (first == second)
    assert len(user_agent_id(*first)) <= 256


@pytest.mark.parametrize(
    ("one", "other"),
    [(("a", "b:c"), ("a:b", "c")), (("1:a", "b"), ("1", "a:b")), (("a" * 256, "u"), ("a" * 255, "au"))],
)
def test_ids_that_hold_the_separator_are_told_apart(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert user_agent_id(*one) != user_agent_id(*other)


def test_the_id_of_a_user_can_be_read() -> None:
    assert user_agent_id("support", "ann") == "user:7:support:ann"
    with pytest.raises(ValidationError, match="user_id"):
        user_agent_id("support", "")


# --- in the runnable --------------------------------------------------------------------------------------------------


def prompted(model: ScriptedModel) -> Any:
    return (
        ChatPromptTemplate.from_messages(
            [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")]
        )
        | model
    )


def with_key(memory: Any, model: ScriptedModel) -> RunnableWithMessageHistory:
    return RunnableWithMessageHistory(
        prompted(model), session_history(memory, "a"), input_messages_key="question", history_messages_key="history"
    )


def without_key(memory: Any, model: ScriptedModel) -> RunnableWithMessageHistory:
    return RunnableWithMessageHistory(model, session_history(memory, "a"))


@pytest.mark.parametrize("make", [with_key, without_key])
@pytest.mark.parametrize("model", [ScriptedModel, StreamingModel])
async def test_every_way_to_call_the_runnable_stores_each_message_once(
    memory: MemoryManager, make: Any, model: type[ScriptedModel]
) -> None:
    chain, ask = make(memory, scripted := model()), (lambda q: {"question": q} if make is with_key else q)
    chain.invoke(ask("one"), at("s"))
    await chain.ainvoke(ask("two"), at("s"))
    assert "".join(str(part.content) for part in chain.stream(ask("three"), at("s"))).strip() == "re: three"
    assert "".join([str(part.content) async for part in chain.astream(ask("four"), at("s"))]).strip() == "re: four"
    assert stored(memory, "s") == exchange("one", "two", "three", "four")
    system = [("system", "Be brief.")] if make is with_key else []
    assert told(scripted.asked[-1]) == [*system, *exchange("one", "two", "three"), ("human", "four")]
    chain.batch([ask("left"), ask("right")], [at("l"), at("r")])
    await chain.abatch([ask("more left"), ask("more right")], [at("l"), at("r")])
    assert stored(memory, "l") == exchange("left", "more left")
    assert stored(memory, "r") == exchange("right", "more right")


@pytest.mark.parametrize(
    "given_input",
    ["hello", HumanMessage(content="hello"), [HumanMessage(content="hello")], [HumanMessage(content="hello", id="h")]],
    ids=["text", "message", "messages", "message with id"],
)
async def test_texts_and_messages_are_inputs(memory: MemoryManager, given_input: Any) -> None:
    chain = without_key(memory, ScriptedModel())
    await chain.ainvoke(given_input, at("s"))
    assert stored(memory, "s") == exchange("hello")
    chain.invoke("and", at("s"))
    assert stored(memory, "s") == exchange("hello", "and")


def test_a_dict_of_messages_is_an_input_and_a_dict_or_text_an_output() -> None:
    with SyncMemoryManager.create() as memory:
        take = RunnableLambda(lambda inputs: inputs["talk"])
        answer = RunnableLambda(lambda message: {"said": message, "other": 1})
        RunnableWithMessageHistory(
            take | ScriptedModel() | answer,
            session_history(memory, "a"),
            input_messages_key="talk",
            output_messages_key="said",
        ).invoke({"talk": [HumanMessage(content="one")]}, at("s"))
        RunnableWithMessageHistory(
            take | ScriptedModel() | StrOutputParser(), session_history(memory, "a"), input_messages_key="talk"
        ).invoke({"talk": "two"}, at("s"))
        assert stored(memory, "s") == exchange("one", "two")


@pytest.mark.parametrize("make", [with_key, without_key])
async def test_overlapping_calls_of_one_session_lose_nothing(memory: MemoryManager, make: Any) -> None:
    everyone_read = asyncio.Barrier(20)

    class Slow(ScriptedModel):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            await everyone_read.wait()
            return self._generate(*args)

    chain = make(memory, Slow())
    questions = [f"question {i}" for i in range(20)]
    await asyncio.gather(*(chain.ainvoke({"question": q} if make is with_key else q, at("s")) for q in questions))
    lines = stored(memory, "s")
    assert len(lines) == 40
    assert set(lines) == set(exchange(*questions))


@pytest.mark.parametrize("make", [with_key, without_key])
def test_a_batch_of_one_session_on_threads_loses_nothing(make: Any) -> None:
    everyone_read = threading.Barrier(4)

    class Slow(ScriptedModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            everyone_read.wait(10)
            return super()._generate(*args)

    questions = [f"question {i}" for i in range(4)]
    with SyncMemoryManager.create() as memory:
        make(memory, Slow()).batch([{"question": q} if make is with_key else q for q in questions], [at("s")] * 4)
        assert sorted(stored(memory, "s")) == sorted(exchange(*questions))


async def test_fifty_parallel_calls_of_two_users_are_not_mixed(memory: MemoryManager) -> None:
    fields = [
        ConfigurableFieldSpec(id=name, annotation=str, name=name, default="", is_shared=True)
        for name in ("user_id", "session_id")
    ]

    async def ask(number: int) -> None:
        user = ("ann", "bob")[number % 2]
        chain = RunnableWithMessageHistory(
            ScriptedModel(), user_session_history(memory, "a"), history_factory_config=fields
        )
        await chain.ainvoke(f"{user} {number}", at(f"s{number // 10}", user_id=user))

    await asyncio.gather(*map(ask, range(50)))
    for user in ("ann", "bob"):
        for session in range(5):
            lines = stored(memory, f"s{session}", user_agent_id("a", user))
            assert len(lines) == 10
            assert all(f"{user} " in text for _, text in lines)
    assert stored(memory, "s0") == []


async def test_what_the_model_could_not_answer_is_not_stored(memory: MemoryManager) -> None:
    chain = without_key(memory, ScriptedModel(script=[RuntimeError("overloaded"), AIMessage(content="fine")]))
    answer = await chain.with_retry(retry_if_exception_type=(RuntimeError,), wait_exponential_jitter=False).ainvoke(
        "hello", at("s")
    )
    assert answer.content == "fine"
    assert stored(memory, "s") == [("human", "hello"), ("ai", "fine")]


async def test_a_dangling_call_is_repaired_before_the_model_sees_it(memory: MemoryManager) -> None:
    await ActroneChatMessageHistory(memory, "a", "s").aadd_messages([HumanMessage(content="q"), calls("c1", "c2")])
    chain = without_key(memory, ScriptedModel())  # which refuses invalid lists
    await chain.ainvoke("still there?", at("s"))
    assert [kind for kind, _ in stored(memory, "s")] == ["human", "ai", "tool", "tool", "human", "ai"]
    turns = await memory.get_recent_turns("a", "s")
    assert sum(len(turn.records) for turn in turns) == 4


async def test_the_runnable_swallows_a_failed_write_which_is_counted_by_the_factory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Failing()
    memory = await MemoryManager.create(l1=store, l2=store)
    factory = session_history(memory, "a")
    chain = RunnableWithMessageHistory(ScriptedModel(), factory)
    store.broken = True
    assert (await chain.ainvoke("hello", at("s"))).content == "re: hello"
    assert chain.invoke("hello", at("s")).content == "re: hello"
    assert factory.failed_writes == 2
    assert caplog.text.count("2 messages were not stored") == 2
    store.broken = False
    await chain.ainvoke("again", at("s"))
    assert stored(memory, "s") == exchange("again")
    await memory.close()


async def test_a_history_of_one_call_keeps_its_first_read_until_its_write(memory: MemoryManager) -> None:
    factory = session_history(memory, "a")
    mine, other = factory("s"), factory("s")
    assert mine.messages == []
    other.add_user_message("meanwhile")
    assert mine.messages == []
    mine.add_user_message("mine")
    assert told(mine.messages) == [("human", "meanwhile"), ("human", "mine")]
    other.add_user_message("later")
    mine.clear()
    assert mine.messages == []


async def test_a_factory_passes_its_budget_on_and_checks_its_arguments(memory: MemoryManager) -> None:
    await ActroneChatMessageHistory(memory, "a", "s").aadd_messages(
        [HumanMessage(content="long " * 100), AIMessage(content="x"), HumanMessage(content="short")]
    )
    assert told(await session_history(memory, "a", token_budget=20)("s").aget_messages()) == [("human", "short")]
    with pytest.raises(ValidationError, match="session_id"):
        session_history(memory, "a")("")
    with pytest.raises(ValidationError, match="memory"):
        SessionHistory(None, "a")  # type: ignore[arg-type]
    with pytest.raises(TokenBudgetError):
        user_session_history(memory, "a", token_budget=0)


async def test_an_agents_transcript_that_comes_back_whole_is_stored_once(memory: MemoryManager) -> None:
    def agent(messages: list[BaseMessage]) -> dict[str, list[BaseMessage]]:
        for number, message in enumerate(messages):
            message.id = message.id or f"given {number} {message.content}"  # as LangGraph does
        return {"messages": [*messages, AIMessage(content=f"re: {messages[-1].content}", id=f"{len(messages)}")]}

    chain = RunnableWithMessageHistory(
        RunnableLambda(agent), session_history(memory, "a"), output_messages_key="messages"
    )
    await chain.ainvoke([HumanMessage(content="one")], at("s"))
    await chain.ainvoke([HumanMessage(content="two")], at("s"))
    assert stored(memory, "s") == exchange("one", "two")


# --- importing --------------------------------------------------------------------------------------------------------


def fresh(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


def test_importing_and_making_a_history_warns_of_nothing() -> None:
    done = fresh(
        "import asyncio, actrone_memory, actrone_langchain as l, sys\n"
        "memory = asyncio.run(actrone_memory.MemoryManager.create())\n"
        "l.ActroneChatMessageHistory(memory, 'a', 's').add_user_message('x'), l.session_history(memory, 'a')('s')\n"
        "asyncio.run(memory.close())\n"
        "assert 'langchain' not in sys.modules"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_filter_line_of_the_documents_silences_the_runnable() -> None:
    done = fresh(
        "import actrone_memory, actrone_langchain as l, warnings\n"
        "from langchain_core.runnables import RunnableLambda\n"
        "from langchain_core.runnables.history import RunnableWithMessageHistory\n"
        "warnings.filterwarnings('ignore', message='RunnableWithMessageHistory is deprecated')\n"
        "with actrone_memory.SyncMemoryManager.create() as memory:\n"
        "    RunnableWithMessageHistory(RunnableLambda(lambda messages: 'yes'), l.session_history(memory, 'a'))"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_langchain_core_the_error_names_the_extra() -> None:
    hide = (
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'langchain_core' else find(name, *a)\n"
    )
    done = fresh(f"{hide}import actrone_langchain")
    assert "ImportError: actrone_langchain needs langchain-core: pip install 'actrone-memory[langchain]'" in done.stderr


def test_without_langchain_the_middleware_names_its_extra_and_the_rest_works() -> None:
    hide = (
        "import sys, importlib.util as u\n"
        "sys.modules['langchain'] = None\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'langchain' else find(name, *a)\n"
    )
    assert fresh(f"{hide}from actrone_langchain import *; ActroneRetriever").returncode == 0
    done = fresh(f"{hide}from actrone_langchain import ActroneMemoryMiddleware")
    assert "pip install 'actrone-memory[langchain-agents]'" in done.stderr


async def test_system_messages_open_a_turn(memory: MemoryManager) -> None:
    await ActroneChatMessageHistory(memory, "a", "s").aadd_messages(
        [
            SystemMessage(content="Be kind."),
            AIMessage(content="Hello."),
            HumanMessage(content="Hi."),
            AIMessage(content="Ah."),
        ]
    )
    assert [len(turn.records) for turn in await memory.get_recent_turns("a", "s")] == [2, 2]
