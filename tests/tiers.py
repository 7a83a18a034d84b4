"""The two tiers of each backend, empty, for tests that hold on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from actrone_memory import InMemoryStore, QdrantStore, RedisStore, SQLiteStore

KINDS = ["memory", "sqlite", "redis_qdrant"]


class Tiers(NamedTuple):
    """Both tiers; the embedded backends have one store for the two."""

    l1: InMemoryStore | SQLiteStore | RedisStore
    l2: InMemoryStore | SQLiteStore | QdrantStore


MakeTiers = Callable[[], Tiers]


@contextmanager
def of(kind: str, folder: Path, max_turns: int = 50) -> Iterator[MakeTiers]:
    """Makes empty tiers of one kind, any number of them, each apart from the others."""
    numbers = count()
    match kind:
        case "memory":
            yield lambda: _one(InMemoryStore(max_turns))
        case "sqlite":
            yield lambda: _one(SQLiteStore(folder / f"{next(numbers)}.db", max_turns))
        case "redis_qdrant":
            pytest.importorskip("redis", reason="the extra redis is not installed")
            pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")
            import qdrant_server
            import redis_servers

            with redis_servers.running("redis", folder) as redis, qdrant_server.running() as qdrant:

                def tiers() -> Tiers:
                    number = next(numbers)
                    turns = RedisStore(f"{redis.url}/{number}", max_turns)
                    return Tiers(turns, QdrantStore(qdrant.url, collection=f"memories-{number}"))

                yield tiers


def _one(store: InMemoryStore | SQLiteStore) -> Tiers:
    return Tiers(store, store)
