"""Functions that others wrote, called so that no event loop waits for them."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from actrone_memory import _validation
from actrone_memory.errors import ValidationError, told

P = ParamSpec("P")
Result = TypeVar("Result")

EXIT_SECONDS = 2.0
"""How long the interpreter's end waits for calls: a model in this process ends its batch, one that hangs is left."""


class ForeignFunction(Generic[P, Result]):
    """A function called on threads, each call as soon as it has one of the ``places``; a coroutine function is awaited.

    What a plain function returns is awaited too where it can be.

    Raises:
        ValidationError: it cannot be called.
    """

    def __init__(
        self,
        function: Callable[P, Result | Awaitable[Result]],
        field: str,
        places: AbstractContextManager[object] | None = None,
    ) -> None:
        if not callable(function) or isinstance(function, type):
            raise ValidationError(field, f"must be a function, not {_validation.shown(function)}")
        self._function = function
        self._is_awaited = inspect.iscoroutinefunction(function)
        self._places = places or nullcontext()

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        """What the function returns; raises what it raises."""
        call = partial(self._function, *args, **kwargs)
        answer = call() if self._is_awaited else await _beside(call, self._places)
        return await answer if isinstance(answer, Awaitable) else answer

    def now(self, *args: P.args, **kwargs: P.kwargs) -> Result | Awaitable[Result]:
        """The same, called on this thread."""
        with self._places:
            return self._function(*args, **kwargs)


async def _beside(call: Callable[[], Result], places: AbstractContextManager[object]) -> Result:
    """What ``call`` returns, on a thread that ends with it, as soon as there is a place."""
    outcome: Future[Result] = Future()

    def run() -> None:
        with places:
            _resolve(outcome, call)

    # Without the caller's context: a framework that looks there would stream the answer to whoever talks to the agent.
    thread = threading.Thread(target=run, name="actrone-model", daemon=True)
    _under_way.add(thread)
    thread.start()
    return await asyncio.wrap_future(outcome)


def _resolve(outcome: Future[Any], call: Callable[[], object]) -> None:
    if not outcome.set_running_or_notify_cancel():
        return  # nobody waits for it any more
    try:
        outcome.set_result(call())
    except (StopIteration, CancelledError, asyncio.CancelledError) as error:  # to a coroutine these mean something else
        failure = RuntimeError(told(error))
        failure.__cause__ = error
        outcome.set_exception(failure)
    except BaseException as error:  # handed to the one who waits
        outcome.set_exception(error)


_under_way: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


@atexit.register
def _wait_at_exit() -> None:
    """A thread that computes when the interpreter ends can abort the process."""
    until = time.monotonic() + EXIT_SECONDS
    for thread in list(_under_way):
        thread.join(max(0.0, until - time.monotonic()))
