"""The shipped suites fail a store or an embedder that breaks one promise, and pass a plain store that keeps all."""

from __future__ import annotations

import asyncio
import fnmatch
import itertools
import math
import random
import re
import threading
import time
import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest

from actrone_memory import (
    EmbedderIdentity,
    HashingEmbedder,
    InMemoryStore,
    MemoryEntry,
    SessionMetadata,
    Turn,
    ValidationError,
    cosine_similarity,
)
from actrone_memory._turns import flatten, join_records
from actrone_memory.models import ContentType, utc_now
from actrone_memory.protocols import Page, SessionCopy
from actrone_memory.testing import EmbedderConformance, L1StoreConformance, L2StoreConformance

# --- a correct store of the documented methods alone ------------------------------------------------------------------


class PlainL1:
    """Sessions as lists of JSON: the methods of an `L1Store` and nothing else."""

    def __init__(self, max_turns: int = 50) -> None:
        self.max_turns = max_turns
        self.lock = threading.Lock()
        self.records: dict[object, list[Any]] = {}
        self.seen: dict[object, set[str]] = {}
        self.times: dict[object, tuple[datetime, datetime]] = {}
        self.locked_until: dict[object, float] = {}

    def key(self, agent_id: str, session_id: str) -> object:
        return agent_id, session_id

    def write(self, turn: Turn) -> Any:
        return turn.model_dump_json()

    def read(self, stored: Any) -> Turn:
        return Turn.model_validate_json(stored)

    def trim(self, records: list[Any]) -> None:
        del records[: -self.max_turns]

    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        key = self.key(agent_id, session_id)
        with self.lock:
            if turn.id in self.seen.setdefault(key, set()):
                return
            self.seen[key].add(turn.id)
            self.records.setdefault(key, []).append(self.write(turn))
            self.trim(self.records[key])
            self.times[key] = self.times.get(key, (utc_now(), utc_now()))[0], utc_now()

    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        if n is not None and n < 1:
            raise ValidationError("n", "must be at least 1")
        with self.lock:
            records = list(self.records.get(self.key(agent_id, session_id), []))
        return [self.read(record) for record in (records if n is None else records[-n:])]

    async def turn_count(self, agent_id: str, session_id: str) -> int:
        return len(self.records.get(self.key(agent_id, session_id), []))

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        self.forget(self.key(agent_id, session_id))

    def forget(self, key: object) -> None:
        with self.lock:
            for kept in (self.records, self.seen, self.times):
                kept.pop(key, None)  # type: ignore[attr-defined]

    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        key = self.key(agent_id, session_id)
        if key not in self.times:
            return None
        created, active = self.times[key]
        return SessionMetadata(
            agent_id=agent_id,
            session_id=session_id,
            turn_count=await self.turn_count(agent_id, session_id),
            created_at=created,
            last_active=active,
        )

    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        key = self.key(agent_id, session_id)
        with self.lock:
            if self.locked_until.get(key, 0.0) > time.monotonic():
                return False
            self.locked_until[key] = time.monotonic() + ttl_seconds
            return True

    async def close(self) -> None:
        pass


class PlainL2:
    """Entries as JSON beside their vectors: the methods of an `L2Store` and nothing else."""

    hybrid = False

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: dict[str, tuple[str, Any, list[float]]] = {}

    def owner(self, agent_id: str) -> str:
        return agent_id

    def write(self, entry: MemoryEntry) -> Any:
        return entry.model_dump_json(exclude={"embedding", "score"})

    def read(self, stored: Any) -> MemoryEntry:
        return MemoryEntry.model_validate_json(stored)

    def cosine(self, query: list[float], vector: list[float]) -> float:
        return round(cosine_similarity(query, vector), 9)

    def order(self, entry: MemoryEntry, cosine: float) -> tuple[float, ...]:
        age = max(0.0, (utc_now() - entry.timestamp).total_seconds()) / 86_400
        # In whole millionths, so that entries of the same moment tie although the clock went on.
        blend = round(0.7 * cosine + 0.3 * 0.5 ** (age / 30), 6)
        return -blend, -entry.importance_score, -entry.timestamp.timestamp()

    async def upsert(self, entry: MemoryEntry) -> None:
        owner = self.owner(entry.agent_id)
        with self.lock:
            if self.entries.get(entry.id, (owner,))[0] != owner:
                raise ValidationError("id", "belongs to another agent")
            self.entries[entry.id] = owner, self.write(entry), list(entry.embedding or [])

    def owned(self, agent_id: str) -> list[tuple[Any, list[float]]]:
        owner = self.owner(agent_id)
        with self.lock:
            return [(stored, vector) for other, stored, vector in self.entries.values() if other == owner]

    async def search(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        limit: int = 20,
        content_types: list[ContentType] | None = None,
        query_text: str | None = None,
    ) -> list[MemoryEntry]:
        limit = self.checked(limit)
        found = [(self.read(stored), self.cosine(query_embedding, vector)) for stored, vector in self.owned(agent_id)]
        admitted = [(e, cosine) for e, cosine in found if self.admits(e, cosine, threshold, content_types)]
        return [e for e, _ in sorted(admitted, key=lambda pair: self.order(*pair))][:limit]

    def checked(self, limit: int) -> int:
        if limit < 1:
            raise ValidationError("limit", "must be at least 1")
        return limit

    def admits(self, e: MemoryEntry, cosine: float, threshold: float, content_types: list[ContentType] | None) -> bool:
        return cosine >= threshold and (content_types is None or e.content_type in content_types)

    async def delete(self, memory_id: str) -> None:
        with self.lock:
            self.entries.pop(memory_id, None)

    async def delete_agent_memories(self, agent_id: str) -> None:
        owner = self.owner(agent_id)
        with self.lock:
            self.entries = {id_: kept for id_, kept in self.entries.items() if kept[0] != owner}

    async def close(self) -> None:
        pass


class TestPlainL1(L1StoreConformance):
    async def make_store(self, max_turns: int) -> PlainL1:
        return PlainL1(max_turns)


class TestPlainL2(L2StoreConformance):
    hybrid = False

    async def make_store(self) -> PlainL2:
        return PlainL2()


def is_like(text: str, pattern: str) -> bool:
    """SQL's LIKE."""
    wildcards = {"%": ".*", "_": "."}
    return bool(re.fullmatch("".join(wildcards.get(c, re.escape(c)) for c in pattern), text, re.DOTALL))


# --- running a suite --------------------------------------------------------------------------------------------------


def l1_suite(store: Callable[[int], Any]) -> L1StoreConformance:
    class Suite(L1StoreConformance):
        async def make_store(self, max_turns: int) -> Any:
            return store(max_turns)

    return Suite()


def l2_suite(store: Callable[[], Any]) -> L2StoreConformance:
    class Suite(L2StoreConformance):
        hybrid = getattr(store, "hybrid", True)

        async def make_store(self) -> Any:
            return store()

    return Suite()


def embedder_suite(embedder: Callable[[], Any]) -> EmbedderConformance:
    class Suite(EmbedderConformance):
        def make_embedder(self) -> Any:
            return embedder()

    return Suite()


def failure_of(suite: object, name: str) -> BaseException | None:
    """What the test raised, a skip included; None when it passed. A mistake of the break itself is raised on."""
    try:
        getattr(suite, name)()
    except (TypeError, AttributeError, NameError):
        raise
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as failure:
        return failure
    return None


def names_of_tests(suite: object) -> list[str]:
    """The suite's tests, those that wait last."""
    return sorted((name for name in dir(suite) if name.startswith("test_")), key=lambda name: ("lock" in name, name))


def failed_tests(broken: object, sound: object) -> list[str]:
    """The first test that the broken part fails and the sound one passes: one is enough."""
    failing = (
        name
        for name in names_of_tests(broken)
        if not isinstance(failure_of(broken, name), pytest.skip.Exception | None) and failure_of(sound, name) is None
    )
    return list(itertools.islice(failing, 1))


