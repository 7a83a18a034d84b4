"""The cold tier: long-term memories, stored, listed, searched and erased."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from actrone_memory import _validation
from actrone_memory._page_search import PageSearch
from actrone_memory._shelf import Query, prepare
from actrone_memory._store_calls import check_ids
from actrone_memory.models import ContentType, MemoryEntry
from actrone_memory.protocols import Page
from actrone_memory.stores.sqlite.agents import agent_hash, next_epoch
from actrone_memory.stores.sqlite.entries import (
    all_entries,
    delete_entries,
    delete_entry,
    delete_turns,
    entries_with_vectors,
    entry_ids,
    find_entry,
    put_entries,
)
from actrone_memory.stores.sqlite.file import SQLiteFile
from actrone_memory.stores.sqlite.indexes import Indexes


class Memories(PageSearch):
    """An `L2Store` in the file, with every capability of one but those in `vectors`."""

    _file: SQLiteFile
    _indexes: Indexes

    async def upsert(self, entry: MemoryEntry) -> None:
        """Store or replace one entry.

        Raises:
            ValidationError: another agent owns the id, or the embedding has other dimensions than those stored.
        """
        await self.upsert_many([entry])

    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        """Store all entries of one agent; none, and False, when ``epoch`` is no longer the agent's erasure epoch."""
        checked = _validation.entries(entries)
        if epoch is not None:
            _validation.whole_number(epoch, "epoch")
        if not checked:
            return True
        rows = [prepare(entry) for entry in checked]
        return await self._file.write(lambda c: put_entries(c, rows, epoch))

    async def erasure_epoch(self, agent_id: str) -> int:
        """Changes whenever memories of the agent are erased, by whatever process."""
        check_ids(agent_id)
        row = await self._file.first_row("SELECT epoch FROM agents WHERE hash = ?", (agent_hash(agent_id),))
        return int(row[0]) if row else 0

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """The agent's entry of this id, superseded or not."""
        check_ids(agent_id)
        _validation.identifier(memory_id, "memory_id")
        return await self._file.read(lambda c: find_entry(c, agent_id, memory_id))

    async def memory_ids(self, agent_id: str) -> list[str]:
        """The ids of all of the agent's entries, superseded ones included, in the order of their writes."""
        check_ids(agent_id)
        return await self._file.read(lambda c: entry_ids(c, agent_id))

    async def get_with_embeddings(self, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
        """The agent's entries of these ids, in order, each with the vector that is compared; others are left out."""
        check_ids(agent_id)
        wanted = _validation.texts(memory_ids, "memory_ids")
        return await self._file.read(lambda c: entries_with_vectors(c, agent_id, wanted))

    async def list_memories(
        self,
        agent_id: str,
        *,
        content_types: Sequence[ContentType] | None = None,
        include_superseded: bool = False,
    ) -> list[MemoryEntry]:
        """All entries of these types, oldest first."""
        check_ids(agent_id)
        _validation.flag(include_superseded, "include_superseded")
        types = _validation.content_types(content_types)

        def entries(connection: sqlite3.Connection) -> list[MemoryEntry]:
            found = all_entries(connection, agent_id, include_superseded=include_superseded)
            wanted = [entry for entry in found if types is None or entry.content_type in types]
            return sorted(wanted, key=lambda entry: entry.timestamp)

        return await self._file.read(entries)

    async def _answer(self, agent_id: str, query: Query) -> Page:
        return await self._indexes.search(agent_id, query)

    async def delete(self, memory_id: str) -> None:
        """Delete one entry, whoever owns it; deleting nothing is no error."""
        _validation.identifier(memory_id, "memory_id")
        await self._file.write(lambda c: delete_entry(c, memory_id), wipe=True)

    async def delete_agent_memories(self, agent_id: str) -> None:
        """Delete every entry of the agent and change its erasure epoch."""
        check_ids(agent_id)
        await self._file.write(lambda c: delete_entries(c, next_epoch(c, agent_id)), wipe=True)
        self._indexes.forget(agent_id)

    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        """Delete the archived turns of one session and change the agent's erasure epoch."""
        check_ids(agent_id, session_id)
        await self._file.write(lambda c: delete_turns(c, next_epoch(c, agent_id), session_id), wipe=True)
