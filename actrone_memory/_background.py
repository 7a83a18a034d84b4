"""The manager's background work: a queue of sessions, worked off on one thread with its own event loop."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import NamedTuple

from actrone_memory.errors import ActroneMemoryError, told

logger = logging.getLogger("actrone_memory")

PARALLEL_SESSIONS = 16
"""Sessions worked on at once: enough to keep a remote embedder busy, few enough not to flood it."""

KEPT_FAILURES = 100

STOP_SECONDS = 1.0
"""How long `close`, or the end of the process, waits for the thread after it was told to stop."""


class Work(NamedTuple):
    """A session that has something to archive; without a session, an agent whose sessions are to be looked through."""

    agent_id: str
    session_id: str | None


class Background:
    """Calls ``run`` for every session that was enqueued, each again only after new work came for it.

    Failures are logged and counted; their sessions are tried again with the agent's next work and by `drain`. The
    thread starts with the first work and ends with `close`; it belongs to no caller's loop, so none can cancel it.
    """

    def __init__(self, run: Callable[[Work], Awaitable[None]]) -> None:
        self._run = run
        # Reentrant: a garbage collection may call `stop` on a thread that holds it.
        self._lock = threading.RLock()
        self._queue: dict[Work, None] = {}
        self._running: set[Work] = set()
        self._owed: dict[Work, int] = {}
        self._failed: set[Work] = set()
        self._waiting: list[tuple[Callable[[], bool], Future[None]]] = []
        self._failures: list[ActroneMemoryError] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._stopping = False
        self.failure_count = 0

    def enqueue(self, work: Work, turns: int = 0) -> None:
        """Add work of so many turns from any thread; what failed before for the same agent is tried again with it."""
        with self._lock:
            self._owed[work] = self._owed.get(work, 0) + turns
            for failed in [one for one in self._failed if one.agent_id == work.agent_id]:
                self._failed.discard(failed)
                self._queue[failed] = None
            self._queue[work] = None
            self._start()

    def report(self, error: Exception, doing: str) -> None:
        """Log and count a failure that must not stop what it happened in; an error of ours says all in its message."""
        ours = error if isinstance(error, ActroneMemoryError) else _wrapped(error, doing)
        logger.error("%s failed: %s", doing, error, exc_info=None if ours is error else error)
        with self._lock:
            self.failure_count += 1
            self._failures = [*self._failures, ours][-KEPT_FAILURES:]

    async def drain(self) -> None:
        """Try again what failed, and return when nothing is left to do."""
        with self._lock:
            self._queue.update(dict.fromkeys(self._failed))
            self._failed.clear()
            if self._queue:
                self._start()
        await self._when(lambda: not self._queue and not self._running)

    async def settle(self, agent_id: str, *, except_session: str, timeout_seconds: float) -> None:
        """Wait until the agent's other sessions are worked off, at most ``timeout_seconds``."""

        def settled() -> bool:
            return not any(
                work.agent_id == agent_id and work.session_id != except_session
                for work in (*self._queue, *self._running)
            )

        with self._lock:
            if settled():
                return
        try:
            await asyncio.wait_for(self._when(settled), timeout_seconds)
        except TimeoutError:
            logger.debug("Recall for %r goes on before its other sessions are archived", agent_id)

    async def keep_pace(self, work: Work, turns: int) -> None:
        """Wait until at most so many turns of the work are to be done; what failed is not waited for."""
        await self._when(lambda: self._owed.get(work, 0) <= turns or self._stopping)

    def take_failures(self) -> list[ActroneMemoryError]:
        """The failures since the last call."""
        with self._lock:
            failures, self._failures = self._failures, []
        return failures

    async def close(self, grace_seconds: float) -> None:
        """Work off the queue for at most ``grace_seconds``, then stop; what is left is logged and stays unarchived."""
        if self._stopping:
            return
        try:
            await asyncio.wait_for(self.drain(), grace_seconds)
        except TimeoutError:
            left = len(self._queue) + len(self._running)
            logger.error("Closed after %g s with %d sessions not archived", grace_seconds, left)
        thread = self.stop()
        if thread is None:
            return
        try:
            await asyncio.wait_for(self._when(lambda: self._loop is None), STOP_SECONDS)
            thread.join(STOP_SECONDS)
        except TimeoutError:
            logger.error("Something that archives does not let go of its thread; it ends with the process")

    def stop(self) -> threading.Thread | None:
        """Tell the thread, if there is one, to cancel what it does and end."""
        with self._lock:
            self._stopping = True
            thread, loop, wake = self._thread, self._loop, self._wake
            if thread is None or loop is None or wake is None:
                return None
            loop.call_soon_threadsafe(wake.set)
        return thread

    def _start(self) -> None:
        """Start or wake the thread; called with the lock held."""
        if self._loop is not None and self._wake is not None and self._thread and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._wake.set)
        elif self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._main, name="actrone-memory-background", daemon=True)
            self._thread.start()
            _at_work.add(self)

    def _main(self) -> None:
        try:
            asyncio.run(self._work())
        finally:
            with self._lock:
                self._loop = self._wake = None
            self._notify()

    async def _work(self) -> None:
        wake = asyncio.Event()
        with self._lock:
            self._loop, self._wake = asyncio.get_running_loop(), wake
        tasks: set[asyncio.Task[None]] = set()
        while not self._stopping:
            wake.clear()
            tasks |= {asyncio.create_task(self._run_one(work)) for work in self._take(PARALLEL_SESSIONS - len(tasks))}
            waker = asyncio.create_task(wake.wait())
            await asyncio.wait({waker, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            waker.cancel()
            tasks = {task for task in tasks if not task.done()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with self._lock:
            self._loop = self._wake = None  # before the loop is closed: `stop` may come at any time

    def _take(self, most: int) -> list[Work]:
        """The next works whose session is not being worked on already."""
        with self._lock:
            taken = [work for work in self._queue if work not in self._running][:most]
            for work in taken:
                del self._queue[work]
                self._running.add(work)
        return taken

    async def _run_one(self, work: Work) -> None:
        try:
            await self._run(work)
        except Exception as error:  # a failure of any kind must be seen, and must not end the worker
            self.report(error, f"Archiving session {work.session_id!r} of agent {work.agent_id!r}")
            with self._lock:
                self._failed.add(work)
        finally:
            with self._lock:
                self._running.discard(work)
                if work not in self._queue:
                    self._owed.pop(work, None)
            self._notify()

    async def _when(self, condition: Callable[[], bool]) -> None:
        """Return when ``condition`` holds; it is checked with the lock held, whenever some work has ended."""
        with self._lock:
            if condition():
                return
            reached: Future[None] = Future()
            self._waiting.append((condition, reached))
        await asyncio.wrap_future(reached)

    def _notify(self) -> None:
        with self._lock:
            reached = [entry for entry in self._waiting if entry[0]()]
            self._waiting = [entry for entry in self._waiting if not entry[0]()]
        for _, future in reached:
            if future.set_running_or_notify_cancel():
                future.set_result(None)


_at_work: weakref.WeakSet[Background] = weakref.WeakSet()
"""Those that have started a thread."""


@atexit.register
def _stop_all() -> None:
    """End the threads before the interpreter ends: one that computes when it is taken away can abort the process.

    What they did not finish is not archived; durable stores hand it to the next process.
    """
    threads = [background.stop() for background in list(_at_work)]
    for thread in threads:
        if thread is not None:
            thread.join(STOP_SECONDS)


def _wrapped(error: Exception, doing: str) -> ActroneMemoryError:
    ours = ActroneMemoryError(f"{doing} failed: {told(error)}", code="background")
    ours.__cause__ = error
    return ours
