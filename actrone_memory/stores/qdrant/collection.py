"""The collection on its server: made, checked, asked. What its points mean is told elsewhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from actrone_memory.errors import ConfigurationError, StoreConnectionError
from actrone_memory.protocols import EmbedderIdentity
from actrone_memory.stores.qdrant.link import NameTakenError, NoCollectionError, NoVectorError, QdrantLink
from actrone_memory.stores.qdrant.points import INDEXED, MEANING, STORE_POINT, WORDS, Filling, filling_of

logger = logging.getLogger("actrone_memory")

PER_PAGE = 256
"""Points read at once with all they hold."""

MARKS_PER_PAGE = 1_000
"""Points read at once with a few fields."""

MOST_VALUES = 10_000
"""Values of a field asked for at first; ten times more while the answer is full."""

DELETES = 3
"""How often a deletion is said and looked after before it counts as failed."""

LOOKS_AT_NEW = 20
PAUSE_SECONDS = 0.05
"""How often, and how far apart, a collection is looked for that was just made."""

LOOKS = 3
"""How often vectors are looked for that were just put in place of others."""


class VectorsMovedError(Exception):
    """Another process has put other vectors in place; the next look finds them."""


class Layout(NamedTuple):
    """Which vectors the points have, and whose are in use."""

    sizes: Mapping[str, int]
    """Dimensions of each vector of a point that is compared, by its name."""
    filling: Filling

    @property
    def vector(self) -> str:
        """The name of the vectors in use."""
        return self.filling.vector

    @property
    def embedder(self) -> EmbedderIdentity | None:
        """Whose they are; None when nobody said so."""
        return self.filling.embedder

    @property
    def new_vector(self) -> str | None:
        """The name of those that are being made."""
        return self.filling.new_vector

    @property
    def dimensions(self) -> int:
        """Dimensions of the vectors in use."""
        return self.sizes[self.vector]

    def vector_of(self, identity: EmbedderIdentity) -> str | None:
        """The name of the vectors of this embedder, in use or being made."""
        filling = self.filling
        return {filling.new_embedder: filling.new_vector, filling.embedder: filling.vector}.get(identity)


class Collection:
    """One collection of one server or local folder. It is looked for by the first call that needs it.

    Raises, from every call:
        ConfigurationError: the server is too old, or the collection is none of ours.
        StoreConnectionError: Qdrant is away, or failed; see `QdrantLink.ask`.
    """

    def __init__(self, store: str, link: QdrantLink, name: str) -> None:
        self._store, self._link, self.name = store, link, name
        self._layout: Layout | None = None
        self._version_checked = False

    @property
    def shown(self) -> str:
        """Which collection, and where, for messages."""
        return f"{self.name!r} at {self._link.shown}"

    async def layout(self, *, anew: bool = False) -> Layout | None:
        """Which vectors there are, as far as was known at the last look; None when there is no collection."""
        if anew:
            self.forget()
        if self._layout is None:
            if not self._version_checked:
                await self._link.check_version()
                self._version_checked = True
            self._layout = await self._looked_at()
        return self._layout

    def forget(self) -> None:
        """Look anew at the next call."""
        self._layout = None

    def check_filling(self, filling: Filling) -> None:
        """Compare what a request has read with what was known.

        Raises:
            VectorsMovedError: other vectors are in use.
        """
        layout = self._layout
        if layout is not None and (layout.vector, layout.embedder) != (filling.vector, filling.embedder):
            self.forget()
            raise VectorsMovedError(f"the vectors in use are now {filling.vector!r} of {filling.embedder}")

    async def made(self, dimensions: int) -> Layout:
        """The layout of the collection, which is made unless another process did."""
        for look in range(LOOKS_AT_NEW):
            layout = await self.layout()
            if layout is not None:
                return layout
            await self._create(dimensions)
            await asyncio.sleep(PAUSE_SECONDS if look else 0)
        raise StoreConnectionError(
            self._store,
            RuntimeError(f"the collection {self.shown} was made and is not there"),
            {"collection": self.name},
            advice="Look at the server's log, or name another one in qdrant_collection.",
        )

    async def _create(self, dimensions: int) -> None:
        from qdrant_client import models

        try:
            await self._link.ask(
                "create_collection",
                collection_name=self.name,
                vectors_config={MEANING: models.VectorParams(size=dimensions, distance=models.Distance.DOT)},
                sparse_vectors_config={WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                # Graphs within agents, none over all: a search never leaves its agent.
                hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
            )
        except NameTakenError:
            logger.debug("Another process made the collection %r first", self.name)

    async def add_vector(self, name: str, dimensions: int) -> None:
        """Let every point have a vector of this name, unless it may already."""
        from qdrant_client import models

        layout = await self.layout()
        if layout is None or name in layout.sizes:
            return
        vector = models.DenseVectorConfig(size=dimensions, distance=models.Distance.DOT)
        config = models.DenseVectorNameConfig(dense=vector)
        try:
            await self.ask("create_vector_name", vector_name=name, vector_name_config=config, wait=True)
        except NameTakenError:
            logger.debug("Another process named the vectors %r first", name)
        self.forget()

    async def drop_other_vectors(self) -> None:
        """Delete from every point the compared vectors that are neither in use nor being made now."""
        layout = await self.layout(anew=True)
        for other in sorted(set(layout.sizes) - {layout.vector, layout.new_vector}) if layout else []:
            try:
                await self.ask("delete_vector_name", vector_name=other, wait=True)
            except VectorsMovedError:
                logger.debug("Another process dropped the vectors %r first", other)
        self.forget()

    async def close(self) -> None:
        """Close what the link opened; the collection is looked for anew by the next call."""
        await self._link.close()
        self._layout, self._version_checked = None, False

    async def _looked_at(self) -> Layout | None:
        for _ in range(LOOKS):
            try:
                info = await self._link.ask("get_collection", collection_name=self.name)
                about = await self._link.ask(
                    "retrieve", collection_name=self.name, ids=[STORE_POINT], with_payload=True
                )
            except NoCollectionError:
                return None
            filling = filling_of(about[0].payload if about else None)
            vectors, sparse = info.config.params.vectors, info.config.params.sparse_vectors
            if isinstance(vectors, dict) and filling.vector in vectors and WORDS in (sparse or {}):
                await self._complete_indexes(info)
                return Layout({name: int(vector.size) for name, vector in vectors.items()}, filling)
        raise ConfigurationError(
            f"The collection {self.shown} is none of ours: it has no vectors {filling.vector!r} and {WORDS!r}. "
            "Name another one in qdrant_collection.",
            {"setting": "qdrant_collection", "collection": self.name},
        )

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
        except NoVectorError as error:
            self.forget()
            raise VectorsMovedError(str(error)) from error
        except NoCollectionError as error:
            self.forget()
            raise StoreConnectionError(
                self._store,
                error.cause,
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
