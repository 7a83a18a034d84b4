"""Fair use of an event loop: a burst of queries computes one by one, with the loop's other work in between."""

from __future__ import annotations

import asyncio
import threading


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
