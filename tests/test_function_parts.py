"""Embedders, extractors and summarisers made of functions: beside the event loop, checked, with errors of ours."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from watching import Crowd

from actrone_memory import (
    ActroneMemoryError,
    ChatFactExtractor,
    ChatSummariser,
    ConfigurationError,
    Embedder,
    EmbeddingError,
    FunctionEmbedder,
    MemoryConfig,
    MemoryManager,
    StaticEmbedder,
    ValidationError,
)
from actrone_memory.summarising import ExtractiveSummariser
from actrone_memory.testing import EmbedderConformance

STATIC = StaticEmbedder()
RULE = "Unit tests run with Vitest."


def encode(texts: list[str]) -> Any:
    """The package's own model as a plain function, with arrays of numpy like most models."""
    return np.array(asyncio.run(STATIC.embed_batch(texts)), np.float32)


class TestPlainFunctions(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        return FunctionEmbedder(encode, name="static-as-a-function")


class TestCoroutineFunctions(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        async def one(text: str) -> list[float]:
            return await STATIC.embed(text)

        return FunctionEmbedder(STATIC.embed_batch, one, name="static-awaited", dimensions=STATIC.dimensions)


async def test_queries_go_through_their_own_function_and_all_else_through_the_other() -> None:
    told: list[object] = []

    def documents(texts: list[str]) -> list[list[float]]:
        told.append(texts)
        return [[1.0, float(len(text))] for text in texts]

    def query(text: str) -> list[float]:
        told.append(text)
        return [1.0, float(len(text))]

    memory = await MemoryManager.create(embedder=FunctionEmbedder(documents, query, name="n", dimensions=2))
    await memory.inject_memories("a", [RULE, "Use tabs."])
    await memory.search_memories("a", "tests")
    assert told == [[RULE, "Use tabs."], "tests"]
    await memory.close()


async def test_the_model_is_asked_once_for_its_dimensions_and_not_when_they_are_given() -> None:
    asked: list[list[str]] = []

    def documents(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return [[1.0, 2.0, 3.0] for _ in texts]

    embedder = FunctionEmbedder(documents, name="n")
    assert asked == []
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: embedder.dimensions, range(8))) == {3}
    assert len(asked) == 1
    assert FunctionEmbedder(documents, name="n", dimensions=3).dimensions == 3
    assert len(asked) == 1
    learnt = FunctionEmbedder(documents, name="n")
    await learnt.embed("hello")
    assert learnt.dimensions == 3
    assert asked[1:] == [["hello"]]


def test_a_blank_text_has_the_zero_vector_and_never_reaches_the_model() -> None:
    told: list[str] = []

    def documents(texts: list[str]) -> list[list[float]]:
        told.extend(texts)
        return [[1.0, 2.0] for _ in texts]

    embedder = FunctionEmbedder(documents, name="n")
    assert asyncio.run(embedder.embed_batch(["a", " \n", "b", ""])) == [[1, 2], [0, 0], [1, 2], [0, 0]]
    assert asyncio.run(embedder.embed_query(" ")) == [0, 0]
    assert told == ["a", "b"]
    assert asyncio.run(FunctionEmbedder(documents, name="n").embed("")) == [0, 0]


async def test_the_event_loop_goes_on_while_a_function_takes_its_time() -> None:
    def slow(texts: list[str]) -> list[list[float]]:
        time.sleep(0.3)
        return [[1.0, 0.0] for _ in texts]

    def ask(instructions: str, conversation: str) -> str:
        time.sleep(0.3)
        return "[]"

    async def longest_wait(work: Any) -> float:
        task, longest = asyncio.ensure_future(work), 0.0
        while not task.done():
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)
        await task
        return longest

    assert await longest_wait(MemoryManager.create(embedder=FunctionEmbedder(slow, name="n"))) < 0.2
    assert await longest_wait(FunctionEmbedder(slow, name="n").embed("hello")) < 0.2
    assert await longest_wait(FunctionEmbedder(slow, name="n").embed_query("hello")) < 0.2
    assert await longest_wait(ChatFactExtractor(ask).extract("hello")) < 0.2
    assert await longest_wait(ChatSummariser(ask).summarise("hello")) < 0.2


@pytest.mark.parametrize("parallel", [1, 3])
async def test_no_more_calls_run_at_a_time_than_the_model_takes(parallel: int) -> None:
    crowd = Crowd()

    def busy(told: Any) -> Any:
        with crowd.inside():
            time.sleep(0.02)
        return [1.0, 0.0] if isinstance(told, str) else [[1.0, 0.0] for _ in told]

    embedder = FunctionEmbedder(busy, busy, name="n", dimensions=2, parallel_calls=parallel)
    calls: list[Any] = [embedder.embed("text") for _ in range(6)] + [embedder.embed_query("query") for _ in range(6)]
    await asyncio.gather(*calls)
    assert crowd.most == parallel


