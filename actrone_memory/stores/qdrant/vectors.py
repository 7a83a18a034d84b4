"""Whose vectors the points hold, and how those of another embedder take their place.

The vectors of an embedder stand in every point under a name of their own; the collection's own point says which name
is in use, and which embedder's vectors are being made. So the new ones are put in place by one write of that point.

A write replaces a point as a whole: it takes the new vector away from a memory that changes, which then needs another.
What is written with an old vector while the names are exchanged is found when the old name is gone: from then on the
server refuses such writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from actrone_memory._store_calls import check_identity, new_vectors, unlike_vectors
from actrone_memory.errors import ConfigurationError, StoreConnectionError
from actrone_memory.models import MemoryEntry
from actrone_memory.protocols import EmbedderIdentity
from actrone_memory.stores.qdrant.agents import Agents
from actrone_memory.stores.qdrant.collection import LOOKS, Layout, VectorsMovedError
from actrone_memory.stores.qdrant.link import NoPointError
from actrone_memory.stores.qdrant.points import (
    MEANING,
    OLD,
    SHELVES,
    STORE_POINT,
    entry_point,
)
from actrone_memory.stores.qdrant.questions import equals, has_id, is_any

Result = TypeVar("Result")


class Vectors(Agents):
    """`EmbedderBinding` and `Reindexing` of the collection."""

    _bound: EmbedderIdentity | None = None

    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        """Remember whose vectors these are; once some are stored, the answer is the one that filled the store."""
        check_identity(identity)
        layout = await self._collection.layout()
        if layout is not None and layout.embedder != identity:
            layout = await self._collection.layout(anew=True)
        if layout is not None and layout.embedder != identity and await self._holds_vectors():
            if layout.embedder is not None:
                return layout.embedder
            self._check_fits(layout, identity.dimensions)
        self._bound = identity
        return identity

    async def begin_reindex(self, identity: EmbedderIdentity) -> list[tuple[str, str]]:
        """Agent and id of every entry that has no vector of this embedder yet; what another one began is dropped."""
        check_identity(identity)
        layout = await self._collection.layout(anew=True)
        if layout is None:
            return []
        if layout.embedder == identity:
            return await self._without(layout.vector)
        name = _name_of(identity, layout.vector)
        begun = {"new_embedder": identity.name, "new_dimensions": identity.dimensions, "new_vector": name}
        await self._note(insert={"vector": layout.vector})
        await self._collection.ask("set_payload", payload=begun, points=has_id([STORE_POINT]), wait=True)
        # Named before they are made: who exchanges others at this moment leaves these.
        await self._collection.add_vector(name, identity.dimensions)
        await self._collection.drop_other_vectors()
        return await self._without(name)

    async def add_vectors(self, identity: EmbedderIdentity, entries: Sequence[MemoryEntry]) -> None:
        """Keep these embeddings beside the present ones; an entry that has changed since needs another."""
        from qdrant_client import models

        check_identity(identity)
        rows = new_vectors(identity, entries)
        layout = await self._collection.layout(anew=True)
        name = layout.vector_of(identity) if layout else None
        if name is None or not rows:
            return
        agents = {entry.id: entry.agent_id for entry in entries}
        made = {entry_point(agents[memory_id], memory_id): (document, vector) for memory_id, document, vector in rows}
        found = await self._collection.retrieve(list(made))
        same = [point for point in found if point.payload["document"].encode() == made[str(point.id)][0]]
        vectors = [models.PointVectors(id=point.id, vector={name: made[str(point.id)][1].tolist()}) for point in same]
        unchanged = models.Filter(must=[is_any("stamp", [point.payload["stamp"] for point in same])])
        # Another reindexing may have dropped these vectors, or somebody a memory: the next look tells what is lacking.
        with suppress(VectorsMovedError, NoPointError):
            if vectors:
                await self._collection.ask("update_vectors", points=vectors, update_filter=unchanged, wait=True)

    async def finish_reindex(self, identity: EmbedderIdentity) -> bool:
        """Put the new vectors in place and remember their embedder; False, and nothing, while an entry needs one.

        An entry that was written with an old vector at that very moment needs one afterwards: then it is False too.
        """
        check_identity(identity)
        layout = await self._collection.layout(anew=True)
        if layout is not None and layout.embedder != identity:
            name = layout.vector_of(identity)
            if name is None or await self._without(name):
                return False
            layout = await self._exchanged(identity, name)
            if layout is None or layout.embedder != identity:
                return False
        self._bound = identity
        if layout is None:
            return True
        await self._collection.drop_other_vectors()
        return not await self._without(layout.vector)

    async def _exchanged(self, identity: EmbedderIdentity, name: str) -> Layout | None:
        """Name the vectors in use, unless another reindexing has begun."""
        from qdrant_client import models

        begun = models.Filter(must=[*has_id([STORE_POINT]).must, equals("new_vector", name)])
        payload = {"embedder": identity.name, "dimensions": identity.dimensions, "vector": name}
        await self._collection.ask("overwrite_payload", payload=payload, points=begun, wait=True)
        return await self._collection.layout(anew=True)

    async def _without(self, name: str) -> list[tuple[str, str]]:
        """Agent and id of what is searched and has no vector of this name."""
        from qdrant_client import models

        searched = is_any("shelf", list(SHELVES.values()))
        which = models.Filter(must=[searched], must_not=[models.HasVectorCondition(has_vector=name)])
        points = await self._collection.scroll(which, with_payload=["agent_id", "id", "epoch"])
        erased = await self._erased({point.payload["agent_id"] for point in points})
        return [
            (point.payload["agent_id"], point.payload["id"])
            for point in points
            if point.payload["epoch"] >= erased.get(point.payload["agent_id"], 0)
        ]

    # --- for those who read and write -----------------------------------------------------------------------------

    async def _comparable(self) -> Layout | None:
        """Where the vectors stand; None while there are none that could be compared with the bound embedder's.

        Raises:
            ConfigurationError: they are another embedder's.
        """
        layout = await self._collection.layout()
        if layout is None or self._bound is None or layout.embedder in (None, self._bound):
            return layout
        if layout.embedder is not None and await self._holds_vectors():
            raise unlike_vectors(layout.embedder, self._bound)
        return None

    async def _writable(self, dimensions: int) -> Layout:
        """Where vectors are to be written; makes the collection, and notes whose they are."""
        layout = await self._collection.made(dimensions)
        if self._bound is not None and layout.embedder != self._bound:
            layout = await self._taken_over(self._bound)
        self._check_fits(layout, dimensions)
        return layout

    async def _taken_over(self, identity: EmbedderIdentity) -> Layout:
        """Note whose vectors the collection will hold, unless it holds another embedder's."""
        layout = await self._collection.made(identity.dimensions)
        if layout.embedder is None and layout.dimensions == identity.dimensions:
            about = {"embedder": identity.name, "dimensions": identity.dimensions, "vector": layout.vector}
            await self._note(insert=about)
        stored = await self.bind_embedder(identity)
        if stored == identity and (await self._collection.made(identity.dimensions)).embedder != identity:
            await self.begin_reindex(identity)
            await self.finish_reindex(identity)
            stored = await self.bind_embedder(identity)
        if stored != identity:
            raise unlike_vectors(stored, identity)
        return await self._collection.made(identity.dimensions)

    async def _in_place(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """What ``work`` does; done again when another process has put other vectors in place meanwhile."""
        for _ in range(LOOKS):
            try:
                return await work()
            except VectorsMovedError as error:
                moved = error
        raise StoreConnectionError(
            type(self).__name__, moved, advice="Other processes reindex again and again; call again when they are done."
        )

    async def _note(self, *, insert: dict[str, Any]) -> None:
        """Make the collection's own point, where there is none."""
        from qdrant_client import models

        point = models.PointStruct(id=STORE_POINT, payload=insert, vector={})
        await self._collection.ask("upsert", points=[point], update_mode=models.UpdateMode.INSERT_ONLY, wait=True)
        self._collection.forget()

    async def _holds_vectors(self) -> bool:
        from qdrant_client import models

        some = models.Filter(must=[is_any("shelf", [*SHELVES.values(), OLD])])
        points, _ = await self._collection.ask("scroll", scroll_filter=some, limit=1, with_payload=False)
        return bool(points)

    def _check_fits(self, layout: Layout, dimensions: int) -> None:
        """Refuse vectors that cannot stand beside those of nobody knows whom."""
        if layout.dimensions != dimensions:
            raise ConfigurationError(
                f"The collection {self._collection.shown} holds vectors of {layout.dimensions} dimensions, this "
                f"embedder's have {dimensions}. Name another one in qdrant_collection, or delete it.",
                {"collection": self._collection.name, "stored": layout.dimensions, "configured": dimensions},
            )


def _name_of(identity: EmbedderIdentity, present: str) -> str:
    """The same for everybody who reindexes to this embedder now, and never the name in use."""
    told = f"{identity.name} {identity.dimensions} {present}".encode()
    return f"{MEANING}-{hashlib.blake2b(told, digest_size=8).hexdigest()}"
