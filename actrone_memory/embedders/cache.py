"""An embedder that embeds nothing twice: queries are looked up in this process, stored texts in a shared cache."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from actrone_memory._similarity import as_vector
from actrone_memory.errors import ValidationError
from actrone_memory.protocols import Embedder, VectorCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

logger = logging.getLogger("actrone_memory")

QUERIES = 1_000
"""Vectors of queries kept in this process: some megabytes, and more than are asked twice in an hour."""

PATIENCE_SECONDS = 10.0
"""How long a query waits for another's encoding of it: that one's event loop may stand still."""

AWAY_SECONDS = 5.0
"""How long the shared cache is left alone after it failed, so that an outage slows nothing down."""

COMPLAINT_SECONDS = 60.0
"""An outage is logged once in this time."""


class CachedEmbedder(Embedder):
    """``embedder`` with a memory: of queries in this process, of stored texts in ``cache`` where there is one.

    The cache may fail at any time: then texts are embedded anew. Texts of an agent that are to be stored go through
    `for_agent`; `embed` and `embed_batch` know no agent and look nothing up.
    """

    def __init__(self, embedder: Embedder, cache: VectorCache | None) -> None:
        self.embedder = embedder
        self._queries = _QueryVectors(embedder)
        self._stored = None if cache is None else _StoredVectors(embedder, cache)

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return self.embedder.dimensions

    @property
    def relevance_threshold(self) -> float | None:
        """As of the embedder."""
        return self.embedder.relevance_threshold

    @property
    def background(self) -> tuple[float, float] | None:
        """As of the embedder."""
        return self.embedder.background

    @property
    def name(self) -> str:
        """As of the embedder."""
        return self.embedder.name

    async def embed(self, text: str) -> list[float]:
        """The vector of one text, not looked up."""
        return await self.embedder.embed(text)

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text, not looked up."""
        return await self.embedder.embed_batch(texts)

    async def embed_query(self, text: str) -> list[float]:
        """The vector of a query, which is encoded once, however often and by however many it is asked."""
        return await self._queries.vector(text)

    async def for_agent(self, agent_id: str) -> Embedder:
        """An embedder for texts of the agent that are about to be stored.

        Take it before you read what you are going to embed: what an erasure overtakes is then not cached either.
        """
        return self.embedder if self._stored is None else await self._stored.for_agent(agent_id)

    async def forget(self, agent_id: str) -> None:
        """Delete the agent's cached vectors; raises what the cache raises, for they must not stay unnoticed."""
        if self._stored is not None:
            await self._stored.cache.forget_vectors(agent_id)


class _QueryVectors:
    """The vectors of the latest queries, for all threads and event loops. Failures and rubbish are not kept."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        # Hashes, not texts: what an agent asked does not stay behind when the agent is erased.
        self._known: OrderedDict[bytes, NDArray[np.float64]] = OrderedDict()
        self._under_way: dict[bytes, Future[list[float] | None]] = {}

    async def vector(self, text: str) -> list[float]:
        """The vector of ``text``; who asks while another's encoding is under way gets what comes of that."""
        key = hashlib.sha256(text.encode()).digest()
        while True:
            with self._lock:
                if (known := self._known.get(key)) is not None:
                    self._known.move_to_end(key)
                    return _floats(known)
                if (others := self._under_way.get(key)) is None:
                    mine = self._under_way[key] = Future()
                    mine.set_running_or_notify_cancel()  # whoever waits for it and gives up does not cancel it
                    break
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    vector = await asyncio.wrap_future(others)
            except TimeoutError:
                return await self._embedder.embed_query(text)
            if vector is not None:
                return vector
        return await self._encoded(key, text, mine)

    async def _encoded(self, key: bytes, text: str, outcome: Future[list[float] | None]) -> list[float]:
        try:
            vector = await self._embedder.embed_query(text)
            values = _vector(vector, self._embedder.dimensions)
        except Exception as error:
            self._end(key, None)
            outcome.set_exception(error)
            raise
        except BaseException:
            self._end(key, None)
            outcome.set_result(None)  # given up, which is no answer: one of those who wait begins anew
            raise
        self._end(key, values)
        outcome.set_result(vector)
        return vector

    def _end(self, key: bytes, values: NDArray[np.float64] | None) -> None:
        with self._lock:
            del self._under_way[key]
            if values is not None:
                self._known[key] = values
                if len(self._known) > QUERIES:
                    self._known.popitem(last=False)


