"""Clients of one Redis, one for each running event loop, bounded in time.

Knows nothing of what is stored: it runs the steps of one Lua script, tries again what may pass, and turns what Redis
and redis-py raise into one error that says what to do.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import random
import re
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from actrone_memory._loop_clients import LoopClients
from actrone_memory.errors import ConfigurationError, StoreConnectionError

ATTEMPTS = 4
"""How often a call is tried, within its time, while what stops it may pass."""

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
"""Between two attempts lies a random part of a pause that doubles from the first to the longest."""

KEYS_PER_PAGE = 1_000
"""Keys that Redis looks at in one step of a scan."""

_WRONG_PASSWORD = "Check the user and the password in redis_url (ACTRONE_REDIS_URL)."  # noqa: S105 - it holds none
_FULL = "Its memory is full and nothing was written: raise maxmemory, or clear sessions."
_REPLICA = "It is a read-only replica: let redis_url name the primary."
_LOADING = "It is loading its data and answers when that is done."
_DOWN = "Its cluster does not serve all slots: see CLUSTER INFO."
_FORBIDDEN = "Allow its user the keys actrone:* and the commands that docs/production.md lists."

ADVICE = {
    "AuthenticationError": _WRONG_PASSWORD,
    "AuthorizationError": _WRONG_PASSWORD,
    "NoPermissionError": _FORBIDDEN,
    "OutOfMemoryError": _FULL,
    "ReadOnlyError": _REPLICA,
    "BusyLoadingError": _LOADING,
    "ClusterDownError": _DOWN,
    "NOAUTH": _WRONG_PASSWORD,
    "WRONGPASS": _WRONG_PASSWORD,
    "NOPERM": _FORBIDDEN,
    "OOM": _FULL,
    "READONLY": _REPLICA,
    "LOADING": _LOADING,
    "SSLCertVerificationError": "Its certificate is not trusted: name the authority with redis_url=rediss://...?ssl_ca_certs=/path/to/ca.pem.",
    "MISCONF": "It cannot save to its disk and takes no writes: its log says why.",
    "CLUSTERDOWN": _DOWN,
    "WRONGTYPE": "A key that begins with actrone: is another application's: give each a database of its own.",
}
"""What to do, by the class of the error or of what caused it, or by the word for it that Redis put into the text."""

UNREACHABLE = "Check that it runs and can be reached; the cause is in `.cause`."


class _Open:
    """The client of one loop, which takes ``most`` calls at once."""

    def __init__(self, client: Any, most: int, *, ours: bool, failures: tuple[type[Exception], ...]) -> None:
        self.client, self._ours, self._failures = client, ours, failures
        self.places = asyncio.Semaphore(most)
        self.ended = asyncio.Event()

    async def close(self) -> None:
        """Close the client, if it is ours. Once more by every call that was under way, for it may have connected."""
        self.ended.set()
        if self._ours:
            with suppress(*self._failures):  # its sockets are closed, whatever they still had to say
                await self.client.aclose()


class RedisClients:
    """Runs the steps of ``script`` in the Redis of ``url``, or of a ``client`` that stays its owner's.

    ``store`` is the name that errors carry. Of each loop at most ``max_connections`` calls run at a time, the others
    wait. A call takes at most ``socket_connect_timeout`` + ``socket_timeout`` seconds, wait and all attempts included.
    Servers that answer with the address of another node are taken for a cluster from then on.

    A ``client`` is used on the loop that runs now, or else on the first that comes; others get one of its kind.
    """

    def __init__(
        self,
        store: str,
        script: str,
        url: str,
        client: Any | None,
        *,
        max_connections: int,
        socket_timeout: float,
        socket_connect_timeout: float,
    ) -> None:
        self._store, self._script = store, script
        self._sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        self._seconds = socket_timeout + socket_connect_timeout
        self._most = max_connections
        timeouts = {"socket_timeout": socket_timeout, "socket_connect_timeout": socket_connect_timeout}
        self._driver = _Driver(url, {"max_connections": max_connections, **timeouts}, client)
        self._home = _running_loop() if client is not None else None
        self._lock = threading.Lock()
        self._clients: LoopClients[_Open] = LoopClients()
        self._closed = False

    async def run(self, step: str, keys: Sequence[str], *arguments: str | bytes, seconds: float | None = None) -> Any:
        """What the step answers, in at most ``seconds``.

        Raises:
            StoreConnectionError: Redis failed, or did not answer in time.
            ConfigurationError: `close` was called, or redis-py cannot work with the settings.
        """
        most = self._seconds if seconds is None else seconds
        failures: list[Exception] = []
        try:
            async with asyncio.timeout(most):
                return await self._attempts(failures, step, keys, arguments)
        except TimeoutError:
            cause = failures[-1] if failures else TimeoutError(f"no answer within {most:g} seconds")
            raise self._error(cause) from cause
        except self._driver.failures as error:
            raise self._error(error) from error

    async def scan(self, pattern: str) -> set[bytes]:
        """The keys of all nodes that match, found by looking through all keys; each page is bounded in time.

        Raises:
            StoreConnectionError: Redis failed, or did not answer in time.
        """
        try:
            opened = await self._opened()
            if await self._driver.is_cluster_in_disguise(opened.client):
                await self._clients.discard(opened)
                opened = await self._opened()
            async with opened.places:
                return {key async for key in opened.client.scan_iter(match=pattern, count=KEYS_PER_PAGE)}
        except self._driver.failures as error:
            raise self._error(error) from error

    async def close(self) -> None:
        """Close every client that was opened here, whatever loop it belongs to. Twice is no error."""
        self._closed = True
        await self._clients.close()

    async def _attempts(
        self, failures: list[Exception], step: str, keys: Sequence[str], arguments: Sequence[str | bytes]
    ) -> Any:
        for pause in _pauses():
            try:
                return await self._attempt((len(keys), *keys, step, *arguments))
            except self._driver.failures as error:
                if self._closed:
                    raise _closed() from None
                failures.append(error)
                if pause is None or not self._driver.may_pass(error):
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, call: Sequence[str | bytes | int]) -> Any:
        opened = await self._opened()
        async with opened.places:
            if opened.ended.is_set():
                return await self._attempt(call)
            try:
                return await self._answer(opened.client, call)
            except self._driver.failures as error:
                if self._driver.is_answer_of_another_node(error):
                    # The next call connects anew: to the nodes of the cluster, to what is the primary by then.
                    await self._clients.discard(opened)
                raise
            finally:
                if opened.ended.is_set():
                    await opened.close()

    async def _answer(self, client: Any, call: Sequence[str | bytes | int]) -> Any:
        try:
            return await client.execute_command("EVALSHA", self._sha, *call)
        except self._driver.unknown_script:
            return await client.execute_command("EVAL", self._script, *call)
        except AttributeError as error:
            # A call to a cluster that fails closes the connections of the others, also those that just connect.
            raise ConnectionError("redis-py closed the connection while it was being used") from error

    async def _opened(self) -> _Open:
        """The running loop's client."""
        self._check_open()
        opened = await self._clients.get(self._new_client)
        if self._closed:
            await self._clients.discard(opened)
            self._check_open()
        return opened

    def _check_open(self) -> None:
        if self._closed:
            raise _closed()

    async def _new_client(self) -> _Open:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._home = self._home or weakref.ref(loop)
            client, ours = self._driver.client(at_home=self._home() is loop)
        most = self._most if ours else min(self._most, self._driver.places(client))
        return _Open(client, most, ours=ours, failures=self._driver.failures)

    def _error(self, cause: BaseException) -> StoreConnectionError:
        classes = [type(cause).__name__, type(cause.__context__).__name__]
        words = [*classes, *re.findall(r"\b[A-Z]{3,}\b", str(cause))]
        advice = next((ADVICE[word] for word in words if word in ADVICE), UNREACHABLE)
        return StoreConnectionError(self._store, cause, advice=advice)


