"""One client for each event loop: made once, closed once, whoever comes first."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from actrone_memory._loop_clients import LoopClients


class Client:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = 0

    async def close(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        self.closed += 1


async def make() -> Client:
    await asyncio.sleep(0)
    return Client()


async def test_all_who_ask_on_one_loop_get_one_client() -> None:
    clients: LoopClients[Client] = LoopClients()
    got = await asyncio.gather(*(clients.get(make) for _ in range(20)))
    assert len({id(client) for client in got}) == 1
    await clients.close()
    await clients.close()
    assert got[0].closed == 1


async def test_after_close_there_is_a_new_client() -> None:
    clients: LoopClients[Client] = LoopClients()
    first = await clients.get(make)
    await clients.close()
    second = await clients.get(make)
    assert second is not first
    await clients.close()
    assert (first.closed, second.closed) == (1, 1)


async def test_a_client_that_is_discarded_is_closed_and_replaced_once() -> None:
    clients: LoopClients[Client] = LoopClients()
    first = await clients.get(make)
    await asyncio.gather(*(clients.discard(first) for _ in range(3)))
    second = await clients.get(make)
    await clients.discard(first)
    assert await clients.get(make) is second
    assert first.closed == 1
    await clients.close()


async def test_a_client_that_could_not_be_made_is_made_for_the_next_who_asks() -> None:
    async def fail() -> Client:
        raise OSError("no route")

    clients: LoopClients[Client] = LoopClients()
    with pytest.raises(OSError, match="no route"):
        await clients.get(fail)
    assert (await clients.get(make)).closed == 0
    await clients.close()


async def test_who_gives_up_waiting_does_not_keep_the_others_from_their_client() -> None:
    clients: LoopClients[Client] = LoopClients()
    impatient, patient = (asyncio.create_task(clients.get(make)) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).closed == 0
    await clients.close()


def test_a_loop_that_ends_closes_its_client() -> None:
    clients: LoopClients[Client] = LoopClients()
    first = asyncio.run(clients.get(make))
    second = asyncio.run(clients.get(make))
    assert second is not first
    assert (first.closed, second.closed) == (1, 1)


def test_clients_of_other_threads_are_closed_on_their_loops() -> None:
    clients: LoopClients[Client] = LoopClients()
    loops = [asyncio.new_event_loop() for _ in range(3)]
    threads = [threading.Thread(target=loop.run_forever) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        got = [asyncio.run_coroutine_threadsafe(clients.get(make), loop).result(5) for loop in loops]
        asyncio.run(clients.close())
        assert [client.closed for client in got] == [1, 1, 1]
    finally:
        for loop, thread in zip(loops, threads, strict=True):
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def test_a_loop_that_hangs_is_not_waited_for_longer_than_a_second() -> None:
    clients: LoopClients[Client] = LoopClients()
    loop, goes_on = asyncio.new_event_loop(), threading.Event()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        client = asyncio.run_coroutine_threadsafe(clients.get(make), loop).result(5)
        loop.call_soon_threadsafe(goes_on.wait)
        started = time.monotonic()
        asyncio.run(clients.close())
        assert time.monotonic() - started < 5
        assert client.closed == 0
        goes_on.set()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), loop).result(5)
        assert client.closed == 1
    finally:
        goes_on.set()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def test_clients_that_nobody_holds_are_closed() -> None:
    clients: LoopClients[Client] = LoopClients()
    client = await clients.get(make)
    del clients
    gc.collect()
    async with asyncio.timeout(5):
        while not client.closed:  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0.01)
