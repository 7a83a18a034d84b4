"""The Qdrant store beyond the contract: the same order as in process, agents apart, erasure, loops and threads."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")

from qdrant_server import Server, running

from actrone_memory import (
    ConfigurationError,
    EmbedderIdentity,
    InMemoryStore,
    MemoryConfig,
    MemoryEntry,
    MemoryManager,
    QdrantStore,
    StaticEmbedder,
    SyncMemoryManager,
    ValidationError,
)
from actrone_memory._shelf import Census, prepare
from actrone_memory.stores.qdrant import census, collection, kept, points, questions, search

EMBEDDER = StaticEmbedder()
MODULES = (
    "argparse", "calendar", "json", "logging", "os", "pathlib", "random", "re", "shutil", "socket", "statistics",
    "string", "subprocess", "tempfile", "textwrap", "threading", "urllib.parse", "zipfile", "datetime", "inspect",
)  # fmt: skip
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
MEMORY_TYPES = ["injected", "fact", "summary"]
QUERIES = [
    "read a file line by line", "how are dates parsed", "join paths", "an error while decoding JSON", "thread locks",
    "start a process and capture its output", "regular expression groups", "compress data", "getUserById", "日期",
    "temporary directory", "ramdom number", "formated string", "environment variables", "sockets time out",
]  # fmt: skip


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


def entry(agent_id: str, content: str, embedding: list[float] | None = None, **fields: Any) -> MemoryEntry:
    fields = {"session_id": "s", "content_type": "fact", "timestamp": LONG_AGO, "embedding": embedding, **fields}
    return MemoryEntry(agent_id=agent_id, content=content, **fields)


def real_texts() -> list[str]:
    """First paragraphs of docstrings of the standard library."""
    found: dict[str, None] = {}
    for module in map(importlib.import_module, MODULES):
        for name, value in sorted(vars(module).items()):
            text = inspect.getdoc(value) if callable(value) and not name.startswith("_") else None
            if text and len(text) > 40:
                found[f"{name}: {text.split(chr(10) * 2)[0][:300]}"] = None
    return list(found)


async def rules_and_turns() -> list[MemoryEntry]:
    texts = real_texts()[:400]
    entries = [
        entry(
            "a",
            text,
            id=f"id-{place}",
            content_type="turn" if place % 2 else "injected",
            session_id=f"s{place // 40}",
            sequence=place if place % 2 else None,
            importance_score=(place % 7) / 7,
            topic_tags=[] if place % 2 else [["io", "text", "net"][place % 3]],
            timestamp=LONG_AGO + timedelta(hours=place % 90),
        )
        for place, text in enumerate(texts)
    ]
    for one, vector in zip(entries, await EMBEDDER.embed_batch(texts), strict=True):
        one.embedding = vector
    return entries


async def best(store: InMemoryStore | QdrantStore, query: str, types: list[str], **options: Any) -> list[str]:
    page = await store.search_page(
        "a",
        await EMBEDDER.embed(query),
        0.3,
        **{
            "background": EMBEDDER.background,
            "newer_first": True,
            "limit": 5,
            "consider": 100,
            "content_types": types,
            "query_text": query,
            **options,
        },
    )
    return [found.id for found in page.entries]


async def filled(*stores: InMemoryStore | QdrantStore) -> list[MemoryEntry]:
    entries = await rules_and_turns()
    for store in stores:
        for start in range(0, len(entries), 64):
            assert await store.upsert_many(entries[start : start + 64])
    return entries


# --- one order ----------------------------------------------------------------------------------------------------


async def test_the_best_five_are_those_of_the_in_process_store(server: Server) -> None:
    here, there = InMemoryStore(), QdrantStore(server.url)
    entries = await filled(here, there)
    for query in [*QUERIES, *(one.content[:60] for one in entries[::40])]:
        for types in (MEMORY_TYPES, ["turn"], [*MEMORY_TYPES, "turn"]):
            assert await best(there, query, types) == await best(here, query, types), query
        assert await best(there, query, MEMORY_TYPES, tags=["io"]) == await best(here, query, MEMORY_TYPES, tags=["io"])
        assert await best(there, query, ["turn"], query_text=None) == await best(here, query, ["turn"], query_text=None)
    await there.close()


async def test_it_follows_what_another_process_writes_replaces_and_deletes(server: Server) -> None:
    here, there, other = InMemoryStore(), QdrantStore(server.url), QdrantStore(server.url)
    entries = await filled(here, there)
    assert await best(there, QUERIES[0], MEMORY_TYPES)
    changes = [one.model_copy(update={"content": f"{one.content} read file lines"}) for one in entries[:40:4]]
    for store in (here, other):
        await store.upsert_many(changes)
        await store.delete(entries[100].id)
        await store.upsert(entries[102].model_copy(update={"superseded_by": "id-0"}))
        await store.delete_session_turns("a", "s3")
    for query in [*QUERIES, entries[100].content, entries[102].content, entries[131].content]:
        for types in (MEMORY_TYPES, ["turn"]):
            assert await best(there, query, types) == await best(here, query, types), query
    await there.close()
    await other.close()


async def test_among_many_memories_the_first_hit_is_the_same_and_most_of_five(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "WHOLE_SHELF", 120)
    monkeypatch.setattr(questions, "BY_MEANING", 64)
    monkeypatch.setattr(questions, "BY_WORDS", 64)
    here, there = InMemoryStore(), QdrantStore(server.url)
    entries = await filled(here, there)
    firsts, fives, asked = 0, 0, [*QUERIES, *(one.content[:60] for one in entries[::20])]
    for query in asked:
        for types in (MEMORY_TYPES, ["turn"]):
            ours, theirs = await best(there, query, types), await best(here, query, types)
            firsts += ours[:1] == theirs[:1]
            fives += ours == theirs
    assert firsts >= 0.97 * 2 * len(asked)
    assert fives >= 0.9 * 2 * len(asked)
    await there.close()


@pytest.mark.parametrize("whole", [1_000, 50])
async def test_a_second_agents_writes_do_not_change_the_firsts_order(
    server: Server, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(questions, "WHOLE_SHELF", whole)
    store = QdrantStore(server.url)
    entries = await filled(store)

    async def answers() -> list[Any]:
        fresh = QdrantStore(server.url)  # nothing kept from before
        found = []
        for query in QUERIES:
            page = await fresh.search_page(
                "a",
                await EMBEDDER.embed(query),
                0.3,
                background=EMBEDDER.background,
                limit=10,
                consider=50,
                query_text=query,
            )
            found.append([(one.id, round(one.score or 0, 5)) for one in page.entries])
        await fresh.close()
        return found

    before = await answers()
    flood = [
        one.model_copy(update={"agent_id": "b", "id": f"b-{place}-{again}", "content": f"{one.content} {query}"})
        for again in range(2)
        for place, (one, query) in enumerate(zip(entries, QUERIES * 30, strict=False))
    ]
    for start in range(0, len(flood), 64):
        await store.upsert_many(flood[start : start + 64])
    assert await answers() == before
    await store.close()


async def test_a_search_is_one_request_and_a_write_three(server: Server) -> None:
    store = QdrantStore(server.url)
    await filled(store)
    await best(store, "warm up", MEMORY_TYPES)
    server.requests.clear()
    await best(store, QUERIES[0], MEMORY_TYPES)
    assert server.requests == ["POST /collections/agent_memories/points/query/batch"]
    server.requests.clear()
    one = entry("a", "one more", await EMBEDDER.embed("one more"))
    assert await store.upsert_many([one], epoch=await store.erasure_epoch("a"))
    assert len(server.requests) == 1 + 3
    await store.close()


@pytest.mark.parametrize("types", [MEMORY_TYPES, ["turn"]])
async def test_a_search_among_many_takes_a_few_requests_however_long_the_query(
    server: Server, monkeypatch: pytest.MonkeyPatch, types: list[str]
) -> None:
    monkeypatch.setattr(questions, "WHOLE_SHELF", 120)
    store = QdrantStore(server.url)
    entries = await filled(store)
    query = " ".join(one.content for one in entries[:60])
    await best(store, query, types)
    parts: list[int] = []
    server.faults.append(lambda request: parts.append(len(request.body.get("searches", [0]))) or False)
    await best(store, query, types)
    assert len(parts) <= 4
    assert max(parts) == 4  # what the agent's point says, a sample, the nearest, the best by words
    await store.close()


async def test_the_rarity_of_words_among_many_memories_is_that_of_all(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "WHOLE_SHELF", 120)
    monkeypatch.setattr(questions, "BY_MEANING", 40)
    monkeypatch.setattr(questions, "BY_WORDS", 40)
    taken: list[Census] = []

    async def spy(*arguments: Any) -> Census:
        taken.append(await census.census_of(*arguments))
        return taken[-1]

    monkeypatch.setattr(search, "census_of", spy)
    here, there = InMemoryStore(), QdrantStore(server.url)
    await filled(here, there)
    shelf = here._indexes["a"]._memories
    for query in QUERIES:
        await best(there, query, MEMORY_TYPES)
    assert len(taken) == len(QUERIES)
    off = []
    for one in taken:
        assert one.entries == len(shelf.rows)
        off += [abs(told - shelf._idf(term)) for term, told in one.idf.items()]
    assert len(off) > 50
    assert sorted(off)[int(len(off) * 0.9)] < 0.001
    await there.close()


# --- agents and erasure -------------------------------------------------------------------------------------------


async def test_two_agents_who_write_one_id_at_once_overwrite_nothing(server: Server) -> None:
    stores = [QdrantStore(server.url) for _ in range(2)]
    await stores[0].upsert(entry("x", "so that there is a collection", [1.0, 0.0, 0.0]))

    async def write(store: QdrantStore, agent: str) -> bool:
        try:
            await store.upsert(entry(agent, f"of {agent}", [1.0, 0.0, 0.0], id="same"))
        except ValidationError:
            return False
        return True

    for round_ in range(5):
        agents = [f"a{round_}", f"b{round_}"]
        wrote = await asyncio.gather(*map(write, stores, agents))
        assert any(wrote)
        for agent, stored in zip(agents, wrote, strict=True):
            assert [one.content for one in await stores[0].list_memories(agent)] == ([f"of {agent}"] if stored else [])
        await stores[0].delete("same")
        assert [await stores[0].list_memories(agent) for agent in agents] == [[], []]
    for store in stores:
        await store.close()


async def test_a_write_that_an_erasure_overtakes_is_taken_back(server: Server) -> None:
    writer, eraser = QdrantStore(server.url), QdrantStore(server.url)
    await writer.upsert(entry("a", "known", [1.0, 0.0, 0.0]))
    epoch = await writer.erasure_epoch("a")
    loop = asyncio.get_running_loop()

    def erase_first(request: Any) -> bool:
        if request.command == "PUT" and "MARKER" in json.dumps(request.body):
            server.faults.clear()
            asyncio.run_coroutine_threadsafe(eraser.delete_agent_memories("a"), loop).result(10)
        return False

    server.faults.append(erase_first)
    assert not await writer.upsert_many([entry("a", "MARKER", [1.0, 0.0, 0.0])], epoch=epoch)
    assert await writer.list_memories("a") == []
    assert "MARKER" not in server.dump()
    assert "known" not in server.dump()
    await writer.close()
    await eraser.close()


async def test_what_a_killed_writer_left_behind_an_erasure_is_never_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = QdrantStore(server.url), QdrantStore(server.url)
    await writer.upsert(entry("a", "known", [1.0, 0.0, 0.0]))
    epoch = await writer.erasure_epoch("a")
    loop = asyncio.get_running_loop()

    def erase_then_die(request: Any) -> bool:
        if request.command == "PUT" and "MARKER" in json.dumps(request.body):
            asyncio.run_coroutine_threadsafe(reader.delete_agent_memories("a"), loop).result(10)
            request.perform(reply=False)
            loop.call_soon_threadsafe(task.cancel)
            server.faults.clear()
            request.hang_up()
            return True
        return False

    server.faults.append(erase_then_die)
    late = entry("a", "MARKER", [1.0, 0.0, 0.0], id="late", content_type="turn", sequence=3)
    task = asyncio.ensure_future(writer.upsert_many([late], epoch=epoch))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "MARKER" in server.dump()
    assert await reader.search("a", [1.0, 0.0, 0.0], -1.0) == []
    assert await reader.list_memories("a", include_superseded=True) == []
    assert await reader.get("a", "late") is None
    monkeypatch.setattr(questions, "WHOLE_SHELF", 10)
    texts = [f"apples {place}" for place in range(20)]
    anew = [entry("a", text, [1.0, 0.0, 0.0], content_type="turn", sequence=place) for place, text in enumerate(texts)]
    await reader.upsert_many(anew)
    page = await reader.search_page("a", [1.0, 0.0, 0.0], -1.0, query_text="MARKER apples", limit=100, consider=10)
    assert page.entries
    assert {found.content for found in page.entries} <= set(texts)
    await reader.delete_agent_memories("a")
    assert "MARKER" not in server.dump()
    await writer.close()
    await reader.close()


WRITER = """
    import asyncio, sys
    from actrone_memory import MemoryEntry, QdrantStore

    async def main():
        store = QdrantStore(sys.argv[1])
        print("ready", flush=True)
        for i in range(40):
            epoch = await store.erasure_epoch("a")
            entries = [
                MemoryEntry(agent_id=agent, session_id="s", content=f"MARKER-{agent} {i} {k}", content_type="turn",
                            embedding=[1.0, 0.0, 0.0], sequence=k)
                for k, agent in enumerate(["a"] * 3)
            ]
            await store.upsert_many(entries, epoch=epoch - 1 if sys.argv[2] == "late" and epoch else epoch)
            await store.upsert_many([entries[0].model_copy(update={"agent_id": "b", "id": f"b{i}-{sys.argv[2]}",
                                                                    "content": "MARKER-b"})])
        await store.close()

    asyncio.run(main())
