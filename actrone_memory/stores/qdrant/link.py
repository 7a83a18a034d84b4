"""The way to Qdrant: its clients, deadlines, retries, and its failures in our words. Knows nothing of memories.

A server is asked by one asyncio client for each running event loop, which ends with the loop at the latest. The local
mode of the client (``:memory:`` or ``path:/some/dir``) is one client on one thread, for all loops.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from actrone_memory._loop_clients import LoopClients
from actrone_memory.errors import ConfigurationError, StoreConnectionError, failing_as

if TYPE_CHECKING:
    import httpx
    from qdrant_client import AsyncQdrantClient, QdrantClient

OLDEST_SERVER = (1, 19)
"""The first that counts how rare a word is among one agent's points alone; older ones ignore the wish in silence."""

MOST_ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0

TRANSIENT_STATUS = {429, 502, 503, 504}
"""What a busy, starting or moving server answers; the same request may succeed a moment later."""

NO_VECTOR = re.compile(
    r"[Nn]ot existing vector name|[Vv]ector with name .* is not configured|[Vv]ector \S+ is not found in the collection"
)
"""What servers and the local mode say of a vector that was never there, or no longer."""

NO_POINT = re.compile(r"No point with id")
"""What servers say of a point that is to be changed and was deleted; the local mode raises a KeyError."""

MEMORY = ":memory:"
PATH = "path:"


class NoCollectionError(StoreConnectionError):
    """The collection that was asked for is not there."""


class NameTakenError(StoreConnectionError):
    """A collection or a vector of that name is there already."""


class NoPointError(StoreConnectionError):
    """A point that was to be changed is not there."""


class NoVectorError(StoreConnectionError):
    """The points of the collection have no vector of the name that was asked for."""