async def test_who_gives_up_before_the_call_began_leaves_the_model_alone() -> None:
    told: list[str] = []

    def slow(texts: list[str]) -> list[list[float]]:
        told.extend(texts)
        time.sleep(0.1)
        return [[1.0] for _ in texts]

    embedder = FunctionEmbedder(slow, name="n", dimensions=1)
    first = asyncio.create_task(embedder.embed("first"))
    second = asyncio.create_task(embedder.embed("second"))
    await asyncio.sleep(0.05)
    second.cancel()
    assert await first == [1.0]
    await embedder.embed("third")
    assert told == ["first", "third"]


# --- failures ---------------------------------------------------------------------------------------------------------


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*_: object) -> Any:
        raise error

    return function


def causes(error: BaseException) -> list[str]:
    return [repr(error), *(causes(error.__cause__) if error.__cause__ else [])]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("no GPU"),
        StopIteration("spent"),
        TimeoutError("60 s"),
        CancelledError("pool closed"),
        asyncio.CancelledError("loop closed"),
    ],
    ids=repr,
)
async def test_what_a_model_raises_becomes_our_error_with_its_cause(error: Exception) -> None:
    embedder = FunctionEmbedder(raising(error), name="my-model", dimensions=2)
    with pytest.raises(EmbeddingError, match="my-model failed: .*" + str(error)) as raised:
        await embedder.embed("hello")
    assert repr(error) in causes(raised.value)
    for call in (ChatFactExtractor(raising(error)).extract, ChatSummariser(raising(error)).summarise):
        with pytest.raises(ActroneMemoryError, match="The chat model failed: .*" + str(error)) as told:
            await call("hello")
        assert told.value.code == "model"
        assert repr(error) in causes(told.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], "returned 0 vectors for 1 texts"),
        ([[1.0, 2.0], [1.0, 2.0]], "returned 2 vectors for 1 texts"),
        ([[1.0, 2.0, 3.0]], "returned a vector of 3 numbers, expected were 2"),
        ([[1.0, float("nan")]], "returned something that is no vector"),
        ([["a", "b"]], "returned something that is no vector"),
        ([None], "returned something that is no vector"),
        (None, "returned NoneType, not a list of 1 vectors"),
        ("ab", "returned str, not a list of 1 vectors"),
        ({"data": [[1.0, 2.0]]}, "returned dict, not a list of 1 vectors"),
        (np.zeros((1, 2, 2)), "returned something that is no vector"),
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_what_is_no_vector_for_each_text_is_an_error_that_names_the_model(answer: object, message: str) -> None:
    embedder = FunctionEmbedder(lambda texts: answer, name="my-model", dimensions=2)  # type: ignore[arg-type,return-value]
    with pytest.raises(EmbeddingError, match=f"^my-model {message}"):
        await embedder.embed("hello")


async def test_vectors_of_two_sizes_are_refused_though_none_was_promised() -> None:
    with pytest.raises(EmbeddingError, match="returned a vector of 1 numbers, expected were 2"):
        await FunctionEmbedder(lambda texts: [[1.0, 2.0], [1.0]], name="n").embed_batch(["a", "b"])
    with pytest.raises(EmbeddingError, match="returned a vector of 0 numbers, expected were some"):
        await FunctionEmbedder(lambda texts: [[]], name="n").embed("a")


async def test_a_model_that_fails_at_first_is_asked_again_for_its_dimensions() -> None:
    failures = [RuntimeError("starting up")]

    def documents(texts: list[str]) -> list[list[float]]:
        if failures:
            raise failures.pop()
        return [[1.0, 2.0] for _ in texts]

    embedder = FunctionEmbedder(documents, name="my-model")
    with pytest.raises(EmbeddingError, match="my-model failed: RuntimeError: starting up"):
        await MemoryManager.create(embedder=embedder)
    memory = await MemoryManager.create(embedder=embedder)
    assert embedder.dimensions == 2
    await memory.close()