"""


def test_after_an_erasure_among_writing_processes_a_raw_scan_finds_nothing(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "writer.py"
    script.write_text(textwrap.dedent(WRITER), "utf-8")
    store = QdrantStore(server.url)
    asyncio.run(store.upsert(entry("a", "MARKER-a first", [1.0, 0.0, 0.0])))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    children = [
        subprocess.Popen([sys.executable, script, server.url, kind], stdout=subprocess.PIPE, env=environment)
        for kind in ("late", "early")
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
    for _ in range(5):
        asyncio.run(store.delete_agent_memories("a"))
    assert [child.wait(60) for child in children] == [0, 0]
    for child in children:
        assert child.stdout is not None
        child.stdout.close()
    # What was written after the last erasure, with the epoch of then, is there rightly.
    asyncio.run(store.delete_agent_memories("a"))
    assert "MARKER-a" not in server.dump()
    assert len(asyncio.run(store.list_memories("b"))) == 80
    asyncio.run(store.close())


async def test_an_erasure_of_ten_thousand_leaves_all_of_the_others(server: Server) -> None:
    store = QdrantStore(server.url)
    for agent, count in (("a", 10_000), ("b", 100)):
        many = [entry(agent, f"{agent} {i}", [1.0, i / count, 0.0]) for i in range(count)]
        for start in range(0, count, 1_000):
            await store.upsert_many(many[start : start + 1_000])
    assert len(await store.list_memories("a")) == 10_000
    await store.delete_agent_memories("a")
    assert await store.list_memories("a") == []
    assert len(await store.list_memories("b")) == 100
    await store.close()


# --- the collection -----------------------------------------------------------------------------------------------


async def test_stores_that_start_at_once_make_one_collection(server: Server) -> None:
    stores = [QdrantStore(server.url) for _ in range(6)]
    await asyncio.gather(*(s.upsert(entry("a", f"{i}", [1.0, 0.0, 0.0])) for i, s in enumerate(stores)))
    assert list(server.collections) == ["agent_memories"]
    assert set(server.collections["agent_memories"].indexes) == set(points.INDEXED)
    assert len(await stores[0].list_memories("a")) == 6
    for store in stores:
        await store.close()


async def test_two_processes_with_two_embedders_do_not_mix_vectors(server: Server) -> None:
    first, second = QdrantStore(server.url), QdrantStore(server.url)
    one, two = EmbedderIdentity("one", 3), EmbedderIdentity("two", 3)
    assert await first.bind_embedder(one) == one
    assert await second.bind_embedder(two) == two  # nothing is stored yet
    await first.upsert(entry("a", "of one", [1.0, 0.0, 0.0]))
    with pytest.raises(ConfigurationError, match=r"'one' \(3 dimensions\).*'two' \(3\)"):
        await second.upsert(entry("a", "of two", [1.0, 0.0, 0.0]))
    assert [found.content for found in await first.list_memories("a")] == ["of one"]
    assert await second.bind_embedder(two) == one
    await first.close()
    await second.close()


async def test_a_manager_with_another_embedder_is_refused(server: Server) -> None:
    config = MemoryConfig(backend="redis_qdrant", qdrant_url=server.url, embedding_provider="static")
    memory = await MemoryManager.create(config, l1=InMemoryStore())
    await memory.inject_memory("a", "Tests run with vitest.")
    await memory.close()
    other = MemoryConfig(backend="redis_qdrant", qdrant_url=server.url, embedding_provider="hashing")
    with pytest.raises(ConfigurationError, match=r"static.*hashing"):
        await MemoryManager.create(other, l1=InMemoryStore())


async def test_wrong_dimensions_are_refused_by_name(server: Server) -> None:
    store = QdrantStore(server.url)
    await store.upsert(entry("a", "three", [1.0, 0.0, 0.0]))
    with pytest.raises(ValidationError, match="embedding: has 2 dimensions, the store holds 3"):
        await store.upsert(entry("a", "two", [1.0, 0.0]))
    with pytest.raises(ValidationError, match="query_embedding: has 2 dimensions"):
        await store.search("a", [1.0, 0.0], 0.1)
    with pytest.raises(ConfigurationError, match=r"holds vectors of 3 dimensions.*qdrant_collection"):
        await store.bind_embedder(EmbedderIdentity("other", 4))
    await store.close()


async def test_an_emptied_collection_takes_the_vectors_of_any_embedder(server: Server) -> None:
    store, late = QdrantStore(server.url), QdrantStore(server.url)
    one, two = EmbedderIdentity("one", 3), EmbedderIdentity("two", 2)
    await store.bind_embedder(one)
    await late.bind_embedder(one)
    await store.upsert(entry("a", "of one", [1.0, 0.0, 0.0]))
    assert await late.search("a", [1.0, 0.0, 0.0], 0.5)
    assert await store.bind_embedder(two) == one
    await store.delete_agent_memories("a")
    assert await store.bind_embedder(two) == two
    assert await store.search("a", [1.0, 0.0], 0.5) == []
    await store.upsert(entry("a", "of two", [1.0, 0.0]))
    assert [found.content for found in await store.search("a", [1.0, 0.0], 0.5)] == ["of two"]
    with pytest.raises(ConfigurationError, match=r"'two' \(2 dimensions\).*'one' \(3\).*reindex"):
        await late.search("a", [1.0, 0.0, 0.0], 0.5)
    with pytest.raises(ConfigurationError, match=r"'two' \(2 dimensions\).*'one' \(3\).*reindex"):
        await late.upsert(entry("a", "of one", [1.0, 0.0, 0.0]))
    assert list(server.collections["agent_memories"].config["vectors"]) != ["meaning"]
    assert len(server.collections["agent_memories"].config["vectors"]) == 1
    await store.close()
    await late.close()


async def test_a_collection_that_is_none_of_ours_is_refused(server: Server) -> None:
    store = QdrantStore(server.url, collection="photos")
    await store.upsert(entry("a", "ours", [1.0, 0.0, 0.0]))
    server.collections["photos"].config["vectors"] = {"image": {"size": 3, "distance": "Dot"}}
    with pytest.raises(ConfigurationError, match=r"'photos'.*is none of ours.*qdrant_collection"):
        await QdrantStore(server.url, collection="photos").search("a", [1.0, 0.0, 0.0], 0.1)
    await store.close()


async def test_a_server_that_cannot_keep_word_statistics_apart_is_refused() -> None:
    with running(version="1.18.2") as old, pytest.raises(ConfigurationError, match=r"is 1\.18\.2; 1\.19 or newer"):
        await QdrantStore(old.url).search("a", [1.0, 0.0, 0.0], 0.1)


# --- local mode, loops, threads -----------------------------------------------------------------------------------


def test_a_folder_keeps_what_was_stored_and_has_one_opener(tmp_path: Path) -> None:
    url = f"path:{tmp_path / 'memories'}"
    store, second = QdrantStore(url), QdrantStore(url)
    asyncio.run(store.upsert(entry("a", "kept", [1.0, 0.0, 0.0])))
    with pytest.raises(ConfigurationError, match=r"is open already.*one opener"):
        asyncio.run(second.list_memories("a"))
    asyncio.run(store.close())
    assert [one.content for one in asyncio.run(second.list_memories("a"))] == ["kept"]
    child = f"""
        import asyncio
        from actrone_memory import ConfigurationError, QdrantStore
        try:
            asyncio.run(QdrantStore({url!r}).list_memories("a"))
        except ConfigurationError as error:
            print(error.details["setting"])
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(child)], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "qdrant_url\n", done.stderr
    asyncio.run(second.close())


