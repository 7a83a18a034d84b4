"""The Qdrant store against the contract, in the client's local mode and over HTTP."""

from __future__ import annotations

from actrone_memory.stores.qdrant import QdrantStore
from actrone_memory.testing import L2StoreConformance


class TestQdrantInMemory(L2StoreConformance):
    async def make_store(self) -> QdrantStore:
        return QdrantStore(":memory:")
