"""Memories and past turns as LangChain documents."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr, field_validator

from actrone_langchain import _arguments
from actrone_memory import MemoryEntry, MemoryManager, RetrievedContext, SyncMemoryManager

DEFAULT_TOKEN_BUDGET = 4_096
"""Of it a quarter goes to memories and a third to turns, by the settings' defaults."""


class ActroneRetriever(BaseRetriever, extra="forbid"):
    """What the agent remembers that matches a query, best first: memories and turns of earlier sessions.

    ``token_budget`` is divided as in ``retrieve_context``: what comes back fits the shares for memories and turns.
    Turns that are recent in ``session_id`` are left out, and take their share first; without it no session counts as
    recent. ``k`` is the most that comes back, also per call: ``retriever.invoke(query, k=3)``. ``content_types`` names
    the kinds of memory to look for. A blank query gives [].

    The metadata of a document: ``id``, ``score`` (the best near 1.0), ``source``, ``tags``, ``session_id``,
    ``agent_id``, ``timestamp`` (ISO 8601), ``kind`` (the content type) and ``importance``.
    """

    memory: MemoryManager | SyncMemoryManager
    agent_id: str
    session_id: str | None = None
    token_budget: int = DEFAULT_TOKEN_BUDGET
    k: int | None = None
    content_types: list[str] | None = None

    _no_session: str = PrivateAttr(default_factory=lambda: f"no session {uuid4()}")

    @field_validator("memory", mode="before")
    @classmethod
    def _check_memory(cls, value: object) -> object:
        return _arguments.manager(value)

    @field_validator("agent_id", mode="before")
    @classmethod
    def _check_agent_id(cls, value: object) -> str:
        return _arguments.identifier(value, "agent_id")

    @field_validator("session_id", mode="before")
    @classmethod
    def _check_session_id(cls, value: object) -> str | None:
        return None if value is None else _arguments.identifier(value, "session_id")

    @field_validator("token_budget", mode="before")
    @classmethod
    def _check_token_budget(cls, value: object) -> int:
        return _arguments.token_budget(value)

    @field_validator("k", mode="before")
    @classmethod
    def _check_k(cls, value: object) -> int | None:
        return None if value is None else _arguments.positive_integer(value, "k")

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain passes it
        k: int | None = None,
    ) -> list[Document]:
        return _arguments.plain(self.memory).run(self._recalling(query, k))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain passes it
        k: int | None = None,
    ) -> list[Document]:
        return await self._recalling(query, k)

    async def _recalling(self, query: str, k: int | None) -> list[Document]:
        most = self.k if k is None else _arguments.positive_integer(k, "k")
        if isinstance(query, str) and not query.strip():
            return []
        context = await _arguments.plain(self.memory).manager.retrieve_context(
            self.agent_id,
            self.session_id or self._no_session,
            query,
            self.token_budget,
            content_types=self.content_types,  # type: ignore[arg-type]  # the manager checks them
        )
        found = sorted(
            [*context.episodic_memories, *context.recalled_turns], key=lambda entry: entry.score or 0.0, reverse=True
        )
        return [_document(entry) for entry in found[:most]]


def render_documents(documents: Iterable[Document]) -> str:
    """Retrieved documents as text for a prompt: memories and earlier turns, each fenced as data; "" for none."""
    entries = [_entry(document) for document in documents]
    return RetrievedContext(
        recent_turns=[],
        episodic_memories=[entry for entry in entries if entry.content_type != "turn"],
        recalled_turns=[entry for entry in entries if entry.content_type == "turn"],
        total_tokens_used=0,
        token_budget=DEFAULT_TOKEN_BUDGET,
        retrieval_duration_ms=0.0,
    ).render(turns=False)


def _document(entry: MemoryEntry) -> Document:
    return Document(
        id=entry.id,
        page_content=entry.content,
        metadata={
            "id": entry.id,
            "score": entry.score,
            "source": entry.source,
            "tags": entry.topic_tags,
            "session_id": entry.session_id,
            "agent_id": entry.agent_id,
            "timestamp": entry.timestamp.isoformat(),
            "kind": entry.content_type,
            "importance": entry.importance_score,
        },
    )


def _entry(document: Document) -> MemoryEntry:
    """The document as a memory; one of another retriever too."""
    said_at = _time(document.metadata.get("timestamp")) if document.metadata.get("kind") == "turn" else None
    entry = MemoryEntry(agent_id="", session_id="", content=document.page_content, content_type="fact")
    return entry if said_at is None else entry.model_copy(update={"content_type": "turn", "timestamp": said_at})


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