def sound_part_of(broken: type) -> type:
    """The correct store or embedder that ``broken`` is made of."""
    return next(part for part in (PlainL1, PlainL2, InMemoryStore, HashingEmbedder) if issubclass(broken, part))


@pytest.mark.parametrize(
    ("suite", "lacking"),
    [
        (l1_suite(PlainL1), "PlainL1 has no (TurnBatches|SessionListing|AgentListing|ArchiveLog|SessionTransfer)"),
        (
            l2_suite(PlainL2),
            "PlainL2 has no (BatchWrites|EntryAccess|MemoryListing|AgentListing|SessionTurns|EmbedderBinding"
            "|PagedSearch|EntryTransfer|Reindexing)"
            "|the store ignores query_text",
        ),
    ],
    ids=["L1", "L2"],
)
def test_a_plain_store_passes_and_each_skip_names_what_it_lacks(suite: object, lacking: str) -> None:
    outcomes = [failure_of(suite, name) for name in names_of_tests(suite)]
    skips = [outcome for outcome in outcomes if isinstance(outcome, pytest.skip.Exception)]
    assert [outcome for outcome in outcomes if outcome is not None and outcome not in skips] == []
    assert len(skips) >= 6
    for skip in skips:
        assert re.fullmatch(lacking, skip.msg)


@pytest.mark.parametrize(
    "suite",
    [l1_suite(InMemoryStore), l2_suite(InMemoryStore), embedder_suite(HashingEmbedder)],
    ids=["L1", "L2", "embedder"],
)
def test_what_breaks_nothing_passes_every_test_and_skips_none(suite: object) -> None:
    assert {name: failure_of(suite, name) for name in names_of_tests(suite)} == dict.fromkeys(names_of_tests(suite))


# --- hot tier: ids ----------------------------------------------------------------------------------------------------


def keyed(name: str, key: Callable[[str, str], object]) -> type[PlainL1]:
    return type(name, (PlainL1,), {"key": staticmethod(key)})


def folded(name: str, fold: Callable[[str], str]) -> type[PlainL1]:
    return keyed(name, lambda agent, session: (fold(agent), fold(session)))


def truncated(length: int) -> Callable[[str], str]:
    return lambda id_: id_[:length]


FOLDS: dict[str, Callable[[str], str]] = {
    "casefolds_ids": str.casefold,
    "composes_ids": lambda id_: unicodedata.normalize("NFC", id_),
    "composes_ids_for_compatibility": lambda id_: unicodedata.normalize("NFKC", id_),
    "strips_ids": str.strip,
    "squeezes_spaces_in_ids": lambda id_: re.sub(" +", " ", id_),
    "drops_other_scripts_from_ids": lambda id_: id_.encode("ascii", "ignore").decode(),
    "replaces_what_is_no_letter_in_ids": lambda id_: "".join(c if c.isalnum() else "_" for c in id_),
    "cuts_ids_at_64": truncated(64),
    "cuts_ids_at_255": truncated(255),
    "escapes_colons_in_ids_but_not_the_escape": lambda id_: id_.replace(":", "%3A"),
}

BROKEN_IDS: list[type[PlainL1]] = [
    *(
        keyed(f"joins_ids_with_{separator!r}", lambda agent, session, by=separator: f"{agent}{by}{session}")
        for separator in (":", "::", "/", "-", "_", ".", "|", ",", " ", "#", "@", "\\", "")
    ),
    *(folded(name, fold) for name, fold in FOLDS.items()),
    keyed("ignores_the_agent", lambda agent, session: session),
    keyed("ignores_the_session", lambda agent, session: agent),
]


# --- hot tier: turns --------------------------------------------------------------------------------------------------


class SortsByTimestamp(PlainL1):
    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        await super().get_recent_turns(agent_id, session_id, n)
        turns = await super().get_recent_turns(agent_id, session_id)
        return sorted(turns, key=lambda turn: turn.timestamp)[-(n or 0) :]


class ReturnsNewestFirst(PlainL1):
    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        return (await super().get_recent_turns(agent_id, session_id, n))[::-1]


class IgnoresN(PlainL1):
    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        return (await super().get_recent_turns(agent_id, session_id, n)) and (
            await super().get_recent_turns(agent_id, session_id)
        )


class TakesTheOldestN(PlainL1):
    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        await super().get_recent_turns(agent_id, session_id, n)
        return (await super().get_recent_turns(agent_id, session_id))[:n]


class AcceptsNBelowOne(PlainL1):
    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        return await super().get_recent_turns(agent_id, session_id, n if n is None or n > 0 else None)


class DoublesARepeatedRecord(PlainL1):
    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        self.seen.clear()
        await super().append_turn(agent_id, session_id, turn)


class SkipsARecordSeenInAnotherSession(PlainL1):
    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        if not any(turn.id in seen for seen in self.seen.values()):
            await super().append_turn(agent_id, session_id, turn)


class ForgetsTheIdsOfTrimmedRecords(PlainL1):
    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        key = self.key(agent_id, session_id)
        self.seen[key] = {self.read(record).id for record in self.records.get(key, [])}
        await super().append_turn(agent_id, session_id, turn)


class RemembersTheIdsOfAClearedSession(PlainL1):
    def forget(self, key: object) -> None:
        seen = self.seen.get(key, set())
        super().forget(key)
        self.seen[key] = seen


class DropsAHeadlessRecord(PlainL1):
    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        if self.records.get(self.key(agent_id, session_id)) or not turn.continues:
            await super().append_turn(agent_id, session_id, turn)


def losing(name: str, change: Callable[[Turn], dict[str, Any]]) -> type[PlainL1]:
    """A store that changes every turn it writes."""

    def write(self: PlainL1, turn: Turn) -> Any:
        return turn.model_copy(update=change(turn)).model_dump_json()

    return type(name, (PlainL1,), {"write": write})


def with_results(**change: Callable[[Any], Any]) -> Callable[[Turn], dict[str, Any]]:
    def changed(turn: Turn) -> dict[str, Any]:
        return {
            "tool_results": [
                result.model_copy(update={name: make(getattr(result, name)) for name, make in change.items()})
                for result in turn.tool_results
            ]
        }

    return changed


LOSING: list[type[PlainL1]] = [
    losing("loses_tool_results", lambda turn: {"tool_results": []}),
    losing("loses_the_duration_of_tools", with_results(duration_ms=lambda _: None)),
    losing("loses_the_failure_of_tools", with_results(success=lambda _: True)),
    losing("stores_the_results_of_tools_as_text", with_results(result=str)),
    losing("loses_metadata", lambda turn: {"metadata": {}}),
    losing("loses_the_count_of_tokens", lambda turn: {"token_count": 0}),
    losing("loses_that_a_record_continues", lambda turn: {"continues": False}),
    losing("loses_microseconds", lambda turn: {"timestamp": turn.timestamp.replace(microsecond=0)}),
    losing("gives_turns_new_ids", lambda turn: {"id": f"new-{turn.id}"}),
    losing("stores_empty_text_as_none", lambda turn: {"assistant_message": turn.assistant_message or "None"}),
    losing("strips_text", lambda turn: {"user_message": turn.user_message.strip()}),
    losing("changes_line_ends", lambda turn: {"user_message": "\n".join(turn.user_message.splitlines())}),
    losing("composes_text", lambda turn: {"user_message": unicodedata.normalize("NFC", turn.user_message)}),
    losing("drops_emoji", lambda turn: {"user_message": "".join(c for c in turn.user_message if ord(c) < 0x10000)}),
]


class ReturnsLiveObjects(PlainL1):
    def write(self, turn: Turn) -> Any:
        return turn.model_copy(deep=True)

    def read(self, stored: Any) -> Turn:
        return stored


class KeepsTheWritersObject(PlainL1):
    def write(self, turn: Turn) -> Any:
        return turn

    def read(self, stored: Any) -> Turn:
        return stored.model_copy(deep=True)


class ReturnsShallowCopies(PlainL1):
    def write(self, turn: Turn) -> Any:
        return turn.model_copy(deep=True)

    def read(self, stored: Any) -> Turn:
        return stored.model_copy()


