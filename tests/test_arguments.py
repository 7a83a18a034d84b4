"""Rubbish in every public argument: one of our errors that names the argument, and nothing is written."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import inspect
import logging
import re
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from pydantic import BaseModel, RootModel, field_serializer

from actrone_memory import (
    ActroneMemoryError,
    ConfigurationError,
    Embedder,
    EmbedderIdentity,
    EmbeddingError,
    ExtractedFact,
    HashingEmbedder,
    InMemoryStore,
    MemoryConfig,
    MemoryEntry,
    MemoryManager,
    MemoryNotFoundError,
    SessionCopy,
    SQLiteStore,
    StoreConnectionError,
    SyncMemoryManager,
    TokenBudgetError,
    ToolResult,
    Turn,
    ValidationError,
    cosine_similarity,
    create_memory_manager,
    parse_facts,
)
from actrone_memory.models import ContentType

ALL_TYPES = list(get_args(ContentType))
FACT = "Tests run with Vitest."

# --- rubbish: a label for messages, and the value ---------------------------------------------------------------------

Rubbish = Mapping[str, object]

NAN, INF = float("nan"), float("inf")
HUGE = 10**5_000
"""Longer than Python is willing to print."""
LONG = "x" * 10_000_000
SURROGATE = "\ud800"


class Unprintable:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class WrongZone(tzinfo):
    """A time zone three days away, which no time zone may be."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(days=3)


