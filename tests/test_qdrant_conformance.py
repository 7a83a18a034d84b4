"""The Qdrant store against the contract: in the client's local mode, and over HTTP with Qdrant's engine behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")

from qdrant_server import running

from actrone_memory import QdrantStore
from actrone_memory.testing import L2StoreConformance


class TestQdrantInMemory(L2StoreConformance):
    async def make_store(self) -> QdrantStore:
        return QdrantStore(":memory:")


class TestQdrantOverHttp(L2StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        with running() as server:
            self.url = server.url
            yield

    async def make_store(self) -> QdrantStore:
        return QdrantStore(self.url)
