"""The memories of one agent: turns on one shelf, other memories on another, old versions beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, overload

from actrone_memory._newer_first import FIRST_RESULTS, newer_first
from actrone_memory._ranking import Background
from actrone_memory._shelf import KINDS, Prepared, Query, Shelf, read_entry
from actrone_memory.models import ContentType, MemoryEntry
from actrone_memory.protocols import Page

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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

    def get_with_embedding(self, memory_id: str) -> MemoryEntry | None:
        """The entry of this id with the vector that is compared; superseded ones have none."""
        entry = self.get(memory_id)
        if entry is not None:
            entry.embedding = self._memories.vector(memory_id) or self._turns.vector(memory_id)
        return entry

    def replace_vectors(self, vectors: Mapping[str, NDArray[np.float32]], dimensions: int) -> None:
        """Give every entry its vector of ``vectors``."""
        for shelf in (self._memories, self._turns):
            shelf.replace_vectors(vectors, dimensions)

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

    def shelves(self, content_types: Sequence[ContentType] | None) -> list[Shelf]:
        """Where entries of these types are."""
        wanted = set(KINDS if content_types is None else content_types)
        return ([self._memories] if wanted - {"turn"} else []) + ([self._turns] if "turn" in wanted else [])

    def searched(self) -> Iterable[tuple[str, bytes]]:
        """Id and document of every entry that is not superseded."""
        for shelf in (self._memories, self._turns):
            for memory_id in shelf.rows:
                yield memory_id, shelf.document(memory_id) or b""

    def search(self, query: Query) -> Page:
        """The best entries of both shelves, as far as ``query`` asks for them."""
        found = [_Found(shelf, query) for shelf in self.shelves(query.content_types)]
        if len(found) == 1:
            return Page([found[0].read(place) for place in range(len(found[0]))[: query.limit]], found[0].ids)
        hits = [(one, place, memory_id) for one in found for place, memory_id in enumerate(one.ids)]
        hits.sort(key=lambda hit: hit[0].rank(hit[1]), reverse=True)
        best = [one.read(place) for one, place, _ in hits[: query.limit]]
        return Page(best, [memory_id for *_, memory_id in hits[: query.consider]])


class _Found:
    """What a query found on one shelf, best first."""

    def __init__(self, shelf: Shelf, query: Query) -> None:
        self._shelf, self._ranked = shelf, shelf.search(query)
        self._rows: list[int] = self._ranked.positions.tolist()
        self._scores: list[float] = self._ranked.scores.tolist()
        self._parts: dict[str, list[float]] = {name: part.tolist() for name, part in self._ranked.parts.items()}
        self._order = list(range(len(self._rows)))
        self._entries: dict[int, MemoryEntry] = {}
        if query.newer_first and query.text is not None and not shelf.talk:
            self._order = self._newer_first(query.background if query.has_meaning else None)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all."""
        return _Ids(self._shelf.ids, [self._rows[ranked] for ranked in self._order])

    def rank(self, place: int) -> tuple[float, float, float]:
        """The larger, the better: score, then importance, then time."""
        return self._scores[place], *self._shelf.importance_and_time(self._rows[self._order[place]])

    def read(self, place: int) -> MemoryEntry:
        """The entry at ``place``, with the score of that place."""
        ranked, score = self._order[place], self._scores[place]
        parts = {name: part[ranked] for name, part in self._parts.items()}
        if ranked != place:
            parts["newer"] = score - self._scores[ranked]
        entry = self._entry(ranked)
        entry.score, entry.score_parts = score, parts
        return entry

    def _entry(self, ranked: int) -> MemoryEntry:
        """The entry ranked there, read once: it may be compared with others before it is returned."""
        if ranked not in self._entries:
            self._entries[ranked] = self._shelf.read(self._rows[ranked])
        return self._entries[ranked]

    def _newer_first(self, background: Background | None) -> list[int]:
        """The order in which a newer memory has the place of an older one that speaks of the same matter."""
        first = self._ranked.positions[:FIRST_RESULTS]
        moved = newer_first(
            self._ranked.scores[:FIRST_RESULTS],
            self._shelf.timestamps(first),
            self._shelf.vectors(first),
            background,
            self._entry,
        )
        return moved + self._order[first.size :]


class _Ids(Sequence[str]):
    """The ids of some rows, looked up one by one: most callers count hundreds of them and read none."""

    def __init__(self, ids: Sequence[str], rows: Sequence[int]) -> None:
        self._all, self._rows = ids, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self._all[row] for row in self._rows[place]]
        return self._all[self._rows[place]]
