"""Stores with nothing but the documented methods work, and say what they cannot do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from actrone_memory import (
    ConfigurationError,
    MemoryConfig,
    MemoryEntry,
    MemoryManager,
    MemoryNotFoundError,
    SessionMetadata,
    StoreConnectionError,
    Turn,
    cosine_similarity,
)


class PlainL1:
    """A list for each session: no batches, no marks, no listing, no memory of ids."""

    def __init__(self) -> None:
        self.turns: dict[tuple[str, str], list[Turn]] = {}
        self.closed = False

    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        self.turns.setdefault((agent_id, session_id), []).append(turn.model_copy(deep=True))

    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        turns = self.turns.get((agent_id, session_id), [])
        return [turn.model_copy(deep=True) for turn in (turns if n is None else turns[-n:])]

    async def turn_count(self, agent_id: str, session_id: str) -> int:
        return len(self.turns.get((agent_id, session_id), []))

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        self.turns.pop((agent_id, session_id), None)

    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        count = await self.turn_count(agent_id, session_id)
        return SessionMetadata(agent_id=agent_id, session_id=session_id, turn_count=count) if count else None

    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        return True

    async def close(self) -> None:
        self.closed = True


class PlainL2:
    """A dict of entries, searched by cosine."""

    def __init__(self) -> None:
        self.entries: dict[str, MemoryEntry] = {}
        self.closed = False

    async def upsert(self, entry: MemoryEntry) -> None:
        await asyncio.sleep(0.001)
        self.entries[entry.id] = entry.model_copy(deep=True)

    async def search(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        limit: int = 20,
        content_types: list[str] | None = None,
        query_text: str | None = None,
    ) -> list[MemoryEntry]:
        own = [entry for entry in self.entries.values() if entry.agent_id == agent_id]
        scored = [(cosine_similarity(entry.embedding or [0.0], query_embedding), entry) for entry in own]
        kept = [
            (score, entry)
            for score, entry in scored
            if score >= threshold and (content_types is None or entry.content_type in content_types)
        ]
        kept.sort(key=lambda pair: -pair[0])
        return [entry.model_copy(deep=True) for _, entry in kept[:limit]]

    async def delete(self, memory_id: str) -> None:
        self.entries.pop(memory_id, None)

    async def delete_agent_memories(self, agent_id: str) -> None:
        self.entries = {key: entry for key, entry in self.entries.items() if entry.agent_id != agent_id}

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
async def plain() -> AsyncIterator[MemoryManager]:
    config = MemoryConfig(backend="redis_qdrant", strict_background_errors=True)
    manager = await MemoryManager.create(config, l1=PlainL1(), l2=PlainL2())
    yield manager
    await manager.close()


async def test_a_talk_is_joined_limited_and_kept_once(plain: MemoryManager) -> None:
    await plain.store_turn("a", "s", "first", "ok")
    await plain.store_turn("a", "s", "question", "", turn_id="1")
    await plain.store_turn("a", "s", "question", "", turn_id="1")
    await plain.store_turn("a", "s", "", "answer", continues=True)
    turns = await plain.get_recent_turns("a", "s", 1)
    assert [(turn.user_message, turn.assistant_message) for turn in turns] == [("question", "answer")]
    assert len(await plain.get_recent_turns("a", "s")) == 2


async def test_turns_are_archived_once_and_recalled(plain: MemoryManager) -> None:
    await plain.store_turn("a", "s", "the locker code is 4711", "")
    await plain.drain()
    await plain.store_turn("a", "s", "", "noted", continues=True)
    await plain.drain()
    context = await plain.retrieve_context("a", "other", "the locker code", 800)
    assert [entry.content for entry in context.recalled_turns] == ["User: the locker code is 4711\nAssistant: noted"]


async def test_the_same_fact_is_one_entry_and_a_superseded_one_stays_away(plain: MemoryManager) -> None:
    old = await plain.inject_memory("a", "Deploys go through Jenkins.")
    assert await plain.inject_memory("a", "deploys go through jenkins.", topic_tags=["ci"]) == old
    await plain.inject_memory("a", "Deploys go through Actions.", supersedes=old)
    found = await plain.search_memories("a", "Deploys go through Jenkins")
    assert [entry.content for entry in found] == ["Deploys go through Actions."]


async def test_ownership_holds(plain: MemoryManager) -> None:
    mine = await plain.inject_memory("a", "Mine alone.")
    with pytest.raises(MemoryNotFoundError):
        await plain.delete_memory("b", mine)
    await plain.delete_memory("a", mine)
    assert await plain.search_memories("a", "Mine alone") == []


async def test_tags_filter_afterwards(plain: MemoryManager) -> None:
    await plain.inject_memory("a", "Tests run with Vitest.", topic_tags=["web"])
    await plain.inject_memory("a", "Tests run with pytest.", topic_tags=["api"])
    found = await plain.search_memories("a", "tests run", tags=["api"])
    assert [entry.content for entry in found] == ["Tests run with pytest."]


async def test_erasure_holds_against_writes_of_this_process(plain: MemoryManager) -> None:
    for i in range(40):
        await plain.store_turn("a", f"s{i}", f"secret {i}", "ok")
    await asyncio.sleep(0.005)
    await plain.erase_agent_memories("a", session_id="s0")
    await plain.drain()
    await plain.store_turn("a", "s1", "a new turn", "ok")
    await plain.drain()
    found = await plain.search_memories("a", "secret new turn", 100, content_types=["turn"])
    assert [entry.content for entry in found] == ["User: a new turn\nAssistant: ok"]
    assert await plain.get_recent_turns("a", "s0") == []


async def test_a_cleared_session_is_forgotten_in_both_tiers(plain: MemoryManager) -> None:
    await plain.store_turn("a", "s", "the code is 4711", "ok")
    await plain.store_turn("a", "kept", "the code is 4712", "ok")
    await plain.drain()
    await plain.clear_session("a", "s")
    found = await plain.search_memories("a", "code 4711 4712", content_types=["turn"])
    assert [entry.session_id for entry in found] == ["kept"]


async def test_what_needs_more_says_which_method_is_missing(plain: MemoryManager) -> None:
    with pytest.raises(ConfigurationError, match=r"PlainL2 has no method list_memories\(\)"):
        await plain.list_memories("a")
    with pytest.raises(ConfigurationError, match=r"PlainL1 has no method list_sessions\(\)"):
        await plain.list_sessions("a")
    await plain.inject_memory("a", "Stays.")
    with pytest.raises(ConfigurationError, match="list_sessions"):
        await plain.erase_agent_memories("a", all_sessions=True)
    assert len(await plain.search_memories("a", "stays")) == 1


async def test_what_a_store_raises_comes_out_with_its_name() -> None:
    class Broken(PlainL2):
        async def search(self, *args: object, **kwargs: object) -> list[MemoryEntry]:
            raise OSError("connection reset")

    memory = await MemoryManager.create(l1=PlainL1(), l2=Broken())
    with pytest.raises(StoreConnectionError, match=r"Broken.*connection reset") as error:
        await memory.search_memories("a", "anything")
    assert isinstance(error.value.cause, OSError)
    await memory.close()


async def test_closing_closes_both_stores_once() -> None:
    l1, l2 = PlainL1(), PlainL2()
    memory = await MemoryManager.create(l1=l1, l2=l2)
    await memory.close()
    assert (l1.closed, l2.closed) == (True, True)


async def test_a_part_that_lacks_a_method_is_refused_at_the_start() -> None:
    class NoSearch:
        upsert = delete = delete_agent_memories = close = PlainL2.close

    with pytest.raises(ConfigurationError, match=r"l2: NoSearch has no search\(\)"):
        await MemoryManager.create(l2=NoSearch())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"summariser: object has no summarise\(\)"):
        await MemoryManager.create(summariser=object())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"subclass of actrone_memory\.Embedder"):
        await MemoryManager.create(embedder=object())  # type: ignore[arg-type]


async def test_a_long_line_of_old_versions_hides_no_living_memory(plain: MemoryManager) -> None:
    current = await plain.inject_memory("a", "The port number is 0.")
    for i in range(1, 40):
        current = await plain.inject_memory("a", f"The port number is {i}.", supersedes=current)
    assert [m.content for m in await plain.search_memories("a", "port number", 3)] == ["The port number is 39."]


async def test_an_erasure_that_is_cancelled_while_it_waits_disturbs_no_writer() -> None:
    class SlowToWrite(PlainL2):
        async def upsert(self, entry: MemoryEntry) -> None:
            writing.set()
            await asyncio.sleep(0.1)
            await super().upsert(entry)

    writing = asyncio.Event()
    memory = await MemoryManager.create(l1=PlainL1(), l2=SlowToWrite())
    written = asyncio.create_task(memory.inject_memory("a", "Written all the same."))
    await writing.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(memory.erase_agent_memories("a"), 0.02)
    await written
    assert len(await memory.search_memories("a", "Written all the same")) == 1
    await memory.close()


async def test_a_newer_memory_hides_the_one_it_ends_and_an_old_one_returns(plain: MemoryManager) -> None:
    old, new = "Unit tests run with Jest.", "We moved from Jest to Vitest."
    for last in (old, new, old, new):
        await plain.inject_memory("a", last)
        assert [m.content for m in await plain.search_memories("a", f"{old} {new}")] == [last]
