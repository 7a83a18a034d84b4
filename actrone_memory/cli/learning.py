"""What `learn` does: bring the memories of a scope in line with a rules file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from actrone_memory import MemoryEntry, SyncMemoryManager, ValidationError
from actrone_memory.cli.rules import Rule, read_rules

IMPORTANCE = 0.9
"""A rule that someone wrote down is meant."""

STDIN = "-"
LONGEST_SOURCE = 256


class Changes(NamedTuple):
    """What a rules file asks of a scope: rules to store, memories to delete, and how many rules are there already."""

    source: str
    stored: list[Rule]
    deleted: list[MemoryEntry]
    unchanged: int


def read_file(path: str, stdin: Callable[[], bytes]) -> list[Rule]:
    """The rules of a file, or of the standard input for ``-``.

    Raises:
        ValidationError: there is no such file, or it is no text.
    """
    try:
        content = stdin() if path == STDIN else Path(path).read_bytes()
        return read_rules(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValidationError("FILE", f"{path} is no UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ValidationError("FILE", f"{path} cannot be read: {error.strerror}") from None


def source_of(path: str) -> str:
    """Under which source the rules of a file are stored, wherever the command is run."""
    if path == STDIN:
        return "stdin"
    source = f"file:{Path(path).resolve()}"
    digest = hashlib.sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return source if len(source) <= LONGEST_SOURCE else f"file:{digest}:{source[-(LONGEST_SOURCE - 32) :]}"


def compare(source: str, rules: Iterable[Rule], stored: Iterable[MemoryEntry]) -> Changes:
    """What has to change so that ``stored``, the memories of the scope, say what ``rules`` say.

    A rule that is stored under another source stays as it is. What the standard input once said stays too: the next
    text on it may be another file's.
    """
    wanted = {rule.text: rule for rule in rules}
    known = {entry.content: entry for entry in stored}
    changed = [rule for rule in wanted.values() if not _holds(known.get(rule.text), rule)]
    gone = [entry for entry in known.values() if entry.source == source and entry.content not in wanted]
    deleted = [] if source == source_of(STDIN) else gone
    return Changes(source, changed, deleted, len(wanted) - len(changed))


def apply(changes: Changes, scope: str, memory: SyncMemoryManager, progress: Callable[[], None]) -> None:
    """Store first, then delete: whatever interrupts it, no rule of the file is missing that was there before."""
    stored = set()
    for rule in changes.stored:
        stored.add(
            memory.inject_memory(
                scope, rule.text, IMPORTANCE, session_id="rules", topic_tags=rule.tags, source=changes.source
            )
        )
        progress()
    for entry in changes.deleted:
        if entry.id not in stored:  # the same text in other letters is the same memory
            memory.delete_memory(scope, entry.id)
        progress()


def _holds(entry: MemoryEntry | None, rule: Rule) -> bool:
    return entry is not None and set(rule.tags) <= set(entry.topic_tags)
