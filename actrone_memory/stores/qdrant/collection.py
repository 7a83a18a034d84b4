"""The collection on its server: made, checked, asked. What its points mean is told elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from actrone_memory.errors import ConfigurationError, StoreConnectionError
from actrone_memory.stores.qdrant.link import CollectionTakenError, NoCollectionError, QdrantLink
from actrone_memory.stores.qdrant.points import INDEXED, MEANING, WORDS

logger = logging.getLogger("actrone_memory")

PER_PAGE = 256
"""Points read at once with all they hold."""

MARKS_PER_PAGE = 1_000
"""Points read at once with a few fields."""

MOST_VALUES = 10_000
"""Values of a field asked for at first; ten times more while the answer is full."""

DELETES = 3
"""How often a deletion is said and looked after before it counts as failed."""


class Collection:
    """One collection of one server or local folder. It is looked for by the first call that needs it.

    Raises, from every call:
        ConfigurationError: the server is too old, or the collection is none of ours.
        StoreConnectionError: Qdrant is away, or failed; see `QdrantLink.ask`.
    """

    def __init__(self, store: str, link: QdrantLink, name: str) -> None:
        self._store, self._link, self.name = store, link, name
        self._dimensions: int | None = None
        self._version_checked = False

    @property
    def shown(self) -> str:
        """Which collection, and where, for messages."""
        return f"{self.name!r} at {self._link.shown}"

    async def look(self) -> int | None:
        """The dimensions of its vectors, None when there is no collection."""
        if self._dimensions is None:
            if not self._version_checked:
                await self._link.check_version()
                self._version_checked = True
            try:
                info = await self._link.ask("get_collection", collection_name=self.name)
            except NoCollectionError:
                return None
            await self._complete_indexes(info)
            self._dimensions = self._checked_layout(info)
        return self._dimensions

    async def make(self, dimensions: int) -> int | None:
        """Make the collection unless another process did; returns the dimensions of the one that is there."""
        from qdrant_client import models

        if await self.look() is None:
            try:
                await self._link.ask(
                    "create_collection",
                    collection_name=self.name,
                    vectors_config={MEANING: models.VectorParams(size=dimensions, distance=models.Distance.DOT)},
                    sparse_vectors_config={WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                    # Graphs within agents, none over all: a search never leaves its agent.
                    hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
                )
            except CollectionTakenError:
                logger.debug("Another process made the collection %r first", self.name)
        return await self.look()

    async def close(self) -> None:
        """Close what the link opened; the collection is looked for anew by the next call."""
        await self._link.close()
        self._dimensions, self._version_checked = None, False

    def _checked_layout(self, info: Any) -> int:
        vectors, sparse = info.config.params.vectors, info.config.params.sparse_vectors
        if not isinstance(vectors, dict) or MEANING not in vectors or WORDS not in (sparse or {}):
            raise ConfigurationError(
                f"The collection {self.shown} is none of ours: it has no vectors {MEANING!r} and {WORDS!r}. "
                "Name another one in qdrant_collection.",
                {"setting": "qdrant_collection", "collection": self.name},
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
                    collection_name=self.name,
                    field_name=name,
                    field_schema=kinds[kind],
                    wait=True,
                )

    # --- what is asked of it ----------------------------------------------------------------------------------------

    async def ask(self, method: str, **arguments: Any) -> Any:
        """What the client's ``method`` returns; when somebody has deleted the collection, an error that says so."""
        try:
            return await self._link.ask(method, collection_name=self.name, **arguments)
        except NoCollectionError as error:
            self._dimensions = None
            raise StoreConnectionError(
                self._store,
                error,
                {"collection": self.name},
                advice=f"The collection {self.shown} was deleted while it was in use. "
                "Restore a snapshot of it, or call again: the next write makes a new one.",
            ) from error

    async def batch(self, requests: Sequence[Any]) -> list[list[Any]]:
        """The points of each request."""
        return [answer.points for answer in await self.ask("query_batch_points", requests=requests)]

    async def retrieve(self, ids: Sequence[str], with_vectors: list[str] | bool = False) -> list[Any]:
        """Those of the points that are there."""
        points: list[Any] = await self.ask("retrieve", ids=ids, with_payload=True, with_vectors=with_vectors)
        return points

    async def scroll(self, which: Any, *, with_payload: bool | list[str]) -> list[Any]:
        """All points of ``which``, page by page."""
        points: list[Any] = []
        size, offset = PER_PAGE if with_payload is True else MARKS_PER_PAGE, None
        while True:
            page, offset = await self.ask(
                "scroll", scroll_filter=which, limit=size, offset=offset, with_payload=with_payload
            )
            points += page
            if offset is None:
                return points

    async def values(self, field: str) -> list[str]:
        """Every value that an indexed field has in any point."""
        most = MOST_VALUES
        while True:
            hits = (await self.ask("facet", key=field, limit=most, exact=True)).hits
            if len(hits) < most:
                return [hit.value for hit in hits if hit.count]  # those of deleted points have none
            most *= 10

    async def delete(self, which: Any) -> None:
        """Delete and look; raise when it is still there."""
        from qdrant_client import models

        for _ in range(DELETES):
            await self.ask("delete", points_selector=models.FilterSelector(filter=which), wait=True)
            left = (await self.ask("count", count_filter=which, exact=True)).count
            if not left:
                return
        raise StoreConnectionError(
            self._store,
            RuntimeError(f"{left} points of {self.name!r} are still there after they were deleted"),
            advice="Look at the cluster's health, then erase again.",
        )
