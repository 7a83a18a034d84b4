"""What tests look at from outside: whether a loop goes on, who is at work at the same time, which threads stay."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

TICK_SECONDS = 0.01
REST_SECONDS = 0.05


@asynccontextmanager
async def ticking() -> AsyncIterator[Callable[[], int]]:
    """How often the running loop has come round so far, once in `TICK_SECONDS` when nothing holds it up."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(TICK_SECONDS)
            ticks += 1

    task = asyncio.create_task(tick())
    try:
        yield lambda: ticks
    finally:
        task.cancel()


class Crowd:
    """Counts how many threads are in one place at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._present = 0
        self.most = 0

    @contextmanager
    def inside(self) -> Iterator[None]:
        """In here one counts."""
        with self._lock:
            self._present += 1
            self.most = max(self.most, self._present)
        try:
            yield
        finally:
            with self._lock:
                self._present -= 1


def settled_threads() -> int:
    """How many threads run, once those that managers of earlier tests left behind have ended."""
    gc.collect()
    deadline = time.monotonic() + 5
    before, now = -1, threading.active_count()
    while now != before and time.monotonic() < deadline:
        time.sleep(REST_SECONDS)
        before, now = now, threading.active_count()
    return now
