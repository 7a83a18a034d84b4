"""The public names, signatures and defaults, held against tables that are written out here."""

from __future__ import annotations

import copy
import importlib.metadata
import importlib.util
import inspect
import itertools
import pickle
import subprocess
import sys
import threading
from enum import Enum
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

import actrone_memory
from actrone_memory import (
    ActroneMemoryError,
    ConfigurationError,
    Embedder,
    EmbeddingError,
    ExtractedFact,
    FactExtractor,
    HashingEmbedder,
    InMemoryStore,
    L1Store,
    L2Store,
    LocalEmbedder,
    MemoryConfig,
    MemoryEntry,
    MemoryManager,
    MemoryNotFoundError,
    OnnxEmbedder,
    OpenAIEmbedder,
    OpenAIFactExtractor,
    OpenAISummariser,
    Reranker,
    RetrievedContext,
    SessionMetadata,
    StoreConnectionError,
    Summariser,
    SyncMemoryManager,
    TokenBudgetError,
    ToolResult,
    Turn,
    ValidationError,
    protocols,
)

PUBLIC_NAMES = {
    "ActroneMemoryError",
    "ConfigurationError",
    "Embedder",
    "EmbeddingError",
    "ExtractedFact",
    "FactExtractor",
    "HashingEmbedder",
    "InMemoryStore",
    "L1Store",
    "L2Store",
    "LocalEmbedder",
    "MemoryConfig",
    "MemoryEntry",
    "MemoryManager",
    "MemoryNotFoundError",
    "OpenAIEmbedder",
    "OpenAIFactExtractor",
    "RetrievedContext",
    "SessionMetadata",
    "StoreConnectionError",
    "SyncMemoryManager",
    "TokenBudgetError",
    "ToolResult",
    "Turn",
    "ValidationError",
    "cosine_similarity",
    "create_memory_manager",
    "parse_facts",
}

ADAPTERS = {"actrone_langchain": "langchain_core", "actrone_llamaindex": "llama_index"}
"""Each with the framework that it needs."""

