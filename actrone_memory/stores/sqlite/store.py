"""`SQLiteStore`: the two tiers over one file, and whose vectors it holds."""

from __future__ import annotations

import os
from pathlib import Path

from actrone_memory import _validation
from actrone_memory._ranking import Weights
from actrone_memory._store_calls import check_settings
from actrone_memory.errors import ConfigurationError
from actrone_memory.stores.sqlite.agents import agent_names
from actrone_memory.stores.sqlite.file import SQLiteFile
from actrone_memory.stores.sqlite.indexes import Indexes
from actrone_memory.stores.sqlite.memories import Memories
from actrone_memory.stores.sqlite.path import checked_path
from actrone_memory.stores.sqlite.schema import SCHEMA
from actrone_memory.stores.sqlite.turns import Turns
from actrone_memory.stores.sqlite.vectors import Vectors
from actrone_memory.stores.sqlite.window import Window


class SQLiteStore(Turns, Memories, Vectors):
    """An `L1Store` and an `L2Store` with every capability in the file ``path``, for many threads and processes at once.

    A read sees what any process has written before it. A write that has returned survives a killed process. Each agent
    that is searched has its index in this process, read from the file by the first search and kept up to date.

    The file is opened by the first call, and made with mode 0600 if there is none or an empty one; `close` lets go of
    it, and a later call opens it again.

    ``path`` defaults to a file in the user's data folder. ``max_turns`` is the number of whole turns a session keeps;
    the weights order a search without ``query_text``. With ``session_ttl_seconds`` a session that nothing was appended
    to for so long reads as gone; the archive still gets what it has not taken over, and lists the session until then.

    Raises:
        ConfigurationError: ``path`` is no path, ``max_turns`` or ``session_ttl_seconds`` is not positive, or a weight
            lies outside [0, 1]. Also from every call: the file is not ours, newer or damaged.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        max_turns: int = 50,
        *,
        relevance_weight: float = 0.7,
        recency_weight: float = 0.3,
        session_ttl_seconds: float | None = None,
    ) -> None:
        check_settings(max_turns, relevance_weight, recency_weight)
        _check_ttl(session_ttl_seconds)
        self._file = SQLiteFile(checked_path(path), SCHEMA, type(self).__name__)
        self._window = Window(max_turns, session_ttl_seconds)
        self._indexes = Indexes(self._file)
        self._weights = Weights(relevance_weight, recency_weight)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    async def list_agents(self) -> list[str]:
        """Every agent that has a session or a memory here."""
        return await self._file.read(agent_names)

    async def close(self) -> None:
        """Let go of the file and of the indexes; a later call opens the file again."""
        await self._file.close()
        self._indexes.clear()


def _check_ttl(seconds: object) -> None:
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ConfigurationError(f"session_ttl_seconds must be a positive number, is {_validation.shown(seconds)}")