class _StoredVectors:
    """The vectors of stored texts in a cache that all processes share."""

    def __init__(self, embedder: Embedder, cache: VectorCache) -> None:
        self.embedder, self.cache = embedder, cache
        self._away_until = self._quiet_until = 0.0

    async def for_agent(self, agent_id: str) -> Embedder:
        epoch = await self._ask(lambda: self.cache.vector_epoch(agent_id))
        return self.embedder if epoch is None else _AgentEmbedder(self, agent_id, epoch)

    async def vectors(self, agent_id: str, epoch: str, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, from the cache where it has it; the others go there unless ``epoch`` has ended."""
        names = {text: self._name(text) for text in texts}
        found = await self._found(agent_id, list(names.values()))
        missing = [text for text, name in names.items() if name not in found]
        fresh = dict(zip(missing, await self.embedder.embed_batch(missing), strict=True)) if missing else {}
        new = {names[text]: packed for text, vector in fresh.items() if (packed := self._packed(vector)) is not None}
        if new:
            await self._ask(lambda: self.cache.cache_vectors(agent_id, new, epoch=epoch))
        return [fresh[text] if text in fresh else found[names[text]] for text in texts]

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """What the cache answers; None while it is away."""
        if time.monotonic() < self._away_until:
            return None
        try:
            return await call()
        except Exception as error:  # whatever it is, a cache that fails costs time, never a call
            now = time.monotonic()
            self._away_until = now + AWAY_SECONDS
            if now >= self._quiet_until:
                self._quiet_until = now + COMPLAINT_SECONDS
                logger.warning("The cache of vectors is left out for a while: %s", error)
            return None

    async def _found(self, agent_id: str, names: list[str]) -> dict[str, list[float]]:
        cached = await self._ask(lambda: self.cache.cached_vectors(agent_id, names)) or [None] * len(names)
        vectors = {name: self._unpacked(packed) for name, packed in zip(names, cached, strict=True)}
        return {name: vector for name, vector in vectors.items() if vector is not None}

    def _name(self, text: str) -> str:
        identity = [self.embedder.name, self.embedder.dimensions, text]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def _packed(self, vector: object) -> bytes | None:
        """The vector as little-endian float32; None for what is no vector, which the caller will say."""
        values = _vector(vector, self.embedder.dimensions)
        with np.errstate(over="ignore"):
            packed = None if values is None else values.astype("<f4")
        return packed.tobytes() if packed is not None and np.isfinite(packed).all() else None

    def _unpacked(self, packed: bytes | None) -> list[float] | None:
        if packed is None or len(packed) != 4 * self.embedder.dimensions:
            return None
        return _floats(np.frombuffer(packed, "<f4"))


class _AgentEmbedder(Embedder):
    """The embedder of one agent's stored texts."""

    def __init__(self, stored: _StoredVectors, agent_id: str, epoch: str) -> None:
        self._stored, self._agent_id, self._epoch = stored, agent_id, epoch

    @property
    def dimensions(self) -> int:
        return self._stored.embedder.dimensions

    @property
    def name(self) -> str:
        return self._stored.embedder.name

    async def embed(self, text: str) -> list[float]:
        return (await self.embed_batch([text]))[0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return await self._stored.vectors(self._agent_id, self._epoch, texts)


def _vector(value: object, dimensions: int) -> NDArray[np.float64] | None:
    """The value as a vector of finite numbers, None when it is something else."""
    try:
        values = as_vector(value, "vector")
    except ValidationError:
        return None
    return values if values.size == dimensions else None


def _floats(values: NDArray[np.floating]) -> list[float]:
    floats: list[float] = values.tolist()
    return floats
