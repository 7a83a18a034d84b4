"""One store in Redis on many event loops, threads and processes, and what is left of it afterwards: nothing."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("redis", reason="the extra redis is not installed")

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis_servers import Server, cluster, proxied
from watching import settled_threads

from actrone_memory import (
    ConfigurationError,
    InMemoryStore,
    MemoryConfig,
    MemoryManager,
    RedisStore,
    SyncMemoryManager,
    Turn,
)

CHILD = Path(__file__).parent / "redis_children.py"


def said(text: str, session_id: str = "s") -> Turn:
    return Turn(session_id=session_id, user_message=text, assistant_message="ok")


def settings(server: Server) -> MemoryConfig:
    return MemoryConfig(
        backend="redis_qdrant", redis_url=server.url, embedding_provider="hashing", strict_background_errors=True
    )


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# --- loops and threads ------------------------------------------------------------------------------------------------


def test_one_store_serves_two_event_loops_one_after_the_other(server: Server) -> None:
    store = RedisStore(server.url)
    asyncio.run(store.append_turn("a", "s", said("first")))
    asyncio.run(store.append_turn("a", "s", said("second")))
    turns = asyncio.run(store.get_recent_turns("a", "s"))
    assert [turn.user_message for turn in turns] == ["first", "second"]
    asyncio.run(store.close())


def test_one_manager_serves_two_event_loops_and_its_own(server: Server) -> None:
    memory = asyncio.run(MemoryManager.create(settings(server), l2=InMemoryStore()))
    asyncio.run(memory.store_turn("a", "s1", "where do fixtures live?", "in fixtures/"))

    async def later() -> None:
        await memory.drain()
        context = await memory.retrieve_context("a", "s2", "fixtures", 800)
        assert len(context.recalled_turns) == 1
        await memory.close()

    asyncio.run(later())
    wait_until(lambda: server.connections() == 0)


def test_eight_threads_of_one_manager_lose_nothing(server: Server) -> None:
    with SyncMemoryManager.create(settings(server), l2=InMemoryStore()) as memory:
        threads = [
            threading.Thread(target=lambda i=i: [memory.store_turn("a", f"s{i}", str(k), "ok") for k in range(20)])
            for i in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i in range(8):
            turns = memory.get_recent_turns("a", f"s{i}")
            assert [turn.user_message for turn in turns] == [str(k) for k in range(20)]
        memory.drain()
        assert len(memory.list_memories("a", content_types=["turn"])) == 160


async def test_the_plain_manager_works_inside_a_running_loop(server: Server) -> None:
    with SyncMemoryManager.create(settings(server), l2=InMemoryStore()) as memory:
        memory.store_turn("a", "s", "hello", "hi")
        assert len(await memory.manager.get_recent_turns("a", "s")) == 1


async def test_fifty_calls_at_once_keep_the_turns_apart(server: Server) -> None:
    memory = await MemoryManager.create(settings(server), l2=InMemoryStore())
    await asyncio.gather(*(memory.store_turn("a", f"s{i}", f"word{i}", "ok") for i in range(50)))
    contexts = await asyncio.gather(*(memory.retrieve_context("a", f"s{i}", "word", 800) for i in range(50)))
    assert [context.recent_turns[0].user_message for context in contexts] == [f"word{i}" for i in range(50)]
    await memory.close()


# --- processes --------------------------------------------------------------------------------------------------------


def test_four_processes_lose_and_reorder_nothing_in_a_session(server: Server) -> None:
    writers, sessions, turns = 4, 16, 20
    children = [
        subprocess.Popen([sys.executable, str(CHILD), server.url, f"w{i}", str(sessions), str(turns)])
        for i in range(writers)
    ]
    assert [child.wait(120) for child in children] == [0] * writers
    store = RedisStore(server.url, 10_000)

    async def check() -> None:
        for number in range(sessions):
            kept = await store.get_recent_turns("a", f"s{number}")
            numbers = [turn.sequence or 0 for turn in kept]
            assert numbers == list(range(numbers[0], numbers[0] + writers * turns))
            for writer in range(writers):
                mine = [turn.user_message for turn in kept if turn.user_message.startswith(f"w{writer}:")]
                assert mine == [f"w{writer}:{turn}" for turn in range(turns)]
        await store.close()

    asyncio.run(check())


# --- what is left -----------------------------------------------------------------------------------------------------


def test_an_ended_loop_leaves_no_connection_and_is_not_kept(server: Server) -> None:
    store = RedisStore(server.url)

    async def use() -> weakref.ref[asyncio.AbstractEventLoop]:
        await asyncio.gather(*(store.append_turn("a", "s", said("x")) for _ in range(5)))
        assert server.connections() >= 1
        return weakref.ref(asyncio.get_running_loop())

    ended = asyncio.run(use())
    gc.collect()
    assert ended() is None
    wait_until(lambda: server.connections() == 0)
    asyncio.run(store.close())


def test_a_loop_that_was_closed_without_notice_is_let_go_by_the_next_call(server: Server, tmp_path: Path) -> None:
    script = f"""
