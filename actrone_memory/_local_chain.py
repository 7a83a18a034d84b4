"""The embedder of ``embedding_provider="local"``: the one that filled the store, else the best that can be had."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import NamedTuple, TypeVar

from actrone_memory._cold_tier import stored_identity
from actrone_memory._model_embedder import model_folder
from actrone_memory.config import MINILM
from actrone_memory.embedders.hashing import HashingEmbedder
from actrone_memory.embedders.onnx import OnnxEmbedder
from actrone_memory.embedders.sentence_transformers import LocalEmbedder
from actrone_memory.embedders.static import StaticEmbedder
from actrone_memory.errors import ConfigurationError
from actrone_memory.protocols import Embedder, EmbedderIdentity, L2Store

logger = logging.getLogger("actrone_memory")

Result = TypeVar("Result")
Kind = type[OnnxEmbedder] | type[LocalEmbedder]
MODEL_KINDS: tuple[Kind, ...] = (OnnxEmbedder, LocalEmbedder)
"""Best first: onnxruntime starts in a second, torch in five to fifteen, and the vectors are as good."""

REMEDY = (
    "Start once with network access to download the model, or set ACTRONE_LOCAL_MODEL to a "
    "folder that holds it, or choose by embedding_provider."
)

_lock = threading.Lock()
_outcomes: dict[tuple[str, int | None], Embedder | ConfigurationError] = {}
"""What came of each link: a process loads a model once, and looks for one in vain once."""
_told: set[str] = set()


class _UnavailableError(Exception):
    def __init__(self, reason: ConfigurationError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class _Link(NamedTuple):
    name: str
    dimensions: int | None
    """None: known once it is loaded."""
    for_new_stores: bool
    """False: taken only by a store that it filled."""
    make: Callable[[], Embedder]

    async def identity(self) -> EmbedderIdentity:
        """Whose vectors these are, without loading a model if possible."""
        return EmbedderIdentity(self.name, self.dimensions or (await self.embedder()).dimensions)

    async def embedder(self) -> Embedder:
        """The embedder, the same one in the whole process."""
        outcome = _outcomes.get((self.name, self.dimensions))
        if outcome is None:
            outcome = await aside(self._outcome)
        if isinstance(outcome, ConfigurationError):
            raise _UnavailableError(outcome)
        return outcome

    def _outcome(self) -> Embedder | ConfigurationError:
        key = self.name, self.dimensions
        with _lock:
            if key not in _outcomes:
                try:
                    _outcomes[key] = self.make()
                except ConfigurationError as error:
                    _outcomes[key] = error
            return _outcomes[key]


async def local_embedder(model: str, l2: L2Store) -> Embedder:
    """The embedder whose vectors ``l2`` holds; for an empty store the best one that is installed and can be had.

    For a ``model`` that is a folder nothing stands in.

    Raises:
        ConfigurationError: the folder holds no model that can be loaded, or the store was filled by an embedder
            that cannot be had any more.
    """
    links = await aside(lambda: _links(model)) if model_folder(model) else _links(model)
    failed: dict[str, ConfigurationError] = {}
    for link in links:
        if not link.for_new_stores:
            continue
        try:
            identity = await link.identity()
            stored = await stored_identity(l2, identity)
            if stored.name != identity.name:
                chosen = await _as_before(stored, identity, links)
            else:
                chosen = _chosen(await link.embedder())
            _tell_what_failed(failed, chosen.name)
            return chosen
        except _UnavailableError as unavailable:
            failed[link.name] = unavailable.reason
    reasons = " ".join(reason.message for reason in failed.values())
    raise ConfigurationError(
        f"local_model={model!r} cannot be used: {reasons}", {"setting": "local_model", "model": model}
    )


async def _as_before(stored: EmbedderIdentity, preferred: EmbedderIdentity, links: list[_Link]) -> Embedder:
    """The embedder that filled the store, though an empty one would get the ``preferred`` one."""
    reason = "Nothing that the settings name makes such vectors."
    for link in (*links, _ready(HashingEmbedder(stored.dimensions), for_new_stores=False)):
        if link.name == stored.name:
            try:
                return _chosen(await link.embedder(), ", which filled the store")
            except _UnavailableError as unavailable:
                reason = unavailable.reason.message
    raise ConfigurationError(
        f"The store was filled with the embedder {stored.name!r} ({stored.dimensions} dimensions), which cannot be "
        f"had here; {preferred.name!r} ({preferred.dimensions}) would be used instead, and their vectors cannot be "
        f"compared. {reason} Bring the first one back (its extra, or the same local_model), or embed all "
        "memories with the other one: MemoryManager.reindex().",
        {"stored": stored._asdict(), "configured": preferred._asdict()},
    )


def _links(model: str) -> list[_Link]:
    """The chain, best first."""
    if model_folder(model) is not None:
        return [*_folder_links(model), _ready(_static(), for_new_stores=False)]
    if model != MINILM and all(kind.missing(model) for kind in MODEL_KINDS):
        _tell(logging.WARNING, f"local_model={model!r} needs an extra: pip install 'actrone-memory[onnx]'")
    return [*(_link(kind, model, not kind.missing(model)) for kind in MODEL_KINDS), _ready(_static())]


def _folder_links(folder: str) -> list[_Link]:
    links: list[_Link] = []
    reasons: list[str] = []
    for kind in MODEL_KINDS:
        try:
            links.append(_link(kind, folder, True))
        except ConfigurationError as error:
            reasons.append(error.message)
    if not links:
        raise ConfigurationError(
            f"local_model={folder!r} holds no model. {' '.join(reasons)}", {"setting": "local_model"}
        )
    return links


def _link(kind: Kind, model: str, for_new_stores: bool) -> _Link:
    name, measured = kind.space(model)
    return _Link(name, measured.dimensions if measured else None, for_new_stores, partial(kind, model))


def _ready(embedder: Embedder, for_new_stores: bool = True) -> _Link:
    """The link of an embedder that costs nothing to make."""
    _outcomes.setdefault((embedder.name, embedder.dimensions), embedder)
    return _Link(embedder.name, embedder.dimensions, for_new_stores, lambda: embedder)


@cache
def _static() -> StaticEmbedder:
    return StaticEmbedder()


async def aside(work: Callable[[], Result]) -> Result:
    """What ``work`` returns, on a thread that ends with it: the loop goes on, and no pool is left behind."""
    worker = ThreadPoolExecutor(1, thread_name_prefix="actrone-loading")
    try:
        return await asyncio.get_running_loop().run_in_executor(worker, work)
    finally:
        worker.shutdown(wait=False)


def _chosen(embedder: Embedder, why: str = "") -> Embedder:
    _tell(logging.INFO, f"embedding_provider='local' uses {embedder.name}{why}")
    return embedder


def _tell_what_failed(failed: Mapping[str, ConfigurationError], chosen: str) -> None:
    """One warning of all that was installed and could not be had; what is not installed is nobody's mistake."""
    told = [f"{name}: {reason.message}" for name, reason in failed.items() if "missing" not in reason.details]
    if told:
        _tell(logging.WARNING, f"{chosen} is used: others cannot be had. {' '.join(told)} {REMEDY}")


def _tell(level: int, message: str) -> None:
    """Log it once in a process."""
    if message not in _told:
        _told.add(message)
        logger.log(level, message)
