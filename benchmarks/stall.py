"""How long the event loop stands still while many retrievals run at once."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from actrone_memory import MemoryManager
from benchmarks import corpus, engine
from benchmarks.figures import Figure

MEMORIES = TASKS = 200
ROUNDS = 3


class Seconds(NamedTuple):
    """Times of queries one after another, and gaps of the heartbeat beside the same queries at once."""

    alone: list[float]
    gaps: list[float]


async def measure() -> list[Figure]:
    """The longest gap of a heartbeat beside 200 concurrent queries, against one query's own time.

    The garbage collector halts the whole process, whoever left the garbage; it is off for the ratios.
    """
    queries = list(corpus.sentences(corpus.QUERIES, TASKS))
    async with engine.open_manager() as memory:
        await engine.inject(memory, corpus.sentences(corpus.MEMORIES, MEMORIES))
        await _one_by_one(memory, queries)
        collected = await _time_rounds(memory, queries)
        gc.disable()
        try:
            uncollected = await _time_rounds(memory, queries)
        finally:
            gc.enable()
    return [
        *_figures(uncollected),
        Figure("slowest query alone, collector on", max(collected.alone) * 1e3, "ms"),
        Figure("longest gap, collector on", max(collected.gaps) * 1e3, "ms"),
    ]


def _figures(seconds: Seconds) -> list[Figure]:
    longest, slowest, median = max(seconds.gaps), max(seconds.alone), statistics.median(seconds.alone)
    return [
        Figure("one query alone, median", median * 1e3, "ms"),
        Figure("one query alone, slowest", slowest * 1e3, "ms"),
        Figure(f"longest gap beside {TASKS} queries", longest * 1e3, "ms"),
        Figure("longest gap / median query", longest / median, "x"),
        Figure("longest gap / slowest query", longest / slowest, "x"),
    ]


async def _time_rounds(memory: MemoryManager, queries: list[str]) -> Seconds:
    seconds = Seconds([], [])
    for _ in range(ROUNDS):
        seconds.alone.extend(await _one_by_one(memory, queries))
        seconds.gaps.extend(await _gaps_beside(memory, queries))
    return seconds


async def _one_by_one(memory: MemoryManager, queries: Iterable[str]) -> list[float]:
    seconds = []
    for query in queries:
        started = time.perf_counter()
        await engine.ask(memory, query)
        seconds.append(time.perf_counter() - started)
    return seconds


async def _gaps_beside(memory: MemoryManager, queries: Iterable[str]) -> list[float]:
    beats: list[float] = []
    heart = asyncio.create_task(_beat(beats))
    await asyncio.gather(*(engine.ask(memory, query) for query in queries))
    heart.cancel()
    return [later - earlier for earlier, later in pairwise(beats)]


async def _beat(beats: list[float]) -> None:
    while True:
        beats.append(time.perf_counter())
        await asyncio.sleep(0)
