"""From settings to parts: which store, embedder, extractor and reranker a manager gets."""

from __future__ import annotations

from actrone_memory import _validation
from actrone_memory._local_chain import local_embedder
from actrone_memory.config import MemoryConfig
from actrone_memory.embedders.hashing import HashingEmbedder
from actrone_memory.embedders.openai import OpenAIEmbedder
from actrone_memory.embedders.static import StaticEmbedder
from actrone_memory.errors import ConfigurationError, StoreConnectionError, ValidationError
from actrone_memory.extraction import OpenAIFactExtractor
from actrone_memory.protocols import Embedder, FactExtractor, L1Store, L2Store, Reranker, Summariser
from actrone_memory.stores.in_memory import InMemoryStore
from actrone_memory.stores.qdrant import QdrantStore
from actrone_memory.stores.redis import RedisStore
from actrone_memory.stores.sqlite import SQLiteStore

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
        raise ConfigurationError(f"config must be a MemoryConfig, not {type(config).__name__}")


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
            key = config.openai_api_key.get_secret_value() if config.openai_api_key else ""
            return OpenAIEmbedder(key, config.embedding_model, config.embedding_dimensions)


def build_extractor(config: MemoryConfig) -> FactExtractor | None:
    """The extractor that ``extract_facts`` asks for, None when it does not."""
    if not config.extract_facts:
        return None
    key = config.openai_api_key.get_secret_value() if config.openai_api_key else ""
    if not key.strip():
        raise ConfigurationError(
            "extract_facts=True needs an extractor: set ACTRONE_OPENAI_API_KEY, or pass create(extractor=...).",
            {"setting": "extract_facts"},
        )
    return OpenAIFactExtractor(key)


def build_reranker(config: MemoryConfig) -> Reranker | None:
    """The reranker that ``rerank_enabled`` asks for, None when it does not."""
    if not config.rerank_enabled:
        return None
    raise ConfigurationError(
        f"rerank_enabled=True: the reranker {config.rerank_model!r} is not available in this version. Pass one of your "
        "own as create(reranker=...).",
        {"setting": "rerank_enabled", "missing": "reranker"},
    )


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
    if isinstance(part, type):
        raise ConfigurationError(f"{name}: {part.__name__} is a class; pass an object of it.", {"part": name})
    methods = [attribute for attribute in vars(protocol) if not attribute.startswith("_")]
    missing = [method for method in methods if not callable(getattr(part, method, None))]
    if missing:
        raise ConfigurationError(
            f"{name}: {type(part).__name__} has no {', '.join(f'{method}()' for method in missing)}; "
            f"{protocol.__name__} in actrone_memory.protocols lists what it needs.",
            {"part": name, "missing": missing},
        )


def _check_embedder(embedder: object) -> None:
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
            f"embedder: {type(embedder).__name__} cannot describe itself: {type(error).__name__}: {error}",
            {"part": "embedder"},
        ) from error
