"""Searching the collection: Qdrant finds candidates, the order among them is made here, by the code of every store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from actrone_memory._index import AgentIndex
from actrone_memory._page_search import PageSearch
from actrone_memory._shelf import Query
from actrone_memory._store_calls import check_dimensions, pieces
from actrone_memory.protocols import Page
from actrone_memory.stores.qdrant import questions
from actrone_memory.stores.qdrant.census import census_of
from actrone_memory.stores.qdrant.collection import PER_PAGE
from actrone_memory.stores.qdrant.kept import HeldIndexes, KeptEntries
from actrone_memory.stores.qdrant.points import (
    STORE_POINT,
    Kept,
    agent_point,
    agent_state,
    filling_of,
    kept_point,
    marks_of,
)
from actrone_memory.stores.qdrant.questions import (
    MARK,
    Sight,
    equals,
    has_id,
    search_requests,
    shelf_filter,
    shelf_request,
    sight_of,
)
from actrone_memory.stores.qdrant.vectors import Vectors

NEIGHBOURED = 64
"""Turns by words whose neighbours are fetched too: a question is found with its answer."""

NEIGHBOURING_RECORDS = 12
"""How far apart in a session's numbering turns are looked for that stand side by side: a turn may have many records."""


class Search(PageSearch, Vectors):
    """The search of the collection, small shelves as a whole, large ones by their candidates."""

    _held: HeldIndexes
    _kept: KeptEntries

    async def _answer(self, agent_id: str, query: Query) -> Page:
        return await self._in_place(lambda: self._search(agent_id, query))

    async def _search(self, agent_id: str, query: Query) -> Page:
        layout = await self._comparable()
        talks = [shelf.talk for shelf in AgentIndex().shelves(query.content_types)]
        if layout is None or not talks:
            return Page([], [])
        check_dimensions(layout.dimensions, query.vector.size, "query_embedding")
        sights = await self._sights(agent_id, query, layout.vector, talks)
        if all(sight.whole for sight in sights):
            return await self._search_whole(agent_id, query, layout.vector, sights)
        return await self._search_candidates(agent_id, query, layout.vector, sights)

    async def _sights(self, agent_id: str, query: Query, vector: str, talks: Sequence[bool]) -> list[Sight]:
        """What each shelf holds, as far as one request tells."""
        from qdrant_client import models

        meta = models.QueryRequest(filter=has_id([agent_point(agent_id), STORE_POINT]), limit=2, with_payload=True)
        requests = {talk: self._shelf_requests(agent_id, query, vector, talk) for talk in talks}
        about, *answers = await self._collection.batch([meta, *chain.from_iterable(requests.values())])
        known = {str(point.id): point.payload for point in about}
        self._collection.check_filling(filling_of(known.get(STORE_POINT)))
        erased = agent_state(known.get(agent_point(agent_id))).erased
        sights = []
        for talk, asked in requests.items():
            found, answers = answers[: len(asked)], answers[len(asked) :]
            if len(asked) == 1 and len(found[0]) == questions.WHOLE_SHELF:  # it has grown beyond what was thought
                found = await self._collection.batch(search_requests(agent_id, query, vector, talk))
            sights.append(await self._widened(agent_id, query, vector, sight_of(talk, found, vector, erased), erased))
        return sights

    def _shelf_requests(self, agent_id: str, query: Query, vector: str, talk: bool) -> list[Any]:
        """What to ask about a shelf: what it holds, where that was little at the last look; else its candidates too."""
        if not 0 < self._held.entries(agent_id, talk) < questions.WHOLE_SHELF:
            return search_requests(agent_id, query, vector, talk)
        return [shelf_request(agent_id, talk)]

    async def _widened(self, agent_id: str, query: Query, vector: str, sight: Sight, erased: int) -> Sight:
        """The sight of the whole shelf, however large, when the query considers more than the candidates."""
        if sight.whole or query.consider <= questions.WHOLE_SHELF:
            return sight
        points = await self._collection.scroll(shelf_filter(agent_id, sight.talk), with_payload=MARK)
        marks = marks_of(points, vector, erased)
        return Sight(sight.talk, True, marks, marks, [], [], erased)

    async def _search_whole(self, agent_id: str, query: Query, vector: str, sights: Sequence[Sight]) -> Page:
        """Every memory is at hand: the in-process index, brought up to date, is the answer."""
        held, fetched = self._held.of(agent_id, vector), dict[str, "Kept | None"]()
        while True:
            with held.lock:
                missing = held.lacks(sights, fetched)
                if not missing:
                    held.follow(sights, fetched)
                    self._held.let_go(agent_id)
                    return held.index.search(query)
            found = await self._entries(missing, vector)
            fetched |= {point: found.get(point) for point in missing}

    async def _search_candidates(self, agent_id: str, query: Query, vector: str, sights: Sequence[Sight]) -> Page:
        """Rank what Qdrant thought fit, with the statistics of the whole."""
        wanted = {point: mark.stamp for sight in sights for point, mark in sight.marks.items()}
        for sight in sights:
            if sight.talk and not sight.whole and query.text is not None:
                wanted |= await self._neighbours(agent_id, vector, sight)
        found = await self._entries(wanted, vector)
        index = AgentIndex()
        for kept in sorted(found.values(), key=lambda kept: kept.written):
            index.put(kept.entry)
        partly = {sight.talk: sight for sight in sights if not sight.whole}
        shelves = [shelf for shelf in index.shelves(query.content_types) if shelf.talk in partly]
        takings = []
        for shelf in shelves:
            at_hand = {point: kept.entry for point, kept in found.items() if kept.entry.entry.id in shelf.rows}
            takings.append(census_of(self._collection, agent_id, query, partly[shelf.talk], shelf, at_hand))
        for shelf, census in zip(shelves, await asyncio.gather(*takings), strict=True):
            shelf.census = census
        return index.search(query)

    async def _neighbours(self, agent_id: str, vector: str, sight: Sight) -> dict[str, str]:
        """The turns around the best by words, whose words count for them."""
        from qdrant_client import models

        around = [
            models.Filter(
                must=[
                    equals("session_id", mark.session_id),
                    models.FieldCondition(
                        key="sequence",
                        range=models.Range(
                            gte=mark.sequence - NEIGHBOURING_RECORDS, lte=mark.sequence + NEIGHBOURING_RECORDS
                        ),
                    ),
                ]
            )
            for mark in (sight.marks[point] for point in sight.by_words[:NEIGHBOURED] if point in sight.marks)
            if mark.sequence is not None
        ]
        if not around:
            return {}
        which = models.Filter(must=shelf_filter(agent_id, talk=True).must, should=around)
        points = await self._collection.scroll(which, with_payload=MARK)
        return {point: mark.stamp for point, mark in marks_of(points, vector, sight.erased).items()}

    async def _entries(self, wanted: Mapping[str, str], vector: str) -> dict[str, Kept]:
        """The points of these ids and stamps, or of newer stamps, without those that are gone."""
        found = self._kept.find(wanted)
        missing = [point for point in wanted if point not in found]
        for some in pieces(missing, PER_PAGE):
            for point in await self._collection.retrieve(some, with_vectors=[vector]):
                found[str(point.id)] = kept_point(point, vector)
        self._kept.keep({point: found[point] for point in missing if point in found})
        return found
