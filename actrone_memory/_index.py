"""The memories of one agent: turns on one shelf, other memories on another, old versions beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from actrone_memory._newer_first import FIRST_RESULTS, newer_first
from actrone_memory._ranking import Ranked
from actrone_memory._shelf import KINDS, Prepared, Query, Score, Shelf, read_entry
from actrone_memory.models import ContentType, MemoryEntry
from actrone_memory.protocols import Page


class AgentIndex:
    """All entries of one agent: turns on one shelf, other memories on another, superseded ones beside them.

    The shelves keep their own word statistics, so a long chat does not change how rare a word is among rules.
    """

    def __init__(self) -> None:
        self._memories = Shelf(talk=False)
        self._turns = Shelf(talk=True)
        self._superseded: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._memories.rows) + len(self._turns.rows) + len(self._superseded)

    def put(self, prepared: Prepared) -> None:
        """Store or replace the entry; a superseded one is kept but no longer searched."""
        self.remove(prepared.entry.id)
        if prepared.entry.superseded_by is not None:
            self._superseded[prepared.entry.id] = prepared.document
        else:
            (self._turns if prepared.entry.content_type == "turn" else self._memories).append(prepared)

    def remove(self, memory_id: str) -> bool:
        """Forget the entry; False when there is none."""
        return (
            self._superseded.pop(memory_id, None) is not None
            or self._memories.remove(memory_id)
            or self._turns.remove(memory_id)
        )

    def get(self, memory_id: str) -> MemoryEntry | None:
        """The entry of this id, superseded or not."""
        document = (
            self._superseded.get(memory_id) or self._memories.document(memory_id) or self._turns.document(memory_id)
        )
        return read_entry(document) if document else None

    def remove_session_turns(self, session_id: str) -> list[str]:
        """Forget the archived turns of one session, old versions included, and return their ids."""
        old = [
            entry.id
            for entry in map(read_entry, self._superseded.values())
            if entry.content_type == "turn" and entry.session_id == session_id
        ]
        for memory_id in old:
            del self._superseded[memory_id]
        return old + self._turns.remove_session(session_id)

    def entries(self, content_types: Sequence[ContentType] | None, *, include_superseded: bool) -> list[MemoryEntry]:
        """All entries of these types, oldest first."""
        documents: Iterable[bytes] = chain(self._memories.documents(), self._turns.documents())
        if include_superseded:
            documents = chain(documents, self._superseded.values())
        found = [read_entry(document) for document in documents]
        wanted = [entry for entry in found if content_types is None or entry.content_type in content_types]
        return sorted(wanted, key=lambda entry: entry.timestamp)

    def ids(self) -> list[str]:
        """Ids of all entries, superseded ones included."""
        return [*self._memories.rows, *self._turns.rows, *self._superseded]

    def search(self, query: Query) -> Page:
        """The best entries of both shelves, as far as ``query`` asks for them."""
        wanted = set(KINDS if query.content_types is None else query.content_types)
        shelves = [self._memories] if wanted - {"turn"} else []
        shelves += [self._turns] if "turn" in wanted else []
        hits = [hit for shelf in shelves for hit in self._hits(shelf, query)]
        if len(shelves) > 1:
            hits.sort(key=lambda hit: (hit.score, *hit.shelf.importance_and_time(hit.row)), reverse=True)
            del hits[query.consider :]
        return Page([hit.read() for hit in hits[: query.limit]], [hit.shelf.ids[hit.row] for hit in hits])

    def _hits(self, shelf: Shelf, query: Query) -> list[_Hit]:
        ranked = shelf.search(query)
        found = zip(ranked.scores.tolist(), ranked.positions.tolist(), strict=True)
        hits = [_Hit(score, shelf, row, ranked, place) for place, (score, row) in enumerate(found)]
        if shelf is self._memories and query.newer_first and query.text is not None and len(hits) > 1:
            return _newer_first(hits, query)
        return hits


class _Hit(NamedTuple):
    """One row that a search found, and its place among the rows its shelf found."""

    score: float
    shelf: Shelf
    row: int
    ranked: Ranked
    place: int

    def read(self) -> MemoryEntry:
        parts = {name: float(values[self.place]) for name, values in self.ranked.parts.items()}
        moved = self.score - float(self.ranked.scores[self.place])
        return self.shelf.read(self.row, Score(self.score, {**parts, "newer": moved} if moved else parts))


def _newer_first(hits: list[_Hit], query: Query) -> list[_Hit]:
    """Of memories of the same matter the newer in the place, and with the score, of the older."""
    first = hits[:FIRST_RESULTS]
    order = newer_first(
        np.array([hit.shelf.importance_and_time(hit.row)[1] for hit in first]),
        np.stack([hit.shelf.vector(hit.row) for hit in first]),
        query.background if query.has_meaning else None,
        lambda place: first[place].shelf.read(first[place].row),
    )
    moved = [first[place]._replace(score=hit.score) for place, hit in zip(order, first, strict=True)]
    return moved + hits[FIRST_RESULTS:]
