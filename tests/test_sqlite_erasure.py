"""What is erased from the embedded store is in no byte of its files any more."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from pathlib import Path

import pytest

from actrone_memory import HashingEmbedder, MemoryConfig, MemoryEntry, MemoryManager, SQLiteStore, ToolResult, Turn

MARK = "Zanzibar"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def found_in(path: Path, mark: str = MARK) -> list[str]:
    """The files of the store that hold the mark in their bytes."""
    return [file.name for file in path.parent.iterdir() if mark.encode() in file.read_bytes()]


class Slow(HashingEmbedder):
    """Waits at the gate before it embeds a batch, as a remote model would."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.gate = threading.Event(), threading.Event()

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        self.entered.set()
        await asyncio.to_thread(self.gate.wait, 10)
        return await super().embed_batch(texts)


@pytest.mark.parametrize("count", [1, 10_000])
async def test_an_erasure_leaves_no_byte_also_with_work_under_way(count: int, path: Path) -> None:
    embedder = Slow()
    config = MemoryConfig(backend="sqlite", sqlite_path=path)
    memory = await MemoryManager.create(config, embedder=embedder)
    vectors = await HashingEmbedder().embed_batch([f"{MARK} {i}" for i in range(count)])
    entries = [
        MemoryEntry(
            agent_id=f"{MARK}'s agent",
            session_id=f"{MARK} session",
            content=f"{MARK} {i} " + "x" * (i % 900),
            content_type="injected",
            embedding=vector,
            topic_tags=[MARK],
            metadata={MARK: i},
        )
        for i, vector in enumerate(vectors)
    ]
    store = SQLiteStore(path)
    for start in range(0, count, 500):
        await store.upsert_many(entries[start : start + 500])
    await store.close()
    old = await memory.inject_memory(f"{MARK}'s agent", f"The {MARK} of old.")
    await memory.inject_memory(f"{MARK}'s agent", f"The new {MARK}.", supersedes=old)
    await memory.inject_memory("b", "A memory of b.")
    result = ToolResult(tool_name=MARK, params={"q": MARK}, result=MARK, success=True)
    for i in range(20):
        await memory.store_turn(
            f"{MARK}'s agent", f"{MARK} {i % 3}", f"the {MARK} {i}", "ok", [result], turn_id=f"{MARK} {i}"
        )
    await asyncio.to_thread(embedder.entered.wait, 10)
    assert found_in(path)
    await memory.erase_agent_memories(f"{MARK}'s agent", all_sessions=True)
    assert found_in(path) == []
    embedder.gate.set()
    await memory.drain()
    assert found_in(path) == []
    assert [m.content for m in await memory.list_memories("b")] == ["A memory of b."]
    await memory.close()
    assert found_in(path) == []
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_memories_that_were_written_again_and_again_leave_no_byte(path: Path) -> None:
    dice = random.Random(1)
    store = SQLiteStore(path)
    for _ in range(400):
        batch = [
            MemoryEntry(
                id=f"id-{agent}-{dice.randrange(150)}",
                agent_id=agent,
                session_id="s",
                content=f"{MARK if agent == 'a' else 'kept'} " + "y" * int(dice.paretovariate(0.8) * 20 % 6000),
                content_type="fact",
                embedding=[dice.gauss(0, 1) for _ in range(8)],
            )
            for agent in dice.choices("ab", k=1) * 3
        ]
        await store.upsert_many(batch)
        await store.append_turn(
            "a", "s", Turn(session_id="s", user_message=MARK * dice.randrange(1, 300), assistant_message="")
        )
        if dice.random() < 0.2:
            await store.delete(batch[0].id)
    await store.clear_session("a", "s")
    await store.delete_agent_memories("a")
    assert found_in(path) == []
    assert await store.list_memories("b") != []
    await store.close()
    assert found_in(path) == []


async def test_a_deleted_memory_and_a_cleared_session_leave_no_byte(path: Path) -> None:
    memory = await MemoryManager.create(MemoryConfig(backend="sqlite", sqlite_path=path))
    wrong = await memory.inject_memory("a", f"{MARK} is an island.")
    await memory.inject_memory("a", "Stays.")
    await memory.delete_memory("a", wrong)
    assert found_in(path) == []
    await memory.store_turn("a", f"{MARK} session", f"to {MARK}", "ok")
    await memory.drain()
    await memory.clear_session("a", f"{MARK} session")
    assert found_in(path) == []
    assert len(await memory.list_memories("a")) == 1
    await memory.close()


async def test_a_reader_of_another_program_delays_the_last_bytes(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("actrone_memory.stores.sqlite.file.shared.WAIT_SECONDS", 0.2)
    monkeypatch.setattr("actrone_memory.stores.sqlite.file.shared.SHORTEST_WAIT_SECONDS", 0.1)
    store = SQLiteStore(path)
    await store.upsert(MemoryEntry(agent_id="a", session_id="s", content=MARK, content_type="fact", embedding=[1.0]))
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM memories").fetchall() == [(1,)]
    await store.delete_agent_memories("a")
    assert await store.list_memories("a") == []
    assert "another reader" in caplog.text
    reader.execute("COMMIT")
    await store.append_turn("b", "s", Turn(session_id="s", user_message="next", assistant_message=""))
    assert found_in(path) == []
    reader.close()
    await store.close()
