"""How fast memories are stored when there are many, against when there are few."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

from actrone_memory import MemoryManager
from benchmarks import corpus, engine
from benchmarks.figures import Figure

TARGET_SIZE, TARGET_RATIO = 100_000, 0.5
WINDOW = 2_000
"""Injects that are timed; those into an empty store see 1,000 memories on average."""

BLOCK = 100
"""Injects in a row before the other store has its turn."""


async def measure(size: int) -> list[Figure]:
    """Rates of the last injects up to ``size`` memories, and of as many into an empty store, in alternating blocks."""
    async with engine.open_manager() as many, engine.open_manager() as few:
        texts = corpus.sentences(corpus.MEMORIES, size)
        await engine.inject(many, islice(texts, size - WINDOW))
        others = corpus.sentences(corpus.QUERIES, WINDOW)
        seconds_few = seconds_many = 0.0
        for _ in range(WINDOW // BLOCK):
            seconds_few += await _time_block(few, others)
            seconds_many += await _time_block(many, texts)
    at_least = TARGET_RATIO if size == TARGET_SIZE else None
    return [
        Figure("rate at 1,000 memories", WINDOW / seconds_few, "1/s"),
        Figure(f"rate at {size:,} memories", WINDOW / seconds_many, "1/s"),
        Figure(f"rate at {size:,} / rate at 1,000", seconds_few / seconds_many, "x", at_least=at_least),
    ]


async def _time_block(memory: MemoryManager, texts: Iterator[str]) -> float:
    block = list(islice(texts, BLOCK))
    started = time.perf_counter()
    await engine.inject(memory, block)
    return time.perf_counter() - started
