"""Reads an export line by line, and says of every line what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pydantic

from actrone_memory import _validation
from actrone_memory._export_lines import FORMAT, ProblemError, entry_of
from actrone_memory._ids import archived_turn_id, memory_id, moved_id, summary_id
from actrone_memory._memories import HIDES
from actrone_memory._store_calls import checked_copy
from actrone_memory.errors import ValidationError
from actrone_memory.models import MemoryEntry, Turn
from actrone_memory.protocols import EmbedderIdentity, SessionCopy

SHOWN_PROBLEMS = 10


class Reader:
    """Reads the lines of an export and notes what is wrong with each; ``owner`` is whose they become."""

    def __init__(self, owner: str | None) -> None:
        self.agent_id, self.owner = "", owner or ""
        self.embedder: EmbedderIdentity | None = None
        self.sessions: dict[str, SessionCopy] = {}
        self.memories: list[str] = []
        self._number = 0
        self._lines = 0
        self._problems: list[str] = []
        self._ids: dict[str, str] = {}
        self._ended = False

    def read(self, line: object) -> None:
        """Take the next line."""
        self._number += 1
        try:
            text = _text(line)
            if text.strip():
                self._lines += 1
                self._take(text)
        except ProblemError as problem:
            self._problems.append(f"line {self._number}: {problem}")
        except ValidationError as error:
            self._problems.append(f"line {self._number}: {error}")
        except pydantic.ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            self._problems.append(f"line {self._number}: {'.'.join(map(str, first['loc']))}: {first['msg']}")

    def finish(self) -> None:
        """Raise when any line was wrong or missing."""
        if not self._ended and not self._problems:
            self._problems.append(f"line {self._number + 1}: the end is missing; the file was cut off")
        for copy in () if self._problems else self.sessions.values():
            try:
                checked_copy(copy)
            except ValidationError as error:
                self._problems.append(f"the session {copy.session_id!r}: {error}")
        if self._problems:
            more = len(self._problems) - SHOWN_PROBLEMS
            shown = "; ".join(self._problems[:SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
            raise ValidationError("lines", f"nothing was imported. {shown}")

    def _take(self, text: str) -> None:
        try:
            data = json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            raise ProblemError("is no JSON") from None
        kind = data.get("kind") if isinstance(data, dict) else None
        if (kind == "agent") != (self._lines == 1):
            raise ProblemError("an export begins with one line of kind 'agent'")
        if self._ended:
            raise ProblemError("comes after the end")
        match kind:
            case "agent":
                self._take_agent(data)
            case "session":
                self._take_session(data)
            case "record":
                self._take_record(data)
            case "memory":
                self._take_memory(data, text)
            case "end":
                self._ended = True
                if data.get("lines") != self._lines:
                    raise ProblemError(f"{data.get('lines')} lines were exported, these are {self._lines}")
            case _:
                raise ProblemError(f"is of no known kind: {_validation.shown(kind)}")

    def _take_agent(self, data: Mapping[str, Any]) -> None:
        if data.get("format") != FORMAT:
            raise ProblemError(
                f"is of format {_validation.shown(data.get('format'))}, this version reads {FORMAT}: upgrade it"
            )
        self.agent_id = _validation.identifier(data.get("agent_id"), "agent_id")
        self.owner = self.owner or self.agent_id
        match data.get("embedder"):
            case {"name": str() as name, "dimensions": int() as dimensions}:
                self.embedder = EmbedderIdentity(name, dimensions)

    def _take_session(self, data: Mapping[str, Any]) -> None:
        copy = SessionCopy.model_validate(data.get("session"))
        _validation.identifier(copy.session_id, "session_id")
        if copy.session_id in self.sessions:
            raise ProblemError(f"the session {copy.session_id!r} was there before")
        if copy.records:
            raise ProblemError("the records of a session stand on lines of their own")
        checked_copy(copy)
        self.sessions[copy.session_id] = copy

    def _take_record(self, data: Mapping[str, Any]) -> None:
        given = Turn.model_validate(data.get("record"))
        copy = self.sessions.get(given.session_id)
        if copy is None:
            raise ProblemError(f"its session {given.session_id!r} is missing")
        (record,) = _validation.records([given], given.session_id)
        if given.sequence is None or (copy.records and given.sequence != (copy.records[-1].sequence or 0) + 1):
            raise ProblemError("its sequence does not follow that of the record before")
        copy.records.append(record.model_copy(update={"sequence": given.sequence}))

    def _take_memory(self, data: Mapping[str, Any], text: str) -> None:
        entry = entry_of(data)
        _validation.entry(entry)
        if entry.agent_id != self.agent_id:
            raise ProblemError(f"belongs to another agent, {entry.agent_id!r}")
        if entry.id in self._ids:
            raise ProblemError(f"the memory {entry.id!r} was there before")
        if entry.embedding is not None and (self.embedder is None or len(entry.embedding) != self.embedder.dimensions):
            raise ProblemError("its vector is not of the embedder that the first line names")
        is_derived = _derived_id(self.agent_id, entry) == entry.id
        self._ids[entry.id] = _derived_id(self.owner, entry) if is_derived else moved_id(self.owner, entry.id)
        self.memories.append(text)

    def moved(self, entry: MemoryEntry) -> MemoryEntry:
        """The entry as one of the owner's, with the ids that it and those it names have there."""
        if self.owner == self.agent_id:
            return entry
        metadata, hidden = dict(entry.metadata), entry.metadata.get(HIDES)
        if isinstance(hidden, list):
            metadata[HIDES] = [self._moved_id(str(old)) for old in hidden]
        later = entry.superseded_by
        return entry.model_copy(
            update={
                "agent_id": self.owner,
                "id": self._moved_id(entry.id),
                "metadata": metadata,
                "superseded_by": None if later is None else self._moved_id(later),
            }
        )

    def _moved_id(self, old: str) -> str:
        return self._ids.get(old) or moved_id(self.owner, old)


def _text(line: object) -> str:
    if not isinstance(line, str):
        raise ProblemError(f"must be text, not {type(line).__name__}")
    return line


def _derived_id(agent_id: str, entry: MemoryEntry) -> str:
    """The id that an entry of this content has when its agent's manager writes it."""
    match entry.content_type:
        case "turn":
            return archived_turn_id(agent_id, entry.session_id, "".join(entry.source_turn_ids[:1]))
        case "summary":
            return summary_id(agent_id, entry.session_id, "".join(entry.source_turn_ids[:1]))
        case _:
            return memory_id(agent_id, entry.content)