SEARCH = "self, agent_id, query_embedding, threshold, limit=20, content_types=None, query_text=None"
EMBEDDER = {
    "embed": ("self, text", ""),
    "embed_batch": ("self, texts", ""),
    "embed_query": ("self, text", ""),
    "dimensions": "property",
    "relevance_threshold": "property",
}
L1_METHODS = {
    "append_turn": ("self, agent_id, session_id, turn", ""),
    "get_recent_turns": ("self, agent_id, session_id, n=None", ""),
    "turn_count": ("self, agent_id, session_id", ""),
    "clear_session": ("self, agent_id, session_id", ""),
    "get_session_metadata": ("self, agent_id, session_id", ""),
    "try_acquire_summary_lock": ("self, agent_id, session_id, ttl_seconds", ""),
    "close": ("self", ""),
}
L2_METHODS = {
    "upsert": ("self, entry", ""),
    "search": (SEARCH, "tags"),
    "delete": ("self, memory_id", ""),
    "delete_agent_memories": ("self, agent_id", ""),
    "close": ("self", ""),
}
MANAGER_METHODS = {
    "store_turn": (
        "self, agent_id, session_id, user_message, assistant_message, tool_results=None",
        "metadata turn_id timestamp continues",
    ),
    "store_turns": ("self, agent_id, session_id, turns", ""),
    "retrieve_context": ("self, agent_id, session_id, query, token_budget", "content_types redact_sensitivity tags"),
    "inject_memory": (
        "self, agent_id, content, importance=0.8, session_id='injected', topic_tags=None, source='injected', "
        "sensitivity='none'",
        "supersedes",
    ),
    "inject_memories": ("self, agent_id, memories", ""),
    "delete_memory": ("self, agent_id, memory_id", ""),
    "erase_agent_memories": ("self, agent_id, session_id=None", "all_sessions"),
    "clear_session": ("self, agent_id, session_id", ""),
    "search_memories": ("self, agent_id, query, limit=10", "content_types redact_sensitivity tags"),
    "list_memories": ("self, agent_id", "content_types include_superseded redact_sensitivity"),
    "list_sessions": ("self, agent_id", ""),
    "list_agents": ("self", ""),
    "get_session_metadata": ("self, agent_id, session_id", ""),
    "get_recent_turns": ("self, agent_id, session_id, n=None", ""),
    "extract_memories": ("self, agent_id, session_id, n=None", ""),
    "export_agent": ("self, agent_id", ""),
    "import_agent": ("self, lines, agent_id=None", ""),
    "reindex": ("config=None, *, l2=None, embedder=None, progress=None", ""),
    "create": ("config=None, *, l1=None, l2=None, embedder=None, extractor=None, reranker=None", "summariser"),
    "drain": ("self", ""),
    "close": ("self", ""),
    "relevance_threshold": "property",
    "config": "property",
    "closed": "property",
}
SIGNATURES: dict[str, tuple[str, str] | str] = {
    # name: (documented parameters, parameters it may have besides, each with a default)
    "MemoryManager": ("l1, l2, embedder, config, summariser=None, extractor=None, reranker=None", ""),
    **{f"MemoryManager.{name}": row for name, row in MANAGER_METHODS.items()},
    "MemoryConfig.validate_runtime": ("self", ""),
    "RetrievedContext.render": ("self, turns=True", ""),
    "RetrievedContext.budget_utilisation": "property",
    "SyncMemoryManager": ("manager", ""),
    "SyncMemoryManager.create": MANAGER_METHODS["create"],
    "create_memory_manager": ("config=None", ""),
    "InMemoryStore": ("max_turns=50, *, relevance_weight=0.7, recency_weight=0.3", ""),
    **{f"InMemoryStore.{name}": row for name, row in (L1_METHODS | L2_METHODS).items()},
    "QdrantStore": (
        "url='http://localhost:6333', *, api_key=None, collection='agent_memories', timeout_seconds=10.0, "
        "relevance_weight=0.7, recency_weight=0.3, client=None",
        "",
    ),
    "QdrantStore.from_config": ("config", ""),
    **{f"QdrantStore.{name}": row for name, row in L2_METHODS.items()},
    "RedisStore": (
        "url='redis://localhost:6379', max_turns=50, *, client=None, session_ttl_seconds=86400, "
        "embedding_cache_ttl_seconds=604800, max_connections=10, socket_timeout=5.0, socket_connect_timeout=5.0",
        "",
    ),
    **{f"RedisStore.{name}": row for name, row in L1_METHODS.items()},
    "SQLiteStore": (
        "path=None, max_turns=50, *, relevance_weight=0.7, recency_weight=0.3, session_ttl_seconds=None",
        "",
    ),
    **{f"SQLiteStore.{name}": row for name, row in (L1_METHODS | L2_METHODS).items()},
    **{f"L1Store.{name}": row for name, row in L1_METHODS.items()},
    **{f"L2Store.{name}": row for name, row in L2_METHODS.items()},
    "FactExtractor.extract": ("self, text", ""),
    "OpenAIFactExtractor": ("api_key, model='gpt-4o-mini'", "base_url"),
    "OpenAIFactExtractor.extract": ("self, text", ""),
    "OpenAISummariser": ("api_key, model='gpt-4o-mini'", "base_url"),
    "OpenAISummariser.summarise": ("self, text", ""),
    **{f"Embedder.{name}": row for name, row in EMBEDDER.items()},
    "HashingEmbedder": ("dimensions=256", ""),
    **{f"HashingEmbedder.{name}": row for name, row in EMBEDDER.items()},
    "LocalEmbedder": ("", "model"),
    **{f"LocalEmbedder.{name}": row for name, row in EMBEDDER.items()},
    "OnnxEmbedder": ("model='sentence-transformers/all-MiniLM-L6-v2'", ""),
    **{f"OnnxEmbedder.{name}": row for name, row in EMBEDDER.items()},
    "OpenAIEmbedder": ("api_key, model='text-embedding-3-small', dimensions=1536", "base_url"),
    **{f"OpenAIEmbedder.{name}": row for name, row in EMBEDDER.items()},
    "FunctionEmbedder": ("embed_documents, embed_query=None, *, name, dimensions=None, parallel_calls=1", ""),
    **{f"FunctionEmbedder.{name}": row for name, row in EMBEDDER.items()},
    "ChatFactExtractor": ("ask", ""),
    "ChatFactExtractor.extract": ("self, text", ""),
    "ChatSummariser": ("ask", ""),
    "ChatSummariser.summarise": ("self, text", ""),
    "CrossEncoderReranker": ("model='Xenova/ms-marco-MiniLM-L-6-v2'", ""),
    "CrossEncoderReranker.rerank": ("self, query, texts", ""),
    "cosine_similarity": ("a, b", ""),
    "parse_facts": ("raw", ""),
    "ActroneMemoryError": ("message, *, code, details=None", ""),
    "ConfigurationError": ("message, details=None", "code"),
    "EmbeddingError": ("message, details=None", ""),
    "MemoryNotFoundError": ("memory_id", "field"),
    "StoreConnectionError": ("store, cause, details=None", "advice"),
    "TokenBudgetError": ("message, details=None", ""),
    "ValidationError": ("field, message", ""),
}