class QdrantLink:
    """One server or local folder; `ask` calls a method of its client.

    A ``client`` that is handed in is used as it is and never closed.

    Raises:
        ConfigurationError: qdrant-client is missing, or ``url`` is none.
    """

    def __init__(
        self,
        store: str,
        url: str,
        api_key: str | None,
        timeout_seconds: float,
        client: AsyncQdrantClient | QdrantClient | None = None,
    ) -> None:
        _require_package(store)
        self._store, self._url, self._api_key, self._timeout = store, url, api_key, timeout_seconds
        self._given = client
        self._guard = threading.Lock()
        self._clients: LoopClients[AsyncQdrantClient] = LoopClients()
        self._worker: ThreadPoolExecutor | None = None
        self._local: QdrantClient | None = None
        if client is None and not self._on_a_thread:
            _check_url(url)

    @property
    def shown(self) -> str:
        """Where Qdrant is, for messages: without a user or password."""
        if self._given is not None:
            return "the given client"
        return re.sub(r"//[^/@]*@", "//", self._url)

    @property
    def is_local(self) -> bool:
        """Whether this is the client's local mode, which has no indexes and no version of its own."""
        if self._given is None:
            return self._on_a_thread
        return "Local" in type(getattr(self._given, "_client", None)).__name__

    @property
    def _on_a_thread(self) -> bool:
        return self._url == MEMORY or self._url.startswith(PATH)

    async def ask(self, method: str, **arguments: Any) -> Any:
        """What the client's ``method`` returns, within the deadline; failures that pass are tried again.

        Every request may be sent twice: what it writes is the same both times.

        Raises:
            NoCollectionError, NoPointError, NoVectorError, NameTakenError: what the names say.
            StoreConnectionError: no answer in time, or none that helps; the message says what to do.
        """
        from qdrant_client import QdrantClient

        with failing_as(self._failure):
            if self._given is None and self._on_a_thread:
                return await self._in_worker(lambda: getattr(self._opened(), method)(**arguments))
            async with asyncio.timeout(self._timeout):
                if isinstance(self._given, QdrantClient):
                    given = self._given
                    return await self._tried(lambda: self._in_worker(lambda: getattr(given, method)(**arguments)))
                client = self._given or await self._clients.get(self._new_client)
                return await self._tried(lambda: getattr(client, method)(**arguments))

    async def _tried(self, attempt: Callable[[], Any]) -> Any:
        for number in range(1, MOST_ATTEMPTS + 1):
            try:
                return await attempt()
            except Exception as error:
                if number == MOST_ATTEMPTS or not _is_transient(error):
                    raise
            longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**number)
            await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - to spread load, not to hide
        raise AssertionError("the last attempt returns or raises")

    async def close(self) -> None:
        """Close the clients that were made here, and the thread; a later call opens them again."""
        with self._guard:
            worker, self._worker = self._worker, None
        await self._clients.close()
        if worker is not None:
            await asyncio.get_running_loop().run_in_executor(worker, self._close_local)
            worker.shutdown()

    async def _new_client(self) -> AsyncQdrantClient:
        from qdrant_client import AsyncQdrantClient

        return AsyncQdrantClient(
            url=self._url,
            api_key=self._api_key,
            timeout=int(self._timeout) + 1,  # whole seconds; the deadline proper is kept in `ask`
            check_compatibility=False,  # it would ask on a thread of its own, and answer with a warning
            verify=_tls(),
        )

    async def _in_worker(self, work: Callable[[], Any]) -> Any:
        with self._guard:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="actrone-qdrant")
            job = self._worker.submit(work)
        return await asyncio.wrap_future(job)

    def _opened(self) -> QdrantClient:
        from qdrant_client import QdrantClient

        if self._local is None:
            if self._url == MEMORY:
                self._local = QdrantClient(location=MEMORY)
            else:
                folder = Path(self._url.removeprefix(PATH)).expanduser()
                self._refuse_second_opener(folder)
                self._local = QdrantClient(path=str(folder))
        return self._local

    def _refuse_second_opener(self, folder: Path) -> None:
        """Look at the client's own lock first: when it finds it taken, it leaves its files open."""
        import portalocker

        lock = folder / ".lock"
        if not lock.exists():
            return
        try:
            with lock.open("r+") as file:
                portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
                portalocker.unlock(file)
        except portalocker.exceptions.LockException:
            raise ConfigurationError(
                f"qdrant_url: {PATH}{folder} is open already, in this process or in another one. Qdrant's local mode "
                "has one opener at a time: close the other store, or run a server and set qdrant_url to its address.",
                {"setting": "qdrant_url", "path": os.fspath(folder)},
            ) from None

    def _close_local(self) -> None:
        local, self._local = self._local, None
        if local is not None:
            local.close()

    def _failure(self, error: Exception) -> StoreConnectionError:
        """What ``error`` means here."""
        cause = getattr(error, "source", error)  # the client wraps what its HTTP library raised
        status = getattr(error, "status_code", None)
        text = str(error)
        kind = StoreConnectionError
        if isinstance(error, KeyError) or NO_POINT.search(text):
            kind = NoPointError
        elif NO_VECTOR.search(text):
            kind = NoVectorError
        elif status == 404 or (isinstance(error, ValueError) and text.endswith("not found")):
            kind = NoCollectionError
        elif status == 409 or "already exists" in text:
            kind = NameTakenError
        return kind(self._store, cause, {"url": self.shown}, advice=self._advice(cause, status))

    def _advice(self, cause: Exception, status: int | None) -> str:
        if status in (401, 403):
            return f"{self.shown} refuses the key: set ACTRONE_QDRANT_API_KEY to one that may read and write."
        if isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__:
            return (
                f"{self.shown} did not answer within {self._timeout:g} s: look at its load, or raise "
                "ACTRONE_QDRANT_TIMEOUT."
            )
        if status is None and not self.is_local:
            return f"Check that Qdrant runs at {self.shown}, or set ACTRONE_QDRANT_URL to where it does."
        return f"{self.shown} answers, but not as it should: its log and `.cause` say more."

    async def check_version(self) -> None:
        """Refuse a server that is too old.

        Raises:
            ConfigurationError: it cannot keep the words of one agent apart from another's.
        """
        if self.is_local:
            return
        version = str((await self.ask("info")).version)
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST_SERVER:
            needed = ".".join(map(str, OLDEST_SERVER))
            raise ConfigurationError(
                f"The Qdrant server at {self.shown} is {version}; {needed} or newer is needed, which keeps the word "
                "statistics of one agent apart from another's. Upgrade it.",
                {"version": version, "needed": needed},
            )


@cache
def _tls() -> ssl.SSLContext:
    """One for all clients: the certificates of the system take a while to read."""
    import httpx

    context: ssl.SSLContext = httpx.create_ssl_context()
    return context


def _is_transient(error: Exception) -> bool:
    import httpx
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

    cause: Exception | httpx.TransportError = getattr(error, "source", error)
    if isinstance(error, ResourceExhaustedResponse) or getattr(error, "status_code", None) in TRANSIENT_STATUS:
        return True
    return isinstance(cause, httpx.TransportError) and not isinstance(cause, httpx.UnsupportedProtocol)


def _require_package(store: str) -> None:
    try:
        import qdrant_client  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            f"{store} needs qdrant-client: pip install 'actrone-memory[qdrant]'.",
            {"missing": "qdrant-client", "extra": "qdrant"},
        ) from None


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise ConfigurationError(
            "qdrant_url must be http://host:port, https://host:port, ':memory:' or 'path:/some/dir'.",
            {"setting": "qdrant_url"},
        )
