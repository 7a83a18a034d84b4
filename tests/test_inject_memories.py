"""Many memories at once: as if injected one after the other, in few batches and few writes, or not at all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actrone_memory import (
    EmbeddingError,
    ExtractedFact,
    HashingEmbedder,
    InMemoryStore,
    MemoryConfig,
    MemoryManager,
    MemoryNotFoundError,
    SQLiteStore,
    StoreConnectionError,
    SyncMemoryManager,
    ValidationError,
)

MOST_IN_A_BATCH = 128


class Counting(HashingEmbedder):
    """Keeps what it was asked; fails from the batch ``fails_at`` on."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.fails_at = fails_at

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        self.batches.append(texts)
        if self.fails_at is not None and len(self.batches) > self.fails_at:
            raise RuntimeError("no GPU left")
        return await super().embed_batch(texts)


class Watched:
    """A store that counts its calls by name, and breaks at the call of ``upsert_many`` that is ``breaks_at``."""

    def __init__(self, store: InMemoryStore | SQLiteStore, breaks_at: int | None = None) -> None:
        self.store, self.calls, self.breaks_at = store, dict[str, int](), breaks_at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)

        def counted(*args: object, **kwargs: object) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            if name == "upsert_many" and self.calls[name] == self.breaks_at:
                raise OSError("disk full")
            return found(*args, **kwargs)

        return counted if callable(found) else found


def rules(count: int) -> list[str]:
    return [f"Module m{i} is owned by team t{i % 7}." for i in range(count)]


async def state(memory: MemoryManager, agent_id: str = "a") -> list[dict[str, object]]:
    """Everything that is stored of the agent's memories but times, oldest first."""
    entries = await memory.list_memories(agent_id, include_superseded=True)
    return [entry.model_dump(exclude={"timestamp", "sequence"}) for entry in entries]


@pytest.fixture(params=["memory", "sqlite"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[MemoryManager]]:
    """Two empty managers on stores of one kind."""
    stores = [InMemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / f"{i}.db") for i in range(2)]
    pair = [await MemoryManager.create(l2=store) for store in stores]
    yield pair
    for memory in pair:
        await memory.close()


class Plain:
    """The documented methods of a long-term store, and the listing that the test looks at."""

    def __init__(self) -> None:
        inner = InMemoryStore()
        self.upsert, self.search, self.delete = inner.upsert, inner.search, inner.delete
        self.delete_agent_memories, self.close = inner.delete_agent_memories, inner.close
        self.list_memories = inner.list_memories


# --- few steps --------------------------------------------------------------------------------------------------------


async def test_a_thousand_memories_cost_few_batches_and_few_calls_of_the_store() -> None:
    embedder, cold = Counting(), Watched(InMemoryStore())
    memory = await MemoryManager.create(l2=cold, embedder=embedder)
    cold.calls.clear()
    ids = await memory.inject_memories("a", rules(1_000))
    assert len(embedder.batches) == 8
    assert max(map(len, embedder.batches)) == MOST_IN_A_BATCH
    assert cold.calls["upsert_many"] == 8
    assert sum(cold.calls.values()) <= 40
    listed = await memory.list_memories("a")
    assert [entry.id for entry in listed] == ids
    assert [entry.content for entry in listed] == rules(1_000)
    (found, *_) = await memory.search_memories("a", "who owns m613?")
    assert found.content == "Module m613 is owned by team t4."
    await memory.close()


async def test_queries_are_answered_while_a_long_list_is_written() -> None:
    memory = await MemoryManager.create(embedder=HashingEmbedder())
    writing = asyncio.create_task(memory.inject_memories("a", rules(2_000)))
    answered = 0
    while not writing.done():
        await memory.search_memories("b", f"who owns m{answered}?")
        answered += 1
    assert answered >= 10
    assert len(await memory.list_memories("a")) == 2_000
    await memory.close()


async def test_nothing_is_injected_by_an_empty_list(memory: MemoryManager) -> None:
    assert await memory.inject_memories("a", []) == []
    assert await memory.list_memories("a") == []


def test_the_plain_manager_injects_many_too() -> None:
    with SyncMemoryManager.create() as memory:
        ids = memory.inject_memories("a", rules(3))
        assert [entry.id for entry in memory.list_memories("a")] == ids


# --- as if one after the other ----------------------------------------------------------------------------------------

PIECES = (
    "Tests run with Jest.",
    "tests RUN with  jest.",
    "We moved from Jest to Vitest.",
    "The timeout is 30 seconds.",
    "The timeout is 60 seconds.",
    "Deploys go through Jenkins.",
    "Deploys go through Actions.",
    "Use tabs.",
)


