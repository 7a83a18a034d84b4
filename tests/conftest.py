"""What every test shares: a manager on the in-process store."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from actrone_memory import MemoryConfig, MemoryManager

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the hub's client is imported: no test downloads anything


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No setting and no .env file of the machine reaches a test."""
    monkeypatch.chdir(tmp_path_factory.mktemp("cwd"))
    for name in ("BACKEND", "EMBEDDING_PROVIDER", "LOCAL_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(f"ACTRONE_{name}", raising=False)


@pytest.fixture
async def memory() -> AsyncIterator[MemoryManager]:
    """A manager with the default settings; background failures fail the test."""
    manager = await MemoryManager.create(MemoryConfig(strict_background_errors=True))
    yield manager
    await manager.close()
