"""What this process keeps for stores that cannot: which records are archived, and which writes an erasure ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager

from actrone_memory._turns import flatten, join_records
from actrone_memory.models import Turn


class ProcessArchiveLog:
    """Remembers, for this process, which records of a foreign store are archived or erased."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._archived: dict[tuple[str, str], set[str]] = {}
        self._erased: dict[tuple[str, str], set[str]] = {}

    def know(self, agent_id: str, session_id: str) -> None:
        with self._lock:
            self._archived.setdefault((agent_id, session_id), set())

    def sessions(self, agent_id: str) -> list[str]:
        with self._lock:
            return [session for agent, session in self._archived if agent == agent_id]

    def unarchived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> list[Turn]:
        key = agent_id, session_id
        records = flatten(turns)
        present = {record.id for record in records}
        with self._lock:
            archived = self._archived[key] = self._archived.get(key, set()) & present
            erased = self._erased[key] = self._erased.get(key, set()) & present
        living = join_records(record for record in records if record.id not in erased)
        return [turn for turn in living if not {record.id for record in turn.records} <= archived]

    def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        with self._lock:
            archived = self._archived.setdefault((agent_id, session_id), set())
            archived.update(record.id for record in flatten(turns))

    def mark_erased(self, agent_id: str, session_id: str, records: Sequence[Turn]) -> None:
        with self._lock:
            self._erased.setdefault((agent_id, session_id), set()).update(record.id for record in records)

    def forget(self, agent_id: str, session_id: str) -> None:
        with self._lock:
            self._archived.pop((agent_id, session_id), None)
            self._erased.pop((agent_id, session_id), None)


class ErasureBarrier:
    """Keeps writes of this process that began before an erasure from landing after it, on any loop or thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epochs: dict[str, int] = {}
        self._writes: dict[str, set[Future[None]]] = {}

    def epoch(self, agent_id: str) -> int:
        with self._lock:
            return self._epochs.get(agent_id, 0)

    @asynccontextmanager
    async def writing(self, agent_id: str, epoch: int) -> AsyncIterator[bool]:
        """True while the write may go on; an erasure waits until it has ended."""
        done: Future[None] = Future()
        with self._lock:
            allowed = self._epochs.get(agent_id, 0) == epoch
            if allowed:
                self._writes.setdefault(agent_id, set()).add(done)
        try:
            yield allowed
        finally:
            with self._lock:
                writes = self._writes.get(agent_id, set())
                writes.discard(done)
                if not writes:
                    self._writes.pop(agent_id, None)
            done.set_result(None)

    @asynccontextmanager
    async def erasing(self, agent_id: str) -> AsyncIterator[None]:
        """From here on older epochs may not write; entered when the last such write has ended."""
        with self._lock:
            self._epochs[agent_id] = self._epochs.get(agent_id, 0) + 1
            running = list(self._writes.get(agent_id, ()))
        for write in running:
            # Shielded: an erasure that is cancelled while it waits must not cancel what the writer will report.
            await asyncio.shield(asyncio.wrap_future(write))
        yield
