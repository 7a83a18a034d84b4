"""From settings to parts: which store, embedder, extractor and reranker a manager gets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from actrone_memory import _validation
from actrone_memory._local_chain import aside, local_embedder
from actrone_memory._model_embedder import HUB_NAME
from actrone_memory.config import MemoryConfig
from actrone_memory.embedders.functions import FunctionEmbedder
from actrone_memory.embedders.hashing import HashingEmbedder
from actrone_memory.embedders.openai import OpenAIEmbedder
from actrone_memory.embedders.static import StaticEmbedder
from actrone_memory.errors import ConfigurationError, StoreConnectionError, ValidationError, told
from actrone_memory.extraction import OpenAIFactExtractor
from actrone_memory.protocols import Embedder, FactExtractor, L1Store, L2Store, Reranker, Summariser
from actrone_memory.reranking import CrossEncoderReranker
from actrone_memory.stores.in_memory import InMemoryStore
from actrone_memory.stores.qdrant import QdrantStore
from actrone_memory.stores.redis import RedisStore
from actrone_memory.stores.sqlite import SQLiteStore
from actrone_memory.summarising import OpenAISummariser
from actrone_memory.tokens import token_counter

logger = logging.getLogger("actrone_memory")

SECONDS_PER_HOUR = 3600.0


def checked_config(config: MemoryConfig | None) -> MemoryConfig:
    """The settings of the environment when None, else a checked copy of ``config``, whatever was assigned to it."""
    if config is None:
        return MemoryConfig()
    check_config(config)
    checked = type(config)(_env_file=None, **vars(config))
    checked.__pydantic_fields_set__ = set(config.model_fields_set)  # what was left at its default still is
    return checked


def check_config(config: object) -> None:
    """Refuse what is no `MemoryConfig`."""
    if not isinstance(config, MemoryConfig):
        raise ConfigurationError(
            f"config must be a MemoryConfig, not {type(config).__name__}: make one with MemoryConfig(setting=value)."
        )


def build_stores(config: MemoryConfig, l1: L1Store | None, l2: L2Store | None) -> tuple[L1Store, L2Store]:
    """The given stores, and the backend's for what is not given."""
    if l1 is not None and l2 is not None:
        return l1, l2
    if config.backend == "redis_qdrant":
        l1 = l1 if l1 is not None else RedisStore.from_config(config)
        return l1, (l2 if l2 is not None else QdrantStore.from_config(config))
    store = _sqlite_store(config) if config.backend == "sqlite" else _in_memory_store(config)
    return (l1 if l1 is not None else store), (l2 if l2 is not None else store)


def _in_memory_store(config: MemoryConfig) -> InMemoryStore:
    return InMemoryStore(
        config.max_session_turns,
        relevance_weight=config.relevance_weight,
        recency_weight=config.recency_weight,
    )


def _sqlite_store(config: MemoryConfig) -> SQLiteStore:
    """Sessions in a file expire only when someone said after how long."""
    expires = "session_ttl_hours" in config.model_fields_set
    return SQLiteStore(
        config.sqlite_path,
        config.max_session_turns,
        relevance_weight=config.relevance_weight,
        recency_weight=config.recency_weight,
        session_ttl_seconds=config.session_ttl_hours * SECONDS_PER_HOUR if expires else None,
    )


class Parts(NamedTuple):
    """What a manager works with besides its stores; ``built`` are those made here, ``failure`` why one is missing."""

    embedder: Embedder
    summariser: Summariser | None
    extractor: FactExtractor | None
    reranker: Reranker | None
    built: Sequence[object]
    failure: ConfigurationError | None


async def build_parts(
    config: MemoryConfig,
    l2: L2Store,
    embedder: Embedder | None,
    summariser: Summariser | None,
    extractor: FactExtractor | None,
    reranker: Reranker | None,
) -> Parts:
    """The given parts, and those of the settings for what is not given.

    Raises:
        ConfigurationError: the settings name what is not installed or cannot be had.
    """
    if config.token_counter != "heuristic":  # noqa: S105
        # Beside the event loop, once: the counter itself then takes no time to make.
        await aside(lambda: token_counter(config.token_counter, config.tiktoken_encoding))
    given = embedder, summariser, extractor
    embedder = await described(embedder) if embedder is not None else await build_embedder(config, l2)
    extractor = extractor if extractor is not None else build_extractor(config)
    summariser = summariser if summariser is not None else build_summariser(config)
    found = reranker if reranker is not None else await build_reranker(config)
    pairs = zip(given, (embedder, summariser, extractor), strict=True)
    built = [part for handed_in, part in pairs if handed_in is None]
    failure = found if isinstance(found, ConfigurationError) else None
    return Parts(
        embedder, summariser, extractor, None if isinstance(found, ConfigurationError) else found, built, failure
    )


async def described(embedder: Embedder) -> Embedder:
    """``embedder``, which has asked its model for the dimensions if it must, beside the event loop."""
    if isinstance(embedder, FunctionEmbedder):
        await aside(lambda: embedder.dimensions)
    return embedder


async def build_embedder(config: MemoryConfig, l2: L2Store | None) -> Embedder:
    """The embedder that ``embedding_provider`` names; "local" looks first for the one that filled ``l2``.

    None stands for a new store.
    """
    l2 = l2 if l2 is not None else _in_memory_store(config)
    config.validate_runtime()
    match config.embedding_provider:
        case "local":
            _check_methods("l2", l2, L2Store)
            try:
                return await local_embedder(config.local_model, l2)
            except StoreConnectionError:
                if not config.degrade:
                    raise
                # As for an empty store: whether it fits is asked with every call, once the store can be reached.
                return await local_embedder(config.local_model, InMemoryStore())
        case "static":
            return StaticEmbedder()
        case "hashing":
            return HashingEmbedder(config.hashing_dimensions)
        case "openai":
            return OpenAIEmbedder(
                _openai_key(config),
                config.embedding_model,
                config.embedding_dimensions,
                base_url=config.openai_base_url,
            )


