"""Whose vectors the collection holds."""

from __future__ import annotations

from actrone_memory._store_calls import check_identity
from actrone_memory.errors import ConfigurationError
from actrone_memory.protocols import EmbedderIdentity
from actrone_memory.stores.qdrant.collection import Collection
from actrone_memory.stores.qdrant.points import OLD, SHELVES, STORE_POINT, identity_of
from actrone_memory.stores.qdrant.questions import is_any


class Vectors:
    """`EmbedderBinding` of the collection."""

    _collection: Collection
    _bound: EmbedderIdentity | None = None
    _stored: EmbedderIdentity | None = None

    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        """Remember whose vectors these are; once some are stored, the answer is the one that filled the store."""
        check_identity(identity)
        if identity == self._stored:
            self._bound = identity
            return identity
        dimensions = await self._collection.look()
        if dimensions is not None:
            (about,) = await self._collection.retrieve([STORE_POINT]) or [None]
            self._stored = identity_of(about.payload if about else None)
            if self._stored is not None and self._stored != identity and await self._holds_vectors():
                return self._stored
            self._check_fits(dimensions, identity.dimensions)
        self._bound = identity
        return identity

    async def _make_collection(self, dimensions: int) -> None:
        """Make the collection unless another process did, and note whose vectors it holds."""
        self._check_fits(await self._collection.make(dimensions), dimensions)
        if self._bound is not None and self._stored != self._bound:
            await self._note_embedder(self._bound)

    async def _note_embedder(self, identity: EmbedderIdentity) -> None:
        from qdrant_client import models

        stored = await self.bind_embedder(identity)
        if stored != identity:
            raise ConfigurationError(
                f"The collection {self._collection.name!r} was filled with the embedder {stored.name!r} "
                f"({stored.dimensions} dimensions) meanwhile, this process uses {identity.name!r} "
                f"({identity.dimensions}): their vectors cannot be compared. Use the first one, or another collection.",
                {"stored": stored._asdict(), "configured": identity._asdict()},
            )
        if self._stored != identity:
            payload = {"embedder": identity.name, "dimensions": identity.dimensions}
            point = models.PointStruct(id=STORE_POINT, payload=payload, vector={})
            await self._collection.ask("upsert", points=[point], wait=True)
            self._stored = identity

    async def _holds_vectors(self) -> bool:
        from qdrant_client import models

        some = models.Filter(must=[is_any("shelf", [*SHELVES.values(), OLD])])
        points, _ = await self._collection.ask("scroll", scroll_filter=some, limit=1, with_payload=False)
        return bool(points)

    def _check_fits(self, stored: int | None, dimensions: int) -> None:
        """Refuse vectors for which the collection was not made, though it may be empty by now."""
        if stored not in (None, dimensions):
            raise ConfigurationError(
                f"The collection {self._collection.shown} was made for vectors of {stored} dimensions, this "
                f"embedder's have {dimensions}. Name another one in qdrant_collection, or delete it.",
                {"collection": self._collection.name, "stored": stored, "configured": dimensions},
            )
