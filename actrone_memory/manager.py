"""MemoryManager: what a caller does with memory, step by step. Ranking, budget and background work live elsewhere."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Self
from uuid import uuid4

from pydantic import JsonValue

from actrone_memory import _factory, _validation
from actrone_memory._archive import Archive
from actrone_memory._background import Work
from actrone_memory._cold_tier import ColdTier
from actrone_memory._embedding import batches, embed_entries, with_cache
from actrone_memory._hot_tier import HotTier
from actrone_memory._loop_thread import LoopThread
from actrone_memory._memories import MemoryWriter, Stated, extracted_facts, fact_entry, injected_entry
from actrone_memory._recall import MEMORY_TYPES, Recall
from actrone_memory._redaction import redacted
from actrone_memory._reindex import reindexed
from actrone_memory._transfer import Imported, Transfer
from actrone_memory._turns import in_steps, turn_text
from actrone_memory._turnstile import Turnstile
from actrone_memory._validation import Injected
from actrone_memory.config import MemoryConfig
from actrone_memory.context import RetrievedContext
from actrone_memory.errors import ConfigurationError, StoreConnectionError
from actrone_memory.models import ContentType, MemoryEntry, Sensitivity, SessionMetadata, ToolResult, Turn, utc_now
from actrone_memory.protocols import (
    Embedder,
    EmbedderIdentity,
    ExtractedFact,
    FactExtractor,
    L1Store,
    L2Store,
    Reranker,
    Summariser,
)
from actrone_memory.tokens import token_counter

logger = logging.getLogger("actrone_memory")

ARCHIVE_WAIT_SECONDS = 0.25
"""How long a retrieval waits for the agent's other sessions to be archived, so that what was just said is found."""

TURNS_PER_STEP = 500
"""Turns appended at once, and the most that may wait for the archive before: both together fit a store's backlog."""


