"""Writing long-term memories: one for each text, replaced as a whole, never across an erasure or an owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, get_args

from actrone_memory import _validation
from actrone_memory._cold_tier import ColdTier
from actrone_memory._embedding import batches, embed_entries, shorten
from actrone_memory._ids import memory_id
from actrone_memory._statements import UPDATED_TYPES
from actrone_memory._turnstile import Queues
from actrone_memory._validation import Injected
from actrone_memory.embedders.cache import CachedEmbedder
from actrone_memory.errors import MemoryNotFoundError
from actrone_memory.models import MemoryEntry, Sensitivity
from actrone_memory.protocols import Embedder, ExtractedFact, FactExtractor

if TYPE_CHECKING:
    from actrone_memory._updates import Update

logger = logging.getLogger("actrone_memory")

CANDIDATES = 200
"""How many of the best matches of a new text are looked at for what it replaces."""

ANY_COSINE = -1.0
"""Threshold of that search: what is replaced may share no more than a name."""

REASON = "superseded_because"
"""Metadata of a memory that was replaced without being named: why, in words for a reader."""

HIDES = "supersedes"
"""Metadata of a memory that replaced others without naming them: their ids. They return when it is deleted."""


class Stated(NamedTuple):
    """A memory to be stored, the id of one that it replaces, and the place in a list where both stand."""

    entry: MemoryEntry
    supersedes: str | None = None
    prefix: str = ""


class MemoryWriter:
    """Stores memories of any agent in the cold tier."""

    def __init__(self, cold: ColdTier, embedder: CachedEmbedder, *, newer_wins: bool) -> None:
        self._cold, self._embedder, self._newer_wins = cold, embedder, newer_wins
        self._queues = Queues()

    async def owned(self, agent_id: str, wanted_id: str) -> MemoryEntry:
        """The agent's entry of this id.

        Raises:
            MemoryNotFoundError: there is none, or another agent owns it.
        """
        entry = await self._cold.get(agent_id, wanted_id)
        if entry is None:
            raise MemoryNotFoundError(wanted_id)
        return entry

    async def require(self, agent_id: str, stated: Sequence[Stated]) -> None:
        """Refuse a list in which something is to be replaced that neither the agent has nor the list brings before.

        Raises:
            MemoryNotFoundError: it names the place in the list.
        """
        known: set[str] = set()
        for some in batches(list({one.supersedes for one in stated if one.supersedes is not None})):
            known |= (await self._cold.get_many(agent_id, some)).keys()
        for one in stated:
            if one.supersedes is not None and one.supersedes not in known:
                raise MemoryNotFoundError(one.supersedes, one.prefix and f"{one.prefix}supersedes")
            known.add(one.entry.id)

    async def write(self, agent_id: str, stated: Sequence[Stated]) -> None:
        """Store the agent's entries with their embeddings as if one by one, and mark what each replaces.

        What was replaced already stands for the memory that holds in its place now. Some entries are stored in one
        step with what they replace.

        Raises:
            MemoryNotFoundError: a memory that is to be replaced is gone since `require`.
        """
        for some in batches(stated):
            while not await self._write(some, await self._cold.erasure_epoch(agent_id)):
                logger.debug("An erasure overtook a write for %r; writing again", agent_id)

    async def write_facts(self, entries: Sequence[MemoryEntry], epoch: int, embedder: Embedder) -> list[str]:
        """Embed and store entries of one agent; their ids, each once, or [] after an erasure since ``epoch``."""
        await embed_entries(embedder, entries)
        for some in batches([Stated(entry) for entry in entries]):
            if not await self._write(some, epoch):
                return []
        return list(dict.fromkeys(entry.id for entry in entries))

    async def delete(self, agent_id: str, memory_id: str) -> None:
        """Delete the agent's entry of this id; what it replaced without being told to holds again.

        Raises:
            MemoryNotFoundError: there is none, or another agent owns it.
        """
        async with self._queues.turns({memory_id}):
            entry = await self.owned(agent_id, memory_id)
            await self._cold.delete(memory_id)
        hidden = entry.metadata.get(HIDES)
        for old_id in hidden if isinstance(hidden, list) else []:
            await self._revive(agent_id, str(old_id), memory_id)

    async def _revive(self, agent_id: str, old_id: str, newer_id: str) -> None:
        """Put the entry back in force, if it is still ``newer_id`` that replaced it."""
        embedder = await self._embedder.for_agent(agent_id)
        epoch = await self._cold.erasure_epoch(agent_id)
        async with self._queues.turns({old_id}):
            old = await self._cold.get(agent_id, old_id)
            if old is None or old.superseded_by != newer_id:
                return
            metadata = {name: value for name, value in old.metadata.items() if name != REASON}
            revived = old.model_copy(update={"superseded_by": None, "metadata": metadata})
            await embed_entries(embedder, [revived])
            await self._cold.upsert_many([revived], epoch=epoch)

    async def _write(self, stated: Sequence[Stated], epoch: int) -> bool:
        """Store entries of one agent and mark what they replace; False, and none, after an erasure since ``epoch``."""
        updates = [self._update_of(one.entry) for one in stated]
        held = {one.entry.id for one in stated}
        while True:
            async with self._queues.turns(held):
                batch = await self._with_replaced(stated, updates)
                involved = {one.id for one in batch}
                if involved <= held:
                    return await self._cold.upsert_many(batch, epoch=epoch)
            # What is replaced may change until its turn is held too: then it is looked at anew.
            held |= involved

    def _update_of(self, entry: MemoryEntry) -> Update | None:
        if not self._newer_wins:
            return None
        # Imported with the first memory: its patterns would be a tenth of the time that importing this package takes.
        from actrone_memory._updates import update_of

        return update_of(entry)

    async def _with_replaced(self, stated: Sequence[Stated], updates: Sequence[Update | None]) -> list[MemoryEntry]:
        """The entries as they are to be stored, and every memory that they replace, marked."""
        ids = dict.fromkeys(one.entry.id for one in stated)
        agent_id = stated[0].entry.agent_id
        draft = _Draft(self._cold, agent_id, await self._cold.get_many(agent_id, list(ids)), ids)
        for one, update in zip(stated, updates, strict=True):
            earlier = await draft.get(one.entry.id)
            if earlier is not None and one.entry.content_type == "fact" and await _outlived(draft, earlier, one.entry):
                continue
            replaced = {old.id: old for old in await self._stated_before(draft, one.entry, earlier)}
            if update is not None:
                replaced |= {old.id: old for old in await _outdated(draft, one.entry, update)}
            if one.supersedes is not None:
                named = await draft.in_force(await draft.owned(one.supersedes))
                replaced[named.id] = named.model_copy(update={"superseded_by": one.entry.id})
            replaced.pop(one.entry.id, None)
            draft.add(_merged(one.entry, earlier, replaced), *replaced.values())
        return list(draft.written.values())

    async def _stated_before(self, draft: _Draft, entry: MemoryEntry, earlier: MemoryEntry | None) -> list[MemoryEntry]:
        """What took the place of ``earlier`` without being told to, now that its text is stated again."""
        if not self._newer_wins or earlier is None or REASON not in earlier.metadata:
            return []
        successor = await draft.in_force(earlier)
        return [_replaced(successor, entry, "the older memory was stated again")]


class _Draft:
    """What is about to be written for an agent, read as if it were stored already."""

    def __init__(
        self, cold: ColdTier, agent_id: str, stored: Mapping[str, MemoryEntry], looked_up: Container[str]
    ) -> None:
        self._cold, self._agent_id = cold, agent_id
        self._stored, self._looked_up = stored, looked_up
        self.written: dict[str, MemoryEntry] = {}

    def add(self, *entries: MemoryEntry) -> None:
        """Write these, in the place of what is written or stored under their ids."""
        for entry in entries:
            hidden = entry.superseded_by is not None
            self.written[entry.id] = entry.model_copy(update={"embedding": None}) if hidden else entry

    async def get(self, memory_id: str) -> MemoryEntry | None:
        """The agent's entry of this id."""
        if memory_id in self.written:
            return self.written[memory_id]
        if memory_id in self._looked_up:
            return self._stored.get(memory_id)
        return await self._cold.get(self._agent_id, memory_id)

    async def owned(self, memory_id: str) -> MemoryEntry:
        """Like `get`.

        Raises:
            MemoryNotFoundError: the agent has none.
        """
        entry = await self.get(memory_id)
        if entry is None:
            raise MemoryNotFoundError(memory_id)
        return entry

    async def in_force(self, entry: MemoryEntry) -> MemoryEntry:
        """The end of the line of replacements that begins with ``entry``, as far as it is still there."""
        seen = {entry.id}
        while entry.superseded_by is not None and entry.superseded_by not in seen:
            later = await self.get(entry.superseded_by)
            if later is None:
                break
            seen.add(later.id)
            entry = later
        return entry

    async def candidates(self, entry: MemoryEntry) -> list[MemoryEntry]:
        """Older memories in force: the stored ones that are most like ``entry``, and all that are written."""
        page = await self._cold.search_page(
            entry.agent_id,
            entry.embedding or [],
            ANY_COSINE,
            background=None,
            newer_first=False,
            limit=CANDIDATES,
            consider=CANDIDATES,
            content_types=UPDATED_TYPES,
            query_text=shorten(entry.content),
            tags=None,
        )
        found = ({old.id: old for old in page.entries} | self.written).values()
        return [old for old in found if old.superseded_by is None and old.timestamp <= entry.timestamp]


