"""A change of embedder: all memories are embedded anew, beside those in place, and what was begun is gone on with."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiers
from tiers import Tiers

from actrone_memory import (
    ConfigurationError,
    Embedder,
    EmbeddingError,
    HashingEmbedder,
    MemoryConfig,
    MemoryManager,
    SQLiteStore,
    StaticEmbedder,
    SyncMemoryManager,
)

OLD, NEW = HashingEmbedder(64), HashingEmbedder(32)


@pytest.fixture(params=tiers.KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tiers]:
    with tiers.of(request.param, tmp_path) as make:
        yield make()


async def manager(stores: Tiers, embedder: Embedder) -> MemoryManager:
    return await MemoryManager.create(l1=stores.l1, l2=stores.l2, embedder=embedder)


async def filled(stores: Tiers, count: int = 300) -> MemoryManager:
    memory = await manager(stores, OLD)
    for i in range(count):
        await memory.inject_memory(f"agent {i % 3}", f"Rule {i} is about module {i * 7}.", topic_tags=["rules"])
    first = await memory.inject_memory("agent 0", "Refunds take ten days.")
    await memory.inject_memory("agent 0", "Refunds take three days.", supersedes=first)
    await memory.store_turn("agent 0", "s", "where are the keys?", "In the drawer.")
    await memory.drain()
    await memory.search_memories("agent 0", "rules")
    return memory


class Breaks(HashingEmbedder):
    """Embeds some batches, then fails."""

    def __init__(self, batches: int) -> None:
        super().__init__(32)
        self.left = batches
        self.embedded = 0

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        if not self.left:
            raise RuntimeError("quota exceeded")
        self.left -= 1
        self.embedded += len(texts)
        return await super().embed_batch(texts)


async def test_all_memories_are_found_with_the_new_embedder(stores: Tiers) -> None:
    old = await filled(stores)
    before = await old.list_memories("agent 0", include_superseded=True)
    with pytest.raises(ConfigurationError, match="reindex"):
        await manager(stores, NEW)
    told: list[tuple[int, int]] = []
    assert await MemoryManager.reindex(l2=stores.l2, embedder=NEW, progress=lambda *at: told.append(at)) == 302
    assert told == sorted(told)
    assert told[-1] == (302, 302)
    assert len(told) >= 3
    new = await manager(stores, NEW)
    (first, *_) = await new.search_memories("agent 0", "how long do refunds take")
    assert first.content == "Refunds take three days."
    assert "drawer" in (await new.retrieve_context("agent 0", "t", "where are the keys", 800)).recalled_turns[0].content
    assert await new.list_memories("agent 0", include_superseded=True) == before
    fresh = await MemoryManager.create(embedder=NEW)
    await fresh.import_agent([line async for line in new.export_agent("agent 1")])
    for query in ("rule 4", "module 70", "rules"):
        found, expected = [await m.search_memories("agent 1", query) for m in (new, fresh)]
        assert [m.id for m in found] == [m.id for m in expected]
    with pytest.raises(ConfigurationError, match="reindex"):
        await old.search_memories("agent 0", "rules")
    assert await MemoryManager.reindex(l2=stores.l2, embedder=NEW) == 0
    await fresh.close()
    await new.close()
    await old.close()


async def test_an_interrupted_one_goes_on_and_the_store_works_meanwhile(stores: Tiers) -> None:
    old = await filled(stores)
    breaks = Breaks(2)
    with pytest.raises(EmbeddingError, match="quota"):
        await MemoryManager.reindex(l2=stores.l2, embedder=breaks)
    assert breaks.embedded > 0
    assert len(await old.search_memories("agent 0", "rule 3")) > 0
    changed = await old.inject_memory("agent 1", "Rule 1 is about module 7.", topic_tags=["urgent"])
    await old.inject_memory("agent 2", "Said meanwhile.")
    rest = Breaks(100)
    await MemoryManager.reindex(l2=stores.l2, embedder=rest)
    assert 303 <= breaks.embedded + rest.embedded <= 304
    new = await manager(stores, NEW)
    assert changed in [m.id for m in await new.search_memories("agent 1", "urgent")]
    await new.close()
    await old.close()


async def test_a_memory_written_while_it_runs_is_embedded_too(stores: Tiers) -> None:
    old = await filled(stores, 5)

    class Meanwhile(HashingEmbedder):
        written = False

        async def embed_batch(self, texts: list[str]) -> list[list[float]]:
            if not self.written:
                self.written = True
                await old.inject_memory("agent 2", "Said meanwhile.")
                await old.inject_memory("agent 1", "Rule 1 is about module 7.", topic_tags=["urgent"])
            return await super().embed_batch(texts)

    assert await MemoryManager.reindex(l2=stores.l2, embedder=Meanwhile(32)) >= 8
    new = await manager(stores, NEW)
    assert [m.content for m in await new.search_memories("agent 2", "meanwhile")] == ["Said meanwhile."]
    await new.close()
    await old.close()


async def test_what_another_embedder_began_is_dropped(stores: Tiers) -> None:
    old = await filled(stores, 5)
    with pytest.raises(EmbeddingError):
        await MemoryManager.reindex(l2=stores.l2, embedder=Breaks(1))
    assert await MemoryManager.reindex(l2=stores.l2, embedder=StaticEmbedder()) == 7
    new = await manager(stores, StaticEmbedder())
    assert len(await new.search_memories("agent 0", "rule")) > 0
    await new.close()
    await old.close()


async def test_an_erasure_takes_the_new_vectors_too(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = SQLiteStore(path)
    old = await filled(Tiers(store, store))
    with pytest.raises(EmbeddingError):
        await MemoryManager.reindex(l2=store, embedder=Breaks(2))
    other = sqlite3.connect(path)
    assert other.execute("SELECT count(*) FROM new_vectors").fetchone()[0] > 0
    for agent in range(3):
        await old.erase_agent_memories(f"agent {agent}")
    assert other.execute("SELECT count(*) FROM new_vectors").fetchone()[0] == 0
    other.close()
    await old.close()


def test_the_settings_name_the_file_and_the_embedder(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    def config(provider: str) -> MemoryConfig:
        return MemoryConfig(backend="sqlite", sqlite_path=path, embedding_provider=provider)

    with SyncMemoryManager.create(config("hashing")) as memory:
        memory.inject_memory("a", "Kept.")
    assert SyncMemoryManager.reindex(config("local")) == 1
    with SyncMemoryManager.create(config("static")) as memory:
        assert [m.content for m in memory.search_memories("a", "kept")] == ["Kept."]
    assert [file.name for file in tmp_path.iterdir()] == ["memory.db"]
