"""ActroneMemory: a conversation and what is remembered for it, where LlamaIndex's agents and chat engines expect it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemory
from pydantic import Field, field_validator

from actrone_llamaindex import _arguments, _messages
from actrone_llamaindex._arguments import AgentId, SessionId
from actrone_llamaindex._link import ManagerLink
from actrone_llamaindex._messages import Said
from actrone_memory import MemoryManager, RetrievedContext, SyncMemoryManager, Turn

DEFAULT_TOKEN_BUDGET = 30_000
"""Tokens of what `get` returns: as many as LlamaIndex's own Memory gives."""

EARLIER_TURNS_WITH_CALLS = 3
"""Turns in which the call is looked up that a tool answers."""


class ActroneMemory(BaseMemory):
    """The memory of one session of one agent; pass it wherever LlamaIndex takes a ``memory``.

    The conversation is kept whole and exact; what else is known for ``agent_id`` (facts, summaries, turns of other
    sessions) is recalled for the newest user message. Making one costs nothing, so a web server may make one for each
    request; any number of them may share a manager. It opens no connection before its first use.

    As data (`to_dict`, pickle, a workflow's context) it carries its ids, its budget and the manager's settings without
    secrets. In the same process it finds its manager again; elsewhere it opens one, with secrets from the environment.

    Raises:
        ConfigurationError: with the first use, when the data lived in another process (``backend="memory"``).
        ValidationError: an id, a message or a number that is not acceptable.
    """

    memory: ManagerLink = Field(default_factory=lambda: ManagerLink.to(None))
    agent_id: AgentId
    session_id: SessionId
    token_budget: int = DEFAULT_TOKEN_BUDGET

    @field_validator("token_budget", mode="before")
    @classmethod
    def _check_token_budget(cls, value: object) -> int:
        return _arguments.token_budget(value, DEFAULT_TOKEN_BUDGET)

    @classmethod
    def class_name(cls) -> str:
        """The name under which the framework serialises it."""
        return "ActroneMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]  # the base takes anything
        cls,
        memory: MemoryManager | SyncMemoryManager | None = None,
        *,
        agent_id: str,
        session_id: str,
        token_budget: int | None = None,
    ) -> Self:
        """The memory of a session.

        Args:
            memory: the manager; None for one that this process opens from its settings, shared by all such objects.
            agent_id: the wall: one for each user, tenant or assistant.
            session_id: the conversation. The same ids continue it, in a new object too.
            token_budget: the most that `get` returns; 30,000 when None.
        """
        return cls(
            memory=ManagerLink.to(memory),
            agent_id=agent_id,
            session_id=session_id,
            token_budget=_arguments.token_budget(token_budget, DEFAULT_TOKEN_BUDGET),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The object that `to_dict` gave ``data``; ``memory=manager`` gives it that manager."""
        fields = {"agent_id": None, "session_id": None, **data, **kwargs}
        fields.pop("class_name", None)
        return cls(**fields)

    # --- reading --------------------------------------------------------------------------------------------------

    async def aget(
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - the framework's name
        initial_token_count: int = 0,
        **_: Any,
    ) -> list[ChatMessage]:
        """What to send to a model: memories, if any, as one system message, then the conversation in its order.

        Recalled is what matters for ``input``, else for the newest user message; with neither there is no recall. The
        list costs at most ``token_budget - initial_token_count`` tokens: older turns are left out whole. The
        conversation's system messages and everything from the newest user message on are there, whatever they cost;
        the recall gets its shares of what they leave. Model providers accept the list: a tool call without a result
        gets a marked one, which is never stored.
        """
        return await self._get(input, initial_token_count)

    def get(
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - the framework's name
        initial_token_count: int = 0,
        **_: Any,
    ) -> list[ChatMessage]:
        """See `aget`."""
        return self.memory.sync.run(self._get(input, initial_token_count))

    async def _get(self, wanted: object, initial_token_count: object) -> list[ChatMessage]:
        query = _arguments.query(wanted)
        budget = self.token_budget - _arguments.whole_number(initial_token_count, "initial_token_count")
        manager = await self.memory.reach()
        turns = await manager.get_recent_turns(self.agent_id, self.session_id)
        query = query if query.strip() else _messages.newest_user_text(turns)
        said = _messages.read(turns)
        newest = _messages.newest_user_turn(turns)
        left = budget - _messages.system_cost(said) - sum(map(_messages.cost, turns[newest:]))
        context = None
        if query.strip() and left >= 1:
            context = await manager.retrieve_context(self.agent_id, self.session_id, query, left)
        first = _first_kept(turns[:newest], left - _messages.tokens(_rendered(context, [])))
        return _composed(said, turns[first:], context)

    async def aget_all(self) -> list[ChatMessage]:
        """The conversation as it was put, all that the session keeps, and nothing else; `get` repairs what is torn."""
        return await self._get_all()

    def get_all(self) -> list[ChatMessage]:
        """See `aget_all`."""
        return self.memory.sync.run(self._get_all())

    async def _get_all(self) -> list[ChatMessage]:
        manager = await self.memory.reach()
        turns = await manager.get_recent_turns(self.agent_id, self.session_id)
        return [said.message for said in _messages.read(turns)]

    # --- writing --------------------------------------------------------------------------------------------------

    async def aput(self, message: ChatMessage) -> None:
        """Append a message. Put twice it is there twice: a ChatMessage has no id."""
        await self.aput_messages([message])

    def put(self, message: ChatMessage) -> None:
        """See `aput`."""
        self.put_messages([message])

    async def aput_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Append messages in one step, all or none."""
        await self._put(_messages.checked(messages))

    def put_messages(self, messages: Sequence[ChatMessage]) -> None:
        """See `aput_messages`."""
        self.memory.sync.run(self._put(_messages.checked(messages)))

    async def _put(self, messages: Sequence[ChatMessage], ids: Sequence[str] = ()) -> None:
        manager = await self.memory.reach()
        earlier: list[Turn] = []
        if _messages.results_without_call(messages):
            earlier = await manager.get_recent_turns(self.agent_id, self.session_id, EARLIER_TURNS_WITH_CALLS)
        records = _messages.to_records(messages, self.session_id, earlier, ids)
        if records:
            await manager.store_turns(self.agent_id, self.session_id, records + await self._carried_on(records))

    async def _carried_on(self, new: Sequence[Turn]) -> list[Turn]:
        """What keeps system messages in the session when their turns leave it for the ``new`` ones."""
        opened = sum(not record.continues for record in new)
        if not opened:
            return []
        manager = await self.memory.reach()
        session = await manager.get_session_metadata(self.agent_id, self.session_id)
        if (session.turn_count if session else 0) + opened <= self.memory.session_turns:
            return []
        turns = await manager.get_recent_turns(self.agent_id, self.session_id)
        return _messages.carried_on(turns, new, self.memory.session_turns)

    async def aset(self, messages: Sequence[ChatMessage]) -> None:
        """Make ``messages`` the conversation.

        The transcript that is already there changes nothing; one that begins with it appends the rest. The same one set
        again, or by many at once, is stored once. Memories and marked results that came from `get` are not taken for
        conversation. A caller that is cancelled leaves the old conversation or the new one.
        """
        await _completed(self._set(_messages.checked(messages)))

    def set(self, messages: Sequence[ChatMessage]) -> None:
        """See `aset`."""
        self.memory.sync.run(_completed(self._set(_messages.checked(messages))))

    async def _set(self, messages: Sequence[ChatMessage]) -> None:
        manager = await self.memory.reach()
        turns = await manager.get_recent_turns(self.agent_id, self.session_id)
        kept = _messages.kept_by(messages, turns, trimmed=len(turns) >= self.memory.session_turns)
        if kept is not None:
            ids = _messages.derived_ids(messages[kept:], after=_messages.records_of(turns)[-1:])
            await self._put(messages[kept:], ids)
            return
        records = _messages.to_records(messages, self.session_id, ids=_messages.derived_ids(messages))
        try:
            await manager.clear_session(self.agent_id, self.session_id)
            if records:
                records += await self._carried_on(records)
                await manager.store_turns(self.agent_id, self.session_id, records)
        except BaseException:
            # Refused, broken off, or the store failed: the old conversation must not be lost for that, nor be doubled.
            await manager.clear_session(self.agent_id, self.session_id)
            await manager.store_turns(self.agent_id, self.session_id, turns)
            raise

    async def areset(self) -> None:
        """Forget the conversation; facts and summaries stay."""
        await self._reset()

    def reset(self) -> None:
        """See `areset`."""
        self.memory.sync.run(self._reset())

    async def _reset(self) -> None:
        manager = await self.memory.reach()
        await manager.clear_session(self.agent_id, self.session_id)


async def _completed(work: Coroutine[Any, Any, None]) -> None:
    """Does ``work``; a caller that is cancelled meanwhile leaves when it is done."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def _composed(said: Sequence[Said], kept: Sequence[Turn], context: RetrievedContext | None) -> list[ChatMessage]:
    """Memories, then of what was ``said`` the system messages and the turns that are ``kept``."""
    recalled = _rendered(context, kept)
    memories = [_messages.recalled_message(recalled)] if recalled else []
    here = {record.id for record in _messages.records_of(kept)}
    return memories + _messages.repaired(one for one in said if one.is_system or one.record.id in here)


def _first_kept(earlier: Sequence[Turn], room: int) -> int:
    """Where the conversation begins, so that the newest of the ``earlier`` turns fill no more than ``room``."""
    first = len(earlier)
    while first > 0 and (cost := _messages.cost(earlier[first - 1])) <= room:
        first -= 1
        room -= cost
    return first


def _rendered(context: RetrievedContext | None, here: Sequence[Turn]) -> str:
    """What was recalled, as text, without the turns that are ``here``."""
    if context is None:
        return ""
    told = {(turn.session_id, turn.id) for turn in here}
    news = [
        entry
        for entry in context.recalled_turns
        if not any((entry.session_id, turn_id) in told for turn_id in entry.source_turn_ids)
    ]
    return context.model_copy(update={"recalled_turns": news}).render(turns=False)
