"""One client for each event loop: an asyncio client belongs to the loop it first ran on.

A client is made when its loop first needs it. It is closed by what comes first: `LoopClients.close` from any loop, the
end of its own loop, or, a moment later, that nobody holds the `LoopClients` any more.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, ClassVar, Generic, Protocol, TypeVar

CLOSE_SECONDS = 1.0
"""How long `LoopClients.close` waits for loops of other threads; one that is busy closes its client afterwards."""

DROPPED_SECONDS = 0.5
"""A client that was dropped and not closed is closed after so long: not sooner, so that a loop that ends does it."""


class Closable(Protocol):
    """A client as far as this module knows it."""

    async def close(self) -> None:
        """Let go of all connections."""


Client = TypeVar("Client", bound=Closable)


class LoopClients(Generic[Client]):
    """The clients of all loops that have asked for one. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._openings: dict[asyncio.AbstractEventLoop, asyncio.Task[_Open[Client]]] = {}
        weakref.finalize(self, _let_go, self._openings).atexit = False

    async def get(self, make: Callable[[], Awaitable[Client]]) -> Client:
        """The running loop's client; the first time ``make`` makes it, once however many ask."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for ended in [known for known in self._openings if known.is_closed()]:
                del self._openings[ended]
            opening = self._openings.get(loop)
            if opening is None or (opening.done() and not _is_open(opening)):  # it failed
                opening = self._openings[loop] = loop.create_task(_opened(make, weakref.ref(self)))
        return (await asyncio.shield(opening)).client

    async def discard(self, client: Client) -> None:
        """Close this client of the running loop: the next who asks gets a new one. Twice is no error."""
        with self._lock:
            opening = self._openings.get(asyncio.get_running_loop())
        if opening is not None and _is_open(opening) and opening.result().client is client:
            await opening.result().end()

    async def close(self) -> None:
        """Close all clients. Who asks afterwards gets a new one."""
        with self._lock:
            opened = [opening.result() for opening in self._openings.values() if _is_open(opening)]
            self._openings.clear()
        here = asyncio.get_running_loop()
        elsewhere = [ending for one in opened if one.loop is not here and (ending := one.end_from_afar())]
        for one in opened:
            if one.loop is here:
                await one.end()
        if elsewhere:
            await asyncio.wait(elsewhere, timeout=CLOSE_SECONDS)

    def forget(self, opened: _Open[Client]) -> None:
        """Let go of a client that is closed, and of its loop."""
        with self._lock:
            opening = self._openings.get(opened.loop)
            if opening is not None and _is_open(opening) and opening.result() is opened:
                del self._openings[opened.loop]


class _Open(Generic[Client]):
    """A client until it is closed, at the latest by its loop, which closes its generators at its end."""

    held: ClassVar[set[_Open[Any]]] = set()
    """All of them: a generator that nobody has is closed too, but no loop waits until it is."""

    def __init__(self, client: Client, owner: weakref.ref[LoopClients[Client]]) -> None:
        self.client, self.loop, self._owner = client, asyncio.get_running_loop(), owner
        self.lifetime = self._until_ended()
        self.held.difference_update([other for other in tuple(self.held) if other.loop.is_closed()])
        self.held.add(self)

    async def _until_ended(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self.held.discard(self)
            owner = self._owner()
            if owner is not None:
                owner.forget(self)
            await self.client.close()

    async def end(self) -> None:
        """Close the client; called on its loop."""
        with suppress(RuntimeError):  # the loop is doing the same
            await self.lifetime.aclose()

    def end_from_afar(self) -> asyncio.Future[None] | None:
        """Close the client on its loop, which runs in another thread.

        None when it does not run: then the client is closed when it runs again, or ends.
        """
        if not self.loop.is_running():
            return None
        ending = self.end()
        try:
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ending, self.loop))
        except RuntimeError:  # it has just ended
            ending.close()
            return None

    def end_soon(self) -> None:
        """Close the client in a moment, unless its loop ends before."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.call_later, DROPPED_SECONDS, self._start_ending)

    def _start_ending(self) -> None:
        self._ending = self.loop.create_task(self.end())


async def _opened(make: Callable[[], Awaitable[Client]], owner: weakref.ref[LoopClients[Client]]) -> _Open[Client]:
    opened = _Open(await make(), owner)
    await anext(opened.lifetime)  # from here on the loop ends it when it ends itself
    return opened


def _is_open(opening: asyncio.Task[_Open[Any]]) -> bool:
    return opening.done() and not opening.cancelled() and opening.exception() is None


def _let_go(openings: dict[asyncio.AbstractEventLoop, asyncio.Task[_Open[Any]]]) -> None:
    for opening in openings.values():
        if _is_open(opening):
            opening.result().end_soon()