SETTINGS: dict[str, object] = {
    "backend": "memory",
    "sqlite_path": None,
    "redis_url": "redis://localhost:6379",
    "qdrant_url": "http://localhost:6333",
    "qdrant_api_key": None,
    "redis_max_connections": 10,
    "redis_socket_timeout": 5.0,
    "redis_socket_connect_timeout": 5.0,
    "qdrant_timeout": 10.0,
    "degrade": False,
    "embedding_provider": "local",
    "local_model": "sentence-transformers/all-MiniLM-L6-v2",
    "openai_api_key": None,
    "openai_base_url": None,
    "embedding_model": "text-embedding-3-small",
    "embedding_dimensions": 1536,
    "hashing_dimensions": 256,
    "embedding_cache_ttl_seconds": 604800,
    "summarisation_model": "gpt-4o-mini",
    "session_ttl_hours": 24,
    "max_session_turns": 50,
    "qdrant_collection": "agent_memories",
    "max_episodic_memories": 500,
    "relevance_threshold": None,
    "relevance_weight": 0.7,
    "recency_weight": 0.3,
    "hybrid_retrieval": True,
    "newer_wins": True,
    "redact_sensitivity": (),
    "rerank_enabled": False,
    "rerank_model": "Xenova/ms-marco-MiniLM-L-6-v2",
    "rerank_top_k": 20,
    "extract_facts": False,
    "archive_turns": True,
    "auto_summarise": True,
    "summarise_after_turns": 20,
    "summarise_cooldown_seconds": 300,
    "strict_background_errors": False,
    "shutdown_grace_seconds": 30.0,
    "token_counter": "heuristic",
    "tiktoken_encoding": "o200k_base",
    "budget_fraction_system": 0.3,
    "budget_fraction_episodic": 0.25,
    "budget_fraction_session": 0.35,
    "budget_fraction_current_turn": 0.1,
}
CHOICES = {
    "backend": {"memory", "sqlite", "redis_qdrant"},
    "embedding_provider": {"openai", "local", "static", "hashing"},
    "token_counter": {"heuristic", "tiktoken"},
}
KINDS = {"turn", "summary", "tool_result", "injected", "fact"}
SENSITIVITIES = {"none", "low", "pii", "sensitive"}


class Given(Enum):
    """How a field without a plain default gets its value."""

    BY_THE_CALLER = "required"
    BY_A_FACTORY = "factory"


REQUIRED, FACTORY = Given.BY_THE_CALLER, Given.BY_A_FACTORY