import asyncio, gc, os, weakref
from actrone_memory import RedisStore, Turn
store = RedisStore({server.url!r})
asyncio.run(store.turn_count("a", "s"))
before = len(os.listdir("/proc/self/fd"))
loop = asyncio.new_event_loop()
loop.run_until_complete(store.append_turn("a", "s", Turn(session_id="s", user_message="x", assistant_message="")))
loop.close()
ended = weakref.ref(loop)
del loop
print(len(asyncio.run(store.get_recent_turns("a", "s"))))
gc.collect()
print(ended(), len(os.listdir("/proc/self/fd")) - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.split() == ["1", "None", "0"]


def test_closing_closes_the_clients_of_other_running_loops(server: Server) -> None:
    store = RedisStore(server.url)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(store.append_turn("a", "s", said("there")), loop).result(5)

        async def here() -> None:
            await store.append_turn("a", "s", said("here"))
            assert server.connections() == 2
            await store.close()
            wait_until(lambda: server.connections() == 0)

        asyncio.run(here())
        with pytest.raises(ConfigurationError):
            asyncio.run_coroutine_threadsafe(store.turn_count("a", "s"), loop).result(5)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def test_a_closed_store_says_so(server: Server) -> None:
    store = RedisStore(server.url)
    await store.append_turn("a", "s", said("x"))
    await store.close()
    await store.close()
    with pytest.raises(ConfigurationError) as error:
        await store.append_turn("a", "s", said("y"))
    assert error.value.code == "closed"
    assert server.connections() == 0


async def test_calls_under_way_when_the_store_is_closed_end_with_an_answer_or_say_so(server: Server) -> None:
    with proxied(server) as proxy:
        store = RedisStore(proxy.url, max_connections=2)
        await store.append_turn("a", "s", said("first"))
        proxy.delay = 0.05
        calls = [asyncio.create_task(store.append_turn("a", "s", said(str(i)))) for i in range(20)]
        await asyncio.sleep(0.12)
        await store.close()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(outcome is None or isinstance(outcome, ConfigurationError) for outcome in outcomes)
    assert any(isinstance(outcome, ConfigurationError) for outcome in outcomes)
    wait_until(lambda: server.connections() == 0)


def test_a_store_that_is_dropped_unclosed_closes_its_connections(server: Server) -> None:
    async def forget() -> None:
        await RedisStore(server.url).append_turn("a", "s", said("x"))
        await asyncio.to_thread(wait_until, lambda: server.connections() == 0)

    asyncio.run(forget())


def test_managers_opened_and_closed_leave_no_socket_thread_or_file(server: Server) -> None:
    async def live_once() -> None:
        memory = await MemoryManager.create(settings(server), l2=InMemoryStore())
        await memory.store_turn("a", "s", "hello", "hi")
        await memory.inject_memory("a", "Tests run with Vitest.")
        await memory.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def live(times: int) -> None:
        for _ in range(times):
            await live_once()

    asyncio.run(live(2))
    threads = settled_threads()
    before = open_files(), threads
    asyncio.run(live(25))
    assert (open_files(), threading.active_count()) == before
    wait_until(lambda: server.connections() == 0)


# --- clients handed in ------------------------------------------------------------------------------------------------


def test_a_client_that_was_handed_in_is_used_on_its_loop_and_stays_open(server: Server) -> None:
    async def use() -> None:
        pool = BlockingConnectionPool.from_url(server.url, max_connections=2)
        client = Redis(connection_pool=pool, client_name="handed-in")
        await client.ping()
        store = RedisStore(client=client)
        await asyncio.gather(*(store.append_turn("a", "s", said(str(i))) for i in range(20)))
        assert server.connections() <= 2
        await asyncio.to_thread(lambda: asyncio.run(store.append_turn("a", "s", said("elsewhere"))))
        wait_until(lambda: server.connections() <= 2)
        await store.close()
        assert await client.ping()
        assert server.connections() >= 1
        await client.aclose()
        await pool.aclose()

    asyncio.run(use())
    wait_until(lambda: server.connections() == 0)


def test_a_client_that_was_handed_in_before_any_loop_serves_the_first(server: Server) -> None:
    client = Redis.from_url(server.url, max_connections=1)
    store = RedisStore(client=client)

    async def first() -> None:
        await asyncio.gather(*(store.append_turn("a", "s", said(str(i))) for i in range(50)))
        assert server.connections() == 1
        await client.aclose()

    asyncio.run(first())
    turns = asyncio.run(store.get_recent_turns("a", "s"))
    assert len(turns) == 50
    asyncio.run(store.close())
    wait_until(lambda: server.connections() == 0)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with cluster("valkey", tmp_path_factory.mktemp("nodes"), nodes=3) as servers:
        yield servers


def test_a_manager_on_a_cluster_leaves_no_connection_to_any_node(nodes: list[Server]) -> None:
    async def use() -> None:
        memory = await MemoryManager.create(settings(nodes[0]), l2=InMemoryStore())
        for number in range(20):
            await memory.store_turn(f"agent {number}", "s", "hello", "hi")
        await memory.drain()
        for number in range(20):
            assert len(await memory.get_recent_turns(f"agent {number}", "s")) == 1
            await memory.erase_agent_memories(f"agent {number}", all_sessions=True)
        await memory.close()

    asyncio.run(use())
    assert [server.key_names() for server in nodes] == [[], [], []]


def test_a_client_of_a_cluster_may_be_handed_in(nodes: list[Server]) -> None:
    async def use() -> None:
        client = RedisCluster.from_url(nodes[0].url)
        memory = await MemoryManager.create(settings(nodes[0]), l1=RedisStore(client=client), l2=InMemoryStore())
        for number in range(10):
            await memory.store_turn(f"agent {number}", "s", "hello", "hi")
        await memory.close()
        assert await client.ping()
        await client.aclose()

    asyncio.run(use())


async def test_a_plain_client_of_a_cluster_is_refused(nodes: list[Server]) -> None:
    client = Redis.from_url(nodes[0].url)
    store = RedisStore(client=client)
    with pytest.raises(ConfigurationError, match="RedisCluster"):
        for number in range(20):
            await store.append_turn(f"agent {number}", "s", said("x"))
    await store.close()
    await client.aclose()
