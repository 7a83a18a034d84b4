"""The records of one session with the marks of archive and erasure, trimmed at turn boundaries. Knows no locks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from actrone_memory.models import Turn
from actrone_memory.protocols import SessionCopy

REMEMBERED_RECORD_IDS = 1_000
"""Record ids a session recognises after their records were trimmed, so that a late retry is not appended again."""

BACKLOG_TURNS = 1_000
"""Turns a session holds beyond its window while the archive is away; beyond that the oldest are given up."""


def turns_given_up(starts: Sequence[int], max_turns: int, archived: int | None) -> int:
    """How many of the oldest turns leave the window; ``archived`` is the mark that they wait for, None: they do not.

    ``starts`` are the numbers at which whole turns begin.
    """
    given_up = 0
    while len(starts) - given_up > max_turns:
        waiting = archived is not None and archived < starts[given_up + 1] - 1
        if waiting and len(starts) - given_up <= max_turns + BACKLOG_TURNS:
            break
        given_up += 1
    return given_up


def record_document(record: Turn) -> bytes:
    """One record as JSON."""
    return record.model_dump_json(exclude={"records"}).encode()


def starts_of(records: Sequence[Turn]) -> list[int]:
    """The numbers at which whole turns begin, in records of which the first one begins a turn in any case."""
    return [record.sequence or 0 for place, record in enumerate(records) if not place or not record.continues]


@dataclass(slots=True)
class SessionLog:
    """Records of one session as JSON, numbered without gaps; ``starts`` are the numbers at which whole turns begin."""

    next_sequence: int
    documents: deque[bytes] = field(default_factory=deque)
    starts: deque[int] = field(default_factory=deque)
    seen: dict[str, None] = field(default_factory=dict)
    archived: int = -1
    erased: int = -1
    hold: bool = False
    created_at: datetime | None = None
    last_active: datetime | None = None

    def append(self, records: Sequence[Turn], *, hold: bool) -> None:
        self.hold = hold
        for record in records:
            if record.id in self.seen:
                continue
            if not record.continues or not self.starts:
                self.starts.append(self.next_sequence)
            stored = record.model_copy(update={"sequence": self.next_sequence})
            self.documents.append(record_document(stored))
            self.seen[record.id] = None
            self.next_sequence += 1
            self.created_at = min(self.created_at or record.timestamp, record.timestamp)
            self.last_active = max(self.last_active or record.timestamp, record.timestamp)
        while len(self.seen) > max(REMEMBERED_RECORD_IDS, len(self.documents)):
            del self.seen[next(iter(self.seen))]

    def trim(self, max_turns: int) -> None:
        """Give up turns beyond the window, those that wait for the archive only when the backlog is full."""
        for _ in range(turns_given_up(self.starts, max_turns, self.archived if self.hold else None)):
            start = self.starts.popleft()
            for _ in range(self.starts[0] - start):
                self.documents.popleft()

    @classmethod
    def of(cls, copy: SessionCopy) -> SessionLog:
        """The log that was copied."""
        log = cls(copy.next_sequence, archived=copy.archived, erased=copy.erased, hold=copy.hold)
        log.documents.extend(record_document(record) for record in copy.records)
        log.starts.extend(starts_of(copy.records))
        log.seen = dict.fromkeys([*copy.given_up, *(record.id for record in copy.records)])
        log.created_at, log.last_active = copy.created_at, copy.last_active
        return log

    def copy(self, session_id: str) -> SessionCopy:
        """All that is known of the session."""
        records = [Turn.model_validate_json(document) for document in self.documents]
        kept = {record.id for record in records}
        return SessionCopy(
            session_id=session_id,
            records=records,
            given_up=[record_id for record_id in self.seen if record_id not in kept],
            next_sequence=self.next_sequence,
            archived=self.archived,
            erased=self.erased,
            hold=self.hold,
            created_at=self.created_at,
            last_active=self.last_active,
        )

    def last_turns(self, n: int) -> list[bytes]:
        if not self.starts:
            return []
        return self._from(self.starts[max(0, len(self.starts) - n)])

    def pending(self) -> list[bytes]:
        """Records after the erased mark, from the start of the first turn that is not wholly archived."""
        begins = [start for start in self.starts if start <= self.archived + 1]
        return self._from(max(self.erased + 1, begins[-1] if begins else 0))

    def _from(self, sequence: int) -> list[bytes]:
        first = self.next_sequence - len(self.documents)
        return list(self.documents)[max(0, sequence - first) :]
