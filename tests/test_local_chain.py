"""Which embedder ``embedding_provider="local"`` takes, on a machine without extras and on one without a network."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from actrone_memory import (
    ConfigurationError,
    Embedder,
    EmbedderIdentity,
    HashingEmbedder,
    InMemoryStore,
    LocalEmbedder,
    MemoryConfig,
    MemoryEntry,
    MemoryManager,
    OnnxEmbedder,
    StoreConnectionError,
    _local_chain,
)
from actrone_memory.embedders.static import StaticEmbedder

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
EXTRAS = ("fastembed", "huggingface_hub", "loguru", "onnxruntime", "sentence_transformers", "tokenizers", "torch")
HASHING = MemoryConfig(embedding_provider="hashing", hashing_dimensions=64)
STATIC = StaticEmbedder()

hub_needed = pytest.mark.skipif(find_spec("fastembed") is None, reason="fastembed is not installed: make models")


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain remembers nothing of other tests."""
    monkeypatch.setattr(_local_chain, "_outcomes", {})
    monkeypatch.setattr(_local_chain, "_told", set())


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No extra is installed."""
    for package in EXTRAS:
        monkeypatch.setitem(sys.modules, package, None)


def local(model: str | Path = MINILM) -> MemoryConfig:
    return MemoryConfig(local_model=str(model))


async def embedder_on(store: InMemoryStore, config: MemoryConfig | None = None) -> Embedder:
    """The embedder of a manager on this store; a memory is stored with it and found."""
    manager = await MemoryManager.create(config, l1=store, l2=store)
    await manager.inject_memory("a", "Tests run with vitest.")
    assert len(await manager.search_memories("a", "how do tests run")) == 1
    return manager._embedder.embedder


@pytest.mark.usefixtures("bare")
class TestWithoutExtras:
    async def test_an_empty_store_gets_the_static_embedder_without_a_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "actrone_memory")
        for _ in range(3):
            assert (await embedder_on(InMemoryStore())).name == STATIC.name
        assert [record.levelname for record in caplog.records] == ["INFO"]
        assert STATIC.name in caplog.text

    @pytest.mark.parametrize("dimensions", [64, 256])
    async def test_a_store_filled_by_the_hashing_embedder_keeps_it(self, dimensions: int) -> None:
        store = InMemoryStore()
        hashing = MemoryConfig(embedding_provider="hashing", hashing_dimensions=dimensions)
        assert isinstance(await embedder_on(store, hashing), HashingEmbedder)
        again = await embedder_on(store)
        assert (again.name, again.dimensions) == (HashingEmbedder().name, dimensions)

    async def test_hashing_is_never_taken_unasked(self) -> None:
        store = InMemoryStore()
        await embedder_on(store, HASHING)
        await store.delete_agent_memories("a")
        assert (await embedder_on(store)).name == STATIC.name

    @pytest.mark.parametrize(("kind", "extra"), [(OnnxEmbedder, "onnx"), (LocalEmbedder, "local")])
    async def test_a_store_filled_by_a_model_whose_extra_is_gone_is_an_error_that_names_both_and_the_extra(
        self, kind: type[OnnxEmbedder | LocalEmbedder], extra: str
    ) -> None:
        store = InMemoryStore()
        await store.bind_embedder(EmbedderIdentity(kind.space(MINILM).name, 384))
        await store.upsert(_entry(384))
        with pytest.raises(ConfigurationError) as error:
            await MemoryManager.create(local(), l1=store, l2=store)
        message = error.value.message
        assert kind.space(MINILM).name in message
        assert STATIC.name in message
        assert f"actrone-memory[{extra}]" in message
        assert "reindex" in message
        assert error.value.details["stored"] == {"name": kind.space(MINILM).name, "dimensions": 384}

    async def test_a_store_filled_by_a_stranger_is_an_error_that_names_both(self) -> None:
        store = InMemoryStore()
        await store.bind_embedder(EmbedderIdentity("my-model", 3))
        await store.upsert(_entry(3))
        with pytest.raises(ConfigurationError, match=rf"my-model.*{STATIC.name}.*reindex"):
            await MemoryManager.create(l1=store, l2=store)

    async def test_another_provider_and_an_embedder_handed_in_are_compared_and_not_replaced(self) -> None:
        store = InMemoryStore()
        await embedder_on(store)
        for config, embedder in ((HASHING, None), (MemoryConfig(embedding_provider="local"), HashingEmbedder())):
            with pytest.raises(ConfigurationError, match=rf"{STATIC.name}.*hashing"):
                await MemoryManager.create(config, l1=store, l2=store, embedder=embedder)

    async def test_the_static_provider_is_the_static_embedder(self) -> None:
        assert (await embedder_on(InMemoryStore(), MemoryConfig(embedding_provider="static"))).name == STATIC.name

    async def test_a_model_of_ones_own_choice_that_needs_an_extra_is_told_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(2):
            assert (await embedder_on(InMemoryStore(), local("BAAI/bge-small-en-v1.5"))).name == STATIC.name
        (warning,) = (record for record in caplog.records if record.levelno == logging.WARNING)
        assert "BAAI/bge-small-en-v1.5" in warning.message
        assert "actrone-memory[onnx]" in warning.message

    async def test_a_folder_whose_extra_is_missing_is_refused_by_the_name_of_the_extra(self, tmp_path: Path) -> None:
        (tmp_path / "model.onnx").write_bytes(b"weights")
        (tmp_path / "tokenizer.json").write_text("{}")
        with pytest.raises(ConfigurationError, match=r"local_model.*actrone-memory\[onnx\]"):
            await MemoryManager.create(local(tmp_path))

    @pytest.mark.parametrize("kind", [OnnxEmbedder, LocalEmbedder])
    def test_an_embedder_says_which_extra_brings_its_packages(self, kind: type[OnnxEmbedder | LocalEmbedder]) -> None:
        with pytest.raises(ConfigurationError, match=rf"pip install 'actrone-memory\[{kind.extra}\]'"):
            kind()


@pytest.mark.parametrize("model", ["/no/such/folder", "./none", "../none", "~/none", "a/b/c", "C:\\models", "é è"])
async def test_a_folder_that_does_not_exist_is_refused_at_the_start(model: str) -> None:
    for make in (OnnxEmbedder, LocalEmbedder):
        with pytest.raises(ConfigurationError, match="folder"):
            make(model)
    with pytest.raises(ConfigurationError, match="folder") as error:
        await MemoryManager.create(local(model))
    assert error.value.details["setting"] == "local_model"


async def test_a_folder_without_a_model_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("no model")
    with pytest.raises(ConfigurationError, match=r"no \.onnx file.*no modules\.json"):
        await MemoryManager.create(local(tmp_path))
    (tmp_path / "model.onnx").write_bytes(b"weights without a tokenizer")
    with pytest.raises(ConfigurationError, match=r"tokenizer\.json"):
        OnnxEmbedder(tmp_path)
    (tmp_path / "modules.json").write_text('[{"path": ""}]')
    with pytest.raises(ConfigurationError, match="no weights"):
        LocalEmbedder(tmp_path)


async def test_a_folder_with_several_models_and_no_main_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "onnx").mkdir()
    for name in ("model_O1.onnx", "model_O2.onnx"):
        (tmp_path / "onnx" / name).write_bytes(b"weights")
    with pytest.raises(ConfigurationError, match=r"several.*model_O1"):
        OnnxEmbedder(tmp_path)


@pytest.mark.parametrize("model", ["", " ", None, 7, b"minilm", ["minilm"]])
def test_a_model_is_a_name_or_a_folder(model: object) -> None:
    for make in (OnnxEmbedder, LocalEmbedder):
        with pytest.raises(ConfigurationError, match="neither a folder nor the name of a model"):
            make(model)  # type: ignore[arg-type]


def test_a_folder_is_named_by_its_last_part_and_what_is_in_it(tmp_path: Path) -> None:
    def folder(place: str, weights: bytes = b"weights", tokenizer: str = "{}") -> str:
        made = tmp_path / place / "minilm"
        made.mkdir(parents=True)
        (made / "model.onnx").write_bytes(weights)
        (made / "tokenizer.json").write_text(tokenizer)
        return OnnxEmbedder.space(made).name

    here = folder("here")
    assert here.startswith("onnx-v2:minilm@")
    assert str(tmp_path) not in here
    assert folder("there") == here
    assert len({here, folder("quantised", b"fewer bits"), folder("retrained", tokenizer='{"a": 1}')}) == 3


async def test_a_store_that_cannot_tell_who_filled_it_gets_the_best_embedder(bare: None) -> None:
    class Forgetful(InMemoryStore):
        bind_embedder = None  # type: ignore[assignment]

    assert (await embedder_on(Forgetful())).name == STATIC.name


async def test_a_store_that_fails_when_it_is_asked_is_a_failure_of_the_store(bare: None) -> None:
    class Failing(InMemoryStore):
        async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
            raise OSError("disk full")

    store = Failing()
    with pytest.raises(StoreConnectionError, match="disk full"):
        await MemoryManager.create(l1=store, l2=store)


def run_fresh(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_manager_with_the_default_settings_opens_no_connection() -> None:
    code = """
