"""Joining records into whole turns, and turns into text. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from actrone_memory.models import ToolResult, Turn

TEXT_SEPARATOR = "\n\n"

CUT_MARK = " [...cut...] "

_POSING_LINE = re.compile(r"(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])(?=(?:User|Tool|Assistant): )")

ARCHIVED_TOOL_CHARACTERS = 2_000
"""A tool's output in an archived turn: its beginning and end, enough to be found by, not to bury what was said."""


def join_records(records: Iterable[Turn]) -> list[Turn]:
    """Whole turns, in order, from the records of one session; a repeated record id counts once.

    A record that continues belongs to the turn before it; with nothing before it, it opens a turn of its own.
    Joined turns may be given too: they stand for their records.
    """
    turns: list[list[Turn]] = []
    seen: set[str] = set()
    for record in flatten(records):
        if record.id in seen:
            continue
        seen.add(record.id)
        if record.continues and turns:
            turns[-1].append(record)
        else:
            turns.append([record])
    return [_join(parts) for parts in turns]


def flatten(turns: Iterable[Turn]) -> list[Turn]:
    """The records of ``turns``, in order."""
    return [record for turn in turns for record in (turn.records or [turn])]


def in_steps(records: Iterable[Turn], turns: int) -> list[list[Turn]]:
    """The records, in order, in lists of at most so many whole turns."""
    steps: list[list[Turn]] = []
    begun = 0
    for record in records:
        begun += not record.continues
        if not steps or begun > turns:
            steps.append([])
            begun = 1
        steps[-1].append(record)
    return steps


def _join(records: Sequence[Turn]) -> Turn:
    first = records[0]
    return Turn.model_construct(
        id=first.id,
        session_id=first.session_id,
        user_message=_join_texts(record.user_message for record in records),
        assistant_message=_join_texts(record.assistant_message for record in records),
        tool_results=[result for record in records for result in record.tool_results],
        timestamp=first.timestamp,
        token_count=sum(record.token_count for record in records),
        metadata=first.metadata if len(records) == 1 else {},
        continues=first.continues,
        sequence=first.sequence,
        records=list(records),
    )


def _join_texts(texts: Iterable[str]) -> str:
    return TEXT_SEPARATOR.join(text for text in texts if text)


def turn_text(turn: Turn, *, tool_characters: int | None = None) -> str:
    """The turn as lines of ``Speaker: text``; each tool's output cut to ``tool_characters`` when given."""
    lines = [_line("User", turn.user_message)] if turn.user_message else []
    lines += [_line("Tool", cut_middle(tool_text(result), tool_characters)) for result in turn.tool_results]
    lines += [_line("Assistant", turn.assistant_message)] if turn.assistant_message else []
    return "\n".join(lines)


def is_answered(text: str) -> bool:
    """Whether the assistant speaks in the text of a turn."""
    return text.startswith("Assistant: ") or "\nAssistant: " in text


def _line(speaker: str, text: str) -> str:
    # A line of the text that begins like a speaker's is set back, so that nobody speaks for another.
    return f"{speaker}: {_POSING_LINE.sub(' ', text)}"


def tool_text(result: ToolResult) -> str:
    """``name(params) -> result``, or ``-> failed: result``; params and results that are no text as JSON."""
    params = json.dumps(result.params, ensure_ascii=False, default=str) if result.params else ""
    outcome = (
        result.result if isinstance(result.result, str) else json.dumps(result.result, ensure_ascii=False, default=str)
    )
    return f"{result.tool_name}({params}) -> {'' if result.success else 'failed: '}{outcome}"


def cut_middle(text: str, limit: int | None) -> str:
    """``text`` in at most ``limit`` characters: its beginning and its end around `CUT_MARK`."""
    if limit is None or len(text) <= limit:
        return text
    if limit <= len(CUT_MARK):
        return CUT_MARK.strip()[: max(0, limit)]
    head = (limit - len(CUT_MARK) + 1) // 2
    tail = limit - len(CUT_MARK) - head
    return text[:head] + CUT_MARK + text[len(text) - tail :]