async def _outlived(draft: _Draft, earlier: MemoryEntry, fact: MemoryEntry) -> bool:
    """Whether the fact was replaced by something later than what it is taken from: to read it again is no news."""
    successor = await draft.in_force(earlier)
    return successor.id != earlier.id and successor.timestamp >= fact.timestamp


async def _outdated(draft: _Draft, entry: MemoryEntry, update: Update) -> list[MemoryEntry]:
    """The memories that no longer hold now that ``entry`` is said, marked with the reason."""
    from actrone_memory._updates import why_replaced

    await asyncio.sleep(0)  # each may take as long as a query, and a long list must not keep queries waiting
    reasons = [(old, why_replaced(old, update)) for old in await draft.candidates(entry)]
    return [_replaced(old, entry, reason) for old, reason in reasons if reason is not None]


def _merged(entry: MemoryEntry, earlier: MemoryEntry | None, replaced: Mapping[str, MemoryEntry]) -> MemoryEntry:
    """``entry`` with the tags and the type of an earlier memory of the same text, and the ids of what it hides.

    What a model extracted lowers neither sensitivity nor importance, and does not take over what a caller injected;
    what a caller injects may.
    """
    known = earlier.metadata.get(HIDES) if earlier else None
    hides = dict.fromkeys([*(known if isinstance(known, list) else []), *_hidden(replaced)])
    if hides:
        entry = entry.model_copy(update={"metadata": {**entry.metadata, HIDES: list(hides)}})
    if earlier is None:
        return entry
    update: dict[str, object] = {
        "topic_tags": list(dict.fromkeys([*earlier.topic_tags, *entry.topic_tags])),
        "content_type": earlier.content_type,
    }
    if entry.content_type == "fact":
        update["sensitivity"] = max(earlier.sensitivity, entry.sensitivity, key=get_args(Sensitivity).index)
        update["importance_score"] = max(earlier.importance_score, entry.importance_score)
        update["timestamp"] = max(earlier.timestamp, entry.timestamp)
        if earlier.content_type != "fact":
            update |= earlier.model_dump(include={"source", "session_id", "content", "token_count"})
    return entry.model_copy(update=update)


