"""Summaries: each covers exactly the turns since the last, whoever makes it and however many processes there are."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from actrone_memory import InMemoryStore, MemoryConfig, MemoryEntry, MemoryManager, SQLiteStore, Turn

NOW: dict[str, Any] = {"summarise_cooldown_seconds": 0, "strict_background_errors": True}


class Summaries:
    """A scripted summariser that waits at a gate, as a model far away would."""

    def __init__(self, *, open_gate: bool = True) -> None:
        self.given: list[str] = []
        self.asked, self.gate = threading.Semaphore(0), threading.Event()
        if open_gate:
            self.gate.set()
        self.failing = False

    async def summarise(self, text: str) -> str:
        self.given.append(text)
        self.asked.release()
        await asyncio.to_thread(self.gate.wait, 20)
        if self.failing:
            raise RuntimeError("quota exceeded")
        return f"Summary {len(self.given)}."


async def summaries(memory: MemoryManager) -> list[MemoryEntry]:
    return await memory.list_memories("a", content_types=["summary"])


async def say(memory: MemoryManager, *numbers: int, session: str = "s") -> None:
    for number in numbers:
        await memory.store_turn("a", session, f"question {number}.", f"answer {number}.", turn_id=f"t{number}")


def ids(*numbers: int) -> list[str]:
    return [f"t{number}" for number in numbers]


async def until_asked(summariser: Summaries) -> None:
    assert await asyncio.to_thread(summariser.asked.acquire, timeout=20)


@pytest.mark.parametrize("archive_turns", [True, False])
async def test_turns_that_come_while_a_summary_is_made_are_covered_by_the_next(archive_turns: bool) -> None:
    summariser = Summaries(open_gate=False)
    config = MemoryConfig(archive_turns=archive_turns, summarise_after_turns=3, **NOW)
    memory = await MemoryManager.create(config, summariser=summariser)
    await say(memory, 1, 2, 3)
    await until_asked(summariser)
    await say(memory, 4, 5, 6, 7)
    summariser.gate.set()
    await memory.drain()
    assert sorted(summary.source_turn_ids for summary in await summaries(memory)) == [ids(1, 2, 3), ids(4, 5, 6, 7)]
    await memory.close()


@pytest.mark.parametrize("archive_turns", [True, False])
async def test_a_turn_that_is_not_answered_yet_waits_for_the_next_summary(archive_turns: bool) -> None:
    config = MemoryConfig(archive_turns=archive_turns, summarise_after_turns=2, **NOW)
    memory = await MemoryManager.create(config, summariser=Summaries())
    await memory.store_turns(
        "a",
        "s",
        [
            *(Turn(id=f"t{i}", session_id="s", user_message=f"question {i}.", assistant_message="ok") for i in (1, 2)),
            Turn(id="t3", session_id="s", user_message="question 3.", assistant_message=""),
        ],
    )
    await memory.drain()
    assert [summary.source_turn_ids for summary in await summaries(memory)] == [ids(1, 2)]
    await memory.store_turn("a", "s", "", "answer 3.", continues=True)
    await say(memory, 4)
    await memory.drain()
    assert sorted(summary.source_turn_ids for summary in await summaries(memory)) == [ids(1, 2), ids(3, 4)]
    await memory.close()


async def test_a_turn_that_grows_after_its_summary_is_not_told_twice() -> None:
    summariser = Summaries()
    config = MemoryConfig(archive_turns=False, summarise_after_turns=2, **NOW)
    memory = await MemoryManager.create(config, summariser=summariser)
    await say(memory, 1, 2)
    await memory.drain()
    await memory.store_turn("a", "s", "", "a late word", continues=True)
    await say(memory, 3)
    await memory.drain()
    assert len(await summaries(memory)) == 1
    await say(memory, 4)
    await memory.drain()
    assert sorted(summary.source_turn_ids for summary in await summaries(memory)) == [ids(1, 2), ids(3, 4)]
    await memory.close()


@pytest.mark.parametrize("archive_turns", [True, False])
async def test_turns_stored_in_one_step_are_counted_one_by_one(archive_turns: bool) -> None:
    config = MemoryConfig(archive_turns=archive_turns, summarise_after_turns=5, **NOW)
    memory = await MemoryManager.create(config, summariser=Summaries())
    for first in (0, 3):
        turns = [
            Turn(id=f"t{i}", session_id="s", user_message=f"question {i}.", assistant_message="ok")
            for i in range(first, first + 3)
        ]
        await memory.store_turns("a", "s", turns)
        await memory.drain()
    assert [summary.source_turn_ids for summary in await summaries(memory)] == [ids(*range(6))]
    await memory.close()


async def test_turns_of_many_records_count_once_and_do_not_take_the_lock_early() -> None:
    config = MemoryConfig(summarise_after_turns=3, summarise_cooldown_seconds=300, strict_background_errors=True)
    memory = await MemoryManager.create(config, summariser=Summaries())
    for number in range(1, 4):
        await memory.store_turn("a", "s", f"question {number}.", "", turn_id=f"t{number}")
        for _ in range(4):
            await memory.store_turn("a", "s", "", "a part of the answer", continues=True)
            await memory.drain()
    assert [summary.source_turn_ids for summary in await summaries(memory)] == [ids(1, 2, 3)]
    await memory.close()


@pytest.mark.parametrize("archive_turns", [True, False])
async def test_processes_that_share_a_session_summarise_it_together(tmp_path: Path, archive_turns: bool) -> None:
    config = MemoryConfig(
        backend="sqlite", sqlite_path=tmp_path / "m.db", archive_turns=archive_turns, summarise_after_turns=4, **NOW
    )
    one, other = [await MemoryManager.create(config, summariser=Summaries()) for _ in range(2)]
    for number in range(1, 9):
        memory = (one, other)[number % 2]
        await say(memory, number)
        await memory.drain()
    covered = sorted(summary.source_turn_ids for summary in await summaries(one))
    assert covered == [ids(1, 2, 3, 4), ids(5, 6, 7, 8)]
    await one.close()
    await other.close()


@pytest.mark.parametrize("archive_turns", [True, False])
@pytest.mark.parametrize("last", [0, 1])
async def test_two_processes_that_summarise_at_once_cover_each_turn_once(
    tmp_path: Path, archive_turns: bool, last: int
) -> None:
    config = MemoryConfig(
        backend="sqlite", sqlite_path=tmp_path / "m.db", archive_turns=archive_turns, summarise_after_turns=3, **NOW
    )
    scripts = [Summaries(open_gate=False), Summaries(open_gate=False)]
    managers = [await MemoryManager.create(config, summariser=script) for script in scripts]
    await say(managers[0], 1, 2, 3)
    await until_asked(scripts[0])
    await say(managers[1], 4)
    await until_asked(scripts[1])
    for script, memory in sorted(zip(scripts, managers, strict=True), key=lambda pair: pair[0] is scripts[last]):
        script.gate.set()
        await memory.drain()
    (summary,) = await summaries(managers[0])
    assert summary.source_turn_ids == ids(1, 2, 3, 4)
    await say(managers[0], 5, 6, 7)
    await managers[0].drain()
    assert sorted(summary.source_turn_ids for summary in await summaries(managers[0])) == [
        ids(1, 2, 3, 4),
        ids(5, 6, 7),
    ]
    for memory in managers:
        await memory.close()


async def test_the_lock_lets_one_process_ask_the_model(tmp_path: Path) -> None:
    config = MemoryConfig(backend="sqlite", sqlite_path=tmp_path / "m.db", summarise_after_turns=2)
    scripts = [Summaries(open_gate=False), Summaries()]
    one, other = [await MemoryManager.create(config, summariser=script) for script in scripts]
    await say(one, 1, 2)
    await until_asked(scripts[0])
    await say(other, 3, 4)
    await other.drain()
    scripts[0].gate.set()
    await one.drain()
    assert scripts[1].given == []
    assert len(await summaries(one)) == 1
    await one.close()
    await other.close()


async def test_a_summary_that_failed_is_made_by_the_next_drain() -> None:
    summariser = Summaries()
    summariser.failing = True
    config = MemoryConfig(summarise_after_turns=2, summarise_cooldown_seconds=0)
    memory = await MemoryManager.create(config, summariser=summariser)
    await say(memory, 1, 2)
    await memory.drain()
    assert memory.background_failures
    summariser.failing = False
    await memory.drain()
    assert [summary.source_turn_ids for summary in await summaries(memory)] == [ids(1, 2)]
    await memory.close()


async def test_a_cleared_session_is_summarised_anew_from_its_first_turn() -> None:
    config = MemoryConfig(summarise_after_turns=3, **NOW)
    memory = await MemoryManager.create(config, summariser=Summaries())
    await say(memory, *range(1, 8))
    await memory.drain()
    await memory.clear_session("a", "s")
    await say(memory, 11, 12, 13)
    await memory.drain()
    assert ids(11, 12, 13) in [summary.source_turn_ids for summary in await summaries(memory)]
    await memory.close()


async def test_turns_without_a_word_end_without_a_summary() -> None:
    config = MemoryConfig(archive_turns=False, summarise_after_turns=2, **NOW)
    summariser = Summaries()
    memory = await MemoryManager.create(config, summariser=summariser)
    for _ in range(5):
        await memory.store_turn("a", "s", "", "", metadata={"image": "png"})
    await say(memory, 1)
    await memory.drain()
    assert summariser.given == ["User: question 1.\nAssistant: answer 1."]
    await memory.close()


class TestWithoutAModel:
    CONFIG: ClassVar[dict[str, Any]] = {"archive_turns": False, "summarise_after_turns": 3, **NOW}

    async def test_what_was_asked_and_decided_is_found_when_the_turns_are_gone(self) -> None:
        memory = await MemoryManager.create(MemoryConfig(max_session_turns=2, **self.CONFIG))
        await memory.store_turn("a", "s", "Which database do we take?", "PostgreSQL and MySQL would do.")
        await memory.store_turn("a", "s", "We go with PostgreSQL 16.", "Noted, ticket OPS-4711.")
        await memory.store_turn("a", "s", "Thanks!", "You are welcome.")
        await memory.drain()
        await memory.store_turn("a", "s", "And now lunch.", "Enjoy.")
        (summary,) = await summaries(memory)
        assert "Which database do we take?" in summary.content
        assert "We go with PostgreSQL 16." in summary.content
        assert "OPS-4711" in summary.content
        assert len(summary.source_turn_ids) == 3
        context = await memory.retrieve_context("a", "later", "which database was chosen?", 2_000)
        assert [entry.id for entry in context.episodic_memories] == [summary.id]
        await memory.close()

    @pytest.mark.parametrize("change", [{"archive_turns": True}, {"auto_summarise": False}], ids=str)
    async def test_nothing_is_summarised_where_nobody_asked_for_it(self, change: dict[str, bool]) -> None:
        memory = await MemoryManager.create(MemoryConfig(**{**self.CONFIG, **change}))
        await say(memory, *range(1, 8))
        await memory.drain()
        assert await summaries(memory) == []
        await memory.close()

    async def test_a_model_is_asked_where_there_is_one(self) -> None:
        summariser = Summaries()
        memory = await MemoryManager.create(MemoryConfig(**self.CONFIG), summariser=summariser)
        await say(memory, 1, 2, 3)
        await memory.drain()
        assert [summary.content for summary in await summaries(memory)] == ["Summary 1."]
        await memory.close()

    async def test_an_erasure_leaves_no_summary_of_what_was_said_before(self) -> None:
        memory = await MemoryManager.create(MemoryConfig(**self.CONFIG))
        await say(memory, 1, 2)
        await memory.erase_agent_memories("a")
        await say(memory, 3, 4, 5)
        await memory.drain()
        assert [summary.source_turn_ids for summary in await summaries(memory)] == [ids(3, 4, 5)]
        await memory.close()


async def test_any_store_gets_its_summaries(tmp_path: Path) -> None:
    stores = [InMemoryStore(), SQLiteStore(tmp_path / "m.db")]
    contents = []
    for store in stores:
        memory = await MemoryManager.create(
            MemoryConfig(archive_turns=False, summarise_after_turns=2, **NOW), l1=store, l2=store
        )
        await say(memory, 1, 2)
        await memory.drain()
        contents.append([summary.content for summary in await summaries(memory)])
        await memory.close()
    assert contents[0] == contents[1] != []
