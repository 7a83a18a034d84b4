"""A sentence-transformers model in this process (extra ``local``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from actrone_memory._model_embedder import Encode, ModelEmbedder, fetched, loaded, model_folder
from actrone_memory.config import MINILM
from actrone_memory.errors import ConfigurationError

MODULES = "modules.json"

WEIGHTS = (".safetensors", ".bin")
PARTS = (*WEIGHTS, ".json", ".txt", ".model")
"""Endings of what makes a vector: weights, vocabularies, settings. The others are documents."""


class LocalEmbedder(ModelEmbedder):
    """Embeds with a sentence-transformers model: `ModelEmbedder` tells how.

    ``model`` is a folder with a ``modules.json``, or the name of a model on the hub, which is downloaded once if it is
    not on this machine.

    Raises:
        ConfigurationError: a package is missing, the folder holds no such model, or the model cannot be had.
    """

    recipe: ClassVar[str] = "sentence-transformers-v1"
    extra: ClassVar[str] = "local"

    def __init__(self, model: str | Path = MINILM) -> None:
        space = self.space(model)
        self.require_packages(model)
        load = _loader(str(model))
        if model_folder(model) is None:
            super().__init__(space, fetched(str(model), load))
        else:
            super().__init__(space, loaded(model, lambda: load(True)))

    @classmethod
    def packages(cls, model: str | Path) -> tuple[str, ...]:  # noqa: ARG003 - the same for every model
        """See `ModelEmbedder`."""
        return ("sentence_transformers",)

    @classmethod
    def files(cls, folder: Path) -> tuple[Path, list[Path]]:
        """See `ModelEmbedder`."""
        modules = loaded(folder, lambda: json.loads((folder / MODULES).read_text("utf-8")))
        places = [folder / module["path"] for module in modules]
        files = [path for place in places for path in sorted(place.glob("*")) if path.suffix in PARTS]
        weights = [path for path in files if path.suffix in WEIGHTS]
        if not weights:
            raise ConfigurationError(
                f"The folder {str(folder)!r} has a {MODULES} and no weights.",
                {"setting": "local_model", "folder": str(folder)},
            )
        return weights[0], files


def _loader(model: str) -> Callable[[bool], Encode]:
    def load(local_files_only: bool) -> Encode:
        from sentence_transformers import SentenceTransformer

        transformer = SentenceTransformer(model, local_files_only=local_files_only)

        def encode(texts: list[str]) -> NDArray[np.float32]:
            vectors: NDArray[np.float32] = transformer.encode(texts, batch_size=len(texts), show_progress_bar=False)
            return vectors

        return encode

    return load
