"""What has a file open lets go of it before this process forks: SQLite's locks are worth nothing in the child."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Holder(Protocol):
    """Something that has a file open."""

    def before_fork(self) -> None:
        """Let go of the file, and let no call at it."""

    def after_fork(self, *, in_child: bool) -> None:
        """Let calls go on."""


_holders: weakref.WeakSet[Holder] = weakref.WeakSet()
_waiting: list[Holder] = []
_forking = threading.Lock()


def watch(holder: Holder) -> None:
    """Tell ``holder`` of every fork, as long as it lives."""
    _holders.add(holder)


def _before_fork() -> None:
    _forking.acquire()
    _waiting.extend(_holders)
    for holder in _waiting:
        holder.before_fork()


def _after_fork(*, in_child: bool) -> None:
    while _waiting:
        _waiting.pop().after_fork(in_child=in_child)
    _forking.release()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(in_child=False),
        after_in_child=lambda: _after_fork(in_child=True),
    )
