"""The history of a chat: LangChain's own interface on the recent turns of a session."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from actrone_langchain import _arguments
from actrone_langchain._messages import messages_of, needs_the_session, records_of
from actrone_memory import MemoryManager, SyncMemoryManager, Turn, ValidationError

logger = logging.getLogger("actrone_langchain")


class ActroneChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session. Making one does no I/O; every object of a session shows the same messages.

    Messages come back as they went in, from any object; a message id that the session has seen is not stored again. A
    tool call whose result never came is followed by a marked placeholder, which is not stored. With ``token_budget``,
    reads give the newest whole turns that cost no more than that, the newest one always.

    The plain members work in scripts, threads and notebook cells, the async ones on any event loop.
    """

    def __init__(
        self,
        memory: MemoryManager | SyncMemoryManager,
        agent_id: str,
        session_id: str,
        token_budget: int | None = None,
    ) -> None:
        self._plain = _arguments.plain(memory)
        self._memory = self._plain.manager
        self._agent_id = _arguments.identifier(agent_id, "agent_id")
        self._session_id = _arguments.identifier(session_id, "session_id")
        self._token_budget = None if token_budget is None else _arguments.token_budget(token_budget)
        self._failures = [_Count()]

    @property
    def failed_writes(self) -> int:
        """How many calls of ``add_messages`` and ``aadd_messages`` failed. Each was logged and raised."""
        return self._failures[0].value

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """All messages that the session keeps, oldest first, or as many as the budget allows; [] for none."""
        return self._plain.run(self._reading())

    async def aget_messages(self) -> list[BaseMessage]:
        """See `messages`."""
        return await self._reading()

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store the messages in one step, all or none.

        A failure is logged as an error and counted in ``failed_writes`` before it is raised: LangChain's
        ``RunnableWithMessageHistory`` swallows what is raised here.
        """
        with self._telling_failures(messages):
            self._plain.run(self._writing(messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """See `add_messages`."""
        with self._telling_failures(messages):
            await self._writing(messages)

    def clear(self) -> None:
        """Delete the session's messages, from long-term memory too."""
        self._plain.run(self._clearing())

    async def aclear(self) -> None:
        """See `clear`."""
        await self._clearing()

    async def _reading(self) -> list[BaseMessage]:
        turns = await self._memory.get_recent_turns(self._agent_id, self._session_id)
        return messages_of(turns if self._token_budget is None else newest_that_fit(turns, self._token_budget))

    async def _writing(self, messages: Sequence[BaseMessage]) -> None:
        messages = _checked(messages)
        turns: list[Turn] = []
        if needs_the_session(messages):
            turns = await self._memory.get_recent_turns(self._agent_id, self._session_id)
        records = records_of(messages, self._session_id, turns)
        await self._memory.store_turns(self._agent_id, self._session_id, records)

    async def _clearing(self) -> None:
        await self._memory.clear_session(self._agent_id, self._session_id)

    @contextmanager
    def _telling_failures(self, messages: Sequence[BaseMessage]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            for count in self._failures:
                count.add_one()
            logger.error(
                "Agent %r, session %r: %s were not stored: %s",
                self._agent_id,
                self._session_id,
                f"{len(messages)} messages" if isinstance(messages, Sized) else "messages",
                error,
            )
            raise


class SessionHistory:
    """Makes the history of a session for one call of ``RunnableWithMessageHistory``; see `session_history`."""

    def __init__(
        self, memory: MemoryManager | SyncMemoryManager, agent_id: str, *, token_budget: int | None = None
    ) -> None:
        self._memory = _arguments.manager(memory)
        self._agent_id = _arguments.identifier(agent_id, "agent_id")
        self._token_budget = None if token_budget is None else _arguments.token_budget(token_budget)
        self._failures = _Count()

    @property
    def failed_writes(self) -> int:
        """How many writes failed, of all histories made here."""
        return self._failures.value

    def __call__(self, session_id: str) -> ActroneChatMessageHistory:
        return self._history(self._agent_id, session_id)

    def _history(self, agent_id: str, session_id: str) -> ActroneChatMessageHistory:
        history = _HistoryOfOneCall(self._memory, agent_id, session_id, self._token_budget)
        history._failures.append(self._failures)
        return history


class UserSessionHistory(SessionHistory):
    """Makes the history of a user's session, behind a wall of its own; see `user_session_history`."""

    def __call__(self, user_id: str, session_id: str) -> ActroneChatMessageHistory:  # type: ignore[override]
        return self._history(user_agent_id(self._agent_id, user_id), session_id)


def session_history(
    memory: MemoryManager | SyncMemoryManager, agent_id: str, *, token_budget: int | None = None
) -> SessionHistory:
    """The factory ``f(session_id)`` for ``RunnableWithMessageHistory``.

    What it makes is for one call: it keeps what it read first until it has written, so that calls of one session may
    overlap and lose nothing.
    """
    return SessionHistory(memory, agent_id, token_budget=token_budget)


def user_session_history(
    memory: MemoryManager | SyncMemoryManager, agent_id: str, *, token_budget: int | None = None
) -> UserSessionHistory:
    """The factory ``f(user_id, session_id)``: like `session_history`, each user under `user_agent_id`."""
    return UserSessionHistory(memory, agent_id, token_budget=token_budget)


def user_agent_id(agent_id: str, user_id: str) -> str:
    """One agent id for one user of an agent: ``user:<length of agent_id>:<agent_id>:<user_id>``.

    Two pairs never share one. Longer than an id may be, it is ``user:sha256:<digest of both>``.
    """
    _arguments.identifier(agent_id, "agent_id")
    _arguments.identifier(user_id, "user_id")
    readable = f"user:{len(agent_id)}:{agent_id}:{user_id}"
    if len(readable) <= _arguments.MAX_ID_CHARACTERS:
        return readable
    return f"user:sha256:{hashlib.sha256(json.dumps([agent_id, user_id]).encode()).hexdigest()}"


class _HistoryOfOneCall(ActroneChatMessageHistory):
    """Keeps its first read until its write.

    The runnable drops as many of the input messages as the history holds when the call ends: with what another call
    has written meanwhile, it would drop the new messages.
    """

    _pinned: list[BaseMessage] | None = None

    async def _reading(self) -> list[BaseMessage]:
        if self._pinned is None:
            self._pinned = await super()._reading()
        return list(self._pinned)

    async def _writing(self, messages: Sequence[BaseMessage]) -> None:
        try:
            await super()._writing(messages)
        finally:
            self._pinned = None

    async def _clearing(self) -> None:
        self._pinned = None
        await super()._clearing()


def _checked(messages: object) -> list[BaseMessage]:
    if isinstance(messages, BaseMessage) or not isinstance(messages, Iterable):
        raise ValidationError("messages", f"must be a list of messages, not {type(messages).__name__}")
    checked = list(messages)
    for position, message in enumerate(checked):
        if not isinstance(message, BaseMessage):
            raise ValidationError(f"messages[{position}]", f"must be a message, not {type(message).__name__}")
    return checked


class _Count:
    """A number that threads may add to."""

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add_one(self) -> None:
        with self._lock:
            self.value += 1


def newest_that_fit(turns: Sequence[Turn], token_budget: int) -> list[Turn]:
    """The newest turns whose costs add up to at most the budget, oldest first; the newest one in any case."""
    kept = 1
    spent = sum(turn.token_count for turn in turns[-1:])
    for turn in reversed(turns[:-1]):
        spent += turn.token_count
        if spent > token_budget:
            break
        kept += 1
    return list(turns[-kept:])
