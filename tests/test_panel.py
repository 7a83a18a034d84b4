"""The notebook panel: everything escaped, bars that tell the truth."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from actrone_memory import MemoryEntry, RetrievedContext, TierUsage, Turn
from actrone_memory._panel import LONGEST_ITEM, Bar, panel
from actrone_memory.models import utc_now

EVIL = "<script>alert('x')</script>\"&<b>"


def memory(content: str = "text", **fields: Any) -> MemoryEntry:
    fields = {"content_type": "fact", "session_id": "s", **fields}
    return MemoryEntry(agent_id="a", content=content, **fields)


def shown(memories: Any = (), recalled: Any = (), recent: Any = (), bars: Any = (), caption: str = "") -> str:
    return panel(caption, bars, memories, recalled, recent)


class Balanced(HTMLParser):
    """Collects the tags used and fails on one that is closed without being open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.used: set[str] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.used.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_everything_that_was_stored_is_escaped() -> None:
    html = shown(
        memories=[memory(EVIL, source=EVIL)],
        recalled=[memory(EVIL, session_id=EVIL, content_type="turn")],
        recent=[Turn(session_id=EVIL, user_message=EVIL, assistant_message=EVIL)],
        bars=[Bar(EVIL, 1, 2)],
        caption=EVIL,
    )
    parsed = Balanced(html)
    assert parsed.open == []
    assert parsed.used <= {"div", "b", "table", "tr", "td", "span", "i"}
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 9


@pytest.mark.parametrize(
    ("used", "allowed", "percent"),
    [(0, 200, 0), (50, 200, 25), (200, 200, 100), (300, 200, 100), (0, 0, 0), (1, 3, 33)],
)
def test_a_bar_is_as_wide_as_the_used_share(used: int, allowed: int, percent: int) -> None:
    html = shown(bars=[Bar("memories", used, allowed)])
    assert re.findall(r"width:(\d+)%", html) == [str(percent)]
    assert f"{used} / {allowed}" in html


def test_each_kind_is_listed_with_its_number_and_nothing_else() -> None:
    html = shown(memories=[memory(), memory()], recalled=[memory()])
    assert "<b>Memories</b> (2)" in html
    assert "<b>Recalled turns</b> (1)" in html
    assert "Recent turns" not in html
    assert "Nothing was recalled" not in html


def test_an_empty_context_says_so() -> None:
    assert "Nothing was recalled" in shown()


def test_a_row_tells_score_age_and_source() -> None:
    html = shown(memories=[memory("rule", score=0.876, source="import:crm", timestamp=utc_now() - timedelta(days=3))])
    for cell in ("0.88", "rule", "3 d", "import:crm"):
        assert f">{cell}</td>" in html


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("file:/home/ann/web/AGENTS.md", "web/AGENTS.md"),
        ("file:C:\\Users\\ann\\web\\AGENTS.md", "web/AGENTS.md"),
        ("file:AGENTS.md", "AGENTS.md"),
        ("file:/home/ann/web/AGENTS.md\nfile:/home/ann/api/CLAUDE.md", "web/AGENTS.md\napi/CLAUDE.md"),
        ("https://crm.example/a/b/c", "https://crm.example/a/b/c"),
        ("file:", ""),
        ("x" * 40, "x" * 40),
        ("s" * 20 + "x" * 40, "…" + "x" * 39),
    ],
)
def test_a_file_is_told_by_its_name_and_folder(source: str, text: str) -> None:
    html = shown(memories=[memory(source=source)])
    assert f">{text}</td></tr></table>" in html
    assert "ann" not in html


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(seconds=5), "now"),
        (timedelta(minutes=5, seconds=1), "5 min"),
        (timedelta(hours=7, seconds=1), "7 h"),
        (timedelta(days=400), "400 d"),
        (timedelta(days=-2), "now"),
    ],
)
def test_ages_are_told_in_their_largest_unit(age: timedelta, text: str) -> None:
    assert f">{text}</td>" in shown(memories=[memory(timestamp=utc_now() - age)])


def test_a_time_without_a_zone_is_local_time() -> None:
    assert ">2 h</td>" in shown(memories=[memory(timestamp=datetime.now() - timedelta(hours=2, seconds=1))])


def test_a_long_text_is_cut() -> None:
    html = shown(memories=[memory("x" * 5_000)])
    assert LONGEST_ITEM - 20 < html.count("x") < LONGEST_ITEM + 20


def test_a_context_shows_its_tiers_as_bars() -> None:
    context = RetrievedContext(
        recent_turns=[],
        episodic_memories=[memory("rule")],
        total_tokens_used=30,
        token_budget=100,
        retrieval_duration_ms=1.0,
        tiers={"memories": TierUsage(used=5, allowed=25), "session": TierUsage(used=35, allowed=35)},
    )
    html = context._repr_html_()
    assert re.findall(r"width:(\d+)%", html) == ["20", "100"]
    assert "30 of 100 tokens" in html
    assert ">rule</td>" in html