class MemoryManager:
    """Two tiers of memory for agents: recent turns of a session, and long-term memories of an agent.

    Make one with `create` or `create_memory_manager`. It may be shared by tasks, threads and event loops. ``agent_id``
    is the wall: nothing stored under one is ever returned, changed or deleted under another.

    Every method raises `ValidationError` for an argument that is not acceptable, `ConfigurationError` with code
    ``"closed"`` after `close`, and `StoreConnectionError` when a store fails.
    """

    def __init__(
        self,
        l1: L1Store,
        l2: L2Store,
        embedder: Embedder,
        config: MemoryConfig,
        summariser: Summariser | None = None,
        extractor: FactExtractor | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        _factory.check_config(config)
        _factory.check_parts(l1, l2, embedder, summariser, extractor, reranker)
        self._config = config
        embedder = self._embedder = with_cache(embedder, l1)
        self._extractor = extractor
        self._count = token_counter(config.token_counter, config.tiktoken_encoding)
        self._hot = HotTier(l1)
        self._cold = ColdTier(l2, EmbedderIdentity(embedder.name, embedder.dimensions))
        self._archive = Archive(self._hot, self._cold, embedder, config, self._count, summariser)
        self._background = self._archive.background
        self._recall = Recall(self._hot, self._cold, embedder, config, self._count, reranker, self._background.report)
        self._writer = MemoryWriter(self._cold, embedder, newer_wins=config.newer_wins)
        self._transfer = Transfer(self._hot, self._cold, embedder)
        self._turnstile = Turnstile()
        # A manager that is dropped without `close` must not leave its thread behind.
        weakref.finalize(self, self._background.stop).atexit = False
        self._answer_plain_calls_on(LoopThread())
        self._lock = threading.Lock()
        self._caught_up: set[str] = set()
        self._closed = False
        self._finished = False
        self._built: Sequence[object] = ()  # by `create`: what nobody else has ends with the manager

    @classmethod
    async def create(
        cls,
        config: MemoryConfig | None = None,
        *,
        l1: L1Store | None = None,
        l2: L2Store | None = None,
        embedder: Embedder | None = None,
        extractor: FactExtractor | None = None,
        reranker: Reranker | None = None,
        summariser: Summariser | None = None,
    ) -> Self:
        """A manager that is ready to use; settings come from the environment when ``config`` is None.

        With the defaults it runs in this process and opens no connection. A part that is passed in is used as it is,
        and what the settings name instead is neither built nor loaded. `close` closes injected stores too.

        With ``degrade`` it starts without long-term memory when that cannot be reached.

        Raises:
            ConfigurationError: the settings contradict each other, name something that is not installed, or the
                store was filled by another embedder.
        """
        config = _factory.checked_config(config)
        l1, l2 = _factory.build_stores(config, l1, l2)
        parts = await _factory.build_parts(config, l2, embedder, summariser, extractor, reranker)
        manager = cls(l1, l2, parts.embedder, config, parts.summariser, parts.extractor, parts.reranker)
        manager._built = parts.built
        if parts.failure is not None:
            manager._background.report(parts.failure, "Loading the reranker")
        try:
            await manager._cold.check_embedder()
        except StoreConnectionError as error:
            if not config.degrade:
                raise
            logger.warning("Starting without long-term memory: %s", error.message)
        return manager

    @property
    def config(self) -> MemoryConfig:
        """The settings it was made with; changing them changes nothing that is built."""
        return self._config

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def relevance_threshold(self) -> float:
        """Cosine in [-1, 1] that admits a memory, by the setting, else the embedder's own, else 0.3.

        Without the setting, hybrid retrieval goes by the embedder's ``background`` instead, where it has one.
        """
        return self._recall.threshold

    @property
    def background_failures(self) -> int:
        """How many times archiving, summarising, extracting or reranking failed since the manager was made."""
        return self._background.failure_count

    @classmethod
    async def reindex(
        cls,
        config: MemoryConfig | None = None,
        *,
        l2: L2Store | None = None,
        embedder: Embedder | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Embed all memories of the store anew, after a change of embedder; returns how many it embedded.

        The settings name the store and the embedder as for `create`, and ``embedding_provider="local"`` takes the one
        that a new store would get. Until all is embedded the store goes on with its old vectors; what was embedded
        before an interruption is kept for the next call. ``progress`` is told how many are done, of how many.

        Raises:
            ConfigurationError: the L2 store cannot reindex.
            EmbeddingError: the embedder failed; the next call goes on from there.
        """
        config = _factory.checked_config(config)
        l1, store = _factory.build_stores(config, None, l2)
        built = [] if embedder is not None else [await _factory.build_embedder(config, None)]
        embedder = built[0] if embedder is None else await _factory.described(embedder)
        _factory.check_parts(l1, store, embedder, None, None, None)
        try:
            return await reindexed(
                ColdTier(store, EmbedderIdentity(embedder.name, embedder.dimensions)), embedder, progress
            )
        finally:
            await _factory.close_built(built)
            await l1.close()  # the one built here; both tiers, when none was given

    # --- conversation ---------------------------------------------------------------------------------------------

    async def store_turn(
        self,
        agent_id: str,
        session_id: str,
        user_message: str,
        assistant_message: str,
        tool_results: list[ToolResult] | None = None,
        metadata: dict[str, JsonValue] | None = None,
        turn_id: str | None = None,
        timestamp: datetime | None = None,
        continues: bool = False,
    ) -> str:
        """Append a turn to the session and return its id.

        At least one of the messages, ``tool_results`` and ``metadata`` must hold something. With ``continues`` it is a
        record of the turn before it: an answer that came later, a tool's result. A ``turn_id`` that this session has
        seen is not appended again. ``timestamp`` (aware) is when it was said; it orders nothing.
        """
        self._check_open()
        record = _validation.record(
            _validation.identifier(session_id, "session_id"),
            user_message,
            assistant_message,
            tool_results,
            metadata,
            str(uuid4()) if turn_id is None else _validation.identifier(turn_id, "turn_id"),
            utc_now() if timestamp is None else timestamp,
            continues,
        )
        return (await self._append(agent_id, session_id, [record]))[0]

    async def store_turns(self, agent_id: str, session_id: str, turns: list[Turn]) -> list[str]:
        """Append several records in one step, all or none, and return their ids; [] for none.

        A record with ``continues=True`` belongs to the turn before it. Joined turns stand for their records. Every
        turn must carry ``session_id``. A record id that this session has seen is not appended again. More than 500
        turns take a step for each 500, and wait for the archive before the next.
        """
        self._check_open()
        _validation.identifier(session_id, "session_id")
        return await self._append(agent_id, session_id, _validation.records(turns, session_id))

    async def _append(self, agent_id: str, session_id: str, records: Sequence[Turn]) -> list[str]:
        _validation.identifier(agent_id, "agent_id")
        for record in records:
            record.token_count = self._count(turn_text(record))
        for step in in_steps(records, TURNS_PER_STEP):
            await self._background.keep_pace(Work(agent_id, session_id), TURNS_PER_STEP)
            try:
                await self._hot.append(agent_id, session_id, step, hold=self._archive.wanted)
            finally:
                # Also after a cancellation or a lost reply: the store may hold the records all the same.
                self._archive_later(agent_id, session_id, turns=len(step))
        return [record.id for record in records]

    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        """The last ``n`` whole turns of the session, oldest first; all that are kept when None; [] for none."""
        self._check_session(agent_id, session_id)
        if n is not None:
            _validation.positive_integer(n, "n")
        return await self._hot.recent_turns(agent_id, session_id, n)

    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        """Size and age of the session; None when there is none or it has expired."""
        self._check_session(agent_id, session_id)
        return await self._hot.metadata(agent_id, session_id)

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        """Every session of the agent, the most recently active first.

        Raises:
            ConfigurationError: the L1 store cannot list sessions.
        """
        self._check_agent(agent_id)
        return await self._hot.list_sessions(agent_id)

    async def list_agents(self) -> list[str]:
        """Every agent that has a session or a memory, in the order of their names.

        Raises:
            ConfigurationError: a store cannot list agents.
        """
        self._check_open()
        return sorted({*await self._hot.list_agents(), *await self._cold.list_agents()})

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        """Delete the session's turns, archived ones included. Summaries and facts made from it stay."""
        self._check_session(agent_id, session_id)
        await self._hot.clear_session(agent_id, session_id)
        await self._cold.delete_session_turns(agent_id, session_id)

    # --- long-term memory -----------------------------------------------------------------------------------------

    async def inject_memory(
        self,
        agent_id: str,
        content: str,
        importance: float = 0.8,
        session_id: str = "injected",
        topic_tags: list[str] | None = None,
        source: str = "injected",
        sensitivity: Sensitivity = "none",
        supersedes: str | None = None,
    ) -> str:
        """Store one fact and return its id; it is found from the next call on.

        The same text again (whatever its case, width or spacing) refreshes the memory and returns the same id: newest
        time, importance, source and sensitivity, all tags. ``supersedes`` names the memory that this one replaces, or
        one that was replaced before: then what holds in its place now is replaced. The old one no longer comes back,
        except from ``list_memories(include_superseded=True)``.

        With ``newer_wins`` a text that says what has given way ("we moved from Jest to Vitest"), or an older text with
        another number, replaces what it speaks of without being told; the replaced memory's metadata says why under
        ``"superseded_because"``. Stated again, an old text holds again.

        Args:
            importance: in [0, 1]; of equally relevant memories the more important comes first.
            session_id: a label for where the memory comes from.
            source: provenance, for example "user" or "import:crm".

        Raises:
            MemoryNotFoundError: ``supersedes`` is no memory of this agent; nothing was written.
            EmbeddingError: the embedder failed; nothing was written.
        """
        self._check_agent(agent_id)
        given = {
            "content": content,
            "importance": importance,
            "session_id": session_id,
            "topic_tags": topic_tags,
            "source": source,
            "sensitivity": sensitivity,
            "supersedes": supersedes,
        }
        return (await self._inject(agent_id, [_validation.injected(given)]))[0]

    async def inject_memories(
        self, agent_id: str, memories: Sequence[str | Mapping[str, Any] | ExtractedFact | MemoryEntry]
    ) -> list[str]:
        """Store many facts as `inject_memory` would one after the other, in few steps; their ids, in order.

        A memory is a text, or a dict with the arguments of `inject_memory` by their names, or an `ExtractedFact`. A
        `MemoryEntry` is injected as a memory of its own, of this agent and of now. The whole list is checked and
        embedded before anything is written. Then it is written in steps: what a store that fails has taken already
        stays, and the same call again completes it.

        Raises:
            ValidationError: it names the place in the list, for example ``memories[3].importance``.
            MemoryNotFoundError: a ``supersedes`` is no memory of this agent; nothing was written.
            EmbeddingError: the embedder failed; nothing was written.
        """
        self._check_agent(agent_id)
        return await self._inject(agent_id, _validation.injections(memories))

    async def _inject(self, agent_id: str, memories: Sequence[Injected]) -> list[str]:
        stated = [
            Stated(injected_entry(agent_id, one, self._count(one.content)), one.supersedes, one.prefix)
            for one in memories
        ]
        await self._writer.require(agent_id, stated)
        embedder = await self._embedder.for_agent(agent_id)
        for some in batches(stated):
            await self._turnstile.pass_through()
            await embed_entries(embedder, [one.entry for one in some])
        await self._writer.write(agent_id, stated)
        return [one.entry.id for one in stated]

    async def search_memories(
        self,
        agent_id: str,
        query: str,
        limit: int = 10,
        *,
        content_types: list[ContentType] | None = None,
        tags: list[str] | None = None,
        redact_sensitivity: list[Sensitivity] | None = None,
    ) -> list[MemoryEntry]:
        """The agent's memories that match ``query``, best first, each with its ``score``.

        Archived turns are left out unless ``content_types`` asks for them. With ``tags``, a memory must carry at
        least one of them, letter by letter; an empty list lets nothing through.

        Memories of a sensitivity in ``redact_sensitivity`` (default: the setting of that name; [] masks nothing) come
        back as ``[redacted: pii]``, without tags, metadata and parts of the score.
        """
        self._check_agent(agent_id)
        query = _validation.filled_text(query, "query")
        limit = _validation.positive_integer(limit, "limit")
        types = _validation.content_types(content_types)
        wanted_tags = None if tags is None else _validation.tags(tags, "tags")
        masked = self._masked(redact_sensitivity)
        await self._turnstile.pass_through()
        return await self._recall.search(agent_id, query, limit, types, wanted_tags, masked)

    async def list_memories(
        self,
        agent_id: str,
        *,
        content_types: list[ContentType] | None = None,
        include_superseded: bool = False,
        redact_sensitivity: list[Sensitivity] | None = None,
    ) -> list[MemoryEntry]:
        """All memories of the agent, oldest first; archived turns only when ``content_types`` asks for them.

        ``redact_sensitivity`` masks as in `search_memories`; a memory that a masked one replaced does not say why.

        Raises:
            ConfigurationError: the L2 store cannot list memories.
        """
        self._check_agent(agent_id)
        types = _validation.content_types(content_types)
        _validation.flag(include_superseded, "include_superseded")
        masked = self._masked(redact_sensitivity)
        entries = await self._cold.list_memories(
            agent_id, MEMORY_TYPES if types is None else types, include_superseded=include_superseded
        )
        return redacted(entries, masked, self._count)

    async def delete_memory(self, agent_id: str, memory_id: str) -> None:
        """Delete one memory for ever. What it had replaced without being told to holds again.

        Raises:
            MemoryNotFoundError: no memory of this id belongs to ``agent_id``.
        """
        self._check_agent(agent_id)
        _validation.identifier(memory_id, "memory_id")
        await self._writer.delete(agent_id, memory_id)

    async def erase_agent_memories(
        self, agent_id: str, session_id: str | None = None, *, all_sessions: bool = False
    ) -> None:
        """Delete all long-term memory of the agent for ever: memories, summaries, archived turns, old versions.

        Turns in the hot tier stay, and are never archived or summarised again, except those of ``session_id``, which
        are deleted, or of every session with ``all_sessions``. Work that was under way brings nothing back.
        """
        self._check_agent(agent_id)
        if session_id is not None:
            _validation.identifier(session_id, "session_id")
        cleared = [session_id] if session_id is not None else []
        if _validation.flag(all_sessions, "all_sessions"):
            cleared += [session.session_id for session in await self._hot.list_sessions(agent_id)]
        for session in dict.fromkeys(cleared):
            await self._hot.clear_session(agent_id, session)
        await self._hot.mark_erased(agent_id)
        await self._cold.delete_agent(agent_id)
        # Last: what was embedded before and is cached after must have been refused by the erasure of the store.
        await self._embedder.forget(agent_id)

    async def extract_memories(self, agent_id: str, session_id: str, n: int | None = None) -> list[str]:
        """Extract facts from the last ``n`` turns (default: ``summarise_after_turns``), store them, return their ids.

        A fact already known refreshes that memory, unless something replaced it since the last of these turns; it
        lowers neither importance nor sensitivity. An extractor that fails costs the facts: it is logged, counted in
        `background_failures`, and the result is [].

        Raises:
            ConfigurationError: the manager has no extractor.
        """
        self._check_session(agent_id, session_id)
        most = self._config.summarise_after_turns if n is None else _validation.positive_integer(n, "n")
        if self._extractor is None:
            raise ConfigurationError(
                "extract_memories() needs a fact extractor: pass one to MemoryManager.create(extractor=...), "
                "or set extract_facts=True with an OpenAI key."
            )
        embedder = await self._embedder.for_agent(agent_id)
        epoch = await self._cold.erasure_epoch(agent_id)
        turns = await self._hot.recent_turns(agent_id, session_id, most)
        try:
            facts = await extracted_facts(self._extractor, "\n\n".join(map(turn_text, turns))) if turns else []
        except Exception as error:  # whatever a model's adapter raises or returns costs facts, never turns
            self._background.report(error, "Extracting facts")
            return []
        entries = [
            fact_entry(agent_id, session_id, fact, self._count(fact.content), turns[-1].timestamp) for fact in facts
        ]
        return await self._writer.write_facts(entries, epoch, embedder)

    def export_agent(self, agent_id: str) -> AsyncIterator[str]:
        """All of the agent's memory as lines of JSON: turns with their marks, memories with their vectors and history.

        `import_agent` takes them in. Turns that wait for the archive are exported as such.

        Raises:
            ConfigurationError: a store cannot list or copy what it holds.
        """
        self._check_agent(agent_id)
        return self._transfer.exported(agent_id)

    async def import_agent(self, lines: Iterable[str] | AsyncIterable[str], agent_id: str | None = None) -> Imported:
        """Take in what `export_agent` gave, under the same id or as ``agent_id``; returns how much it was.

        What the agent has already stays; the same memory again is replaced, and the same import again changes nothing.
        Vectors of another embedder are made anew.

        Raises:
            ValidationError: lines are malformed or missing, each named by its number, or the agent has another session
                of the same name; nothing was imported.
        """
        self._check_open()
        if agent_id is not None:
            _validation.identifier(agent_id, "agent_id")
        owner, imported = await self._transfer.imported(lines, agent_id)
        if self._archive.wanted and self._hot.lists_sessions:
            self._background.enqueue(Work(owner, None))
        return imported

    # --- retrieval ------------------------------------------------------------------------------------------------

    async def retrieve_context(
        self,
        agent_id: str,
        session_id: str,
        query: str,
        token_budget: int,
        *,
        content_types: list[ContentType] | None = None,
        tags: list[str] | None = None,
        redact_sensitivity: list[Sensitivity] | None = None,
    ) -> RetrievedContext:
        """What matters for the next model call, never more than the budget allows as rendered text.

        The episodic share of the budget goes to memories that match ``query``; the session share to this session's
        newest turns and, with what they leave, to archived turns that match. The newest turn and the best memory come
        back cut rather than not at all (from about 200 tokens up). ``content_types`` and ``tags`` restrict what is
        recalled, not the recent turns; archived turns carry no tags. With ``degrade`` the recent turns come back alone
        while long-term memory cannot be reached, and ``degraded`` says why. ``redact_sensitivity`` masks memories as in
        `search_memories`, before they are counted: rendered and charged is what comes back.

        Raises:
            TokenBudgetError: ``token_budget`` is zero or negative.
            EmbeddingError: the embedder failed.
        """
        started = time.perf_counter()
        self._check_session(agent_id, session_id)
        query = _validation.filled_text(query, "query")
        token_budget = _validation.token_budget(token_budget)
        types = _validation.content_types(content_types)
        wanted_tags = None if tags is None else _validation.tags(tags, "tags")
        masked = self._masked(redact_sensitivity)
        self._catch_up(agent_id)
        await self._background.settle(agent_id, except_session=session_id, timeout_seconds=ARCHIVE_WAIT_SECONDS)
        await self._turnstile.pass_through()
        context = await self._recall.context(agent_id, session_id, query, token_budget, types, wanted_tags, masked)
        context.retrieval_duration_ms = (time.perf_counter() - started) * 1000
        return context

    def _masked(self, redact_sensitivity: object) -> Collection[str]:
        """What a read may not show: what it names itself, else what the settings name."""
        return self._config.redact_sensitivity if redact_sensitivity is None else _validation.masked(redact_sensitivity)

    # --- life -----------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Wait until everything said so far is archived and summarised, trying again what failed before.

        Raises:
            ActroneMemoryError: with ``strict_background_errors``, the first failure since the last drain.
        """
        self._check_open()
        await self._background.drain()
        self._raise_failures()

    async def close(self) -> None:
        """Finish background work for at most ``shutdown_grace_seconds``, then close both stores.

        The thread of every `SyncMemoryManager` that wraps this one ends too. Closing twice is no error; a close that
        was cancelled is finished by the next one.

        Raises:
            ActroneMemoryError: with ``strict_background_errors``, the first failure since the last drain.
        """
        self._closed = True
        if self._finished:
            self._loop_thread.dismiss()
            return
        await self._background.close(self._config.shutdown_grace_seconds)
        await _factory.close_built(self._built)
        try:
            await self._hot.close()
        finally:
            if id(self._cold.store) != id(self._hot.store):  # one object may be both tiers
                await self._cold.close()
        self._finished = True
        self._loop_thread.dismiss()
        self._raise_failures()

    def _answer_plain_calls_on(self, thread: LoopThread) -> None:
        self._loop_thread = thread
        weakref.finalize(self, thread.stop)

    def _raise_failures(self) -> None:
        failures = self._background.take_failures()
        if failures and self._config.strict_background_errors:
            raise failures[0]

    def _archive_later(self, agent_id: str, session_id: str, turns: int) -> None:
        if self._archive.wanted:
            self._catch_up(agent_id)
            self._background.enqueue(Work(agent_id, session_id), turns)

    def _catch_up(self, agent_id: str) -> None:
        """On the first call for an agent, look for turns that an earlier process or manager left unarchived."""
        with self._lock:
            if agent_id in self._caught_up or not (self._archive.wanted and self._hot.lists_sessions):
                return
            self._caught_up.add(agent_id)
        self._background.enqueue(Work(agent_id, None))

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigurationError(
                "This MemoryManager is closed; create a new one with MemoryManager.create().", code="closed"
            )

    def _check_agent(self, agent_id: object) -> None:
        self._check_open()
        _validation.identifier(agent_id, "agent_id")

    def _check_session(self, agent_id: object, session_id: object) -> None:
        self._check_agent(agent_id)
        _validation.identifier(session_id, "session_id")


@asynccontextmanager
async def create_memory_manager(config: MemoryConfig | None = None) -> AsyncIterator[MemoryManager]:
    """A `MemoryManager` for the length of an ``async with`` block; closed at its end."""
    manager = await MemoryManager.create(config)
    try:
        yield manager
    finally:
        await manager.close()