class KeepsShallowCopies(PlainL1):
    def write(self, turn: Turn) -> Any:
        return turn.model_copy()

    def read(self, stored: Any) -> Turn:
        return stored.model_copy(deep=True)


class CountsTrimmedTurns(PlainL1):
    async def turn_count(self, agent_id: str, session_id: str) -> int:
        return len(self.seen.get(self.key(agent_id, session_id), ()))


class NeverTrims(PlainL1):
    def trim(self, records: list[Any]) -> None:
        pass


class TrimsTheNewest(PlainL1):
    def trim(self, records: list[Any]) -> None:
        del records[self.max_turns :]


class LosesWritesOfOtherThreads(PlainL1):
    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None:
        key = self.key(agent_id, session_id)
        before = list(self.records.get(key, []))
        await asyncio.sleep(0.001)
        if turn.id not in self.seen.get(key, ()):
            await super().append_turn(agent_id, session_id, turn)
            self.records[key] = [*before, self.records[key][-1]]
            self.trim(self.records[key])


# --- hot tier: sessions and locks -------------------------------------------------------------------------------------


class ClearsEverySessionOfTheAgent(PlainL1):
    async def clear_session(self, agent_id: str, session_id: str) -> None:
        for key in [key for key in self.records if key[0] == agent_id]:  # type: ignore[index]
            self.forget(key)


class ClearsTheSessionOfEveryAgent(PlainL1):
    async def clear_session(self, agent_id: str, session_id: str) -> None:
        for key in [key for key in self.records if key[1] == session_id]:  # type: ignore[index]
            self.forget(key)


class ClearsByPattern(PlainL1):
    async def clear_session(self, agent_id: str, session_id: str) -> None:
        for agent, session in list(self.records):  # type: ignore[misc]
            if agent == agent_id and fnmatch.fnmatchcase(session, session_id):
                self.forget((agent, session))
        self.forget((agent_id, session_id))


class ClearsBySqlPattern(PlainL1):
    async def clear_session(self, agent_id: str, session_id: str) -> None:
        for agent, session in list(self.records):  # type: ignore[misc]
            if agent == agent_id and is_like(session, session_id):
                self.forget((agent, session))
        self.forget((agent_id, session_id))


class ClearsByPrefix(PlainL1):
    async def clear_session(self, agent_id: str, session_id: str) -> None:
        for agent, session in list(self.records):  # type: ignore[misc]
            if agent == agent_id and session.startswith(session_id):
                self.forget((agent, session))


class ClearsNothing(PlainL1):
    async def clear_session(self, agent_id: str, session_id: str) -> None:
        pass


class KeepsTheMetadataOfAClearedSession(PlainL1):
    def forget(self, key: object) -> None:
        times = self.times.get(key)
        super().forget(key)
        if times:
            self.times[key] = times


class RefusesToClearNothing(PlainL1):
    async def clear_session(self, agent_id: str, session_id: str) -> None:
        del self.records[self.key(agent_id, session_id)]
        await super().clear_session(agent_id, session_id)


class RefusesAnUnknownSession(PlainL1):
    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        return [self.read(record) for record in self.records[self.key(agent_id, session_id)][-(n or 0) :]]


class DescribesAnUnknownSession(PlainL1):
    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        known = await super().get_session_metadata(agent_id, session_id)
        return known or SessionMetadata(agent_id=agent_id, session_id=session_id, turn_count=0)


class LastActiveStandsStill(PlainL1):
    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        known = await super().get_session_metadata(agent_id, session_id)
        return known and known.model_copy(update={"last_active": known.created_at})


class CreatedMovesOn(PlainL1):
    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        known = await super().get_session_metadata(agent_id, session_id)
        return known and known.model_copy(update={"created_at": known.last_active})


class MetadataCountsOneTurn(PlainL1):
    async def get_session_metadata(self, agent_id: str, session_id: str) -> SessionMetadata | None:
        known = await super().get_session_metadata(agent_id, session_id)
        return known and known.model_copy(update={"turn_count": 1})


class GivesTheLockToEverybody(PlainL1):
    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        return True


class GivesTheLockToNobody(PlainL1):
    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        return False


class KeepsTheLockForEver(PlainL1):
    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        return await super().try_acquire_summary_lock(agent_id, session_id, ttl_seconds + 3_600)


class HasOneLockForAllSessions(PlainL1):
    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        return await super().try_acquire_summary_lock(agent_id, "-", ttl_seconds)


class HasOneLockForAllAgents(PlainL1):
    async def try_acquire_summary_lock(self, agent_id: str, session_id: str, ttl_seconds: int) -> bool:
        return await super().try_acquire_summary_lock("-", session_id, ttl_seconds)


class RefusesToCloseTwice(PlainL1):
    async def close(self) -> None:
        if self.max_turns < 0:
            raise RuntimeError("closed")
        self.max_turns = -1


# --- hot tier: capabilities -------------------------------------------------------------------------------------------


class TrimsInTheMiddleOfATurn(InMemoryStore):
    def __init__(self, max_turns: int = 50) -> None:
        super().__init__(max_turns)
        self.most_records = 2 * max_turns - 1

    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        turns = await super().get_recent_turns(agent_id, session_id, n)
        return join_records(flatten(turns)[-self.most_records :])


class CountsRecords(InMemoryStore):
    async def turn_count(self, agent_id: str, session_id: str) -> int:
        return len(flatten(await self.get_recent_turns(agent_id, session_id)))


class AppendsABatchOneByOne(InMemoryStore):
    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        for turn in turns:
            await super().append_turns(agent_id, session_id, [turn], hold=hold)


class ReversesABatch(InMemoryStore):
    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        await super().append_turns(agent_id, session_id, turns[::-1], hold=hold)


class DoublesWithinABatch(InMemoryStore):
    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        seen: list[str] = []
        for i, turn in enumerate(turns):
            turns = [*turns[:i], turn.model_copy(update={"id": turn.id + "'" * seen.count(turn.id)}), *turns[i + 1 :]]
            seen.append(turn.id)
        await super().append_turns(agent_id, session_id, turns, hold=hold)


class DropsABatchThatBeginsWithASeenRecord(InMemoryStore):
    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        known = {record.id for record in flatten(await self.get_recent_turns(agent_id, session_id))}
        if not (turns and turns[0].id in known):
            await super().append_turns(agent_id, session_id, turns, hold=hold)


class IgnoresHold(InMemoryStore):
    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        await super().append_turns(agent_id, session_id, turns)


class ShowsTheBacklog(InMemoryStore):
    async def get_recent_turns(self, agent_id: str, session_id: str, n: int | None = None) -> list[Turn]:
        recent = await super().get_recent_turns(agent_id, session_id, n)
        waiting = await self.unarchived(agent_id, session_id)
        return waiting if n is None and len(waiting) > len(recent) else recent


class CountsTheBacklog(InMemoryStore):
    async def turn_count(self, agent_id: str, session_id: str) -> int:
        waiting = await self.unarchived(agent_id, session_id)
        return max(len(waiting), await super().turn_count(agent_id, session_id))


class ListsSessionsOfEveryAgent(InMemoryStore):
    def __init__(self, max_turns: int = 50) -> None:
        super().__init__(max_turns)
        self.agents: dict[str, None] = {}

    async def append_turns(self, agent_id: str, session_id: str, turns: Sequence[Turn], *, hold: bool = False) -> None:
        self.agents[agent_id] = None
        await super().append_turns(agent_id, session_id, turns, hold=hold)

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        listed: list[SessionMetadata] = []
        for agent in self.agents:
            listed += await super().list_sessions(agent)
        return listed


class ListsSessionsOldestFirst(InMemoryStore):
    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        return (await super().list_sessions(agent_id))[::-1]


class ListsTheFirstSessionsOnly(InMemoryStore):
    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        return (await super().list_sessions(agent_id))[:100]


