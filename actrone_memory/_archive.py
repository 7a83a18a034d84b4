"""From the hot tier to long-term memory: archived turns and summaries. Runs in the background, never loses a turn.

Every write names the erasure epoch read before the turns were; a write that an erasure overtook is refused by the
store and the session is read anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from actrone_memory._background import Background, Work
from actrone_memory._cold_tier import ColdTier
from actrone_memory._embedding import embed_entries
from actrone_memory._hot_tier import HotTier
from actrone_memory._ids import archived_turn_id, summary_id
from actrone_memory._turns import ARCHIVED_TOOL_CHARACTERS, TEXT_SEPARATOR, is_answered, turn_text
from actrone_memory.config import MemoryConfig
from actrone_memory.embedders.cache import CachedEmbedder
from actrone_memory.errors import ActroneMemoryError, failing_as, told
from actrone_memory.models import ContentType, MemoryEntry, Turn, utc_now
from actrone_memory.protocols import Embedder, Summariser
from actrone_memory.summarising import ExtractiveSummariser
from actrone_memory.tokens import TokenCounter

TURNS_PER_BATCH = 64
"""Turns embedded and written in one step."""

SUMMARY_IMPORTANCE = 0.6


class Archive:
    """Indexes turns in long-term memory and summarises them, as the settings ask for."""

    def __init__(
        self,
        hot: HotTier,
        cold: ColdTier,
        embedder: CachedEmbedder,
        config: MemoryConfig,
        count: TokenCounter,
        summariser: Summariser | None,
    ) -> None:
        self._hot, self._cold, self._embedder = hot, cold, embedder
        self._count, self._config = count, config
        self._summariser = _chosen(config, summariser)
        self._schedule = _Schedule()
        self.background = Background(self.run)

    @property
    def wanted(self) -> bool:
        """Whether turns go anywhere but into the hot tier, so that it must hold them until they did."""
        return self._config.archive_turns or self._summariser is not None

    async def run(self, work: Work) -> None:
        """Archive and summarise one session; without a session, put the agent's unfinished ones into the queue."""
        if work.session_id is None:
            for session in await self._hot.list_sessions(work.agent_id):
                if await self._hot.unarchived(work.agent_id, session.session_id):
                    self.background.enqueue(Work(work.agent_id, session.session_id))
            return
        if self._config.archive_turns:
            await self._archive(work.agent_id, work.session_id)
        if self._summariser is not None and self._may_be_due(work.agent_id, work.session_id):
            await self._summarise(work.agent_id, work.session_id, self._summariser)

    async def _archive(self, agent_id: str, session_id: str) -> None:
        """Index what is not indexed yet."""
        while True:
            embedder = await self._embedder.for_agent(agent_id)
            epoch = await self._cold.erasure_epoch(agent_id)
            turns = (await self._hot.unarchived(agent_id, session_id))[:TURNS_PER_BATCH]
            if not turns:
                return
            if await self._store([self._turn_entry(agent_id, session_id, turn) for turn in turns], epoch, embedder):
                await self._hot.mark_archived(agent_id, session_id, turns)
                self._schedule.advance((agent_id, session_id), turns)

    async def _store(self, entries: Sequence[MemoryEntry], epoch: int, embedder: Embedder) -> bool:
        written = [entry for entry in entries if entry.content]
        await embed_entries(embedder, written)
        return await self._cold.upsert_many(written, epoch=epoch)

    def _turn_entry(self, agent_id: str, session_id: str, turn: Turn) -> MemoryEntry:
        """The turn as a memory: plain text, an id of its own that stays when the turn grows."""
        content = turn_text(turn, tool_characters=ARCHIVED_TOOL_CHARACTERS)
        return MemoryEntry(
            id=archived_turn_id(agent_id, session_id, turn.id),
            agent_id=agent_id,
            session_id=session_id,
            content=content,
            content_type="turn",
            token_count=self._count(content),
            timestamp=turn.timestamp,
            source_turn_ids=[turn.id],
            source="conversation",
            sequence=turn.sequence,
        )

    def _may_be_due(self, agent_id: str, session_id: str) -> bool:
        """Whether to look; turns that wait in the hot tier are quickly counted, archived ones are not."""
        return not self._config.archive_turns or self._schedule.reached((agent_id, session_id))

    async def _summarise(self, agent_id: str, session_id: str, summariser: Summariser) -> None:
        """Summarise the turns since the last summary, once there are enough of them and the lock allows it."""
        key, enough = (agent_id, session_id), self._config.summarise_after_turns
        waited = self._schedule.waits_for_lock(key)
        if waited and not await self._may_summarise(agent_id, session_id):
            return
        embedder = await self._embedder.for_agent(agent_id)
        epoch = await self._cold.erasure_epoch(agent_id)
        uncovered = await self._uncovered(agent_id, session_id)
        answered = uncovered if uncovered and is_answered(uncovered[-1].content) else uncovered[:-1]
        if len(answered) < enough:
            self._schedule.look_after(key, enough - len(uncovered))
            return
        if not waited and not await self._may_summarise(agent_id, session_id):
            self._schedule.wait_for_lock(key)
            return
        if await self._cover(agent_id, session_id, answered, summariser, epoch, embedder):
            self._schedule.look_after(key, enough - (len(uncovered) - len(answered)))

    async def _may_summarise(self, agent_id: str, session_id: str) -> bool:
        cooldown = self._config.summarise_cooldown_seconds
        return not cooldown or await self._hot.try_acquire_summary_lock(agent_id, session_id, cooldown)

    async def _uncovered(self, agent_id: str, session_id: str) -> list[MemoryEntry]:
        """The session's turns that no summary covers, oldest first."""
        if self._config.archive_turns:
            own = await self._own(agent_id, session_id, ["turn", "summary"])
            turns = sorted((entry for entry in own if entry.content_type == "turn"), key=_place)
        else:
            pending = await self._hot.unarchived(agent_id, session_id)
            turns = [self._turn_entry(agent_id, session_id, turn) for turn in pending]
            if len(turns) < self._config.summarise_after_turns:
                return turns
            own = await self._own(agent_id, session_id, ["summary"])
        covered = {turn_id for entry in own if entry.content_type == "summary" for turn_id in entry.source_turn_ids}
        return [turn for turn in turns if not covered.issuperset(turn.source_turn_ids)]

    async def _own(self, agent_id: str, session_id: str, types: list[ContentType]) -> list[MemoryEntry]:
        return [entry for entry in await self._cold.entries(agent_id, types) if entry.session_id == session_id]

    async def _cover(
        self,
        agent_id: str,
        session_id: str,
        turns: Sequence[MemoryEntry],
        summariser: Summariser,
        epoch: int,
        embedder: Embedder,
    ) -> bool:
        """Store a summary of ``turns``; False, and nothing is stored, after an erasure since ``epoch``."""
        text = TEXT_SEPARATOR.join(turn.content for turn in turns if turn.content)
        if text:
            content = await _summary(summariser, text)
            if not await self._keep(self._summary_entry(agent_id, session_id, turns, content), epoch, embedder):
                return False
        if not self._config.archive_turns:
            covered = {turn_id for turn in turns for turn_id in turn.source_turn_ids}
            pending = await self._hot.unarchived(agent_id, session_id)
            await self._hot.mark_archived(agent_id, session_id, [turn for turn in pending if turn.id in covered])
        return True

    async def _keep(self, summary: MemoryEntry, epoch: int, embedder: Embedder) -> bool:
        """Store it, unless another process has meanwhile summarised more from the same turn on."""
        other = await self._cold.get(summary.agent_id, summary.id)
        if other is not None and len(other.source_turn_ids) >= len(summary.source_turn_ids):
            return True
        return await self._store([summary], epoch, embedder)

    def _summary_entry(self, agent_id: str, session_id: str, turns: Sequence[MemoryEntry], content: str) -> MemoryEntry:
        covered = [turn_id for turn in turns for turn_id in turn.source_turn_ids]
        return MemoryEntry(
            id=summary_id(agent_id, session_id, covered[0]),
            agent_id=agent_id,
            session_id=session_id,
            content=content,
            content_type="summary",
            importance_score=SUMMARY_IMPORTANCE,
            token_count=self._count(content),
            timestamp=utc_now(),
            source_turn_ids=covered,
            source="summarised",
            sequence=turns[-1].sequence,
        )


