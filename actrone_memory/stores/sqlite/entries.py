"""The rows of memories: put, found and deleted, each agent's apart."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic_core import from_json, to_json

from actrone_memory._shelf import Prepared, read_entry, terms_of, terms_recipe
from actrone_memory._store_calls import dimensions_with, foreign_id
from actrone_memory.models import MemoryEntry
from actrone_memory.stores.sqlite.agents import agent_hash, agent_number, forget_name, named_agent

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OF_AGENT = "FROM memories JOIN agents ON agents.id = agent WHERE hash = ?"
_IN_ORDER = "ORDER BY is_superseded, is_turn, changed"


def put_entries(connection: sqlite3.Connection, rows: Sequence[Prepared], epoch: int | None) -> bool:
    """Store the entries, after what an erasure, another owner or other dimensions forbid."""
    entries = [row.entry for row in rows]
    agent_id = entries[0].agent_id
    agent = agent_number(connection, agent_id)
    ((current, changes),) = connection.execute("SELECT epoch, changes FROM agents WHERE id = ?", (agent,)).fetchall()
    if epoch is not None and epoch != current:
        return False
    for entry in entries:
        if connection.execute("SELECT 1 FROM memories WHERE id = ? AND agent <> ?", (entry.id, agent)).fetchall():
            raise foreign_id(entry.id)
    _agree_on_dimensions(connection, entries)
    connection.executemany(
        "INSERT OR REPLACE INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (_columns(row, agent, changed) for changed, row in enumerate(rows, start=changes + 1)),
    )
    connection.execute("UPDATE agents SET changes = ? WHERE id = ?", (changes + len(rows), agent))
    named_agent(connection, agent_id)
    return True


def find_entry(connection: sqlite3.Connection, agent_id: str, memory_id: str) -> MemoryEntry | None:
    """The agent's entry of this id, superseded or not."""
    rows = connection.execute(
        f"SELECT CAST(document AS BLOB) {_OF_AGENT} AND memories.id = ?", (agent_hash(agent_id), memory_id)
    ).fetchall()
    return read_entry(rows[0][0]) if rows else None


def entries_with_vectors(connection: sqlite3.Connection, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
    """The agent's entries of these ids, in order, each with the vector that is compared."""
    found = []
    for memory_id in memory_ids:
        rows = connection.execute(
            f"SELECT CAST(document AS BLOB), vector {_OF_AGENT} AND memories.id = ?",
            (agent_hash(agent_id), memory_id),
        ).fetchall()
        for document, vector in rows:
            entry = read_entry(document)
            entry.embedding = None if vector is None else np.frombuffer(vector, np.float32).tolist()
            found.append(entry)
    return found


def entry_ids(connection: sqlite3.Connection, agent_id: str) -> list[str]:
    """The ids of all of the agent's entries, in the order of their writes."""
    rows = connection.execute(f"SELECT memories.id {_OF_AGENT} {_IN_ORDER}", (agent_hash(agent_id),))
    return [memory_id for (memory_id,) in rows]


def ids_without_entry(connection: sqlite3.Connection, agent_id: str, memory_ids: Iterable[str]) -> set[str]:
    """Those of the ids of which the agent has no entry."""
    rows = connection.execute(f"SELECT memories.id {_OF_AGENT}", (agent_hash(agent_id),))
    return set(memory_ids).difference(memory_id for (memory_id,) in rows)


def all_entries(connection: sqlite3.Connection, agent_id: str, *, include_superseded: bool) -> list[MemoryEntry]:
    """All of the agent's entries, in the order of their writes."""
    rows = connection.execute(
        f"SELECT CAST(document AS BLOB) {_OF_AGENT} AND is_superseded <= ? {_IN_ORDER}",
        (agent_hash(agent_id), include_superseded),
    )
    return [read_entry(document) for (document,) in rows]


def entries_changed_since(connection: sqlite3.Connection, agent_id: str, change: int) -> Iterator[Prepared]:
    """What was written after this change of the agent, in order, ready for an index."""
    rows = connection.execute(
        f"SELECT CAST(document AS BLOB), vector, CAST(terms AS BLOB), terms_recipe {_OF_AGENT} AND changed > ? "
        "ORDER BY changed",
        (agent_hash(agent_id), change),
    )
    return (_prepared(*row) for row in rows)


def delete_entry(connection: sqlite3.Connection, memory_id: str) -> None:
    """Delete one entry, whoever owns it."""
    owners = connection.execute("SELECT agent FROM memories WHERE id = ?", (memory_id,)).fetchall()
    for (agent,) in owners:
        deleted = connection.execute("DELETE FROM memories WHERE agent = ? AND id = ?", (agent, memory_id))
        _note_deletion(connection, agent, deleted)


def delete_entries(connection: sqlite3.Connection, agent: int) -> None:
    """Delete every entry of the agent."""
    _note_deletion(connection, agent, connection.execute("DELETE FROM memories WHERE agent = ?", (agent,)))


def delete_turns(connection: sqlite3.Connection, agent: int, session_id: str) -> None:
    """Delete the archived turns of one session of the agent."""
    deleted = connection.execute(
        "DELETE FROM memories WHERE agent = ? AND is_turn AND session = ?", (agent, session_id)
    )
    _note_deletion(connection, agent, deleted)


def vector_blob(vector: NDArray[np.float32]) -> bytes | None:
    """A vector as it is stored; one without a direction says no more than none."""
    return vector.tobytes() if vector.any() else None


def _agree_on_dimensions(connection: sqlite3.Connection, entries: Sequence[MemoryEntry]) -> None:
    ((held,),) = connection.execute("SELECT dimensions FROM file").fetchall()
    dimensions = dimensions_with(held, entries)
    if dimensions != held:
        connection.execute("UPDATE file SET dimensions = ?", (dimensions,))


def _columns(row: Prepared, agent: int, changed: int) -> tuple[object, ...]:
    entry, superseded = row.entry, row.entry.superseded_by is not None
    return (
        entry.id,
        agent,
        changed,
        entry.content_type == "turn",
        entry.session_id,
        superseded,
        row.document.decode(),
        None if superseded else vector_blob(row.vector),  # what is superseded is never compared again
        to_json(row.terms).decode(),
        terms_recipe(),
    )


def _prepared(document: bytes, vector: bytes | None, terms: bytes, recipe: int) -> Prepared:
    """The entry of some columns, with its terms as they would be found today."""
    entry = read_entry(document)
    known = from_json(terms) if recipe == terms_recipe() else terms_of(entry)
    return Prepared(entry, document, np.frombuffer(vector or b"", np.float32), known)


def _note_deletion(connection: sqlite3.Connection, agent: int, deleted: sqlite3.Cursor) -> None:
    """Let every index of the agent hear of what was deleted."""
    if deleted.rowcount:
        connection.execute("UPDATE agents SET deletions = deletions + 1 WHERE id = ?", (agent,))
        connection.execute("UPDATE file SET dimensions = NULL WHERE NOT EXISTS (SELECT 1 FROM memories)")
    forget_name(connection, agent)
