"""What `learn` does: bring the memories of a scope in line with a rules file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from actrone_memory import MemoryEntry, SyncMemoryManager, ValidationError
from actrone_memory._embedding import batches
from actrone_memory._ids import memory_id
from actrone_memory.cli.rules import Rule, read_rules

IMPORTANCE = 0.9
"""A rule that someone wrote down is meant."""

STDIN = "-"
FILE = "file:"
BETWEEN = "\n"
"""Stands between the files that say the same, in the source of a memory."""

LONGEST_SOURCE = 256


class Changes(NamedTuple):
    """What a rules file asks of a scope.

    ``stored`` are rules that are new, or stand under other headings; ``shared`` are memories whose rule another file
    has too, or still has, with all the sources they have from now on; ``deleted`` are memories whose rule is gone.
    """

    source: str
    stored: list[Rule]
    shared: list[tuple[MemoryEntry, str]]
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
    source = f"{FILE}{Path(path).resolve()}".encode("utf-8", "replace").decode().replace("\n", "?")
    return source if len(source) <= LONGEST_SOURCE else f"{_short(source)}:{source[-(LONGEST_SOURCE - 32) :]}"


def shown_source(source: str) -> str:
    """A source for the eye: a file below the current folder by its name there."""
    here = f"{FILE}{Path.cwd()}/"
    return ", ".join(one.removeprefix(here) for one in source.split(BETWEEN))


def compare(scope: str, source: str, rules: Iterable[Rule], stored: Iterable[MemoryEntry]) -> Changes:
    """What has to change so that ``stored``, the memories of the scope, say what ``rules`` say.

    A rule that stands in several files is one memory, and stays until the last of them loses it. What the standard
    input once said stays too: the next text on it may be another file's.
    """
    wanted = {memory_id(scope, rule.text): rule for rule in rules}
    known = {entry.id: entry for entry in stored}
    changed = [rule for id_, rule in wanted.items() if not _holds(known.get(id_), rule, source)]
    held = [known[id_] for id_, rule in wanted.items() if rule not in changed]
    shared = [(entry, joined) for entry in held if (joined := _with(source, entry)) != entry.source]
    gone = [entry for id_, entry in known.items() if id_ not in wanted and _is_from(source, entry)]
    kept = [(entry, others) for entry in gone if (others := _without(source, entry))]
    deleted = [entry for entry in gone if not _without(source, entry)]
    return Changes(source, changed, [*shared, *kept], deleted, len(held))


def apply(changes: Changes, scope: str, memory: SyncMemoryManager, progress: Callable[[int, int], None]) -> None:
    """Store first, then delete: whatever interrupts it, no rule of the file is missing that was there before."""
    told = [
        *(_new(rule, changes.source) for rule in changes.stored),
        *(_kept(entry, source) for entry, source in changes.shared),
    ]
    steps = len(told) + len(changes.deleted)
    done = 0
    for some in batches(told):
        memory.inject_memories(scope, some)
        done += len(some)
        progress(done, steps)
    for entry in changes.deleted:
        memory.delete_memory(scope, entry.id)
        done += 1
        progress(done, steps)


def _new(rule: Rule, source: str) -> dict[str, Any]:
    return {
        "content": rule.text,
        "importance": IMPORTANCE,
        "session_id": "rules",
        "topic_tags": rule.tags,
        "source": source,
    }


def _kept(entry: MemoryEntry, source: str) -> dict[str, Any]:
    """The memory as it is, under the sources that it has now."""
    return {
        "content": entry.content,
        "importance": entry.importance_score,
        "session_id": entry.session_id,
        "topic_tags": entry.topic_tags,
        "source": source,
        "sensitivity": entry.sensitivity,
    }


def _holds(entry: MemoryEntry | None, rule: Rule, source: str) -> bool:
    """Whether ``entry`` says what ``rule`` says; in other letters, only where another file or person wrote them."""
    if entry is None or not set(rule.tags) <= set(entry.topic_tags):
        return False
    return entry.content == rule.text or entry.source != source


def _is_from(source: str, entry: MemoryEntry) -> bool:
    """Whether ``entry`` is what a file said: what another wrote is not this file's to delete."""
    return source.startswith(FILE) and not {source, _short(source)}.isdisjoint(entry.source.split(BETWEEN))


def _with(source: str, entry: MemoryEntry) -> str:
    """The sources of ``entry`` and this file. What was replaced since is left as it is: storing it would revive it."""
    if entry.superseded_by or not (source.startswith(FILE) and entry.source.startswith(FILE)):
        return entry.source
    return entry.source if _is_from(source, entry) else _joined([*entry.source.split(BETWEEN), source])


def _without(source: str, entry: MemoryEntry) -> str:
    """The sources of ``entry`` that still are there when this file has lost it; "" when there is none."""
    others = [one for one in entry.source.split(BETWEEN) if one not in {source, _short(source)} and _may_exist(one)]
    return _joined(others)


def _joined(sources: list[str]) -> str:
    whole = BETWEEN.join(sources)
    return whole if len(whole) <= LONGEST_SOURCE else BETWEEN.join(map(_short, sources))[:LONGEST_SOURCE]


def _may_exist(source: str) -> bool:
    path = Path(source.removeprefix(FILE))
    return not path.is_absolute() or path.exists()


def _short(source: str) -> str:
    """A source in 21 characters."""
    if len(source) <= 21:
        return source
    return f"{FILE}{hashlib.sha256(source.encode()).hexdigest()[:16]}"