class _Driver:
    """What is asked of redis-py: clients of one server or cluster, and what its errors mean."""

    def __init__(self, url: str, options: dict[str, Any], given: Any) -> None:
        try:
            from redis import exceptions
            from redis.asyncio import Redis, RedisCluster, connection, retry
            from redis.asyncio.cluster import ClusterNode
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise ConfigurationError(
                "The Redis store needs the package redis: pip install 'actrone-memory[redis]'.",
                {"missing": "redis", "extra": "redis"},
            ) from error
        self._redis, self._cluster, self._node, self._connection = Redis, RedisCluster, ClusterNode, connection
        # Attempts are counted here alone: those of redis-py would multiply with ours.
        self._options = {**options, "retry": retry.Retry(NoBackoff(), 0), "protocol": 2}
        self._url, self._given, self._clustered = url, given, False
        self.unknown_script: type[Exception] = exceptions.NoScriptError
        self._ask: type[Exception] = exceptions.AskError
        self.failures: tuple[type[Exception], ...] = (
            exceptions.RedisError,
            exceptions.RedisClusterException,
            OSError,
            EOFError,
        )
        self._final = (exceptions.AuthenticationError, exceptions.AuthorizationError)
        self._passing = (
            exceptions.ConnectionError,
            exceptions.TimeoutError,
            exceptions.TryAgainError,
            exceptions.ClusterError,
            OSError,
            EOFError,
        )
        if given is None:
            self._check_url()
        else:
            self._check_given()

    def may_pass(self, error: Exception) -> bool:
        """Whether another attempt makes sense."""
        passing = isinstance(error, self._passing) and not isinstance(error, self._final)
        return passing or self._has_moved(error)

    def is_answer_of_another_node(self, error: Exception) -> bool:
        """Whether the server is not, or no longer, the one to ask; what it said of a cluster is remembered."""
        if self._has_moved(error):
            if isinstance(self._given, self._redis):
                raise ConfigurationError(
                    "The Redis client that was handed in talks to a cluster: hand in a redis.asyncio.RedisCluster."
                ) from error
            self._clustered = True
            return True
        return "READONLY" in str(error) or type(error).__name__ == "ReadOnlyError"

    async def is_cluster_in_disguise(self, client: Any) -> bool:
        """Whether a client of one server talks to a node of a cluster, which is remembered."""
        if not isinstance(client, self._redis) or not (await client.info("cluster")).get("cluster_enabled"):
            return False
        self._clustered = True
        return self._given is None

    def _has_moved(self, error: Exception) -> bool:
        # A plain client of redis-py 5 makes no class of it, and then leaves the word in the text.
        return isinstance(error, self._ask) or str(error).startswith(("MOVED ", "ASK "))

    def client(self, *, at_home: bool) -> tuple[Any, bool]:
        """A client that is not connected yet, and whether it is ours to close; the given one only ``at_home``."""
        if self._given is not None and at_home:
            return self._given, False
        if self._given is not None:
            return (self._like_cluster() if isinstance(self._given, self._cluster) else self._like()), True
        if self._clustered:
            return self._cluster.from_url(self._url, **self._options), True
        return self._redis.from_pool(self._pool()), True

    def places(self, client: Any) -> int:
        """How many calls a client that was handed in takes at once; one more may be an error instead of a wait."""
        holder = client.connection_pool if isinstance(client, self._redis) else client.nodes_manager
        return int(getattr(holder, "max_connections", None) or holder.connection_kwargs["max_connections"])

    def _pool(self) -> Any:
        return self._connection.ConnectionPool.from_url(self._url, **self._options)

    def _like(self) -> Any:
        pool = self._given.connection_pool
        return self._redis.from_pool(
            self._connection.ConnectionPool(
                connection_class=pool.connection_class, max_connections=pool.max_connections, **pool.connection_kwargs
            )
        )

    def _like_cluster(self) -> Any:
        given = self._given
        accepted = set(inspect.signature(self._cluster.__init__).parameters) - {"host", "port"}
        options = {name: value for name, value in given.connection_kwargs.items() if name in accepted}
        options["ssl"] = given.connection_kwargs.get("connection_class") is self._connection.SSLConnection
        nodes = [self._node(one.host, one.port, **given.connection_kwargs) for one in given.get_nodes()] or [
            self._node(one.host, one.port, **given.connection_kwargs)
            for one in given.nodes_manager.startup_nodes.values()
        ]
        return self._cluster(startup_nodes=nodes, **options)

    def _check_url(self) -> None:
        try:
            self._pool().make_connection()
        except (TypeError, ValueError):  # not chained: what they say may hold the password
            raise ConfigurationError(
                "redis_url is no address that redis-py understands. It looks like redis://user:password@host:6379/0; "
                "rediss:// is for TLS, unix:///path/to/socket for a socket.",
                {"setting": "redis_url"},
            ) from None

    def _check_given(self) -> None:
        if not isinstance(self._given, self._redis | self._cluster):
            raise ConfigurationError(
                f"client must be a redis.asyncio.Redis or RedisCluster, not {type(self._given).__name__}."
            )
        if self._given.get_encoder().decode_responses:
            raise ConfigurationError("client must be made with decode_responses=False: vectors are no text.")


def _running_loop() -> weakref.ref[asyncio.AbstractEventLoop] | None:
    try:
        return weakref.ref(asyncio.get_running_loop())
    except RuntimeError:
        return None


def _pauses() -> Iterator[float | None]:
    """Seconds to wait after each attempt that failed; None after the last."""
    pause = FIRST_PAUSE_SECONDS
    for _ in range(ATTEMPTS - 1):
        yield random.uniform(0, pause)  # noqa: S311 - so that clients do not come back all at once
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    yield None


def _closed() -> ConfigurationError:
    return ConfigurationError("This RedisStore is closed; make a new one.", code="closed")