import asyncio, socket
def forbidden(*args, **kwargs): raise AssertionError(f"a connection was asked for: {args}")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = forbidden
from actrone_memory import create_memory_manager
async def main():
    async with create_memory_manager() as memory:
        await memory.inject_memory("a", "Tests run with vitest.")
        print((await memory.search_memories("a", "how do tests run"))[0].content)
asyncio.run(main())
"""
    assert run_fresh(code) == "Tests run with vitest."


@pytest.fixture
def silent_hub() -> Iterator[str]:
    """The address of a hub that accepts connections, answers that it knows no model, and then never answers again."""
    listener = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            held.append(connection)
            if len(held) == 1:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for connection in held:
        connection.close()
    thread.join()


@hub_needed
def test_a_hub_that_hangs_costs_bounded_time_once_in_a_process(silent_hub: str, tmp_path: Path) -> None:
    code = """
import asyncio, logging, sys, time
sys.modules["sentence_transformers"] = None
from actrone_memory import MemoryManager, _model_embedder
_model_embedder.DOWNLOAD_SECONDS = 1
warnings = []
handler = logging.Handler(logging.WARNING)
handler.emit = lambda record: warnings.append(record.getMessage())
logging.getLogger("actrone_memory").addHandler(handler)
async def main():
    started = time.monotonic()
    for _ in range(3):
        manager = await MemoryManager.create()
    print(manager._embedder.name, time.monotonic() - started < 20, len(warnings))
    assert "1 seconds of downloading" in warnings[0]