FIELDS: dict[type[BaseModel], tuple[dict[str, object], dict[str, object]]] = {
    # model: (documented fields, further ones)
    MemoryEntry: (
        {
            "id": FACTORY,
            "agent_id": REQUIRED,
            "session_id": REQUIRED,
            "content": REQUIRED,
            "content_type": REQUIRED,
            "embedding": None,
            "importance_score": 0.5,
            "topic_tags": FACTORY,
            "token_count": 0,
            "timestamp": FACTORY,
            "source_turn_ids": FACTORY,
            "source": "unknown",
            "sensitivity": "none",
        },
        {"metadata": FACTORY, "score": None, "score_parts": None},
    ),
    RetrievedContext: (
        {
            "recent_turns": REQUIRED,
            "episodic_memories": REQUIRED,
            "total_tokens_used": REQUIRED,
            "token_budget": REQUIRED,
            "retrieval_duration_ms": REQUIRED,
        },
        {"recalled_turns": FACTORY, "dropped": FACTORY},
    ),
    SessionMetadata: (
        {
            "agent_id": REQUIRED,
            "session_id": REQUIRED,
            "turn_count": REQUIRED,
            "created_at": None,
            "last_active": None,
        },
        {},
    ),
    ToolResult: (
        {"tool_name": REQUIRED, "params": REQUIRED, "result": REQUIRED, "success": REQUIRED, "duration_ms": None},
        {},
    ),
    Turn: (
        {
            "id": FACTORY,
            "session_id": REQUIRED,
            "user_message": REQUIRED,
            "assistant_message": REQUIRED,
            "tool_results": FACTORY,
            "timestamp": FACTORY,
            "token_count": 0,
        },
        {"metadata": FACTORY, "continues": False, "records": FACTORY},
    ),
    ExtractedFact: (
        {"content": REQUIRED, "sensitivity": "none", "topic_tags": FACTORY, "importance": 0.6},
        {},
    ),
}

CAUSE = ConnectionRefusedError("port 6379")
ERRORS = {
    # error: (code, text its message holds, details it carries)
    ConfigurationError("set a key", {"setting": "openai_api_key"}): (
        "configuration",
        "set a key",
        {"setting": "openai_api_key"},
    ),
    ConfigurationError("closed", code="closed"): ("closed", "closed", {}),
    EmbeddingError("three numbers", {"expected": 3}): ("embedding", "three numbers", {"expected": 3}),
    MemoryNotFoundError("memory-1"): ("memory_not_found", "memory-1", {"memory_id": "memory-1"}),
    StoreConnectionError("redis", CAUSE, {"url": "r"}): ("store_connection", "redis", {"store": "redis", "url": "r"}),
    TokenBudgetError("below 1", {"token_budget": 0}): ("token_budget", "below 1", {"token_budget": 0}),
    ValidationError("agent_id", "must not be blank"): ("validation", "agent_id", {"field": "agent_id"}),
    ActroneMemoryError("anything", code="summary", details={"a": 1}): ("summary", "anything", {"a": 1}),
}
errors = pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__}-{error.code}")

OPTIONAL_PACKAGES = (
    "langchain langchain_core llama_index redis qdrant_client openai torch sentence_transformers tiktoken fastembed "
    "huggingface_hub loguru onnxruntime tokenizers typer rich pytest"
).split()


def _lookup(path: str) -> Any:
    owner, _, attribute = path.partition(".")
    found = getattr(actrone_memory, owner)
    return getattr(found, attribute) if attribute else found


def _parameters(text: str) -> list[inspect.Parameter]:
    return list(inspect.signature(eval(f"lambda {text}: None")).parameters.values())


def _shape(parameter: inspect.Parameter) -> tuple[object, ...]:
    return parameter.name, parameter.kind, parameter.default


def _run_fresh(code: str, *options: str) -> str:
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


# --- names ------------------------------------------------------------------------------------------------------------


