"""Masked reads: a memory of a masked sensitivity shows that it is there, and nothing of what it says."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actrone_memory import (
    InMemoryStore,
    MemoryConfig,
    MemoryManager,
    QdrantStore,
    RetrievedContext,
    SQLiteStore,
    SyncMemoryManager,
)
from actrone_memory.models import MaskedSensitivity, MemoryEntry, Sensitivity
from actrone_memory.tokens import heuristic_tokens

SECRET = "Zyxwvut 555-0199"
BOTH: list[Sensitivity] = ["pii", "sensitive"]


async def filled(memory: MemoryManager) -> dict[str, str]:
    """Some memories about telephones, one of each sensitivity; ids by sensitivity."""
    return {
        level: await memory.inject_memory(
            "a", f"The telephone of the {level} team is {SECRET}.", topic_tags=[f"{SECRET} tag"], sensitivity=level
        )
        for level in ("none", "low", "pii", "sensitive")
    }


@pytest.fixture(params=["memory", "sqlite", "qdrant"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "qdrant":
        pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")
    l1 = InMemoryStore()
    l2 = {
        "memory": lambda: l1,
        "sqlite": lambda: SQLiteStore(tmp_path / "m.db"),
        "qdrant": lambda: QdrantStore(":memory:"),
    }
    manager = await MemoryManager.create(l1=l1, l2=l2[request.param]())
    yield manager
    await manager.close()


async def test_what_is_masked_says_that_it_is_there_and_nothing_else(memory: MemoryManager) -> None:
    ids = await filled(memory)
    plain = {entry.id: entry for entry in await memory.search_memories("a", "telephone")}
    found = {entry.id: entry for entry in await memory.search_memories("a", "telephone", redact_sensitivity=BOTH)}
    assert list(found) == list(plain)
    for level in ("none", "low"):
        assert found[ids[level]] == plain[ids[level]]
    for level in BOTH:
        masked, entry = found[ids[level]], plain[ids[level]]
        assert masked.content == f"[redacted: {level}]"
        assert masked.token_count == heuristic_tokens(masked.content)
        assert (masked.topic_tags, masked.embedding, masked.metadata, masked.score_parts) == ([], None, {}, None)
        kept = ("content_type", "timestamp", "score", "importance_score", "sensitivity", "session_id")
        assert [getattr(masked, name) for name in kept] == [getattr(entry, name) for name in kept]


async def test_every_read_masks_and_nothing_stored_changes(memory: MemoryManager) -> None:
    await filled(memory)
    before = await memory.list_memories("a")
    every: list[Sensitivity] = ["low", "pii", "sensitive"]
    context = await memory.retrieve_context("a", "s", "telephone", 2_000, redact_sensitivity=every)
    listed = await memory.list_memories("a", redact_sensitivity=every)
    found = await memory.search_memories("a", "telephone", redact_sensitivity=every)
    for entries in (context.episodic_memories, listed, found):
        assert sorted(SECRET in entry.model_dump_json() for entry in entries) == [False, False, False, True]
    assert await memory.list_memories("a") == before


async def test_what_is_rendered_and_charged_is_what_comes_back(memory: MemoryManager) -> None:
    await memory.inject_memory("a", f"The telephone number is {SECRET}. " + "More of it. " * 40, sensitivity="pii")
    await memory.inject_memory("a", "The telephone rings in room 4.")
    plain = await memory.retrieve_context("a", "s", "telephone", 800)
    context = await memory.retrieve_context("a", "s", "telephone", 800, redact_sensitivity=["pii"])
    assert {entry.content for entry in context.episodic_memories} == {
        "[redacted: pii]",
        "The telephone rings in room 4.",
    }
    assert context.total_tokens_used == heuristic_tokens(context.render()) < plain.total_tokens_used
    assert "- [redacted: pii]\n" in context.render()
    assert SECRET not in context.render() + context._repr_html_() + repr(context)
    assert context.dropped.memories == 0


async def test_a_call_goes_before_the_setting() -> None:
    memory = await MemoryManager.create(MemoryConfig(redact_sensitivity=["pii"]))
    await filled(memory)

    async def masked(levels: list[Sensitivity] | None) -> set[str]:
        entries = await memory.search_memories("a", "telephone", redact_sensitivity=levels)
        return {entry.sensitivity for entry in entries if SECRET not in entry.content}

    assert await masked(None) == {"pii"}
    assert await masked([]) == set()
    assert await masked(["low", "sensitive"]) == {"low", "sensitive"}
    await memory.close()


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        ("pii", ("pii",)),
        ("pii, sensitive", ("pii", "sensitive")),
        ('["low","pii"]', ("low", "pii")),
        ("", ()),
        ("[]", ()),
        (["sensitive"], ("sensitive",)),
        (("low",), ("low",)),
        ({"pii"}, ("pii",)),
    ],
)
def test_the_setting_is_a_list_in_any_manner(
    given: object, levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MemoryConfig(redact_sensitivity=given).redact_sensitivity == levels  # type: ignore[arg-type]
    if isinstance(given, str):
        monkeypatch.setenv("ACTRONE_REDACT_SENSITIVITY", given)
        assert MemoryConfig().redact_sensitivity == levels


async def test_why_a_memory_was_replaced_does_not_quote_a_masked_one() -> None:
    memory = await MemoryManager.create()
    old = await memory.inject_memory("a", "Unit tests run with Jest.")
    await memory.inject_memory("a", "We moved from Jest to Vitest for unit tests.", sensitivity="sensitive")
    listed = {e.id: e for e in await memory.list_memories("a", include_superseded=True)}
    assert "Jest" in str(listed[old].metadata["superseded_because"])
    masked = await memory.list_memories("a", include_superseded=True, redact_sensitivity=["sensitive"])
    assert {e.id: e.metadata for e in masked}[old] == {"superseded_because": "[redacted]"}
    of_others = await memory.list_memories("a", include_superseded=True, redact_sensitivity=["pii"])
    assert {e.id: e for e in of_others} == listed
    await memory.close()


async def test_a_masked_memory_that_was_replaced_says_nothing_either() -> None:
    memory = await MemoryManager.create()
    await memory.inject_memory("a", "The vault opens with Jest.", sensitivity="sensitive")
    await memory.inject_memory("a", "The vault no longer opens with Jest.")
    (old, _) = await memory.list_memories("a", include_superseded=True, redact_sensitivity=["sensitive"])
    assert "Jest" not in old.model_dump_json()
    await memory.close()


async def test_a_reranker_and_an_excerpt_of_the_best_memory_change_nothing() -> None:
    class Backwards:
        async def rerank(self, query: str, texts: list[str]) -> list[float]:
            return [float(i) for i in range(len(texts))]

    memory = await MemoryManager.create(MemoryConfig(redact_sensitivity=BOTH), reranker=Backwards())
    await filled(memory)
    await memory.inject_memory("a", f"telephone {SECRET} " * 500, sensitivity="pii")
    context = await memory.retrieve_context("a", "s", "telephone", 400)
    assert sum(SECRET in entry.content for entry in context.episodic_memories) <= 2
    assert all(SECRET not in e.model_dump_json() for e in context.episodic_memories if e.sensitivity in BOTH)
    await memory.close()


async def test_exports_are_whole() -> None:
    memory = await MemoryManager.create(MemoryConfig(redact_sensitivity=["low", "pii", "sensitive"]))
    await filled(memory)
    assert sum(SECRET in line for line in [line async for line in memory.export_agent("a")]) == 4
    await memory.close()


_LEVELS = st.sampled_from(["low", "pii", "sensitive"])
_WORDS = st.sampled_from(["alpha", "beta", "moved from Jest to", "no longer", "300", "200", "must", "数据库", "uses"])
_MEMORY = st.tuples(st.lists(_WORDS, min_size=1, max_size=5), st.sampled_from(["none", "low", "pii", "sensitive"]))


@given(st.lists(_MEMORY, min_size=1, max_size=6), st.sets(_LEVELS, min_size=1), st.integers(10, 2_000))
def test_no_read_shows_anything_of_what_is_masked(
    memories: list[tuple[list[str], Sensitivity]], levels: set[MaskedSensitivity], budget: int
) -> None:
    secrets = {}
    with SyncMemoryManager.create(MemoryConfig(embedding_provider="static")) as memory:
        for number, (words, level) in enumerate(memories):
            secret = f"Qx{number}zq"
            secrets[secret] = level
            memory.inject_memory("a", f"{' '.join(words)} {secret}", topic_tags=[f"tag{secret}"], sensitivity=level)
        wanted = list(levels)
        read: list[MemoryEntry | RetrievedContext] = []
        for secret in secrets:
            read += memory.search_memories("a", f"alpha {secret}", redact_sensitivity=wanted)
            read.append(memory.retrieve_context("a", "s", f"{secret} uses", budget, redact_sensitivity=wanted))
        read += memory.list_memories("a", include_superseded=True, redact_sensitivity=wanted)
    for found, (secret, level) in itertools.product(read, secrets.items()):
        if level in levels:
            shown = found.model_dump_json() + (found.render() if isinstance(found, RetrievedContext) else "")
            assert secret.casefold() not in shown.casefold()
