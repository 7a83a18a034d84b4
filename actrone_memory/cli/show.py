"""What the command line prints: for people, with colours on a terminal only, or as JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from actrone_memory import Imported, MemoryEntry, RetrievedContext, SessionMetadata
from actrone_memory.cli.doctoring import Finding
from actrone_memory.cli.learning import Changes, shown_source

SHORT_ID = 8
"""Characters of an id that are shown in lists: enough to name one of thousands."""

LINE = 100
"""Characters of a memory in a list."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What steers a terminal, or shows text in another order than it has."""

_PLURALS = {"memory": "memories"}

ARGUMENTS = {"agent_id": "SCOPE", "query": "TASK", "tags": "--tag", "lines": "FILE"}
"""What the engine's arguments are called here."""

_colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
_out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True, color_system=_colours)
_err = Console(stderr=True, color_system=_colours)


def say(text: str | Text = "") -> None:
    """Print a line. Stored text may come from anyone: it cannot steer the terminal."""
    _out.print(Text(printable(text)) if isinstance(text, str) else text)


def printable(text: str) -> str:
    """``text`` without control characters, line ends and tabs apart."""
    return _CONTROL.sub("\ufffd", text)


def escaped(document: str) -> str:
    """The same JSON, without a character that steers a terminal."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", document)


def problem(message: str) -> str:
    """The message of an error, in the words of the command line."""
    argument, colon, rest = message.partition(":")
    said = f"{ARGUMENTS.get(argument, argument)}{colon}{rest}"
    return printable(said.replace("MemoryManager.reindex()", "'actrone-memory reindex'"))


def as_json(value: Any) -> None:
    """Print JSON, one document, in the letters of its texts."""
    _out.out(escaped(json.dumps(value, ensure_ascii=False, indent=2)), highlight=False)


def count(number: int, what: str) -> str:
    """``1 memory``, ``2 memories``."""
    return f"{number} {what if number == 1 else _PLURALS.get(what, f'{what}s')}"


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal that is told how many are done, of how many; nothing where no one looks."""
    if not _err.is_terminal:
        yield lambda *_: None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=_err, transient=True) as bar:
        task = bar.add_task(printable(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def learnt(path: str, changes: Changes) -> None:
    """What one file has taught."""
    known = changes.unchanged
    learnt, forgotten = len(changes.stored), len(changes.deleted)
    parts = [f"{count(learnt, 'rule')} learnt"] if learnt else ["no rules in it" if not known else "nothing new"]
    parts += [f"{forgotten} forgotten"] if forgotten else []
    parts += [f"{known} unchanged"] if known else []
    say(f"{path}: {', '.join(parts)}.")


def context(found: RetrievedContext, *, why: bool, json_wanted: bool) -> None:
    """Memories and earlier turns, best first."""
    if json_wanted:
        as_json(
            {
                "tokens": found.total_tokens_used,
                "token_budget": found.token_budget,
                "memories": [_document(entry) for entry in found.episodic_memories],
                "turns": [_document(entry) for entry in found.recalled_turns],
                "dropped": found.dropped.model_dump(),
            }
        )
        return
    for entry in [*found.episodic_memories, *found.recalled_turns]:
        say(_bullet(entry))
        if why:
            say(Text(f"    {_reasons(entry)}", style="dim"))
    left_out = found.dropped.memories + found.dropped.recalled_turns
    more = f"; {left_out} more did not fit" if left_out else ""
    nothing = "" if found.episodic_memories or found.recalled_turns else "Nothing here matches. "
    say(Text(f"{nothing}{found.total_tokens_used} of {found.token_budget} tokens{more}.", style="dim"))


def entries(found: Sequence[MemoryEntry], *, json_wanted: bool) -> None:
    """A line for each memory."""
    if json_wanted:
        as_json([_document(entry) for entry in found])
        return
    for entry in found:
        say(line(entry))
    if not found:
        say(Text("No memories.", style="dim"))


def entry(found: MemoryEntry, *, json_wanted: bool) -> None:
    """One memory and all that is known of it."""
    document = _document(found)
    if json_wanted:
        as_json(document)
        return
    say(document.pop("content"))
    say()
    for name, value in document.items():
        if value not in (None, [], {}):
            shown = ", ".join(value) if isinstance(value, list) else str(value)
            say(Text.assemble((f"{name}: ", "dim"), printable(shown)))


def sessions(found: Sequence[SessionMetadata], *, json_wanted: bool) -> None:
    """A line for each session."""
    if json_wanted:
        as_json([session.model_dump(mode="json", exclude={"agent_id"}) for session in found])
        return
    for session in found:
        active = f"{session.last_active:%Y-%m-%d %H:%M}" if session.last_active else "-"
        say(f"{active}  {count(session.turn_count, 'turn'):>9}  {session.session_id}")
    if not found:
        say(Text("No sessions.", style="dim"))


def names(found: Sequence[str], *, json_wanted: bool) -> None:
    """A line for each scope."""
    if json_wanted:
        as_json(list(found))
        return
    for name in found:
        say(name)
    if not found:
        say(Text("Nothing is stored yet.", style="dim"))


def imported(what: Imported) -> None:
    """What an import took in."""
    say(f"Imported {count(what.memories, 'memory')} and {count(what.sessions, 'session')}.")


def findings(found: Sequence[Finding], *, json_wanted: bool) -> None:
    """What a doctor's examination found, problems with what to do."""
    if json_wanted:
        as_json([finding._asdict() for finding in found])
        return
    for finding in found:
        mark = ("ok ", "green") if finding.ok else ("!! ", "bold red")
        say(Text.assemble(mark, (f"{finding.subject:10}", "dim"), problem(finding.text)))


def line(found: MemoryEntry) -> Text:
    """Id and text of a memory in one line, marked when another has replaced it."""
    text = " ".join(printable(found.content).split())
    shown = text if len(text) <= LINE else f"{text[: LINE - 1]}…"
    replaced = f"  (replaced by {found.superseded_by[:SHORT_ID]})" if found.superseded_by else ""
    return Text.assemble((found.id[:SHORT_ID], "cyan"), f"  {shown}", (replaced, "dim"))


def _bullet(found: MemoryEntry) -> Text:
    text = printable(found.content).replace("\n", "\n  ")
    tags = f"  [{', '.join(map(printable, found.topic_tags))}]" if found.topic_tags else ""
    return Text.assemble("- ", text, (tags, "dim"))


def _reasons(found: MemoryEntry) -> str:
    parts = ", ".join(f"{name} {value:.2f}" for name, value in (found.score_parts or {}).items())
    source = printable(shown_source(found.source))
    made_of = f" ({parts})" if parts else ""
    return f"score {found.score or 0:.2f}{made_of}; {found.content_type}, {source}, {found.id[:SHORT_ID]}"


def _document(found: MemoryEntry) -> dict[str, Any]:
    """A memory as JSON, without what only the engine needs."""
    return found.model_dump(mode="json", exclude={"agent_id", "embedding"}, exclude_none=True)
