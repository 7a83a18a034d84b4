"""What a reader may not see: memories of some sensitivities come back as a mark. Nothing stored changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from actrone_memory._memories import REASON
from actrone_memory.models import MemoryEntry
from actrone_memory.tokens import TokenCounter

WITHHELD = "[redacted]"
"""In place of a reason that quotes a masked memory."""


def mark(entry: MemoryEntry) -> str:
    """What stands in place of the text: that something is there, and of which kind."""
    return f"[redacted: {entry.sensitivity}]"


def redacted(entries: Iterable[MemoryEntry], levels: Collection[str], count: TokenCounter) -> list[MemoryEntry]:
    """``entries`` with those masked whose sensitivity is among ``levels``; the others as they are.

    What is masked keeps id, type, time, score and source. Of the others, one that a masked or an unknown memory
    replaced does not say why: the reason quotes the newer one.
    """
    found = list(entries)
    if not levels:
        return found
    seen = {entry.id for entry in found if entry.sensitivity not in levels}
    return [
        _without_reason(entry, seen) if entry.sensitivity not in levels else _masked(entry, count) for entry in found
    ]


def _masked(entry: MemoryEntry, count: TokenCounter) -> MemoryEntry:
    # Parts of a score would tell which words of a query stand in the text.
    return entry.model_copy(
        update={
            "content": mark(entry),
            "topic_tags": [],
            "embedding": None,
            "metadata": {},
            "token_count": count(mark(entry)),
            "score_parts": None,
        }
    )


def _without_reason(entry: MemoryEntry, seen: Collection[str]) -> MemoryEntry:
    if REASON not in entry.metadata or entry.superseded_by in seen:
        return entry
    return entry.model_copy(update={"metadata": {**entry.metadata, REASON: WITHHELD}})