class ListsClearedSessions(InMemoryStore):
    def __init__(self, max_turns: int = 50) -> None:
        super().__init__(max_turns)
        self.cleared: list[SessionMetadata] = []

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        known = await self.get_session_metadata(agent_id, session_id)
        self.cleared += [known] if known else []
        await super().clear_session(agent_id, session_id)

    async def list_sessions(self, agent_id: str) -> list[SessionMetadata]:
        return [*await super().list_sessions(agent_id), *(s for s in self.cleared if s.agent_id == agent_id)]


class OwnMarks(InMemoryStore):
    """Keeps the archived marks itself, as sequence numbers; correct, but for windows that are never trimmed."""

    def __init__(self, max_turns: int = 50) -> None:
        super().__init__(max_turns)
        self.marks: dict[tuple[str, str], int] = {}

    def moved(self, mark: int, turns: Sequence[Turn]) -> int:
        return max([mark, *(record.sequence or 0 for record in flatten(turns))])

    def waiting(self, turn: Turn, mark: int) -> bool:
        return (flatten([turn])[-1].sequence or 0) > mark

    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        mark = self.marks.get((agent_id, session_id), -1)
        return [turn for turn in await super().unarchived(agent_id, session_id) if self.waiting(turn, mark)]

    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        key = agent_id, session_id
        self.marks[key] = self.moved(self.marks.get(key, -1), turns)


class MovesTheMarkBack(OwnMarks):
    def moved(self, mark: int, turns: Sequence[Turn]) -> int:
        return super().moved(-1, turns)


class NeverMovesTheMark(OwnMarks):
    def moved(self, mark: int, turns: Sequence[Turn]) -> int:
        return mark


class ForgetsThatATurnGrew(OwnMarks):
    def waiting(self, turn: Turn, mark: int) -> bool:
        return (flatten([turn])[0].sequence or 0) > mark


class HandsOutTheNewRecordsOfATurn(OwnMarks):
    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        mark = self.marks.get((agent_id, session_id), -1)
        waiting = await super().unarchived(agent_id, session_id)
        return join_records(record for record in flatten(waiting) if (record.sequence or 0) > mark)


class MarksEverySessionOfTheAgent(OwnMarks):
    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        for session in await self.list_sessions(agent_id):
            await super().mark_archived(agent_id, session.session_id, turns)


class MarksTheSessionOfEveryAgent(OwnMarks):
    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        for agent in {agent_id, "a", "b"}:
            await super().mark_archived(agent, session_id, turns)


class CountsTurnsFromZeroInAClearedSession(InMemoryStore):
    """Its marks are counts of turns, so one made before the session was cleared means turns of the new one."""

    def __init__(self, max_turns: int = 50) -> None:
        super().__init__(max_turns)
        self.archived: dict[tuple[str, str], int] = {}

    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        waiting = await super().unarchived(agent_id, session_id)
        return waiting[self.archived.get((agent_id, session_id), 0) :]

    async def mark_archived(self, agent_id: str, session_id: str, turns: Sequence[Turn]) -> None:
        if sum(len(turn.records) for turn in turns) > 1:
            self.archived[agent_id, session_id] = max(self.archived.get((agent_id, session_id), 0), len(turns))
        else:
            await super().mark_archived(agent_id, session_id, turns)

    async def clear_session(self, agent_id: str, session_id: str) -> None:
        self.archived.pop((agent_id, session_id), None)
        await super().clear_session(agent_id, session_id)


class IgnoresAnErasure(InMemoryStore):
    async def mark_erased(self, agent_id: str) -> None:
        pass


class MarksOneErasedSession(InMemoryStore):
    async def mark_erased(self, agent_id: str) -> None:
        for session in (await self.list_sessions(agent_id))[:1]:
            waiting = await self.unarchived(agent_id, session.session_id)
            await self.mark_archived(agent_id, session.session_id, waiting)


class MarksErasedTurnsAsArchivedOnly(InMemoryStore):
    """A late record then brings the erased beginning of its turn back."""

    async def mark_erased(self, agent_id: str) -> None:
        for session in await self.list_sessions(agent_id):
            waiting = await self.unarchived(agent_id, session.session_id)
            await self.mark_archived(agent_id, session.session_id, waiting)


class DeletesTurnsOnErasure(InMemoryStore):
    async def mark_erased(self, agent_id: str) -> None:
        for session in await self.list_sessions(agent_id):
            await self.clear_session(agent_id, session.session_id)


class MarksTheTurnsOfEveryAgentErased(InMemoryStore):
    async def mark_erased(self, agent_id: str) -> None:
        for agent in {agent_id, "a", "b"}:
            await super().mark_erased(agent)


class MarksTheFutureErased(InMemoryStore):
    """What is said after the erasure is never archived either."""

    def __init__(self, max_turns: int = 50) -> None:
        super().__init__(max_turns)
        self.erased: set[str] = set()

    async def mark_erased(self, agent_id: str) -> None:
        self.erased.add(agent_id)

    async def unarchived(self, agent_id: str, session_id: str) -> list[Turn]:
        return [] if agent_id in self.erased else await super().unarchived(agent_id, session_id)


class CopiesWithoutTheArchivedMark(InMemoryStore):
    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        copy = await super().copy_session(agent_id, session_id)
        return copy and copy.model_copy(update={"archived": -1})


class CopiesWithoutTheErasedMark(InMemoryStore):
    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        copy = await super().copy_session(agent_id, session_id)
        return copy and copy.model_copy(update={"erased": -1})


class CopiesWithoutWhatItGaveUp(InMemoryStore):
    async def add_session(self, agent_id: str, copy: SessionCopy) -> bool:
        return await super().add_session(agent_id, copy.model_copy(update={"given_up": []}))


class CopiesTheSessionOfAnyAgent(InMemoryStore):
    async def copy_session(self, agent_id: str, session_id: str) -> SessionCopy | None:
        return await super().copy_session(agent_id if agent_id in self._sessions else "a", session_id)


class ReplacesASession(InMemoryStore):
    async def add_session(self, agent_id: str, copy: SessionCopy) -> bool:
        await self.clear_session(agent_id, copy.session_id)
        return await super().add_session(agent_id, copy)


BROKEN_L1: list[type] = [
    CopiesWithoutTheArchivedMark,
    CopiesWithoutTheErasedMark,
    CopiesWithoutWhatItGaveUp,
    CopiesTheSessionOfAnyAgent,
    ReplacesASession,
    *BROKEN_IDS,
    *LOSING,
    SortsByTimestamp,
    ReturnsNewestFirst,
    IgnoresN,
    TakesTheOldestN,
    AcceptsNBelowOne,
    DoublesARepeatedRecord,
    SkipsARecordSeenInAnotherSession,
    ForgetsTheIdsOfTrimmedRecords,
    RemembersTheIdsOfAClearedSession,
    DropsAHeadlessRecord,
    ReturnsLiveObjects,
    KeepsTheWritersObject,
    ReturnsShallowCopies,
    KeepsShallowCopies,
    CountsTrimmedTurns,
    NeverTrims,
    TrimsTheNewest,
    LosesWritesOfOtherThreads,
    ClearsEverySessionOfTheAgent,
    ClearsTheSessionOfEveryAgent,
    ClearsByPattern,
    ClearsBySqlPattern,
    ClearsByPrefix,
    ClearsNothing,
    KeepsTheMetadataOfAClearedSession,
    RefusesToClearNothing,
    RefusesAnUnknownSession,
    DescribesAnUnknownSession,
    LastActiveStandsStill,
    CreatedMovesOn,
    MetadataCountsOneTurn,
    GivesTheLockToEverybody,
    GivesTheLockToNobody,
    KeepsTheLockForEver,
    HasOneLockForAllSessions,
    HasOneLockForAllAgents,
    RefusesToCloseTwice,
    TrimsInTheMiddleOfATurn,
    CountsRecords,
    AppendsABatchOneByOne,
    ReversesABatch,
    DoublesWithinABatch,
    DropsABatchThatBeginsWithASeenRecord,
    IgnoresHold,
    ShowsTheBacklog,
    CountsTheBacklog,
    ListsSessionsOfEveryAgent,
    ListsSessionsOldestFirst,
    ListsTheFirstSessionsOnly,
    ListsClearedSessions,
    MovesTheMarkBack,
    NeverMovesTheMark,
    ForgetsThatATurnGrew,
    HandsOutTheNewRecordsOfATurn,
    MarksEverySessionOfTheAgent,
    MarksTheSessionOfEveryAgent,
    CountsTurnsFromZeroInAClearedSession,
    IgnoresAnErasure,
    MarksOneErasedSession,
    MarksErasedTurnsAsArchivedOnly,
    DeletesTurnsOnErasure,
    MarksTheTurnsOfEveryAgentErased,
    MarksTheFutureErased,
]


