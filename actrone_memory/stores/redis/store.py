"""The hot tier in Redis, for many processes (extra ``redis``): Redis 6.2 or newer, or Valkey, one server or a cluster.

Each write is one step of a Lua script (``redis.lua``): one round trip, atomic, and harmless when repeated because its
answer was lost. The keys of an agent carry its id as their hash tag, so that a cluster keeps them together.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote
from uuid import uuid4

from actrone_memory import _validation
from actrone_memory._session_log import BACKLOG_TURNS, REMEMBERED_RECORD_IDS, starts_of
from actrone_memory._store_calls import by_activity, check_ids, checked_copy, pieces
from actrone_memory._turns import flatten, join_records
from actrone_memory.config import MemoryConfig
from actrone_memory.errors import ConfigurationError
from actrone_memory.models import SessionMetadata, Turn
from actrone_memory.protocols import SessionCopy
from actrone_memory.stores.redis.clients import RedisClients

if TYPE_CHECKING:
    from redis.asyncio import Redis, RedisCluster

logger = logging.getLogger("actrone_memory")

SECONDS_PER_HOUR = 3_600
LONGEST_SECONDS = 100 * 365 * 24 * SECONDS_PER_HOUR
"""A century: what is meant to last longer lasts as long, and Redis can still count its milliseconds."""

SESSIONS_PER_STEP = 500
VECTORS_PER_STEP = 500
"""Keys touched in one step: enough to save round trips, few enough not to keep other clients waiting."""

CACHE_SECONDS = 1.0
"""How long the cache of vectors may take: embedding a text anew takes hardly longer."""


class RedisStore:
    """An `L1Store` with every capability, and the cache of vectors, in the Redis of ``url`` or of ``client``.

    ``max_turns`` is the number of whole turns a session keeps. A session expires ``session_ttl_seconds`` after its last
    turn, but never before the archive has taken over what waits for it.

    Connections are opened by the first call, one pool of at most ``max_connections`` for each event loop that calls; a
    call that finds them all busy waits. No call takes longer than ``socket_connect_timeout`` + ``socket_timeout``
    seconds. ``client`` (a `redis.asyncio.Redis` or `RedisCluster`, in place of ``url``) stays its owner's to close; on
    other loops than its own the store opens connections like it.

    Raises:
        ConfigurationError: a setting is out of range, ``url`` is no address, or the package redis is missing.
    """

    def __init__(
        self,
        url: str = "redis://localhost:6379",
        max_turns: int = 50,
        *,
        client: Redis | RedisCluster | None = None,
        session_ttl_seconds: float = 24 * SECONDS_PER_HOUR,
        embedding_cache_ttl_seconds: float = 7 * 24 * SECONDS_PER_HOUR,
        max_connections: int = 10,
        socket_timeout: float = 5.0,
        socket_connect_timeout: float = 5.0,
    ) -> None:
        _check_counts(max_turns=max_turns, max_connections=max_connections)
        _check_seconds(
            session_ttl_seconds=session_ttl_seconds,
            embedding_cache_ttl_seconds=embedding_cache_ttl_seconds,
            socket_timeout=socket_timeout,
            socket_connect_timeout=socket_connect_timeout,
        )
        self._max_turns = max_turns
        self._ttl = _milliseconds(session_ttl_seconds)
        self._cache_ttl = _milliseconds(embedding_cache_ttl_seconds)
        self._redis = RedisClients(
            type(self).__name__,
            files("actrone_memory.stores.redis").joinpath("redis.lua").read_text("utf-8"),
            url,
            client,
            max_connections=max_connections,
            socket_timeout=socket_timeout,
            socket_connect_timeout=socket_connect_timeout,
        )

    @classmethod
    def from_config(cls, config: MemoryConfig) -> Self:
        """A store with the settings of a manager."""
        return cls(
            config.redis_url,
            config.max_session_turns,
            session_ttl_seconds=config.session_ttl_hours * SECONDS_PER_HOUR,
            embedding_cache_ttl_seconds=config.embedding_cache_ttl_seconds,
            max_connections=config.redis_max_connections,
            socket_timeout=config.redis_socket_timeout,
            socket_connect_timeout=config.redis_socket_connect_timeout,
        )

    # --- turns ----------------------------------------------------------------------------------------------------

    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        """Append one record; one whose id this session has seen is not appended again."""
        await self.append_turns(agent_id, session_id, [turn])

    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        """Append all records in one step, trim the window and renew the session's time to live.

        With ``hold``, turns wait for `mark_archived` before they are trimmed, and the session before it expires.
        """
        keys = _keys(agent_id, session_id)
        _validation.flag(hold, "hold")
        records = _validation.records(turns, session_id)
        if not records:
            return
        lost = await self._redis.run(
            "append",
            [keys.log, keys.seen, keys.index],
            keys.name,
            *self._window,
            str(REMEMBERED_RECORD_IDS),
            _flag(hold),
            *(part for record in records for part in _parts(record)),
        )
        if lost:
            logger.error(
                "Session %r of agent %r gave up %d turns that were not archived yet: more than %d wait",
                *(session_id, agent_id, lost, BACKLOG_TURNS),
            )

    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        """The last ``n`` whole turns, oldest first; all that are kept when None."""
        keys = _keys(agent_id, session_id)
        limit = self._max_turns if n is None else min(_validation.positive_integer(n, "n"), self._max_turns)
        return join_records(_records(await self._redis.run("recent", [keys.log], str(limit))))

    async def turn_count(self, agent_id: str, session_id: str) -> int:
        """Whole turns that are kept."""
        metadata = await self.get_session_metadata(agent_id, session_id)
        return metadata.turn_count if metadata else 0

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        """Forget the session, its marks and the record ids it has seen."""
        keys = _keys(agent_id, session_id)
        await self._redis.run("clear", [keys.log, keys.seen, keys.lock, keys.index], keys.name)

    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        """Size and age of the session; None when there is none or it has expired."""
        keys = _keys(agent_id, session_id)
        found = await self._describe(agent_id, [keys])
        return found[0] if found else None

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        """Every session of the agent, the most recently active first."""
        found = []
        for some in pieces(await self._sessions(agent_id), SESSIONS_PER_STEP):
            found += await self._describe(agent_id, some)
        return by_activity(found)

    async def list_agents(self) -> list[str]:
        """Every agent that has a session here, in the order of their names; looks through all keys of the server."""
        found = await self._redis.scan("actrone:{*}:sessions")
        return sorted(unquote(key.decode().split("{")[1].split("}")[0]) for key in found)

    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        """True for the first caller within ``ttl_seconds`` (0: for every caller)."""
        keys = _keys(agent_id, session_id)
        seconds = min(_validation.whole_number(ttl_seconds, "ttl_seconds"), LONGEST_SECONDS)
        return bool(await self._redis.run("lock", [keys.lock], str(seconds), uuid4().hex))

    # --- archive --------------------------------------------------------------------------------------------------

    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        """Whole turns that end after the archived mark, trimmed-window backlog included."""
        keys = _keys(agent_id, session_id)
        archived, *found = await self._redis.run("pending", [keys.log]) or [b"-1"]
        return [turn for turn in join_records(_records(found)) if (turn.records[-1].sequence or 0) > int(archived)]

    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        """Move the archived mark behind ``turns`` and trim what waited for it."""
        keys = _keys(agent_id, session_id)
        records = flatten(_validation.turns(turns))
        if records:
            last = max(records, key=lambda record: record.sequence or 0)
            await self._redis.run(
                "mark",
                [keys.log, keys.seen, keys.index],
                keys.name,
                *self._window,
                str(last.sequence or 0),
                last.id,
            )

    async def mark_erased(self, agent_id: str) -> None:
        """Keep what the agent's sessions hold now out of every later archive."""
        for some in pieces(await self._sessions(agent_id), SESSIONS_PER_STEP):
            touched = [key for keys in some for key in (keys.log, keys.seen)]
            await self._redis.run("erase", [some[0].index, *touched], *self._window, *(keys.name for keys in some))

    # --- whole sessions -------------------------------------------------------------------------------------------

    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        """All that is known of the session; None when there is none."""
        keys = _keys(agent_id, session_id)
        found = await self._redis.run("copy", [keys.log, keys.seen])
        if not found:
            return None
        following, archived, erased, hold, created, active, given_up, records = found
        return SessionCopy(
            session_id=session_id,
            records=_records(records),
            given_up=[name.decode() for name in given_up],
            next_sequence=int(following),
            archived=int(archived),
            erased=int(erased),
            hold=hold == b"1",
            created_at=_moment(created),
            last_active=_moment(active),
        )

    async def add_session(self, agent_id: str, copy: SessionCopy) -> bool:
        """Add the session as it was copied, in one step; False, and nothing, when there is one of its name.

        It expires as if its last turn were written now.
        """
        check_ids(agent_id)
        copy = checked_copy(copy)
        keys, starts = _keys(agent_id, copy.session_id), set(starts_of(copy.records))
        added = await self._redis.run(
            "add",
            [keys.log, keys.seen, keys.index],
            keys.name,
            self._ttl,
            *map(str, (copy.next_sequence, copy.archived, copy.erased)),
            _flag(copy.hold),
            _instant(copy.created_at),
            _instant(copy.last_active),
            str(len(copy.given_up)),
            *copy.given_up,
            *(part for one in copy.records for part in (one.id, _flag(one.sequence in starts), _document(one))),
        )
        return bool(added)

    # --- vectors of stored texts ----------------------------------------------------------------------------------

    async def vector_epoch(self, agent_id: str) -> str:
        """What `cache_vectors` must name; it changes with `forget_vectors`."""
        keys = _VectorKeys(agent_id)
        epoch = await self._redis.run("epoch", [keys.epoch], uuid4().hex, self._cache_ttl, seconds=CACHE_SECONDS)
        return bytes(epoch).decode()

    async def cached_vectors(self, agent_id: str, names: Sequence[str]) -> list[bytes | None]:
        """The vector of each name, None where none is cached."""
        keys = _VectorKeys(agent_id)
        found: list[bytes | None] = []
        for some in pieces(names, VECTORS_PER_STEP):
            found += await self._redis.run("vectors", [keys.vector(name) for name in some], seconds=CACHE_SECONDS)
        return found

    async def cache_vectors(self, agent_id: str, vectors: Mapping[str, bytes], *, epoch: str) -> None:
        """Keep the vectors for the cache's time to live; none of them once ``epoch`` has ended."""
        keys = _VectorKeys(agent_id)
        for some in pieces(list(vectors), VECTORS_PER_STEP):
            await self._redis.run(
                "cache",
                [keys.epoch, keys.index, *map(keys.vector, some)],
                epoch,
                self._cache_ttl,
                *(part for name in some for part in (name, vectors[name])),
                seconds=CACHE_SECONDS,
            )

    async def forget_vectors(self, agent_id: str) -> None:
        """Delete every cached vector of the agent, and refuse those that were on their way."""
        keys = _VectorKeys(agent_id)
        names = [bytes(name).decode() for name in await self._redis.run("uncache", [keys.epoch, keys.index])]
        for some in pieces(names, VECTORS_PER_STEP):
            await self._redis.run("forget", [keys.index, *map(keys.vector, some)], *some)

    async def close(self) -> None:
        """Close every connection that this store has opened, on whatever loop. Twice is no error."""
        await self._redis.close()

    @property
    def _window(self) -> tuple[str, str, str]:
        return str(self._max_turns), str(BACKLOG_TURNS), self._ttl

    async def _sessions(self, agent_id: str) -> list[_Keys]:
        keys = _keys(agent_id, "-")
        names = await self._redis.run("names", [keys.index])
        return [_keys(agent_id, unquote(bytes(name).decode())) for name in names]

    async def _describe(self, agent_id: str, sessions: Sequence[_Keys]) -> list[SessionMetadata]:
        """Those of ``sessions`` that have not expired."""
        found = await self._redis.run("describe", [keys.log for keys in sessions])
        return [
            SessionMetadata(
                agent_id=agent_id,
                session_id=unquote(keys.name),
                turn_count=min(turns, self._max_turns),
                created_at=_moment(created),
                last_active=_moment(active),
            )
            for keys, (turns, created, active) in zip(sessions, pieces(found, 3), strict=True)
            if turns
        ]


