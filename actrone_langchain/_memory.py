"""Both ways to ask one manager: awaited on the caller's loop, or as a plain call.

What is asked is told once, as steps: a generator that yields one call of a manager after the other and is sent what
each returned.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from actrone_langchain import _arguments
from actrone_memory import MemoryManager, SyncMemoryManager

_Result = TypeVar("_Result")

Steps = Generator[Callable[[Any], Any], Any, _Result]
"""Calls to make on a manager, ``lambda memory: memory.drain()``, and the result of them all."""

_plain: weakref.WeakKeyDictionary[MemoryManager, SyncMemoryManager] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class Memory:
    """One manager, for callers that await and for those that do not."""

    def __init__(self, memory: MemoryManager | SyncMemoryManager) -> None:
        self.given = _arguments.manager(memory)
        self._manager = memory.manager if isinstance(memory, SyncMemoryManager) else memory

    def run(self, steps: Steps[_Result]) -> _Result:
        """Take the steps as plain calls."""
        memory = self.given if isinstance(self.given, SyncMemoryManager) else _plain_calls(self.given)

        async def answer(call: Callable[[Any], Any]) -> Any:
            return call(memory)

        try:
            _taken(steps, answer).send(None)  # it never waits, so that its first step is its last
        except StopIteration as done:
            result: _Result = done.value
            return result
        raise AssertionError("a plain call does not wait")

    async def arun(self, steps: Steps[_Result]) -> _Result:
        """Take the steps one by one on the running loop."""
        return await _taken(steps, lambda call: call(self._manager))


async def _taken(steps: Steps[_Result], answer: Callable[[Callable[[Any], Any]], Awaitable[Any]]) -> _Result:
    """The result of the steps, each call answered by ``answer``; they are told of what it raises."""
    try:
        call = next(steps)
        while True:
            try:
                answered = await answer(call)
            except BaseException as error:  # an interrupt too: the steps may have something to put right
                call = steps.throw(error)
            else:
                call = steps.send(answered)
    except StopIteration as done:
        result: _Result = done.value
        return result


def _plain_calls(manager: MemoryManager) -> SyncMemoryManager:
    """The plain calls of ``manager``: one loop thread for each manager, however many objects share it."""
    with _lock:
        if manager not in _plain:
            # Through a proxy: what stands in the dictionary must not keep its own key alive.
            _plain[manager] = SyncMemoryManager(weakref.proxy(manager))
        return _plain[manager]