@pytest.mark.parametrize("seed", range(12))
async def test_a_list_does_what_its_memories_do_one_by_one(both: list[MemoryManager], seed: int) -> None:
    at_once, one_by_one = both
    chance = random.Random(seed)
    told: list[dict[str, Any]] = []
    known: list[str] = []
    for text in chance.choices(PIECES, k=14):
        item: dict[str, Any] = {
            "content": text,
            "importance": chance.choice([0.2, 0.9]),
            "topic_tags": chance.sample(["ci", "web", "style"], chance.randint(0, 1)),
            "source": chance.choice(["user", "review"]),
            "sensitivity": chance.choice(["none", "low"]),
        }
        if known and chance.random() < 0.2:
            item["supersedes"] = chance.choice(known)
        known.append(await one_by_one.inject_memory("a", **item))
        told.append(item)
    cut = chance.randint(0, len(told))
    ids = await at_once.inject_memories("a", told[:cut]) + await at_once.inject_memories("a", told[cut:])
    assert ids == known
    by_id = {entry["id"]: entry for entry in await state(one_by_one)}
    assert {entry["id"]: entry for entry in await state(at_once)} == by_id
    for query in ("tests", "the timeout", "how do deploys go", "tabs"):
        best = [(await memory.search_memories("a", query))[:1] for memory in both]
        assert [entry.content for entry in best[0]] == [entry.content for entry in best[1]], query


async def test_a_store_with_the_documented_methods_alone_takes_a_list_too() -> None:
    memory = await MemoryManager.create(l2=Plain())
    told: list[Any] = [
        *rules(200),
        "Tests run with Jest.",
        "module M7 is owned by team t0.",
        "We moved from Jest to Vitest.",
    ]
    ids = await memory.inject_memories("a", [*told, {"content": "Use tabs.", "topic_tags": ["style"]}])
    assert ids[7] == ids[201]
    kept = {entry.content for entry in await memory.list_memories("a")}
    assert kept == {*rules(200), *told[201:], "Use tabs."} - {rules(200)[7]}
    await memory.close()


async def test_a_text_that_is_repeated_is_one_memory_and_embedded_once() -> None:
    embedder = Counting()
    memory = await MemoryManager.create(embedder=embedder)
    ids = await memory.inject_memories("a", ["Use tabs.", "Use spaces.", "Use tabs."] * 50)
    assert ids[0] == ids[2] != ids[1]
    assert embedder.batches == [["Use tabs.", "Use spaces."], ["Use tabs.", "Use spaces."]]
    assert len(await memory.list_memories("a")) == 2
    await memory.close()


async def test_a_memory_may_be_a_text_a_dict_a_fact_or_a_memory_of_another_agent(memory: MemoryManager) -> None:
    await memory.inject_memory("other", "Use spaces.", 0.3, "s1", ["style"], "user", "low")
    (entry,) = await memory.list_memories("other")
    fact = ExtractedFact(content="Ann's cat is called Momo.", sensitivity="low", topic_tags=["pets"], importance=0.7)
    ids = await memory.inject_memories("a", ["Use tabs.", {"content": "Dates are UTC.", "importance": 1}, fact, entry])
    kept = [
        (one.content, one.importance_score, one.session_id, one.topic_tags, one.source, one.sensitivity)
        for one in await memory.list_memories("a")
    ]
    assert kept == [
        ("Use tabs.", 0.8, "injected", [], "injected", "none"),
        ("Dates are UTC.", 1.0, "injected", [], "injected", "none"),
        ("Ann's cat is called Momo.", 0.7, "injected", ["pets"], "injected", "low"),
        ("Use spaces.", 0.3, "s1", ["style"], "user", "low"),
    ]
    assert entry.id not in ids
    assert len(await memory.list_memories("other")) == 1


async def test_a_memory_replaces_one_that_the_same_list_brings_before_it(memory: MemoryManager) -> None:
    old = await memory.inject_memory("other", "Use tabs.")
    with pytest.raises(MemoryNotFoundError):
        await memory.inject_memories("a", ["Use tabs.", {"content": "Use spaces.", "supersedes": old}])
    assert await memory.list_memories("a", include_superseded=True) == []
    (mine,) = await memory.inject_memories("a", ["Use tabs."])
    await memory.delete_memory("a", mine)
    await memory.inject_memories("a", ["Use tabs.", {"content": "Use spaces.", "supersedes": mine}])
    assert [entry.content for entry in await memory.list_memories("a")] == ["Use spaces."]


# --- or not at all ----------------------------------------------------------------------------------------------------


async def test_one_wrong_memory_is_named_by_its_place_and_nothing_is_written() -> None:
    embedder = Counting()
    memory = await MemoryManager.create(embedder=embedder)
    told: list[Any] = [*rules(300), {"content": "Use tabs.", "importance": 3}]
    with pytest.raises(ValidationError, match=r"^memories\[300\].importance: must be between 0.0 and 1.0, is 3"):
        await memory.inject_memories("a", told)
    with pytest.raises(ValidationError, match=r"^memories\[300\]: has 'tags'; it may have content, importance"):
        await memory.inject_memories("a", [*rules(300), {"content": "x", "tags": []}])
    with pytest.raises(ValidationError, match=r"^memories: must be a list, not str"):
        await memory.inject_memories("a", "Use tabs.")
    assert embedder.batches == []
    assert await memory.list_memories("a") == []
    await memory.close()


