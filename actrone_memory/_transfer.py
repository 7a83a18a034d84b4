"""An agent's whole memory as lines of JSON, and back; nothing is written before every line is known to be good."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pydantic

from actrone_memory import _validation
from actrone_memory._capabilities import ColdTier, HotTier
from actrone_memory._embedding import embed_all
from actrone_memory._ids import archived_turn_id, memory_id, moved_id, summary_id
from actrone_memory._memories import HIDES
from actrone_memory._shelf import document_of
from actrone_memory._statements import stated_text
from actrone_memory._store_calls import checked_copy
from actrone_memory.errors import ActroneMemoryError, ConfigurationError, ValidationError
from actrone_memory.models import MemoryEntry, Turn
from actrone_memory.protocols import Embedder, EmbedderIdentity, SessionCopy

T = TypeVar("T")

FORMAT = 1

ENTRIES_PER_BATCH = 128
"""Entries read, embedded or written in one step."""

SHOWN_PROBLEMS = 10

LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""Characters that some readers take for the end of a line, as JSON may also write them."""


class Imported(NamedTuple):
    """How much an import brought."""

    sessions: int
    records: int
    memories: int


class Transfer:
    """Exports and imports of one manager."""

    def __init__(self, hot: HotTier, cold: ColdTier, embedder: Embedder) -> None:
        self._hot, self._cold, self._embedder = hot, cold, embedder
        self._identity = EmbedderIdentity(embedder.name, embedder.dimensions)

    async def exported(self, agent_id: str) -> AsyncIterator[str]:
        """A line about the agent, one for each session and record and memory, and one that counts them."""
        await self._cold.check_embedder()
        count = 1
        yield _line("agent", format=FORMAT, agent_id=agent_id, embedder=self._identity._asdict())
        for session in sorted(await self._hot.list_sessions(agent_id), key=lambda session: session.session_id):
            copy = await self._hot.copy_session(agent_id, session.session_id)
            for line in _session_lines(copy) if copy else ():
                count += 1
                yield line
        for memory_ids in batches(await self._cold.memory_ids(agent_id)):
            for entry in await self._cold.get_with_embeddings(agent_id, memory_ids):
                count += 1
                yield _line("memory", entry=json.loads(document_of(entry)), vector=_packed(entry.embedding))
        yield _line("end", lines=count + 1)

    async def imported(self, lines: Iterable[str] | AsyncIterable[str], agent_id: str | None) -> tuple[str, Imported]:
        """Take in what was exported, for ``agent_id`` when given; returns the agent and what it was."""
        reader = _Reader(agent_id)
        async for line in _each(lines):
            reader.read(line)
        reader.finish()
        owner = reader.owner
        await self._refuse_other_sessions(owner, reader.sessions)
        epoch = await self._cold.erasure_epoch(owner)
        for memories in batches(reader.memories):
            await self._write([_entry(json.loads(memory)) for memory in memories], reader, epoch)
        for copy in reader.sessions.values():
            if await self._hot.copy_session(owner, copy.session_id) != copy:
                await self._add(owner, copy)
        records = sum(len(copy.records) for copy in reader.sessions.values())
        return owner, Imported(len(reader.sessions), records, len(reader.memories))

    async def _refuse_other_sessions(self, agent_id: str, sessions: Mapping[str, SessionCopy]) -> None:
        """A session is taken in whole or not at all: one of the same name must be the same."""
        for copy in sessions.values():
            if await self._hot.copy_session(agent_id, copy.session_id) not in (None, copy):
                raise _session_exists(copy.session_id)

    async def _write(self, entries: list[MemoryEntry], reader: _Reader, epoch: int) -> None:
        if reader.embedder != self._identity:
            searched = [entry for entry in entries if entry.superseded_by is None]
            vectors = await embed_all(self._embedder, [stated_text(entry) for entry in searched]) if searched else []
            for entry in entries:
                entry.embedding = None
            for entry, vector in zip(searched, vectors, strict=True):
                entry.embedding = vector
        if not await self._cold.upsert_many([reader.moved(entry) for entry in entries], epoch=epoch):
            raise ConfigurationError("The agent was erased while it was imported; import it again.", code="erased")

    async def _add(self, agent_id: str, copy: SessionCopy) -> None:
        if not await self._hot.add_session(agent_id, copy):
            raise _session_exists(copy.session_id)


