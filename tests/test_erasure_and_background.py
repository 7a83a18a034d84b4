"""Erasure that stays erased, and background work that neither loses nor repeats anything."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from watching import settled_threads

from actrone_memory import (
    ActroneMemoryError,
    ConfigurationError,
    ExtractedFact,
    HashingEmbedder,
    InMemoryStore,
    MemoryConfig,
    MemoryManager,
    Turn,
)


class Slow(HashingEmbedder):
    """Waits at the gate before it embeds a batch, as a remote model would."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.gate = threading.Event(), threading.Event()

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        self.entered.set()
        await asyncio.to_thread(self.gate.wait, 10)
        return await super().embed_batch(texts)


class Summaries:
    """A scripted summariser that remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.answer: str | None = "A summary."

    async def summarise(self, text: str) -> str:
        self.given.append(text)
        if self.answer is None:
            raise RuntimeError("quota exceeded")
        return f"{self.answer} {len(self.given)}"


async def everything(memory: MemoryManager, agent: str = "a") -> list[str]:
    entries = await memory.list_memories(
        agent, content_types=["turn", "summary", "injected", "fact", "tool_result"], include_superseded=True
    )
    return [entry.content for entry in entries]


@pytest.mark.parametrize("count", [1, 3_000])
async def test_all_of_one_agent_is_erased_and_nothing_of_another(count: int) -> None:
    memory = await MemoryManager.create()
    for i in range(count):
        await memory.inject_memory("a", f"Memory {i} of a.")
    old = await memory.inject_memory("a", "Old version.")
    await memory.inject_memory("a", "New version.", supersedes=old)
    await memory.store_turn("a", "s", "a question", "an answer")
    await memory.inject_memory("b", "Memory of b.")
    await memory.drain()
    await memory.erase_agent_memories("a")
    assert await everything(memory) == []
    assert await everything(memory, "b") == ["Memory of b."]
    assert len(await memory.get_recent_turns("a", "s")) == 1
    await memory.close()


async def test_erasing_clears_the_named_session_or_every_session(memory: MemoryManager) -> None:
    for session in ("one", "two", "three"):
        await memory.store_turn("a", session, "hello", "hi")
    await memory.erase_agent_memories("a", session_id="one")
    assert [m.session_id for m in await memory.list_sessions("a")] != []
    assert {m.session_id for m in await memory.list_sessions("a")} == {"two", "three"}
    await memory.erase_agent_memories("a", all_sessions=True)
    assert await memory.list_sessions("a") == []


async def test_an_erasure_with_a_bad_session_deletes_nothing(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Stays.")
    with pytest.raises(ActroneMemoryError):
        await memory.erase_agent_memories("a", session_id=" ")
    assert await everything(memory) == ["Stays."]


async def test_an_archive_write_under_way_brings_nothing_back() -> None:
    embedder = Slow()
    memory = await MemoryManager.create(embedder=embedder)
    await memory.store_turn("a", "s", "a secret", "ok")
    await asyncio.to_thread(embedder.entered.wait, 10)
    await memory.erase_agent_memories("a")
    embedder.gate.set()
    await memory.drain()
    assert await everything(memory) == []
    await memory.store_turn("a", "s", "", "late words of the erased turn", continues=True)
    await memory.store_turn("a", "s", "a new question", "ok")
    await memory.drain()
    assert "secret" not in " ".join(await everything(memory))
    assert "a new question" in " ".join(await everything(memory))
    await memory.close()


async def test_a_session_cleared_while_it_is_archived_stays_cleared() -> None:
    embedder = Slow()
    memory = await MemoryManager.create(embedder=embedder)
    await memory.store_turn("a", "s", "a secret", "ok")
    await memory.store_turn("a", "other", "no secret", "ok")
    await asyncio.to_thread(embedder.entered.wait, 10)
    await memory.clear_session("a", "s")
    embedder.gate.set()
    await memory.drain()
    assert await everything(memory) == ["User: no secret\nAssistant: ok"]
    await memory.close()


async def test_facts_extracted_during_an_erasure_are_not_written() -> None:
    class Extractor:
        async def extract(self, text: str) -> list[ExtractedFact]:
            await memory.erase_agent_memories("a")
            return [ExtractedFact(content="a leaked fact")]

    memory = await MemoryManager.create(extractor=Extractor())
    await memory.store_turn("a", "s", "a secret", "ok")
    assert await memory.extract_memories("a", "s") == []
    assert await everything(memory) == []
    await memory.close()


async def test_each_turn_is_summarised_once() -> None:
    summariser = Summaries()
    config = MemoryConfig(summarise_after_turns=5, summarise_cooldown_seconds=0, strict_background_errors=True)
    memory = await MemoryManager.create(config, summariser=summariser)
    for i in range(17):
        await memory.store_turn("a", "s", f"question {i}.", f"answer {i}.")
        await memory.drain()
    assert [text.count("User: ") for text in summariser.given] == [5, 5, 5]
    told = " ".join(summariser.given)
    assert all(told.count(f"question {i}.") == 1 for i in range(15))
    summaries = await memory.list_memories("a", content_types=["summary"])
    assert [len(summary.source_turn_ids) for summary in summaries] == [5, 5, 5]
    await memory.close()


async def test_a_window_smaller_than_a_summary_loses_no_turn() -> None:
    summariser = Summaries()
    config = MemoryConfig(max_session_turns=3, summarise_after_turns=8, summarise_cooldown_seconds=0)
    memory = await MemoryManager.create(config, summariser=summariser)
    for i in range(8):
        await memory.store_turn("a", "s", f"question {i}.", "ok")
    await memory.drain()
    assert [text.count("User: ") for text in summariser.given] == [8]
    await memory.close()


async def test_without_archiving_turns_wait_for_their_summary() -> None:
    summariser = Summaries()
    config = MemoryConfig(
        archive_turns=False, max_session_turns=3, summarise_after_turns=8, summarise_cooldown_seconds=0
    )
    memory = await MemoryManager.create(config, summariser=summariser)
    for i in range(16):
        await memory.store_turn("a", "s", f"question {i}.", "ok")
        await memory.drain()
    assert [text.count("User: ") for text in summariser.given] == [8, 8]
    assert await memory.list_memories("a", content_types=["turn"]) == []
    await memory.close()


async def test_the_cooldown_collects_turns_into_a_later_summary() -> None:
    summariser = Summaries()
    config = MemoryConfig(summarise_after_turns=2, summarise_cooldown_seconds=300)
    memory = await MemoryManager.create(config, summariser=summariser)
    for i in range(9):
        await memory.store_turn("a", "s", f"question {i}.", "ok")
        await memory.drain()
    assert [text.count("User: ") for text in summariser.given] == [2]
    await memory.close()


async def test_a_summary_whose_turns_are_all_in_the_context_is_left_out() -> None:
    store = InMemoryStore()
    config = MemoryConfig(summarise_after_turns=2, summarise_cooldown_seconds=0)
    memory = await MemoryManager.create(config, l1=store, l2=store, summariser=Summaries())
    await memory.store_turn("a", "s", "tell me about tools", "ok")
    await memory.store_turn("a", "s", "and more", "ok")
    await memory.drain()
    assert (await memory.retrieve_context("a", "s", "summary", 800)).episodic_memories == []
    no_turns = MemoryConfig(budget_fraction_session=0.0, budget_fraction_episodic=0.6)
    other = await MemoryManager.create(no_turns, l1=store, l2=store)
    context = await other.retrieve_context("a", "s", "summary", 800)
    assert [m.content_type for m in context.episodic_memories] == ["summary"]
    await other.close()
    await memory.close()


@pytest.mark.parametrize("answer", [None, " ", 7])
async def test_a_summariser_that_fails_costs_no_turn_and_is_seen(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    summariser = Summaries()
    config = MemoryConfig(summarise_after_turns=1, summarise_cooldown_seconds=0, strict_background_errors=True)
    memory = await MemoryManager.create(config, summariser=summariser)

    async def rubbish(text: str) -> object:
        if answer is None:
            raise RuntimeError("quota exceeded")
        return answer

    working, summariser.summarise = summariser.summarise, rubbish  # type: ignore[method-assign, assignment]
    await memory.store_turn("a", "s", "kept", "ok")
    with caplog.at_level(logging.ERROR), pytest.raises(ActroneMemoryError, match="summariser"):
        await memory.drain()
    assert "summariser" in caplog.text
    assert memory.background_failures in {1, 2}  # with the turn, and by `drain`, which tries again
    assert len(await memory.list_memories("a", content_types=["turn"])) == 1
    summariser.summarise = working  # type: ignore[method-assign]
    await memory.store_turn("a", "s", "next", "ok")
    await memory.drain()
    assert len(await memory.list_memories("a", content_types=["summary"])) == 1
    await memory.close()


async def test_extracted_facts_are_stored_once_with_their_sensitivity() -> None:
    class Extractor:
        async def extract(self, text: str) -> list[ExtractedFact]:
            assert "User: I live in Lyon" in text
            return [
                ExtractedFact(content="The user lives in Lyon.", sensitivity="pii", topic_tags=["home"]),
                ExtractedFact(content="the user lives in  lyon."),
            ]

    memory = await MemoryManager.create(extractor=Extractor())
    assert await memory.extract_memories("a", "empty") == []
    await memory.store_turn("a", "s", "I live in Lyon", "Nice.")
    (fact_id,) = await memory.extract_memories("a", "s")
    assert await memory.extract_memories("a", "s", 1) == [fact_id]
    (entry,) = await memory.list_memories("a")
    assert (entry.content_type, entry.source) == ("fact", "extracted")
    assert entry.topic_tags == ["home"]
    await memory.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (RuntimeError("down"), "down"),
        (None, "facts: must be a list, not NoneType"),
        ("text", "facts: must be a list, not str"),
        ({"facts": []}, "facts: must be a list, not dict"),
        ([1, 2], r"facts\[0\]: must be an ExtractedFact, not int"),
        ([{"content": "\ud800"}], r"facts\[0\].content: contains a lone surrogate"),
        ([{"content": "fine"}, {"content": ["Ann's PIN is 4711"]}], r"facts\[1\].content: Input should be"),
        ([{"content": "Ann's PIN is 4711", "sensitivity": "4711"}], r"facts\[0\].sensitivity: Input should be"),
        ([ExtractedFact.model_construct(content="Ann's PIN is 4711", topic_tags=None)], r"facts\[0\].topic_tags: "),
        ([ExtractedFact.model_construct(topic_tags=[])], r"facts\[0\].content: Field required"),
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_an_extractor_that_fails_costs_facts_only(
    answer: object, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Extractor:
        async def extract(self, text: str) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

    memory = await MemoryManager.create(extractor=Extractor())
    await memory.store_turn("a", "s", "kept", "ok")
    assert await memory.extract_memories("a", "s") == []
    assert memory.background_failures == 1
    assert len(await memory.get_recent_turns("a", "s")) == 1
    assert re.search(f"Extracting facts failed: {said}", caplog.text)
    assert "4711" not in caplog.text
    await memory.close()


async def test_extraction_without_an_extractor_says_what_to_do(memory: MemoryManager) -> None:
    with pytest.raises(ConfigurationError, match="extractor"):
        await memory.extract_memories("a", "s")


async def test_turns_survive_the_loop_that_stored_them() -> None:
    store = InMemoryStore()

    def one_loop(text: str) -> None:
        async def run() -> None:
            memory = await MemoryManager.create(l1=store, l2=store)
            await memory.store_turn("a", "s", text, "ok")
            managers.append(memory)

        asyncio.run(run())

    managers: list[MemoryManager] = []
    await asyncio.to_thread(one_loop, "stored in a loop that is closed")
    await managers[0].drain()
    assert len(await managers[0].list_memories("a", content_types=["turn"])) == 1
    await managers[0].close()


async def test_closing_gives_up_after_the_grace_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    embedder = Slow()
    memory = await MemoryManager.create(MemoryConfig(shutdown_grace_seconds=0.1), embedder=embedder)
    await memory.store_turn("a", "s", "never archived", "ok")
    with caplog.at_level(logging.ERROR):
        closing = asyncio.create_task(memory.close())
        await asyncio.sleep(0.3)
        embedder.gate.set()
        await closing
    assert "not archived" in caplog.text


async def test_closing_works_off_the_queue_and_leaves_no_thread() -> None:
    store = InMemoryStore()
    before = settled_threads()
    for i in range(50):
        memory = await MemoryManager.create(l1=store, l2=store)
        await memory.store_turn("a", f"s{i}", f"number {i}", "ok")
        await memory.close()
        await memory.close()
    assert len(await store.list_memories("a", content_types=["turn"])) == 50
    assert threading.active_count() == before


async def test_closing_does_not_wait_for_an_embedder_that_blocks_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    released = threading.Event()

    class Blocking(HashingEmbedder):
        async def embed_batch(self, texts: list[str]) -> list[list[float]]:
            released.wait(30)
            return await super().embed_batch(texts)

    memory = await MemoryManager.create(MemoryConfig(shutdown_grace_seconds=0.1), embedder=Blocking())
    await memory.store_turn("a", "s", "stuck", "ok")
    with caplog.at_level(logging.ERROR):
        await memory.close()
    assert not released.is_set()
    assert "does not let go of its thread" in caplog.text
    released.set()


def test_no_thread_is_left_when_the_interpreter_ends(tmp_path: Path) -> None:
    script = tmp_path / "exits.py"
    script.write_text(
        "import atexit, threading\n"
        "alive = lambda: [thread.name for thread in threading.enumerate() if 'actrone' in thread.name]\n"
        "atexit.register(lambda: print('alive at the end:', alive()))  # the first registered runs last\n"
        "import asyncio\n"
        "from actrone_memory import MemoryManager, SyncMemoryManager\n"
        "memory = asyncio.run(MemoryManager.create())\n"
        "asyncio.run(memory.store_turn('a', 's', 'hello', 'there'))\n"
        "plain = SyncMemoryManager.create()\n"
        "plain.store_turn('a', 's', 'hello', 'there')\n"
        "print('alive before:', len(alive()))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("alive before: 3\nalive at the end: []\n", "")


# --- many turns at once -----------------------------------------------------------------------------------------------


async def test_a_long_transcript_is_archived_whole(tmp_path: Path) -> None:
    config = MemoryConfig(backend="sqlite", sqlite_path=tmp_path / "memory.db", embedding_provider="hashing")
    memory = await MemoryManager.create(config)
    items = [Turn(session_id="s", user_message=f"Item {n}.", assistant_message="") for n in range(1_200)]
    await memory.store_turns("a", "s", items)
    await memory.drain()
    assert len(await memory.list_memories("a", content_types=["turn"])) == 1_200
    await memory.close()


async def test_turns_that_come_faster_than_they_are_archived_are_not_given_up() -> None:
    embedder = Slow()
    memory = await MemoryManager.create(MemoryConfig(), embedder=embedder)

    async def tell() -> None:
        for number in range(1_200):
            await memory.store_turn("a", "s", f"Item {number}.", "")

    telling = asyncio.create_task(tell())
    await asyncio.sleep(0.5)
    assert not telling.done()
    embedder.gate.set()
    await telling
    await memory.drain()
    assert len(await memory.list_memories("a", content_types=["turn"])) == 1_200
    await memory.close()
