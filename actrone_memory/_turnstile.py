"""Who goes first: queries that share an event loop, and writes that share a memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager


class Turnstile:
    """Lets one caller pass in each iteration of an event loop, so that nothing waits longer than one query takes."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        # Only loops with callers inside: a lock keeps its loop, so one kept for later would keep it for ever.
        self._inside: dict[asyncio.AbstractEventLoop, tuple[asyncio.Lock, int]] = {}

    async def pass_through(self) -> None:
        """Wait for this loop's turnstile; what follows without an await runs before the next caller passes."""
        loop = asyncio.get_running_loop()
        lock = self._enter(loop)
        try:
            async with lock:
                await asyncio.sleep(0)
        finally:
            self._leave(loop)

    def _enter(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        with self._guard:
            lock, callers = self._inside.get(loop) or (asyncio.Lock(), 0)
            self._inside[loop] = lock, callers + 1
        return lock

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._guard:
            lock, callers = self._inside.pop(loop)
            if callers > 1:
                self._inside[loop] = lock, callers - 1


class Queues:
    """One queue for each key: those who share it pass one after the other, on whatever loop or thread they are."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._last: dict[str, Future[None]] = {}

    @asynccontextmanager
    async def turns(self, keys: Collection[str]) -> AsyncIterator[None]:
        """Wait for those who came before at any of ``keys``, and keep those who come after waiting."""
        async with AsyncExitStack() as held:
            for key in sorted(keys):  # in one order, or two callers could wait for each other
                await held.enter_async_context(self._turn(key))
            yield

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        mine: Future[None] = Future()
        with self._guard:
            before = self._last.get(key)
            self._last[key] = mine
        try:
            if before is not None:
                await asyncio.shield(asyncio.wrap_future(before))
            yield
        finally:
            with self._guard:
                if self._last[key] is mine:
                    del self._last[key]
            # Whoever gave up waiting must not let the next one past those who still work.
            if before is None or before.done():
                mine.set_result(None)
            else:
                before.add_done_callback(lambda _: mine.set_result(None))
