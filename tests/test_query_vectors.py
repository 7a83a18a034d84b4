"""A query is encoded once: again, at the same moment, on whatever thread, and never when that failed."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from actrone_memory import EmbeddingError, HashingEmbedder, InMemoryStore, MemoryManager, SQLiteStore
from actrone_memory.embedders import cache
from actrone_memory.embedders.cache import CachedEmbedder

RULE = "Tests run with Vitest."


class Slow(HashingEmbedder):
    """Keeps what it encodes as a query; takes its time, and fails while ``failure`` is set."""

    def __init__(self, seconds: float = 0.05) -> None:
        super().__init__()
        self.queries: list[str] = []
        self.seconds = seconds
        self.failure: Exception | None = None

    async def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        await asyncio.sleep(self.seconds)
        if self.failure is not None:
            raise self.failure
        return await super().embed_query(text)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_repeated_query_costs_no_encoding(kind: str, tmp_path: Path) -> None:
    store, embedder = InMemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "memory.db"), Slow(0)
    memory = await MemoryManager.create(l1=store, l2=store, embedder=embedder)
    await memory.inject_memory("a", RULE)
    for _ in range(3):
        (found,) = await memory.search_memories("a", "how do tests run?")
        context = await memory.retrieve_context("b", "s", "how do tests run?", 800)
    assert (found.content, context.episodic_memories) == (RULE, [])
    assert embedder.queries == ["how do tests run?"]
    await memory.close()


async def test_equal_queries_at_the_same_moment_are_encoded_once() -> None:
    embedder = Slow()
    memory = await MemoryManager.create(embedder=embedder)
    await memory.inject_memory("a", RULE)
    found = await asyncio.gather(*(memory.search_memories("a", "vitest") for _ in range(50)))
    assert [[entry.content for entry in one] for one in found] == [[RULE]] * 50
    assert embedder.queries == ["vitest"]
    await memory.close()


def test_threads_with_loops_of_their_own_share_one_encoding() -> None:
    embedder = Slow(0.3)
    memory = asyncio.run(MemoryManager.create(embedder=embedder))
    asyncio.run(memory.inject_memory("a", RULE))
    together = threading.Barrier(16)

    def search(_: int) -> list[str]:
        together.wait(10)
        return [entry.content for entry in asyncio.run(memory.search_memories("a", "vitest"))]

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(search, range(16))) == [[RULE]] * 16
    assert embedder.queries == ["vitest"]
    asyncio.run(memory.close())


async def test_a_query_and_the_text_that_answers_it_may_be_encoded_otherwise() -> None:
    class Asymmetric(Slow):
        def __init__(self) -> None:
            super().__init__(0)
            self.texts: list[str] = []

        async def embed_batch(self, texts: list[str]) -> list[list[float]]:
            self.texts += texts
            return await super().embed_batch(texts)

    embedder = Asymmetric()
    memory = await MemoryManager.create(embedder=embedder)
    await memory.inject_memory("a", RULE)
    assert (embedder.texts, embedder.queries) == ([RULE], [])
    await memory.search_memories("a", RULE)
    assert (embedder.texts, embedder.queries) == ([RULE], [RULE])
    await memory.close()


async def test_a_failure_reaches_all_who_wait_and_is_not_kept() -> None:
    embedder = Slow()
    embedder.failure = RuntimeError("model fell over")
    memory = await MemoryManager.create(embedder=embedder)
    await memory.inject_memory("a", RULE)
    failed = await asyncio.gather(*(memory.search_memories("a", "vitest") for _ in range(5)), return_exceptions=True)
    assert [str(error) for error in failed if isinstance(error, EmbeddingError)] == [
        f"{embedder.name} failed: RuntimeError: model fell over"
    ] * 5
    assert embedder.queries == ["vitest"]
    embedder.failure = None
    assert len(await memory.search_memories("a", "vitest")) == 1
    await memory.close()


class Stubborn:
    """As a tensor with a gradient: no array can be made of it."""

    def __array__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("detach me first")


@pytest.mark.parametrize("rubbish", [[], [1.0], [float("nan")] * 256, "text", None, Stubborn(), np.array([], object)])
async def test_rubbish_is_not_kept(rubbish: object) -> None:
    class Rubbish(HashingEmbedder):
        broken = True

        async def embed_query(self, text: str) -> list[float]:
            return rubbish if self.broken else await super().embed_query(text)  # type: ignore[return-value]

    embedder = Rubbish()
    memory = await MemoryManager.create(embedder=embedder)
    await memory.inject_memory("a", RULE)
    for _ in range(2):
        with pytest.raises(EmbeddingError):
            await asyncio.wait_for(memory.search_memories("a", "vitest"), cache.PATIENCE_SECONDS / 2)
    embedder.broken = False
    assert len(await memory.search_memories("a", "vitest")) == 1
    await memory.close()


async def test_an_embedder_that_forgets_its_dimensions_keeps_nobody_waiting() -> None:
    class Forgetful(HashingEmbedder):
        forgets = False

        @property
        def dimensions(self) -> int:
            if self.forgets:
                raise RuntimeError("not loaded")
            return super().dimensions

    embedder = Forgetful()
    cached = CachedEmbedder(embedder, None)
    embedder.forgets = True
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not loaded"):
            await asyncio.wait_for(cached.embed_query("vitest"), cache.PATIENCE_SECONDS / 2)


async def test_who_gives_up_does_not_take_the_answer_from_those_who_wait() -> None:
    embedder = Slow()
    cached = CachedEmbedder(embedder, None)
    first, second, third = (asyncio.create_task(cached.embed_query("vitest")) for _ in range(3))
    await asyncio.sleep(0.01)
    first.cancel()
    second.cancel()
    assert await third == await HashingEmbedder().embed("vitest")
    assert embedder.queries == ["vitest", "vitest"]
    assert first.cancelled()
    assert second.cancelled()


async def test_a_loop_that_stands_still_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "PATIENCE_SECONDS", 0.1)
    cached = CachedEmbedder(Slow(), None)
    still = asyncio.new_event_loop()
    asking = still.create_task(cached.embed_query("vitest"))
    await asyncio.to_thread(still.run_until_complete, asyncio.sleep(0.01))
    assert await cached.embed_query("vitest") == await HashingEmbedder().embed("vitest")
    await asyncio.to_thread(still.run_until_complete, asking)
    still.close()


async def test_the_latest_queries_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "QUERIES", 3)
    embedder = Slow(0)
    cached = CachedEmbedder(embedder, None)
    for query in ("a", "b", "c", "a", "d", "a", "b"):
        await cached.embed_query(query)
    assert embedder.queries == ["a", "b", "c", "d", "b"]


async def test_what_a_caller_does_to_a_vector_stays_with_the_caller() -> None:
    cached = CachedEmbedder(HashingEmbedder(), None)
    (await cached.embed_query("vitest")).clear()
    (await cached.embed_query("vitest")).clear()
    assert len(await cached.embed_query("vitest")) == 256
