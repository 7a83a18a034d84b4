"""LangChain's models as parts of a manager: embeddings of every make, chat models that answer by a script."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="the extra langchain is not installed")

from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import FakeListLLM, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_scripts import OLD_CORE, ScriptedModel, StreamingModel
from pydantic import BaseModel
from watching import Crowd, ticking

from actrone_langchain import LangChainEmbedder, LangChainFactExtractor, LangChainSummariser
from actrone_memory import (
    ActroneMemoryError,
    Embedder,
    EmbeddingError,
    MemoryConfig,
    MemoryManager,
    StaticEmbedder,
    SyncMemoryManager,
    ValidationError,
)
from actrone_memory.testing import EmbedderConformance

pytestmark = OLD_CORE

RULE = "Unit tests run with Vitest."
FACTS = json.dumps({"facts": [{"content": "Ann lives in Graz.", "sensitivity": "pii", "topic_tags": ["home"]}]})


class TableEmbeddings(Embeddings):
    """A small model of this machine behind LangChain's interface; counts what it is asked."""

    model = "table-v1"

    def __init__(self) -> None:
        self.documents: list[list[str]] = []
        self.queries: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents.append(texts)
        return asyncio.run(StaticEmbedder().embed_batch(texts))

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        return asyncio.run(StaticEmbedder().embed(text))


class AsyncOnly(Embeddings):
    """Embeddings of a server that can only be awaited; they belong to the loop they were first used on."""

    loop: asyncio.AbstractEventLoop | None = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError

    def embed_query(self, text: str) -> list[float]:
        raise NotImplementedError

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return [[1.0, float(len(text))] for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]