class _Keys:
    """The keys of one session, and the name by which the agent's index knows it."""

    def __init__(self, agent_id: str, session_id: str) -> None:
        # Quoted, ids hold neither braces nor colons: no two pairs give one key, and the tag is all of the agent's id.
        agent, self.name = quote(agent_id, safe=""), quote(session_id, safe="")
        self.index = f"actrone:{{{agent}}}:sessions"
        self.log = f"actrone:{{{agent}}}:log:{self.name}"
        self.seen = f"actrone:{{{agent}}}:seen:{self.name}"
        self.lock = f"actrone:{{{agent}}}:lock:{self.name}"


class _VectorKeys:
    """The keys of an agent's cached vectors; they tell neither the agent nor the text."""

    def __init__(self, agent_id: str) -> None:
        tag = hashlib.sha256(_validation.identifier(agent_id, "agent_id").encode()).hexdigest()[:32]
        self._prefix = f"actrone:{{{tag}}}:vector"
        self.index, self.epoch = f"{self._prefix}s", f"{self._prefix}-epoch"

    def vector(self, name: str) -> str:
        return f"{self._prefix}:{name}"


def _keys(agent_id: object, session_id: object) -> _Keys:
    return _Keys(_validation.identifier(agent_id, "agent_id"), _validation.identifier(session_id, "session_id"))


