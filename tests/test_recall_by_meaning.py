"""Recall by meaning through the manager, with the embedder that comes with the package."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence

import pytest

from actrone_memory import Embedder, InMemoryStore, MemoryConfig, MemoryManager

RULES = [
    "Passwords are hashed with argon2.",
    "Buttons come from the design system.",
    "Migrations are written by hand.",
    "Dates are formatted with date-fns.",
    "Commit messages follow Conventional Commits.",
    "Images are resized at upload.",
    "Every public function carries a docstring.",
    "Feature flags live in flags.yml.",
]
PARAPHRASE = "store the credentials of a new account"
OFF_TOPIC = ["who brings the cake on Friday?", "book a table for dinner", "tell me a joke about cats"]


@pytest.fixture
async def memory() -> AsyncIterator[MemoryManager]:
    manager = await MemoryManager.create(MemoryConfig(embedding_provider="static"))
    yield manager
    await manager.close()


async def learn(memory: MemoryManager, rules: Sequence[str]) -> None:
    for rule in rules:
        await memory.inject_memory("a", rule)


async def found(memory: MemoryManager, query: str) -> list[str]:
    return [entry.content for entry in await memory.search_memories("a", query)]


@pytest.mark.parametrize("size", range(1, len(RULES) + 1))
async def test_a_paraphrase_finds_its_rule_and_small_talk_finds_none_in_a_store_of_a_few(
    memory: MemoryManager, size: int
) -> None:
    await learn(memory, RULES[:size])
    assert (await found(memory, PARAPHRASE))[0] == RULES[0]
    for query in OFF_TOPIC:
        assert await found(memory, query) == []


async def test_the_package_alone_recalls_by_meaning_by_default() -> None:
    memory = await MemoryManager.create(MemoryConfig(), embedder=None)
    await learn(memory, RULES)
    assert (await found(memory, PARAPHRASE))[0] == RULES[0]
    await memory.close()


@pytest.mark.parametrize(("threshold", "expected"), [(0.99, []), (-1.0, RULES)])
async def test_an_explicit_threshold_is_what_admits_by_meaning(threshold: float, expected: list[str]) -> None:
    memory = await MemoryManager.create(MemoryConfig(embedding_provider="static", relevance_threshold=threshold))
    await learn(memory, RULES)
    assert memory.relevance_threshold == threshold
    assert sorted(await found(memory, PARAPHRASE)) == sorted(expected)
    await memory.close()


async def test_tags_say_what_a_memory_means(memory: MemoryManager) -> None:
    await learn(memory, RULES[1:])
    await memory.inject_memory("a", "We follow OWASP ASVS level 2.", topic_tags=["security", "passwords"])
    assert (await found(memory, PARAPHRASE))[0] == "We follow OWASP ASVS level 2."


async def test_another_language_is_found_by_its_words_and_not_by_chance(memory: MemoryManager) -> None:
    german = ["Passwörter werden mit argon2 gehasht.", "Schaltflächen kommen aus dem Designsystem."]
    chinese = ["密码使用 argon2 加密。", "按钮来自设计系统。"]
    await learn(memory, [*german, *chinese])
    assert (await found(memory, "Wo liegen die Schaltflächen?"))[0] == german[1]
    assert await found(memory, "Wer bringt den Kuchen mit?") == []
    assert await found(memory, "设计按钮") == [chinese[1]]
    assert await found(memory, "周五谁带蛋糕") == []


class EverythingInChineseIsAlike(Embedder):
    """Like common English models: any two texts in Chinese have a high cosine."""

    @property
    def dimensions(self) -> int:
        return 2

    @property
    def background(self) -> tuple[float, float] | None:
        return 0.1, 0.1

    async def embed(self, text: str) -> list[float]:
        return [0.1, math.sqrt(0.99)] if text.isascii() else [1.0, 0.0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed(text) for text in texts]


async def test_cosines_of_a_model_without_chinese_admit_no_chinese() -> None:
    memory = await MemoryManager.create(MemoryConfig(), embedder=EverythingInChineseIsAlike())
    await learn(memory, ["密码使用 argon2 加密。", "按钮来自设计系统。"])
    assert await found(memory, "周五谁带蛋糕") == []
    assert await found(memory, "设计按钮") == ["按钮来自设计系统。"]
    await memory.close()


async def test_a_score_tells_its_parts_and_nothing_of_them_is_stored(memory: MemoryManager) -> None:
    await learn(memory, RULES)
    (best, *_) = await memory.search_memories("a", "hash the passwords")
    assert best.score_parts is not None
    assert set(best.score_parts) == {"words", "meaning", "importance", "recency"}
    assert best.score_parts["words"] > 0
    assert best.score_parts["meaning"] > 0
    context = await memory.retrieve_context("a", "s", PARAPHRASE, 800)
    assert context.episodic_memories[0].score_parts is not None
    assert context.episodic_memories[0].score_parts["words"] == 0
    for entry in await memory.list_memories("a"):
        assert entry.score is None
        assert entry.score_parts is None


@pytest.mark.parametrize(("newer_wins", "first"), [(True, 1), (False, 0)])
async def test_the_newer_of_two_rules_about_one_matter_comes_first_unless_that_is_off(
    newer_wins: bool, first: int
) -> None:
    store = InMemoryStore()
    config = MemoryConfig(embedding_provider="static", newer_wins=newer_wins)
    memory = await MemoryManager.create(config, l1=store, l2=store)
    rules = ["Logging goes through logrus, with fields for variable data.", "Structured logs are written with slog."]
    for rule in rules:
        await memory.inject_memory("a", rule, topic_tags=["logging"])
    entries = await memory.search_memories("a", "which fields belong to logging?")
    assert [entry.content for entry in entries] == [rules[first], rules[1 - first]]
    moved = [("newer" in (entry.score_parts or {})) for entry in entries]
    assert moved == [newer_wins, newer_wins]
    scores = [entry.score or 0.0 for entry in entries]
    assert scores == sorted(scores, reverse=True)
    await memory.close()


async def test_japanese_is_found_by_what_it_is_about_and_not_by_its_grammar(memory: MemoryManager) -> None:
    rules = [
        "テストは pytest で実行する。",
        "画像はアップロード時に縮小する。",
        "移行は手で作成する。",
        "日付は UTC で保存する。",
    ]
    await learn(memory, rules)
    assert (await found(memory, "画像を縮小する処理"))[0] == rules[1]
    assert await found(memory, "変数の名前を変更する") == []


@pytest.mark.parametrize(
    "data",
    ["9fceb02d0ae598e95dc970b74767f19372d61af8", "550e8400-e29b-41d4-a716-446655440000", "kubernetes webhook"],
)
async def test_a_hash_or_an_unusual_name_in_a_task_does_not_hide_what_it_means(
    memory: MemoryManager, data: str
) -> None:
    await learn(memory, RULES)
    assert (await found(memory, f"{PARAPHRASE} ({data})"))[0] == RULES[0]
