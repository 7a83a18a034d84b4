"""Long-term memory in Qdrant: one collection for all agents, on a server that many processes share.

Qdrant finds candidates by meaning and by words in one request; the order among them is that of every other store, made
in this process by the same code. What is exact and what is not:

- Of up to `WHOLE_SHELF` memories of an agent (and as many archived turns) every one is a candidate: the order is that
  of the in-process store.
- Of more, the candidates are the `BY_MEANING` nearest, as Qdrant's graphs find them where it keeps any, and the
  `BY_WORDS` best by words. Their scores are exact but for the mean length of a memory and the spread of cosines, both
  told by a sample of `WHOLE_SHELF`, and for turns by their neighbours within `NEIGHBOURING_RECORDS`. How rare a word is
  the server counts among the agent's own memories.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from actrone_memory import _validation
from actrone_memory._index import AgentIndex
from actrone_memory._page_search import PageSearch
from actrone_memory._ranking import Weights, inverse_document_frequency
from actrone_memory._shelf import CONTEXT, Census, Query, Shelf, prepare, read_entry
from actrone_memory._sparse_terms import term_number
from actrone_memory._store_calls import (
    check_dimensions,
    check_identity,
    check_ids,
    check_settings,
    dimensions_with,
    foreign_id,
)
from actrone_memory.config import MemoryConfig
from actrone_memory.errors import ConfigurationError, StoreConnectionError
from actrone_memory.models import ContentType, MemoryEntry
from actrone_memory.protocols import EmbedderIdentity, Page
from actrone_memory.stores.qdrant import points as shelf_points
from actrone_memory.stores.qdrant.kept import HeldIndexes, KeptEntries
from actrone_memory.stores.qdrant.link import CollectionTakenError, NoCollectionError, QdrantLink
from actrone_memory.stores.qdrant.points import (
    INDEXED,
    MARK,
    MEANING,
    OLD,
    SHELVES,
    STORE_POINT,
    WORDS,
    AgentState,
    Kept,
    Sight,
    agent_point,
    agent_state,
    batches,
    entry_point,
    equals,
    identity_of,
    is_any,
    kept_point,
    marks_of,
    point_of,
    search_requests,
    shelf_filter,
    shelf_request,
    sight_of,
)

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

logger = logging.getLogger("actrone_memory")

NEIGHBOURED = 64
"""Turns by words whose neighbours are fetched too: a question is found with its answer."""

NEIGHBOURING_RECORDS = 12
"""How far apart in a session's numbering turns are looked for that stand side by side: a turn may have many records."""

MOST_COUNTED_TERMS = 400
"""Terms of a query, with what looks like them, that the server counts; a page of text has more, of no weight."""

PER_REQUEST = 100
"""Parts of one batched request."""

PER_PAGE = 256
"""Points read at once with all they hold."""

DELETES = 3
"""How often a deletion is said and looked after before it counts as failed."""


