"""Cross-encoders: tiny ones, made here and loaded as real ones are."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actrone_memory import ConfigurationError, CrossEncoderReranker, MemoryConfig, MemoryManager, Reranker, _factory

NEEDED = "fastembed onnx onnxruntime sentence_transformers tokenizers torch".split()
MISSING = [package for package in NEEDED if find_spec(package) is None]
models_needed = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)}: not installed, make models brings them"
)

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue", "what"]
WORTH = np.array([[0], [0], [0], [0], [3], [2], [1], [0]], np.float32)
"""What a word says about any query: red is what everybody looks for."""


@pytest.fixture(autouse=True)
def _new_process() -> None:
    _factory._reranker.cache_clear()


def words_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def onnx_model(folder: Path, outputs: int = 1) -> Path:
    """A folder with a model that adds up what the words of the text are worth; those of the query do not count."""
    from onnx import TensorProto, helper, numpy_helper, save

    table = np.hstack([-WORTH, WORTH]) if outputs == 2 else np.repeat(WORTH, outputs, axis=1)
    folder.mkdir(parents=True, exist_ok=True)
    shape = ["pairs", "tokens"]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["worth"]),
        helper.make_node("Cast", ["token_type_ids"], ["in_text"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["in_text", "last"], ["mask"]),
        helper.make_node("Mul", ["worth", "mask"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "middle"], ["logits"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "token_type_ids")],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["pairs", outputs])],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([2]), "last"),
            numpy_helper.from_array(np.array([1]), "middle"),
        ],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx")
    words_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def torch_model(folder: Path) -> Path:
    """A folder with a BERT of random weights that gives a pair one number."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    torch.manual_seed(1)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(WORDS), num_labels=1, max_position_embeddings=64, **small)
    BertForSequenceClassification(config).save_pretrained(folder)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=words_tokenizer(), model_max_length=64, **special).save_pretrained(folder)
    return folder


@models_needed
class TestModels:
    async def test_a_folder_with_onnx_is_run_by_onnxruntime(self, tmp_path: Path) -> None:
        reranker = CrossEncoderReranker(onnx_model(tmp_path))
        assert isinstance(reranker, Reranker)
        assert await reranker.rerank("what red red", ["blue", "red green", "what"]) == [1, 5, 0]
        assert await reranker.rerank("what", []) == []

    async def test_of_two_numbers_the_last_says_how_relevant_a_text_is(self, tmp_path: Path) -> None:
        scores = await CrossEncoderReranker(onnx_model(tmp_path, outputs=2)).rerank("what", ["blue", "red"])
        assert scores == sorted(scores)
        assert len(set(scores)) == 2

    async def test_a_folder_with_weights_is_run_by_sentence_transformers(self, tmp_path: Path) -> None:
        folder = torch_model(tmp_path)
        reranker, again = CrossEncoderReranker(folder), CrossEncoderReranker(str(folder))
        texts = ["red", "green blue", "what", "red red red"]
        scores = await reranker.rerank("what", texts)
        assert len(set(scores)) == len(texts)
        assert await again.rerank("what", texts) == pytest.approx(scores, abs=1e-5)
        for text, score in zip(texts, scores, strict=True):
            assert await reranker.rerank("what", [text]) == pytest.approx([score], abs=1e-5)

    async def test_many_and_long_texts_are_scored_in_order(self, tmp_path: Path) -> None:
        reranker = CrossEncoderReranker(onnx_model(tmp_path))
        texts = ["red " * (i % 7) for i in range(100)]
        assert await reranker.rerank("what", texts) == [3 * (i % 7) for i in range(100)]
        (long,) = await reranker.rerank("what " * 200_000, ["red " * 200_000])
        assert 0 <= long <= 3 * 512

    async def test_the_event_loop_goes_on_while_texts_are_scored(self, tmp_path: Path) -> None:
        reranker = CrossEncoderReranker(torch_model(tmp_path))
        scoring = asyncio.create_task(reranker.rerank("what", ["red blue " * 30] * 3_000))
        started = last = time.perf_counter()
        longest = 0.0
        while not scoring.done():
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        assert longest < (time.perf_counter() - started) / 2

    def test_sixteen_threads_may_score_at_once(self, tmp_path: Path) -> None:
        reranker = CrossEncoderReranker(onnx_model(tmp_path))

        def scores(_: int) -> list[float]:
            return asyncio.run(reranker.rerank("what", ["red", "blue"]))

        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(scores, range(320))) == [[3, 1]] * 320

    def test_what_is_no_cross_encoder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"no cross-encoder: it makes 5 numbers"):
            CrossEncoderReranker(onnx_model(tmp_path / "five", outputs=5))
        (tmp_path / "empty").mkdir()
        with pytest.raises(ConfigurationError, match=r"neither an \.onnx file nor a config\.json"):
            CrossEncoderReranker(tmp_path / "empty")
        onnx_model(tmp_path / "damaged")
        (tmp_path / "damaged" / "model.onnx").write_bytes(b"cut short")
        with pytest.raises(ConfigurationError, match=r"damaged.*cannot be loaded"):
            CrossEncoderReranker(tmp_path / "damaged")

    async def test_a_manager_orders_its_results_by_it_and_shares_it(self, tmp_path: Path) -> None:
        folder = onnx_model(tmp_path)
        config = MemoryConfig(rerank_enabled=True, rerank_model=str(folder), embedding_provider="hashing")
        memory, other = await MemoryManager.create(config), await MemoryManager.create(config)
        assert memory._recall._reranker is other._recall._reranker
        for text in ("paint blue", "paint green", "paint red"):
            await memory.inject_memory("a", text)
        found = [entry.content for entry in await memory.search_memories("a", "paint blue")]
        assert found == ["paint red", "paint green", "paint blue"]
        assert memory.background_failures == 0
        await memory.close()
        await other.close()

    async def test_a_model_that_cannot_be_had_now_is_told_counted_and_done_without(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def refuse(*_: object) -> None:
            raise OSError("no network")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        memory = await MemoryManager.create(MemoryConfig(rerank_enabled=True, embedding_provider="hashing"))
        assert memory.background_failures == 1
        assert "Loading the reranker failed: rerank_enabled=True, rerank_model='Xenova/" in caplog.text
        await memory.inject_memory("a", "what is blue")
        assert len(await memory.search_memories("a", "what is blue")) == 1
        assert memory.background_failures == 1
        await memory.close()


@pytest.mark.parametrize("model", ["/no/such/folder", "two words", "a/b/c"])
async def test_what_names_no_model_is_refused_with_the_setting(model: str) -> None:
    with pytest.raises(ConfigurationError, match=f"rerank_model={model!r}.*neither a folder.*like 'Xenova/"):
        await MemoryManager.create(MemoryConfig(rerank_enabled=True, rerank_model=model))


async def test_a_folder_is_refused_when_the_package_that_runs_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("onnxruntime", "sentence_transformers", "fastembed"):
        monkeypatch.setitem(sys.modules, package, None)
    for file, extra in (("config.json", "local"), ("model.onnx", "onnx")):
        (tmp_path / file).write_text("{}")
        with pytest.raises(ConfigurationError, match=rf"rerank_enabled=True.*actrone-memory\[{extra}\]"):
            await MemoryManager.create(MemoryConfig(rerank_enabled=True, rerank_model=os.fspath(tmp_path)))
    with pytest.raises(ConfigurationError, match=r"rerank_enabled=True.*actrone-memory\[onnx\]"):
        await MemoryManager.create(MemoryConfig(rerank_enabled=True))