@pytest.mark.parametrize("store", BROKEN_L1, ids=lambda store: store.__name__)
def test_a_hot_tier_that_breaks_a_promise_fails(store: type) -> None:
    assert failed_tests(l1_suite(store), l1_suite(sound_part_of(store)))


# --- cold tier: the documented methods --------------------------------------------------------------------------------


def owned_by(name: str, owner: Callable[[str], str]) -> type[PlainL2]:
    return type(name, (PlainL2,), {"owner": staticmethod(owner)})


def writing(name: str, **change: Callable[[Any], Any]) -> type[PlainL2]:
    """A store that changes the named fields of every entry it writes."""

    def write(self: PlainL2, entry: MemoryEntry) -> Any:
        changed = entry.model_copy(update={field: make(getattr(entry, field)) for field, make in change.items()})
        return changed.model_dump_json(exclude={"embedding"})

    return type(name, (PlainL2,), {"write": write})


BROKEN_FIELDS: list[type[PlainL2]] = [
    writing("loses_tags", topic_tags=lambda _: []),
    writing("loses_sources", source_turn_ids=lambda _: []),
    writing("loses_metadata", metadata=lambda _: {}),
    writing("loses_sensitivity", sensitivity=lambda _: "none"),
    writing("loses_importance", importance_score=lambda _: 0.5),
    writing("loses_the_place_of_a_turn", sequence=lambda _: None),
    writing("loses_what_supersedes_an_entry", superseded_by=lambda _: None),
    writing("loses_the_time_of_day", timestamp=lambda time: time.replace(hour=0, minute=0, second=0, microsecond=0)),
    writing("strips_text", content=str.strip),
    writing("changes_line_ends", content=lambda text: "\n".join(text.splitlines())),
    writing("composes_text", content=lambda text: unicodedata.normalize("NFC", text)),
    writing("stores_every_kind_as_fact", content_type=lambda _: "fact"),
]


class FindsAgentsByPrefix(PlainL2):
    def owned(self, agent_id: str) -> list[tuple[Any, list[float]]]:
        return [(stored, vector) for owner, stored, vector in self.entries.values() if owner.startswith(agent_id)]


class IgnoresTheThreshold(PlainL2):
    def admits(self, e: MemoryEntry, cosine: float, threshold: float, content_types: list[ContentType] | None) -> bool:
        return super().admits(e, cosine, -1.0, content_types)


class WantsMoreThanTheThreshold(PlainL2):
    def admits(self, e: MemoryEntry, cosine: float, threshold: float, content_types: list[ContentType] | None) -> bool:
        return super().admits(e, cosine, threshold, content_types) and (cosine > threshold or threshold == -1.0)


class AdmitsByLengthOfAngle(PlainL2):
    def admits(self, e: MemoryEntry, cosine: float, threshold: float, content_types: list[ContentType] | None) -> bool:
        return super().admits(e, abs(cosine), threshold, content_types)


class IgnoresContentTypes(PlainL2):
    def admits(self, e: MemoryEntry, cosine: float, threshold: float, content_types: list[ContentType] | None) -> bool:
        return super().admits(e, cosine, threshold, None)


class SeesTheFirstContentTypeOnly(PlainL2):
    def admits(self, e: MemoryEntry, cosine: float, threshold: float, content_types: list[ContentType] | None) -> bool:
        return super().admits(e, cosine, threshold, content_types and content_types[:1])


class IgnoresTheLimit(PlainL2):
    def checked(self, limit: int) -> int:
        return super().checked(limit) + 10_000


class AcceptsALimitBelowOne(PlainL2):
    def checked(self, limit: int) -> int:
        return max(1, limit)


class HasAnotherDefaultLimit(PlainL2):
    def checked(self, limit: int) -> int:
        return 10 if limit == 20 else super().checked(limit)


class LimitsBeforeItFilters(PlainL2):
    async def search(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        limit: int = 20,
        content_types: list[ContentType] | None = None,
        query_text: str | None = None,
    ) -> list[MemoryEntry]:
        found = await super().search(agent_id, query_embedding, threshold, limit)
        return [entry for entry in found if content_types is None or entry.content_type in content_types]


class LimitsBeforeItLooksAtTheAgent(PlainL2):
    def owned(self, agent_id: str) -> list[tuple[Any, list[float]]]:
        return [(stored, vector) for _, stored, vector in self.entries.values()]

    async def search(self, agent_id: str, *args: Any, **kwargs: Any) -> list[MemoryEntry]:
        return [entry for entry in await super().search(agent_id, *args, **kwargs) if entry.agent_id == agent_id]


class ReturnsWorstFirst(PlainL2):
    def order(self, entry: MemoryEntry, cosine: float) -> tuple[float, ...]:
        return tuple(-value for value in super().order(entry, cosine))


class IgnoresRecency(PlainL2):
    def order(self, entry: MemoryEntry, cosine: float) -> tuple[float, ...]:
        return -cosine, -entry.importance_score


class IgnoresImportance(PlainL2):
    def order(self, entry: MemoryEntry, cosine: float) -> tuple[float, ...]:
        return super().order(entry.model_copy(update={"importance_score": 0.0}), cosine)


class OrdersByImportanceFirst(PlainL2):
    def order(self, entry: MemoryEntry, cosine: float) -> tuple[float, ...]:
        return -entry.importance_score, *super().order(entry, cosine)


class UsesTheDotProduct(PlainL2):
    def cosine(self, query: list[float], vector: list[float]) -> float:
        return sum(a * b for a, b in zip(query, vector, strict=False))


class TakesQueriesForUnitVectors(PlainL2):
    def cosine(self, query: list[float], vector: list[float]) -> float:
        return super().cosine(query, vector) * math.hypot(*query)


class DividesByZero(PlainL2):
    def cosine(self, query: list[float], vector: list[float]) -> float:
        product = sum(a * b for a, b in zip(query, vector, strict=False))
        return round(product / math.hypot(*query) / (math.hypot(*vector) or 1.0), 9)


class RefusesAnEntryWithoutVector(PlainL2):
    async def upsert(self, entry: MemoryEntry) -> None:
        if entry.embedding is None:
            raise ValueError("no embedding")
        await super().upsert(entry)


class RefusesAZeroVector(PlainL2):
    async def upsert(self, entry: MemoryEntry) -> None:
        if entry.embedding is not None and not any(entry.embedding):
            raise ValueError("no direction")
        await super().upsert(entry)


class TakesForeignIds(PlainL2):
    async def upsert(self, entry: MemoryEntry) -> None:
        self.entries.pop(entry.id, None)
        await super().upsert(entry)


class DropsForeignIdsSilently(PlainL2):
    async def upsert(self, entry: MemoryEntry) -> None:
        if self.entries.get(entry.id, (entry.agent_id,))[0] == entry.agent_id:
            await super().upsert(entry)


class KeepsEveryVersion(PlainL2):
    async def upsert(self, entry: MemoryEntry) -> None:
        if entry.id in self.entries and self.entries[entry.id][0] == entry.agent_id:
            self.entries[f"{entry.id} before {len(self.entries)}"] = self.entries[entry.id]
        await super().upsert(entry)


class KeepsTheOldVector(PlainL2):
    async def upsert(self, entry: MemoryEntry) -> None:
        before = self.entries.get(entry.id)
        await super().upsert(entry)
        if before:
            self.entries[entry.id] = (*self.entries[entry.id][:2], before[2])


