"""Writing long-term memories: one for each text, replaced as a whole, never across an erasure or an owner."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, get_args

from actrone_memory import _validation
from actrone_memory._cold_tier import ColdTier
from actrone_memory._embedding import embed_all, embedder_of, shorten
from actrone_memory._ids import memory_id
from actrone_memory._statements import UPDATED_TYPES, stated_text
from actrone_memory._turnstile import Queues
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


class MemoryWriter:
    """Stores memories of any agent in the cold tier."""

    def __init__(self, cold: ColdTier, embedder: Embedder, *, newer_wins: bool) -> None:
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

    async def write(self, entry: MemoryEntry, supersedes: str | None) -> None:
        """Store ``entry`` with its embedding, and mark what it replaces, in one step.

        What was replaced already stands for the memory that holds in its place now.

        Raises:
            MemoryNotFoundError: ``supersedes`` is no entry of the agent; nothing was written.
        """
        while not await self._write(entry, supersedes, await self._cold.erasure_epoch(entry.agent_id)):
            logger.debug("An erasure overtook a write for %r; writing again", entry.agent_id)

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
        embedder = await embedder_of(self._embedder, agent_id)
        epoch = await self._cold.erasure_epoch(agent_id)
        async with self._queues.turns({old_id}):
            old = await self._cold.get(agent_id, old_id)
            if old is None or old.superseded_by != newer_id:
                return
            metadata = {name: value for name, value in old.metadata.items() if name != REASON}
            (embedding,) = await embed_all(embedder, [stated_text(old)])
            update = {"superseded_by": None, "metadata": metadata, "embedding": embedding}
            await self._cold.upsert_many([old.model_copy(update=update)], epoch=epoch)

    async def _write(self, entry: MemoryEntry, supersedes: str | None, epoch: int) -> bool:
        """Store ``entry`` and mark what it replaces; False, and nothing is stored, after an erasure since ``epoch``."""
        update, held = self._update_of(entry), {entry.id}
        while True:
            async with self._queues.turns(held):
                batch = await self._with_replaced(entry, update, supersedes)
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

    async def _with_replaced(
        self, entry: MemoryEntry, update: Update | None, supersedes: str | None
    ) -> list[MemoryEntry]:
        """``entry`` as it is to be stored, and every memory that it replaces, marked."""
        earlier = await self._cold.get(entry.agent_id, entry.id)
        if earlier is not None and entry.content_type == "fact" and await self._outlived(earlier, entry):
            return []
        replaced = {old.id: old for old in await self._stated_before(entry, earlier)}
        if update is not None:
            replaced |= {old.id: old for old in await self._outdated(entry, update)}
        if supersedes is not None:
            named = await self._in_force(await self.owned(entry.agent_id, supersedes))
            replaced[named.id] = named.model_copy(update={"superseded_by": entry.id})
        replaced.pop(entry.id, None)
        return [_merged(entry, earlier, replaced), *replaced.values()]

    async def _outlived(self, earlier: MemoryEntry, fact: MemoryEntry) -> bool:
        """Whether the fact was replaced by something later than what it is taken from: to read it again is no news."""
        successor = await self._in_force(earlier)
        return successor.id != earlier.id and successor.timestamp >= fact.timestamp

    async def _stated_before(self, entry: MemoryEntry, earlier: MemoryEntry | None) -> list[MemoryEntry]:
        """What took the place of ``earlier`` without being told to, now that its text is stated again."""
        if not self._newer_wins or earlier is None or REASON not in earlier.metadata:
            return []
        successor = await self._in_force(earlier)
        return [_replaced(successor, entry, "the older memory was stated again")]

    async def _outdated(self, entry: MemoryEntry, update: Update) -> list[MemoryEntry]:
        """The agent's memories that no longer hold now that ``entry`` is said, marked with the reason."""
        from actrone_memory._updates import why_replaced

        reasons = [(old, why_replaced(old, update)) for old in await self._candidates(entry)]
        return [_replaced(old, entry, reason) for old, reason in reasons if reason is not None]

    async def _candidates(self, entry: MemoryEntry) -> list[MemoryEntry]:
        """Older memories that are most like ``entry``."""
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
        return [old for old in page.entries if old.timestamp <= entry.timestamp]

    async def _in_force(self, entry: MemoryEntry) -> MemoryEntry:
        """The end of the line of replacements that begins with ``entry``, as far as it is still stored."""
        seen = {entry.id}
        while entry.superseded_by is not None and entry.superseded_by not in seen:
            later = await self._cold.get(entry.agent_id, entry.superseded_by)
            if later is None:
                break
            seen.add(later.id)
            entry = later
        return entry

    async def write_all(self, entries: Sequence[MemoryEntry], epoch: int, embedder: Embedder) -> list[str]:
        """Embed and store the entries of one agent, each text once; the ids, [] after an erasure since ``epoch``."""
        unique: dict[str, MemoryEntry] = {}
        for entry in entries:
            unique.setdefault(entry.id, entry)
        if not unique:
            return []
        vectors = await embed_all(embedder, [stated_text(entry) for entry in unique.values()])
        for entry, vector in zip(unique.values(), vectors, strict=True):
            entry.embedding = vector
            if not await self._write(entry, None, epoch):
                return []
        return list(unique)


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
    facts = [ExtractedFact.model_validate(fact) for fact in await extractor.extract(text)]
    for fact in facts:
        _validation.text(fact.content, "content")
        _validation.tags(fact.topic_tags)
    return [fact for fact in facts if fact.content.strip()]


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
