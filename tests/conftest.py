"""What every test shares: a manager on the in-process store."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from actrone_memory import MemoryConfig, MemoryManager

if TYPE_CHECKING:
    from redis_servers import Server

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the hub's client is imported: no test downloads anything
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what runs in its background
    signal.signal(signal.SIGINT, signal.default_int_handler)
if llama_index := find_spec("llama_index"):  # it ships two of tiktoken's vocabularies
    folder = Path(next(iter(llama_index.submodule_search_locations or []))) / "core" / "_static" / "tiktoken_cache"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)


if find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("any machine", deadline=None)  # a busy one takes its time with a first example
    settings.load_profile("any machine")


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


@pytest.fixture(scope="session", params=["redis", "valkey"])
def _running_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from redis_servers import running  # only where its tests run must redis be installed

    with running(request.param, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture
def server(_running_server: Server) -> Server:
    """An empty Redis 6.2, and again an empty Valkey."""
    with _running_server.client() as client:
        client.flushall()
        client.config_resetstat()
    return _running_server