def build_extractor(config: MemoryConfig) -> FactExtractor | None:
    """The extractor that ``extract_facts`` asks for, None when it does not."""
    if not config.extract_facts:
        return None
    key = _openai_key(config)
    if not key:
        raise ConfigurationError(
            "extract_facts=True needs an extractor: set ACTRONE_OPENAI_API_KEY, or pass create(extractor=...).",
            {"setting": "extract_facts"},
        )
    return OpenAIFactExtractor(key, config.summarisation_model, base_url=config.openai_base_url)


def build_summariser(config: MemoryConfig) -> Summariser | None:
    """OpenAI's, when ``summarisation_model`` is set or conversations go there anyway (``embedding_provider="openai"``).

    None without ``auto_summarise`` or without a key. A key alone sends no conversation anywhere.
    """
    chosen = "summarisation_model" in config.model_fields_set
    if not config.auto_summarise or not (chosen or config.embedding_provider == "openai"):
        return None
    key = _openai_key(config)
    if not key:
        logger.warning("summarisation_model is set and nothing is summarised: ACTRONE_OPENAI_API_KEY is missing")
        return None
    return OpenAISummariser(key, config.summarisation_model, base_url=config.openai_base_url)


def _openai_key(config: MemoryConfig) -> str:
    return config.openai_api_key.get_secret_value().strip() if config.openai_api_key else ""


async def close_built(parts: Iterable[object]) -> None:
    """Close those of the parts built here that hold connections."""
    for part in parts:
        if isinstance(part, OpenAIEmbedder | OpenAIFactExtractor | OpenAISummariser):
            await part.close()


async def build_reranker(config: MemoryConfig) -> Reranker | ConfigurationError | None:
    """The reranker that ``rerank_enabled`` asks for, None when it does not.

    For a model that must be downloaded and cannot be had now, the error: results then keep the order of the search.

    Raises:
        ConfigurationError: a package is missing, or the folder holds no cross-encoder.
    """
    if not config.rerank_enabled:
        return None
    try:
        return await aside(lambda: _reranker(config.rerank_model))
    except ConfigurationError as error:
        failure = ConfigurationError(
            f"rerank_enabled=True, rerank_model={config.rerank_model!r}: {error.message}",
            {**error.details, "setting": "rerank_model"},
        )
        if "missing" in error.details or not _is_on_a_hub(config.rerank_model):
            raise failure from error
        return failure


def _is_on_a_hub(model: str) -> bool:
    return HUB_NAME.fullmatch(model) is not None and not Path(model).is_dir()


@cache
def _reranker(model: str) -> CrossEncoderReranker:
    """The same one in the whole process."""
    return CrossEncoderReranker(model)


def check_parts(
    l1: L1Store,
    l2: L2Store,
    embedder: Embedder,
    summariser: Summariser | None,
    extractor: FactExtractor | None,
    reranker: Reranker | None,
) -> None:
    """Refuse a part that lacks a method, at the start and by name."""
    parts: list[tuple[str, object, type]] = [("l1", l1, L1Store), ("l2", l2, L2Store)]
    optional: list[tuple[str, object, type]] = [
        ("summariser", summariser, Summariser),
        ("extractor", extractor, FactExtractor),
        ("reranker", reranker, Reranker),
    ]
    parts += [part for part in optional if part[1] is not None]
    for name, part, protocol in parts:
        _check_methods(name, part, protocol)
    _check_embedder(embedder)


def _check_methods(name: str, part: object, protocol: type) -> None:
    _refuse_class(name, part)
    methods = [attribute for attribute in vars(protocol) if not attribute.startswith("_")]
    missing = [method for method in methods if not callable(getattr(part, method, None))]
    if missing:
        raise ConfigurationError(
            f"{name}: {type(part).__name__} has no {', '.join(f'{method}()' for method in missing)}; "
            f"{protocol.__name__} in actrone_memory.protocols lists what it needs.",
            {"part": name, "missing": missing},
        )


def _refuse_class(name: str, part: object) -> None:
    if isinstance(part, type):
        raise ConfigurationError(f"{name}: {part.__name__} is a class; pass an object of it.", {"part": name})


def _check_embedder(embedder: object) -> None:
    _refuse_class("embedder", embedder)
    if not isinstance(embedder, Embedder):
        raise ConfigurationError(
            f"embedder: {type(embedder).__name__} must be a subclass of actrone_memory.Embedder.", {"part": "embedder"}
        )
    try:
        _validation.identifier(embedder.name, "name")
        _validation.positive_integer(embedder.dimensions, "dimensions")
        if embedder.relevance_threshold is not None:
            _validation.cosine(embedder.relevance_threshold, "relevance_threshold")
        if embedder.background is not None:
            _validation.background(embedder.background, "background")
    except ValidationError as error:
        raise ConfigurationError(f"embedder: {type(embedder).__name__}.{error}", {"part": "embedder"}) from None
    except Exception as error:  # a property of a foreign class may raise anything
        raise ConfigurationError(
            f"embedder: {type(embedder).__name__} cannot describe itself: {told(error)}",
            {"part": "embedder"},
        ) from error
