"""Long-term memory in Qdrant: one collection for all agents, on a server that many processes share.

Qdrant finds candidates by meaning and by words in one request; the order among them is that of every other store, made
in this process by the same code. What is exact and what is not:

- Of up to `WHOLE_SHELF` memories of an agent (and as many archived turns) every one is a candidate: the order is that
  of the in-process store.
- Of more, the candidates are the `BY_MEANING` nearest, as Qdrant's graphs find them where it keeps any, and the
  `BY_WORDS` best by words. Their scores are exact but for the mean length of a memory and the spread of cosines, both
  told by a sample of `WHOLE_SHELF`, and for turns by their neighbours within `NEIGHBOURING_RECORDS`. How rare a word is
  the server counts among the agent's own memories; see `census`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from actrone_memory import _validation
from actrone_memory._ranking import Weights
from actrone_memory._store_calls import check_settings
from actrone_memory.config import MemoryConfig
from actrone_memory.errors import ConfigurationError
from actrone_memory.stores.qdrant.collection import Collection
from actrone_memory.stores.qdrant.kept import HeldIndexes, KeptEntries
from actrone_memory.stores.qdrant.link import QdrantLink
from actrone_memory.stores.qdrant.search import Search
from actrone_memory.stores.qdrant.writing import Writing

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient


class QdrantStore(Writing, Search):
    """An `L2Store` with every capability in one Qdrant collection, for many threads, loops and processes at once.

    ``url`` is a server's address (Qdrant 1.19 or newer), or ``:memory:`` or ``path:/some/dir`` for the client's own
    local mode, which searches in Python and has one opener at a time: for development and tests. The collection is made
    by the first write. A request takes at most ``timeout_seconds`` with its retries; a search is one request, two or
    three when something was written since the last one, and some more among more than `WHOLE_SHELF` memories; a write
    is three. The weights order a search without ``query_text``. A ``client`` that is handed in is used instead of
    ``url`` and never closed.

    An erasure changes the agent's epoch in the collection first, then deletes. A write of another process that read the
    epoch before and lands after is taken back by its writer, which looks again; until then, and for ever if the writer
    dies in between, it is there but never read: it carries the old epoch.

    Raises:
        ConfigurationError: qdrant-client is missing, ``url`` or ``collection`` is none, or a number lies out of range.
            Also from every call: the collection is none of ours, or the server is too old.
    """

    def __init__(
        self,
        url: str = "http://localhost:6333",
        *,
        api_key: str | None = None,
        collection: str = "agent_memories",
        timeout_seconds: float = 10.0,
        relevance_weight: float = 0.7,
        recency_weight: float = 0.3,
        client: AsyncQdrantClient | QdrantClient | None = None,
    ) -> None:
        check_settings(1, relevance_weight, recency_weight)
        _check_connection(url, collection, timeout_seconds)
        link = QdrantLink(type(self).__name__, url, api_key or None, timeout_seconds, client)
        self._collection = Collection(type(self).__name__, link, collection)
        self._weights = Weights(relevance_weight, recency_weight)
        self._held = HeldIndexes()
        self._kept = KeptEntries()

    @classmethod
    def from_config(cls, config: MemoryConfig) -> Self:
        """The store that the ``qdrant_*`` settings describe."""
        key = config.qdrant_api_key.get_secret_value().strip() if config.qdrant_api_key else None
        return cls(
            config.qdrant_url,
            api_key=key,
            collection=config.qdrant_collection,
            timeout_seconds=config.qdrant_timeout,
            relevance_weight=config.relevance_weight,
            recency_weight=config.recency_weight,
        )

    async def close(self) -> None:
        """Close what this store opened; the data stays."""
        await self._collection.close()
        self._held, self._kept = HeldIndexes(), KeptEntries()


def _check_connection(url: object, collection: object, timeout_seconds: object) -> None:
    for name, value in (("url", url), ("collection", collection)):
        if not isinstance(value, str) or not value.strip():
            raise ConfigurationError(f"{name} must be a text that is not blank, is {_validation.shown(value)}")
    if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, int | float) or not timeout_seconds > 0:
        raise ConfigurationError(f"timeout_seconds must be positive, is {_validation.shown(timeout_seconds)}")