asyncio.run(main())
"""
    cache = {"FASTEMBED_CACHE_PATH": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "0"}
    assert run_fresh(code, HF_ENDPOINT=silent_hub, **cache) == f"{STATIC.name} True 1"


@hub_needed
async def test_an_installed_extra_whose_model_cannot_be_had_is_one_warning_and_the_next_is_taken(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    for _ in range(3):
        assert (await embedder_on(InMemoryStore())).name == STATIC.name
    (warning,) = (record for record in caplog.records if record.name == "actrone_memory")
    assert OnnxEmbedder.space(MINILM).name in warning.message
    assert "ACTRONE_LOCAL_MODEL" in warning.message


@hub_needed
@pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed")
async def test_two_extras_that_cannot_have_their_model_are_told_in_one_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("FASTEMBED_CACHE_PATH", "SENTENCE_TRANSFORMERS_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    for _ in range(3):
        assert (await embedder_on(InMemoryStore())).name == STATIC.name
    (warning,) = (
        record for record in caplog.records if record.levelname == "WARNING" and record.name == "actrone_memory"
    )
    for part in (OnnxEmbedder.space(MINILM).name, LocalEmbedder.space(MINILM).name, f"{STATIC.name} is used"):
        assert part in warning.message


def _entry(dimensions: int) -> MemoryEntry:
    vector = [1.0] + [0.0] * (dimensions - 1)
    return MemoryEntry(agent_id="a", session_id="s", content="Old.", content_type="fact", embedding=vector)