class _Reader:
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
        except _ProblemError as problem:
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
            raise _ProblemError("is no JSON") from None
        kind = data.get("kind") if isinstance(data, dict) else None
        if (kind == "agent") != (self._lines == 1):
            raise _ProblemError("an export begins with one line of kind 'agent'")
        if self._ended:
            raise _ProblemError("comes after the end")
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
                    raise _ProblemError(f"{data.get('lines')} lines were exported, these are {self._lines}")
            case _:
                raise _ProblemError(f"is of no known kind: {_validation.shown(kind)}")

    def _take_agent(self, data: Mapping[str, Any]) -> None:
        if data.get("format") != FORMAT:
            raise _ProblemError(
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
            raise _ProblemError(f"the session {copy.session_id!r} was there before")
        if copy.records:
            raise _ProblemError("the records of a session stand on lines of their own")
        checked_copy(copy)
        self.sessions[copy.session_id] = copy

    def _take_record(self, data: Mapping[str, Any]) -> None:
        given = Turn.model_validate(data.get("record"))
        copy = self.sessions.get(given.session_id)
        if copy is None:
            raise _ProblemError(f"its session {given.session_id!r} is missing")
        (record,) = _validation.records([given], given.session_id)
        if given.sequence is None or (copy.records and given.sequence != (copy.records[-1].sequence or 0) + 1):
            raise _ProblemError("its sequence does not follow that of the record before")
        copy.records.append(record.model_copy(update={"sequence": given.sequence}))

    def _take_memory(self, data: Mapping[str, Any], text: str) -> None:
        entry = _entry(data)
        _validation.entry(entry)
        if entry.agent_id != self.agent_id:
            raise _ProblemError(f"belongs to another agent, {entry.agent_id!r}")
        if entry.id in self._ids:
            raise _ProblemError(f"the memory {entry.id!r} was there before")
        if entry.embedding is not None and (self.embedder is None or len(entry.embedding) != self.embedder.dimensions):
            raise _ProblemError("its vector is not of the embedder that the first line names")
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


class _ProblemError(Exception):
    """What is wrong with a line."""


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """``items`` in pieces of at most `ENTRIES_PER_BATCH`."""
    return (items[start : start + ENTRIES_PER_BATCH] for start in range(0, len(items), ENTRIES_PER_BATCH))


async def reindexed(cold: ColdTier, embedder: Embedder, progress: Callable[[int, int], None] | None) -> int:
    """Give all entries of all agents vectors of ``embedder``; returns how many it made.

    What was made before an interruption is kept. ``progress`` is told how many are done, of how many.
    """
    done, before = 0, None
    while True:
        pending = sorted(await cold.begin_reindex())
        if pending and pending == before:
            raise ActroneMemoryError("The store does not keep the new vectors of its memories", code="reindex")
        before, total = pending, done + len(pending)
        for agent_id, memory_ids in _by_agent(pending):
            entries = await cold.get_with_embeddings(agent_id, memory_ids)
            vectors = await embed_all(embedder, [stated_text(entry) for entry in entries]) if entries else []
            for entry, vector in zip(entries, vectors, strict=True):
                entry.embedding = vector
            await cold.add_vectors(entries)
            done += len(memory_ids)
            if progress is not None:
                progress(done, total)
        if await cold.finish_reindex():
            return done


def _by_agent(pending: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Sequence[str]]]:
    for agent_id, pairs in groupby(pending, key=lambda pair: pair[0]):
        for memory_ids in batches([pending_id for _, pending_id in pairs]):
            yield agent_id, memory_ids


async def _each(lines: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[object]:
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            yield line
    elif isinstance(lines, Iterable) and not isinstance(lines, str | bytes):
        for line in lines:
            yield line
    else:
        raise ValidationError("lines", f"must be lines of an export, not {type(lines).__name__}")


def _session_exists(session_id: str) -> ValidationError:
    return ValidationError(
        "lines", f"the agent has another session {session_id!r}; clear it, or import for another agent_id"
    )


def _text(line: object) -> str:
    if not isinstance(line, str):
        raise _ProblemError(f"must be text, not {type(line).__name__}")
    return line


def _line(kind: str, **fields: object) -> str:
    return json.dumps({"kind": kind, **fields}, ensure_ascii=False, separators=(",", ":")).translate(LINE_ENDS)


def _session_lines(copy: SessionCopy) -> Iterator[str]:
    yield _line("session", session=copy.model_dump(mode="json", exclude={"records"}))
    for record in copy.records:
        yield _line("record", record=record.model_dump(mode="json", exclude={"records"}))


def _packed(embedding: Sequence[float] | None) -> str | None:
    """A vector as base64 of 32-bit floats, little-endian: exact, and a third of its size in digits."""
    return None if embedding is None else base64.b64encode(np.asarray(embedding, "<f4").tobytes()).decode()


def _entry(data: Mapping[str, Any]) -> MemoryEntry:
    entry = MemoryEntry.model_validate(data.get("entry"))
    entry.embedding = _unpacked(data.get("vector"))
    return entry


def _unpacked(packed: object) -> list[float] | None:
    if packed is None:
        return None
    try:
        vector: list[float] = np.frombuffer(base64.b64decode(str(packed), validate=True), "<f4").tolist()
    except (ValueError, binascii.Error):
        raise _ProblemError("its vector is no base64 of 32-bit floats") from None
    return vector


def _derived_id(agent_id: str, entry: MemoryEntry) -> str:
    """The id that an entry of this content has when its agent's manager writes it."""
    match entry.content_type:
        case "turn":
            return archived_turn_id(agent_id, entry.session_id, "".join(entry.source_turn_ids[:1]))
        case "summary":
            return summary_id(agent_id, entry.session_id, *entry.source_turn_ids)
        case _:
            return memory_id(agent_id, entry.content)