class QdrantStore(PageSearch):
    """An `L2Store` with every capability in one Qdrant collection, for many threads, loops and processes at once.

    ``url`` is a server's address (Qdrant 1.19 or newer), or ``:memory:`` or ``path:/some/dir`` for the client's own
    local mode, which searches in Python and has one opener at a time: for development and tests. The collection is made
    by the first write. A request takes at most ``timeout_seconds`` with its retries; a search is one request, two or
    three when something was written since the last one; a write is three. The weights order a search without
    ``query_text``. A ``client`` that is handed in is used instead of ``url`` and never closed.

    An erasure changes the agent's epoch in the collection first, then deletes. A write of another process that read the
    epoch before and lands after is taken back by its writer, which looks again; until then, and for ever if the writer
    dies in between, it is there but never read: it carries the old epoch.

    Raises:
        ConfigurationError: qdrant-client is missing, ``url`` or ``collection`` is none, or a number lies out of range.
            Also from every call: the collection is none of ours, or the server is too old.
    """

    def __init__(
        self,
        url: str = "http://localhost:6333",
        *,
        api_key: str | None = None,
        collection: str = "agent_memories",
        timeout_seconds: float = 10.0,
        relevance_weight: float = 0.7,
        recency_weight: float = 0.3,
        client: AsyncQdrantClient | QdrantClient | None = None,
    ) -> None:
        check_settings(1, relevance_weight, recency_weight)
        _check_connection(url, collection, timeout_seconds)
        self._link = QdrantLink(type(self).__name__, url, api_key or None, timeout_seconds, client)
        self._collection = collection
        self._weights = Weights(relevance_weight, recency_weight)
        self._dimensions: int | None = None
        self._version_checked = False
        self._bound: EmbedderIdentity | None = None
        self._stored: EmbedderIdentity | None = None
        self._held = HeldIndexes()
        self._kept = KeptEntries()

    @classmethod
    def from_config(cls, config: MemoryConfig) -> Self:
        """The store that the ``qdrant_*`` settings describe."""
        key = config.qdrant_api_key.get_secret_value().strip() if config.qdrant_api_key else None
        return cls(
            config.qdrant_url,
            api_key=key,
            collection=config.qdrant_collection,
            timeout_seconds=config.qdrant_timeout,
            relevance_weight=config.relevance_weight,
            recency_weight=config.recency_weight,
        )

    # --- writing --------------------------------------------------------------------------------------------------

    async def upsert(self, entry: MemoryEntry) -> None:
        """Store or replace one entry.

        Raises:
            ValidationError: another agent owns the id, or the embedding has other dimensions than those stored.
        """
        await self.upsert_many([entry])

    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        """Store all entries of one agent; none, and False, when ``epoch`` is no longer the agent's erasure epoch.

        One request up to 16 MiB, which is all or nothing; of more, a failure may leave the first ones.
        """
        checked = list({entry.id: entry for entry in _validation.entries(entries)}.values())
        if epoch is not None:
            _validation.whole_number(epoch, "epoch")
        if not checked:
            return True
        agent_id = checked[0].agent_id
        dimensions = dimensions_with(await self._look(), checked) or (self._bound.dimensions if self._bound else None)
        if dimensions is None:
            raise ConfigurationError(
                "The first memory of a collection needs an embedding: it tells the dimensions of all.",
                {"collection": self._collection},
            )
        await self._make_collection(dimensions)
        now = await self._check_owners(agent_id, [entry.id for entry in checked])
        if epoch is not None and epoch != now.epoch:
            return False
        points = [
            point_of(prepare(entry), dimensions, epoch=now.epoch, written=time.time_ns() + place)
            for place, entry in enumerate(checked)
        ]
        await self._write_points(points)
        if epoch is None or (await self._agent(agent_id)).epoch == epoch:
            return True
        await self._take_back(points)
        return False

    async def _write_points(self, points: Sequence[dict[str, Any]]) -> None:
        from qdrant_client import models

        for batch in batches(points):
            structs = [
                models.PointStruct(
                    id=point["id"],
                    payload=point["payload"],
                    vector={MEANING: point["meaning"], WORDS: models.SparseVector(**point["words"]._asdict())},
                )
                for point in batch
            ]
            await self._ask("upsert", points=structs, wait=True)

    async def _take_back(self, points: Sequence[dict[str, Any]]) -> None:
        """Delete what an erasure overtook, unless somebody has written it anew since."""
        from qdrant_client import models

        ours = models.HasIdCondition(has_id=[point["id"] for point in points])
        await self._delete(models.Filter(must=[ours, equals("epoch", points[0]["payload"]["epoch"])]))

    async def erasure_epoch(self, agent_id: str) -> int:
        """Changes whenever memories of the agent are erased."""
        check_ids(agent_id)
        return (await self._agent(agent_id)).epoch if await self._look() is not None else 0

    async def delete(self, memory_id: str) -> None:
        """Delete one entry, whoever owns it; deleting nothing is no error."""
        from qdrant_client import models

        _validation.identifier(memory_id, "memory_id")
        if await self._look() is not None:
            await self._delete(models.Filter(must=[equals("id", memory_id)]))

    async def delete_agent_memories(self, agent_id: str) -> None:
        """Change the agent's erasure epoch, and delete every entry."""
        from qdrant_client import models

        check_ids(agent_id)
        if await self._change_epoch(agent_id, erased=True):
            await self._delete(models.Filter(must=[equals("agent_id", agent_id)]))
        self._held.forget(agent_id)
        self._kept.forget(agent_id)

    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        """Change the agent's erasure epoch, and delete the archived turns of one session."""
        from qdrant_client import models

        check_ids(agent_id, session_id)
        if await self._change_epoch(agent_id, erased=False):
            conditions = [
                equals("agent_id", agent_id),
                equals("session_id", session_id),
                equals("content_type", "turn"),
            ]
            await self._delete(models.Filter(must=conditions))

    async def _change_epoch(self, agent_id: str, *, erased: bool) -> bool:
        """Give the agent a new epoch; False when there is no collection, and nothing that could be erased."""
        from qdrant_client import models

        dimensions = await self._look()
        if dimensions is None:
            if self._bound is None:
                return False
            await self._make_collection(self._bound.dimensions)
        before = await self._agent(agent_id)
        epoch = max(time.time_ns(), before.epoch + 1)
        payload = {"epoch": epoch, "erased": epoch if erased else before.erased}
        point = models.PointStruct(id=agent_point(agent_id), payload=payload, vector={})
        await self._ask("upsert", points=[point], wait=True)
        return True

    async def _delete(self, which: Any) -> None:
        """Delete and look; raise when it is still there."""
        from qdrant_client import models

        for _ in range(DELETES):
            await self._ask("delete", points_selector=models.FilterSelector(filter=which), wait=True)
            left = (await self._ask("count", count_filter=which, exact=True)).count
            if not left:
                return
        raise StoreConnectionError(
            type(self).__name__,
            RuntimeError(f"{left} points of {self._collection!r} are still there after they were deleted"),
            advice="Look at the cluster's health, then erase again.",
        )

    # --- reading --------------------------------------------------------------------------------------------------

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """The agent's entry of this id, superseded or not."""
        check_ids(agent_id)
        _validation.identifier(memory_id, "memory_id")
        if await self._look() is None:
            return None
        wanted, about = entry_point(agent_id, memory_id), agent_point(agent_id)
        points = {str(point.id): point.payload for point in await self._retrieve([wanted, about])}
        payload = points.get(wanted)
        if payload is None or payload["epoch"] < agent_state(points.get(about)).erased:
            return None
        return read_entry(payload["document"].encode())

    async def list_memories(
        self,
        agent_id: str,
        *,
        content_types: Sequence[ContentType] | None = None,
        include_superseded: bool = False,
    ) -> list[MemoryEntry]:
        """All entries of these types, oldest first."""
        from qdrant_client import models

        check_ids(agent_id)
        _validation.flag(include_superseded, "include_superseded")
        types = _validation.content_types(content_types)
        if types == [] or await self._look() is None:
            return []
        conditions = [equals("agent_id", agent_id)]
        conditions += [] if types is None else [is_any("content_type", types)]
        conditions += [] if include_superseded else [is_any("shelf", list(SHELVES.values()))]
        which = models.Filter(must=conditions)
        payloads = [point.payload for point in await self._scroll(which, with_payload=True)]
        erased = (await self._agent(agent_id)).erased
        living = sorted((p for p in payloads if p["epoch"] >= erased), key=lambda payload: payload["written"])
        return sorted((read_entry(p["document"].encode()) for p in living), key=lambda entry: entry.timestamp)

    async def _answer(self, agent_id: str, query: Query) -> Page:
        dimensions = await self._look()
        talks = [shelf.talk for shelf in AgentIndex().shelves(query.content_types)]
        if dimensions is None or not talks:
            return Page([], [])
        check_dimensions(dimensions, query.vector.size, "query_embedding")
        sights = await self._sights(agent_id, query, talks)
        if all(sight.whole for sight in sights):
            return await self._search_whole(agent_id, query, sights)
        return await self._search_candidates(agent_id, query, sights)

    async def _sights(self, agent_id: str, query: Query, talks: Sequence[bool]) -> list[Sight]:
        """What each shelf holds, as far as one request tells."""
        from qdrant_client import models

        meta = models.QueryRequest(
            filter=models.Filter(must=[models.HasIdCondition(has_id=[agent_point(agent_id), STORE_POINT])]),
            limit=2,
            with_payload=True,
        )
        requests = {talk: self._shelf_requests(agent_id, query, talk) for talk in talks}
        about, *answers = await self._batch([meta, *chain.from_iterable(requests.values())])
        known = {str(point.id): point.payload for point in about}
        self._stored = identity_of(known.get(STORE_POINT))
        erased = agent_state(known.get(agent_point(agent_id))).erased
        sights = []
        for talk, asked in requests.items():
            found, answers = answers[: len(asked)], answers[len(asked) :]
            if len(asked) == 1 and len(found[0]) == shelf_points.WHOLE_SHELF:  # it has grown beyond what was thought
                found = await self._batch(search_requests(agent_id, query, talk))
            sights.append(await self._widened(agent_id, query, sight_of(talk, found, erased), erased))
        return sights

    def _shelf_requests(self, agent_id: str, query: Query, talk: bool) -> list[Any]:
        """What to ask about a shelf: what it holds, where that was little at the last look; else its candidates too."""
        if not 0 < self._held.entries(agent_id, talk) < shelf_points.WHOLE_SHELF:
            return search_requests(agent_id, query, talk)
        return [shelf_request(agent_id, talk)]

    async def _widened(self, agent_id: str, query: Query, sight: Sight, erased: int) -> Sight:
        """The sight of the whole shelf, however large, when the query considers more than the candidates."""
        if sight.whole or query.consider <= shelf_points.WHOLE_SHELF:
            return sight
        points = await self._scroll(shelf_filter(agent_id, sight.talk), with_payload=MARK)
        marks = marks_of(points, erased)
        return Sight(sight.talk, True, marks, marks, [], [])

    async def _search_whole(self, agent_id: str, query: Query, sights: Sequence[Sight]) -> Page:
        """Every memory is at hand: the in-process index, brought up to date, is the answer."""
        held, fetched = self._held.of(agent_id), dict[str, "Kept | None"]()
        while True:
            with held.lock:
                missing = held.lacks(sights, fetched)
                if not missing:
                    held.follow(sights, fetched)
                    self._held.let_go(agent_id)
                    return held.index.search(query)
            found = await self._entries(missing)
            fetched |= {point: found.get(point) for point in missing}

    async def _search_candidates(self, agent_id: str, query: Query, sights: Sequence[Sight]) -> Page:
        """Rank what Qdrant thought fit, with the statistics of the whole."""
        wanted = {point: mark.stamp for sight in sights for point, mark in sight.marks.items()}
        for sight in sights:
            if sight.talk and not sight.whole and query.text is not None:
                wanted |= await self._neighbours(agent_id, sight)
        found = await self._entries(wanted)
        index = AgentIndex()
        for kept in sorted(found.values(), key=lambda kept: kept.written):
            index.put(kept.entry)
        partly = {sight.talk: sight for sight in sights if not sight.whole}
        for shelf in index.shelves(query.content_types):
            if shelf.talk in partly:
                shelf.census = await self._census(agent_id, query, partly[shelf.talk], shelf)
        return index.search(query)

    async def _neighbours(self, agent_id: str, sight: Sight) -> dict[str, str]:
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
        return {point: mark.stamp for point, mark in marks_of(await self._scroll(which, with_payload=MARK), 0).items()}

    async def _census(self, agent_id: str, query: Query, sight: Sight, shelf: Shelf) -> Census:
        """The statistics of a shelf of which ``shelf`` holds the candidates."""
        which = shelf_filter(agent_id, sight.talk)
        counting = self._ask("count", count_filter=which, exact=True)
        terms = sorted(shelf.terms_of(query.text)) if query.text is not None else []
        counted, *answers = await asyncio.gather(counting, *self._term_requests(which, terms[:MOST_COUNTED_TERMS]))
        entries = int(counted.count)
        idf = {term: value for found in answers for term, value in found.items()}
        for term in terms[MOST_COUNTED_TERMS:]:
            idf[term] = inverse_document_frequency(entries * shelf.containing(term) // len(shelf.rows), entries)
        own = float(np.mean([mark.length for mark in sight.sample.values()]))
        length = own * (1 + sum(CONTEXT.values())) if sight.talk else own
        return Census(entries, length, idf, np.array(sight.cosines, np.float32))

    def _term_requests(self, which: Any, terms: Sequence[str]) -> list[Any]:
        return [self._idf(which, terms[start : start + PER_REQUEST]) for start in range(0, len(terms), PER_REQUEST)]

    async def _idf(self, which: Any, terms: Sequence[str]) -> dict[str, float]:
        """How rare each term is among the points of ``which``, as the server counts them; without those in none."""
        from qdrant_client import models

        requests = [
            models.QueryRequest(
                query=models.SparseVector(indices=[term_number(term)], values=[1.0]),
                using=WORDS,
                filter=which,
                params=models.SearchParams(idf=models.IdfCorpusParams(corpus=which)),
                limit=1,
                with_vector=[WORDS],
            )
            for term in terms
        ]
        rarity: dict[str, float] = {}
        for term, points in zip(terms, await self._batch(requests), strict=True):
            for point in points:
                # The score of one term is its idf times what the point stores for it.
                words = point.vector[WORDS]
                rarity[term] = point.score / words.values[words.indices.index(term_number(term))]
        return rarity

    async def _entries(self, wanted: Mapping[str, str]) -> dict[str, Kept]:
        """The points of these ids and stamps, or of newer stamps, without those that are gone."""
        found = self._kept.find(wanted)
        missing = [point for point in wanted if point not in found]
        for start in range(0, len(missing), PER_PAGE):
            for point in await self._retrieve(missing[start : start + PER_PAGE], with_vectors=[MEANING]):
                found[str(point.id)] = kept_point(point)
        self._kept.keep({point: found[point] for point in missing if point in found})
        return found

    # --- the collection -------------------------------------------------------------------------------------------

    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        """Remember whose vectors these are; once some are stored, the answer is the one that filled the store."""
        check_identity(identity)
        if identity == self._stored:
            self._bound = identity
            return identity
        dimensions = await self._look()
        if dimensions is not None:
            (about,) = await self._retrieve([STORE_POINT]) or [None]
            self._stored = identity_of(about.payload if about else None)
            if self._stored is not None and self._stored != identity and await self._holds_vectors():
                return self._stored
            self._check_fits(dimensions, identity.dimensions)
        self._bound = identity
        return identity

    async def close(self) -> None:
        """Close what this store opened; the data stays."""
        await self._link.close()
        self._held, self._kept = HeldIndexes(), KeptEntries()
        self._dimensions, self._version_checked, self._stored = None, False, None

    async def _holds_vectors(self) -> bool:
        from qdrant_client import models

        some = models.Filter(must=[is_any("shelf", [*SHELVES.values(), OLD])])
        points, _ = await self._ask("scroll", scroll_filter=some, limit=1, with_payload=False)
        return bool(points)

    async def _look(self) -> int | None:
        """The dimensions of the collection, None when there is none."""
        if self._dimensions is None:
            if not self._version_checked:
                await self._link.check_version()
                self._version_checked = True
            try:
                info = await self._link.ask("get_collection", collection_name=self._collection)
            except NoCollectionError:
                return None
            await self._complete_indexes(info)
            self._dimensions = self._checked_layout(info)
        return self._dimensions

    async def _make_collection(self, dimensions: int) -> None:
        """Make the collection unless another process did, and note whose vectors it holds."""
        from qdrant_client import models

        if await self._look() is None:
            try:
                await self._link.ask(
                    "create_collection",
                    collection_name=self._collection,
                    vectors_config={MEANING: models.VectorParams(size=dimensions, distance=models.Distance.DOT)},
                    sparse_vectors_config={WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                    # Graphs within agents, none over all: a search never leaves its agent.
                    hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
                )
            except CollectionTakenError:
                logger.debug("Another process made the collection %r first", self._collection)
            self._check_fits(await self._look(), dimensions)
        if self._bound is not None and self._stored != self._bound:
            await self._note_embedder(self._bound)

    def _check_fits(self, stored: int | None, dimensions: int) -> None:
        """Refuse vectors for which the collection was not made, though it may be empty by now."""
        if stored not in (None, dimensions):
            raise ConfigurationError(
                f"The collection {self._collection!r} at {self._link.shown} was made for vectors of {stored} "
                f"dimensions, this embedder's have {dimensions}. Name another one in qdrant_collection, or delete it.",
                {"collection": self._collection, "stored": stored, "configured": dimensions},
            )

    async def _note_embedder(self, identity: EmbedderIdentity) -> None:
        from qdrant_client import models

        stored = await self.bind_embedder(identity)
        if stored != identity:
            raise ConfigurationError(
                f"The collection {self._collection!r} was filled with the embedder {stored.name!r} "
                f"({stored.dimensions} dimensions) meanwhile, this process uses {identity.name!r} "
                f"({identity.dimensions}): their vectors cannot be compared. Use the first one, or another collection.",
                {"stored": stored._asdict(), "configured": identity._asdict()},
            )
        if self._stored != identity:
            payload = {"embedder": identity.name, "dimensions": identity.dimensions}
            await self._ask(
                "upsert", points=[models.PointStruct(id=STORE_POINT, payload=payload, vector={})], wait=True
            )
            self._stored = identity

    def _checked_layout(self, info: Any) -> int:
        vectors, sparse = info.config.params.vectors, info.config.params.sparse_vectors
        if not isinstance(vectors, dict) or MEANING not in vectors or WORDS not in (sparse or {}):
            raise ConfigurationError(
                f"The collection {self._collection!r} at {self._link.shown} is none of ours: it has no vectors "
                f"{MEANING!r} and {WORDS!r}. Name another one in qdrant_collection.",
                {"setting": "qdrant_collection", "collection": self._collection},
            )
        return int(vectors[MEANING].size)

    async def _complete_indexes(self, info: Any) -> None:
        """Index what filters look at, where the process that made the collection did not come to it."""
        from qdrant_client import models

        if self._link.is_local:
            return
        kinds = {
            "tenant": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
            "keyword": models.PayloadSchemaType.KEYWORD,
            "integer": models.PayloadSchemaType.INTEGER,
        }
        for name, kind in INDEXED.items():
            if name not in (info.payload_schema or {}):
                await self._link.ask(
                    "create_payload_index",
                    collection_name=self._collection,
                    field_name=name,
                    field_schema=kinds[kind],
                    wait=True,
                )

    async def _check_owners(self, agent_id: str, ids: Sequence[str]) -> AgentState:
        """The agent's epochs, after a look that no other agent owns one of ``ids``."""
        from qdrant_client import models

        foreign = models.Filter(must=[is_any("id", list(ids))], must_not=[equals("agent_id", agent_id)])
        about = models.Filter(must=[models.HasIdCondition(has_id=[agent_point(agent_id)])])
        answers = await self._batch(
            [
                models.QueryRequest(filter=foreign, limit=1, with_payload=["id"]),
                models.QueryRequest(filter=about, limit=1, with_payload=True),
            ]
        )
        for point in answers[0]:
            raise foreign_id(point.payload["id"])
        return agent_state(answers[1][0].payload if answers[1] else None)

    async def _agent(self, agent_id: str) -> AgentState:
        points = await self._retrieve([agent_point(agent_id)])
        return agent_state(points[0].payload if points else None)

    # --- requests -------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, **arguments: Any) -> Any:
        """Ask the collection; when somebody has deleted it, say so, and make or find it anew at the next call."""
        try:
            return await self._link.ask(method, collection_name=self._collection, **arguments)
        except NoCollectionError as error:
            self._dimensions, self._stored = None, None
            raise StoreConnectionError(
                type(self).__name__,
                error,
                {"collection": self._collection},
                advice=f"The collection {self._collection!r} at {self._link.shown} was deleted while it was in use. "
                "Restore a snapshot of it, or call again: the next write makes a new one.",
            ) from error

    async def _batch(self, requests: Sequence[Any]) -> list[list[Any]]:
        """The points of each request."""
        return [answer.points for answer in await self._ask("query_batch_points", requests=requests)]

    async def _retrieve(self, ids: Sequence[str], with_vectors: list[str] | bool = False) -> list[Any]:
        points: list[Any] = await self._ask("retrieve", ids=ids, with_payload=True, with_vectors=with_vectors)
        return points

    async def _scroll(self, which: Any, *, with_payload: bool | list[str]) -> list[Any]:
        """All points of ``which``, page by page."""
        points: list[Any] = []
        size, offset = PER_PAGE if with_payload is True else shelf_points.WHOLE_SHELF, None
        while True:
            page, offset = await self._ask(
                "scroll", scroll_filter=which, limit=size, offset=offset, with_payload=with_payload
            )
            points += page
            if offset is None:
                return points


def _check_connection(url: object, collection: object, timeout_seconds: object) -> None:
    for name, value in (("url", url), ("collection", collection)):
        if not isinstance(value, str) or not value.strip():
            raise ConfigurationError(f"{name} must be a text that is not blank, is {_validation.shown(value)}")
    if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, int | float) or not timeout_seconds > 0:
        raise ConfigurationError(f"timeout_seconds must be positive, is {_validation.shown(timeout_seconds)}")
