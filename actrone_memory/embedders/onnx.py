"""A sentence model run by onnxruntime in this process (extra ``onnx``): loads in a second, needs no torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from actrone_memory._model_embedder import (
    BATCH_SIZE,
    Encode,
    ModelEmbedder,
    fetched,
    loaded,
    model_folder,
    present,
    refused,
)
from actrone_memory.config import MINILM

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOKENIZER = "tokenizer.json"
SENTENCE_CONFIG = "sentence_bert_config.json"
POOLING_CONFIG = "1_Pooling/config.json"

SENTENCE_OUTPUT = "sentence_embedding"
"""What exporters call an output that is one vector for each text already."""

MAX_TOKENS = 256
"""Where texts are truncated when the folder does not say: what MiniLM was made for."""

QUANTISES_PER_BATCH = b"DynamicQuantizeLinear"
"""An operation that scales by the largest value of the whole batch: a vector then depends on the texts beside it."""


class OnnxEmbedder(ModelEmbedder):
    """Embeds with an ONNX model in this process, on a thread of its own; vectors have the length 1.

    Texts are truncated where the model says (all-MiniLM-L6-v2: after 256 tokens). ``model`` is a folder with an
    ``.onnx`` file (there or in ``onnx/``) and a ``tokenizer.json``, or the name of a model that fastembed knows, which
    is downloaded once if it is not on this machine.

    Raises:
        ConfigurationError: a package is missing, the folder holds no such model, or the model cannot be had.
    """

    recipe: ClassVar[str] = "onnx-v1"
    extra: ClassVar[str] = "onnx"

    def __init__(self, model: str | Path = MINILM) -> None:
        folder = model_folder(model)
        space = self.space(model)
        self.require_packages(model)
        if folder is None:
            super().__init__(space, fetched(str(model), _fastembed(str(model))))
        else:
            weights, _ = self.files(folder)
            super().__init__(space, loaded(model, lambda: _folder_encoder(folder, weights)), _batch_size(weights))

    @classmethod
    def packages(cls, model: str | Path) -> tuple[str, ...]:
        """See `ModelEmbedder`."""
        return ("fastembed",) if model_folder(model) is None else ("onnxruntime", "tokenizers")

    @classmethod
    def files(cls, folder: Path) -> tuple[Path, list[Path]]:
        """See `ModelEmbedder`."""
        models = [path for place in (folder, folder / "onnx") for path in sorted(place.glob("*.onnx"))]
        named = [path for path in models if path.name == "model.onnx"] or models
        if not named or not (folder / TOKENIZER).is_file():
            raise refused(folder, f"has no .onnx file with a {TOKENIZER}")
        if len(named) > 1 and named is models:
            raise refused(folder, f"has several models and none of them is model.onnx: {[p.name for p in models]}")
        weights = named[0]
        outside = sorted(weights.parent.glob(f"{weights.name}?*"))  # weights of large models, in files beside theirs
        return weights, [weights, *outside, *present(folder, (TOKENIZER, SENTENCE_CONFIG, POOLING_CONFIG))]


def _batch_size(weights: Path) -> int:
    return 1 if QUANTISES_PER_BATCH in weights.read_bytes() else BATCH_SIZE


def _folder_encoder(folder: Path, weights: Path) -> Encode:
    from onnxruntime import InferenceSession

    tokenizer = _tokenizer(folder)
    session = InferenceSession(str(weights), providers=["CPUExecutionProvider"])
    takes = {given.name for given in session.get_inputs()}
    outputs = [output.name for output in session.get_outputs()]
    output = SENTENCE_OUTPUT if SENTENCE_OUTPUT in outputs else outputs[0]
    pool = _first_token if _read(folder / POOLING_CONFIG).get("pooling_mode_cls_token") else _mean

    def encode(texts: list[str]) -> NDArray[np.float32]:
        encodings = tokenizer.encode_batch(texts)
        inputs = {
            "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encodings], np.int64),
            "token_type_ids": np.array([encoding.type_ids for encoding in encodings], np.int64),
        }
        (rows,) = session.run([output], {name: values for name, values in inputs.items() if name in takes})
        vectors: NDArray[np.float32] = rows if rows.ndim == 2 else pool(rows, inputs["attention_mask"])
        return vectors

    return encode


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    truncation, padding = tokenizer.truncation or {}, tokenizer.padding or {}
    longest = _read(folder / SENTENCE_CONFIG).get("max_seq_length") or truncation.get("max_length") or MAX_TOKENS
    tokenizer.enable_truncation(longest)
    tokenizer.enable_padding(pad_id=padding.get("pad_id", 0), pad_token=padding.get("pad_token", "[PAD]"))
    return tokenizer


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return content


def _mean(tokens: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    """The mean of the vectors of each text's own tokens; ``tokens`` is texts x tokens x dimensions."""
    weights = mask[:, :, None].astype(np.float32)
    means: NDArray[np.float32] = (tokens * weights).sum(axis=1) / weights.sum(axis=1)
    return means


def _first_token(tokens: NDArray[np.float32], _mask: NDArray[np.int64]) -> NDArray[np.float32]:
    return tokens[:, 0]


def _fastembed(name: str) -> Callable[[bool], Encode]:
    def load(local_files_only: bool) -> Encode:
        from fastembed import TextEmbedding

        with _quiet_fastembed():
            model = TextEmbedding(name, providers=["CPUExecutionProvider"], local_files_only=local_files_only)
        return lambda texts: np.stack(list(model.embed(texts, batch_size=len(texts))))

    return load


@contextmanager
def _quiet_fastembed() -> Iterator[None]:
    """Without this, fastembed prints errors about a model that merely has not been downloaded yet."""
    from loguru import logger

    logger.disable("fastembed")
    try:
        yield
    finally:
        logger.enable("fastembed")
