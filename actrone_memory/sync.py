"""The memory for code without async: the same calls, answered by one event loop on a thread of its own."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from actrone_memory._loop_thread import LoopThread
from actrone_memory.config import MemoryConfig
from actrone_memory.errors import ConfigurationError, ValidationError
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
        return self.run(method(self.manager, *args, **kwargs))

    return call


class SyncMemoryManager:
    """A `MemoryManager` whose methods are plain calls; see there for what each does.

    Works in scripts, in threads and inside a running event loop such as a notebook's. All that wrap one manager share
    its loop thread, which starts with the first call and ends with `close`, here or of the manager; calls are refused
    on that thread itself.
    """

    def __init__(self, manager: MemoryManager) -> None:
        if not isinstance(manager, MemoryManager):
            raise ConfigurationError(
                f"SyncMemoryManager wraps a MemoryManager, not a {type(manager).__name__}; make both at once with "
                "SyncMemoryManager.create()."
            )
        self._manager = manager

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
        runner = LoopThread()
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
        manager._answer_plain_calls_on(runner)
        return cls(manager)

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
        runner = LoopThread()
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
            while (line := self.run(_next(lines))) is not None:
                yield line

        return each()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """What ``coroutine`` returns or raises: a story told once, with awaited calls of `manager`, for plain code too.

        It runs on the loop thread. When the waiting thread is interrupted, it is cancelled.
        """
        if not isinstance(coroutine, Coroutine):
            raise ValidationError(
                "coroutine", f"must be what an async function returns, not {type(coroutine).__name__}"
            )
        return self._manager._loop_thread.run(coroutine)

    def close(self) -> None:
        """Close the manager, a wrapped one too, and end the loop thread. Twice is no error."""
        thread = self._manager._loop_thread
        with thread.closing:
            if thread.stopped:
                return
            try:
                self.run(self._manager.close())
            finally:
                thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _next(lines: AsyncIterator[str]) -> str | None:
    return await anext(lines, None)
