"""A Qdrant that is absent, slow, cut off or locked: bounded time, our error, recovery with the same store."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")

from qdrant_server import Handler, Server, running

from actrone_memory import (
    InMemoryStore,
    MemoryConfig,
    MemoryEntry,
    MemoryManager,
    QdrantStore,
    StoreConnectionError,
)

QUERY = [1.0, 0.0, 0.0]


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


def entry(content: str) -> MemoryEntry:
    return MemoryEntry(
        agent_id="a",
        session_id="s",
        content=content,
        content_type="fact",
        embedding=QUERY,
        timestamp=datetime(2025, 1, 1, tzinfo=UTC),
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def failure(call: Any, *, within: float) -> StoreConnectionError:
    started = time.monotonic()
    with pytest.raises(StoreConnectionError) as caught:
        await call
    assert time.monotonic() - started < within
    assert caught.value.store == "QdrantStore"
    return caught.value


async def filled(server: Server, **options: Any) -> QdrantStore:
    store = QdrantStore(server.url, timeout_seconds=options.pop("timeout_seconds", 5.0), **options)
    await store.upsert(entry("known"))
    return store


async def found(store: QdrantStore) -> list[str]:
    return sorted(one.content for one in await store.search("a", QUERY, 0.5))


async def test_absent_at_start_then_there() -> None:
    port = free_port()
    store = QdrantStore(f"http://127.0.0.1:{port}", timeout_seconds=3)
    error = await failure(store.search("a", QUERY, 0.5), within=3.5)
    assert f"Check that Qdrant runs at http://127.0.0.1:{port}" in error.message
    assert "ACTRONE_QDRANT_URL" in error.message
    with running(port=port) as server:
        await store.upsert(entry("now"))
        assert await found(store) == ["now"]
        assert server.requests
    await store.close()


async def test_absent_later_then_back_with_the_same_store(server: Server) -> None:
    store = await filled(server)
    server.stop()
    await failure(store.search("a", QUERY, 0.5), within=5.5)
    await failure(store.upsert(entry("lost")), within=5.5)
    server.start()
    assert await found(store) == ["known"]
    await store.close()


async def test_a_server_that_never_answers_costs_the_deadline_and_no_more(server: Server) -> None:
    store = await filled(server, timeout_seconds=0.6)

    def sleep(_: Handler) -> bool:
        time.sleep(1.5)
        return False

    server.faults.append(sleep)
    error = await failure(store.search("a", QUERY, 0.5), within=1.2)
    assert "did not answer within 0.6 s" in error.message
    assert "ACTRONE_QDRANT_TIMEOUT" in error.message
    server.faults.clear()
    assert await found(store) == ["known"]
    await store.close()


async def test_an_address_that_swallows_everything_costs_the_deadline_and_no_more() -> None:
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        store = QdrantStore(f"http://127.0.0.1:{hole.getsockname()[1]}", timeout_seconds=0.5)
        await failure(store.search("a", QUERY, 0.5), within=1.5)
        await store.close()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection:UserWarning")
async def test_a_wrong_key_is_named_and_no_key_is_ever_told() -> None:
    with running(api_key="right-key") as server:
        store = QdrantStore(server.url, api_key="wrong-secret")
        error = await failure(store.search("a", QUERY, 0.5), within=2)
        assert "refuses the key: set ACTRONE_QDRANT_API_KEY" in error.message
        assert "wrong-secret" not in f"{error!r} {error.details} {error.cause!r} {error.message}"
        assert len(server.requests) == 1  # a refused key is not tried again
        await store.close()
        right = QdrantStore(server.url, api_key="right-key")
        await right.upsert(entry("let in"))
        await right.close()


async def test_no_password_of_the_address_is_told() -> None:
    store = QdrantStore(f"http://user:hidden@127.0.0.1:{free_port()}", timeout_seconds=1)
    error = await failure(store.search("a", QUERY, 0.5), within=1.5)
    assert "hidden" not in f"{error!r} {error.details} {error.message}"
    await store.close()


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_what_passes_is_tried_again(server: Server, status: int) -> None:
    store = await filled(server)
    answers = [status, status]

    def busy(handler: Handler) -> bool:
        if answers:
            handler.send(answers.pop(), {"status": {"error": "busy"}})
            return True
        return False

    server.faults.append(busy)
    assert await found(store) == ["known"]
    assert answers == []
    await store.close()


async def test_what_does_not_pass_is_not_tried_again(server: Server) -> None:
    store = await filled(server)
    server.faults.append(lambda handler: handler.send(400, {"status": {"error": "Bad request"}}) or True)
    server.requests.clear()
    error = await failure(store.search("a", QUERY, 0.5), within=2)
    assert "answers, but not as it should" in error.message
    assert len(server.requests) == 1
    await store.close()


async def test_tries_have_an_end(server: Server) -> None:
    store = await filled(server)
    server.faults.append(lambda handler: handler.send(503, {"status": {"error": "starting"}}) or True)
    server.requests.clear()
    await failure(store.search("a", QUERY, 0.5), within=5)
    assert len(server.requests) == 4
    await store.close()


@pytest.mark.parametrize("harm", ["cut", "truncated"])
async def test_a_reply_that_is_lost_doubles_no_write(server: Server, harm: str) -> None:
    store = await filled(server)
    harmed = []

    def lose(handler: Handler) -> bool:
        if handler.command != "PUT" or harmed:
            return False
        harmed.append(handler.path)
        if harm == "cut":
            handler.perform(reply=False)
            handler.hang_up()
        else:
            handler.perform(reply=False)
            handler.send(200, {"result": None, "status": "ok", "time": 0.0}, cut_after=5)
        return True

    server.faults.append(lose)
    await store.upsert(entry("once"))
    assert harmed
    assert await found(store) == ["known", "once"]
    assert len(await store.list_memories("a")) == 2
    await store.close()


async def test_a_reply_that_is_no_json_is_our_error(server: Server) -> None:
    store = await filled(server)

    def rubbish(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", "9")
        handler.end_headers()
        handler.wfile.write(b"<html>hi ")
        return True

    server.faults.append(rubbish)
    await failure(store.search("a", QUERY, 0.5), within=5.5)
    server.faults.clear()
    assert await found(store) == ["known"]
    await store.close()


async def test_an_address_where_there_is_no_qdrant_is_our_error(server: Server) -> None:
    server.faults.append(lambda request: request.send(404, "nothing here") or True)
    for call in ("list_agents", "upsert", "get"):
        store = QdrantStore(server.url, timeout_seconds=2.0)
        arguments: dict[str, list[Any]] = {"upsert": [entry("new")], "get": ["a", "known"]}
        error = await failure(getattr(store, call)(*arguments.get(call, [])), within=3)
        assert f"{server.url} answers, but not as it should" in str(error)
        await store.close()


async def test_a_collection_that_can_neither_be_found_nor_made_is_no_endless_loop(server: Server) -> None:
    store = QdrantStore(server.url, timeout_seconds=1.0)

    def taken(request: Handler) -> bool:
        if "/collections/" not in request.path:
            return False
        status = 409 if request.command == "PUT" else 404
        return request.send(status, {"status": {"error": "already exists" if status == 409 else "Not found"}}) or True

    server.faults.append(taken)
    error = await asyncio.wait_for(failure(store.upsert(entry("new")), within=5), 5)
    assert "qdrant_collection" in str(error)
    server.faults.clear()
    await store.upsert(entry("new"))
    await store.close()


async def test_a_collection_that_is_deleted_under_it_is_told_once_and_made_anew(server: Server) -> None:
    store = await filled(server)
    server.collections.clear()
    error = await failure(store.search("a", QUERY, 0.5), within=5)
    assert "'agent_memories'" in error.message
    assert "was deleted while it was in use" in error.message
    assert await found(store) == []
    await store.upsert(entry("anew"))
    assert await found(store) == ["anew"]
    await store.close()


async def test_points_that_are_still_there_after_a_deletion_are_an_error(server: Server) -> None:
    store = await filled(server)

    def pretend(handler: Handler) -> bool:
        if handler.path.split("?")[0].endswith("/delete"):
            handler.send(200, {"result": {"operation_id": 0, "status": "completed"}, "status": "ok", "time": 0.0})
            return True
        return False

    server.faults.append(pretend)
    error = await failure(store.delete_agent_memories("a"), within=5)
    assert "1 points of 'agent_memories' are still there" in error.message
    await store.close()


# --- a manager over a Qdrant that is away -------------------------------------------------------------------------


def config(server: Server, **settings: Any) -> MemoryConfig:
    return MemoryConfig(
        backend="redis_qdrant", qdrant_url=server.url, qdrant_timeout=1.0, embedding_provider="static", **settings
    )


async def test_without_degrade_a_retrieval_fails_and_recovers(server: Server) -> None:
    manager = await MemoryManager.create(config(server), l1=InMemoryStore())
    await manager.inject_memory("a", "Tests run with vitest.")
    server.faults.append(lambda handler: handler.send(500, {"status": {"error": "broken"}}) or True)
    await failure(manager.retrieve_context("a", "s", "how do tests run?", 800), within=3)
    server.faults.clear()
    assert (await manager.retrieve_context("a", "s", "how do tests run?", 800)).episodic_memories
    await manager.close()


async def test_with_degrade_the_turns_come_back_and_the_context_says_why(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    manager = await MemoryManager.create(config(server, degrade=True), l1=InMemoryStore())
    await manager.inject_memory("a", "Tests run with vitest.")
    await manager.store_turn("a", "s", "hello", "hi")
    await manager.drain()
    whole = await manager.retrieve_context("a", "s", "how do tests run?", 800)
    assert whole.degraded is None
    assert whole.episodic_memories
    server.faults.append(lambda handler: handler.send(500, {"status": {"error": "broken"}}) or True)
    with caplog.at_level(logging.WARNING, "actrone_memory"):
        context = await manager.retrieve_context("a", "s", "how do tests run?", 800)
    assert [turn.user_message for turn in context.recent_turns] == ["hello"]
    assert context.episodic_memories == context.recalled_turns == []
    assert context.degraded is not None
    assert "QdrantStore" in context.degraded
    assert "goes on without long-term memory" in caplog.text
    with pytest.raises(StoreConnectionError):
        await manager.search_memories("a", "tests")
    server.faults.clear()
    assert (await manager.retrieve_context("a", "s", "how do tests run?", 800)).degraded is None
    await manager.close()


async def test_with_degrade_a_manager_starts_without_qdrant_and_archives_when_it_comes() -> None:
    port = free_port()
    settings = MemoryConfig(
        backend="redis_qdrant", qdrant_url=f"http://127.0.0.1:{port}", qdrant_timeout=1.0, degrade=True
    )
    manager = await MemoryManager.create(settings, l1=InMemoryStore())
    await manager.store_turn("a", "s", "the locker code is 4711", "noted")
    context = await manager.retrieve_context("a", "s", "locker code", 800)
    assert context.degraded is not None
    assert len(context.recent_turns) == 1
    with running(port=port):
        await manager.drain()
        later = await manager.retrieve_context("a", "other", "the locker code", 800)
        assert later.degraded is None
        assert "4711" in later.recalled_turns[0].content
        await manager.close()


async def test_without_degrade_a_manager_does_not_start_without_qdrant() -> None:
    settings = MemoryConfig(backend="redis_qdrant", qdrant_url=f"http://127.0.0.1:{free_port()}", qdrant_timeout=1.0)
    await failure(MemoryManager.create(settings, l1=InMemoryStore()), within=2)


async def test_many_calls_at_once_wait_and_all_answer(server: Server) -> None:
    store = await filled(server)
    await asyncio.gather(*(store.upsert(entry(f"fact {i}")) for i in range(30)))
    answers = await asyncio.gather(*(store.search("a", QUERY, 0.5, 50) for _ in range(30)))
    assert {len(answer) for answer in answers} == {31}
    await store.close()
