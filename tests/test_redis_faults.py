"""A Redis that is away, slow, full, locked, restarted, or behind a network that misbehaves."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("redis", reason="the extra redis is not installed")

from redis_servers import Proxy, Server, free_port, proxied, running

from actrone_memory import (
    ActroneMemoryError,
    InMemoryStore,
    MemoryConfig,
    MemoryManager,
    RedisStore,
    StoreConnectionError,
    Turn,
)

PASSWORD = "hush-hush"
SLACK_SECONDS = 0.6
"""What a busy machine may add to a deadline."""


def said(text: str, **fields: object) -> Turn:
    return Turn(session_id="s", user_message=text, assistant_message="ok", **fields)


async def kept(store: RedisStore) -> list[str]:
    return [turn.user_message for turn in await store.get_recent_turns("a", "s")]


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds + SLACK_SECONDS


def quick(url: str, **settings: int) -> RedisStore:
    """A store that gives up after half a second."""
    return RedisStore(url, 10_000, socket_timeout=0.25, socket_connect_timeout=0.25, **settings)


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with proxied(server) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[RedisStore]:
    store = quick(proxy.url)
    yield store
    await store.close()


# --- away -------------------------------------------------------------------------------------------------------------


async def test_a_redis_that_is_absent_at_the_start_is_used_once_it_is_there(tmp_path: Path) -> None:
    server = Server("valkey", tmp_path)
    store = quick(server.url)
    with within(0.5), pytest.raises(StoreConnectionError) as error:
        await store.append_turn("a", "s", said("lost"))
    assert error.value.store == "RedisStore"
    assert "Check that it runs" in error.value.message
    server.start()
    try:
        await store.append_turn("a", "s", said("kept"))
        assert await kept(store) == ["kept"]
    finally:
        await store.close()
        server.stop()


async def test_every_acknowledged_turn_survives_a_kill_in_the_middle_once_and_in_order(tmp_path: Path) -> None:
    with running("valkey", tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        store = quick(server.url)
        failed = 0

        async def write() -> None:
            nonlocal failed
            for number in range(600):
                while True:
                    try:
                        await store.append_turn("a", "s", said(str(number), id=str(number)))
                        break
                    except StoreConnectionError:
                        failed += 1

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.1)
        server.stop()
        await asyncio.sleep(0.6)
        assert not writing.done()
        await asyncio.to_thread(server.start)
        await writing
        assert failed
        assert await kept(store) == [str(number) for number in range(600)]
        await store.close()


async def test_a_restart_between_two_calls_goes_unnoticed(tmp_path: Path) -> None:
    with running("valkey", tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        store = quick(server.url)
        await asyncio.gather(*(store.append_turn("a", "s", said(str(number))) for number in range(20)))
        server.stop()
        server.start()
        assert len(await kept(store)) == 20
        await store.close()


@pytest.mark.parametrize("calls", [1, 30])
async def test_connections_that_were_cut_while_idle_are_replaced_unnoticed(
    proxy: Proxy, store: RedisStore, calls: int
) -> None:
    await asyncio.gather(*(store.append_turn("a", "s", said("x")) for _ in range(calls)))
    proxy.cut()
    await asyncio.gather(*(store.append_turn("a", "s", said("y")) for _ in range(calls)))
    assert len(await kept(store)) == 2 * calls


# --- slow -------------------------------------------------------------------------------------------------------------


async def test_a_slow_answer_is_waited_for_and_no_longer_than_promised(proxy: Proxy, store: RedisStore) -> None:
    await store.append_turn("a", "s", said("0"))
    proxy.delay = 0.1
    await store.append_turn("a", "s", said("1"))
    proxy.delay = 1.0
    with within(0.5), pytest.raises(StoreConnectionError):
        await store.append_turn("a", "s", said("2"))
    proxy.delay = 0.0
    await store.append_turn("a", "s", said("3"))


async def test_a_network_that_swallows_everything_costs_no_more_than_promised(proxy: Proxy, store: RedisStore) -> None:
    await store.append_turn("a", "s", said("0"))
    proxy.blackhole = True
    for call in (store.append_turn("a", "s", said("1")), store.get_recent_turns("a", "s"), store.list_sessions("a")):
        with within(0.5), pytest.raises(StoreConnectionError):
            await call
    fresh = quick(proxy.url)
    with within(0.5), pytest.raises(StoreConnectionError):
        await fresh.append_turn("a", "s", said("1"))
    proxy.blackhole = False
    assert await kept(store) == ["0"]
    with within(0.5):
        await fresh.close()


async def test_those_who_wait_for_a_busy_connection_wait_no_longer_than_promised(server: Server) -> None:
    store = quick(server.url, max_connections=1)
    await store.append_turn("a", "s", said("0"))
    server.freeze(2)
    with within(0.5):
        outcomes = await asyncio.gather(
            *(store.append_turn("a", "s", said("x")) for _ in range(8)), return_exceptions=True
        )
    assert all(isinstance(outcome, StoreConnectionError) for outcome in outcomes)
    await asyncio.sleep(2)
    assert (await kept(store))[0] == "0"
    await store.close()


async def test_fifty_calls_share_two_connections(server: Server) -> None:
    store = RedisStore(server.url, 10_000, max_connections=2)
    await asyncio.gather(*(store.append_turn("a", "s", said(str(number))) for number in range(50)))
    assert len(await kept(store)) == 50
    assert server.connections() <= 2
    await store.close()


async def test_a_cancelled_call_leaves_no_answer_behind_for_the_next(proxy: Proxy) -> None:
    store = RedisStore(proxy.url, max_connections=2)
    for session in ("s0", "s1"):
        turn = Turn(session_id=session, user_message=session, assistant_message="")
        await store.append_turn("a", session, turn)
    proxy.delay = 0.01
    chance = random.Random(7)
    for _ in range(40):
        call = asyncio.create_task(store.get_recent_turns("a", "s0"))
        await asyncio.sleep(chance.random() * 0.03)
        call.cancel()
        (turn,) = await store.get_recent_turns("a", "s1")
        assert turn.user_message == "s1"
    await store.close()


# --- lost answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_turn_whose_answer_was_lost_is_stored_once(proxy: Proxy, store: RedisStore, lost: int) -> None:
    await store.append_turn("a", "s", said("0"))
    proxy.lose_answers = lost
    await store.append_turn("a", "s", said("1"))
    await store.append_turn("a", "s", said("2"))
    assert await kept(store) == ["0", "1", "2"]


@pytest.mark.parametrize("bytes_left", [1, 5, 30])
async def test_an_answer_that_was_cut_short_is_asked_for_again(
    proxy: Proxy, store: RedisStore, bytes_left: int
) -> None:
    await store.append_turn("a", "s", said("long " * 100))
    proxy.truncate = bytes_left
    assert await kept(store) == ["long " * 100]


async def test_a_lock_whose_answer_was_lost_is_held_by_who_asked(proxy: Proxy, store: RedisStore) -> None:
    await store.append_turn("a", "s", said("0"))
    proxy.lose_answers = 1
    assert await store.try_acquire_summary_lock("a", "s", 60)
    assert not await store.try_acquire_summary_lock("a", "s", 60)


async def test_turns_keep_their_order_through_a_network_that_breaks_all_the_time(
    proxy: Proxy, store: RedisStore
) -> None:
    stop = threading.Event()

    def break_it() -> None:
        while not stop.wait(0.03):
            proxy.cut()

    breaking = threading.Thread(target=break_it)
    breaking.start()
    try:
        for number in range(300):
            while True:
                try:
                    await store.append_turn("a", "s", said(str(number), id=str(number)))
                    break
                except StoreConnectionError:
                    continue
    finally:
        stop.set()
        breaking.join()
    assert await kept(store) == [str(number) for number in range(300)]


# --- refused ----------------------------------------------------------------------------------------------------------


def told(error: ActroneMemoryError) -> str:
    """All that a log would show of it."""
    return "".join(traceback.format_exception(error)) + f"{error.details} {error.message}"


@pytest.mark.parametrize(
    "address",
    ["redis://127.0.0.1:{port}", "redis://:{wrong}@127.0.0.1:{port}", "redis://{wrong}:{wrong}@127.0.0.1:{port}"],
)
async def test_a_refused_password_is_said_at_once_and_never_shown(
    tmp_path: Path, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with running("valkey", tmp_path, "--requirepass", PASSWORD) as server, proxied(server) as proxy:
        store = quick(address.format(port=proxy.port, wrong="wrong-secret"))
        with within(0.2), pytest.raises(StoreConnectionError) as error:
            await store.append_turn("a", "s", said("0"))
        assert "user and the password in redis_url" in error.value.message
        assert "secret" not in told(error.value) + caplog.text
        assert proxy.accepted == 1
        await store.close()


async def test_the_right_password_is_never_shown_either(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with running("valkey", tmp_path, "--requirepass", PASSWORD) as server:
        store = quick(server.url)
        await store.append_turn("a", "s", said("0"))
        assert await kept(store) == ["0"]
        server.stop()
        with pytest.raises(StoreConnectionError) as error:
            await store.append_turn("a", "s", said("1"))
        assert PASSWORD not in told(error.value) + caplog.text + repr(store)
        await store.close()


async def test_a_user_without_rights_is_told_which_it_needs(server: Server, store: RedisStore) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-evalsha", "-eval")
        try:
            with pytest.raises(StoreConnectionError, match=r"docs/production\.md"):
                await store.append_turn("a", "s", said("0"))
        finally:
            client.execute_command("ACL", "SETUSER", "default", "+@all")


async def test_a_full_redis_writes_nothing_reads_on_and_recovers(server: Server, store: RedisStore) -> None:
    await store.append_turns("a", "s", [said("before")], hold=True)
    stored = sorted(server.key_names())
    with server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            with within(0.1), pytest.raises(StoreConnectionError, match="memory is full and nothing was written"):
                await store.append_turns("a", "s", [said("x"), said("y")], hold=True)
            with pytest.raises(StoreConnectionError, match="memory is full"):
                await store.append_turns("a", "new", [Turn(session_id="new", user_message="x", assistant_message="")])
            assert await kept(store) == ["before"]
        finally:
            client.config_set("maxmemory", 0)
    assert sorted(server.key_names()) == stored
    await store.append_turn("a", "s", said("after"))
    assert await kept(store) == ["before", "after"]


async def test_a_read_only_replica_is_named_as_such_and_read(server: Server, store: RedisStore) -> None:
    await store.append_turn("a", "s", said("before"))
    with server.client() as client:
        client.execute_command("CONFIG", "SET", "replica-serve-stale-data", "yes")
        client.replicaof("127.0.0.1", free_port())
        try:
            with within(0.1), pytest.raises(StoreConnectionError, match="let redis_url name the primary"):
                await store.append_turn("a", "s", said("refused"))
            assert await kept(store) == ["before"]
        finally:
            client.replicaof("NO", "ONE")
    await store.append_turn("a", "s", said("after"))
    assert await kept(store) == ["before", "after"]


async def test_keys_of_another_application_are_named_as_the_cause(server: Server, store: RedisStore) -> None:
    with server.client() as client:
        client.set("actrone:{a}:log:s", "not ours")
    with pytest.raises(StoreConnectionError, match="another application"):
        await store.append_turn("a", "s", said("0"))


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port that answers whatever it is asked with the same bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                with connection:
                    while asked := connection.recv(65_536):
                        commands = re.findall(rb"^\*\d+\r$", asked, re.MULTILINE)
                        connection.sendall(answer * max(1, len(commands)))
            except OSError:
                if listener.fileno() < 0:
                    return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        (b"-LOADING Redis is loading the dataset in memory\r\n", "answers when that is done"),
        (b"-MISCONF Redis is configured to save RDB snapshots\r\n", "cannot save to its disk"),
        (b"-CLUSTERDOWN The cluster is down\r\n", "does not serve all slots"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Check that it runs"),
    ],
)
async def test_what_a_server_says_instead_of_an_answer_is_told_with_advice(answer: bytes, advice: str) -> None:
    with answering(answer) as port:
        store = quick(f"redis://127.0.0.1:{port}")
        with within(0.5), pytest.raises(StoreConnectionError, match=advice):
            await store.append_turn("a", "s", said("0"))
        await store.close()


# --- encrypted --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def encrypted(server: Server, tmp_path: Path) -> AsyncIterator[int]:
    """The port of a TLS front of the server; its certificate is ``cert.pem``."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(pump(reader, requests), pump(answers, writer))

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
        sink.close()

    front = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield front.sockets[0].getsockname()[1]
    front.close()
    await front.wait_closed()
    await asyncio.sleep(0.05)