class OwnClient(AsyncOnly):
    """Plain and async methods; the async client belongs to the application's loop."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError("is bound to a different event loop")


class Named(BaseModel, Embeddings):
    """Names its model as most classes do."""

    model_config = {"protected_namespaces": ()}

    model: str = "text-embedding-default"
    deployment: str | None = "text-embedding-default"
    timeout: float = 3.0
    api_key: str = "sk-secret"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.0]


class Wrapping(Named):
    """Embeddings around others, such as a cache."""

    model: str = ""
    deployment: str | None = None
    underlying: Any


class TestOfATable(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        return LangChainEmbedder(TableEmbeddings())


# --- embeddings -------------------------------------------------------------------------------------------------------


async def test_queries_and_documents_go_their_own_ways_and_are_found() -> None:
    table = TableEmbeddings()
    memory = await MemoryManager.create(embedder=LangChainEmbedder(table))
    await memory.inject_memories("a", [RULE, "Amounts are integers in cents."])
    (found, *_) = await memory.search_memories("a", "which runner for tests?")
    await memory.search_memories("a", "which runner for tests?")
    assert found.content == RULE
    assert table.documents == [["size"], [RULE, "Amounts are integers in cents."]]
    assert table.queries == ["which runner for tests?"]
    await memory.close()


async def test_deterministic_fake_embeddings_work_in_every_loop_and_thread() -> None:
    memory = await MemoryManager.create(embedder=LangChainEmbedder(DeterministicFakeEmbedding(size=32)))
    await memory.inject_memory("a", RULE)

    def search() -> list[str]:
        return [entry.content for entry in asyncio.run(memory.search_memories("a", RULE))]

    assert await asyncio.gather(*(asyncio.to_thread(search) for _ in range(16))) == [[RULE]] * 16
    await memory.close()
    with SyncMemoryManager.create(embedder=LangChainEmbedder(DeterministicFakeEmbedding(size=32))) as plain:
        plain.inject_memory("a", RULE)
        assert [entry.content for entry in plain.search_memories("a", RULE)] == [RULE]


async def test_embeddings_that_can_only_be_awaited_are_awaited() -> None:
    memory = await MemoryManager.create(embedder=LangChainEmbedder(AsyncOnly(), dimensions=2))
    await memory.inject_memory("a", RULE)
    assert len(await memory.search_memories("a", RULE)) == 1
    await memory.close()
    with pytest.raises(ActroneMemoryError, match=r"LangChainEmbedder.*pass dimensions="):
        await MemoryManager.create(embedder=LangChainEmbedder(AsyncOnly()))


async def test_a_client_of_the_applications_loop_is_not_taken_to_another() -> None:
    memory = await MemoryManager.create(
        MemoryConfig(strict_background_errors=True), embedder=LangChainEmbedder(OwnClient())
    )
    await memory.store_turn("a", "s", "hello", "hi")
    await memory.drain()
    assert len(await memory.list_memories("a", content_types=["turn"])) == 1
    await memory.close()


async def test_the_event_loop_goes_on_while_embeddings_take_their_time() -> None:
    class Slow(DeterministicFakeEmbedding):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            time.sleep(0.2)
            return super().embed_documents(texts)

        def embed_query(self, text: str) -> list[float]:
            time.sleep(0.2)
            return super().embed_query(text)

    async with ticking() as ticks:
        memory = await MemoryManager.create(embedder=LangChainEmbedder(Slow(size=8)))
        await memory.inject_memory("a", RULE)
        await memory.search_memories("a", RULE)
        assert ticks() >= 20
    await memory.close()


@pytest.mark.parametrize(("embeddings", "most"), [(TableEmbeddings, 1), (OwnClient, 8)])
async def test_a_model_of_this_machine_is_called_by_one_thread_at_a_time(embeddings: Any, most: int) -> None:
    crowd = Crowd()

    class Busy(embeddings):  # type: ignore[misc]
        def embed_query(self, text: str) -> list[float]:
            with crowd.inside():
                time.sleep(0.05)
            return [1.0, 0.0]

    embedder = LangChainEmbedder(Busy(), dimensions=2)
    await asyncio.gather(*(embedder.embed_query(f"query {number}") for number in range(16)))
    assert crowd.most == most


class Broken(TableEmbeddings):
    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ConnectionError("refused"), "langchain:Broken failed: ConnectionError: refused"),
        ([], "returned 0 vectors for 1 texts"),
        ([[1.0] * 3], "returned a vector of 3 numbers, expected were 2"),
        ([[float("nan"), 1.0]], "returned something that is no vector"),
        ("vectors", "returned str"),
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_embeddings_that_fail_or_return_rubbish_give_one_clear_error(answer: Any, message: str) -> None:
    embedder = LangChainEmbedder(Broken(answer), dimensions=2)
    with pytest.raises(EmbeddingError, match=message) as error:
        await embedder.embed("hello")
    if isinstance(answer, Exception):
        assert error.value.__cause__ is answer
    memory = await MemoryManager.create(embedder=embedder)
    with pytest.raises(EmbeddingError, match=message):
        await memory.inject_memory("a", RULE)
    assert await memory.list_memories("a") == []
    await memory.close()


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "NoneType"), ("text-embedding-3-small", "str"), (DeterministicFakeEmbedding, "the class Determ")],
    ids=repr,
)
def test_what_are_no_embeddings_is_refused_with_what_to_pass(value: Any, kind: str) -> None:
    with pytest.raises(ValidationError, match=f"^embeddings: must be Embeddings of LangChain, such as .* not {kind}"):
        LangChainEmbedder(value)


# --- the name ---------------------------------------------------------------------------------------------------------


def named(**fields: Any) -> str:
    return LangChainEmbedder(Named(**fields)).name


def test_the_name_tells_the_class_and_the_model_and_nothing_else() -> None:
    assert named() == "langchain:Named:text-embedding-default"
    assert named(model="text-embedding-default", timeout=9.0, api_key="sk-other") == named()
    assert named(model="large") == "langchain:Named:large"
    assert named(deployment="mine") != named(deployment="yours")
    assert named(model="large", deployment="mine") == "langchain:Named:large:mine"
    assert "secret" not in named(model="large")
    assert LangChainEmbedder(DeterministicFakeEmbedding(size=4)).name == "langchain:DeterministicFakeEmbedding"
    assert LangChainEmbedder(Named(), name="ours-v2").name == "ours-v2"


def test_embeddings_around_others_are_named_by_what_is_inside() -> None:
    names = [LangChainEmbedder(Wrapping(underlying=Named(model=model))).name for model in ("small", "large")]
    assert names == ["langchain:Wrapping:Named:small", "langchain:Wrapping:Named:large"]


def test_a_folder_is_named_without_where_it_lies(tmp_path: Path) -> None:
    first, second = named(model=str(tmp_path / "a" / "minilm")), named(model=str(tmp_path / "b" / "minilm"))
    assert first.startswith("langchain:Named:minilm@")
    assert first != second
    assert str(tmp_path) not in first
    assert len(named(model="m" * 500)) < 256


def test_the_name_is_the_same_in_another_process(tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import warnings
warnings.simplefilter("ignore")
from test_langchain_models import Named, LangChainEmbedder
print(LangChainEmbedder(Named(model={str(tmp_path)!r})).name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == named(model=str(tmp_path))


async def test_a_store_refuses_another_model_of_the_same_class(tmp_path: Path) -> None:
    config = MemoryConfig(backend="sqlite", sqlite_path=tmp_path / "memory.db")
    memory = await MemoryManager.create(config, embedder=LangChainEmbedder(Named(model="small")))
    await memory.inject_memory("a", RULE)
    await memory.close()
    with pytest.raises(ActroneMemoryError, match=r"langchain:Named:small.*langchain:Named:large.*reindex"):
        await MemoryManager.create(config, embedder=LangChainEmbedder(Named(model="large")))
    large = LangChainEmbedder(Named(model="large"))
    assert await MemoryManager.reindex(config, embedder=large) == 1
    await (await MemoryManager.create(config, embedder=large)).close()


# --- chat models ------------------------------------------------------------------------------------------------------


async def test_a_chat_model_extracts_facts_and_summarises_for_a_manager() -> None:
    model = ScriptedModel(
        script=lambda asked: AIMessage(content=FACTS if "JSON" in str(asked[0].content) else "Ann moved to Graz.")
    )
    memory = await MemoryManager.create(
        MemoryConfig(summarise_after_turns=2, strict_background_errors=True),
        extractor=LangChainFactExtractor(model),
        summariser=LangChainSummariser(model),
    )
    for number in range(2):
        await memory.store_turn("a", "s", f"I moved to Graz, {number}", "Noted.")
    await memory.drain()
    assert len(await memory.extract_memories("a", "s")) == 1
    kept = {entry.content: (entry.content_type, entry.sensitivity) for entry in await memory.list_memories("a")}
    assert kept == {"Ann moved to Graz.": ("summary", "none"), "Ann lives in Graz.": ("fact", "pii")}
    for system, human in model.asked:
        assert isinstance(system, SystemMessage)
        assert isinstance(human, HumanMessage)
        assert "I moved to Graz, 1" in str(human.content)
    await memory.close()


@pytest.mark.parametrize(
    "content",
    [
        f"```json\n{FACTS}\n```",
        [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": FACTS}],
        [FACTS],
    ],
    ids=["fenced", "blocks", "texts"],
)
async def test_answers_are_read_tolerantly(content: Any) -> None:
    (fact,) = await LangChainFactExtractor(ScriptedModel(script=[AIMessage(content=content)])).extract("User: hello")
    assert (fact.content, fact.topic_tags) == ("Ann lives in Graz.", ["home"])


async def test_what_leads_to_a_chat_model_will_do_as_well() -> None:
    flaky = ScriptedModel(script=[ConnectionError("reset"), AIMessage(content="They spoke.")])
    assert (
        await LangChainSummariser(flaky.with_retry(wait_exponential_jitter=False)).summarise("User: hi")
        == "They spoke."
    )
    down = ScriptedModel(script=[ConnectionError("reset")])
    spare = ScriptedModel(script=[AIMessage(content="They spoke.")])
    assert await LangChainSummariser(down.with_fallbacks([spare])).summarise("User: hi") == "They spoke."
    assert await LangChainSummariser(FakeListLLM(responses=["They spoke."])).summarise("User: hi") == "They spoke."
    fake = GenericFakeChatModel(messages=iter([AIMessage(content="They spoke.")]))
    summariser = LangChainSummariser(fake)
    assert await summariser.summarise("User: hi") == "They spoke."
    with pytest.raises(ActroneMemoryError, match="The chat model failed"):
        await asyncio.wait_for(summariser.summarise("User: hi"), 10)


async def test_a_chat_model_that_can_only_be_awaited_is_awaited() -> None:
    class Awaited(ScriptedModel):
        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            raise NotImplementedError

        async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content="They spoke."))])

    assert await LangChainSummariser(Awaited()).summarise("User: hi") == "They spoke."


async def test_a_chat_model_that_fails_costs_facts_and_summaries_only() -> None:
    error = ConnectionError("refused")
    with pytest.raises(ActroneMemoryError, match="The chat model failed: ConnectionError: refused") as raised:
        await LangChainSummariser(ScriptedModel(script=[error])).summarise("User: hi")
    assert (raised.value.code, raised.value.__cause__) == ("model", error)
    with pytest.raises(ActroneMemoryError, match="said nothing"):
        await LangChainFactExtractor(ScriptedModel(script=[AIMessage(content="")])).extract("User: hi")
    with pytest.raises(ActroneMemoryError, match="answered with dict, not with text"):
        await LangChainFactExtractor(RunnableLambda(lambda _: {"facts": []})).extract("User: hi")
    memory = await MemoryManager.create(extractor=LangChainFactExtractor(ScriptedModel(script=[error])))
    await memory.store_turn("a", "s", "hello", "hi")
    assert await memory.extract_memories("a", "s") == []
    assert memory.background_failures == 1
    assert len(await memory.get_recent_turns("a", "s")) == 1
    await memory.close()


@pytest.mark.parametrize("part", [LangChainFactExtractor, LangChainSummariser])
@pytest.mark.parametrize(
    ("value", "kind"), [(None, "NoneType"), ("gpt-4o-mini", "str"), (ScriptedModel, "the class Scripted")], ids=repr
)
def test_what_is_no_chat_model_is_refused_with_what_to_pass(part: Any, value: Any, kind: str) -> None:
    with pytest.raises(ValidationError, match=f"^model: must be a chat model of LangChain, such as .* not {kind}"):
        part(value)


async def test_what_is_extracted_within_a_graph_is_no_part_of_what_the_graph_says() -> None:
    graphs = pytest.importorskip("langgraph.graph", reason="langgraph is for newer versions")
    memory = await MemoryManager.create(
        MemoryConfig(), extractor=LangChainFactExtractor(StreamingModel(script=[AIMessage(content=FACTS)]))
    )
    chat = StreamingModel(script=[AIMessage(content="Noted, you live in Graz.")])

    async def answer(state: Any) -> Any:
        said = await chat.ainvoke(state["messages"])
        await memory.store_turn("a", "s", "I live in Graz.", str(said.content))
        assert len(await memory.extract_memories("a", "s")) == 1
        return {"messages": [said]}

    graph = graphs.StateGraph(graphs.MessagesState).add_node("answer", answer).add_edge("__start__", "answer").compile()
    question = {"messages": [HumanMessage("I live in Graz.")]}
    said = [str(chunk.content) async for chunk, _ in graph.astream(question, stream_mode="messages")]
    assert "".join(said).split() == ["Noted,", "you", "live", "in", "Graz."]
    await memory.close()