async def test_what_is_to_be_replaced_must_be_there_before_anything_is_written() -> None:
    memory = await MemoryManager.create()
    told: list[Any] = [*rules(300), {"content": "Use tabs.", "supersedes": "no-such-id"}]
    with pytest.raises(MemoryNotFoundError, match=r"^memories\[300\].supersedes: No memory 'no-such-id'") as error:
        await memory.inject_memories("a", told)
    assert error.value.details == {"memory_id": "no-such-id", "field": "memories[300].supersedes"}
    assert await memory.list_memories("a") == []
    await memory.close()


async def test_an_embedder_that_fails_at_the_last_batch_leaves_nothing_written() -> None:
    memory = await MemoryManager.create(embedder=Counting(fails_at=2))
    with pytest.raises(EmbeddingError, match="no GPU left"):
        await memory.inject_memories("a", rules(300))
    assert await memory.list_memories("a") == []
    await memory.close()


async def test_after_a_failure_of_the_store_the_same_call_completes_the_list() -> None:
    memory = await MemoryManager.create(l2=Watched(InMemoryStore(), breaks_at=2), embedder=HashingEmbedder())
    with pytest.raises(StoreConnectionError, match="disk full"):
        await memory.inject_memories("a", rules(300))
    assert len(await memory.list_memories("a")) == MOST_IN_A_BATCH
    ids = await memory.inject_memories("a", rules(300))
    assert sorted(ids) == sorted(entry.id for entry in await memory.list_memories("a"))
    await memory.close()


async def test_an_erasure_amid_the_writes_leaves_whole_memories_and_the_other_agents() -> None:
    memory = await MemoryManager.create(embedder=HashingEmbedder())
    await memory.inject_memories("b", rules(10))
    writing = asyncio.create_task(memory.inject_memories("a", rules(1_000)))
    while not await memory.search_memories("a", "who owns m1?"):
        pass
    await memory.erase_agent_memories("a")
    await writing
    left = [entry.content for entry in await memory.list_memories("a")]
    assert set(left) < set(rules(1_000))
    await memory.erase_agent_memories("a")
    assert await memory.list_memories("a", include_superseded=True) == []
    assert len(await memory.list_memories("b")) == 10
    await memory.close()


async def test_lists_that_share_memories_are_written_by_many_at_once(tmp_path: Path) -> None:
    memory = await MemoryManager.create(l2=SQLiteStore(tmp_path / "memory.db"), embedder=HashingEmbedder())
    lists = [random.Random(seed).sample(rules(200), 150) for seed in range(6)]
    all_ids = await asyncio.gather(*(memory.inject_memories("a", one) for one in lists))
    ids = {
        text: id_ for texts, found in zip(lists, all_ids, strict=True) for text, id_ in zip(texts, found, strict=True)
    }
    assert {entry.content: entry.id for entry in await memory.list_memories("a")} == ids
    await memory.close()


# --- batches stay small everywhere ------------------------------------------------------------------------------------


class ManyFacts:
    async def extract(self, text: str) -> list[ExtractedFact]:
        return [ExtractedFact(content=rule) for rule in rules(500)]


async def archive(memory: MemoryManager) -> None:
    for number in range(10):
        for turn in range(40):
            await memory.store_turn("a", f"s{number}", f"question {number} {turn}", "answer")
    await memory.drain()


async def extract(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "hello", "hi")
    assert len(await memory.extract_memories("a", "s")) == 500


async def move(memory: MemoryManager) -> None:
    other = await MemoryManager.create(embedder=HashingEmbedder(64))
    await other.inject_memories("a", rules(500))
    await memory.import_agent([line async for line in other.export_agent("a")])
    await other.close()


async def reindex(memory: MemoryManager) -> None:
    cold = InMemoryStore()
    other = await MemoryManager.create(l2=cold, embedder=HashingEmbedder(64))
    await other.inject_memories("a", rules(500))
    assert await MemoryManager.reindex(l2=cold, embedder=memory._embedder.embedder) == 500
    await other.close()


@pytest.mark.parametrize("call", [archive, extract, move, reindex], ids=lambda call: call.__name__)
async def test_no_embedder_is_asked_for_more_than_a_batch(call: Any) -> None:
    embedder = Counting()
    memory = await MemoryManager.create(MemoryConfig(), embedder=embedder, extractor=ManyFacts())
    await call(memory)
    sizes = list(map(len, embedder.batches))
    assert sum(sizes) >= 400
    assert max(sizes) <= MOST_IN_A_BATCH
    await memory.close()
