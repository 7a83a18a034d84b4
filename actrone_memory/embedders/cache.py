"""An embedder that embeds nothing twice: stored texts are looked up in a shared cache, queries in this process."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
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

AWAY_SECONDS = 5.0
"""How long the shared cache is left alone after it failed, so that an outage slows nothing down."""

COMPLAINT_SECONDS = 60.0
"""An outage is logged once in this time."""


class CachedEmbedder(Embedder):
    """``embedder`` with a memory. The shared ``cache`` may fail at any time: then texts are embedded anew.

    `embed` and `embed_batch` are for queries and know no agent. Texts of an agent that are to be stored go through
    `for_agent`.
    """

    def __init__(self, embedder: Embedder, cache: VectorCache) -> None:
        self.embedder, self._cache = embedder, cache
        self._lock = threading.Lock()
        # Hashes, not texts: what an agent asked does not stay behind when the agent is erased.
        self._queries: OrderedDict[bytes, NDArray[np.float64]] = OrderedDict()
        self._away_until = self._quiet_until = 0.0

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
        """The vector of a query."""
        key = hashlib.sha256(text.encode()).digest()
        with self._lock:
            known = self._queries.get(key)
            if known is not None:
                self._queries.move_to_end(key)
        if known is not None:
            return _floats(known)
        vector = await self.embedder.embed(text)
        values = _vector(vector, self.dimensions)
        if values is not None:
            with self._lock:
                self._queries[key] = values
                if len(self._queries) > QUERIES:
                    self._queries.popitem(last=False)
        return vector

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text, not looked up."""
        return await self.embedder.embed_batch(texts)

    async def for_agent(self, agent_id: str) -> Embedder:
        """An embedder for texts of the agent that are about to be stored.

        Take it before you read what you are going to embed: what an erasure overtakes is then not cached either.
        """
        return _AgentEmbedder(self, agent_id, await self.ask(lambda: self._cache.vector_epoch(agent_id)))

    async def forget(self, agent_id: str) -> None:
        """Delete the agent's cached vectors; raises what the cache raises, for they must not stay unnoticed."""
        await self._cache.forget_vectors(agent_id)

    async def stored(self, agent_id: str, epoch: str, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, from the cache where it has it; the others go there unless ``epoch`` has ended."""
        names = {text: self._name(text) for text in texts}
        found = await self._found(agent_id, list(names.values()))
        missing = [text for text, name in names.items() if name not in found]
        fresh = dict(zip(missing, await self.embedder.embed_batch(missing), strict=True)) if missing else {}
        new = {names[text]: packed for text, vector in fresh.items() if (packed := self._packed(vector)) is not None}
        if new:
            await self.ask(lambda: self._cache.cache_vectors(agent_id, new, epoch=epoch))
        return [fresh[text] if text in fresh else found[names[text]] for text in texts]

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T | None:
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
        cached = await self.ask(lambda: self._cache.cached_vectors(agent_id, names)) or [None] * len(names)
        vectors = {name: self._unpacked(packed) for name, packed in zip(names, cached, strict=True)}
        return {name: vector for name, vector in vectors.items() if vector is not None}

    def _name(self, text: str) -> str:
        return hashlib.sha256(json.dumps([self.name, self.dimensions, text]).encode()).hexdigest()

    def _packed(self, vector: object) -> bytes | None:
        """The vector as little-endian float32; None for what is no vector, which the caller will say."""
        values = _vector(vector, self.dimensions)
        with np.errstate(over="ignore"):
            packed = None if values is None else values.astype("<f4")
        return packed.tobytes() if packed is not None and np.isfinite(packed).all() else None

    def _unpacked(self, packed: bytes | None) -> list[float] | None:
        if packed is None or len(packed) != 4 * self.dimensions:
            return None
        return _floats(np.frombuffer(packed, "<f4"))


class _AgentEmbedder(Embedder):
    """The embedder of one agent's stored texts; without an ``epoch`` it caches nothing."""

    def __init__(self, shared: CachedEmbedder, agent_id: str, epoch: str | None) -> None:
        self._shared, self._agent_id, self._epoch = shared, agent_id, epoch

    @property
    def dimensions(self) -> int:
        return self._shared.dimensions

    @property
    def name(self) -> str:
        return self._shared.name

    async def embed(self, text: str) -> list[float]:
        return (await self.embed_batch([text]))[0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        if self._epoch is None:
            return await self._shared.embedder.embed_batch(texts)
        return await self._shared.stored(self._agent_id, self._epoch, texts)


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
