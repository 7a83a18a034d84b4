"""The memory for code without async: the same calls, answered by one event loop on a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from actrone_memory.config import MemoryConfig
from actrone_memory.errors import ConfigurationError
from actrone_memory.manager import MemoryManager
from actrone_memory.protocols import Embedder, FactExtractor, L1Store, L2Store, Reranker, Summariser

P = ParamSpec("P")
R = TypeVar("R")


def _forward(
    method: Callable[Concatenate[MemoryManager, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncMemoryManager, P], R]:
    """``method`` as a plain call: same arguments, same result, same errors."""

    @functools.wraps(method)
    def call(self: SyncMemoryManager, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(method(self.manager, *args, **kwargs))

    return call


class SyncMemoryManager:
    """A `MemoryManager` whose methods are plain calls; see there for what each does.

    Works in scripts, in threads and inside a running event loop such as a notebook's. The calls run on one loop
    thread that starts with the first of them and ends with `close`, here or of the manager; they are refused on that
    thread itself.
    """

    def __init__(self, manager: MemoryManager) -> None:
        if not isinstance(manager, MemoryManager):
            raise ConfigurationError(
                f"SyncMemoryManager wraps a MemoryManager, not a {type(manager).__name__}; make both at once with "
                "SyncMemoryManager.create()."
            )
        self._manager = manager
        self._closing = threading.Lock()
        self._use(_LoopThread())

    @classmethod
    def create(
        cls,
        config: MemoryConfig | None = None,
        *,
        l1: L1Store | None = None,
        l2: L2Store | None = None,
        embedder: Embedder | None = None,
        extractor: FactExtractor | None = None,
        reranker: Reranker | None = None,
        summariser: Summariser | None = None,
    ) -> Self:
        """A manager that is ready to use; see `MemoryManager.create`."""
        runner = _LoopThread()
        try:
            manager = runner.run(
                MemoryManager.create(
                    config,
                    l1=l1,
                    l2=l2,
                    embedder=embedder,
                    extractor=extractor,
                    reranker=reranker,
                    summariser=summariser,
                )
            )
        except BaseException:
            runner.stop()
            raise
        created = cls(manager)
        created._use(runner)
        return created

    @classmethod
    def reindex(
        cls,
        config: MemoryConfig | None = None,
        *,
        l2: L2Store | None = None,
        embedder: Embedder | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Embed all memories of the store anew; see `MemoryManager.reindex`."""
        runner = _LoopThread()
        try:
            return runner.run(MemoryManager.reindex(config, l2=l2, embedder=embedder, progress=progress))
        finally:
            runner.stop()

    @property
    def manager(self) -> MemoryManager:
        """The async manager behind this one, for code that awaits."""
        return self._manager

    @property
    def config(self) -> MemoryConfig:
        """See `MemoryManager.config`."""
        return self._manager.config

    @property
    def closed(self) -> bool:
        """See `MemoryManager.closed`."""
        return self._manager.closed

    @property
    def relevance_threshold(self) -> float:
        """See `MemoryManager.relevance_threshold`."""
        return self._manager.relevance_threshold

    @property
    def background_failures(self) -> int:
        """See `MemoryManager.background_failures`."""
        return self._manager.background_failures

    store_turn = _forward(MemoryManager.store_turn)
    store_turns = _forward(MemoryManager.store_turns)
    get_recent_turns = _forward(MemoryManager.get_recent_turns)
    get_session_metadata = _forward(MemoryManager.get_session_metadata)
    list_sessions = _forward(MemoryManager.list_sessions)
    list_agents = _forward(MemoryManager.list_agents)
    clear_session = _forward(MemoryManager.clear_session)
    inject_memory = _forward(MemoryManager.inject_memory)
    inject_memories = _forward(MemoryManager.inject_memories)
    search_memories = _forward(MemoryManager.search_memories)
    list_memories = _forward(MemoryManager.list_memories)
    delete_memory = _forward(MemoryManager.delete_memory)
    erase_agent_memories = _forward(MemoryManager.erase_agent_memories)
    extract_memories = _forward(MemoryManager.extract_memories)
    import_agent = _forward(MemoryManager.import_agent)
    retrieve_context = _forward(MemoryManager.retrieve_context)
    drain = _forward(MemoryManager.drain)

    def export_agent(self, agent_id: str) -> Iterator[str]:
        """All of the agent's memory as lines of JSON; see `MemoryManager.export_agent`."""
        lines = self._manager.export_agent(agent_id)

        def each() -> Iterator[str]:
            while (line := self._run(_next(lines))) is not None:
                yield line

        return each()

    def close(self) -> None:
        """Close the manager, a wrapped one too, and end the loop thread. Twice is no error."""
        with self._closing:
            if self._runner.stopped:
                return
            try:
                self._run(self._manager.close())
            finally:
                self._runner.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _use(self, runner: _LoopThread) -> None:
        self._runner = runner
        self._manager._attendants.add(runner)
        weakref.finalize(self, runner.stop)

    def _run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return self._runner.run(coroutine)


async def _next(lines: AsyncIterator[str]) -> str | None:
    return await anext(lines, None)


class _LoopThread:
    """One event loop on one daemon thread, started by the first `run`."""

    def __init__(self) -> None:
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
