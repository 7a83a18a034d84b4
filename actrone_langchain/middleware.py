"""Memory for ``langchain.agents.create_agent``: recalls into the model's request, stores what was said."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

try:
    from langchain.agents.middleware import AgentMiddleware
    from langgraph.config import get_config
except ImportError as error:
    raise ImportError(
        "ActroneMemoryMiddleware needs langchain 1.0 or newer: pip install 'actrone-memory[langchain-agents]'"
    ) from error
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage, SystemMessage

from actrone_langchain import _arguments
from actrone_langchain._messages import clean, messages_of, record_id, record_ids, records_of, text_of
from actrone_langchain._repair import Said, repaired
from actrone_langchain.retriever import DEFAULT_TOKEN_BUDGET
from actrone_memory import ConfigurationError, MemoryEntry, MemoryManager, RetrievedContext, SyncMemoryManager, Turn

IdOrCallable = str | Callable[[Any], str]
"""An id, or what tells it from the runtime of a run: ``lambda runtime: runtime.context.user_id``."""

RUNS_REMEMBERED = 1_024
"""Recalls kept for runs under way; one that was pushed out is recalled again."""


class Session(NamedTuple):
    """Whose memory a run uses."""

    agent_id: str
    session_id: str


class Recalled(NamedTuple):
    """What a model call is given: text for its system message, and messages of the session before its own."""

    text: str
    earlier: list[BaseMessage]


class ActroneMemoryMiddleware(AgentMiddleware):
    """Gives an agent memory.

    Before a model call it recalls what matters for the newest user message, once for each, within ``token_budget``: the
    text goes to the system message of the request, the session's earlier turns before the request's messages. Where a
    checkpointer brought such turns, those it did not bring are recalled like turns of earlier sessions. The agent's
    state is not changed. What is new in the state is stored before each model call, before each tool call and when the
    agent ends, each message once, by its id.

    ``agent_id`` and ``session_id`` are ids, or callables that tell them from the runtime. Without ``session_id`` it is
    the run's ``thread_id``. What other middlewares do to messages before the model is called (redact, summarise) is
    seen when they stand before this one in the list; so do those that write the system prompt.
    """

    def __init__(
        self,
        memory: MemoryManager | SyncMemoryManager,
        *,
        agent_id: IdOrCallable,
        session_id: IdOrCallable | None = None,
        token_budget: int = DEFAULT_TOKEN_BUDGET,
    ) -> None:
        super().__init__()
        self._plain = _arguments.plain(memory)
        self._memory = self._plain.manager
        self._agent_id = agent_id if callable(agent_id) else _arguments.identifier(agent_id, "agent_id")
        self._session_id = session_id
        if session_id is not None and not callable(session_id):
            _arguments.identifier(session_id, "session_id")
        self._token_budget = _arguments.token_budget(token_budget)
        self._no_session = f"no session {uuid4()}"
        self._recalled = _Latest()

    def before_model(self, state: Any, runtime: Any) -> None:
        """Recall for the newest user message, then store what is new in the state."""
        self._plain.run(self._preparing(state, self._session(runtime)))

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        """See `before_model`."""
        await self._preparing(state, self._session(runtime))

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with what was recalled."""
        return handler(_with(request, self._plain.run(self._recalling(request.state, self._session(request.runtime)))))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """See `wrap_model_call`."""
        recalled = await self._recalling(request.state, self._session(request.runtime))
        return await handler(_with(request, recalled))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Store the call before the tool runs: whatever becomes of it, the call is not lost."""
        self._plain.run(self._storing(request.state, self._session(request.runtime)))
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """See `wrap_tool_call`."""
        await self._storing(request.state, self._session(request.runtime))
        return await handler(request)

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Store what is new in the state."""
        self._plain.run(self._finishing(state, self._session(runtime)))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """See `after_agent`."""
        await self._finishing(state, self._session(runtime))

    def _session(self, runtime: Any) -> Session:
        agent_id = self._agent_id(runtime) if callable(self._agent_id) else self._agent_id
        session_id = self._session_id(runtime) if callable(self._session_id) else self._session_id
        return Session(
            _arguments.identifier(agent_id, "agent_id"),
            _arguments.identifier(_thread_id() if session_id is None else session_id, "session_id"),
        )

    async def _preparing(self, state: Any, session: Session) -> None:
        messages = _messages(state)
        if not messages or isinstance(messages[-1], HumanMessage):
            self._recalled.forget(_occasion(messages, session))  # asked anew, perhaps after a failure
        # Recalled before it is stored: what the state holds need not be recalled.
        await self._recalling(state, session)
        await self._storing(state, session)

    async def _finishing(self, state: Any, session: Session) -> None:
        await self._storing(state, session)
        self._recalled.forget(_occasion(_messages(state), session))

    async def _storing(self, state: Any, session: Session) -> None:
        turns = await self._memory.get_recent_turns(*session)
        records = records_of(_unstored(_messages(state), record_ids(turns)), session.session_id, turns)
        if records:
            await self._memory.store_turns(*session, records)

    async def _recalling(self, state: Any, session: Session) -> Recalled:
        """What was recalled for the newest user message; recalled now when it was not."""
        messages = _messages(state)
        occasion = _occasion(messages, session)
        recalled = self._recalled.get(occasion)
        if recalled is None:
            turns = await self._memory.get_recent_turns(*session)
            # The recent turns of a session that the state carries are in the state, or to be recalled like any others.
            recent = session._replace(session_id=self._no_session) if _carries(messages, turns) else session
            query = clean(text_of(messages[_newest_user_message(messages)])) if messages else ""
            context = await self._retrieved(recent, query)
            recalled = _beside(messages, context, session)
            self._recalled.keep(occasion, recalled)
        return recalled

    async def _retrieved(self, session: Session, query: str) -> RetrievedContext:
        if query.strip():
            return await self._memory.retrieve_context(*session, query, self._token_budget)
        # Nothing to search for, as with an image alone: the session's turns only.
        return await self._memory.retrieve_context(*session, "-", self._token_budget, content_types=[])