def _parts(record: Turn) -> tuple[str, str, str, str]:
    """What the script must know of a record: id, whether it continues, its time (in UTC, so texts compare), itself."""
    return record.id, _flag(record.continues), _instant(record.timestamp), _document(record)


def _document(record: Turn) -> str:
    return record.model_dump_json(exclude={"records", "sequence"})


def _instant(time: datetime | None) -> str:
    return "" if time is None else time.isoformat(timespec="microseconds")


def _moment(instant: bytes) -> datetime | None:
    return datetime.fromisoformat(instant.decode()) if instant else None


def _records(found: Sequence[bytes]) -> list[Turn]:
    """The records of an answer that begins with the number of the first."""
    if not found:
        return []
    first, *documents = found
    records = [Turn.model_validate_json(document) for document in documents]
    for sequence, record in enumerate(records, int(first)):
        record.sequence = sequence
    return records


def _flag(value: bool) -> str:
    return "1" if value else "0"


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(min(seconds, LONGEST_SECONDS) * 1_000)))


def _check_counts(**counts: object) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigurationError(f"{name} must be an integer of at least 1, is {_validation.shown(value)}")


def _check_seconds(**seconds: object) -> None:
    for name, value in seconds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise ConfigurationError(f"{name} must be a number of seconds above 0, is {_validation.shown(value)}")
