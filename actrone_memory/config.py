"""Every setting of the engine, from keyword arguments, ``ACTRONE_*`` variables or a ``.env`` file."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import pydantic
from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, SecretStr, StringConstraints, model_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from actrone_memory.errors import ConfigurationError
from actrone_memory.models import MaskedSensitivity

logger = logging.getLogger("actrone_memory")

ENV_PREFIX = "ACTRONE_"
BUDGET_FRACTIONS = (
    "budget_fraction_system",
    "budget_fraction_episodic",
    "budget_fraction_session",
    "budget_fraction_current_turn",
)

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def listed(value: object) -> object:
    """The items of a list of words that is written with commas, or as JSON; whatever is no text as it is."""
    if not isinstance(value, str):
        return value
    words = value.strip().removeprefix("[").removesuffix("]").split(",")
    return [word for item in words if (word := item.strip(" '\""))]


Masked = Annotated[tuple[MaskedSensitivity, ...], NoDecode, BeforeValidator(listed)]

MAX_DIMENSIONS = 65_536
"""More buckets than any vocabulary needs, few enough for a vector to fit into memory."""

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
"""The model of the local embedders: small, and measured."""

CROSS_ENCODER = "Xenova/ms-marco-MiniLM-L-6-v2"
"""The model of the reranker: as small as MiniLM, made to order the results of a search."""

_warned_variables: set[str] = set()


class MemoryConfig(BaseSettings):
    """Settings of a `MemoryManager`. Keyword arguments win over ``ACTRONE_*`` variables, those over ``.env``.

    Raises:
        ConfigurationError: an unknown keyword, a value out of range, or values that contradict each other; the
            message names the setting.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_file=".env", extra="ignore", defer_build=True)

    backend: Literal["memory", "sqlite", "redis_qdrant"] = "memory"
    sqlite_path: Path | None = None
    redis_url: Name = Field("redis://localhost:6379", repr=False)  # it may hold a password
    qdrant_url: Name = "http://localhost:6333"
    qdrant_api_key: SecretStr | None = None
    redis_max_connections: Count = 10
    redis_socket_timeout: Seconds = 5.0
    redis_socket_connect_timeout: Seconds = 5.0
    qdrant_timeout: Seconds = 10.0
    degrade: bool = False

    embedding_provider: Literal["openai", "local", "static", "hashing"] = "local"
    local_model: Name = MINILM
    openai_api_key: SecretStr | None = None
    openai_base_url: Name | None = None
    embedding_model: Name = "text-embedding-3-small"
    embedding_dimensions: Count = 1536
    hashing_dimensions: Annotated[int, Field(ge=1, le=MAX_DIMENSIONS)] = 256
    embedding_cache_ttl_seconds: Count = 604800
    summarisation_model: Name = "gpt-4o-mini"

    session_ttl_hours: Count = 24
    max_session_turns: Count = 50

    qdrant_collection: Name = "agent_memories"
    max_episodic_memories: Count = 500
    relevance_threshold: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | None = None
    relevance_weight: Share = 0.7
    recency_weight: Share = 0.3
    hybrid_retrieval: bool = True
    newer_wins: bool = True
    rerank_enabled: bool = False
    rerank_model: Name = CROSS_ENCODER
    rerank_top_k: Count = 20

    redact_sensitivity: Masked = ()

    extract_facts: bool = False
    archive_turns: bool = True
    auto_summarise: bool = True
    summarise_after_turns: Count = 20
    summarise_cooldown_seconds: Annotated[int, Field(ge=0)] = 300
    strict_background_errors: bool = False
    shutdown_grace_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0

    token_counter: Literal["heuristic", "tiktoken"] = "heuristic"  # noqa: S105
    tiktoken_encoding: Name = "o200k_base"
    budget_fraction_system: Share = 0.3
    budget_fraction_episodic: Share = 0.25
    budget_fraction_session: Share = 0.35
    budget_fraction_current_turn: Share = 0.1

    if not TYPE_CHECKING:  # type checkers derive the signature from the fields

        @functools.wraps(BaseSettings.__init__)
        def __init__(self, /, *args, **values):
            try:
                super().__init__(*args, **values)
            except (UnicodeError, OSError) as error:
                raise ConfigurationError(
                    f"The .env file cannot be read: {error}. Save it as UTF-8, or pass MemoryConfig(_env_file=None).",
                    {"setting": "_env_file"},
                ) from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic-settings'
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The usual sources, after a look at the names they bring: see the class."""
        if isinstance(init_settings, InitSettingsSource):
            _refuse_unknown_keywords(init_settings.init_kwargs, cls.model_fields)
            for name, value in init_settings.init_kwargs.items():
                if isinstance(value, bool) and cls.model_fields[name].annotation is not bool:
                    raise ConfigurationError(f"{name} is no switch; {value} is no value for it.", {"setting": name})
        dotenv = dotenv_settings.env_vars if isinstance(dotenv_settings, DotEnvSettingsSource) else {}
        _warn_of_unknown_variables([*os.environ, *dotenv], cls.model_fields)
        return init_settings, env_settings, dotenv_settings, file_secret_settings

    @model_validator(mode="wrap")
    @classmethod
    def _raise_our_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            config = handler(data)
        except pydantic.ValidationError as error:
            problems = {str(e["loc"][0]) if e["loc"] else "settings": e["msg"] for e in error.errors()}
            text = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
            raise ConfigurationError(f"Invalid settings. {text}.", {"settings": sorted(problems)}) from None
        config.validate_consistency()
        return config

    def validate_consistency(self) -> None:
        """Check the settings against each other.

        Raises:
            ConfigurationError: the budget fractions do not add up to 1, or both ranking weights are 0.
        """
        total = sum(getattr(self, name) for name in BUDGET_FRACTIONS)
        if abs(total - 1) > 1e-6:
            raise ConfigurationError(
                f"{', '.join(BUDGET_FRACTIONS)} add up to {total:g}; they divide the budget, so make them add up to 1.",
                {"settings": list(BUDGET_FRACTIONS)},
            )
        if self.relevance_weight + self.recency_weight == 0:
            raise ConfigurationError(
                "relevance_weight and recency_weight are both 0; set at least one of them above 0.",
                {"settings": ["relevance_weight", "recency_weight"]},
            )

    def validate_runtime(self) -> None:
        """Check what opening connections will need, beyond what each setting allows by itself.

        Raises:
            ConfigurationError: settings contradict each other, or the OpenAI provider has no API key.
        """
        self.validate_consistency()
        if self.embedding_provider == "openai" and not _secret(self.openai_api_key):
            raise ConfigurationError(
                "embedding_provider='openai' needs an API key: set ACTRONE_OPENAI_API_KEY or openai_api_key.",
                {"setting": "openai_api_key"},
            )


def _secret(value: SecretStr | None) -> str:
    return value.get_secret_value().strip() if value else ""


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib  # only for those who misspell

    close = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def _refuse_unknown_keywords(given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise ConfigurationError(f"MemoryConfig has no setting {name!r}.{_nearest(name, known)}", {"setting": name})


def _warn_of_unknown_variables(variables: Iterable[str], known: Iterable[str]) -> None:
    for variable in variables:
        name = variable.upper()
        if not name.startswith(ENV_PREFIX) or name in _warned_variables:
            continue
        setting = name.removeprefix(ENV_PREFIX).lower()
        if setting not in known:
            _warned_variables.add(name)
            logger.warning("%s is no setting of actrone-memory and is ignored.%s", name, _nearest(setting, known))
