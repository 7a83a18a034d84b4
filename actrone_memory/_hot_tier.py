"""What the manager may ask of any `L1Store`: its own methods where it has them, stand-ins where it lacks them."""

from __future__ import annotations

from collections.abc import Sequence

from actrone_memory._capabilities import agents_of, missing, named_errors
from actrone_memory._stand_ins import ProcessArchiveLog
from actrone_memory._turns import flatten, join_records
from actrone_memory.models import SessionMetadata, Turn
from actrone_memory.protocols import ArchiveLog, L1Store, SessionCopy, SessionListing, SessionTransfer, TurnBatches


class HotTier:
    """An `L1Store` with every L1 capability."""

    def __init__(self, store: L1Store) -> None:
        self.store = store
        self._batches = store if isinstance(store, TurnBatches) else None
        self._archive_log = store if isinstance(store, ArchiveLog) else None
        self._log = ProcessArchiveLog()

    async def append(self, agent_id: str, session_id: str, records: Sequence[Turn], *, hold: bool) -> None:
        """Append the records; in one step where the store can."""
        with named_errors(self.store):
            if self._batches is not None:
                await self._batches.append_turns(agent_id, session_id, records, hold=hold)
            else:
                self._log.know(agent_id, session_id)
                for record in records:
                    await self.store.append_turn(agent_id, session_id, record)

    async def recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        """The last ``n`` whole turns, oldest first."""
        with named_errors(self.store):
            counts_whole_turns = self._batches is not None
            records = await self.store.get_recent_turns(agent_id, session_id, n if counts_whole_turns else None)
        turns = join_records(records)
        return turns if n is None else turns[-n:]

    async def metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        """Size and age of the session."""
        with named_errors(self.store):
            return await self.store.get_session_metadata(agent_id, session_id)

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        """Forget the session."""
        with named_errors(self.store):
            await self.store.clear_session(agent_id, session_id)
        self._log.forget(agent_id, session_id)

    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        """True for the first caller within the time."""
        with named_errors(self.store):
            return await self.store.try_acquire_summary_lock(agent_id, session_id, ttl_seconds)

    @property
    def lists_sessions(self) -> bool:
        """Whether sessions of earlier processes can be found."""
        return isinstance(self.store, SessionListing)

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        """Every session of the agent, the most recently active first."""
        if not isinstance(self.store, SessionListing):
            raise missing(self.store, "list_sessions")
        with named_errors(self.store):
            return await self.store.list_sessions(agent_id)

    async def list_agents(self) -> list[str]:
        """Every agent that has a session."""
        return await agents_of(self.store)

    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        """All that is known of the session."""
        with named_errors(self.store):
            return await self._transfer("copy_session").copy_session(agent_id, session_id)

    async def add_session(self, agent_id: str, copy: SessionCopy) -> bool:
        """Add the session as it was copied; False when there is one of its name."""
        with named_errors(self.store):
            return await self._transfer("add_session").add_session(agent_id, copy)

    def _transfer(self, method: str) -> SessionTransfer:
        if not isinstance(self.store, SessionTransfer):
            raise missing(self.store, method)
        return self.store

    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        """Whole turns that the archive does not hold yet, or not yet whole."""
        if self._archive_log is not None:
            with named_errors(self.store):
                return await self._archive_log.unarchived(agent_id, session_id)
        return self._log.unarchived(agent_id, session_id, await self.recent_turns(agent_id, session_id))

    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        """Note that the archive holds these turns."""
        if self._archive_log is not None:
            with named_errors(self.store):
                await self._archive_log.mark_archived(agent_id, session_id, turns)
        else:
            self._log.mark_archived(agent_id, session_id, turns)

    async def mark_erased(self, agent_id: str) -> None:
        """Keep what the agent's sessions hold now out of the archive for ever."""
        if self._archive_log is not None:
            with named_errors(self.store):
                await self._archive_log.mark_erased(agent_id)
        else:
            for session_id in self._log.sessions(agent_id):
                records = flatten(await self.recent_turns(agent_id, session_id))
                self._log.mark_erased(agent_id, session_id, records)

    async def close(self) -> None:
        """Close the store."""
        with named_errors(self.store):
            await self.store.close()
