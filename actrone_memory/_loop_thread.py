"""The thread on which plain calls of a manager are answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from actrone_memory.errors import ConfigurationError

R = TypeVar("R")


class LoopThread:
    """One event loop on one daemon thread, started by the first `run`."""

    def __init__(self) -> None:
        self.closing = threading.Lock()  # held by whoever closes what is served here, which others wait for
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.stopped = False

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """The coroutine's result, or what it raised."""
        try:
            with self._lock:
                # Handed over under the lock: what comes before a stop is answered or cancelled, never forgotten.
                future = asyncio.run_coroutine_threadsafe(coroutine, self._running_loop())
        except ConfigurationError:
            coroutine.close()
            raise
        try:
            return future.result()
        except CancelledError:
            if self.stopped:
                raise _closed() from None
            raise
        except BaseException:
            future.cancel()  # an interrupt in this thread must not leave the call running in the other
            raise

    def stop(self) -> None:
        """End the loop and its thread; `run` is refused from now on."""
        with self._lock:
            is_first, self.stopped = not self.stopped, True
            thread, loop = self._thread, self._loop
        if thread is None or loop is None or not thread.is_alive():
            return
        if is_first:  # told twice, the loop would break off what it does at its end
            loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()

    def dismiss(self) -> None:
        """`stop`, unless the manager is being closed on this very thread: then its owner stops it after the answer."""
        if self._thread is not threading.current_thread():
            self.stop()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The loop, started when it does not run yet; called with the lock held."""
        if self.stopped:
            raise _closed()
        if self._thread is threading.current_thread():
            raise ConfigurationError(
                "SyncMemoryManager was called on its own loop thread, where it would wait for itself; "
                "await the async methods of `.manager` there.",
                code="own_loop",
            )
        # Not alive also means: the process was forked, and the thread stayed behind in the parent.
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="actrone-memory-sync", daemon=True)
            self._thread.start()
        return self._loop


def _closed() -> ConfigurationError:
    return ConfigurationError(
        "This SyncMemoryManager is closed; create a new one with SyncMemoryManager.create().", code="closed"
    )


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
