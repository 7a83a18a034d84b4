"""A folder with an ONNX model and its tokenizer, and what fastembed says about one it cannot find."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actrone_memory._model_embedder import BATCH_SIZE, refused

TOKENIZER = "tokenizer.json"
SENTENCE_CONFIG = "sentence_bert_config.json"

QUANTISES_PER_BATCH = b"DynamicQuantizeLinear"
"""An operation that scales by the largest value of the whole batch: a result then depends on the texts beside it."""


def onnx_file(folder: Path) -> Path:
    """The model in ``folder`` or in its ``onnx/``.

    Raises:
        ConfigurationError: there is none with a tokenizer, or several and none of them is model.onnx.
    """
    models = [path for place in (folder, folder / "onnx") for path in sorted(place.glob("*.onnx"))]
    named = [path for path in models if path.name == "model.onnx"] or models
    if not named or not (folder / TOKENIZER).is_file():
        raise refused(folder, f"has no .onnx file with a {TOKENIZER}")
    if len(named) > 1 and named is models:
        raise refused(folder, f"has several models and none of them is model.onnx: {[p.name for p in models]}")
    return named[0]


def batch_size(weights: Path) -> int:
    """How many texts the model takes at once without one changing the result of another."""
    return 1 if QUANTISES_PER_BATCH in weights.read_bytes() else BATCH_SIZE


def tokenizer(folder: Path, longest: int) -> Any:
    """The tokenizer, which pads a batch and truncates where the folder says, else after ``longest`` tokens."""
    from tokenizers import Tokenizer

    found = Tokenizer.from_file(str(folder / TOKENIZER))
    truncation, padding = found.truncation or {}, found.padding or {}
    found.enable_truncation(
        read(folder / SENTENCE_CONFIG).get("max_seq_length") or truncation.get("max_length") or longest
    )
    found.enable_padding(pad_id=padding.get("pad_id", 0), pad_token=padding.get("pad_token", "[PAD]"))
    return found


def read(path: Path) -> dict[str, Any]:
    """The JSON object in a file, {} when there is no such file."""
    content: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return content


@contextmanager
def quiet_fastembed() -> Iterator[None]:
    """Without this, fastembed prints errors about a model that merely has not been downloaded yet."""
    from loguru import logger

    logger.disable("fastembed")
    try:
        yield
    finally:
        logger.enable("fastembed")