class BrokenZone(tzinfo):
    """A time zone that fails when asked."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        raise RuntimeError("no offset")


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> dict[str, object]:
    value: dict[str, object] = {}
    value["self"] = [value]
    return value


def without(rubbish: Rubbish, *labels: str) -> dict[str, object]:
    return {label: value for label, value in rubbish.items() if label not in labels}


OBJECTS: Rubbish = {
    "None": None,
    "bool": True,
    "int": 7,
    "float": 1.5,
    "NaN": NAN,
    "infinity": INF,
    "huge int": HUGE,
    "bytes": b"a",
    "list": ["a"],
    "dict": {"a": 1},
    "set": {"a"},
    "generator": (x for x in "a"),
    "object": object(),
    "object without a repr": Unprintable(),
    "class": str,
}
TEXTS: Rubbish = {
    **OBJECTS,
    "lone surrogate": f"a{SURROGATE}",
    "NUL": "a\x00b",
    "10 MB": LONG,
}
FILLED_TEXTS: Rubbish = {**TEXTS, "empty": "", "blank": " \t\n\u3000"}
IDS: Rubbish = {**FILLED_TEXTS, "257 characters": "x" * 257}
COUNTS: Rubbish = {**without(OBJECTS, "int", "huge int"), "text": "7", "zero": 0, "negative": -1, "huge": -HUGE}
NUMBERS: Rubbish = {
    **without(OBJECTS, "float"),
    "text": "0.5",
    "above the range": 1.000001,
    "below the range": -1.000001,
    "huge negative": -HUGE,
}
FLAGS: Rubbish = {**without(OBJECTS, "bool"), "text": "True", "zero": 0}
LABELS: Rubbish = {**OBJECTS, "unknown": "nonsense", "empty": "", "lone surrogate": SURROGATE, "10 MB": LONG}
LISTS: Rubbish = {**without(OBJECTS, "list"), "text": "a", "10 MB": LONG}
TAGS: Rubbish = {**LISTS, **{f"a tag that is {label}": ["fine", value] for label, value in IDS.items()}}
TYPES: Rubbish = {**LISTS, **{f"a type that is {label}": ["fact", value] for label, value in LABELS.items()}}
TIMES: Rubbish = {
    **OBJECTS,
    "text": "2025-01-01T00:00:00Z",
    "date": date(2025, 1, 1),
    "naive": datetime(2025, 1, 1),
    "before the year 1 in UTC": datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    "after the year 9999 in UTC": datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
    "wrong zone": datetime(2025, 1, 1, tzinfo=WrongZone()),
    "broken zone": datetime(2025, 1, 1, tzinfo=BrokenZone()),
}
IN_JSON: Rubbish = {
    "bytes": b"a",
    "bytearray": bytearray(b"a"),
    "memoryview": memoryview(b"a"),
    "NaN": NAN,
    "infinity": -INF,
    "huge int": HUGE,
    "lone surrogate": SURROGATE,
    "object": object(),
    "object without a repr": Unprintable(),
    "set of objects without a repr": {Unprintable()},
    "class": str,
    "function": len,
    "error": ValueError("x"),
    "generator": (x for x in "a"),
    "cycle": cyclic(),
    "deep list": nested(101),
    "very deep list": nested(100_000),
    "key that is bytes": {b"a": 1},
    "key that is a tuple": {("a", "b"): 1},
    "key that is an object": {object(): 1},
    "key that is NaN": {NAN: 1},
    "key with a lone surrogate": {SURROGATE: 1},
    "two keys of one JSON key": {1: "int", "1": "text"},
    "17 MiB": "x" * (17 * 1024 * 1024),
}
JSON: Rubbish = {
    **without(OBJECTS, "dict"),
    "text": "a",
    "pairs": [("a", 1)],
    **{f"a value that is {label}": {"k": value} for label, value in IN_JSON.items()},
    **{f"a {label}": value for label, value in IN_JSON.items() if "key" in label or label == "cycle"},
}


def tool(**fields: object) -> ToolResult:
    return ToolResult(tool_name="grep", params={}, result="", success=True).model_copy(update=fields)


def turn(**fields: object) -> Turn:
    return Turn(id="t", session_id="s", user_message="hello", assistant_message="hi").model_copy(update=fields)


TOOLS: Rubbish = {
    **LISTS,
    **{f"an item that is {label}": [tool(), value] for label, value in OBJECTS.items()},
    "a dict": [{"tool_name": "grep", "params": {}, "result": "", "success": True}],
    "a result without its fields": [ToolResult.model_construct(tool_name="grep")],
    **{f"a name that is {label}": [tool(tool_name=value)] for label, value in IDS.items()},
    **{f"params: {label}": [tool(params=value)] for label, value in without(JSON, "None").items()},
    **{f"a result that is {label}": [tool(result=value)] for label, value in IN_JSON.items()},
    **{f"success: {label}": [tool(success=value)] for label, value in FLAGS.items()},
    **{
        f"a duration that is {label}": [tool(duration_ms=value)]
        for label, value in without(COUNTS, "None", "zero").items()
    },
    "together more than 16 MiB": [tool(result="x" * (6 * 1024 * 1024))] * 3,
}
RECORDS: Rubbish = {
    **{label: value for label, value in OBJECTS.items() if label != "list"},
    "a turn without its fields": Turn.model_construct(session_id="s"),
    "nothing in it": turn(user_message=" ", assistant_message=""),
    "of another session": turn(session_id="elsewhere"),
    **{f"an id that is {label}": turn(id=value) for label, value in IDS.items()},
    **{f"a session that is {label}": turn(session_id=value) for label, value in IDS.items()},
    **{f"a message that is {label}": turn(user_message=value) for label, value in TEXTS.items()},
    **{f"an answer that is {label}": turn(assistant_message=value) for label, value in TEXTS.items()},
    **{f"a time that is {label}": turn(timestamp=value) for label, value in TIMES.items()},
    **{f"metadata: {label}": turn(metadata=value) for label, value in without(JSON, "None").items()},
    **{f"continues: {label}": turn(continues=value) for label, value in FLAGS.items()},
    **{f"a size that is {label}": turn(token_count=value) for label, value in without(COUNTS, "zero").items()},
    "records that are no turns": turn(records=["a", None]),
    "records that are no list": turn(records="ab"),
    "a record of another session": turn(records=[turn(session_id="elsewhere")]),
    "tool results that are no list": turn(tool_results="grep"),
}
TURNS: Rubbish = {
    **LISTS,
    "a list of texts": ["a"],
    **{f"a turn: {label}": [turn(), value] for label, value in RECORDS.items()},
}
INJECTED: Mapping[str, Rubbish] = {
    "content": FILLED_TEXTS,
    "importance": NUMBERS,
    "session_id": IDS,
    "topic_tags": without(TAGS, "None"),
    "source": IDS,
    "sensitivity": LABELS,
    "supersedes": without(IDS, "None"),
}
MEMORIES: Rubbish = {
    **LISTS,
    **{f"a memory that is {label}": ["Use tabs.", value] for label, value in OBJECTS.items()},
    **{f"a text that is {label}": ["Use tabs.", value] for label, value in FILLED_TEXTS.items()},
    "a memory without a content": ["Use tabs.", {"importance": 0.5}],
    "a memory with what none has": ["Use tabs.", {"content": "x", "tags": ["a"]}],
    **{
        f"a memory with {name}: {label}": ["Use tabs.", {"content": "Use spaces.", name: value}]
        for name, rubbish in INJECTED.items()
        for label, value in rubbish.items()
    },
    "a fact without its fields": ["Use tabs.", ExtractedFact.model_construct(importance=3)],
    "an entry without its fields": ["Use tabs.", MemoryEntry.model_construct(agent_id="b")],
    "a fact of no importance that could be": [ExtractedFact(content="x").model_copy(update={"importance": 3})],
}

# --- the manager ------------------------------------------------------------------------------------------------------


class Argument(NamedTuple):
    """An acceptable value beside the values that are not."""

    fine: object
    rubbish: Rubbish


AGENT, SESSION = Argument("a", IDS), Argument("s", IDS)
LEVELS: Rubbish = {**LISTS, **{f"a level that is {label}": ["pii", value] for label, value in LABELS.items()}}
UNMASKED = Argument(None, {**without(LEVELS, "None"), "nothing to hide": ["none"]})
NO_TYPES, NO_TAGS = Argument(None, without(TYPES, "None")), Argument(None, without(TAGS, "None"))
N = Argument(3, without(COUNTS, "None"))
NOTHING = ['{"kind":"agent","format":1,"agent_id":"a"}', '{"kind":"end","lines":2}']
"""An export of an agent without memories."""

CALLS: Mapping[str, Mapping[str, Argument]] = {
    "store_turn": {
        "agent_id": AGENT,
        "session_id": SESSION,
        "user_message": Argument("hello", TEXTS),
        "assistant_message": Argument("hi", TEXTS),
        "tool_results": Argument(None, without(TOOLS, "None")),
        "metadata": Argument(None, without(JSON, "None")),
        "turn_id": Argument(None, without(IDS, "None")),
        "timestamp": Argument(None, without(TIMES, "None")),
        "continues": Argument(False, FLAGS),
    },
    "store_turns": {"agent_id": AGENT, "session_id": SESSION, "turns": Argument([turn()], TURNS)},
    "get_recent_turns": {"agent_id": AGENT, "session_id": SESSION, "n": N},
    "get_session_metadata": {"agent_id": AGENT, "session_id": SESSION},
    "list_sessions": {"agent_id": AGENT},
    "list_agents": {},
    "clear_session": {"agent_id": AGENT, "session_id": SESSION},
    "inject_memory": {
        "agent_id": AGENT,
        "content": Argument("Deploy on Fridays.", FILLED_TEXTS),
        "importance": Argument(0.5, NUMBERS),
        "session_id": SESSION,
        "topic_tags": Argument(None, without(TAGS, "None")),
        "source": Argument("user", IDS),
        "sensitivity": Argument("none", LABELS),
        "supersedes": Argument(None, without(IDS, "None")),
    },
    "inject_memories": {"agent_id": AGENT, "memories": Argument(["Deploy on Fridays."], MEMORIES)},
    "search_memories": {
        "agent_id": AGENT,
        "query": Argument("tests", FILLED_TEXTS),
        "limit": Argument(5, COUNTS),
        "content_types": NO_TYPES,
        "tags": NO_TAGS,
        "redact_sensitivity": UNMASKED,
    },
    "list_memories": {
        "agent_id": AGENT,
        "content_types": NO_TYPES,
        "include_superseded": Argument(False, FLAGS),
        "redact_sensitivity": UNMASKED,
    },
    "delete_memory": {"agent_id": AGENT, "memory_id": Argument("no-such-id", IDS)},
    "erase_agent_memories": {
        "agent_id": AGENT,
        "session_id": Argument(None, without(IDS, "None")),
        "all_sessions": Argument(False, FLAGS),
    },
    "extract_memories": {"agent_id": AGENT, "session_id": SESSION, "n": N},
    "import_agent": {"lines": Argument(NOTHING, OBJECTS), "agent_id": Argument(None, without(IDS, "None"))},
    "retrieve_context": {
        "agent_id": AGENT,
        "session_id": SESSION,
        "query": Argument("tests", FILLED_TEXTS),
        "token_budget": Argument(800, COUNTS),
        "content_types": NO_TYPES,
        "tags": NO_TAGS,
        "redact_sensitivity": UNMASKED,
    },
    "drain": {},
}
ARGUMENTS = [(method, argument) for method, arguments in CALLS.items() for argument in arguments]


class NoFacts:
    async def extract(self, text: str) -> list[object]:
        return []


def names(error: ActroneMemoryError, *arguments: str) -> bool:
    """Whether a `ValidationError` is about one of the arguments or about something inside of it."""
    return isinstance(error, ValidationError) and re.split(r"[.\[ ]", error.field)[0] in arguments


def documented(error: ActroneMemoryError, argument: str, value: object) -> bool:
    too_small = argument == "token_budget" and isinstance(value, int) and not isinstance(value, bool)
    return isinstance(error, TokenBudgetError) if too_small else names(error, argument)


def shown(label: str, outcome: object) -> str:
    return f"{label}: {type(outcome).__name__}: {outcome!s:.200}"


async def contents(memory: MemoryManager) -> list[object]:
    turns = await memory.get_recent_turns("a", "s")
    memories = await memory.list_memories("a", content_types=ALL_TYPES, include_superseded=True)
    return [turns, memories, await memory.list_sessions("a")]


@pytest.fixture
async def filled() -> AsyncIterator[MemoryManager]:
    """A manager that holds one turn and one memory, all of it archived."""
    manager = await MemoryManager.create(MemoryConfig(strict_background_errors=True), extractor=NoFacts())
    await manager.store_turn("a", "s", "hello", "hi")
    await manager.inject_memory("a", FACT)
    await manager.drain()
    yield manager
    await manager.close()


def test_the_table_names_every_argument_of_every_public_method() -> None:
    for kind in (MemoryManager, SyncMemoryManager):
        methods = {
            name: list(inspect.signature(method).parameters)[1:]
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") and name not in {"close", "export_agent", "run"}  # an iterator; a coroutine
        }
        assert methods == {name: list(arguments) for name, arguments in CALLS.items()}


@pytest.mark.parametrize("method", CALLS)
async def test_the_table_is_right_about_what_is_acceptable(filled: MemoryManager, method: str) -> None:
    arguments = {name: argument.fine for name, argument in CALLS[method].items()}
    if method == "delete_memory":
        with pytest.raises(MemoryNotFoundError):
            await filled.delete_memory(**arguments)
        arguments["memory_id"] = (await filled.list_memories("a"))[0].id
    await getattr(filled, method)(**arguments)


@pytest.mark.parametrize(("method", "argument"), ARGUMENTS)
async def test_the_manager_refuses_rubbish_by_name_and_writes_nothing(
    filled: MemoryManager, method: str, argument: str
) -> None:
    before, wrong = await contents(filled), []
    arguments = {name: one.fine for name, one in CALLS[method].items()}
    for label, value in CALLS[method][argument].rubbish.items():
        try:
            wrong.append(shown(f"{label} was accepted", await getattr(filled, method)(**arguments | {argument: value})))
        except ActroneMemoryError as error:
            if not documented(error, argument, value):
                wrong.append(shown(label, error))
        except Exception as error:
            wrong.append(shown(label, error))
    assert wrong == []
    await filled.drain()
    assert await contents(filled) == before


@pytest.mark.parametrize("method", CALLS)
def test_the_plain_manager_refuses_rubbish_as_the_async_one_does(method: str) -> None:
    with SyncMemoryManager.create(MemoryConfig(), extractor=NoFacts()) as memory:
        arguments = {name: one.fine for name, one in CALLS[method].items()}
        for argument in CALLS[method]:
            for label in ("int", "object", "text"):
                value = CALLS[method][argument].rubbish.get(label, b"a")
                with pytest.raises(ActroneMemoryError) as error:
                    getattr(memory, method)(**arguments | {argument: value})
                assert documented(error.value, argument, value), shown(label, error.value)
        assert memory.list_sessions("a") == []
        assert memory.list_memories("a", content_types=ALL_TYPES, include_superseded=True) == []


async def test_an_unknown_memory_is_neither_deleted_nor_superseded(filled: MemoryManager) -> None:
    before = await contents(filled)
    for memory_id in ("no-such-id", "x" * 256, str(uuid.uuid4()), "' OR 1=1 --", "*"):
        with pytest.raises(MemoryNotFoundError) as error:
            await filled.delete_memory("a", memory_id)
        assert error.value.memory_id == memory_id
        with pytest.raises(MemoryNotFoundError):
            await filled.inject_memory("a", "Deploy on Fridays.", supersedes=memory_id)
    assert await contents(filled) == before


async def test_limits_beyond_every_store_are_no_error(filled: MemoryManager) -> None:
    assert len(await filled.get_recent_turns("a", "s", HUGE)) == 1
    assert [entry.content for entry in await filled.search_memories("a", "tests", HUGE)] == [FACT]
    assert await filled.extract_memories("a", "s", HUGE) == []


async def test_a_duration_beyond_every_clock_is_kept_within_reason_or_refused(filled: MemoryManager) -> None:
    with suppress(ValidationError):
        await filled.store_turn("a", "s", "hello", "hi", [tool(duration_ms=HUGE)])
    for turn in await filled.get_recent_turns("a", "s"):
        assert all(str(result.duration_ms) for result in turn.tool_results)


async def test_a_budget_beyond_every_model_is_no_error(filled: MemoryManager) -> None:
    for budget in (10**30, HUGE):
        context = await filled.retrieve_context("a", "s", "tests", budget)
        assert [memory.content for memory in context.episodic_memories] == [FACT]
        assert 0 <= context.budget_utilisation <= 1
        assert str(context)
        assert context._repr_html_()


async def test_ids_of_an_enumeration_of_texts_are_their_values(filled: MemoryManager) -> None:
    class Name(str, enum.Enum):  # noqa: UP042 - people write it like this, and str() of it is not its value
        AGENT = "a"
        SESSION = "work"
        TAG = "testing"

    stored = await filled.store_turn(Name.AGENT, Name.SESSION, Name.TAG, "hi", metadata={Name.TAG: Name.TAG})
    await filled.inject_memory(Name.AGENT, "Use pytest.", session_id=Name.SESSION, topic_tags=[Name.TAG])
    (turn,) = await filled.get_recent_turns("a", "work")
    assert (turn.id, turn.user_message, turn.metadata) == (stored, "testing", {"testing": "testing"})
    (entry,) = await filled.search_memories("a", "pytest", tags=["testing"])
    assert (entry.session_id, entry.topic_tags) == ("work", ["testing"])


async def test_times_at_the_ends_of_the_calendar_are_kept_and_recalled(filled: MemoryManager) -> None:
    for when in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        session = str(when.year)
        await filled.store_turn("a", session, "an unusual heliograph", "noted", timestamp=when)
        await filled.drain()
        assert [turn.timestamp for turn in await filled.get_recent_turns("a", session)] == [when]
        context = await filled.retrieve_context("a", "other", "heliograph", 2_000)
        assert when in [entry.timestamp for entry in context.recalled_turns]
        assert context._repr_html_()


# --- what a turn may hold ---------------------------------------------------------------------------------------------


class Secretive(BaseModel):
    model_config = {"extra": "allow"}

    when: datetime
    token: str

    @field_serializer("token")
    def _hidden(self, token: str) -> str:
        return "*" * len(token)


class Numbers(RootModel[list[int]]):
    pass


@dataclasses.dataclass
class Size:
    width: Decimal
    names: tuple[str, ...]


WHEN, KEY = datetime(2025, 1, 2, tzinfo=UTC), uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (WHEN, "2025-01-02T00:00:00Z"),
        (KEY, str(KEY)),
        (Decimal("1.50"), "1.50"),
        (Size(Decimal("2.0"), ("a", "b")), {"width": "2.0", "names": ["a", "b"]}),
        ((1, (2, 3)), [1, [2, 3]]),
        (frozenset({3}), [3]),
        (tool(result=(1, WHEN)), {**tool().model_dump(), "result": [1, "2025-01-02T00:00:00Z"]}),
        (Numbers([1, 2]), [1, 2]),
        (
            Secretive(when=WHEN, token="abc", more=KEY),
            {"when": "2025-01-02T00:00:00Z", "token": "***", "more": str(KEY)},
        ),
        ({7: "int", None: "none", True: "bool"}, {"7": "int", "null": "none", "true": "bool"}),
        (2**4_000, 2**4_000),
        (nested(90), nested(90)),
    ],
    ids=["datetime", "UUID", "Decimal", "dataclass", "tuple", "set", "model", "root model", "model of its own form",
         "keys", "long int", "deep"],
)  # fmt: skip
async def test_what_json_can_say_comes_back_in_pydantics_json_form(
    memory: MemoryManager, value: object, stored: object
) -> None:
    call = tool(params={"p": value}, result=value)
    await memory.store_turn("a", "s", "q", "", tool_results=[call], metadata={"m": [value]})
    await memory.drain()
    (turn,) = await memory.get_recent_turns("a", "s")
    assert turn.metadata == {"m": [stored]}
    assert (turn.tool_results[0].params, turn.tool_results[0].result) == ({"p": stored}, stored)


async def test_a_model_or_dataclass_without_its_fields_is_kept_as_far_as_it_goes_or_refused(
    memory: MemoryManager,
) -> None:
    for incomplete in (Turn.model_construct(), Secretive.model_construct(token="abc"), object.__new__(Size)):
        with suppress(ValidationError):
            await memory.store_turn("a", "s", "q", "", metadata={"m": incomplete})
    await memory.drain()
    assert {turn.user_message for turn in await memory.get_recent_turns("a", "s")} <= {"q"}


# --- the in-process store ---------------------------------------------------------------------------------------------


def entry(**fields: object) -> MemoryEntry:
    made = MemoryEntry(id="1", agent_id="a", session_id="s", content=FACT, content_type="fact", embedding=[1.0, 0.0])
    return made.model_copy(update=fields)


VECTORS: Rubbish = {
    **without(OBJECTS, "set"),
    "text": "12",
    "empty": [],
    "texts": ["1", "2"],
    "NaN in it": [NAN, 0.0],
    "infinity in it": [INF, 0.0],
    "None in it": [None, 0.0],
    "huge int in it": [HUGE, 0],
    "complex": [1j, 0.0],
    "nested": [[1.0, 0.0]],
    "ragged": [[1.0], 0.0],
    "of other dimensions": [1.0, 0.0, 0.0],
}
ENTRIES: Rubbish = {
    **OBJECTS,
    "an entry without its fields": MemoryEntry.model_construct(agent_id="a"),
    **{f"an id that is {label}": entry(id=value) for label, value in IDS.items()},
    **{f"an agent that is {label}": entry(agent_id=value) for label, value in IDS.items()},
    **{f"a session that is {label}": entry(session_id=value) for label, value in IDS.items()},
    **{f"content that is {label}": entry(content=value) for label, value in TEXTS.items()},
    **{f"a type that is {label}": entry(content_type=value) for label, value in LABELS.items()},
    **{f"a vector that is {label}": entry(embedding=value) for label, value in without(VECTORS, "None").items()},
    **{f"importance: {label}": entry(importance_score=value) for label, value in NUMBERS.items()},
    **{f"tags: {label}": entry(topic_tags=value) for label, value in TAGS.items()},
    **{f"a time that is {label}": entry(timestamp=value) for label, value in TIMES.items()},
    **{f"a source that is {label}": entry(source=value) for label, value in IDS.items()},
    **{f"sensitivity: {label}": entry(sensitivity=value) for label, value in LABELS.items()},
    **{f"metadata: {label}": entry(metadata=value) for label, value in without(JSON, "None").items()},
    **{f"superseded by {label}": entry(superseded_by=value) for label, value in without(IDS, "None").items()},
    "turn ids that are no texts": entry(source_turn_ids=[None]),
    "turn ids with a lone surrogate": entry(source_turn_ids=[SURROGATE]),
    "a place that is text": entry(sequence="first"),
    "a size that is text": entry(token_count="many"),
}
BACKGROUNDS = {"a number": 0.1, "one number": (0.1,), "three numbers": (0.1, 0.1, 0.1), "no deviation": (0.1, 0.0),
               "texts": ("0.1", "0.1"), "a mean above 1": (1.1, 0.1), "NaN": (NAN, 0.1), "no end": (0.1, INF),
               "bools": (True, True), "next to no deviation": (0.1, 1e-300)}  # fmt: skip

COPIES: Rubbish = {
    **{f"session_id: {label}": SessionCopy.model_construct(session_id=value) for label, value in IDS.items()},
    "a mark that is too high": SessionCopy(session_id="x", archived=0),
    "a number that is text": SessionCopy.model_construct(session_id="x", next_sequence="1"),
    "a record without a number": SessionCopy(session_id="x", next_sequence=1, records=[turn(session_id="x")]),
    "a record of another session": SessionCopy(session_id="x", next_sequence=1, records=[turn(sequence=0)]),
    "more records than numbers": SessionCopy(session_id="s", records=[turn(sequence=0)]),
    "an id that is blank": SessionCopy(session_id="x", given_up=[" "]),
}

STORE_CALLS: Mapping[str, Mapping[str, Argument]] = {
    "append_turn": {"agent_id": AGENT, "session_id": SESSION, "turn": Argument(turn(), RECORDS)},
    "append_turns": {
        "agent_id": AGENT,
        "session_id": SESSION,
        "turns": Argument([turn()], TURNS),
        "hold": Argument(True, FLAGS),
    },
    "get_recent_turns": {"agent_id": AGENT, "session_id": SESSION, "n": N},
    "turn_count": {"agent_id": AGENT, "session_id": SESSION},
    "clear_session": {"agent_id": AGENT, "session_id": SESSION},
    "get_session_metadata": {"agent_id": AGENT, "session_id": SESSION},
    "list_agents": {},
    "list_sessions": {"agent_id": AGENT},
    "try_acquire_summary_lock": {
        "agent_id": AGENT,
        "session_id": SESSION,
        "ttl_seconds": Argument(1, without(COUNTS, "float", "zero")),
    },
    "unarchived": {"agent_id": AGENT, "session_id": SESSION},
    "mark_archived": {
        "agent_id": AGENT,
        "session_id": SESSION,
        "turns": Argument([], {**LISTS, **{f"an item that is {k}": [v] for k, v in OBJECTS.items()}}),
    },
    "mark_erased": {"agent_id": AGENT},
    "copy_session": {"agent_id": AGENT, "session_id": SESSION},
    "add_session": {"agent_id": AGENT, "copy": Argument(SessionCopy(session_id="s"), {**OBJECTS, **COPIES})},
    "memory_ids": {"agent_id": AGENT},
    "get_with_embeddings": {"agent_id": AGENT, "memory_ids": Argument(["1"], LISTS)},
    "begin_reindex": {"identity": Argument(EmbedderIdentity("first", 2), OBJECTS)},
    "add_vectors": {
        "identity": Argument(EmbedderIdentity("first", 2), OBJECTS),
        "entries": Argument([entry()], {**LISTS, **{f"an entry: {k}": [v] for k, v in ENTRIES.items()}}),
    },
    "finish_reindex": {"identity": Argument(EmbedderIdentity("first", 2), OBJECTS)},
    "upsert": {"entry": Argument(entry(), ENTRIES)},
    "upsert_many": {
        "entries": Argument(
            [entry()], {**LISTS, **{f"an entry: {label}": [entry(id="2"), value] for label, value in ENTRIES.items()}}
        ),
        "epoch": Argument(None, without(OBJECTS, "None", "int", "huge int")),
    },
    "erasure_epoch": {"agent_id": AGENT},
    "get": {"agent_id": AGENT, "memory_id": Argument("1", IDS)},
    "list_memories": {"agent_id": AGENT, "content_types": NO_TYPES, "include_superseded": Argument(False, FLAGS)},
    "search": {
        "agent_id": AGENT,
        "query_embedding": Argument([1.0, 0.0], VECTORS),
        "threshold": Argument(0.3, NUMBERS),
        "limit": Argument(5, COUNTS),
        "content_types": NO_TYPES,
        "query_text": Argument(None, without(TEXTS, "None")),
    },
    "search_page": {
        "agent_id": AGENT,
        "query_embedding": Argument([1.0, 0.0], VECTORS),
        "threshold": Argument(0.3, NUMBERS),
        "background": Argument(None, BACKGROUNDS),
        "newer_first": Argument(False, FLAGS),
        "limit": Argument(5, COUNTS),
        "consider": Argument(5, COUNTS),
        "content_types": NO_TYPES,
        "query_text": Argument(None, without(TEXTS, "None")),
        "tags": NO_TAGS,
    },
    "delete": {"memory_id": Argument("no-such-id", IDS)},
    "delete_agent_memories": {"agent_id": AGENT},
    "delete_session_turns": {"agent_id": AGENT, "session_id": SESSION},
    "bind_embedder": {"identity": Argument(EmbedderIdentity("first", 2), OBJECTS)},
}
STORE_ARGUMENTS = [(method, argument) for method, arguments in STORE_CALLS.items() for argument in arguments]
INSIDE = {"entry": (*MemoryEntry.model_fields, "entries"), "entries": (*MemoryEntry.model_fields, "entry")}
"""Errors about an entry may name the field of the entry."""


async def stored(store: InMemoryStore | SQLiteStore) -> list[object]:
    turns = [await store.get_recent_turns("a", "s"), await store.unarchived("a", "s")]
    memories = await store.list_memories("a", include_superseded=True)
    found = [found.id for found in await store.search("a", [1.0, 0.0], -1.0)]
    return [turns, memories, found, await store.erasure_epoch("a"), await store.bind_embedder(BOUND)]


BOUND = EmbedderIdentity("first", 2)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[InMemoryStore | SQLiteStore]:
    """A store that holds one turn and one entry."""
    made = InMemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "memory.db")
    await made.bind_embedder(BOUND)
    await made.append_turn("a", "s", turn())
    await made.upsert(entry())
    yield made
    await made.close()


@pytest.mark.parametrize("kind", [InMemoryStore, SQLiteStore])
def test_the_stores_table_names_every_argument_of_every_public_method(kind: type) -> None:
    methods = {
        name: list(inspect.signature(method).parameters)[1:]
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name != "close"
    }
    assert methods == {name: list(arguments) for name, arguments in STORE_CALLS.items()}


@pytest.mark.parametrize("method", STORE_CALLS)
async def test_the_stores_table_is_right_about_what_is_acceptable(
    store: InMemoryStore | SQLiteStore, method: str
) -> None:
    await getattr(store, method)(**{name: argument.fine for name, argument in STORE_CALLS[method].items()})


@pytest.mark.parametrize(("method", "argument"), STORE_ARGUMENTS)
async def test_the_store_refuses_rubbish_by_name_and_keeps_what_it_holds(
    store: InMemoryStore | SQLiteStore, method: str, argument: str
) -> None:
    before, wrong = await stored(store), []
    arguments = {name: one.fine for name, one in STORE_CALLS[method].items()}
    for label, value in STORE_CALLS[method][argument].rubbish.items():
        try:
            wrong.append(shown(f"{label} was accepted", await getattr(store, method)(**arguments | {argument: value})))
        except ActroneMemoryError as error:
            if not names(error, argument, f"{argument}s", *INSIDE.get(argument, ())):
                wrong.append(shown(label, error))
        except Exception as error:
            wrong.append(shown(label, error))
    assert wrong == []
    assert await stored(store) == before


async def test_an_entry_that_is_refused_leaves_the_agent_readable_and_erasable(
    store: InMemoryStore | SQLiteStore,
) -> None:
    for broken in (entry(id="2", content_type="nonsense"), entry(id="3", topic_tags=[["a"]]), entry(id="4", source=7)):
        with pytest.raises(ValidationError):
            await store.upsert(broken)
    assert [found.id for found in await store.search("a", [1.0, 0.0], -1.0)] == ["1"]
    await store.delete_agent_memories("a")
    assert await store.list_memories("a", include_superseded=True) == []


@pytest.mark.parametrize(
    ("argument", "rubbish"),
    [
        ("max_turns", COUNTS),
        ("relevance_weight", NUMBERS),
        ("recency_weight", NUMBERS),
    ],
)
def test_a_store_of_rubbish_settings_is_refused(argument: str, rubbish: Rubbish) -> None:
    wrong = []
    for label, value in rubbish.items():
        try:
            wrong.append(shown(f"{label} was accepted", InMemoryStore(**{argument: value})))
        except Exception as error:
            if not (isinstance(error, ConfigurationError) and argument in error.message):
                wrong.append(shown(label, error))
    assert wrong == []


# --- plain functions and the embedder ---------------------------------------------------------------------------------


@pytest.mark.parametrize("argument", ["a", "b"])
def test_a_similarity_of_anything_but_vectors_is_refused_by_name(argument: str) -> None:
    rubbish = without(VECTORS, "empty", "of other dimensions") | {"flags": [True, False], "bytes in it": [b"1", 0.0]}
    wrong = []
    for label, value in rubbish.items():
        try:
            wrong.append(shown(f"{label} was accepted", cosine_similarity(**{"a": [1.0], "b": [1.0], argument: value})))
        except Exception as error:
            if not (isinstance(error, ValidationError) and error.field == argument):
                wrong.append(shown(label, error))
    assert wrong == []


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e200, 1.7e308])
def test_a_similarity_of_tiny_and_of_enormous_vectors_is_that_of_their_directions(size: float) -> None:
    assert cosine_similarity([size, 0.0], [size, 0.0]) == pytest.approx(1.0)
    assert cosine_similarity([size, size], [size, -size]) == pytest.approx(0.0)
    assert cosine_similarity([size, size], [1.0, 1.0]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "raw",
    [
        *OBJECTS.values(),
        "",
        "\x00",
        SURROGATE,
        LONG,
        "[" * 100_000,
        '{"a":' * 100_000,
        f"[{'9' * 5_000}]",
        '{"facts": {"text": "no content"}}',
        '[{"content": 7}, {"content": ["a"]}, {"content": null}, null, 7, "text", [], {}]',
        '[{"content": "\\u0000"}, {"content": "\\ud800"}]',
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_answer_without_facts_is_none_and_no_error(raw: object) -> None:
    assert parse_facts(raw) == []


def test_fields_of_a_fact_that_are_rubbish_are_replaced() -> None:
    for rubbish in ("null", "[]", "{}", "NaN", "-Infinity", "1e999", f"1{'0' * 400}", '"\\ud800"', '[7, null, "", []]'):
        answer = f'[{{"content": "kept", "importance": {rubbish}, "topic_tags": {rubbish}, "sensitivity": {rubbish}}}]'
        (fact,) = parse_facts(answer)
        assert fact.content == "kept", rubbish
        assert 0 <= fact.importance <= 1
        assert fact.topic_tags == []
        assert fact.sensitivity in ("none", "sensitive")


@pytest.mark.parametrize("label", without(COUNTS, "None"))
def test_an_embedder_of_rubbish_dimensions_is_refused(label: str) -> None:
    with pytest.raises(ConfigurationError):
        HashingEmbedder(COUNTS[label])


async def refusals(call: Callable[[object], Awaitable[object]], rubbish: Rubbish, *fields: str) -> list[str]:
    """What was not refused as a `ValidationError` about one of ``fields``."""
    wrong = []
    for label, value in rubbish.items():
        try:
            wrong.append(shown(f"{label} was accepted", type(await call(value))))
        except Exception as error:
            if not (isinstance(error, ActroneMemoryError) and names(error, *fields)):
                wrong.append(shown(label, error))
    return wrong


async def test_the_hashing_embedder_embeds_texts_only() -> None:
    embedder = HashingEmbedder()
    assert await refusals(embedder.embed, TEXTS, "text") == []
    batches = without(LISTS, "10 MB") | {f"a text that is {label}": ["fine", value] for label, value in TEXTS.items()}
    assert await refusals(embedder.embed_batch, batches, "texts") == []


# --- settings ---------------------------------------------------------------------------------------------------------

SETTINGS = list(MemoryConfig.model_fields)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_refuses_rubbish_by_its_name(setting: str) -> None:
    for label in ("infinity", "NaN", "list", "dict", "object", "object without a repr", "class"):
        with pytest.raises(ConfigurationError) as error:
            MemoryConfig(**{setting: OBJECTS[label]})
        assert setting in error.value.message, label
        assert error.value.details["settings"] == [setting], label


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"summarise_after_turns": 0}, "summarise_after_turns"),
        ({"max_session_turns": -1}, "max_session_turns"),
        ({"max_session_turns": 1.5}, "max_session_turns"),
        ({"session_ttl_hours": 0}, "session_ttl_hours"),
        ({"embedding_cache_ttl_seconds": 0}, "embedding_cache_ttl_seconds"),
        ({"max_episodic_memories": 0}, "max_episodic_memories"),
        ({"rerank_top_k": 0}, "rerank_top_k"),
        ({"hashing_dimensions": 0}, "hashing_dimensions"),
        ({"summarise_cooldown_seconds": -1}, "summarise_cooldown_seconds"),
        ({"shutdown_grace_seconds": -0.1}, "shutdown_grace_seconds"),
        ({"relevance_threshold": 1.1}, "relevance_threshold"),
        ({"relevance_weight": 2, "recency_weight": -1}, "relevance_weight"),
        ({"relevance_weight": 2, "recency_weight": -1}, "recency_weight"),
        ({"relevance_weight": 0, "recency_weight": 0}, "recency_weight"),
        ({"budget_fraction_system": 0.4}, "budget_fraction_system"),
        ({"budget_fraction_session": 0}, "budget_fraction_session"),
        ({"backend": "redis"}, "backend"),
        ({"embedding_provider": "OpenAI"}, "embedding_provider"),
        ({"token_counter": "tiktokn"}, "token_counter"),
        ({"hybrid_retrieval": "maybe"}, "hybrid_retrieval"),
        ({"qdrant_collection": " "}, "qdrant_collection"),
        ({"qdrant_collection": SURROGATE}, "qdrant_collection"),
        ({"redis_url": ""}, "redis_url"),
        ({"redact_sensitivity": "secret"}, "redact_sensitivity"),
        ({"redact_sensitivity": ["pii", "none"]}, "redact_sensitivity"),
        ({"redact_sensitivity": "[" * 100_000}, "redact_sensitivity"),
        ({"max_sesion_turns": 3}, "max_session_turns"),
        ({"archive_turn": True}, "archive_turns"),
        ({"": 1}, "''"),
    ],
)
def test_misspelt_or_contradictory_settings_are_refused_by_name(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        MemoryConfig(**settings)
    assert named in error.value.message


def test_a_refused_key_is_not_told() -> None:
    with pytest.raises(ConfigurationError) as error:
        MemoryConfig(openai_api_key="sk-secret", max_session_turns="sk-secret")
    assert "sk-secret" not in f"{error.value}{error.value.details}"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"budget_fraction_system": 0.9}, "budget_fraction_system"),
        ({"budget_fraction_system": "a"}, "budget_fraction_system"),
        ({"max_session_turns": 0}, "max_"),
        ({"summarise_after_turns": 0}, "summarise_after_turns"),
        ({"max_episodic_memories": -1}, "max_episodic_memories"),
        ({"shutdown_grace_seconds": "soon"}, "shutdown_grace_seconds"),
        ({"relevance_threshold": "high"}, "relevance_threshold"),
        ({"backend": "nonsense"}, "backend"),
        ({"embedding_provider": "nonsense"}, "embedding_provider"),
        ({"token_counter": "tiktokn"}, "token_counter"),
        ({"hashing_dimensions": 0}, "dimension"),
    ],
)
async def test_settings_changed_into_rubbish_are_refused_when_a_manager_is_made(
    settings: dict[str, object], named: str
) -> None:
    config = MemoryConfig().model_copy(update=settings)
    with pytest.raises(ConfigurationError) as error:
        await (await MemoryManager.create(config)).close()
    assert named in error.value.message


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"embedding_provider": "openai"}, "openai_api_key"),
        ({"embedding_provider": "openai", "openai_api_key": "  "}, "openai_api_key"),
        ({"extract_facts": True}, "extract_facts"),
        ({"rerank_enabled": True}, "rerank_enabled"),
    ],
)
async def test_settings_that_need_more_than_there_is_are_refused_at_the_start(
    settings: dict[str, object], named: str
) -> None:
    with pytest.raises(ConfigurationError) as error:
        await MemoryManager.create(MemoryConfig(**settings))
    assert named in error.value.message


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ACTRONE_MAX_SESSION_TURNS", "many"),
        ("ACTRONE_MAX_SESSION_TURNS", ""),
        ("ACTRONE_MAX_SESSION_TURNS", "9" * 5_000),
        ("ACTRONE_SESSION_TTL_HOURS", "0"),
        ("ACTRONE_RELEVANCE_THRESHOLD", "nan"),
        ("ACTRONE_RELEVANCE_WEIGHT", "1e999"),
        ("ACTRONE_BACKEND", ""),
        ("ACTRONE_TOKEN_COUNTER", "tiktokn"),
        ("ACTRONE_HYBRID_RETRIEVAL", "maybe"),
        ("ACTRONE_QDRANT_COLLECTION", "\udcff"),
        ("actrone_max_session_turns", "[]"),
    ],
)
async def test_a_variable_that_holds_rubbish_is_refused_by_its_setting(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError) as error:
        await MemoryManager.create()
    assert variable.lower().removeprefix("actrone_") in error.value.message


def test_variables_are_read_whatever_their_case_and_keywords_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("actrone_max_session_turns", "7")
    monkeypatch.setenv("ACTRONE_ARCHIVE_TURNS", "no")
    config = MemoryConfig()
    assert (config.max_session_turns, config.archive_turns) == (7, False)
    assert MemoryConfig(max_session_turns=8).max_session_turns == 8


def test_an_unknown_variable_is_one_warning_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ACTRONE_MAX_SESSIONS_TURNS", "7")
    with caplog.at_level(logging.WARNING, "actrone_memory"):
        for _ in range(3):
            assert MemoryConfig().max_session_turns == 50
    (record,) = [record for record in caplog.records if "ACTRONE_MAX_SESSIONS_TURNS" in record.getMessage()]
    assert "max_session_turns" in record.getMessage()
    assert "7" not in record.getMessage()


def test_foreign_keys_in_a_dotenv_file_are_none_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    Path(".env").write_text(
        "max_session_turns=3\nOPENAI_API_KEY=foreign\nexport DATABASE_URL='postgres://x'\nEMPTY=\n"
        "# a comment\nBACKEND=django\nACTRONE_MAX_SESSION_TURNS=9\n",
        encoding="utf-8",
    )
    config = MemoryConfig()
    assert (config.max_session_turns, config.backend, config.openai_api_key) == (9, "memory", None)
    assert caplog.records == []


def test_a_dotenv_file_yields_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("ACTRONE_MAX_SESSION_TURNS=9\nACTRONE_RERANK_TOP_K=4\n", encoding="utf-8")
    monkeypatch.setenv("ACTRONE_MAX_SESSION_TURNS", "7")
    config = MemoryConfig()
    assert (config.max_session_turns, config.rerank_top_k) == (7, 4)


def test_rubbish_in_a_dotenv_file_is_refused_by_its_setting() -> None:
    Path(".env").write_text("ACTRONE_MAX_SESSION_TURNS=many\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as error:
        MemoryConfig()
    assert "max_session_turns" in error.value.message


@pytest.mark.parametrize("content", ["OWNER=Jürgen\n".encode("latin-1"), "OWNER=a\n".encode("utf-16"), b"\xff\x00"])
def test_a_dotenv_file_that_is_no_utf_8_is_a_clear_error_or_none(content: bytes) -> None:
    Path(".env").write_bytes(content)
    try:
        outcome = str(MemoryConfig().max_session_turns)
    except ConfigurationError as error:
        outcome = error.message
    assert outcome == "50" or ".env" in outcome


# --- parts ------------------------------------------------------------------------------------------------------------


class HalfAStore:
    async def append_turn(self, agent_id: str, session_id: str, turn: Turn) -> None: ...

    async def search(self, agent_id: str) -> list[MemoryEntry]:
        return []


class AttributesOnly:
    extract = rerank = summarise = "no method"


PARTS: Rubbish = {
    "object": object(),
    "text": "memory",
    "int": 0,
    "bool": False,
    "empty list": [],
    "function": lambda text: [],
    "half a store": HalfAStore(),
    "attributes that are no methods": AttributesOnly(),
    "store class, no store": InMemoryStore,
    "embedder class, no embedder": HashingEmbedder,
    "extractor class, no extractor": NoFacts,
}


@pytest.mark.parametrize("name", ["l1", "l2", "embedder", "extractor", "reranker", "summariser"])
async def test_a_part_that_is_none_is_refused_at_the_start_by_name(name: str) -> None:
    wrong = []
    for label, part in PARTS.items():
        try:
            await (await MemoryManager.create(MemoryConfig(), **{name: part})).close()
            wrong.append(f"{label} was accepted")
        except Exception as error:
            if not (isinstance(error, ConfigurationError) and error.message.startswith(name)):
                wrong.append(shown(label, error))
    assert wrong == []


@pytest.mark.parametrize("rubbish", [None, 7, "memory", MemoryManager.drain, iter(())])
def test_the_plain_manager_runs_coroutines_only(plain: SyncMemoryManager, rubbish: object) -> None:
    with pytest.raises(ValidationError, match="coroutine"):
        plain.run(rubbish)


def test_the_plain_manager_refuses_what_is_no_part_or_no_manager() -> None:
    with pytest.raises(ConfigurationError, match="l1"):
        SyncMemoryManager.create(l1=object())
    for rubbish in (None, 7, "memory", InMemoryStore(), MemoryManager):
        with pytest.raises(ActroneMemoryError):
            SyncMemoryManager(rubbish).list_sessions("a")


@pytest.mark.parametrize("config", [7, "memory", {"backend": "memory"}, MemoryConfig, object(), False])
async def test_a_config_that_is_none_is_refused(config: object) -> None:
    with pytest.raises(ConfigurationError, match="config"):
        await MemoryManager.create(config)
    with pytest.raises(ConfigurationError, match="config"):
        async with create_memory_manager(config):
            pytest.fail("a manager was made")
    with pytest.raises(ConfigurationError, match="config"):
        SyncMemoryManager.create(config)
    with pytest.raises(ConfigurationError, match="config"):
        MemoryManager(InMemoryStore(), InMemoryStore(), HashingEmbedder(), config)


class Odd(Embedder):
    """An embedder that answers with whatever it was given."""

    def __init__(self, vector: object, dimensions: object = 2, name: object = "odd", threshold: object = 0.3) -> None:
        self._vector, self._dimensions, self._name, self._threshold = vector, dimensions, name, threshold

    async def embed(self, text: str) -> list[float]:
        return self._vector

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        return [self._vector for _ in texts]

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def name(self) -> str:
        return self._name

    @property
    def relevance_threshold(self) -> float | None:
        return self._threshold


@pytest.mark.parametrize("label", without(VECTORS, "None") | {"too short": 0, "not finite as float": 0})
async def test_an_embedder_that_returns_no_vector_is_one_clear_error(label: str) -> None:
    more = {"too short": [1.0], "not finite as float": [Decimal("NaN"), Decimal("1e999")]}
    memory = await MemoryManager.create(MemoryConfig(), embedder=Odd((VECTORS | more)[label]))
    with pytest.raises(EmbeddingError):
        await memory.inject_memory("a", FACT)
    with pytest.raises(EmbeddingError):
        await memory.search_memories("a", "q")
    assert await memory.list_memories("a") == []
    await memory.close()


@pytest.mark.parametrize(
    "odd",
    [
        Odd([1.0, 0.0], dimensions=None),
        Odd([1.0, 0.0], dimensions="2"),
        Odd([], dimensions=0),
        Odd([1.0, 0.0], name=None),
        Odd([1.0, 0.0], name=["odd"]),
        Odd([1.0, 0.0], threshold="high"),
        Odd([1.0, 0.0], threshold=NAN),
        Odd([1.0, 0.0], threshold=5),
    ],
    ids=["no dimensions", "dimensions of text", "zero dimensions", "no name", "name of a list", "threshold of text",
         "threshold of NaN", "threshold above 1"],
)  # fmt: skip
async def test_an_embedder_that_describes_itself_with_rubbish_is_refused_before_anything_is_written(odd: Odd) -> None:
    store = InMemoryStore()
    with pytest.raises((ConfigurationError, EmbeddingError)):
        memory = await MemoryManager.create(MemoryConfig(), l1=store, l2=store, embedder=odd)
        try:
            await memory.search_memories("a", "q")
            await memory.inject_memory("a", FACT)
        finally:
            await memory.close()
    assert await store.list_memories("a") == []


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", CALLS)
async def test_a_closed_manager_says_so(filled: MemoryManager, method: str) -> None:
    await filled.close()
    await filled.close()
    with pytest.raises(ConfigurationError) as error:
        await getattr(filled, method)(**{name: argument.fine for name, argument in CALLS[method].items()})
    assert error.value.code == "closed"


def test_a_closed_plain_manager_says_so() -> None:
    memory = SyncMemoryManager.create(MemoryConfig())
    memory.close()
    memory.close()
    for method, arguments in CALLS.items():
        with pytest.raises(ConfigurationError) as error:
            getattr(memory, method)(**{name: argument.fine for name, argument in arguments.items()})
        assert error.value.code == "closed", method


async def test_a_store_that_fails_to_close_keeps_no_other_from_closing() -> None:
    class Stubborn(InMemoryStore):
        async def close(self) -> None:
            raise OSError("still busy")

    class Watched(InMemoryStore):
        closed = False

        async def close(self) -> None:
            self.closed = True

    cold = Watched()
    memory = await MemoryManager.create(MemoryConfig(), l1=Stubborn(), l2=cold)
    with pytest.raises(StoreConnectionError, match="Stubborn"):
        await memory.close()
    assert cold.closed


async def test_a_close_that_was_cancelled_can_be_finished() -> None:
    class Slow(InMemoryStore):
        async def upsert_many(self, entries: Sequence[MemoryEntry], *, epoch: int | None = None) -> bool:
            await asyncio.sleep(0.2)
            return await super().upsert_many(entries, epoch=epoch)

    store = Slow()
    memory = await MemoryManager.create(MemoryConfig(), l1=store, l2=store)
    await memory.store_turn("a", "s", "hello", "hi")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(memory.close(), 0.05)
    await memory.close()
    assert len(await store.list_memories("a")) == 1
    assert "actrone-memory-background" not in [thread.name for thread in threading.enumerate()]


def outcomes(*calls: Callable[[], object]) -> list[object]:
    """What the calls return or raise when each runs on a thread of its own; none may take longer than ten seconds."""
    results: list[object] = []

    def run(call: Callable[[], object]) -> None:
        try:
            results.append(call())
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return results


def test_many_threads_may_close_a_plain_manager_at_once() -> None:
    for _ in range(30):
        memory = SyncMemoryManager.create(MemoryConfig())
        memory.store_turn("a", "s", "hello", "hi")
        assert outcomes(*[memory.close] * 4) == [None] * 4


def test_a_call_that_a_close_overtakes_is_finished_or_refused() -> None:
    class Slow(HashingEmbedder):
        async def embed(self, text: str) -> list[float]:
            await asyncio.sleep(0.05)
            return await super().embed(text)

    memory = SyncMemoryManager.create(MemoryConfig(), embedder=Slow())
    waiting = [partial(memory.search_memories, "a", "tests") for _ in range(4)]
    results = outcomes(*waiting, memory.close)
    assert len(results) == 5
    for result in results:
        assert result in ([], None) or (isinstance(result, ConfigurationError) and result.code == "closed"), result


@pytest.fixture
def plain() -> Iterator[SyncMemoryManager]:
    """A plain manager that is closed whatever happens."""
    with SyncMemoryManager.create(MemoryConfig()) as memory:
        yield memory


def test_a_misspelt_keyword_is_pythons_own_error_and_leaves_the_manager_usable(plain: SyncMemoryManager) -> None:
    with pytest.raises(TypeError, match="sesion_id"):
        plain.store_turn("a", sesion_id="s", user_message="x", assistant_message="y")
    assert plain.list_sessions("a") == []
