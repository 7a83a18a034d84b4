"""Long-term memories: stored once, replaced, found by their words, owned by one agent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from actrone_memory import (
    ConfigurationError,
    Embedder,
    EmbeddingError,
    HashingEmbedder,
    InMemoryStore,
    MemoryConfig,
    MemoryEntry,
    MemoryManager,
    MemoryNotFoundError,
)


async def contents(memory: MemoryManager, query: str, **filters: object) -> list[str]:
    return [entry.content for entry in await memory.search_memories("a", query, **filters)]


async def test_the_same_text_is_one_memory_refreshed(memory: MemoryManager) -> None:
    first = await memory.inject_memory("a", "Tests run with Vitest.", 0.5, topic_tags=["testing"], source="user")
    again = await memory.inject_memory(
        "a", "  tests RUN with\nＶitest. ", 0.9, topic_tags=["ci"], source="review", sensitivity="low"
    )
    assert first == again
    (entry,) = await memory.list_memories("a")
    assert entry.topic_tags == ["testing", "ci"]
    assert (entry.importance_score, entry.source, entry.sensitivity) == (0.9, "review", "low")
    assert await memory.inject_memory("b", "Tests run with Vitest.") != first


async def test_a_superseded_memory_comes_back_from_no_read_but_the_full_list(memory: MemoryManager) -> None:
    old = await memory.inject_memory("a", "Deploys go through Jenkins.")
    new = await memory.inject_memory("a", "Deploys go through GitHub Actions.", supersedes=old)
    assert await contents(memory, "how do deploys go through") == ["Deploys go through GitHub Actions."]
    context = await memory.retrieve_context("a", "s", "deploys Jenkins", 800)
    assert [m.id for m in context.episodic_memories] == [new]
    assert [m.id for m in await memory.list_memories("a")] == [new]
    everything = {m.id: m.superseded_by for m in await memory.list_memories("a", include_superseded=True)}
    assert everything == {old: new, new: None}


async def test_a_superseded_memory_that_is_stated_again_is_alive_again(memory: MemoryManager) -> None:
    old = await memory.inject_memory("a", "Use tabs.")
    new = await memory.inject_memory("a", "Use spaces.", supersedes=old)
    assert await memory.inject_memory("a", "Use tabs.", supersedes=new) == old
    assert [m.content for m in await memory.list_memories("a")] == ["Use tabs."]


async def test_a_memory_restated_as_its_own_successor_is_only_refreshed(memory: MemoryManager) -> None:
    one = await memory.inject_memory("a", "Use tabs.")
    assert await memory.inject_memory("a", "use  TABS.", supersedes=one) == one
    assert [m.content for m in await memory.list_memories("a")] == ["use  TABS."]


async def test_superseding_an_unknown_or_foreign_memory_writes_nothing(memory: MemoryManager) -> None:
    foreign = await memory.inject_memory("b", "Use tabs.")
    for target in (foreign, "no-such-id"):
        with pytest.raises(MemoryNotFoundError):
            await memory.inject_memory("a", "Use spaces.", supersedes=target)
    assert await memory.list_memories("a") == []
    assert [m.content for m in await memory.list_memories("b")] == ["Use tabs."]


async def test_only_the_owner_deletes_a_memory(memory: MemoryManager) -> None:
    mine = await memory.inject_memory("a", "Mine.")
    for agent, target in (("b", mine), ("a", "no-such-id")):
        with pytest.raises(MemoryNotFoundError):
            await memory.delete_memory(agent, target)
    await memory.delete_memory("a", mine)
    assert await memory.list_memories("a") == []
    with pytest.raises(MemoryNotFoundError):
        await memory.delete_memory("a", mine)


async def test_editing_what_a_read_returned_changes_nothing_stored(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Keep me.", topic_tags=["x"])
    for entries in (await memory.list_memories("a"), await memory.search_memories("a", "keep")):
        entries[0].content = "changed"
        entries[0].topic_tags.clear()
    (entry,) = await memory.list_memories("a")
    assert (entry.content, entry.topic_tags, entry.embedding) == ("Keep me.", ["x"], None)


async def test_searches_carry_scores_in_descending_order(memory: MemoryManager) -> None:
    for text in ("Vitest runs the unit tests.", "The tests of the API need Docker.", "Docker images are small."):
        await memory.inject_memory("a", text)
    scores = [m.score for m in await memory.search_memories("a", "unit tests with vitest")]
    assert all(score is not None and 0 < score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert all(m.score is None for m in await memory.list_memories("a"))


async def test_filters_by_type_and_by_any_of_the_tags(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Format dates with date-fns.", topic_tags=["dates", "web"])
    await memory.inject_memory("a", "Dates in the database are UTC.", topic_tags=["database"])
    assert await contents(memory, "dates", tags=["web", "nothing"]) == ["Format dates with date-fns."]
    assert await contents(memory, "dates", tags=["nothing"]) == []
    assert await contents(memory, "dates", content_types=["fact"]) == []
    assert len(await contents(memory, "dates", content_types=["injected", "fact"])) == 2
    context = await memory.retrieve_context("a", "s", "dates", 800, tags=["database"])
    assert [m.content for m in context.episodic_memories] == ["Dates in the database are UTC."]


async def test_content_types_decide_whether_turns_or_memories_are_recalled(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "The sauna opens at six.")
    await memory.store_turn("a", "s", "when does the sauna open?", "At six.")
    await memory.drain()
    both = await memory.retrieve_context("a", "new", "sauna", 800)
    assert (len(both.episodic_memories), len(both.recalled_turns)) == (1, 1)
    turns = await memory.retrieve_context("a", "new", "sauna", 800, content_types=["turn"])
    assert (len(turns.episodic_memories), len(turns.recalled_turns)) == (0, 1)
    memories = await memory.retrieve_context("a", "new", "sauna", 800, content_types=["injected"])
    assert (len(memories.episodic_memories), len(memories.recalled_turns)) == (1, 0)


async def test_a_store_filled_by_another_embedder_is_refused_by_name() -> None:
    class Other(HashingEmbedder):
        @property
        def name(self) -> str:
            return "other-model"

    store = InMemoryStore()
    first = await MemoryManager.create(l1=store, l2=store, embedder=HashingEmbedder())
    second = await MemoryManager.create(l1=store, l2=store, embedder=Other())
    await first.inject_memory("a", "Filled by the first.")
    with pytest.raises(ConfigurationError, match=r"hashing-v\d.*other-model.*reindex"):
        await second.search_memories("a", "filled")
    with pytest.raises(ConfigurationError, match="reindex"):
        await MemoryManager.create(l1=store, l2=store, embedder=HashingEmbedder(64))


async def test_an_injected_embedder_is_used_and_the_configured_one_is_not_built() -> None:
    config = MemoryConfig(embedding_provider="openai")
    memory = await MemoryManager.create(config, embedder=HashingEmbedder(32))
    await memory.inject_memory("a", "Works without a key.")
    assert len(await memory.search_memories("a", "works without key")) == 1
    with pytest.raises(ConfigurationError, match="ACTRONE_OPENAI_API_KEY"):
        await MemoryManager.create(config)
    await memory.close()


class Failing(HashingEmbedder):
    """Raises, or returns rubbish, until it is mended."""

    result: object = None
    broken = True

    async def embed(self, text: str) -> list[float]:
        if not self.broken:
            return await super().embed(text)
        if self.result is None:
            raise RuntimeError("model fell over")
        return self.result  # type: ignore[return-value]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed(text) for text in texts]


@pytest.mark.parametrize("result", [None, [1.0], [float("nan")] * 256, "text", 7, [None] * 256])
async def test_an_embedder_that_fails_gives_one_clear_error_and_nothing_is_written(result: object) -> None:
    embedder = Failing()
    embedder.result = result
    memory = await MemoryManager.create(embedder=embedder)
    with pytest.raises(EmbeddingError):
        await memory.inject_memory("a", "Lost?")
    assert await memory.list_memories("a") == []
    await memory.store_turn("a", "s", "the turn is kept", "yes")
    await memory.drain()
    assert memory.background_failures >= 1
    assert len(await memory.get_recent_turns("a", "s")) == 1
    embedder.broken = False
    await memory.drain()
    assert len(await memory.list_memories("a", content_types=["turn"])) == 1
    await memory.close()


async def test_the_threshold_is_the_setting_else_the_embedders_else_the_default() -> None:
    class Plain(Embedder):
        dimensions = 2

        async def embed(self, text: str) -> list[float]:
            return [1.0, float(len(text))]

        async def embed_batch(self, texts: list[str]) -> list[list[float]]:
            return [await self.embed(text) for text in texts]

    for config, embedder, expected in (
        (MemoryConfig(relevance_threshold=0.7), HashingEmbedder(), 0.7),
        (MemoryConfig(), HashingEmbedder(), HashingEmbedder().relevance_threshold),
        (MemoryConfig(), Plain(), 0.3),
    ):
        memory = await MemoryManager.create(config, embedder=embedder)
        assert memory.relevance_threshold == expected
        await memory.close()


async def test_without_hybrid_retrieval_the_documented_blend_orders(memory: MemoryManager) -> None:
    plain = await MemoryManager.create(MemoryConfig(hybrid_retrieval=False, relevance_threshold=0.2))
    await plain.inject_memory("a", "Vitest runs tests.")
    (entry,) = await plain.search_memories("a", "Vitest runs tests.")
    assert entry.score == pytest.approx(0.7 * 1.0 + 0.3 * 1.0, abs=1e-3)
    assert await plain.search_memories("a", "entirely different words") == []
    await plain.close()


async def test_a_reranker_orders_the_best_and_its_failure_costs_nothing() -> None:
    class ShortestFirst:
        fail = False

        async def rerank(self, query: str, texts: list[str]) -> list[float]:
            if self.fail:
                raise RuntimeError("no GPU")
            return [-float(len(text)) for text in texts]

    reranker = ShortestFirst()
    memory = await MemoryManager.create(reranker=reranker)
    for text in ("Tests run with Vitest, in watch mode, always.", "Tests run nightly.", "Tests run."):
        await memory.inject_memory("a", text)
    assert (await contents(memory, "tests run"))[0] == "Tests run."
    reranker.fail = True
    assert len(await contents(memory, "tests run")) == 3
    assert memory.background_failures == 1
    await memory.close()


@pytest.mark.parametrize("answer", [None, [1.0], [0.0, float("nan"), 1.0], "123", [True, False, True]], ids=repr)
async def test_what_orders_nothing_leaves_the_order_and_is_counted(answer: Any) -> None:
    class Rubbish:
        async def rerank(self, query: str, texts: list[str]) -> list[float]:
            return answer  # type: ignore[no-any-return]

    store = InMemoryStore()
    memory = await MemoryManager.create(l1=store, l2=store, reranker=Rubbish())
    plain = await MemoryManager.create(l1=store, l2=store)
    await memory.inject_memories("a", ["Tests run with Vitest, in watch mode.", "Tests run nightly.", "Tests run."])
    assert await contents(memory, "tests run") == await contents(plain, "tests run")
    assert memory.background_failures == 1
    await plain.close()
    await memory.close()


async def test_recency_breaks_ties_and_does_not_bury_an_old_rule(memory: MemoryManager) -> None:
    store = InMemoryStore()
    embedder = HashingEmbedder()
    memory = await MemoryManager.create(l1=store, l2=store, embedder=embedder)
    rule = await memory.inject_memory("a", "Commit messages follow Conventional Commits.")
    (entry,) = await memory.list_memories("a")
    old = entry.model_copy(
        update={"timestamp": entry.timestamp - timedelta(days=400), "embedding": await embedder.embed(entry.content)}
    )
    await store.upsert(old)
    for i in range(30):
        await memory.inject_memory("a", f"Yesterday someone wrote commit number {i}.")
    assert (await memory.search_memories("a", "write the commit message, conventional"))[0].id == rule

    twin = MemoryEntry(**{**old.model_dump(), "id": "twin", "timestamp": entry.timestamp, "agent_id": "a"})
    await store.upsert(twin)
    first, second, *_ = await memory.search_memories("a", "Conventional Commits messages")
    assert [first.id, second.id] == ["twin", rule]
    await memory.close()


async def test_superseding_an_old_version_replaces_what_holds_in_its_place(memory: MemoryManager) -> None:
    first = await memory.inject_memory("a", "Port is 1.")
    second = await memory.inject_memory("a", "Port is 2.", supersedes=first)
    third = await memory.inject_memory("a", "Port is 3.", supersedes=first)
    assert [m.content for m in await memory.list_memories("a")] == ["Port is 3."]
    history = {m.id: m.superseded_by for m in await memory.list_memories("a", include_superseded=True)}
    assert history == {first: second, second: third, third: None}
