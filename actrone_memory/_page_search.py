"""The two ways into a store that answers every search with a page, checked alike for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from actrone_memory._ranking import Weights
from actrone_memory._shelf import Query
from actrone_memory._store_calls import check_ids, checked_query
from actrone_memory.models import ContentType, MemoryEntry
from actrone_memory.protocols import Page


class PageSearch(ABC):
    """`L2Store.search` and `PagedSearch.search_page` of a store that says in `_answer` what it finds."""

    _weights: Weights
    """Orders a search without ``query_text``."""

    @abstractmethod
    async def _answer(self, agent_id: str, query: Query) -> Page:
        """What the agent's memories answer to a checked query."""

    async def search(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        limit: int = 20,
        content_types: list[ContentType] | None = None,
        query_text: str | None = None,
    ) -> list[MemoryEntry]:
        """The best matches, each with its ``score``; see `actrone_memory._ranking` for admission and order.

        Without ``query_text``: cosine >= ``threshold``, ordered by relevance x cosine + recency x 0.5^(age / 30 d).
        With it: cosine >= ``threshold`` or a strong match of words, ordered by both together.

        Raises:
            ValidationError: ``limit`` below 1, or a query of other dimensions than the stored vectors.
        """
        page = await self.search_page(
            agent_id,
            query_embedding,
            threshold,
            limit=limit,
            consider=limit,
            content_types=content_types,
            query_text=query_text,
        )
        return page.entries

    async def search_page(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        *,
        background: tuple[float, float] | None = None,
        newer_first: bool = False,
        limit: int,
        consider: int,
        content_types: list[ContentType] | None = None,
        query_text: str | None = None,
        tags: list[str] | None = None,
    ) -> Page:
        """The ``limit`` best matches that carry any of ``tags``, and the ids of all considered; see `PagedSearch`."""
        check_ids(agent_id)
        query = checked_query(
            query_embedding,
            threshold,
            self._weights,
            background=background,
            newer_first=newer_first,
            limit=limit,
            consider=consider,
            content_types=content_types,
            query_text=query_text,
            tags=tags,
        )
        return await self._answer(agent_id, query)
