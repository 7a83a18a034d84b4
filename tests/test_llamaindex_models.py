"""LlamaIndex's models as parts of a manager: embeddings of every make, language models that answer by a script."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="the extra llamaindex is not installed")

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, TextBlock
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from pydantic import PrivateAttr
from watching import Crowd, ticking

from actrone_llamaindex import LlamaIndexEmbedder, LlamaIndexFactExtractor, LlamaIndexSummariser
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

RULE = "Unit tests run with Vitest."
FACTS = json.dumps({"facts": [{"content": "Ann lives in Graz.", "sensitivity": "pii", "topic_tags": ["home"]}]})


class TableEmbedding(BaseEmbedding):
    """A small model of this machine behind LlamaIndex's interface; its async methods only call the plain ones."""

    _told: list[Any] = PrivateAttr(default_factory=list)

    def _get_query_embedding(self, query: str) -> list[float]:
        self._told.append(query)
        return asyncio.run(StaticEmbedder().embed(query))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self._told.append(texts)
        return asyncio.run(StaticEmbedder().embed_batch(texts))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class AwaitedEmbedding(BaseEmbedding):
    """Embeddings of a server that can only be awaited."""

    def _get_query_embedding(self, query: str) -> list[float]:
        raise NotImplementedError

    def _get_text_embedding(self, text: str) -> list[float]:
        raise NotImplementedError

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return [1.0, float(len(query))]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [await self._aget_query_embedding(text) for text in texts]