def _chosen(config: MemoryConfig, summariser: Summariser | None) -> Summariser | None:
    """The summariser, if any: without an archive one that needs no model, so that turns leave something behind."""
    if not config.auto_summarise:
        return None
    return summariser if summariser is not None or config.archive_turns else ExtractiveSummariser()


async def _summary(summariser: Summariser, text: str) -> str:
    with failing_as(lambda error: ActroneMemoryError(f"The summariser failed: {told(error)}", code="summary")):
        summary = await summariser.summarise(text)
    if not isinstance(summary, str) or not summary.strip():
        raise ActroneMemoryError("The summariser returned no text", code="summary")
    return summary.strip()


def _place(turn: MemoryEntry) -> int:
    return turn.sequence or 0


class _Schedule:
    """When to look whether a summary is due: to count archived turns is to read all of an agent.

    A session is at the sequence number of its newest turn, which every process sees grow by at least one a turn. Turns
    of a store that does not number them are counted here.
    """

    def __init__(self) -> None:
        self._at: dict[tuple[str, str], int] = {}
        self._look: dict[tuple[str, str], int] = {}
        self._waiting: set[tuple[str, str]] = set()

    def advance(self, session: tuple[str, str], archived: Sequence[Turn]) -> None:
        """Some turns more; fewer than before in a session that was cleared and begins anew."""
        before, newest = self._at.get(session, 0), archived[-1].sequence
        self._at[session] = before + len(archived) if newest is None else newest
        if self._at[session] < before:
            self._look.pop(session, None)

    def reached(self, session: tuple[str, str]) -> bool:
        """Whether there may be enough turns by now."""
        return session in self._at and self._at[session] >= self._look.get(session, 0)

    def look_after(self, session: tuple[str, str], turns: int) -> None:
        """So many turns are missing."""
        self._look[session] = self._at.get(session, 0) + max(0, turns)
        self._waiting.discard(session)

    def wait_for_lock(self, session: tuple[str, str]) -> None:
        """There are enough turns; only the lock is missing."""
        self._waiting.add(session)

    def waits_for_lock(self, session: tuple[str, str]) -> bool:
        """Whether it is only the lock that was missing."""
        return session in self._waiting
