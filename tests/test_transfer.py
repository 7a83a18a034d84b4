"""An agent's memory as lines and back: complete, exact, and all or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tiers
from tiers import MakeTiers, Tiers

from actrone_memory import (
    ConfigurationError,
    HashingEmbedder,
    InMemoryStore,
    MemoryConfig,
    MemoryEntry,
    MemoryManager,
    StaticEmbedder,
    SyncMemoryManager,
    ToolResult,
    Turn,
    ValidationError,
)


@pytest.fixture(params=tiers.KINDS)
def new_tiers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeTiers]:
    """Makes empty tiers of one kind, five turns to a session."""
    with tiers.of(request.param, tmp_path, 5) as make:
        yield make


async def manager(tiers: Tiers, **parts: object) -> MemoryManager:
    return await MemoryManager.create(MemoryConfig(strict_background_errors=True), l1=tiers.l1, l2=tiers.l2, **parts)


async def filled(tiers: Tiers) -> MemoryManager:
    """Every kind of thing that can be in a memory."""
    memory = await manager(tiers)
    result = ToolResult(tool_name="grep", params={"q": "x\u2028y"}, result=[1, None], success=False, duration_ms=3)
    for i in range(8):
        when = datetime(2024, 5, i + 1, 12, tzinfo=UTC)
        await memory.store_turn("a", "long", f"question {i} 日本 \u2029", "", [result], {"k": [i]}, f"t{i}", when)
        await memory.store_turn("a", "long", "", f"answer {i}", continues=True)
    await memory.store_turn("a", "erased", "a secret", "ok")
    await memory.drain()
    await tiers.l1.mark_erased("a")
    await memory.store_turn("a", "short", "hello", "hi")
    await memory.drain()
    old = await memory.inject_memory("a", "Refunds take ten days.", 0.9, topic_tags=["money"], sensitivity="low")
    await memory.inject_memory("a", "Refunds take three days.", supersedes=old)
    await memory.inject_memory("a", "Tests run with Jest.")
    await memory.inject_memory("a", "We moved from Jest to Vitest.")
    await memory.inject_memory("a", "数据库迁移必须可回滚")
    await tiers.l2.upsert(
        MemoryEntry(
            agent_id="a",
            session_id="long",
            content="A summary.",
            content_type="summary",
            embedding=(await memory._embedder.embed("A summary.")),
            source_turn_ids=["t0", "t1"],
            sequence=3,
            metadata={"n": 1.5},
        )
    )
    await memory.inject_memory("b", "Of another agent.")
    return memory


async def exported(memory: MemoryManager, agent: str = "a") -> list[str]:
    return [line async for line in memory.export_agent(agent)]


async def test_a_round_trip_is_exact(new_tiers: MakeTiers) -> None:
    memory, other_tiers = await filled(new_tiers()), new_tiers()
    lines = await exported(memory)
    other = await manager(other_tiers)
    imported = await other.import_agent(lines)
    await other.drain()
    assert (imported.sessions, imported.records) == (3, 12)
    assert imported.memories == sum('"kind":"memory"' in line for line in lines)
    assert await exported(other) == lines
    for ask in (
        lambda m: m.list_memories("a", include_superseded=True),
        lambda m: m.list_memories("a", content_types=["turn"]),
        lambda m: m.get_recent_turns("a", "long"),
        lambda m: m.list_sessions("a"),
        lambda m: m.search_memories("a", "how are tests run"),
        lambda m: m.search_memories("a", "question 2", content_types=["turn"]),
    ):
        assert await ask(other) == await ask(memory)
    assert await other_tiers.l1.unarchived("a", "erased") == []
    assert await other.list_memories("b") == []
    await memory.close()
    await other.close()


@pytest.mark.parametrize("kind", ["sqlite", "redis_qdrant"])
async def test_every_backend_exports_the_same_lines(tmp_path: Path, kind: str) -> None:
    store = InMemoryStore(5)
    memory = await filled(Tiers(store, store))
    lines = await exported(memory)
    with tiers.of(kind, tmp_path, 5) as new_tiers:
        other = await manager(new_tiers())
        await other.import_agent(lines)
        assert await exported(other) == lines
        await other.close()
    await memory.close()


async def test_a_line_is_one_line_for_every_reader_of_lines(new_tiers: MakeTiers) -> None:
    memory = await filled(new_tiers())
    lines = await exported(memory)
    assert "\n".join(lines).splitlines() == lines
    assert [json.loads(line)["kind"] for line in lines][:2] == ["agent", "session"]
    await memory.close()


async def test_an_import_goes_on_where_the_exported_agent_was(new_tiers: MakeTiers) -> None:
    memory, other = await filled(new_tiers()), await manager(new_tiers())
    await other.import_agent(await exported(memory))
    await other.store_turn("a", "long", "again", "ok", turn_id="t0")  # trimmed long ago, and still known
    await other.store_turn("a", "long", "", "A late word.", continues=True)
    turns = await other.get_recent_turns("a", "long")
    assert [turn.user_message[:10] for turn in turns] == [f"question {i}" for i in range(3, 8)]
    assert turns[-1].assistant_message == "answer 7\n\nA late word."
    await other.drain()
    archived = await other.list_memories("a", content_types=["turn"])
    assert sum("A late word." in entry.content for entry in archived) == 1
    await memory.close()
    await other.close()


async def test_turns_that_waited_for_the_archive_are_archived_after_the_import(new_tiers: MakeTiers) -> None:
    made = new_tiers()
    turn = Turn(session_id="s", user_message="the mascot is a heron", assistant_message="ok")
    await made.l1.append_turns("a", "s", [turn], hold=True)
    memory = await MemoryManager.create(MemoryConfig(archive_turns=False), l1=made.l1, l2=made.l2)
    lines = await exported(memory)
    other = await manager(new_tiers())
    await other.import_agent(lines)
    await other.drain()
    assert ["heron" in entry.content for entry in await other.list_memories("a", content_types=["turn"])] == [True]
    await memory.close()
    await other.close()


async def test_the_same_import_again_changes_nothing(new_tiers: MakeTiers) -> None:
    memory, other = await filled(new_tiers()), await manager(new_tiers())
    lines = await exported(memory)
    for _ in range(2):
        await other.import_agent(lines)
    assert await exported(other) == lines
    await memory.close()
    await other.close()


async def test_a_copy_for_another_agent_lives_beside_the_first(new_tiers: MakeTiers) -> None:
    memory = await filled(new_tiers())
    before = await exported(memory)
    await memory.import_agent(before, "copy")
    assert await exported(memory) == before
    listed = [await memory.list_memories(agent, include_superseded=True) for agent in ("a", "copy")]
    assert [entry.content for entry in listed[1]] == [entry.content for entry in listed[0]]
    assert not {entry.id for entry in listed[0]} & {entry.id for entry in listed[1]}
    known = {entry.id for entry in listed[1]}
    assert {entry.superseded_by for entry in listed[1]} <= {*known, None}
    # Ids follow from the agent and the text: the same fact again is the same memory.
    again = await memory.inject_memory("copy", "数据库迁移必须可回滚")
    assert again in known
    (vitest,) = (entry for entry in listed[1] if "Vitest" in entry.content)
    await memory.delete_memory("copy", vitest.id)
    assert "Tests run with Jest." in [entry.content for entry in await memory.list_memories("copy")]
    await memory.close()


async def test_vectors_of_another_embedder_are_made_anew(new_tiers: MakeTiers) -> None:
    memory, other = await filled(new_tiers()), await manager(new_tiers(), embedder=HashingEmbedder(64))
    await other.import_agent(await exported(memory))
    found = await other.search_memories("a", "vitest")
    assert "We moved from Jest to Vitest." in [entry.content for entry in found]
    vectors = [json.loads(line).get("vector") for line in await exported(other) if '"kind":"memory"' in line]
    assert {len(vector) for vector in vectors if vector} == {344}  # 64 floats as base64
    await memory.close()
    await other.close()


def cut(lines: list[str]) -> list[str]:
    return lines[:-1]


def without_a_record(lines: list[str]) -> list[str]:
    return [line for line in lines if '"answer 7"' not in line]


CHANGES: dict[str, tuple[Callable[[list[str]], list[object]], str]] = {
    "empty": (lambda lines: [], "line 1: the end is missing"),
    "cut off": (cut, "the end is missing"),
    "a line too few": (without_a_record, "lines were exported"),
    "no JSON": (lambda lines: [*lines[:2], "{", *lines[2:]], "line 3: is no JSON"),
    "no object": (lambda lines: [*lines[:2], "[1]", *lines[2:]], "line 3: is of no known kind"),
    "no text": (lambda lines: [*lines[:2], b"{}", *lines[2:]], "line 3: must be text"),
    "unknown": (lambda lines: [*lines[:4], '{"kind":"spell"}', *lines[4:]], "line 5: is of no known kind: 'spell'"),
    "headless": (lambda lines: lines[1:], "line 1: an export begins"),
    "of the future": (lambda lines: [lines[0].replace('"format":1', '"format":9'), *lines[1:]], "line 1: .*upgrade"),
    "twice": (lambda lines: lines * 2, "an export begins with one line"),
    "a bad turn": (lambda lines: [line.replace('"t5"', "5") for line in lines], "record.*id"),
    "a bad id": (lambda lines: [line.replace('"t5"', '" "') for line in lines], "blank"),
    "a gap": (
        lambda lines: [re.sub(r'(true,"sequence":\d+)', r"\g<1>9", line) for line in lines],
        "does not follow",
    ),
    "a bad mark": (
        lambda lines: [re.sub(r'("archived":\d+)', r"\g<1>9", line) for line in lines],
        "a mark lies behind",
    ),
    "a bad vector": (lambda lines: [line.replace('"vector":"', '"vector":"?') for line in lines], "base64"),
    "a short vector": (lambda lines: [shortened(line) for line in lines], "embedder"),
    "a bad entry": (lambda lines: [line.replace('"summary"', '"poem"') for line in lines], "content_type"),
    "another's": (
        lambda lines: [line.replace('"agent_id":"a","sess', '"agent_id":"z","sess') for line in lines],
        "'z'",
    ),
}


def shortened(line: str) -> str:
    data = json.loads(line)
    return line.replace(data["vector"], data["vector"][:16]) if data.get("vector") else line


@pytest.mark.parametrize(("change", "says"), CHANGES.values(), ids=CHANGES)
async def test_a_malformed_import_names_its_lines_and_brings_nothing(
    change: Callable[[list[str]], list[object]], says: str, new_tiers: MakeTiers
) -> None:
    memory, other = await filled(new_tiers()), await manager(new_tiers())
    lines = await exported(memory)
    changed = change(lines)
    assert changed != lines
    with pytest.raises(ValidationError, match=says) as error:
        await other.import_agent(changed)  # type: ignore[arg-type]
    assert error.value.field == "lines"
    assert await other.list_sessions("a") == []
    assert await other.list_memories("a", content_types=["turn", "fact", "injected", "summary"]) == []
    await memory.close()
    await other.close()


@pytest.mark.parametrize("lines", [None, 7, "a text", b"bytes"])
async def test_what_are_no_lines_is_refused(lines: object, memory: MemoryManager) -> None:
    with pytest.raises(ValidationError, match="lines"):
        await memory.import_agent(lines)  # type: ignore[arg-type]


async def test_another_session_of_the_same_name_is_not_overwritten(new_tiers: MakeTiers) -> None:
    memory, other = await filled(new_tiers()), await manager(new_tiers())
    await other.store_turn("a", "long", "mine", "ok")
    await other.drain()
    before = await exported(other)
    with pytest.raises(ValidationError, match="another session 'long'"):
        await other.import_agent(await exported(memory))
    assert await exported(other) == before
    await memory.close()
    await other.close()


async def test_lines_may_come_from_a_file_or_from_an_async_source(new_tiers: MakeTiers, tmp_path: Path) -> None:
    memory = await filled(new_tiers())
    lines = await exported(memory)
    path = tmp_path / "export.jsonl"
    path.write_text("\n".join(lines) + "\n\n", "utf-8")
    one, other = await manager(new_tiers()), await manager(new_tiers())
    with path.open(encoding="utf-8") as file:
        await one.import_agent(file)

    async def source() -> AsyncIterator[str]:
        for line in lines:
            yield line

    await other.import_agent(source())
    assert await exported(one) == await exported(other) == lines
    for each in (memory, one, other):
        await each.close()


def test_plain_calls_export_and_import_too(tmp_path: Path) -> None:
    with SyncMemoryManager.create(MemoryConfig(backend="sqlite", sqlite_path=tmp_path / "one.db")) as memory:
        memory.inject_memory("a", "Plain.")
        lines = list(memory.export_agent("a"))
    with SyncMemoryManager.create() as other:
        assert other.import_agent(lines).memories == 1
        assert list(other.export_agent("a")) == lines


async def test_an_unknown_agent_exports_as_nothing(memory: MemoryManager) -> None:
    lines = await exported(memory, "nobody")
    assert [json.loads(line)["kind"] for line in lines] == ["agent", "end"]
    with pytest.raises(ValidationError, match="agent_id"):
        memory.export_agent(" ")


async def test_a_store_that_cannot_copy_says_what_is_missing() -> None:
    class Foreign:
        """Only the documented methods of an L2Store."""

        def __init__(self) -> None:
            store = InMemoryStore()
            for name in ("upsert", "search", "delete", "delete_agent_memories", "close"):
                setattr(self, name, getattr(store, name))

    memory = await MemoryManager.create(l2=Foreign())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="memory_ids"):
        await exported(memory)
    with pytest.raises(ConfigurationError, match="begin_reindex"):
        await MemoryManager.reindex(l2=Foreign())  # type: ignore[arg-type]
    await memory.close()


async def test_a_name_of_an_embedder_stands_in_the_first_line(memory: MemoryManager) -> None:
    (first, _) = await exported(memory)
    assert json.loads(first)["embedder"] == {"name": StaticEmbedder().name, "dimensions": StaticEmbedder().dimensions}
