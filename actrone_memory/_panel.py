"""A retrieved context as a small HTML panel for notebooks. Everything that was stored is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from actrone_memory.models import MemoryEntry, Turn


def panel(
    tiers: Mapping[str, tuple[int, int]],
    memories: Sequence[MemoryEntry],
    recalled: Sequence[MemoryEntry],
    recent: Sequence[Turn],
    caption: str,
) -> str:
    """The budget as bars, then the items."""
    return ""