def test_every_documented_name_is_public() -> None:
    assert set(actrone_memory.__all__) >= PUBLIC_NAMES


def test_all_is_sorted_and_names_nothing_twice() -> None:
    assert list(actrone_memory.__all__) == sorted(set(actrone_memory.__all__))


def test_all_names_everything_public_and_nothing_else() -> None:
    public = {
        name
        for name, value in vars(actrone_memory).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert set(actrone_memory.__all__) == public


def test_every_name_has_a_docstring() -> None:
    assert [name for name in actrone_memory.__all__ if not inspect.getdoc(getattr(actrone_memory, name))] == []


def test_the_version_is_the_distributions() -> None:
    assert actrone_memory.__version__ == importlib.metadata.version("actrone-memory")


# --- signatures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [path for path, row in SIGNATURES.items() if row != "property"])
def test_a_callable_takes_the_documented_parameters(path: str) -> None:
    documented, further = SIGNATURES[path]
    expected = _parameters(documented)
    actual = list(inspect.signature(_lookup(path)).parameters.values())
    positional = [p for p in expected if p.kind is not p.KEYWORD_ONLY]
    assert [_shape(p) for p in actual[: len(positional)]] == [_shape(p) for p in positional]
    added = {p.name: p for p in actual[len(positional) :]}
    for parameter in expected[len(positional) :]:
        assert _shape(added.pop(parameter.name)) == _shape(parameter)
    assert set(added) <= set(further.split())
    assert [name for name, p in added.items() if p.default is p.empty] == []


@pytest.mark.parametrize("path", [path for path, row in SIGNATURES.items() if row == "property"])
def test_a_property_is_read_only(path: str) -> None:
    found = _lookup(path)
    assert isinstance(found, property)
    assert found.fset is None


@pytest.mark.parametrize(
    "path",
    [
        f"{owner}.{name}"
        for owner, rows in (
            ("MemoryManager", MANAGER_METHODS),
            ("InMemoryStore", L1_METHODS | L2_METHODS),
            ("L1Store", L1_METHODS),
            ("L2Store", L2_METHODS),
            ("HashingEmbedder", EMBEDDER),
        )
        for name, row in rows.items()
        if row != "property" and name != "export_agent"  # it returns an iterator that waits
    ],
)
def test_what_waits_is_a_coroutine_function(path: str) -> None:
    assert inspect.iscoroutinefunction(_lookup(path))


def test_the_managers_public_methods_are_all_in_the_table() -> None:
    methods = {name for name, value in vars(MemoryManager).items() if not name.startswith("_") and callable(value)}
    assert methods | {"create", "reindex"} == {name for name, row in MANAGER_METHODS.items() if row != "property"}


def test_the_sync_manager_has_the_managers_methods_and_properties() -> None:
    def members(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert members(SyncMemoryManager) == members(MemoryManager) | {"manager", "run"}


@pytest.mark.parametrize("name", [name for name, row in MANAGER_METHODS.items() if row != "property"])
def test_a_sync_method_takes_the_parameters_of_the_async_one_and_waits_itself(name: str) -> None:
    waits, plain = getattr(MemoryManager, name), getattr(SyncMemoryManager, name)
    assert list(map(_shape, inspect.signature(plain).parameters.values())) == list(
        map(_shape, inspect.signature(waits).parameters.values())
    )
    assert not inspect.iscoroutinefunction(plain)


def test_the_sync_manager_answers_with_values() -> None:
    with SyncMemoryManager.create(MemoryConfig(embedding_provider="hashing")) as memory:
        turn_id = memory.store_turn("a", "s", "question", "answer")
        assert [turn.id for turn in memory.get_recent_turns("a", "s")] == [turn_id]
        assert isinstance(memory.manager, MemoryManager)
        assert memory.relevance_threshold == memory.manager.relevance_threshold
        assert memory.config is memory.manager.config


async def test_a_manager_tells_its_settings_and_whether_it_is_closed() -> None:
    config = MemoryConfig(embedding_provider="hashing")
    manager = await MemoryManager.create(config)
    wrapped = SyncMemoryManager(manager)
    assert manager.config is wrapped.config
    assert manager.config == config
    assert (manager.closed, wrapped.closed) == (False, False)
    await manager.close()
    assert (manager.closed, wrapped.closed) == (True, True)


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_has_its_documented_default(name: str) -> None:
    default = MemoryConfig.model_fields[name].default
    assert default == SETTINGS[name]
    assert type(default) is type(SETTINGS[name])


def test_every_setting_has_a_default() -> None:
    assert [name for name, field in MemoryConfig.model_fields.items() if field.is_required()] == []


@pytest.mark.parametrize("name", CHOICES)
def test_a_setting_of_choices_knows_the_documented_ones(name: str) -> None:
    annotation = MemoryConfig.model_fields[name].annotation
    assert get_origin(annotation) is Literal
    assert set(get_args(annotation)) >= CHOICES[name]


@pytest.mark.parametrize("name", ["qdrant_api_key", "openai_api_key"])
def test_a_key_is_kept_secret(name: str) -> None:
    config = MemoryConfig(**{name: "sk-secret"})
    assert getattr(config, name) == SecretStr("sk-secret")
    assert "sk-secret" not in f"{config!r}{config}"


def test_settings_are_read_from_prefixed_variables_and_a_dotenv_file() -> None:
    assert MemoryConfig.model_config["env_prefix"] == "ACTRONE_"
    assert MemoryConfig.model_config["env_file"] == ".env"


def test_the_openai_provider_without_a_key_is_refused_at_runtime_validation() -> None:
    config = MemoryConfig(embedding_provider="openai", openai_api_key=None)
    with pytest.raises(ConfigurationError, match="ACTRONE_OPENAI_API_KEY"):
        config.validate_runtime()


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", FIELDS, ids=lambda model: model.__name__)
def test_a_model_has_the_documented_fields_first_and_only_optional_ones_besides(model: type[BaseModel]) -> None:
    documented, further = FIELDS[model]
    actual = {
        name: FACTORY if field.default_factory else REQUIRED if field.default is PydanticUndefined else field.default
        for name, field in model.model_fields.items()
    }
    assert list(actual.items())[: len(documented)] == list(documented.items())
    assert further.items() <= actual.items()
    assert REQUIRED not in list(actual.values())[len(documented) :]


@pytest.mark.parametrize(
    ("model", "field", "choices"),
    [
        (MemoryEntry, "content_type", KINDS),
        (MemoryEntry, "sensitivity", SENSITIVITIES),
        (ExtractedFact, "sensitivity", SENSITIVITIES),
    ],
)
def test_a_label_is_one_of_the_documented_ones(model: type[BaseModel], field: str, choices: set[str]) -> None:
    assert set(get_args(model.model_fields[field].annotation)) == choices


def test_ids_and_times_are_made_anew_for_every_object() -> None:
    first, second = (Turn(session_id="s", user_message="u", assistant_message="a") for _ in range(2))
    assert first.id != second.id
    assert first.timestamp.utcoffset() is not None
    entries = [MemoryEntry(agent_id="a", session_id="s", content="c", content_type="fact") for _ in range(2)]
    assert entries[0].id != entries[1].id
    entries[0].topic_tags.append("mine")
    assert entries[1].topic_tags == []


def test_budget_utilisation_is_the_used_share() -> None:
    context = RetrievedContext(
        recent_turns=[], episodic_memories=[], total_tokens_used=30, token_budget=120, retrieval_duration_ms=1.0
    )
    assert context.budget_utilisation == 0.25
    assert context.render() == ""


# --- protocols --------------------------------------------------------------------------------------------------------


PROTOCOLS = [
    value
    for value in vars(protocols).values()
    if getattr(value, "_is_protocol", False) and value.__module__ == protocols.__name__
]


def test_the_documented_protocols_are_protocols() -> None:
    assert {L1Store, L2Store, FactExtractor, Summariser, Reranker} <= set(PROTOCOLS)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_a_protocol_can_be_tested_for_at_runtime(protocol: type) -> None:
    methods = {name: (lambda *args: None) for name in vars(protocol) if not name.startswith("_")}
    assert isinstance(type("Complete", (), methods)(), protocol)
    assert not isinstance(object(), protocol)


def test_the_in_process_store_is_both_tiers() -> None:
    store = InMemoryStore()
    assert isinstance(store, L1Store)
    assert isinstance(store, L2Store)


def test_an_embedder_must_embed_and_tell_its_dimensions() -> None:
    assert Embedder.__abstractmethods__ == {"embed", "embed_batch", "dimensions"}
    assert [
        e for e in (HashingEmbedder, LocalEmbedder, OnnxEmbedder, OpenAIEmbedder) if not issubclass(e, Embedder)
    ] == []


def test_an_embedder_is_named_after_its_class_and_unmeasured_unless_it_says_otherwise() -> None:
    class Mine(Embedder):
        dimensions = 1

        async def embed(self, text: str) -> list[float]:
            return [1.0]

        async def embed_batch(self, texts: list[str]) -> list[list[float]]:
            return [[1.0] for _ in texts]

    assert Mine().relevance_threshold is None
    assert Mine().background is None
    assert Mine().name == f"{__name__}.{Mine.__qualname__}"


@pytest.mark.parametrize(
    ("make", "package", "module"),
    [
        (lambda: OpenAIEmbedder("sk-test"), "openai", "openai"),
        (lambda: OpenAIFactExtractor("sk-test"), "openai", "openai"),
        (lambda: OpenAISummariser("sk-test"), "openai", "openai"),
        (LocalEmbedder, "sentence-transformers", "sentence_transformers"),
        (OnnxEmbedder, "fastembed", "fastembed"),
    ],
    ids=[
        "OpenAIEmbedder",
        "OpenAIFactExtractor",
        "OpenAISummariser",
        "LocalEmbedder",
        "OnnxEmbedder",
    ],
)
def test_a_part_without_its_package_is_refused_at_once_and_names_what_is_missing(
    make: Any, package: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError) as refused:
        make()
    assert refused.value.details["missing"] == package
    assert package in refused.value.message.lower()
    assert "sk-test" not in f"{refused.value}{refused.value.details}"


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (lambda: SyncMemoryManager.create({"backend": "sqlite"}), r"MemoryConfig\(setting=value\)"),  # type: ignore[arg-type]
        (lambda: SyncMemoryManager.create(embedder=HashingEmbedder), "HashingEmbedder is a class; pass an object"),  # type: ignore[arg-type]
        (lambda: SyncMemoryManager.create(l1=InMemoryStore), "InMemoryStore is a class; pass an object"),  # type: ignore[arg-type]
        (lambda: SyncMemoryManager(MemoryConfig()), r"SyncMemoryManager\.create\(\)"),  # type: ignore[arg-type]
    ],
)
def test_a_manager_made_of_the_wrong_things_says_what_to_write(wrong: Any, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        wrong()


def test_a_tool_result_that_is_a_dict_shows_how_to_make_one() -> None:
    with (
        SyncMemoryManager.create(MemoryConfig(embedding_provider="hashing")) as memory,
        pytest.raises(ValidationError, match=r"ToolResult\(tool_name=\.\.\."),
    ):
        memory.store_turn("a", "s", "question", "answer", tool_results=[{"tool_name": "search"}])  # type: ignore[list-item]


# --- errors -----------------------------------------------------------------------------------------------------------


@errors
def test_an_error_is_ours_and_carries_code_message_and_details(error: ActroneMemoryError) -> None:
    code, text, details = ERRORS[error]
    assert isinstance(error, ActroneMemoryError)
    assert type(error).__mro__[type(error).__mro__.index(ActroneMemoryError) + 1] is Exception
    assert error.code == code
    assert text in error.message
    assert str(error) == error.message
    assert details.items() <= error.details.items()


def test_every_error_of_the_package_is_in_the_table() -> None:
    def tree(kind: type) -> set[type]:
        return {kind}.union(*map(tree, kind.__subclasses__()))

    assert {type(error) for error in ERRORS} == {
        kind for kind in tree(ActroneMemoryError) if kind.__module__.startswith("actrone_memory")
    }


def test_every_error_but_the_root_is_a_direct_child_of_it() -> None:
    children = {type(error) for error in ERRORS} - {ActroneMemoryError}
    assert {kind.__bases__ for kind in children} == {(ActroneMemoryError,)}


@errors
@pytest.mark.parametrize("duplicate", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_an_error_survives_pickling_and_copying(error: ActroneMemoryError, duplicate: Any) -> None:
    back = duplicate(error)
    assert type(back) is type(error)
    assert (back.args, str(back), back.message) == (error.args, str(error), error.message)
    assert (back.code, back.details) == (error.code, error.details)
    assert {k: repr(v) for k, v in vars(back).items()} == {k: repr(v) for k, v in vars(error).items()}


def test_an_error_pickles_whatever_its_store_raised() -> None:
    cause = ConnectionError("lost")
    cause.socket = threading.Lock()  # type: ignore[attr-defined]
    back = pickle.loads(pickle.dumps(StoreConnectionError("redis", cause)))
    assert (back.store, back.code) == ("redis", "store_connection")
    assert "lost" in str(back)


def test_errors_keep_what_they_are_about() -> None:
    assert MemoryNotFoundError("m").memory_id == "m"
    assert ValidationError("limit", "must be at least 1").field == "limit"
    failed = StoreConnectionError("redis", CAUSE)
    assert (failed.store, failed.cause) == ("redis", CAUSE)
    assert "port 6379" in failed.message


def test_details_are_a_copy_of_what_was_given() -> None:
    given = {"a": 1}
    error = ConfigurationError("x", given)
    given["b"] = 2
    assert error.details == {"a": 1}


# --- importing --------------------------------------------------------------------------------------------------------


def test_importing_the_package_warns_of_nothing_and_loads_no_optional_package() -> None:
    code = f"""
import sys, actrone_memory
from actrone_memory import *
print(*(name for name in sys.modules if name.split(".")[0] in {OPTIONAL_PACKAGES!r}))
"""
    assert _run_fresh(code, "-W", "error") == ""


def test_importing_the_package_starts_no_thread_and_no_event_loop() -> None:
    code = "import threading, asyncio, actrone_memory; print(threading.active_count(), asyncio._get_running_loop())"
    assert _run_fresh(code) == "1 None"


INSTALLED = [
    "actrone_memory",
    *(adapter for adapter, needed in ADAPTERS.items() if importlib.util.find_spec(needed) is not None),
]


@pytest.mark.parametrize(
    "order",
    [order for size in (1, 2, 3) for order in itertools.permutations(INSTALLED, size)],
    ids=" ".join,
)
def test_the_packages_import_alone_and_in_any_order_without_a_word(order: tuple[str, ...]) -> None:
    assert _run_fresh(f"import {', '.join(order)}", "-W", "error") == ""


def test_the_suites_without_pytest_say_what_to_install() -> None:
    code = "import sys; sys.modules['pytest'] = None; import actrone_memory.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError: actrone_memory.testing needs pytest: pip install pytest" in done.stderr


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_without_its_framework_names_the_extra(adapter: str) -> None:
    hidden = f"import sys; sys.modules[{ADAPTERS[adapter]!r}] = None"
    done = subprocess.run([sys.executable, "-c", f"{hidden}; import {adapter}"], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"pip install 'actrone-memory[{adapter.removeprefix('actrone_')}]'" in done.stderr
