"""The seams of the engine: what a store, an embedder, an extractor, a summariser and a reranker have to offer.

`L1Store` and `L2Store` are the whole contract of a custom store. The small protocols after them are capabilities: a
store that has one is used through it, a store that lacks it still works, with what the docstring says it costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from pydantic import Field

from actrone_memory.models import ContentType, MemoryEntry, Record, Sensitivity, SessionMetadata, Turn


@runtime_checkable
class L1Store(Protocol):
    """Hot tier: the recent turns of a session, append-only, in the order in which they were appended."""

    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        """Append one record. A record id already seen in this session is not appended again."""
        ...

    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        """The last ``n`` turns, oldest first; all that are kept when None; [] for an unknown session.

        ``n`` below 1 is a `ValidationError`. What comes back are copies.
        """
        ...

    async def turn_count(self, agent_id: str, session_id: str) -> int:
        """How many turns are kept; 0 for an unknown session."""
        ...

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        """Forget the session, the record ids it has seen included. Clearing nothing is no error."""
        ...

    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        """Size and age of the session, None when there is none."""
        ...

    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        """True for the first caller within ``ttl_seconds``, False for every other one."""
        ...

    async def close(self) -> None:
        """Release what the store holds. Closing twice is no error."""
        ...


@runtime_checkable
class L2Store(Protocol):
    """Cold tier: the long-term memories of every agent, found by meaning."""

    async def upsert(self, entry: MemoryEntry) -> None:
        """Store or replace the entry of this id. An id that another agent owns is refused."""
        ...

    async def search(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        limit: int = 20,
        content_types: list[ContentType] | None = None,
        query_text: str | None = None,
    ) -> list[MemoryEntry]:
        """At most ``limit`` of the agent's memories, best first; admitted by cosine >= ``threshold``.

        ``query_text`` lets a store admit and rank by words too. ``limit`` below 1 is a `ValidationError`. Superseded
        entries may be left out. What comes back are copies.
        """
        ...

    async def delete(self, memory_id: str) -> None:
        """Delete one memory. Deleting nothing is no error."""
        ...

    async def delete_agent_memories(self, agent_id: str) -> None:
        """Delete every memory of the agent and of no other."""
        ...

    async def close(self) -> None:
        """Release what the store holds. Closing twice is no error."""
        ...


@runtime_checkable
class TurnBatches(Protocol):
    """L1 capability: several records in one atomic step, and counts in whole turns.

    Without it records are appended one by one, and reads fetch the whole session to find where turns begin.
    """

    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        """Append all records or none. With ``hold`` the window is trimmed only behind the archived mark."""
        ...


@runtime_checkable
class SessionListing(Protocol):
    """L1 capability: the sessions of an agent. Without it `list_sessions` is refused and nothing is caught up."""

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        """Every session of the agent, the most recently active first."""
        ...


@runtime_checkable
class AgentListing(Protocol):
    """Capability of either tier: whose memory it holds. Without it `list_agents` is refused."""

    async def list_agents(self) -> list[str]:
        """Every agent that has a session or a memory here, in the order of their names."""
        ...


@runtime_checkable
class ArchiveLog(Protocol):
    """L1 capability: which turns long-term memory has taken over. Without it the manager keeps count in its process."""

    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        """Whole turns with a record after the archived mark, without records from before an erasure."""
        ...

    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        """Move the archived mark behind the last record of ``turns``; it never moves back."""
        ...

    async def mark_erased(self, agent_id: str) -> None:
        """Never hand out as unarchived again what the agent's sessions hold at this moment."""
        ...


class SessionCopy(Record):
    """A session with all that its store knows of it, to be put into another store.

    ``records`` are those that are kept, with their sequence numbers. ``given_up`` are the ids of records that were
    trimmed and would still be recognised, oldest first. The marks are the numbers of the last record that was archived
    and of the last from before an erasure, -1 for none; ``hold`` is what the last append said.
    """

    session_id: str
    records: list[Turn] = Field(default_factory=list)
    given_up: list[str] = Field(default_factory=list)
    next_sequence: int = 0
    archived: int = -1
    erased: int = -1
    hold: bool = False
    created_at: datetime | None = None
    last_active: datetime | None = None


