"""ActroneMemoryBlock: what LlamaIndex's own Memory lets go of is kept, and recalled for the newest user message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from pydantic import Field, field_validator

from actrone_llamaindex import _arguments, _exact, _messages
from actrone_llamaindex._arguments import AgentId, SessionId
from actrone_llamaindex._link import ManagerLink
from actrone_memory import ConfigurationError, RetrievedContext

DEFAULT_TOKEN_BUDGET = 4_000
"""Tokens given to a recall; its text takes at most the shares for memories and turns of it."""

RECALLING_SESSION = "llamaindex: recall"
"""A session that is never written: seen from it, everything archived belongs to other sessions and may be recalled."""

SESSION_KEY = "session_id"
"""Where LlamaIndex's Memory writes its session into the messages that it hands to its blocks."""


class ActroneMemoryBlock(BaseMemoryBlock[str], extra="forbid"):
    """A block of ``Memory.from_defaults(memory_blocks=[...])`` on a manager.

    What Memory flushes from its queue is stored as turns of ``session_id`` (Memory's own when None), so it is archived
    and recalled by this and every other session of ``agent_id``. The same messages flushed again are stored once.
    With a ``priority`` above 0 Memory may ask it to shorten its text.
    """

    name: str = "actrone_memory"
    memory: ManagerLink = Field(default_factory=lambda: ManagerLink.to(None))
    agent_id: AgentId
    session_id: SessionId | None = None
    token_budget: int = DEFAULT_TOKEN_BUDGET

    @field_validator("token_budget", mode="before")
    @classmethod
    def _check_token_budget(cls, value: object) -> int:
        return _arguments.token_budget(value, DEFAULT_TOKEN_BUDGET)

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        """What is remembered for the newest user message, as fenced text; "" for nothing."""
        asked = next((m for m in reversed(messages or []) if m.role == MessageRole.USER), None)
        query = "" if asked is None else _messages.text_of(asked)
        if not query.strip():
            return ""
        manager = await self.memory.reach()
        context: RetrievedContext = await manager.retrieve_context(
            self.agent_id, RECALLING_SESSION, query, self.token_budget
        )
        return context.render(turns=False)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Archive messages that left Memory's queue."""
        said = _messages.checked(messages)
        if not said:
            return
        session = self._session_of(said)
        said = [_without_session(message) for message in said]
        records = _messages.to_records(said, session, ids=_ids(said, session))
        manager = await self.memory.reach()
        await manager.store_turns(self.agent_id, session, records)

    def _session_of(self, messages: Sequence[ChatMessage]) -> str:
        given = self.session_id or messages[0].additional_kwargs.get(SESSION_KEY)
        if given is None:
            raise ConfigurationError(
                "ActroneMemoryBlock does not know the session: pass session_id=, or use it in "
                "Memory.from_defaults(memory_blocks=[...]), which tells it."
            )
        return _arguments.identifier(given, "session_id")

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """``content`` without its last items, shorter by that many tokens or more; None when nothing would be left."""
        return _shortened(content, most_tokens=_messages.tokens(content) - tokens_to_truncate) or None


def _shortened(rendered: str, most_tokens: int) -> str:
    """Rendered sections without the items at the end that cost too much; what remains is fenced as before."""
    lines = rendered.splitlines(keepends=True)
    while lines and _messages.tokens("".join(lines)) > most_tokens:
        begin = max((number for number, line in enumerate(lines) if line.startswith("- ")), default=0)
        end = begin + 1
        while end < len(lines) and lines[end].startswith("  "):
            end += 1
        alone = lines[begin - 1].startswith("<") and lines[begin - 1][1] != "/" and end < len(lines)
        if begin and alone:
            begin, end = begin - 1, end + 1  # the section's only item goes with its fence
        del lines[begin:end]
    return "".join(lines)


def _ids(messages: Sequence[ChatMessage], session: str) -> list[str]:
    """Ids that are the same when the same messages are flushed again, and others for other messages."""
    told = json.dumps([session, [_exact.dump(message) for message in messages]], sort_keys=True)
    digest = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    return [f"flushed-{digest[:32]}-{position}" for position in range(len(messages))]


def _without_session(message: ChatMessage) -> ChatMessage:
    kwargs = {key: value for key, value in message.additional_kwargs.items() if key != SESSION_KEY}
    return message.model_copy(update={"additional_kwargs": kwargs})
