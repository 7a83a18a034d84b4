"""A cross-encoder reads a query and a text together and says how well they match (extra ``onnx`` or ``local``)."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from actrone_memory import _validation
from actrone_memory._model_embedder import BATCH_SIZE, fetched, loaded, model_folder, refused
from actrone_memory._onnx_folder import batch_size, onnx_file, quiet_fastembed, tokenizer
from actrone_memory.config import CROSS_ENCODER
from actrone_memory.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_READ = 4_000
"""Characters of a query or a text that are read: the models end at 512 tokens."""

MAX_TOKENS = 512
"""Where query and text together are truncated when the folder does not say: what such models were made for."""

TORCH_NAMES = {CROSS_ENCODER: "cross-encoder/ms-marco-MiniLM-L6-v2"}
"""The same weights for sentence-transformers, under the name of those who made them."""


class _Model(NamedTuple):
    score: Callable[[str, Sequence[str]], Sequence[float]]
    """A query and a few texts to one score each; called by one thread at a time."""
    batch_size: int = BATCH_SIZE


class CrossEncoderReranker:
    """Scores texts against a query with a model in this process, on a thread of its own.

    ``model`` is a folder with an ``.onnx`` file (there or in ``onnx/``) and a ``tokenizer.json``, which onnxruntime
    runs, or with a ``config.json`` and weights for sentence-transformers; or the name of a model, which fastembed or
    sentence-transformers downloads once if it is not on this machine.

    Raises:
        ConfigurationError: a package is missing, the folder holds no such model, or the model cannot be had.
    """

    def __init__(self, model: str | Path = CROSS_ENCODER) -> None:
        self._model = _loaded(model)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="actrone-reranker")

    async def rerank(self, query: str, texts: list[str]) -> list[float]:
        """One score for each text, in order; higher is better, and only the scores of one query compare."""
        query = _validation.text(query, "query")[:LONGEST_READ]
        texts = [text[:LONGEST_READ] for text in _validation.texts(texts, "texts")]
        loop = asyncio.get_running_loop()
        scores: list[float] = []
        for start in range(0, len(texts), self._model.batch_size):
            batch = texts[start : start + self._model.batch_size]
            scores += map(float, await loop.run_in_executor(self._worker, self._model.score, query, batch))
        return scores


def _loaded(model: str | Path) -> _Model:
    folder = model_folder(model, CROSS_ENCODER)
    if folder is not None:
        return _from_folder(folder)
    if _is_installed("fastembed"):
        return fetched(str(model), lambda local: _fastembed(str(model), local))
    _require("fastembed", "onnx", _is_installed("sentence_transformers"))
    name = TORCH_NAMES.get(str(model), str(model))
    return fetched(name, lambda local: _torch(name, local))


def _from_folder(folder: Path) -> _Model:
    if any(folder.glob("*.onnx")) or any(folder.glob("onnx/*.onnx")):
        _require("onnxruntime", "onnx", _is_installed("onnxruntime") and _is_installed("tokenizers"))
        weights = onnx_file(folder)
        return loaded(folder, lambda: _onnx(folder, weights))
    if (folder / "config.json").is_file():
        _require("sentence-transformers", "local", _is_installed("sentence_transformers"))
        return loaded(folder, lambda: _torch(str(folder), True))
    raise refused(folder, "has neither an .onnx file nor a config.json with weights")


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _require(package: str, extra: str, installed: bool) -> None:
    if not installed:
        raise ConfigurationError(
            f"CrossEncoderReranker needs {package}: pip install 'actrone-memory[{extra}]'.",
            {"missing": package, "extra": extra},
        )


def _onnx(folder: Path, weights: Path) -> _Model:
    from onnxruntime import InferenceSession

    tokens = tokenizer(folder, MAX_TOKENS)
    session = InferenceSession(str(weights), providers=["CPUExecutionProvider"])
    takes = {given.name for given in session.get_inputs()}
    output = session.get_outputs()[0].name

    def score(query: str, texts: Sequence[str]) -> Sequence[float]:
        encodings = tokens.encode_batch([(query, text) for text in texts])
        inputs = {
            "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encodings], np.int64),
            "token_type_ids": np.array([encoding.type_ids for encoding in encodings], np.int64),
        }
        (rows,) = session.run([output], {name: values for name, values in inputs.items() if name in takes})
        return _relevance(rows)

    score("query", ["text"])  # a model that is no cross-encoder is refused when it is loaded
    return _Model(score, batch_size(weights))


def _torch(model: str, local_files_only: bool) -> _Model:
    from sentence_transformers import CrossEncoder

    encoder = CrossEncoder(model, local_files_only=local_files_only)

    def score(query: str, texts: Sequence[str]) -> Sequence[float]:
        pairs = [(query, text) for text in texts]
        return _relevance(encoder.predict(pairs, batch_size=len(pairs), show_progress_bar=False))

    score("query", ["text"])
    return _Model(score)


def _fastembed(name: str, local_files_only: bool) -> _Model:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    with quiet_fastembed():
        encoder = TextCrossEncoder(name, providers=["CPUExecutionProvider"], local_files_only=local_files_only)
    return _Model(lambda query, texts: list(encoder.rerank(query, texts, batch_size=len(texts))))


def _relevance(rows: NDArray[np.float32]) -> Sequence[float]:
    """The one number of each pair; of two, that of "relevant", which comes last."""
    scores = np.asarray(rows, np.float64)
    if scores.ndim == 2 and scores.shape[1] in {1, 2}:
        scores = scores[:, -1] - (scores[:, 0] if scores.shape[1] == 2 else 0)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise ValueError(f"it is no cross-encoder: it makes {'x'.join(map(str, scores.shape[1:]))} numbers of a pair")
    found: list[float] = scores.tolist()
    return found