def _hidden(replaced: Mapping[str, MemoryEntry]) -> list[str]:
    """The ids of those that were replaced without being named."""
    return [old.id for old in replaced.values() if REASON in old.metadata]


def _replaced(old: MemoryEntry, new: MemoryEntry, reason: str) -> MemoryEntry:
    """``old``, marked as replaced by ``new`` without being named."""
    return old.model_copy(update={"superseded_by": new.id, "metadata": {**old.metadata, REASON: reason}})


async def extracted_facts(extractor: FactExtractor, text: str) -> list[ExtractedFact]:
    """What the extractor finds in ``text``, checked; raises whatever it raises, or an error about what it returned."""
    return [fact for fact in _validation.facts(await extractor.extract(text)) if fact.content.strip()]


def injected_entry(agent_id: str, injected: Injected, token_count: int) -> MemoryEntry:
    """What a caller injects, as a memory."""
    return MemoryEntry(
        id=memory_id(agent_id, injected.content),
        agent_id=agent_id,
        session_id=injected.session_id,
        content=injected.content,
        content_type="injected",
        importance_score=injected.importance,
        topic_tags=injected.topic_tags,
        token_count=token_count,
        source=injected.source,
        sensitivity=injected.sensitivity,
    )


def fact_entry(agent_id: str, session_id: str, fact: ExtractedFact, token_count: int, said: datetime) -> MemoryEntry:
    """The fact as a memory, as old as the last turn that it may be taken from."""
    return MemoryEntry(
        id=memory_id(agent_id, fact.content),
        agent_id=agent_id,
        session_id=session_id,
        content=fact.content,
        content_type="fact",
        importance_score=min(1.0, max(0.0, fact.importance)),
        topic_tags=fact.topic_tags,
        token_count=token_count,
        timestamp=said,
        source="extracted",
        sensitivity=fact.sensitivity,
    )
