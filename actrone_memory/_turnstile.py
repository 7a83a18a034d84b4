"""Fair use of an event loop: a burst of queries computes one by one, with the loop's other work in between."""

from __future__ import annotations

import asyncio
import threading
import weakref


class Turnstile:
    """Lets one caller pass in each iteration of an event loop, so that nothing waits longer than one query takes."""

    def __init__(self) -> None:
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self._guard = threading.Lock()

    async def pass_through(self) -> None:
        """Wait for this loop's turnstile; what follows without an await runs before the next caller passes."""
        loop = asyncio.get_running_loop()
        with self._guard:
            lock = self._locks.setdefault(loop, asyncio.Lock())
        async with lock:
            await asyncio.sleep(0)
