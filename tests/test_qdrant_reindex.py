"""A change of embedder in Qdrant while other processes work: refused by name, nothing lost, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")

from qdrant_server import Handler, Server, running

from actrone_memory import (
    ActroneMemoryError,
    ConfigurationError,
    EmbedderIdentity,
    HashingEmbedder,
    InMemoryStore,
    MemoryManager,
    QdrantStore,
    StoreConnectionError,
)

OLD, NEW = HashingEmbedder(64), HashingEmbedder(32)


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


async def process(server: Server, embedder: HashingEmbedder) -> MemoryManager:
    """A manager with a store of its own, as another process has one."""
    return await MemoryManager.create(l1=InMemoryStore(), l2=QdrantStore(server.url), embedder=embedder)


async def reindex(server: Server, embedder: HashingEmbedder = NEW) -> int:
    store = QdrantStore(server.url)
    try:
        return await MemoryManager.reindex(l2=store, embedder=embedder)
    finally:
        await store.close()


def identity(embedder: HashingEmbedder) -> EmbedderIdentity:
    return EmbedderIdentity(embedder.name, embedder.dimensions)


async def found(memory: MemoryManager, query: str) -> list[str]:
    return [one.content for one in await memory.search_memories("a", query)]


def vectors(server: Server) -> dict[str, int]:
    """Name and dimensions of the compared vectors that the collection has."""
    return {name: params["size"] for name, params in server.collections["agent_memories"].config["vectors"].items()}


def at(server: Server, command: str, ending: str, happens: Any) -> None:
    """Let something happen before the first request of this kind is answered; True is its answer."""

    def fault(request: Handler) -> bool:
        if request.command != command or not request.path.split("?")[0].endswith(ending):
            return False
        server.faults.clear()
        return bool(happens(request))

    server.faults.append(fault)


async def test_processes_at_work_with_the_old_embedder_are_refused_by_name(server: Server) -> None:
    old, idle = await process(server, OLD), await process(server, OLD)
    await old.inject_memory("a", "Tests run with vitest.")
    assert await found(old, "how do tests run")
    assert await reindex(server) == 1
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"\(32 dimensions\).*\(64\).*reindex"):
            await found(old, "how do tests run")
    with pytest.raises(ConfigurationError, match=r"\(32 dimensions\).*\(64\).*reindex"):
        await idle.inject_memory("a", "Dates use date-fns.")
    exporting = await process(server, NEW)
    assert await reindex(server, OLD) == 1
    with pytest.raises(ConfigurationError, match=r"\(64 dimensions\).*\(32\).*reindex"):
        [line async for line in exporting.export_agent("a")]
    await exporting.close()
    assert await reindex(server) == 1
    assert [one.content for one in await old.list_memories("a")] == ["Tests run with vitest."]
    new = await process(server, NEW)
    assert await found(new, "how do tests run") == ["Tests run with vitest."]
    assert list(vectors(server).values()) == [32]
    for memory in (old, idle, new):
        await memory.close()


async def test_what_is_written_while_the_vectors_are_exchanged_gets_its_vector_too(server: Server) -> None:
    old = await process(server, OLD)
    await old.inject_memory("a", "Tests run with vitest.")
    loop = asyncio.get_running_loop()

    def write(_: Handler) -> None:
        asyncio.run_coroutine_threadsafe(old.inject_memory("a", "Dates use date-fns."), loop).result(10)

    at(server, "PUT", "/points/payload", write)
    assert await reindex(server) == 2
    store = QdrantStore(server.url)
    entries = await store.get_with_embeddings("a", await store.memory_ids("a"))
    assert [len(one.embedding or []) for one in entries] == [32, 32]
    await store.close()
    await old.close()


async def test_what_is_written_before_the_old_vectors_are_dropped_is_found_by_its_words_meanwhile(
    server: Server,
) -> None:
    old = await process(server, OLD)
    await old.inject_memory("a", "Tests run with vitest.")
    new: list[MemoryManager] = []
    loop = asyncio.get_running_loop()

    async def write() -> None:
        await old.inject_memory("a", "Dates use date-fns.")
        new.append(await process(server, NEW))
        assert "Dates use date-fns." in await found(new[0], "dates date-fns")

    at(server, "DELETE", "", lambda _: asyncio.run_coroutine_threadsafe(write(), loop).result(10))
    assert await reindex(server) == 2
    assert await found(new[0], "dates date-fns") == await found(new[0], "dates date-fns")
    (entry,) = [one for one in await new[0].search_memories("a", "dates date-fns") if "date-fns" in one.content]
    assert entry.score_parts is not None
    assert entry.score_parts["meaning"] > 0
    await new[0].close()
    await old.close()


async def test_a_reindexing_that_dies_after_the_exchange_is_cleared_up_by_the_next(server: Server) -> None:
    old = await process(server, OLD)
    await old.inject_memory("a", "Tests run with vitest.")
    at(server, "DELETE", "", lambda request: request.send(500, {"status": {"error": "broken"}}) or True)
    with pytest.raises(StoreConnectionError):
        await reindex(server)
    assert sorted(vectors(server).values()) == [32, 64]
    with pytest.raises(ConfigurationError, match="reindex"):
        await found(old, "how do tests run")
    assert await reindex(server) == 0
    assert list(vectors(server).values()) == [32]
    await old.close()


async def test_a_second_embedders_reindexing_leaves_the_vectors_that_a_first_one_puts_in_place(server: Server) -> None:
    old = await process(server, OLD)
    await old.inject_memory("a", "Tests run with vitest.")
    first, second = QdrantStore(server.url), QdrantStore(server.url)
    await first.begin_reindex(identity(NEW))
    entries = await first.get_with_embeddings("a", await first.memory_ids("a"))
    for entry in entries:
        entry.embedding = await NEW.embed(entry.content)
    await first.add_vectors(identity(NEW), entries)
    loop, finishing = asyncio.get_running_loop(), first.finish_reindex(identity(NEW))
    at(server, "POST", "/points/payload", lambda _: not asyncio.run_coroutine_threadsafe(finishing, loop).result(10))
    assert len(await second.begin_reindex(identity(HashingEmbedder(48)))) == 1
    new = await process(server, NEW)
    assert await found(new, "how do tests run") == ["Tests run with vitest."]
    assert await reindex(server, HashingEmbedder(48)) == 1
    assert list(vectors(server).values()) == [48]
    for one in (old, new, first, second):
        await one.close()


async def test_a_reindexing_whose_vectors_another_drops_again_and_again_ends_though_memories_arrive(
    server: Server,
) -> None:
    old, rival = await process(server, OLD), QdrantStore(server.url)
    await old.inject_memory("a", "Tests run with vitest.")
    loop, count = asyncio.get_running_loop(), iter(range(100))

    async def interfere() -> None:
        await old.inject_memory("a", f"Arrived as number {next(count)}.")
        await rival.begin_reindex(identity(HashingEmbedder(48)))

    def fault(request: Handler) -> bool:
        if request.path.split("?")[0].endswith("/points/vectors"):
            asyncio.run_coroutine_threadsafe(interfere(), loop).result(10)
        return False

    server.faults.append(fault)
    with pytest.raises(ActroneMemoryError, match="again and again"):
        await asyncio.wait_for(reindex(server), 20)
    server.faults.clear()
    assert await reindex(server) == next(count) + 1
    await old.close()
    await rival.close()


async def test_a_memory_that_is_rewritten_meanwhile_is_embedded_when_it_rests(server: Server) -> None:
    old = await process(server, OLD)
    await old.inject_memory("a", "Tests run with vitest.")
    loop, writes = asyncio.get_running_loop(), iter(range(3))

    def rewrite(request: Handler) -> bool:
        if request.path.split("?")[0].endswith("/points/vectors") and next(writes, None) is not None:
            again = old.inject_memory("a", "Tests run with vitest.")
            asyncio.run_coroutine_threadsafe(again, loop).result(10)
        return False

    server.faults.append(rewrite)
    assert await reindex(server) == 4
    assert next(writes, None) is None
    new = await process(server, NEW)
    assert await found(new, "how do tests run") == ["Tests run with vitest."]
    await new.close()
    await old.close()


async def test_back_and_forth_leaves_one_vector_and_the_memories_of_all(server: Server) -> None:
    memory = await process(server, OLD)
    for agent in ("a", "b"):
        await memory.inject_memory(agent, f"Tests of {agent} run with vitest.")
    await memory.close()
    for embedder in (NEW, OLD, NEW, OLD):
        store = QdrantStore(server.url)
        assert await MemoryManager.reindex(l2=store, embedder=embedder) == 2
        await store.close()
        assert list(vectors(server).values()) == [embedder.dimensions]
        again = await process(server, embedder)
        assert await found(again, "how do tests run") == ["Tests of a run with vitest."]
        await again.close()


async def test_an_erasure_amid_a_reindexing_leaves_nothing(server: Server) -> None:
    old = await process(server, OLD)
    await old.inject_memory("a", "MARKER")
    loop = asyncio.get_running_loop()
    at(
        server,
        "PUT",
        "/points/vectors",
        lambda _: asyncio.run_coroutine_threadsafe(old.erase_agent_memories("a"), loop).result(10),
    )
    await reindex(server)
    assert "MARKER" not in server.dump()
    assert "shelf" not in server.dump()
    await old.close()
