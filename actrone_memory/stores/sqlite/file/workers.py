"""The threads on which calls of a file wait, so that no event loop does."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


class Workers:
    """At most ``most`` threads that do what they are given, in order; they start with the work.

    Unlike those of an executor they still work while a program ends, so that it may close its memory then, and end with
    the program when it does not.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        weakref.finalize(self, _end_all, self._queue, self._threads).atexit = False

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """What ``work`` will return."""
        future: Future[Result] = Future()
        self._queue.put((future, work))
        if len(self._threads) < self._most:
            thread = threading.Thread(target=_serve, args=(self._queue,), name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def end(self) -> None:
        """Finish what was given, and end."""
        _end_all(self._queue, self._threads)
        for thread in self._threads:
            thread.join()


def _serve(queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (task := queue.get()) is not None:
        future, work = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:  # whatever it is, it belongs to who waits
                future.set_exception(error)
        del task, future, work  # an idle thread must keep no store alive


def _end_all(queue: SimpleQueue[Any], threads: Sequence[threading.Thread]) -> None:
    for _ in threads:
        queue.put(None)
