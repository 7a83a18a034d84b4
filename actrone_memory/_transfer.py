"""An agent's whole memory as lines of JSON, and back; nothing is written before every line is known to be good."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import NamedTuple

from actrone_memory._cold_tier import ColdTier
from actrone_memory._embedding import batches, embed_entries
from actrone_memory._export_lines import FORMAT, entry_of, line_of, packed, session_lines
from actrone_memory._export_reader import Reader
from actrone_memory._hot_tier import HotTier
from actrone_memory._shelf import document_of
from actrone_memory.errors import ConfigurationError, ValidationError
from actrone_memory.models import MemoryEntry
from actrone_memory.protocols import Embedder, EmbedderIdentity, SessionCopy


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
        yield line_of("agent", format=FORMAT, agent_id=agent_id, embedder=self._identity._asdict())
        for session in sorted(await self._hot.list_sessions(agent_id), key=lambda session: session.session_id):
            copy = await self._hot.copy_session(agent_id, session.session_id)
            for line in session_lines(copy) if copy else ():
                count += 1
                yield line
        for memory_ids in batches(await self._cold.memory_ids(agent_id)):
            for entry in await self._cold.get_with_embeddings(agent_id, memory_ids):
                count += 1
                yield line_of("memory", entry=json.loads(document_of(entry)), vector=packed(entry.embedding))
        yield line_of("end", lines=count + 1)

    async def imported(self, lines: Iterable[str] | AsyncIterable[str], agent_id: str | None) -> tuple[str, Imported]:
        """Take in what was exported, for ``agent_id`` when given; returns the agent and what it was."""
        reader = Reader(agent_id)
        async for line in _each(lines):
            reader.read(line)
        reader.finish()
        owner = reader.owner
        await self._refuse_other_sessions(owner, reader.sessions)
        epoch = await self._cold.erasure_epoch(owner)
        for memories in batches(reader.memories):
            await self._write([entry_of(json.loads(memory)) for memory in memories], reader, epoch)
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

    async def _write(self, entries: list[MemoryEntry], reader: Reader, epoch: int) -> None:
        if reader.embedder != self._identity:
            for entry in entries:
                entry.embedding = None
            await embed_entries(self._embedder, [entry for entry in entries if entry.superseded_by is None])
        if not await self._cold.upsert_many([reader.moved(entry) for entry in entries], epoch=epoch):
            raise ConfigurationError("The agent was erased while it was imported; import it again.", code="erased")

    async def _add(self, agent_id: str, copy: SessionCopy) -> None:
        if not await self._hot.add_session(agent_id, copy):
            raise _session_exists(copy.session_id)


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
