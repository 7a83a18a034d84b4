"""How long `retrieve_context` takes, against the floor of a hybrid search over the same memories."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from actrone_memory import MemoryManager
from benchmarks import corpus, engine
from benchmarks.figures import Figure
from benchmarks.floor import Floor, embed

TARGET_SIZE, TARGET_RATIO = 20_000, 3.0
WARM_UP_QUERIES = 10


class Pair(NamedTuple):
    """Milliseconds of one query: the floor's and ours."""

    floor: float
    ours: float


async def measure(size: int, queries: int) -> list[Figure]:
    """Median and 99th percentile over ``queries`` different queries to an agent of ``size`` memories."""
    texts = list(corpus.sentences(corpus.MEMORIES, size))
    floor = Floor(await embed(texts), texts)
    async with engine.open_manager() as memory:
        await engine.inject(memory, texts)
        pairs = await _time_interleaved(memory, floor, queries)
    return [figure for percent in (50, 99) for figure in _figures(size, percent, pairs)]


async def _time_interleaved(memory: MemoryManager, floor: Floor, queries: int) -> list[Pair]:
    """Each query through the floor and through the engine in turn, so that noise of the machine hits both."""
    texts = list(corpus.sentences(corpus.QUERIES, WARM_UP_QUERIES + queries))
    pairs = []
    for text, vector in zip(texts, await embed(texts), strict=True):
        started = time.perf_counter()
        floor.search(vector, text)
        between = time.perf_counter()
        await engine.ask(memory, text)
        ended = time.perf_counter()
        pairs.append(Pair((between - started) * 1e3, (ended - between) * 1e3))
    return pairs[WARM_UP_QUERIES:]


def _figures(size: int, percent: int, pairs: list[Pair]) -> list[Figure]:
    floor = float(np.percentile([pair.floor for pair in pairs], percent))
    ours = float(np.percentile([pair.ours for pair in pairs], percent))
    at_most = TARGET_RATIO if size == TARGET_SIZE else None
    return [
        Figure(f"{size:,} memories, p{percent}: floor", floor, "ms"),
        Figure(f"{size:,} memories, p{percent}: retrieve_context", ours, "ms"),
        Figure(f"{size:,} memories, p{percent}: retrieve_context / floor", ours / floor, "x", at_most=at_most),
    ]
