"""The shipped parts against the shipped contract."""

from pathlib import Path

import pytest

from actrone_memory import Embedder, HashingEmbedder, InMemoryStore, SQLiteStore, StaticEmbedder
from actrone_memory.testing import EmbedderConformance, L1StoreConformance, L2StoreConformance


class TestInMemoryL1(L1StoreConformance):
    async def make_store(self, max_turns: int) -> InMemoryStore:
        return InMemoryStore(max_turns)


class TestInMemoryL2(L2StoreConformance):
    async def make_store(self) -> InMemoryStore:
        return InMemoryStore()


class TestSQLiteL1(L1StoreConformance):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "memory.db"

    async def make_store(self, max_turns: int) -> SQLiteStore:
        return SQLiteStore(self.path, max_turns)


class TestSQLiteL2(L2StoreConformance):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "memory.db"

    async def make_store(self) -> SQLiteStore:
        return SQLiteStore(self.path)


class TestHashingEmbedder(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        return HashingEmbedder()


class TestStaticEmbedder(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        return StaticEmbedder()