class KeepsTheOldText(PlainL2):
    async def upsert(self, entry: MemoryEntry) -> None:
        if entry.id not in self.entries:
            await super().upsert(entry)
        elif self.entries[entry.id][0] != entry.agent_id:
            raise ValidationError("id", "belongs to another agent")


class DeletesEverybody(PlainL2):
    async def delete_agent_memories(self, agent_id: str) -> None:
        self.entries.clear()


class DeletesTheFirstHundred(PlainL2):
    async def delete_agent_memories(self, agent_id: str) -> None:
        for id_ in [id_ for id_, kept in self.entries.items() if kept[0] == agent_id][:100]:
            await self.delete(id_)


class DeletesAgentsByPrefix(PlainL2):
    async def delete_agent_memories(self, agent_id: str) -> None:
        self.entries = {id_: kept for id_, kept in self.entries.items() if not kept[0].startswith(agent_id)}


class DeletesAgentsByPattern(PlainL2):
    async def delete_agent_memories(self, agent_id: str) -> None:
        await super().delete_agent_memories(agent_id)
        self.entries = {i: kept for i, kept in self.entries.items() if not fnmatch.fnmatchcase(kept[0], agent_id)}


class DeletesAgentsBySqlPattern(PlainL2):
    async def delete_agent_memories(self, agent_id: str) -> None:
        await super().delete_agent_memories(agent_id)
        self.entries = {i: kept for i, kept in self.entries.items() if not is_like(kept[0], agent_id)}


class DeletesTheWholeAgentForOneMemory(PlainL2):
    async def delete(self, memory_id: str) -> None:
        if memory_id in self.entries:
            await self.delete_agent_memories(self.entries[memory_id][0])


class DeletesNothing(PlainL2):
    async def delete(self, memory_id: str) -> None:
        pass


class RefusesToDeleteNothing(PlainL2):
    async def delete(self, memory_id: str) -> None:
        del self.entries[memory_id]


