"""The shipped parts against the shipped contract."""

from actrone_memory import Embedder, HashingEmbedder, InMemoryStore, StaticEmbedder
from actrone_memory.testing import EmbedderConformance, L1StoreConformance, L2StoreConformance


class TestInMemoryL1(L1StoreConformance):
    async def make_store(self, max_turns: int) -> InMemoryStore:
        return InMemoryStore(max_turns)


class TestInMemoryL2(L2StoreConformance):
    async def make_store(self) -> InMemoryStore:
        return InMemoryStore()


class TestHashingEmbedder(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        return HashingEmbedder()


class TestStaticEmbedder(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        return StaticEmbedder()