@pytest.mark.parametrize("kind", ["memory", "server"])
def test_one_manager_serves_loops_threads_and_a_running_loop(server: Server, kind: str) -> None:
    url = ":memory:" if kind == "memory" else server.url
    config = MemoryConfig(backend="redis_qdrant", qdrant_url=url, embedding_provider="static")
    manager = asyncio.run(MemoryManager.create(config, l1=InMemoryStore()))
    asyncio.run(manager.inject_memory("a", "Tests run with vitest."))
    assert asyncio.run(manager.search_memories("a", "vitest"))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            asyncio.run(manager.inject_memory("a", f"Fact number {number} of thread {number}."))
            assert asyncio.run(manager.search_memories("a", f"fact number {number}"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures

    async def fifty() -> None:
        found = await asyncio.gather(*(manager.search_memories("a", f"fact number {i % 8}") for i in range(50)))
        assert all(found)
        with SyncMemoryManager(manager) as plain:
            assert plain.search_memories("a", "vitest")

    asyncio.run(fifty())


async def used(settings: MemoryConfig, number: int) -> None:
    manager = await MemoryManager.create(settings, l1=InMemoryStore())
    if number % 5 == 0:  # archived in the background, by a thread and a client of its own
        await manager.store_turn("a", "s", "Where are the keys?", "In the drawer.", turn_id="t")
    await manager.close()


def open_things() -> tuple[int, int]:
    """Files and sockets, and threads, of this process; the server of the tests has some of them."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def assert_nothing_was_left_open(before: tuple[int, int]) -> None:
    deadline = time.monotonic() + 5  # the server takes a moment to see that a connection is closed
    while open_things() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    files, threads = open_things()
    assert files <= before[0]
    assert threads <= before[1]


def test_five_hundred_managers_one_after_another_leave_nothing_open(server: Server) -> None:
    settings = MemoryConfig(backend="redis_qdrant", qdrant_url=server.url, embedding_provider="static")

    async def many() -> set[asyncio.Task[Any]]:
        before = asyncio.all_tasks()
        for number in range(400):
            await used(settings, number)
        return asyncio.all_tasks() - before

    asyncio.run(used(settings, 0))  # makes the collection, of which the server holds files
    before = open_things()
    for number in range(100):
        asyncio.run(used(settings, number))
    assert asyncio.run(many()) == set()
    assert_nothing_was_left_open(before)


def test_a_client_ends_with_its_loop_when_nobody_closes_it(server: Server) -> None:
    stores = [QdrantStore(server.url) for _ in range(10)]
    asyncio.run(stores[0].upsert(entry("a", "x", [1.0, 0.0, 0.0])))
    before = open_things()
    for store in stores:
        asyncio.run(store.upsert(entry("a", "x", [1.0, 0.0, 0.0])))
    assert_nothing_was_left_open(before)
    assert asyncio.run(stores[0].search("a", [1.0, 0.0, 0.0], 0.1))
    assert_nothing_was_left_open(before)


@pytest.mark.parametrize("kind", ["memory", "folder", "server"])
def test_close_leaves_no_thread_and_no_file_handle(server: Server, tmp_path: Path, kind: str) -> None:
    url = {"memory": ":memory:", "folder": f"path:{tmp_path / 'm'}", "server": server.url}[kind]

    def used() -> None:
        store = QdrantStore(url)
        asyncio.run(store.upsert(entry("a", "x", [1.0, 0.0, 0.0])))
        assert asyncio.run(store.search("a", [1.0, 0.0, 0.0], 0.1))
        asyncio.run(store.close())
        asyncio.run(store.close())

    def handles() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    used()
    threads, before = {t.ident for t in threading.enumerate() if "qdrant" in t.name}, handles()
    for _ in range(5):
        used()
    assert {t.ident for t in threading.enumerate() if "qdrant" in t.name} == threads == set()
    assert handles() <= before + 2  # a connection of the server's side may still be going


async def test_a_client_that_was_handed_in_is_used_and_not_closed() -> None:
    from qdrant_client import AsyncQdrantClient, QdrantClient

    plain, waiting = QdrantClient(":memory:"), AsyncQdrantClient(":memory:")
    for client in (plain, waiting):
        store = QdrantStore(client=client)
        await store.upsert(entry("a", "x", [1.0, 0.0, 0.0]))
        assert [one.content for one in await store.search("a", [1.0, 0.0, 0.0], 0.1)] == ["x"]
        await store.close()
    assert plain.collection_exists("agent_memories")
    assert await waiting.collection_exists("agent_memories")
    plain.close()
    await waiting.close()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"url": "localhost:6333"}, "qdrant_url"),
        ({"url": "ftp://host"}, "qdrant_url"),
        ({"url": "http://host:notaport"}, "qdrant_url"),
        ({"url": " "}, "url"),
        ({"collection": ""}, "collection"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"relevance_weight": 2}, "relevance_weight"),
    ],
)
def test_settings_out_of_range_are_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        QdrantStore(**arguments)


def test_the_extra_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(ConfigurationError, match=r"actrone-memory\[qdrant\]"):
        QdrantStore()


async def test_what_is_kept_of_many_agents_is_bounded_and_comes_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "KEPT_ENTRIES", 25)
    store = QdrantStore(server.url)
    for agent in "abcd":
        await store.upsert_many([entry(agent, f"{agent} {i}", [1.0, i / 10, 0.0]) for i in range(10)])
    for agent in "abcda":
        assert len(await store.search(agent, [1.0, 0.0, 0.0], -1.0)) == 10
        assert sum(len(held.index) for held in store._held._held.values()) <= 25
        assert len(store._kept._entries) <= 25
    assert list(store._held._held) == ["d", "a"]
    await store.delete_agent_memories("a")
    assert "a" not in store._held._held
    assert await store.search("a", [1.0, 0.0, 0.0], -1.0) == []
    await store.close()


async def test_an_agent_of_whom_only_a_killed_writers_remains_are_left_is_not_listed(server: Server) -> None:
    store, local = QdrantStore(server.url), QdrantStore(":memory:")
    for one in (store, local):
        await one.upsert(entry("a", "erased", [1.0, 0.0, 0.0], id="1"))
        await one.upsert(entry("b", "kept", [1.0, 0.0, 0.0], id="2"))
        (left,) = await one._collection.scroll(questions.shelf_filter("a", talk=False), with_payload=True)
        await one.delete_agent_memories("a")
        late = points.point_of(prepare(entry("a", "late", [1.0, 0.0, 0.0], id="1")), 3, epoch=0, written=1)
        await one._write_points([late], points.MEANING)
        assert left.payload["epoch"] == 0
        assert await one.list_agents() == ["b"]
        assert await one.memory_ids("a") == []
        assert await one.get_with_embeddings("a", ["1"]) == []
        await one.upsert(entry("a", "again", [1.0, 0.0, 0.0], id="3"))
        assert await one.list_agents() == ["a", "b"]
        assert await one.memory_ids("a") == ["3"]
        await one.close()


async def test_more_agents_than_one_answer_holds_are_all_listed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "MOST_VALUES", 2)
    store = QdrantStore(server.url)
    for number in range(25):
        await store.upsert(entry(f"agent {number:02}", "x", [1.0, 0.0, 0.0]))
    for number in range(5):
        await store.delete_agent_memories(f"agent {number:02}")
    assert await store.list_agents() == [f"agent {number:02}" for number in range(5, 25)]
    await store.close()
