"""What a process keeps of a Qdrant collection, bounded: indexes of the agents asked about last, and single entries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from actrone_memory._index import AgentIndex
from actrone_memory.stores.qdrant.points import Kept
from actrone_memory.stores.qdrant.questions import Sight

KEPT_ENTRIES = 20_000
KEPT_BYTES = 64 * 1024 * 1024
"""Entries, and bytes of their texts, that this process keeps so as not to fetch and analyse them again."""


@dataclass(slots=True)
class Held:
    """The index of an agent in this process: the entries of each shelf that were in the collection at the last look."""

    vector: str
    """The name of the vectors that are compared."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    index: AgentIndex = field(default_factory=AgentIndex)
    stamps: dict[bool, dict[str, str]] = field(default_factory=lambda: {False: {}, True: {}})
    ids: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    size: int = 0
    """Bytes of all texts."""

    def lacks(self, sights: Sequence[Sight], fetched: Mapping[str, Kept | None]) -> dict[str, str]:
        """The points, with their stamps, that must be fetched before the index can follow."""
        return {
            point: mark.stamp
            for sight in sights
            for point, mark in sight.marks.items()
            if self.stamps[sight.talk].get(point) != mark.stamp and point not in fetched
        }

    def follow(self, sights: Sequence[Sight], fetched: Mapping[str, Kept | None]) -> None:
        """Take over what has changed since the last look."""
        for sight in sights:
            stamps = self.stamps[sight.talk]
            for point in [point for point in stamps if point not in sight.marks]:
                del stamps[point]
                self.size -= self.sizes.pop(point)
                self.index.remove(self.ids.pop(point))
            changed = [point for point, mark in sight.marks.items() if stamps.get(point) != mark.stamp]
            new = [(kept.written, point, kept) for point in changed if (kept := fetched.get(point)) is not None]
            for _, point, kept in sorted(new, key=lambda one: one[:2]):
                self.index.put(kept.entry)
                self.ids[point], stamps[point] = kept.entry.entry.id, kept.stamp
                self.size += len(kept.entry.document) - self.sizes.get(point, 0)
                self.sizes[point] = len(kept.entry.document)


class HeldIndexes:
    """The indexes of the agents that were asked about last."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: OrderedDict[str, Held] = OrderedDict()

    def of(self, agent_id: str, vector: str) -> Held:
        """The agent's index with the vectors of this name, empty at first."""
        with self._guard:
            held = self._held.setdefault(agent_id, Held(vector))
            if held.vector != vector:
                held = self._held[agent_id] = Held(vector)
            self._held.move_to_end(agent_id)
            return held

    def entries(self, agent_id: str, talk: bool) -> int:
        """How many entries of a shelf are held."""
        with self._guard:
            held = self._held.get(agent_id)
            return len(held.stamps[talk]) if held else 0

    def let_go(self, agent_id: str) -> None:
        """Drop the indexes of the agents that were asked about longest ago, when there is too much in them."""
        with self._guard:
            sizes = {agent: (len(held.sizes), held.size) for agent, held in self._held.items()}
            entries, size = (sum(column) for column in zip(*sizes.values(), strict=True)) if sizes else (0, 0)
            for agent, (own_entries, own_size) in sizes.items():
                if agent == agent_id or (entries <= KEPT_ENTRIES and size <= KEPT_BYTES):
                    return
                del self._held[agent]
                entries, size = entries - own_entries, size - own_size

    def forget(self, agent_id: str) -> None:
        """Drop the agent's index."""
        with self._guard:
            self._held.pop(agent_id, None)


class KeptEntries:
    """The entries fetched last, analysed; bounded by their number and the bytes of their texts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, Kept] = OrderedDict()
        self._bytes = 0

    def find(self, wanted: Mapping[str, str]) -> dict[str, Kept]:
        """Those of ``wanted`` (point to stamp) that are kept as they are now."""
        found = {}
        with self._lock:
            for point, stamp in wanted.items():
                kept = self._entries.get(point)
                if kept is not None and kept.stamp == stamp:
                    self._entries.move_to_end(point)
                    found[point] = kept
        return found

    def keep(self, entries: Mapping[str, Kept]) -> None:
        """Keep these, and let go of the oldest beyond the bounds."""
        with self._lock:
            for point, kept in entries.items():
                self._drop(point)
                self._entries[point] = kept
                self._bytes += len(kept.entry.document)
            while self._entries and (len(self._entries) > KEPT_ENTRIES or self._bytes > KEPT_BYTES):
                self._drop(next(iter(self._entries)))

    def forget(self, agent_id: str) -> None:
        """Let go of the entries of one agent."""
        with self._lock:
            for point in [point for point, kept in self._entries.items() if kept.entry.entry.agent_id == agent_id]:
                self._drop(point)

    def _drop(self, point: str) -> None:
        old = self._entries.pop(point, None)
        if old is not None:
            self._bytes -= len(old.entry.document)