@runtime_checkable
class SessionTransfer(Protocol):
    """L1 capability: whole sessions out of the store and into it. Without it exports and imports are refused."""

    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        """All that is known of the session; None when there is none."""
        ...

    async def add_session(self, agent_id: str, copy: SessionCopy) -> bool:
        """Add the session as it was copied, in one step; False, and nothing, when there is one of its name."""
        ...


@runtime_checkable
class VectorCache(Protocol):
    """L1 capability: vectors of stored texts, kept for a while for every process. Without it texts are embedded anew.

    A name stands for a text and the embedder that embedded it. A cache may forget anything at any time.
    """

    async def vector_epoch(self, agent_id: str) -> str:
        """What `cache_vectors` must name; it ends with the agent's next `forget_vectors`."""
        ...

    async def cached_vectors(self, agent_id: str, names: Sequence[str]) -> list[bytes | None]:
        """The vector of each name, None where none is cached."""
        ...

    async def cache_vectors(self, agent_id: str, vectors: Mapping[str, bytes], *, epoch: str) -> None:
        """Keep the vectors by their names; none of them once ``epoch`` has ended."""
        ...

    async def forget_vectors(self, agent_id: str) -> None:
        """Delete every cached vector of the agent and end the epoch."""
        ...


@runtime_checkable
class BatchWrites(Protocol):
    """L2 capability: several entries in one step that an erasure can forbid.

    Without it entries are written one by one, and only erasures of the same process are respected.
    """

    async def erasure_epoch(self, agent_id: str) -> int:
        """A number that changes with every erasure of the agent's memories."""
        ...

    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        """Store all entries of one agent, or none and return False when the agent's epoch is not ``epoch``."""
        ...


@runtime_checkable
class EntryAccess(Protocol):
    """L2 capability: entries by id. Without it they are looked up by a search that admits everything."""

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """The agent's entry of this id, superseded ones included; None when the agent has none."""
        ...


class Page(NamedTuple):
    """The best entries of a search, and the ids of all that were considered, best first, these entries included."""

    entries: list[MemoryEntry]
    considered: Sequence[str]


@runtime_checkable
class PagedSearch(Protocol):
    """L2 capability: the best of many candidates without building the others, and a filter by tags.

    Without it every candidate is fetched, and tags are looked at afterwards.
    """

    async def search_page(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        *,
        background: tuple[float, float] | None = None,
        newer_first: bool = False,
        limit: int,
        consider: int,
        content_types: list[ContentType] | None = None,
        query_text: str | None = None,
        tags: list[str] | None = None,
    ) -> Page:
        """Like `L2Store.search`: the ``limit`` best of at most ``consider`` entries that carry any of ``tags``.

        With ``query_text`` and a ``background`` (see `Embedder`) those entries are admitted by meaning whose cosine
        stands out, whatever the ``threshold``; with ``newer_first`` the newer of two memories about the same matter
        comes before the older. `actrone_memory._ranking` and `actrone_memory._newer_first` say how.
        """
        ...


@runtime_checkable
class MemoryListing(Protocol):
    """L2 capability: every memory of an agent. Without it `list_memories` is refused."""

    async def list_memories(
        self,
        agent_id: str,
        *,
        content_types: Sequence[ContentType] | None = None,
        include_superseded: bool = False,
    ) -> list[MemoryEntry]:
        """All of the agent's entries of these types (all types when None), oldest first."""
        ...


@runtime_checkable
class SessionTurns(Protocol):
    """L2 capability: forget the archived turns of one session. Without it they are found by a search and deleted."""

    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        """Delete the session's ``content_type="turn"`` entries and change the agent's erasure epoch."""
        ...


