"""Whose vectors the file holds, and how those of another embedder take their place."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from actrone_memory._store_calls import check_identity, new_vectors
from actrone_memory.models import MemoryEntry
from actrone_memory.protocols import EmbedderIdentity
from actrone_memory.stores.sqlite.entries import vector_blob
from actrone_memory.stores.sqlite.file import SQLiteFile

_WITHOUT_NEW_VECTOR = (
    "FROM memories JOIN agents ON agents.id = agent "
    "LEFT JOIN new_vectors ON new_vectors.id = memories.id AND new_vectors.changed = memories.changed "
    "WHERE new_vectors.id IS NULL AND NOT is_superseded"
)


class Vectors:
    """`EmbedderBinding` and `Reindexing` of the file."""

    _file: SQLiteFile

    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        """Remember whose vectors these are; once some are stored, the answer is the one that filled the store."""
        check_identity(identity)
        if await self._file.first_row("SELECT embedder, embedder_dimensions FROM file") == tuple(identity):
            return identity

        def bind(connection: sqlite3.Connection) -> EmbedderIdentity:
            ((name, dimensions),) = connection.execute("SELECT embedder, embedder_dimensions FROM file").fetchall()
            if name is not None and connection.execute("SELECT 1 FROM memories LIMIT 1").fetchall():
                return EmbedderIdentity(name, dimensions)
            connection.execute("UPDATE file SET embedder = ?, embedder_dimensions = ?", tuple(identity))
            return identity

        return await self._file.write(bind)

    async def begin_reindex(self, identity: EmbedderIdentity) -> list[tuple[str, str]]:
        """Agent and id of every entry that has no vector of this embedder yet; what another one began is dropped."""
        check_identity(identity)

        def begin(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            embedders = _embedders(connection)
            if embedders.present == identity:
                return []
            if embedders.new != identity:
                connection.execute("DELETE FROM new_vectors")
                connection.execute("UPDATE file SET new_embedder = ?, new_dimensions = ?", tuple(identity))
            return connection.execute(f"SELECT agents.name, memories.id {_WITHOUT_NEW_VECTOR}").fetchall()

        return await self._file.write(begin)

    async def add_vectors(self, identity: EmbedderIdentity, entries: Sequence[MemoryEntry]) -> None:
        """Keep these embeddings beside the present ones; an entry that has changed since needs another."""
        check_identity(identity)
        rows = new_vectors(identity, entries)

        def add(connection: sqlite3.Connection) -> None:
            if _embedders(connection).new == identity:
                connection.executemany(
                    "INSERT OR REPLACE INTO new_vectors "
                    "SELECT id, changed, ? FROM memories WHERE id = ? AND document = ?",
                    ((vector_blob(vector), memory_id, document.decode()) for memory_id, document, vector in rows),
                )

        await self._file.write(add)

    async def finish_reindex(self, identity: EmbedderIdentity) -> bool:
        """Put the new vectors in place and remember their embedder; False, and nothing, while an entry needs one."""
        check_identity(identity)

        def finish(connection: sqlite3.Connection) -> bool:
            embedders = _embedders(connection)
            if embedders.present == identity:
                return True
            if embedders.new != identity or connection.execute(f"SELECT 1 {_WITHOUT_NEW_VECTOR} LIMIT 1").fetchall():
                return False
            connection.execute(
                "UPDATE memories SET vector = (SELECT vector FROM new_vectors WHERE new_vectors.id = memories.id)"
            )
            connection.execute("DELETE FROM new_vectors")
            connection.execute(
                "UPDATE file SET embedder = new_embedder, embedder_dimensions = new_dimensions, new_embedder = NULL, "
                "reindexes = reindexes + 1, "
                "dimensions = CASE WHEN EXISTS (SELECT 1 FROM memories) THEN new_dimensions END"
            )
            return True

        return await self._file.write(finish)


class _Embedders(NamedTuple):
    """Whose vectors are in place, and whose are being made."""

    present: EmbedderIdentity
    new: EmbedderIdentity


def _embedders(connection: sqlite3.Connection) -> _Embedders:
    ((*present, new, dimensions),) = connection.execute(
        "SELECT embedder, embedder_dimensions, new_embedder, new_dimensions FROM file"
    ).fetchall()
    return _Embedders(EmbedderIdentity(*present), EmbedderIdentity(new, dimensions))