async def test_a_model_that_can_only_be_awaited_needs_its_dimensions() -> None:
    async def documents(texts: list[str]) -> list[list[float]]:
        return [[1.0, 2.0] for _ in texts]

    with pytest.raises(ConfigurationError, match="pass dimensions="):
        await MemoryManager.create(embedder=FunctionEmbedder(documents, name="n"))
    memory = await MemoryManager.create(embedder=FunctionEmbedder(documents, name="n", dimensions=2))
    await memory.inject_memory("a", RULE)
    assert len(await memory.list_memories("a")) == 1
    await memory.close()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"embed_documents": None}, "embed_documents"),
        ({"embed_documents": StaticEmbedder}, "embed_documents"),
        ({"embed_query": "embed"}, "embed_query"),
        ({"name": " "}, "name"),
        ({"name": None}, "name"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"dimensions": 100_000}, "dimensions"),
        ({"parallel_calls": 0}, "parallel_calls"),
    ],
    ids=repr,
)
def test_rubbish_is_refused_by_name(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=f"^{field}: "):
        FunctionEmbedder(**{"embed_documents": encode, "name": "n", **arguments})
    for part in (ChatFactExtractor, ChatSummariser):
        with pytest.raises(ValidationError, match=r"^ask: must be a function"):
            part("gpt")  # type: ignore[arg-type]


# --- chat models ------------------------------------------------------------------------------------------------------


async def test_any_chat_model_extracts_and_summarises() -> None:
    asked: list[tuple[str, str]] = []

    def ask(instructions: str, conversation: str) -> str:
        asked.append((instructions, conversation))
        if "JSON" in instructions:
            return (
                '```json\n{"facts": [{"content": "Ann lives in Graz.", "sensitivity": "PII", "topic_tags": null}]}\n```'
            )
        return " Ann moved to Graz. \n"

    async def awaited(instructions: str, conversation: str) -> str:
        return ask(instructions, conversation)

    for way in (ask, awaited):
        (fact,) = await ChatFactExtractor(way).extract("User: I moved to Graz.")
        assert (fact.content, fact.sensitivity) == ("Ann lives in Graz.", "pii")
        assert await ChatSummariser(way).summarise("User: I moved to Graz.") == "Ann moved to Graz."
    assert [conversation for _, conversation in asked] == ["User: I moved to Graz."] * 4
    count = len(asked)
    assert await ChatFactExtractor(ask).extract(" ") == []
    assert await ChatSummariser(ask).summarise("\n") == ""
    assert len(asked) == count


async def test_a_long_conversation_is_read_in_stretches() -> None:
    lengths: list[int] = []

    def ask(instructions: str, conversation: str) -> str:
        lengths.append(len(conversation))
        return f"Part {len(lengths)}."

    assert await ChatSummariser(ask).summarise("User: hello\n\n" * 10_000) == "Part 1.\n\nPart 2.\n\nPart 3."
    assert max(lengths) <= 60_000
    assert sum(lengths) == 13 * 10_000


@pytest.mark.parametrize(("answer", "said"), [("", "said nothing"), (" \n", "said nothing"), (None, "with NoneType")])
async def test_a_chat_model_that_says_nothing_is_an_error(answer: Any, said: str) -> None:
    for call in (ChatFactExtractor(lambda *_: answer).extract, ChatSummariser(lambda *_: answer).summarise):
        with pytest.raises(ActroneMemoryError, match=said):
            await call("User: hello")


@pytest.mark.parametrize("rubbish", [None, 3, b"User: hello", ["hello"], "a\0b", "\ud800"], ids=repr)
async def test_what_is_no_conversation_is_refused_by_name(rubbish: Any) -> None:
    def ask(instructions: str, conversation: str) -> str:
        raise AssertionError

    for call in (ChatFactExtractor(ask).extract, ChatSummariser(ask).summarise, ExtractiveSummariser().summarise):
        with pytest.raises(ValidationError) as refused:
            await call(rubbish)
        assert refused.value.field == "text"


async def test_a_manager_works_with_parts_made_of_functions() -> None:
    def ask(instructions: str, conversation: str) -> str:
        return '[{"content": "Ann lives in Graz."}]' if "JSON" in instructions else "They spoke of Graz."

    memory = await MemoryManager.create(
        MemoryConfig(summarise_after_turns=2, strict_background_errors=True),
        embedder=FunctionEmbedder(encode, name="static-as-a-function"),
        extractor=ChatFactExtractor(ask),
        summariser=ChatSummariser(ask),
    )
    for number in range(2):
        await memory.store_turn("a", "s", f"I live in Graz, {number}", "Noted.")
    await memory.drain()
    await memory.extract_memories("a", "s")
    assert {m.content for m in await memory.list_memories("a")} == {"Ann lives in Graz.", "They spoke of Graz."}
    await memory.close()


def test_a_model_that_hangs_does_not_keep_the_process(tmp_path: Any) -> None:
    code = """
import asyncio, time
from actrone_memory import ChatSummariser

async def main():
    hanging = asyncio.create_task(ChatSummariser(lambda *_: time.sleep(600)).summarise("hello"))
    await asyncio.sleep(0.1)
    hanging.cancel()

asyncio.run(main())
"""
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path)
    assert time.monotonic() - started < 30