class BothEmbedding(AwaitedEmbedding):
    """Plain and async methods; the async client belongs to the application's loop."""

    def _get_query_embedding(self, query: str) -> list[float]:
        return [1.0, float(len(query))]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_query_embedding(text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError("is bound to a different event loop")


class TestOfATable(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        return LlamaIndexEmbedder(TableEmbedding(model_name="table-v1"))


# --- embeddings -------------------------------------------------------------------------------------------------------


async def test_queries_and_texts_go_their_own_ways_and_are_found() -> None:
    table = TableEmbedding(embed_batch_size=100)
    memory = await MemoryManager.create(embedder=LlamaIndexEmbedder(table))
    await memory.inject_memories("a", [RULE, "Amounts are integers in cents."])
    (found, *_) = await memory.search_memories("a", "which runner for tests?")
    await memory.search_memories("a", "which runner for tests?")
    assert found.content == RULE
    assert table._told == [["size"], [RULE, "Amounts are integers in cents."], "which runner for tests?"]
    await memory.close()


async def test_a_mock_embedding_works_in_every_loop_and_thread() -> None:
    memory = await MemoryManager.create(embedder=LlamaIndexEmbedder(MockEmbedding(embed_dim=8)))
    await memory.inject_memory("a", RULE)

    def search() -> list[str]:
        return [entry.content for entry in asyncio.run(memory.search_memories("a", "vitest"))]

    assert await asyncio.gather(*(asyncio.to_thread(search) for _ in range(16))) == [[RULE]] * 16
    await memory.close()
    with SyncMemoryManager.create(embedder=LlamaIndexEmbedder(MockEmbedding(embed_dim=8))) as plain:
        plain.inject_memory("a", RULE)
        assert [entry.content for entry in plain.search_memories("a", "vitest")] == [RULE]


async def test_embeddings_that_can_only_be_awaited_are_awaited() -> None:
    memory = await MemoryManager.create(embedder=LlamaIndexEmbedder(AwaitedEmbedding(), dimensions=2))
    await memory.inject_memory("a", RULE)
    assert len(await memory.search_memories("a", RULE)) == 1
    await memory.close()
    with pytest.raises(ActroneMemoryError, match=r"LlamaIndexEmbedder.*pass dimensions="):
        await MemoryManager.create(embedder=LlamaIndexEmbedder(AwaitedEmbedding()))


async def test_a_client_of_the_applications_loop_is_not_taken_to_another() -> None:
    config = MemoryConfig(strict_background_errors=True)
    memory = await MemoryManager.create(config, embedder=LlamaIndexEmbedder(BothEmbedding()))
    await memory.store_turn("a", "s", "hello", "hi")
    await memory.drain()
    assert len(await memory.list_memories("a", content_types=["turn"])) == 1
    await memory.close()


async def test_the_event_loop_goes_on_though_async_methods_would_hold_it_up() -> None:
    class Slow(TableEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            time.sleep(0.2)
            return super()._get_query_embedding(query)

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            time.sleep(0.2)
            return super()._get_text_embeddings(texts)

    async with ticking() as ticks:
        memory = await MemoryManager.create(embedder=LlamaIndexEmbedder(Slow()))
        await memory.inject_memory("a", RULE)
        await memory.search_memories("a", RULE)
        assert ticks() >= 20
    await memory.close()


@pytest.mark.parametrize(("embedding", "most"), [(TableEmbedding, 1), (BothEmbedding, 8)])
async def test_a_model_of_this_machine_is_called_by_one_thread_at_a_time(embedding: Any, most: int) -> None:
    crowd = Crowd()

    class Busy(embedding):  # type: ignore[misc]
        def _get_query_embedding(self, query: str) -> list[float]:
            with crowd.inside():
                time.sleep(0.05)
            return [1.0, 0.0]

    embedder = LlamaIndexEmbedder(Busy(), dimensions=2)
    await asyncio.gather(*(embedder.embed_query(f"query {number}") for number in range(16)))
    assert crowd.most == most


class BrokenEmbedding(TableEmbedding):
    answer: Any

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ConnectionError("refused"), "failed: ConnectionError: refused"),
        ([], "returned 0 vectors for 1 texts"),
        ([[1.0] * 3], "returned a vector of 3 numbers, expected were 2"),
        ([[float("nan"), 1.0]], "returned something that is no vector"),
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_embeddings_that_fail_or_return_rubbish_give_one_clear_error(answer: Any, message: str) -> None:
    embedder = LlamaIndexEmbedder(BrokenEmbedding(answer=answer, model_name="m"), dimensions=2)
    with pytest.raises(EmbeddingError, match=f"llamaindex:BrokenEmbedding:m {message}") as error:
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
    [(None, "NoneType"), ("local", "str"), (MockEmbedding, "the class MockEmbedding")],
    ids=repr,
)
def test_what_is_no_embedding_model_is_refused_with_what_to_pass(value: Any, kind: str) -> None:
    with pytest.raises(ValidationError, match=f"^embed_model: must be an embedding model of LlamaIndex.* not {kind}"):
        LlamaIndexEmbedder(value)


# --- the name ---------------------------------------------------------------------------------------------------------


def test_the_name_tells_the_class_and_the_model_also_in_another_process(tmp_path: Path) -> None:
    def named(model: str) -> str:
        return LlamaIndexEmbedder(MockEmbedding(embed_dim=4, model_name=model)).name

    assert LlamaIndexEmbedder(MockEmbedding(embed_dim=4)).name == "llamaindex:MockEmbedding"
    assert named("small") == "llamaindex:MockEmbedding:small"
    assert named("large") == "llamaindex:MockEmbedding:large"
    assert LlamaIndexEmbedder(MockEmbedding(embed_dim=4), name="ours-v2").name == "ours-v2"
    folder = named(str(tmp_path / "minilm"))
    assert folder.startswith("llamaindex:MockEmbedding:minilm@")
    assert folder != named(str(tmp_path / "other" / "minilm"))
    assert len(named("m" * 500)) < 256
    code = (
        "from actrone_llamaindex import LlamaIndexEmbedder; from llama_index.core.embeddings import MockEmbedding;"
        f"print(LlamaIndexEmbedder(MockEmbedding(embed_dim=4, model_name={str(tmp_path / 'minilm')!r})).name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == folder


def test_classes_that_do_not_name_themselves_are_told_apart() -> None:
    assert LlamaIndexEmbedder(AwaitedEmbedding()).name != LlamaIndexEmbedder(BothEmbedding()).name


# --- language models --------------------------------------------------------------------------------------------------


class Scripted(MockLLM):
    """Answers with what ``script`` makes of the messages; exceptions are raised."""

    _asked: list[Sequence[ChatMessage]] = PrivateAttr(default_factory=list)
    _script: Any = PrivateAttr()

    def __init__(self, script: Any) -> None:
        super().__init__()
        self._script = script

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self._asked.append(messages)
        answer = self._script(messages) if callable(self._script) else self._script
        if isinstance(answer, Exception):
            raise answer
        return ChatResponse(message=answer)


def said(content: Any) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=content)


async def test_a_language_model_extracts_facts_and_summarises_for_a_manager() -> None:
    llm = Scripted(lambda asked: said(FACTS if "JSON" in str(asked[0].content) else "Ann moved to Graz."))
    memory = await MemoryManager.create(
        MemoryConfig(summarise_after_turns=2, strict_background_errors=True),
        extractor=LlamaIndexFactExtractor(llm),
        summariser=LlamaIndexSummariser(llm),
    )
    for number in range(2):
        await memory.store_turn("a", "s", f"I moved to Graz, {number}", "Noted.")
    await memory.drain()
    assert len(await memory.extract_memories("a", "s")) == 1
    kept = {entry.content: (entry.content_type, entry.sensitivity) for entry in await memory.list_memories("a")}
    assert kept == {"Ann moved to Graz.": ("summary", "none"), "Ann lives in Graz.": ("fact", "pii")}
    for system, user in llm._asked:
        assert (system.role, user.role) == (MessageRole.SYSTEM, MessageRole.USER)
        assert "I moved to Graz, 1" in str(user.content)
    await memory.close()


async def test_answers_are_read_tolerantly() -> None:
    blocks = ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text=f"```json\n{FACTS}\n```")])
    for answer in (blocks, said(f"Here you are:\n```json\n{FACTS}\n```")):
        (fact,) = await LlamaIndexFactExtractor(Scripted(answer)).extract("User: hello")
        assert (fact.content, fact.topic_tags) == ("Ann lives in Graz.", ["home"])


