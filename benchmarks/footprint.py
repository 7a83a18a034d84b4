"""How much memory an entry takes, all included, measured in fresh processes."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks import corpus, engine
from benchmarks.figures import Figure

TARGET_KB = 3.5
STATM = Path("/proc/self/statm")


async def measure(size: int) -> list[Figure]:
    """Growth per entry of ``size`` short sentences with vectors of 256 dimensions."""
    return [
        Figure(f"{name} per entry, {size:,} entries", await _in_fresh_process(grow, size) / size / 1e3, "KB", TARGET_KB)
        for name, grow in _readings().items()
    ]


def _readings() -> dict[str, Callable[[int], int]]:
    readings: dict[str, Callable[[int], int]] = {"tracemalloc": traced_growth}
    if STATM.exists():
        readings["resident set size"] = resident_growth
    else:
        print("  resident set size: skipped, this system has no /proc/self/statm")
    return readings


async def _in_fresh_process(grow: Callable[[int], int], size: int) -> int:
    """Bytes; in a new interpreter, where no earlier measurement has left memory behind."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, grow, size)


def traced_growth(size: int) -> int:
    """Bytes that Python's allocators hand out for ``size`` entries."""
    tracemalloc.start()
    return asyncio.run(_growth(size, lambda: tracemalloc.get_traced_memory()[0]))


def resident_growth(size: int) -> int:
    """Bytes by which the process grows for ``size`` entries, fragmentation and buffers included."""
    return asyncio.run(_growth(size, lambda: int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")))


async def _growth(size: int, read: Callable[[], int]) -> int:
    async with engine.open_manager() as memory:
        # The first inject and the first query load what is loaded once, whatever the number of entries.
        await engine.inject(memory, ["Warm up."])
        await engine.ask(memory, "warm up")
        gc.collect()
        before = read()
        await engine.inject(memory, corpus.sentences(corpus.MEMORIES, size))
        gc.collect()
        return read() - before
