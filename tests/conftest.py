"""What every test shares: a manager on the in-process store."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from actrone_memory import MemoryConfig, MemoryManager

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the hub's client is imported: no test downloads anything
if llama_index := find_spec("llama_index"):  # it ships two of tiktoken's vocabularies
    folder = Path(next(iter(llama_index.submodule_search_locations or []))) / "core" / "_static" / "tiktoken_cache"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)


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
