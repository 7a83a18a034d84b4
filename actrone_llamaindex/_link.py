"""The way from a memory object to its manager: held, or found again after the object has travelled as data."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

from pydantic import GetCoreSchemaHandler, SecretStr
from pydantic_core import core_schema

from actrone_memory import ConfigurationError, MemoryConfig, MemoryManager, SyncMemoryManager

IN_PROCESS_BACKENDS = frozenset({"memory"})
"""Backends whose data another process cannot open."""

OWN_DEFAULT = f"default-{uuid4().hex}"
"""The token of the manager that serves this process's objects made without one."""

_lock = threading.Lock()
"""Guards what follows; held for look-ups only, so that event loops may take it."""

_opening = threading.Lock()
"""Held while a manager is opened, which may take long; taken before `_lock`, never after it."""

_tokens: WeakKeyDictionary[MemoryManager, str] = WeakKeyDictionary()
_live: WeakValueDictionary[str, MemoryManager] = WeakValueDictionary()
_opened: dict[str, SyncMemoryManager] = {}
"""Managers opened here from settings, by these; nobody else holds them, so they stay for the life of the process."""


class ManagerLink:
    """A manager by reference, or by a token and settings from which it is found or opened when it is first used.

    As data it is the token and the settings without secrets: no key, no address with a password.
    """

    def __init__(self, token: str, settings: Mapping[str, Any], manager: MemoryManager | None = None) -> None:
        self.token, self.settings = token, dict(settings)
        self._manager = manager

    @classmethod
    def to(cls, given: object) -> Self:
        """The link to a manager, to what `data` gave, or (None) to this process's default manager."""
        if given is None:
            return cls(OWN_DEFAULT, _travelling(MemoryConfig()))
        if isinstance(given, cls):
            return given
        if isinstance(given, SyncMemoryManager):
            return cls.to(given.manager)
        if isinstance(given, MemoryManager):
            with _lock:
                token = _tokens.setdefault(given, uuid4().hex)
                _live[token] = given
            return cls(token, _travelling(given.config), given)
        if isinstance(given, Mapping) and isinstance(given.get("token"), str):
            settings = given.get("settings")
            return cls(given["token"], settings if isinstance(settings, Mapping) else {})
        raise ConfigurationError(
            f"memory must be a MemoryManager or a SyncMemoryManager, not {type(given).__name__}; "
            "make one with MemoryManager.create()."
        )

    @property
    def session_turns(self) -> int:
        """How many turns a session keeps."""
        return int(self.settings.get("max_session_turns", MemoryConfig.model_fields["max_session_turns"].default))

    def data(self) -> dict[str, Any]:
        """What travels."""
        return {"token": self.token, "settings": self.settings}

    @property
    def manager(self) -> MemoryManager:
        """The async manager; found or opened with the first use.

        Raises:
            ConfigurationError: the data lives in another process.
        """
        return self._reached()

    async def reach(self) -> MemoryManager:
        """`manager`, opened aside when it must be: the caller's loop goes on."""
        return await asyncio.to_thread(self._reached) if self._manager is None else self._manager

    @property
    def sync(self) -> SyncMemoryManager:
        """The plain calls of `manager`."""
        return SyncMemoryManager(self.manager)

    def _reached(self) -> MemoryManager:
        if self._manager is None:
            self._manager = self._found() or self._found_or_opened()
        return self._manager

    def _found_or_opened(self) -> MemoryManager:
        with _opening:
            return self._found() or self._open()

    def _found(self) -> MemoryManager | None:
        with _lock:
            live = _live.get(self.token)
        # A closed one that can be opened again is; one whose data went with it says that it is closed.
        return None if live is None or (live.closed and not self._in_process) else live

    @property
    def _in_process(self) -> bool:
        return self.settings.get("backend", "memory") in IN_PROCESS_BACKENDS

    def _open(self) -> MemoryManager:
        if self._in_process and self.token != OWN_DEFAULT:
            raise ConfigurationError(
                "This memory's data lived inside the process that made it (backend='memory') and did not travel. "
                "Pass the manager to use, for example ActroneMemory.from_dict(data, memory=manager), "
                "or use a durable backend.",
                {"token": self.token},
                code="in_process_data",
            )
        key = json.dumps(self.settings, sort_keys=True)
        opened = _opened.get(key)
        if opened is None or opened.manager.closed:
            known = {name: value for name, value in self.settings.items() if name in MemoryConfig.model_fields}
            opened = _opened[key] = SyncMemoryManager.create(MemoryConfig(**known))
        with _lock:
            _tokens[opened.manager] = self.token
            _live[self.token] = opened.manager
        return opened.manager

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManagerLink) and other.token == self.token

    def __hash__(self) -> int:
        return hash(self.token)

    def __repr__(self) -> str:
        return f"ManagerLink({self.token!r})"

    def __deepcopy__(self, memo: object) -> Self:
        return self  # a manager is shared, never copied

    def __reduce__(self) -> tuple[Any, ...]:
        return ManagerLink.to, (self.data(),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.to, serialization=core_schema.plain_serializer_function_ser_schema(cls.data)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: object, handler: object) -> dict[str, Any]:
        return {"type": "object"}


def _travelling(config: MemoryConfig) -> dict[str, Any]:
    """What was set and may leave the process; what was left at its default is left so elsewhere."""
    secret = {name for name, value in config if isinstance(value, SecretStr) or _has_password(value)}
    return config.model_dump(mode="json", include={"backend", *config.model_fields_set} - secret)


def _has_password(value: object) -> bool:
    if not isinstance(value, str) or "://" not in value:
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return True  # not readable as an address, so nobody can say what is in it
    return parts.password is not None or parts.username is not None or bool(parts.query)