@runtime_checkable
class EntryTransfer(Protocol):
    """L2 capability: all entries of an agent with their vectors. Without it exports are refused."""

    async def memory_ids(self, agent_id: str) -> list[str]:
        """The ids of all of the agent's entries, superseded ones included, in the order of their writes."""
        ...

    async def get_with_embeddings(self, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
        """The agent's entries of these ids, in order, each with the vector that is compared; others are left out."""
        ...


class EmbedderIdentity(NamedTuple):
    """Which embedder made the vectors of a store: its name and the dimensions of its vectors."""

    name: str
    dimensions: int


@runtime_checkable
class EmbedderBinding(Protocol):
    """L2 capability: remembers whose vectors it holds. Without it a change of embedder goes unnoticed."""

    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        """Remember ``identity`` if no vector is stored, and return the identity that is remembered."""
        ...


@runtime_checkable
class Reindexing(Protocol):
    """L2 capability: other vectors for all entries, made beside the present ones and put in their place in one step.

    Without it `MemoryManager.reindex` is refused.
    """

    async def begin_reindex(self, identity: EmbedderIdentity) -> list[tuple[str, str]]:
        """Agent and id of every entry that has no vector of this embedder yet; what another one began is dropped.

        Superseded entries need none. [] when the vectors in place are of this embedder.
        """
        ...

    async def add_vectors(self, identity: EmbedderIdentity, entries: Sequence[MemoryEntry]) -> None:
        """Keep these embeddings beside the present ones; an entry that has changed since needs another."""
        ...

    async def finish_reindex(self, identity: EmbedderIdentity) -> bool:
        """Put the new vectors in place and remember their embedder; False, and nothing, while an entry needs one."""
        ...


class Embedder(ABC):
    """Turns texts into vectors whose cosine says how close their meanings are.

    The manager embeds queries on its caller's event loop and archived turns on a loop of its own: an embedder that
    holds an asyncio client opens one for each running loop.
    """

    @abstractmethod
    async def embed(self, text: str) -> list[float]:
        """The vector of one text, ``dimensions`` finite floats."""

    @abstractmethod
    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text, in order; [] for no texts."""

    async def embed_query(self, text: str) -> list[float]:
        """The vector of a query; for models that encode questions otherwise than the texts that answer them."""
        return await self.embed(text)

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """Length of every vector."""

    @property
    def relevance_threshold(self) -> float | None:
        """Cosine in [-1, 1] from which results are relevant, as measured for this model; None when not measured."""
        return None

    @property
    def background(self) -> tuple[float, float] | None:
        """Mean and standard deviation (> 0) of the cosine of unrelated texts, as measured; None when not measured.

        With it, and without a ``relevance_threshold`` in the settings, hybrid retrieval admits by meaning the few
        memories whose cosine stands out of it and of the store.
        """
        return None

    @property
    def name(self) -> str:
        """Identity of the vector space. Two embedders of one name must give comparable vectors."""
        return f"{type(self).__module__}.{type(self).__qualname__}"


class ExtractedFact(Record):
    """One self-contained fact taken from a conversation. ``importance`` is in [0, 1]."""

    content: str
    sensitivity: Sensitivity = "none"
    topic_tags: list[str] = Field(default_factory=list)
    importance: float = 0.6


@runtime_checkable
class FactExtractor(Protocol):
    """Takes lasting facts out of a conversation. A failure costs facts, never turns."""

    async def extract(self, text: str) -> list[ExtractedFact]:
        """The facts of ``text``, [] when there are none."""
        ...


@runtime_checkable
class Summariser(Protocol):
    """Shortens a stretch of conversation into one text."""

    async def summarise(self, text: str) -> str:
        """A summary of ``text``, which holds whole turns, oldest first."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Scores texts against a query, as a cross-encoder does."""

    async def rerank(self, query: str, texts: list[str]) -> list[float]:
        """One score for each text, in order; higher is better."""
        ...
