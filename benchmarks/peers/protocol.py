"""What the comparison asks of a library, and what it hands to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

BEST = 10
"""How many results every query asks for."""


class Batch(NamedTuple):
    """Some memories of one agent: UUIDs, texts, and one row of ``vectors`` for each."""

    agent: str
    ids: Sequence[str]
    texts: Sequence[str]
    vectors: Vectors


class Searcher(Protocol):
    """One way to look memories up."""

    @property
    def name(self) -> str:
        """What tables and charts call it."""
        ...

    async def search(self, agent: str, text: str, vector: Vectors) -> int:
        """Look up the agent's best memories; how many were found."""
        ...


class Peer(Searcher, Protocol):
    """A library that holds memories and finds the best of them."""

    async def fill(self, batch: Batch) -> None:
        """Take some more memories."""
        ...

    async def ready(self) -> None:
        """Do what is to be done once, after the last batch and before the first query."""
        ...


class Lookup:
    """Vectors by text, for the libraries that want a model: those of the queries, and those of one batch."""

    def __init__(self) -> None:
        self._queries: dict[str, list[float]] = {}
        self._batch: dict[str, list[float]] = {}

    def know_queries(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Remember these for as long as the lookup lives."""
        self._queries = dict(zip(texts, vectors.tolist(), strict=True))

    def know_batch(self, batch: Batch) -> None:
        """Remember the batch until the next one comes."""
        self._batch = dict(zip(batch.texts, batch.vectors.tolist(), strict=True))

    def vector(self, text: str) -> list[float]:
        """The vector of a text that is known; KeyError for any other."""
        return self._queries[text] if text in self._queries else self._batch[text]