async def test_a_language_model_for_completions_will_do_as_well() -> None:
    assert "User: hello" in await LlamaIndexSummariser(MockLLM()).summarise("User: hello")


async def test_a_language_model_that_can_only_be_awaited_is_awaited() -> None:
    class Awaited(MockLLM):
        def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
            raise NotImplementedError

        async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
            return ChatResponse(message=said("They spoke."))

    assert await LlamaIndexSummariser(Awaited()).summarise("User: hi") == "They spoke."


async def test_a_language_model_that_fails_costs_facts_and_summaries_only() -> None:
    error = ConnectionError("refused")
    with pytest.raises(ActroneMemoryError, match="The chat model failed: ConnectionError: refused") as raised:
        await LlamaIndexSummariser(Scripted(error)).summarise("User: hi")
    assert (raised.value.code, raised.value.__cause__) == ("model", error)
    with pytest.raises(ActroneMemoryError, match="said nothing"):
        await LlamaIndexFactExtractor(Scripted(said(None))).extract("User: hi")
    memory = await MemoryManager.create(extractor=LlamaIndexFactExtractor(Scripted(error)))
    await memory.store_turn("a", "s", "hello", "hi")
    assert await memory.extract_memories("a", "s") == []
    assert memory.background_failures == 1
    assert len(await memory.get_recent_turns("a", "s")) == 1
    await memory.close()


@pytest.mark.parametrize("part", [LlamaIndexFactExtractor, LlamaIndexSummariser])
@pytest.mark.parametrize(
    ("value", "kind"), [(None, "NoneType"), ("gpt-4o-mini", "str"), (MockLLM, "the class MockLLM")], ids=repr
)
def test_what_is_no_language_model_is_refused_with_what_to_pass(part: Any, value: Any, kind: str) -> None:
    with pytest.raises(ValidationError, match=f"^llm: must be a language model of LlamaIndex.* not {kind}"):
        part(value)