class FreesNoIdWhenItDeletes(PlainL2):
    """An id once used stays its first owner's, though the memory is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.first_owner: dict[str, str] = {}

    async def upsert(self, entry: MemoryEntry) -> None:
        if self.first_owner.setdefault(entry.id, entry.agent_id) != entry.agent_id:
            raise ValidationError("id", "belongs to another agent")
        await super().upsert(entry)


class ReturnsLiveEntries(PlainL2):
    def write(self, entry: MemoryEntry) -> Any:
        return entry.model_copy(deep=True)

    def read(self, stored: Any) -> MemoryEntry:
        return stored


class KeepsTheWritersEntry(PlainL2):
    def write(self, entry: MemoryEntry) -> Any:
        return entry

    def read(self, stored: Any) -> MemoryEntry:
        return stored.model_copy(deep=True)


class SharesMetadata(PlainL2):
    def write(self, entry: MemoryEntry) -> Any:
        return entry.model_copy(deep=True)

    def read(self, stored: Any) -> MemoryEntry:
        return stored.model_copy(deep=True, update={"metadata": stored.metadata})


class LosesEntriesOfOtherThreads(PlainL2):
    async def upsert(self, entry: MemoryEntry) -> None:
        before = dict(self.entries)
        await asyncio.sleep(0.001)
        await super().upsert(entry)
        self.entries = before | {entry.id: self.entries[entry.id]}


class RefusesAnUnknownAgent(PlainL2):
    def owned(self, agent_id: str) -> list[tuple[Any, list[float]]]:
        found = super().owned(agent_id)
        if not found:
            raise LookupError(agent_id)
        return found


class RefusesToCloseAStoreTwice(PlainL2):
    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed")
        self.closed = True


# --- cold tier: capabilities ------------------------------------------------------------------------------------------


class Searching(InMemoryStore):
    """Hands every search on, so that a break need only change its arguments or its results."""

    async def search_page(
        self,
        agent_id: str,
        query_embedding: list[float],
        threshold: float,
        *,
        limit: int,
        consider: int,
        content_types: list[ContentType] | None = None,
        query_text: str | None = None,
        tags: list[str] | None = None,
        **options: Any,
    ) -> Page:
        return self.found(
            await super().search_page(
                agent_id,
                query_embedding,
                self.threshold(threshold, query_text),
                limit=limit,
                consider=self.consider(consider, limit),
                content_types=content_types,
                query_text=self.query_text(query_text),
                tags=self.tags(tags),
                **self.options(options),
            ),
            limit,
        )

    def threshold(self, threshold: float, query_text: str | None) -> float:
        return threshold

    def query_text(self, query_text: str | None) -> str | None:
        return query_text

    def consider(self, consider: int, limit: int) -> int:
        return consider

    def tags(self, tags: list[str] | None) -> list[str] | None:
        return tags

    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        return options

    def found(self, page: Page, limit: int) -> Page:
        return page


class IgnoresTheQueryText(Searching):
    def query_text(self, query_text: str | None) -> str | None:
        return None


class DropsOtherScriptsFromQueries(Searching):
    def query_text(self, query_text: str | None) -> str | None:
        return query_text and "".join(c for c in query_text if c.isascii() or c.isspace())


class AdmitsEverythingWithAQueryText(Searching):
    def threshold(self, threshold: float, query_text: str | None) -> float:
        return threshold if query_text is None else -1.0


class IgnoresTags(Searching):
    def tags(self, tags: list[str] | None) -> list[str] | None:
        return None


class SeesTheFirstTagOnly(Searching):
    def tags(self, tags: list[str] | None) -> list[str] | None:
        return tags and tags[:1]


class IgnoresTheBackground(Searching):
    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "background": None}


class IgnoresWhatIsNewer(Searching):
    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "newer_first": False}


class AlwaysPutsTheNewerFirst(Searching):
    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "newer_first": True}


class LimitsBeforeItLooksAtTags(Searching):
    async def search_page(self, *args: Any, tags: list[str] | None = None, **kwargs: Any) -> Page:
        found = await super().search_page(*args, **kwargs)
        return found._replace(entries=[e for e in found.entries if tags is None or set(tags) & set(e.topic_tags)])


class ConsidersNoMoreThanItReturns(Searching):
    def consider(self, consider: int, limit: int) -> int:
        return min(consider, limit)


class ConsidersEverything(Searching):
    def consider(self, consider: int, limit: int) -> int:
        return 10_000


class ReturnsAllItConsiders(Searching):
    async def search_page(self, *args: Any, limit: int, consider: int, **kwargs: Any) -> Page:
        return await super().search_page(*args, limit=consider, consider=consider, **kwargs)


class TellsOnlyWhatElseItConsidered(Searching):
    def found(self, page: Page, limit: int) -> Page:
        return page._replace(considered=page.considered[limit:])


class TellsWhatItConsideredInAnyOrder(Searching):
    def found(self, page: Page, limit: int) -> Page:
        return page._replace(considered=sorted(page.considered))


class IgnoresTheEpoch(InMemoryStore):
    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        return await super().upsert_many(entries)


class WritesInSpiteOfTheEpoch(InMemoryStore):
    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        allowed = epoch is None or epoch == await self.erasure_epoch(entries[0].agent_id)
        return await super().upsert_many(entries) and allowed


class NeverChangesTheEpoch(InMemoryStore):
    async def erasure_epoch(self, agent_id: str) -> int:
        return 0

    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        return await super().upsert_many(entries)


class HasOneEpochForAllAgents(InMemoryStore):
    erasures = 0

    async def erasure_epoch(self, agent_id: str) -> int:
        return self.erasures

    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        return epoch in (None, self.erasures) and await super().upsert_many(entries)

    async def delete_agent_memories(self, agent_id: str) -> None:
        self.erasures += 1
        await super().delete_agent_memories(agent_id)


class ChangesNoEpochForAnEmptyAgent(InMemoryStore):
    """An erasure of an agent that has nothing yet does not stop the write that is on its way."""

    async def delete_agent_memories(self, agent_id: str) -> None:
        if await self.list_memories(agent_id, include_superseded=True):
            await super().delete_agent_memories(agent_id)


class WritesPartOfABatch(InMemoryStore):
    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        written = True
        for entry in entries:
            written = await super().upsert_many([entry], epoch=epoch) and written
        return written


class WritesTheFirstOfABatch(InMemoryStore):
    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        return await super().upsert_many(entries[:1], epoch=epoch)


class GetsForeignEntries(InMemoryStore):
    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        for agent in (agent_id, "a", "b"):
            found = await super().get(agent, memory_id)
            if found:
                return found
        return None


class GetsNoSupersededEntries(InMemoryStore):
    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        found = await super().get(agent_id, memory_id)
        return found if found and found.superseded_by is None else None


class GetsDeletedEntries(InMemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.gotten: dict[tuple[str, str], MemoryEntry | None] = {}

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        key = agent_id, memory_id
        self.gotten[key] = await super().get(agent_id, memory_id) or self.gotten.get(key)
        return self.gotten[key]


class SearchesSupersededEntries(InMemoryStore):
    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        return await super().upsert_many([e.model_copy(update={"superseded_by": None}) for e in entries], epoch=epoch)


class ForgetsSupersededEntries(InMemoryStore):
    async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
        for entry in entries:
            if entry.superseded_by is not None:
                await self.delete(entry.id)
        return await super().upsert_many([e for e in entries if e.superseded_by is None], epoch=epoch)


class Listing(InMemoryStore):
    """Hands every listing on, so that a break need only change its arguments or its results."""

    async def list_memories(
        self,
        agent_id: str,
        *,
        content_types: Sequence[ContentType] | None = None,
        include_superseded: bool = False,
    ) -> list[MemoryEntry]:
        return self.listed(
            await super().list_memories(agent_id, content_types=content_types, include_superseded=include_superseded)
        )

    def listed(self, entries: list[MemoryEntry]) -> list[MemoryEntry]:
        return entries


class ListsTheFirstHundred(Listing):
    def listed(self, entries: list[MemoryEntry]) -> list[MemoryEntry]:
        return entries[:100]


class ListsNewestFirst(Listing):
    def listed(self, entries: list[MemoryEntry]) -> list[MemoryEntry]:
        return entries[::-1]


class ListsSupersededEntriesUnasked(InMemoryStore):
    async def list_memories(self, agent_id: str, **kwargs: Any) -> list[MemoryEntry]:
        return await super().list_memories(agent_id, **{**kwargs, "include_superseded": True})


class ListsEveryKind(InMemoryStore):
    async def list_memories(self, agent_id: str, **kwargs: Any) -> list[MemoryEntry]:
        return await super().list_memories(agent_id, **{**kwargs, "content_types": None})


class ListsEveryAgent(InMemoryStore):
    async def list_memories(self, agent_id: str, **kwargs: Any) -> list[MemoryEntry]:
        everybody: list[MemoryEntry] = []
        for agent in ("a", "b"):
            everybody += await super().list_memories(agent, **kwargs)
        return sorted(everybody, key=lambda entry: entry.timestamp)


class ListsNoTurns(Listing):
    def listed(self, entries: list[MemoryEntry]) -> list[MemoryEntry]:
        return [entry for entry in entries if entry.content_type != "turn"]


class ForgetsNoSession(InMemoryStore):
    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        pass


class ForgetsEverySession(InMemoryStore):
    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        for entry in await self.list_memories(agent_id, content_types=["turn"]):
            await super().delete_session_turns(agent_id, entry.session_id)


class ForgetsTheSessionOfEveryAgent(InMemoryStore):
    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        for agent in ("a", "b"):
            await super().delete_session_turns(agent, session_id)


class ForgetsTheSummariesOfASession(InMemoryStore):
    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        await super().delete_session_turns(agent_id, session_id)
        for entry in await self.list_memories(agent_id):
            if entry.session_id == session_id:
                await self.delete(entry.id)


class ForgetsASessionWithoutANewEpoch(InMemoryStore):
    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        for entry in await self.list_memories(agent_id, content_types=["turn"]):
            if entry.session_id == session_id:
                await self.delete(entry.id)


class ForgetsOnlyNumberedTurns(InMemoryStore):
    async def delete_session_turns(self, agent_id: str, session_id: str) -> None:
        turns = await self.list_memories(agent_id, content_types=["turn"])
        await super().delete_session_turns(agent_id, session_id)
        for turn in turns:
            if turn.sequence is None:
                await self.upsert(turn)


class ForgetsItsEmbedder(InMemoryStore):
    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        return identity


class KeepsItsFirstEmbedder(InMemoryStore):
    bound: EmbedderIdentity | None = None

    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        self.bound = self.bound or identity
        return self.bound


class KeepsItsEmbedderWhenEmptied(InMemoryStore):
    filled_by: EmbedderIdentity | None = None

    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        bound = await super().bind_embedder(self.filled_by or identity)
        if await self.list_memories("a"):
            self.filled_by = bound
        return bound


class RemembersTheNameOfItsEmbedderOnly(InMemoryStore):
    async def bind_embedder(self, identity: EmbedderIdentity) -> EmbedderIdentity:
        bound = await super().bind_embedder(identity)
        return EmbedderIdentity(bound.name, identity.dimensions)


class ListsNoIdsOfSupersededEntries(InMemoryStore):
    async def memory_ids(self, agent_id: str) -> list[str]:
        return [entry.id for entry in await self.list_memories(agent_id)]


class HandsOutNoVectors(InMemoryStore):
    async def get_with_embeddings(self, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
        found = await super().get_with_embeddings(agent_id, memory_ids)
        return [entry.model_copy(update={"embedding": None}) for entry in found]


class HandsOutEntriesOfOthers(InMemoryStore):
    async def get_with_embeddings(self, agent_id: str, memory_ids: Sequence[str]) -> list[MemoryEntry]:
        agents = list(self._indexes)
        found = [
            entry for agent in agents for entry in await InMemoryStore.get_with_embeddings(self, agent, memory_ids)
        ]
        return sorted(found, key=lambda entry: list(memory_ids).index(entry.id))


class ReindexesTheFirstAgentOnly(InMemoryStore):
    async def begin_reindex(self, identity: EmbedderIdentity) -> list[tuple[str, str]]:
        return [pair for pair in await super().begin_reindex(identity) if pair[0] == "a"]


class FinishesEarly(InMemoryStore):
    def _without_new_vector(self) -> list[tuple[str, str]]:
        return []


class KeepsVectorsOfWhatHasChanged(InMemoryStore):
    def _without_new_vector(self) -> list[tuple[str, str]]:
        return [pair for pair in super()._without_new_vector() if pair[1] not in self._new_vectors]


class ForgetsWhoseVectorsItReindexed(InMemoryStore):
    async def finish_reindex(self, identity: EmbedderIdentity) -> bool:
        before = self._embedder
        done = await super().finish_reindex(identity)
        self._embedder = before
        return done


class TakesVectorsOfAnyEmbedder(InMemoryStore):
    async def add_vectors(self, identity: EmbedderIdentity, entries: Sequence[MemoryEntry]) -> None:
        await super().add_vectors(self._new_embedder or identity, entries)


BROKEN_L2: list[type] = [
    ListsNoIdsOfSupersededEntries,
    HandsOutNoVectors,
    HandsOutEntriesOfOthers,
    ReindexesTheFirstAgentOnly,
    FinishesEarly,
    KeepsVectorsOfWhatHasChanged,
    ForgetsWhoseVectorsItReindexed,
    TakesVectorsOfAnyEmbedder,
    *(owned_by(name, fold) for name, fold in FOLDS.items() if name != "cuts_ids_at_64"),
    owned_by("cuts_ids_at_64", truncated(64)),
    owned_by("ignores_the_agent", lambda agent: ""),
    *BROKEN_FIELDS,
    FindsAgentsByPrefix,
    IgnoresTheThreshold,
    WantsMoreThanTheThreshold,
    AdmitsByLengthOfAngle,
    IgnoresContentTypes,
    SeesTheFirstContentTypeOnly,
    IgnoresTheLimit,
    AcceptsALimitBelowOne,
    HasAnotherDefaultLimit,
    LimitsBeforeItFilters,
    LimitsBeforeItLooksAtTheAgent,
    ReturnsWorstFirst,
    IgnoresRecency,
    IgnoresImportance,
    OrdersByImportanceFirst,
    UsesTheDotProduct,
    TakesQueriesForUnitVectors,
    DividesByZero,
    RefusesAnEntryWithoutVector,
    RefusesAZeroVector,
    TakesForeignIds,
    DropsForeignIdsSilently,
    KeepsEveryVersion,
    KeepsTheOldVector,
    KeepsTheOldText,
    DeletesEverybody,
    DeletesTheFirstHundred,
    DeletesAgentsByPrefix,
    DeletesAgentsByPattern,
    DeletesAgentsBySqlPattern,
    DeletesTheWholeAgentForOneMemory,
    DeletesNothing,
    RefusesToDeleteNothing,
    FreesNoIdWhenItDeletes,
    ReturnsLiveEntries,
    KeepsTheWritersEntry,
    SharesMetadata,
    LosesEntriesOfOtherThreads,
    RefusesAnUnknownAgent,
    RefusesToCloseAStoreTwice,
    IgnoresTheQueryText,
    DropsOtherScriptsFromQueries,
    AdmitsEverythingWithAQueryText,
    IgnoresTags,
    SeesTheFirstTagOnly,
    IgnoresTheBackground,
    IgnoresWhatIsNewer,
    AlwaysPutsTheNewerFirst,
    LimitsBeforeItLooksAtTags,
    ConsidersNoMoreThanItReturns,
    ConsidersEverything,
    ReturnsAllItConsiders,
    TellsOnlyWhatElseItConsidered,
    TellsWhatItConsideredInAnyOrder,
    IgnoresTheEpoch,
    WritesInSpiteOfTheEpoch,
    NeverChangesTheEpoch,
    HasOneEpochForAllAgents,
    ChangesNoEpochForAnEmptyAgent,
    WritesPartOfABatch,
    WritesTheFirstOfABatch,
    GetsForeignEntries,
    GetsNoSupersededEntries,
    GetsDeletedEntries,
    SearchesSupersededEntries,
    ForgetsSupersededEntries,
    ListsTheFirstHundred,
    ListsNewestFirst,
    ListsSupersededEntriesUnasked,
    ListsEveryKind,
    ListsEveryAgent,
    ListsNoTurns,
    ForgetsNoSession,
    ForgetsEverySession,
    ForgetsTheSessionOfEveryAgent,
    ForgetsTheSummariesOfASession,
    ForgetsASessionWithoutANewEpoch,
    ForgetsOnlyNumberedTurns,
    ForgetsItsEmbedder,
    KeepsItsFirstEmbedder,
    KeepsItsEmbedderWhenEmptied,
    RemembersTheNameOfItsEmbedderOnly,
]


@pytest.mark.parametrize("store", BROKEN_L2, ids=lambda store: store.__name__)
def test_a_cold_tier_that_breaks_a_promise_fails(store: type) -> None:
    assert failed_tests(l2_suite(store), l2_suite(sound_part_of(store)))


# --- embedders --------------------------------------------------------------------------------------------------------


class Embedding(HashingEmbedder):
    """Hands every vector on, so that a break need only change one."""

    def changed(self, vector: list[float], text: str) -> list[float]:
        return vector

    async def embed(self, text: str) -> list[float]:
        return self.changed(await super().embed(text), text)

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed(text) for text in texts]


class ReturnsTooShortVectors(Embedding):
    def changed(self, vector: list[float], text: str) -> list[float]:
        return vector[:-1]


class EncodesQueriesShorter(Embedding):
    async def embed_query(self, text: str) -> list[float]:
        return (await super().embed_query(text))[:-1]


class ReturnsAnEmptyVectorForNoText(Embedding):
    def changed(self, vector: list[float], text: str) -> list[float]:
        return vector if text else []


class ReturnsNotANumber(Embedding):
    def changed(self, vector: list[float], text: str) -> list[float]:
        return vector if any(vector) else [math.nan] * len(vector)


class ReturnsInfinity(Embedding):
    def changed(self, vector: list[float], text: str) -> list[float]:
        return [math.inf, *vector[1:]]


class ReturnsWholeNumbers(Embedding):
    def changed(self, vector: list[float], text: str) -> list[float]:
        return [round(1_000 * value) for value in vector]


class ReturnsTheSameVectorForEverything(Embedding):
    def changed(self, vector: list[float], text: str) -> list[float]:
        return [1.0] * len(vector)


class IsNotDeterministic(Embedding):
    def changed(self, vector: list[float], text: str) -> list[float]:
        return [value + random.random() / 100 for value in vector]


class IsSaltedPerInstance(Embedding):
    def __init__(self) -> None:
        super().__init__()
        self.shift = random.randrange(1, 200)

    def changed(self, vector: list[float], text: str) -> list[float]:
        return vector[self.shift :] + vector[: self.shift]


class BelongsToItsFirstLoop(Embedding):
    loop: asyncio.AbstractEventLoop | None = None

    async def embed(self, text: str) -> list[float]:
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        return await super().embed(text)


class MixesUpTexts(Embedding):
    """Keeps the text it works on in itself, where another thread overwrites it."""

    async def embed(self, text: str) -> list[float]:
        self.text = text
        await asyncio.sleep(0.001)
        return await super().embed(self.text)


class RefusesNoText(Embedding):
    def changed(self, vector: list[float], text: str) -> list[float]:
        if not text.strip():
            raise ValueError("no text")
        return vector


class RefusesALongText(Embedding):
    def changed(self, vector: list[float], text: str) -> list[float]:
        if len(text) > 8_192:
            raise ValueError("too long")
        return vector


class ReversesTheBatch(Embedding):
    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return (await super().embed_batch(texts))[::-1]


class DropsEmptyTextsFromTheBatch(Embedding):
    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return await super().embed_batch([text for text in texts if text])


class EmbedsTheBatchAsOneText(Embedding):
    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return [await self.embed(" ".join(texts))]


class EmbedsBatchesOtherwise(Embedding):
    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return await super().embed_batch([f"passage: {text}" for text in texts])


class RefusesAnEmptyBatch(Embedding):
    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        if not texts:
            raise ValueError("no texts")
        return await super().embed_batch(texts)


class CountsItsDimensionsWrong(Embedding):
    @property
    def dimensions(self) -> int:
        return super().dimensions + 1


class HasNoName(Embedding):
    @property
    def name(self) -> str:
        return ""


class HasAnotherNameEachTime(Embedding):
    @property
    def name(self) -> str:
        return f"hashing-{id(self)}"


class HasAThresholdThatIsNoCosine(Embedding):
    @property
    def relevance_threshold(self) -> float | None:
        return 45.0


class HasABackgroundWithoutDeviation(Embedding):
    @property
    def background(self) -> tuple[float, float] | None:
        return 0.1, 0.0


BROKEN_EMBEDDERS: list[type] = [
    ReturnsTooShortVectors,
    ReturnsAnEmptyVectorForNoText,
    ReturnsNotANumber,
    ReturnsInfinity,
    ReturnsWholeNumbers,
    ReturnsTheSameVectorForEverything,
    IsNotDeterministic,
    IsSaltedPerInstance,
    BelongsToItsFirstLoop,
    MixesUpTexts,
    RefusesNoText,
    RefusesALongText,
    ReversesTheBatch,
    DropsEmptyTextsFromTheBatch,
    EmbedsTheBatchAsOneText,
    EmbedsBatchesOtherwise,
    EncodesQueriesShorter,
    RefusesAnEmptyBatch,
    CountsItsDimensionsWrong,
    HasNoName,
    HasAnotherNameEachTime,
    HasAThresholdThatIsNoCosine,
    HasABackgroundWithoutDeviation,
]


@pytest.mark.parametrize("embedder", BROKEN_EMBEDDERS, ids=lambda embedder: embedder.__name__)
def test_an_embedder_that_breaks_a_promise_fails(embedder: type) -> None:
    assert failed_tests(embedder_suite(embedder), embedder_suite(sound_part_of(embedder)))
