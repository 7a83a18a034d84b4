"""A sentence-transformers model in this process (extra ``local``)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from actrone_memory._model_embedder import Encode, ModelEmbedder, fetched, loaded, model_folder, refused
from actrone_memory.config import MINILM

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODULES = "modules.json"

CACHE_VARIABLE = "SENTENCE_TRANSFORMERS_HOME"
"""Where sentence-transformers keeps its models, when that is not the hub's own cache."""

WEIGHTS = (".safetensors", ".bin")
PARTS = (*WEIGHTS, ".json", ".txt", ".model")
"""Endings of what makes a vector: weights, vocabularies, settings. The others are documents."""


class LocalEmbedder(ModelEmbedder):
    """Embeds with a sentence-transformers model in this process, on a thread of its own; vectors have the length 1.

    Texts are truncated where the model says (all-MiniLM-L6-v2: after 256 tokens). ``model`` is a folder with a
    ``modules.json``, or the name of a model on the hub, which is downloaded once if it is not on this machine.

    Raises:
        ConfigurationError: a package is missing, the folder holds no such model, or the model cannot be had.
    """

    recipe: ClassVar[str] = "sentence-transformers-v2"
    extra: ClassVar[str] = "local"

    def __init__(self, model: str | Path = MINILM) -> None:
        space = self.space(model)
        self.require_packages(model)
        name = str(model)
        if model_folder(model) is None:
            # Looking into the cache first: importing torch takes seconds and must not be for nothing.
            super().__init__(space, fetched(name, lambda local: _encoder(_cached(name) if local else name)))
        else:
            super().__init__(space, loaded(name, lambda: _encoder(name)))

    @classmethod
    def packages(cls, model: str | Path) -> tuple[str, ...]:  # noqa: ARG003 - the same for every model
        """See `ModelEmbedder`."""
        return ("sentence_transformers",)

    @classmethod
    def files(cls, folder: Path) -> tuple[Path, list[Path]]:
        """See `ModelEmbedder`."""
        if not (folder / MODULES).is_file():
            raise refused(folder, f"has no {MODULES}")
        modules = loaded(folder, lambda: json.loads((folder / MODULES).read_text("utf-8")))
        places = [folder / module["path"] for module in modules]
        files = [path for place in places for path in sorted(place.glob("*")) if path.suffix in PARTS]
        weights = [path for path in files if path.suffix in WEIGHTS]
        if not weights:
            raise refused(folder, f"has a {MODULES} and no weights")
        return weights[0], files


def _cached(name: str) -> str:
    """The folder where this machine keeps the model; raises what the hub's client raises when there is none."""
    from huggingface_hub import snapshot_download

    repository = name if "/" in name else f"sentence-transformers/{name}"
    folder: str = snapshot_download(repository, cache_dir=os.getenv(CACHE_VARIABLE), local_files_only=True)
    return folder


def _encoder(model: str) -> Encode:
    from sentence_transformers import SentenceTransformer

    transformer = SentenceTransformer(model)

    def encode(texts: list[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = transformer.encode(texts, batch_size=len(texts), show_progress_bar=False)
        return vectors

    return encode
