"""The store in Redis against the shipped contract: on Redis 6.2, on Valkey, on clusters of one node and of three."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

pytest.importorskip("redis", reason="the extra redis is not installed")

from redis_servers import Server, cluster, running

from actrone_memory import RedisStore
from actrone_memory.testing import L1StoreConformance


@pytest.fixture(scope="module")
def redis_62(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with running("redis", tmp_path_factory.mktemp("redis")) as server:
        yield [server]


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with running("valkey", tmp_path_factory.mktemp("valkey")) as server:
        yield [server]


@pytest.fixture(scope="module")
def cluster_of_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with cluster("redis", tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


@pytest.fixture(scope="module")
def cluster_of_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with cluster("valkey", tmp_path_factory.mktemp("cluster"), nodes=3) as servers:
        yield servers


class _OnServers(L1StoreConformance):
    """Each test begins on empty servers."""

    servers: ClassVar[str]

    @pytest.fixture(autouse=True)
    def _empty(self, request: pytest.FixtureRequest) -> None:
        servers: list[Server] = request.getfixturevalue(self.servers)
        self.url = servers[0].url
        for server in servers:
            with server.client() as client:
                client.flushall()

    async def make_store(self, max_turns: int) -> RedisStore:
        return RedisStore(self.url, max_turns)


class TestRedis(_OnServers):
    servers = "redis_62"


class TestValkey(_OnServers):
    servers = "valkey"


class TestClusterOfOneNode(_OnServers):
    servers = "cluster_of_one"


class TestClusterOfThreeNodes(_OnServers):
    servers = "cluster_of_three"
