"""From a query to a context: what matches, in the reranker's order if there is one, cut to the budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import get_args

from actrone_memory import _budget, _render
from actrone_memory._capabilities import ColdTier, HotTier
from actrone_memory._embedding import embed_one, shorten
from actrone_memory._ranking import DEFAULT_THRESHOLD
from actrone_memory.config import MemoryConfig
from actrone_memory.context import Dropped, RetrievedContext, TierUsage
from actrone_memory.models import ContentType, MemoryEntry
from actrone_memory.protocols import Embedder, Reranker
from actrone_memory.tokens import TokenCounter

EVERY_TYPE: list[ContentType] = list(get_args(ContentType))
MEMORY_TYPES: list[ContentType] = [kind for kind in EVERY_TYPE if kind != "turn"]
"""What counts as a memory when no types are asked for: everything but archived turns."""


class Recall:
    """Searches long-term memory and composes contexts."""

    def __init__(
        self,
        hot: HotTier,
        cold: ColdTier,
        embedder: Embedder,
        config: MemoryConfig,
        count: TokenCounter,
        reranker: Reranker | None,
        report: Callable[[Exception, str], None],
    ) -> None:
        self._hot, self._cold, self._embedder = hot, cold, embedder
        self._config, self._count = config, count
        self._reranker, self._report = reranker, report

    @property
    def threshold(self) -> float:
        """Cosine that admits a memory: the setting, else the embedder's own, else the library's."""
        if self._config.relevance_threshold is not None:
            return self._config.relevance_threshold
        calibrated = self._embedder.relevance_threshold
        return DEFAULT_THRESHOLD if calibrated is None else calibrated

    async def search(
        self,
        agent_id: str,
        query: str,
        limit: int,
        content_types: list[ContentType] | None,
        tags: Sequence[str] | None,
    ) -> list[MemoryEntry]:
        """The best matches, at most ``limit``; memories only when ``content_types`` is None."""
        vector = await embed_one(self._embedder, query)
        types = MEMORY_TYPES if content_types is None else content_types
        return await self._matches(agent_id, query, vector, limit, types, tags)

    async def context(
        self,
        agent_id: str,
        session_id: str,
        query: str,
        token_budget: int,
        content_types: list[ContentType] | None,
        tags: Sequence[str] | None,
    ) -> RetrievedContext:
        """Recent turns, memories and earlier turns, fetched side by side and cut to the budget."""
        recent, (memories, turns) = await asyncio.gather(
            self._hot.recent_turns(agent_id, session_id),
            self._long_term(agent_id, query, EVERY_TYPE if content_types is None else content_types, tags),
        )
        config, count = self._config, self._count
        share = _budget.shares(token_budget, config.budget_fraction_episodic, config.budget_fraction_session)
        chosen = _budget.select(recent, memories, turns, share, count)
        return RetrievedContext(
            recent_turns=chosen.recent,
            episodic_memories=chosen.memories,
            recalled_turns=chosen.recalled,
            total_tokens_used=count(_render.render(chosen.memories, chosen.recalled, chosen.recent)),
            token_budget=token_budget,
            retrieval_duration_ms=0.0,
            dropped=Dropped(
                turns=chosen.dropped_recent, recalled_turns=chosen.dropped_recalled, memories=chosen.dropped_memories
            ),
            tiers={
                "memories": TierUsage(used=count(_render.render(chosen.memories, [], [])), allowed=share.memories),
                "session": TierUsage(
                    used=count(_render.render([], chosen.recalled, chosen.recent)), allowed=share.session
                ),
            },
        )

    async def _long_term(
        self, agent_id: str, query: str, types: list[ContentType], tags: Sequence[str] | None
    ) -> tuple[list[MemoryEntry], list[MemoryEntry]]:
        """Matching memories and matching archived turns, which carry no tags, best first."""
        vector = await embed_one(self._embedder, query)
        turn_types: list[ContentType] = ["turn"] if "turn" in types and tags is None else []
        memory_types: list[ContentType] = [kind for kind in types if kind != "turn"]
        most = self._config.max_episodic_memories
        memories, turns = await asyncio.gather(
            self._matches(agent_id, query, vector, most, memory_types, tags),
            self._matches(agent_id, query, vector, most, turn_types, None),
        )
        return memories, turns

    async def _matches(
        self,
        agent_id: str,
        query: str,
        vector: list[float],
        limit: int,
        types: list[ContentType],
        tags: Sequence[str] | None,
    ) -> list[MemoryEntry]:
        if not types:
            return []
        text = shorten(query) if self._config.hybrid_retrieval else None
        most = max(limit, self._config.rerank_top_k) if self._reranker else limit
        found = await self._cold.search(agent_id, vector, self.threshold, most, types, text, tags)
        for entry in found:
            if entry.embedding is not None:  # a foreign store's; ours leave it out
                entry.embedding = None
        return (await self._reranked(query, found))[:limit]

    async def _reranked(self, query: str, found: list[MemoryEntry]) -> list[MemoryEntry]:
        """The first ``rerank_top_k`` in the reranker's order; as they were when it fails."""
        if self._reranker is None or not found:
            return found
        top = found[: self._config.rerank_top_k]
        try:
            scores = [float(score) for score in await self._reranker.rerank(query, [entry.content for entry in top])]
            order = sorted(zip(scores, range(len(top)), strict=True), key=lambda pair: (-pair[0], pair[1]))
        except Exception as error:  # a reranker improves the order, it must not cost the result
            self._report(error, "Reranking")
            return found
        return [top[position] for _, position in order] + found[len(top) :]
