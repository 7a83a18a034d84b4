"""Threads, event loops and the synchronous face."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import weakref

import pytest
from watching import settled_threads

from actrone_memory import (
    ConfigurationError,
    HashingEmbedder,
    MemoryConfig,
    MemoryManager,
    SyncMemoryManager,
    ValidationError,
)


def test_one_manager_serves_two_event_loops_one_after_the_other() -> None:
    memory = asyncio.run(MemoryManager.create())
    asyncio.run(memory.store_turn("a", "s", "hello", "hi"))
    asyncio.run(memory.inject_memory("a", "Tests run with Vitest."))

    async def read() -> None:
        context = await memory.retrieve_context("a", "s", "tests", 800)
        assert len(context.recent_turns) == 1
        assert len(context.episodic_memories) == 1
        await memory.close()

    asyncio.run(read())


def test_eight_threads_with_loops_of_their_own_lose_and_mix_nothing() -> None:
    memory = asyncio.run(MemoryManager.create())
    failures: list[BaseException] = []

    async def use(i: int) -> None:
        for k in range(20):
            await memory.store_turn(f"agent{i}", "s", f"word{i} number {k}", "ok")
            await memory.inject_memory(f"agent{i}", f"Fact {k} of word{i}.")
            context = await memory.retrieve_context(f"agent{i}", "s", f"word{i} fact", 4_000)
            assert all(entry.agent_id == f"agent{i}" for entry in context.episodic_memories)
        assert len(await memory.get_recent_turns(f"agent{i}", "s")) == 20
        assert len(await memory.list_memories(f"agent{i}")) == 20

    def run(i: int) -> None:
        try:
            asyncio.run(use(i))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures

    async def check() -> None:
        await memory.drain()
        for i in range(8):
            assert len(await memory.list_memories(f"agent{i}", content_types=["turn"])) == 20
        await memory.close()

    asyncio.run(check())


async def test_a_burst_of_queries_lets_the_loop_breathe_between_them(memory: MemoryManager) -> None:
    for i in range(200):
        await memory.inject_memory("a", f"Rule {i}: module {i} is tested nightly.")
    beats = 0
    finished = False

    async def heartbeat() -> None:
        nonlocal beats
        while not finished:
            beats += 1
            await asyncio.sleep(0)

    pulse = asyncio.create_task(heartbeat())
    await asyncio.gather(*(memory.retrieve_context("a", f"s{i}", f"module {i}", 800) for i in range(100)))
    finished = True
    await pulse
    assert beats >= 100


def test_the_plain_manager_answers_calls_in_a_script() -> None:
    with SyncMemoryManager.create() as memory:
        memory.inject_memory("a", "Tests run with Vitest.")
        memory.store_turn("a", "s", "hello", "hi")
        context = memory.retrieve_context("a", "s", "tests", 800)
        assert len(context.recent_turns) == 1
        assert [m.content for m in memory.search_memories("a", "tests", 1)] == ["Tests run with Vitest."]
        memory.drain()
        assert memory.background_failures == 0
        with pytest.raises(ValidationError):
            memory.store_turn("a", "s", "", "")
    with pytest.raises(ConfigurationError) as error:
        memory.search_memories("a", "tests")
    assert error.value.code == "closed"
    memory.close()


async def test_the_plain_manager_works_inside_a_running_loop() -> None:
    memory = SyncMemoryManager.create()
    memory.inject_memory("a", "Tests run with Vitest.")
    assert len(memory.search_memories("a", "tests")) == 1
    assert len(await memory.manager.search_memories("a", "tests")) == 1
    memory.close()


def test_the_plain_manager_serves_eight_threads_from_one_loop_thread() -> None:
    before = settled_threads()
    memory = SyncMemoryManager.create()
    threads = [
        threading.Thread(target=lambda i=i: [memory.store_turn("a", f"s{i}", str(k), "ok") for k in range(20)])
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(memory.get_recent_turns("a", f"s{i}")) == 20 for i in range(8))
    memory.close()
    assert threading.active_count() == before


def test_a_wrapped_manager_is_the_same_memory() -> None:
    manager = asyncio.run(MemoryManager.create())
    asyncio.run(manager.inject_memory("a", "Tests run with Vitest."))
    memory = SyncMemoryManager(manager)
    assert memory.manager is manager
    assert len(memory.search_memories("a", "tests")) == 1
    memory.close()
    with pytest.raises(ConfigurationError):
        asyncio.run(manager.search_memories("a", "tests"))


def test_a_call_on_the_loop_thread_itself_is_refused_instead_of_hanging() -> None:
    class Asking(HashingEmbedder):
        async def embed_batch(self, texts: list[str]) -> list[list[float]]:
            memory.list_memories("a")
            return await super().embed_batch(texts)

    memory, nested = (SyncMemoryManager.create(embedder=Asking()) for _ in range(2))
    nested.inject_memory("a", "another manager's loop is fine")
    with pytest.raises(ConfigurationError, match="own loop thread"):
        memory.inject_memory("a", "its own loop is not")
    nested.close()
    memory.close()


async def test_a_cancelled_caller_loses_no_turn(memory: MemoryManager) -> None:
    task = asyncio.create_task(memory.store_turn("a", "s", "stored before the cancel", "ok"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await memory.drain()
    stored = len(await memory.get_recent_turns("a", "s"))
    assert len(await memory.list_memories("a", content_types=["turn"])) == stored == 1


def test_an_unclosed_plain_manager_ends_its_thread_when_it_is_collected() -> None:
    before = settled_threads()
    memory = SyncMemoryManager.create()
    memory.list_memories("a")
    del memory
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_an_unclosed_manager_ends_its_thread_when_it_is_collected() -> None:
    before = settled_threads()

    async def forget() -> None:
        memory = await MemoryManager.create()
        await memory.store_turn("a", "s", "hello", "hi")

    asyncio.run(forget())
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_a_manager_keeps_no_event_loop_that_has_ended() -> None:
    memory = asyncio.run(MemoryManager.create())

    async def burst() -> weakref.ref[asyncio.AbstractEventLoop]:
        await asyncio.gather(*(memory.search_memories("a", "tests") for _ in range(5)))
        return weakref.ref(asyncio.get_running_loop())

    ended = asyncio.run(burst())
    gc.collect()
    assert ended() is None
    asyncio.run(memory.close())


def test_the_same_fact_told_by_many_threads_keeps_every_tag() -> None:
    memory = asyncio.run(MemoryManager.create())
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for round_ in range(15):
            threads = [
                threading.Thread(
                    target=lambda i=i, r=round_: asyncio.run(
                        memory.inject_memory(f"agent{r}", "same fact", topic_tags=[f"tag{i}"])
                    )
                )
                for i in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            (entry,) = asyncio.run(memory.list_memories(f"agent{round_}"))
            assert len(entry.topic_tags) == 8
    finally:
        sys.setswitchinterval(before)
        asyncio.run(memory.close())


def test_a_story_of_awaited_calls_is_told_to_plain_code_too() -> None:
    with SyncMemoryManager.create() as memory:

        async def story() -> int:
            await memory.manager.inject_memory("a", "Tests run with Vitest.")
            return len(await memory.manager.search_memories("a", "tests"))

        assert memory.run(story()) == 1

        async def failing() -> None:
            await memory.manager.inject_memory("a", "")

        with pytest.raises(ValidationError, match="content"):
            memory.run(failing())


def test_a_dropped_wrapper_leaves_the_thread_to_the_others() -> None:
    memory = asyncio.run(MemoryManager.create(MemoryConfig(archive_turns=False)))
    kept = SyncMemoryManager(memory)
    kept.store_turn("a", "s", "hello", "hi")
    SyncMemoryManager(memory).store_turn("a", "s", "again", "hi")
    gc.collect()
    assert len(kept.get_recent_turns("a", "s")) == 2
    kept.close()


async def test_all_that_wrap_a_manager_share_a_thread_that_ends_with_it() -> None:
    memory = await MemoryManager.create(MemoryConfig(archive_turns=False))
    before = settled_threads()
    wrappers = [SyncMemoryManager(memory) for _ in range(3)]
    assert [wrapper.get_recent_turns("a", "s") for wrapper in wrappers] == [[]] * 3
    assert threading.active_count() == before + 1
    wrappers[0].close()
    assert threading.active_count() == before
    for wrapper in wrappers:
        with pytest.raises(ConfigurationError):
            wrapper.get_recent_turns("a", "s")
    await memory.close()


def test_a_plain_manager_that_is_closed_from_many_sides_at_once_ends_quietly() -> None:
    for _ in range(30):
        plain = SyncMemoryManager.create(MemoryConfig(embedding_provider="hashing"))
        plain.inject_memory("a", "Tests run with vitest.")
        closers = [threading.Thread(target=plain.manager._loop_thread.stop) for _ in range(4)]
        closers.append(threading.Thread(target=asyncio.run, args=[plain.manager.close()]))
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        assert plain.manager._loop_thread.stopped
