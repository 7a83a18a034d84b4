"""A sentence model run by onnxruntime in this process (extra ``onnx``): loads in a second, needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from actrone_memory._model_embedder import Encode, ModelEmbedder, fetched, loaded, model_folder, present
from actrone_memory._onnx_folder import (
    SENTENCE_CONFIG,
    TOKENIZER,
    batch_size,
    onnx_file,
    quiet_fastembed,
    read,
    tokenizer,
)
from actrone_memory.config import MINILM

if TYPE_CHECKING:
    from numpy.typing import NDArray

POOLING_CONFIG = "1_Pooling/config.json"

SENTENCE_OUTPUT = "sentence_embedding"
"""What exporters call an output that is one vector for each text already."""

MAX_TOKENS = 256
"""Where texts are truncated when the folder does not say: what MiniLM was made for."""


class OnnxEmbedder(ModelEmbedder):
    """Embeds with an ONNX model in this process, on a thread of its own; vectors have the length 1.

    Texts are truncated where the model says (all-MiniLM-L6-v2: after 256 tokens). ``model`` is a folder with an
    ``.onnx`` file (there or in ``onnx/``) and a ``tokenizer.json``, or the name of a model that fastembed knows, which
    is downloaded once if it is not on this machine.

    Raises:
        ConfigurationError: a package is missing, the folder holds no such model, or the model cannot be had.
    """

    recipe: ClassVar[str] = "onnx-v2"
    extra: ClassVar[str] = "onnx"

    def __init__(self, model: str | Path = MINILM) -> None:
        folder = model_folder(model)
        space = self.space(model)
        self.require_packages(model)
        if folder is None:
            super().__init__(space, fetched(str(model), _fastembed(str(model))))
        else:
            weights, _ = self.files(folder)
            super().__init__(space, loaded(model, lambda: _folder_encoder(folder, weights)), batch_size(weights))

    @classmethod
    def packages(cls, model: str | Path) -> tuple[str, ...]:
        """See `ModelEmbedder`."""
        return ("fastembed",) if model_folder(model) is None else ("onnxruntime", "tokenizers")

    @classmethod
    def files(cls, folder: Path) -> tuple[Path, list[Path]]:
        """See `ModelEmbedder`."""
        weights = onnx_file(folder)
        outside = sorted(weights.parent.glob(f"{weights.name}?*"))  # weights of large models, in files beside theirs
        return weights, [weights, *outside, *present(folder, (TOKENIZER, SENTENCE_CONFIG, POOLING_CONFIG))]


def _folder_encoder(folder: Path, weights: Path) -> Encode:
    from onnxruntime import InferenceSession

    tokens = tokenizer(folder, MAX_TOKENS)
    session = InferenceSession(str(weights), providers=["CPUExecutionProvider"])
    takes = {given.name for given in session.get_inputs()}
    outputs = [output.name for output in session.get_outputs()]
    output = SENTENCE_OUTPUT if SENTENCE_OUTPUT in outputs else outputs[0]
    pool = _first_token if read(folder / POOLING_CONFIG).get("pooling_mode_cls_token") else _mean

    def encode(texts: list[str]) -> NDArray[np.float32]:
        encodings = tokens.encode_batch(texts)
        inputs = {
            "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encodings], np.int64),
            "token_type_ids": np.array([encoding.type_ids for encoding in encodings], np.int64),
        }
        (rows,) = session.run([output], {name: values for name, values in inputs.items() if name in takes})
        vectors: NDArray[np.float32] = rows if rows.ndim == 2 else pool(rows, inputs["attention_mask"])
        return vectors

    return encode


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

        with quiet_fastembed():
            model = TextEmbedding(name, providers=["CPUExecutionProvider"], local_files_only=local_files_only)
        return lambda texts: np.stack(list(model.embed(texts, batch_size=len(texts))))

    return load
