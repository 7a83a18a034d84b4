"""From the hot tier to long-term memory: archived turns and summaries. Runs in the background, never loses a turn.

Every write names the erasure epoch read before the turns were; a write that an erasure overtook is refused by the
store and the session is read anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from actrone_memory._background import Background, Work
from actrone_memory._cold_tier import ColdTier
from actrone_memory._embedding import embed_all
from actrone_memory._hot_tier import HotTier
from actrone_memory._ids import archived_turn_id, summary_id
from actrone_memory._turns import ARCHIVED_TOOL_CHARACTERS, is_answered, turn_text
from actrone_memory.config import MemoryConfig
from actrone_memory.embedders.cache import CachedEmbedder
from actrone_memory.errors import ActroneMemoryError
from actrone_memory.models import MemoryEntry, Turn, utc_now
from actrone_memory.protocols import Embedder, Summariser
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
        self._summariser = summariser if config.auto_summarise else None
        # Turns a session may still take before a summary is due; absent until first counted in this process.
        self._turns_until_summary: dict[tuple[str, str], int] = {}
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
        archived = await self._archive(work.agent_id, work.session_id) if self._config.archive_turns else 1
        if self._summariser is not None and archived:
            await self._summarise(work.agent_id, work.session_id, archived, self._summariser)

    async def _archive(self, agent_id: str, session_id: str) -> int:
        """Index what is not indexed yet; returns the number of turns."""
        archived = 0
        while True:
            embedder = await self._embedder.for_agent(agent_id)
            epoch = await self._cold.erasure_epoch(agent_id)
            turns = (await self._hot.unarchived(agent_id, session_id))[:TURNS_PER_BATCH]
            if not turns:
                return archived
            if await self._store([self._turn_entry(agent_id, session_id, turn) for turn in turns], epoch, embedder):
                await self._hot.mark_archived(agent_id, session_id, turns)
                archived += len(turns)

    async def _store(self, entries: Sequence[MemoryEntry], epoch: int, embedder: Embedder) -> bool:
        written = [entry for entry in entries if entry.content]
        vectors = await embed_all(embedder, [entry.content for entry in written]) if written else []
        for entry, vector in zip(written, vectors, strict=True):
            entry.embedding = vector
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

    async def _summarise(self, agent_id: str, session_id: str, new_turns: int, summariser: Summariser) -> None:
        """Summarise the turns since the last summary, once there are enough of them and the lock allows it."""
        key = agent_id, session_id
        embedder = await self._embedder.for_agent(agent_id)
        epoch = await self._cold.erasure_epoch(agent_id)
        if key not in self._turns_until_summary:
            uncovered = await self._uncovered(agent_id, session_id)
            self._turns_until_summary[key] = self._config.summarise_after_turns - len(uncovered)
        else:
            self._turns_until_summary[key] -= new_turns
        if self._turns_until_summary[key] > 0 or not await self._may_summarise(agent_id, session_id):
            return
        uncovered = await self._uncovered(agent_id, session_id)
        if len(uncovered) >= self._config.summarise_after_turns:
            summary = await self._summary_entry(agent_id, session_id, uncovered, summariser)
            if not await self._store([summary], epoch, embedder):
                return
            if not self._config.archive_turns:
                await self._hot.mark_archived(agent_id, session_id, await self._hot.unarchived(agent_id, session_id))
            uncovered = []
        self._turns_until_summary[key] = self._config.summarise_after_turns - len(uncovered)

    async def _may_summarise(self, agent_id: str, session_id: str) -> bool:
        cooldown = self._config.summarise_cooldown_seconds
        return not cooldown or await self._hot.try_acquire_summary_lock(agent_id, session_id, cooldown)

    async def _uncovered(self, agent_id: str, session_id: str) -> list[MemoryEntry]:
        """The session's turns that no summary covers, oldest first, without a last one that is not answered yet."""
        if self._config.archive_turns:
            entries = await self._cold.entries(agent_id, ["turn", "summary"])
            own = [entry for entry in entries if entry.session_id == session_id]
            covered = {turn_id for entry in own if entry.content_type == "summary" for turn_id in entry.source_turn_ids}
            turns = [
                entry for entry in own if entry.content_type == "turn" and not covered.issuperset(entry.source_turn_ids)
            ]
            turns.sort(key=lambda entry: entry.sequence or 0)
        else:
            pending = await self._hot.unarchived(agent_id, session_id)
            turns = [self._turn_entry(agent_id, session_id, turn) for turn in pending]
        if turns and not is_answered(turns[-1].content):
            turns.pop()
        return turns

    async def _summary_entry(
        self, agent_id: str, session_id: str, turns: Sequence[MemoryEntry], summariser: Summariser
    ) -> MemoryEntry:
        try:
            summary = await summariser.summarise("\n\n".join(turn.content for turn in turns))
        except ActroneMemoryError:
            raise
        except Exception as error:
            raise ActroneMemoryError(
                f"The summariser failed: {type(error).__name__}: {error}", code="summary"
            ) from error
        if not isinstance(summary, str) or not summary.strip():
            raise ActroneMemoryError("The summariser returned no text", code="summary")
        covered = [turn_id for turn in turns for turn_id in turn.source_turn_ids]
        return MemoryEntry(
            id=summary_id(agent_id, session_id, *covered),
            agent_id=agent_id,
            session_id=session_id,
            content=summary.strip(),
            content_type="summary",
            importance_score=SUMMARY_IMPORTANCE,
            token_count=self._count(summary.strip()),
            timestamp=utc_now(),
            source_turn_ids=covered,
            source="summarised",
            sequence=turns[-1].sequence,
        )