async def test_an_encrypted_connection_is_made_to_whom_is_trusted_alone(encrypted: int, tmp_path: Path) -> None:
    trusting = quick(f"rediss://localhost:{encrypted}?ssl_ca_certs={tmp_path / 'cert.pem'}")
    await trusting.append_turn("a", "s", said("hush"))
    assert await kept(trusting) == ["hush"]
    await trusting.close()
    wary = quick(f"rediss://localhost:{encrypted}")
    with within(0.5), pytest.raises(StoreConnectionError, match="certificate is not trusted"):
        await kept(wary)
    await wary.close()


# --- the manager ------------------------------------------------------------------------------------------------------


async def test_a_manager_goes_on_when_redis_is_back_and_archives_what_waited(proxy: Proxy) -> None:
    config = MemoryConfig(
        backend="redis_qdrant",
        redis_url=proxy.url,
        redis_socket_timeout=0.25,
        redis_socket_connect_timeout=0.25,
        embedding_provider="hashing",
    )
    memory = await MemoryManager.create(config, l2=InMemoryStore())
    await memory.store_turn("a", "s", "before", "ok")
    await memory.drain()
    proxy.blackhole = True
    with within(0.5), pytest.raises(StoreConnectionError):
        await memory.store_turn("a", "s", "lost", "ok")
    with within(0.75), pytest.raises(StoreConnectionError):
        await memory.retrieve_context("a", "s", "before", 800)
    with within(1.0):
        await memory.inject_memory("a", "Memories need no Redis.")
    proxy.blackhole = False
    await memory.store_turn("a", "s", "after", "ok")
    await memory.drain()
    archived = await memory.list_memories("a", content_types=["turn"])
    assert [entry.content.split("\n")[0] for entry in archived] == ["User: before", "User: after"]
    assert memory.background_failures
    await memory.close()
