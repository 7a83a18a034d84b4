"""One story for both worlds: steps that say which call of the memory they need, answered at once or awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from actrone_memory import MemoryManager, SyncMemoryManager

Result = TypeVar("Result")


class Call(NamedTuple):
    """A call of the memory: a method that both managers have."""

    method: str
    arguments: tuple[object, ...]

    def on(self, manager: MemoryManager | SyncMemoryManager) -> Any:
        """What the manager returns: the answer, or what is awaited for it."""
        return getattr(manager, self.method)(*self.arguments)


Steps: TypeAlias = Generator[Call, Any, Result]


def call(method: str, *arguments: object) -> Call:
    """The call ``manager.method(*arguments)``."""
    return Call(method, arguments)


class _Run(Generic[Result]):
    """Steps under way: the call they wait for, then their result."""

    def __init__(self, steps: Steps[Result]) -> None:
        self._steps = steps
        self.waits_for: Call | None = None
        self.result: Result
        self.answer(None)

    def answer(self, value: object) -> None:
        self._go_on(lambda: self._steps.send(value))

    def fail(self, error: BaseException) -> None:
        self._go_on(lambda: self._steps.throw(error))

    def _go_on(self, advance: Any) -> None:
        try:
            self.waits_for = advance()
        except StopIteration as end:
            self.waits_for, self.result = None, cast("Result", end.value)


def answered(manager: SyncMemoryManager, steps: Steps[Result]) -> Result:
    """The steps' result; this thread waits."""
    run = _Run(steps)
    while run.waits_for:
        try:
            answer = run.waits_for.on(manager)
        except BaseException as error:  # the steps may have something to put right, after an interrupt too
            run.fail(error)
        else:
            run.answer(answer)
    return run.result


async def awaited(manager: MemoryManager, steps: Steps[Result]) -> Result:
    """The steps' result; awaits on the caller's loop."""
    run = _Run(steps)
    while run.waits_for:
        try:
            answer = await cast("Awaitable[object]", run.waits_for.on(manager))
        except (Exception, asyncio.CancelledError) as error:  # the steps may have something to put right
            run.fail(error)
        else:
            run.answer(answer)
    return run.result


async def completed(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of ``work``; a caller that is cancelled meanwhile leaves when the work is done."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
