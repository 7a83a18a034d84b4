"""A retrieved context as a small HTML panel for notebooks. Everything that was stored is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import NamedTuple

from actrone_memory._turns import cut_middle, turn_text
from actrone_memory.models import MemoryEntry, Turn, utc_now

LONGEST_ITEM = 300
"""Characters of an item that are shown."""

LONGEST_SOURCE = 40
"""Characters of a line of a source that are shown; it is not wrapped."""

_STYLE = "font:13px/1.5 system-ui,sans-serif;border:1px solid #8885;border-radius:6px;padding:10px 14px;max-width:52em"
_TRACK = "display:inline-block;width:12em;height:.7em;background:#8883;border-radius:3px;overflow:hidden"
_CELL = "padding:1px 10px 1px 0;text-align:left;vertical-align:top;background:none;white-space:pre-line"
_FAINT = _CELL + ";opacity:.65;white-space:pre"
_ROW = '<tr style="background:none">'  # JupyterLab stripes the rows of tables
_FILE = "file:"


class Bar(NamedTuple):
    """One tier of the budget: tokens used of tokens allowed."""

    label: str
    used: int
    allowed: int


def panel(
    caption: str,
    bars: Iterable[Bar],
    memories: Sequence[MemoryEntry],
    recalled: Sequence[MemoryEntry],
    recent: Sequence[Turn],
) -> str:
    """The budget as bars, then the items of each kind with score, age and source."""
    lists = (
        _list("Memories", [_row(m.content, m.score, m.timestamp, m.source) for m in memories])
        + _list("Recalled turns", [_row(m.content, m.score, m.timestamp, m.session_id) for m in recalled])
        + _list("Recent turns", [_row(turn_text(t), None, t.timestamp, t.session_id) for t in recent])
    )
    return (
        f'<div style="{_STYLE}"><b>Retrieved context</b> &middot; {escape(caption)}'
        f"{_table(map(_bar, bars))}{lists or '<i>Nothing was recalled.</i>'}</div>"
    )


def _bar(bar: Bar) -> str:
    percent = min(100.0, 100 * bar.used / bar.allowed) if bar.allowed else 0.0
    fill = f'<span style="display:block;height:100%;width:{percent:.0f}%;background:#3b82f6"></span>'
    track = f'<span style="{_TRACK}">{fill}</span>'
    return (
        f'{_ROW}<td style="{_CELL}">{escape(bar.label)}</td><td style="{_CELL}">{track}</td>'
        f'<td style="{_FAINT}">{bar.used} / {bar.allowed}</td></tr>'
    )


def _list(title: str, rows: Sequence[str]) -> str:
    return f"<div style='margin-top:8px'><b>{title}</b> ({len(rows)})</div>{_table(rows)}" if rows else ""


def _table(rows: Iterable[str]) -> str:
    return f"<table style='font:inherit;border-collapse:collapse'>{''.join(rows)}</table>"


def _row(text: str, score: float | None, timestamp: datetime, source: str) -> str:
    shown = "" if score is None else f"{score:.2f}"
    return (
        f'{_ROW}<td style="{_FAINT}">{shown}</td><td style="{_CELL}">{escape(cut_middle(text, LONGEST_ITEM))}</td>'
        f'<td style="{_FAINT}">{_age(timestamp)}</td><td style="{_FAINT}">{escape(_place(source))}</td></tr>'
    )


def _place(source: str) -> str:
    """A source for pages that others may see: of a file its name and its folder's, not where it lies on the machine."""
    places = ["/".join(_parts(line)[-2:]) if line.startswith(_FILE) else line for line in source.splitlines()]
    return "\n".join(place if len(place) <= LONGEST_SOURCE else f"…{place[1 - LONGEST_SOURCE :]}" for place in places)


def _parts(source: str) -> list[str]:
    return [part for part in source.removeprefix(_FILE).replace("\\", "/").split("/") if part]


def _age(timestamp: datetime) -> str:
    aware = timestamp if timestamp.tzinfo else timestamp.astimezone()
    seconds = max(0.0, (utc_now() - aware).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "now"
