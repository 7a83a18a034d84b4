"""From a query to a context: what matches, in the reranker's order if there is one, cut to the budget."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, get_args

from actrone_memory import _budget
from actrone_memory._cold_tier import ColdTier
from actrone_memory._embedding import embed_query, shorten
from actrone_memory._hot_tier import HotTier
from actrone_memory._ids import archived_turn_id
from actrone_memory._ranking import DEFAULT_THRESHOLD
from actrone_memory._redaction import redacted
from actrone_memory._similarity import as_vector
from actrone_memory.config import MemoryConfig
from actrone_memory.context import Dropped, RetrievedContext, TierUsage
from actrone_memory.errors import StoreConnectionError
from actrone_memory.models import ContentType, MemoryEntry
from actrone_memory.protocols import Embedder, Page, Reranker
from actrone_memory.tokens import TokenCounter

logger = logging.getLogger("actrone_memory")

EVERY_TYPE: list[ContentType] = list(get_args(ContentType))
MEMORY_TYPES: list[ContentType] = [kind for kind in EVERY_TYPE if kind != "turn"]
"""What counts as a memory when no types are asked for: everything but archived turns."""

SHORT_ITEM = 20
"""Tokens of a short memory or turn as rendered: a first page holds as many matches as would fit if all were so short.
The others are fetched only when all of these fit."""

SMALLEST_PAGE = 16
"""Matches fetched at first for however small a share: among them are some for the room that longer ones leave."""


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

    @property
    def _background(self) -> tuple[float, float] | None:
        """What unrelated texts have in common for the embedder, where cosines are to be read that way."""
        explicit = self._config.relevance_threshold is not None
        return None if explicit or not self._config.hybrid_retrieval else self._embedder.background

    async def search(
        self,
        agent_id: str,
        query: str,
        limit: int,
        content_types: list[ContentType] | None,
        tags: list[str] | None,
        masked: Collection[str],
    ) -> list[MemoryEntry]:
        """The best matches, at most ``limit``; memories only when ``content_types`` is None."""
        request = _Request(agent_id, query, await embed_query(self._embedder, query), limit, masked)
        types = MEMORY_TYPES if content_types is None else content_types
        page = await self._matches(request, max(limit, self._reranked_most), types, tags)
        return page.entries[:limit]

    async def context(
        self,
        agent_id: str,
        session_id: str,
        query: str,
        token_budget: int,
        content_types: list[ContentType] | None,
        tags: list[str] | None,
        masked: Collection[str],
    ) -> RetrievedContext:
        """Recent turns, memories and earlier turns, fetched side by side and cut to the budget."""
        config, count = self._config, self._count
        types = EVERY_TYPE if content_types is None else content_types
        share = _budget.shares(token_budget, config.budget_fraction_episodic, config.budget_fraction_session)
        vector = await embed_query(self._embedder, query)
        request = _Request(agent_id, query, vector, config.max_episodic_memories, masked)
        memory_types: list[ContentType] = [kind for kind in types if kind != "turn"]
        turn_types: list[ContentType] = ["turn"] if "turn" in types and tags is None else []  # turns carry no tags
        recent, memories, turns = await asyncio.gather(
            self._hot.recent_turns(agent_id, session_id),
            self._long_term(request, self._first_page(share.memories), memory_types, tags),
            self._long_term(request, self._first_page(share.session), turn_types, None),
        )
        chosen = _budget.select(recent, memories.entries, turns.entries, share, count)
        more_memories = _more_may_fit(memories, chosen.dropped_memories)
        more_turns = _more_may_fit(turns, chosen.dropped_recalled)
        if more_memories:
            memories = await self._long_term(request, request.consider, memory_types, tags)
        if more_turns:
            turns = await self._long_term(request, request.consider, turn_types, None)
        if more_memories or more_turns:
            chosen = _budget.select(recent, memories.entries, turns.entries, share, count)
        degraded = memories.missing_because or turns.missing_because
        if degraded:
            logger.warning("Agent %r goes on without long-term memory: %s", agent_id, degraded)
        here = {archived_turn_id(agent_id, session_id, turn.id) for turn in chosen.recent}
        return RetrievedContext(
            recent_turns=chosen.recent,
            episodic_memories=chosen.memories,
            recalled_turns=chosen.recalled,
            total_tokens_used=chosen.cost.total,
            token_budget=token_budget,
            retrieval_duration_ms=0.0,
            dropped=Dropped(
                turns=chosen.dropped_recent,
                recalled_turns=chosen.dropped_recalled + _unseen(turns, here),
                memories=chosen.dropped_memories + _unseen(memories),
            ),
            tiers={
                "memories": TierUsage(used=chosen.cost.memories, allowed=share.memories),
                "session": TierUsage(used=chosen.cost.session, allowed=share.session),
            },
            degraded=degraded,
        )

    def _first_page(self, share: int) -> int:
        """Matches that are fetched at first for a share of the budget."""
        return max(SMALLEST_PAGE, share // SHORT_ITEM, self._reranked_most)

    async def _long_term(
        self, request: _Request, limit: int, types: list[ContentType], tags: list[str] | None
    ) -> _LongTerm:
        """At most ``limit`` matches, or why there are none although some may be stored."""
        try:
            return _LongTerm(*await self._matches(request, min(limit, request.consider), types, tags))
        except StoreConnectionError as error:
            if not self._config.degrade:
                raise
            return _LongTerm([], [], error.message)

    async def _matches(self, request: _Request, limit: int, types: list[ContentType], tags: list[str] | None) -> Page:
        if not types:
            return Page([], [])
        page = await self._cold.search_page(
            request.agent_id,
            request.vector,
            self.threshold,
            background=self._background,
            newer_first=self._config.newer_wins,
            limit=limit,
            consider=max(limit, request.consider),
            content_types=types,
            query_text=shorten(request.query) if self._config.hybrid_retrieval else None,
            tags=tags,
        )
        entries = await self._reranked(request.query, page.entries)
        return page._replace(entries=redacted(entries, request.masked, self._count))

    @property
    def _reranked_most(self) -> int:
        return self._config.rerank_top_k if self._reranker else 0

    async def _reranked(self, query: str, found: list[MemoryEntry]) -> list[MemoryEntry]:
        """The first ``rerank_top_k`` in the reranker's order; as they were when it fails."""
        if self._reranker is None or not found:
            return found
        top = found[: self._reranked_most]
        try:
            answer = await self._reranker.rerank(query, [entry.content for entry in top])
            scores = as_vector(list(answer), "scores").tolist()
            order = sorted(zip(scores, range(len(top)), strict=True), key=lambda pair: (-pair[0], pair[1]))
        except Exception as error:  # a reranker improves the order, it must not cost the result
            self._report(error, "Reranking")
            return found
        return [top[position] for _, position in order] + found[len(top) :]


class _Request(NamedTuple):
    """One query with its vector, how many matches it considers at most, and which sensitivities it may not see."""

    agent_id: str
    query: str
    vector: list[float]
    consider: int
    masked: Collection[str]


class _LongTerm(NamedTuple):
    """A `Page` of long-term memory, or why it is empty."""

    entries: list[MemoryEntry]
    considered: Sequence[str]
    missing_because: str | None = None


def _unseen(page: _LongTerm, told: Collection[str] = ()) -> int:
    """Considered matches that were not fetched, without those of the ids in ``told``."""
    fetched = len(page.entries)
    if not told:
        return len(page.considered) - fetched
    return sum(memory_id not in told for memory_id in page.considered[fetched:])


def _more_may_fit(page: _LongTerm, dropped: int) -> bool:
    """Whether the budget took all of a page that is not the last one."""
    return not dropped and len(page.entries) < len(page.considered)