def _carries(messages: Sequence[BaseMessage], turns: Sequence[Turn]) -> bool:
    """Whether the messages of a run, those before its question, are the session's own, or sum it up."""
    before = {record_id(message) for message in messages[: _newest_user_message(messages)]}
    return not before.isdisjoint(record_ids(turns)) or any(map(_is_summary, messages))


def _beside(messages: Sequence[BaseMessage], context: RetrievedContext, session: Session) -> Recalled:
    """What the context adds to the messages of a run, none of which is told twice."""
    here = {record_id(message) for message in messages}

    def is_news(entry: MemoryEntry) -> bool:
        told = entry.session_id == session.session_id and here.issuperset(entry.source_turn_ids)
        return not told or entry.content_type not in ("turn", "summary")

    news = {
        "episodic_memories": [entry for entry in context.episodic_memories if is_news(entry)],
        "recalled_turns": [entry for entry in context.recalled_turns if is_news(entry)],
    }
    earlier = messages_of(turn for turn in context.recent_turns if here.isdisjoint(record_ids([turn])))
    return Recalled(
        context.model_copy(update=news).render(turns=False),
        [message for message in earlier if not isinstance(message, RemoveMessage)],  # no provider takes one
    )


def _with(request: Any, recalled: Recalled) -> Any:
    """The request with what was recalled, its messages such that a provider takes them."""
    messages = repaired([Said(m, m.id or "") for m in [*recalled.earlier, *request.messages]], invalid_too=True)
    if not recalled.text:
        return request.override(messages=messages)
    if not hasattr(request, "system_message"):  # langchain 1.0
        prompt = f"{request.system_prompt}\n\n{recalled.text}" if request.system_prompt else recalled.text
        return request.override(messages=messages, system_prompt=prompt)
    return request.override(messages=messages, system_message=_extended(request.system_message, recalled.text))


def _extended(system: SystemMessage | None, text: str) -> SystemMessage:
    if system is None:
        return SystemMessage(content=text)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{text}"})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": text}]})


def _messages(state: Any) -> list[BaseMessage]:
    return list(state["messages"] if isinstance(state, Mapping) else state.messages)


def _unstored(messages: Sequence[BaseMessage], known: set[str]) -> list[BaseMessage]:
    """Messages of a state that the session does not hold yet.

    What stands before the first known message has left the session's window, or sums up what has.
    """
    ids = [record_id(message) for message in messages]
    first = next((position for position, id_ in enumerate(ids) if id_ in known), 0)
    return [
        message
        for message, id_ in zip(messages[first:], ids[first:], strict=True)
        if id_ not in known and not _is_summary(message)
    ]


def _is_summary(message: BaseMessage) -> bool:
    return bool(message.additional_kwargs.get("lc_source") == "summarization")


def _newest_user_message(messages: Sequence[BaseMessage]) -> int:
    """Its position; 0 when the user said nothing."""
    spoken = [i for i, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return next((i for i in reversed(spoken) if not _is_summary(messages[i])), spoken[-1] if spoken else 0)


def _occasion(messages: Sequence[BaseMessage], session: Session) -> tuple[Session, str | None]:
    """What a recall is for: a session and the id of its newest user message."""
    return session, messages[_newest_user_message(messages)].id if messages else None


def _thread_id() -> str:
    thread_id = get_config().get("configurable", {}).get("thread_id")
    if thread_id is None:
        raise ConfigurationError(
            "ActroneMemoryMiddleware has no session: pass session_id=..., or give the run a thread_id, "
            'agent.invoke(..., {"configurable": {"thread_id": "..."}}).',
            {"missing": "thread_id"},
        )
    return str(thread_id)


class _Latest:
    """What was recalled for the latest occasions."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, Recalled] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, occasion: object) -> Recalled | None:
        return self._kept.get(occasion)

    def keep(self, occasion: object, recalled: Recalled) -> None:
        with self._lock:
            self._kept[occasion] = recalled
            if len(self._kept) > RUNS_REMEMBERED:
                self._kept.popitem(last=False)

    def forget(self, occasion: object) -> None:
        with self._lock:
            self._kept.pop(occasion, None)
