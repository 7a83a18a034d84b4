"""The index of each agent in this process, brought up to what the file holds before it is searched."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actrone_memory._index import AgentIndex
from actrone_memory._shelf import Query
from actrone_memory._store_calls import check_dimensions
from actrone_memory.protocols import Page
from actrone_memory.stores.sqlite.agents import agent_hash
from actrone_memory.stores.sqlite.entries import entries_changed_since, ids_without_entry
from actrone_memory.stores.sqlite.file import NotAtOnceError, SQLiteFile

_STATE = (
    "SELECT dimensions, coalesce(changes, 0), coalesce(deletions, 0), reindexes "
    "FROM file LEFT JOIN agents ON agents.hash = ?"
)


class _State(NamedTuple):
    """How far an agent's memories have come in the file, and the dimensions of the vectors of all."""

    dimensions: int | None
    changes: int
    deletions: int
    reindexes: int

    @classmethod
    def of(cls, row: tuple[Any, ...] | None) -> _State:
        assert row is not None, "the table of the file has one row"
        return cls(*row)


@dataclass(slots=True)
class _Held:
    """The index of one agent in this process, and up to which change of the file it goes."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    index: AgentIndex = field(default_factory=AgentIndex)
    changes: int = 0
    deletions: int = 0
    reindexes: int = 0

    def is_at(self, state: _State) -> bool:
        """Whether nothing was written since."""
        return (self.changes, self.deletions, self.reindexes) == state[1:]

    def found(self, query: Query, dimensions: int | None) -> Page:
        """What the index finds as it is."""
        if not len(self.index):
            return Page([], [])
        check_dimensions(dimensions, query.vector.size, "query_embedding")
        return self.index.search(query)


class Indexes:
    """The indexes of the agents that were searched."""

    def __init__(self, file: SQLiteFile) -> None:
        self._file = file
        self._guard = threading.Lock()
        self._held: dict[str, _Held] = {}

    async def search(self, agent_id: str, query: Query) -> Page:
        """What the agent's memories in the file answer; without a thread when nothing was written since."""
        with self._guard:
            held = self._held.setdefault(agent_id, _Held())
        page = self._search_at_once(agent_id, held, query)
        return page if page is not None else await self._file.read(lambda c: _search(c, agent_id, held, query))

    def forget(self, agent_id: str) -> None:
        """Let go of one agent's index."""
        with self._guard:
            self._held.pop(agent_id, None)

    def clear(self) -> None:
        """Let go of all."""
        with self._guard:
            self._held.clear()

    def _search_at_once(self, agent_id: str, held: _Held, query: Query) -> Page | None:
        """What the index finds, without waiting for anything; None when it is busy or behind the file."""
        if not held.lock.acquire(blocking=False):
            return None
        try:
            state = _State.of(self._file.glance(_STATE, (agent_hash(agent_id),)))
            return held.found(query, state.dimensions) if held.is_at(state) else None
        except NotAtOnceError:
            return None
        finally:
            held.lock.release()


def _search(connection: sqlite3.Connection, agent_id: str, held: _Held, query: Query) -> Page:
    """What the index finds once it holds what the file holds."""
    with held.lock:
        state = _State.of(connection.execute(_STATE, (agent_hash(agent_id),)).fetchall()[0])
        _bring_up_to_date(connection, agent_id, held, state)
        return held.found(query, state.dimensions)


def _bring_up_to_date(connection: sqlite3.Connection, agent_id: str, held: _Held, state: _State) -> None:
    """Put into the index what was written since it was last looked at, and take out what was deleted."""
    if state.reindexes != held.reindexes or state.changes < held.changes or state.deletions < held.deletions:
        # Other vectors, or another file, took the place of those that were read.
        held.index, held.changes, held.deletions = AgentIndex(), 0, 0
    if state.deletions != held.deletions:
        _take_out_deleted(connection, agent_id, held)
    for entry in entries_changed_since(connection, agent_id, held.changes):
        held.index.put(entry)
    held.changes, held.deletions, held.reindexes = state[1:]


def _take_out_deleted(connection: sqlite3.Connection, agent_id: str, held: _Held) -> None:
    gone = ids_without_entry(connection, agent_id, held.index.ids())
    if 2 * len(gone) > len(held.index):
        held.index, held.changes = AgentIndex(), 0  # quicker to read what is left
    for memory_id in gone if held.changes else ():
        held.index.remove(memory_id)
