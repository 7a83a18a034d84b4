"""What a public call accepts. Every check names the argument and raises before anything is written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar, get_args

import numpy as np
import pydantic
from pydantic import JsonValue

from actrone_memory._json import MAX_JSON_BYTES, JsonForm
from actrone_memory._similarity import as_vector
from actrone_memory.errors import TokenBudgetError, ValidationError
from actrone_memory.models import ContentType, MaskedSensitivity, MemoryEntry, Sensitivity, ToolResult, Turn
from actrone_memory.protocols import ExtractedFact

MAX_ID_CHARACTERS = 256
MAX_TEXT_CHARACTERS = 1_000_000
LARGEST_INTEGER = 2**63 - 1
SMALLEST_DEVIATION = 1e-6
"""Cosines of 32-bit vectors are no more exact than that."""

_Choice = TypeVar("_Choice", bound=str)


def identifier(value: object, field: str) -> str:
    """An id or label: 1 to 256 characters, not blank, no NUL, no lone surrogate; kept code point by code point."""
    text = unbounded_text(value, field)
    if not text.strip():
        raise ValidationError(field, "must not be blank")
    if len(text) > MAX_ID_CHARACTERS:
        raise ValidationError(field, f"must have at most {MAX_ID_CHARACTERS} characters, has {len(text)}")
    return text


def text(value: object, field: str) -> str:
    """A text of at most 1,000,000 characters without NUL and lone surrogates; may be empty."""
    checked = unbounded_text(value, field)
    if len(checked) > MAX_TEXT_CHARACTERS:
        raise ValidationError(field, f"must have at most {MAX_TEXT_CHARACTERS:,} characters, has {len(checked):,}")
    return checked


def filled_text(value: object, field: str) -> str:
    """Like `text`, and not blank."""
    checked = text(value, field)
    if not checked.strip():
        raise ValidationError(field, "must not be blank")
    return checked


def shown(value: object) -> str:
    """A short text for an error message, whatever the value's own ``repr`` does."""
    try:
        return f"{value!r:.80}"
    except Exception:  # a repr may raise anything, and a huge int's does
        return f"a {type(value).__name__}"


def texts(value: object, field: str) -> list[str]:
    """A list of texts; see `text`."""
    return [text(item, field) for item in _list(value, field)]


def unbounded_text(value: object, field: str) -> str:
    """Like `text`, of any length."""
    if not isinstance(value, str):
        raise ValidationError(field, f"must be a string, not {type(value).__name__}")
    if "\x00" in value:
        raise ValidationError(field, "must not contain the NUL character")
    _refuse_surrogates(value, field)
    return str.__str__(value)  # the text itself, also of an enumeration of texts


def _refuse_surrogates(value: str, field: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError(field, "contains a lone surrogate, which no store can hold as UTF-8") from None


def whole_number(value: object, field: str, least: int = 0) -> int:
    """An int of at least ``least``; bools are refused, what exceeds 64 bits means "all"."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(field, f"must be an integer, not {type(value).__name__}")
    if value < least:
        raise ValidationError(field, f"must be at least {least}, is {shown(value)}")
    return min(int(value), LARGEST_INTEGER)


def positive_integer(value: object, field: str) -> int:
    """An int of at least 1; bools are refused."""
    return whole_number(value, field, least=1)


def token_budget(value: object) -> int:
    """A budget in tokens: an int; below 1 it is a `TokenBudgetError`."""
    if isinstance(value, int) and not isinstance(value, bool) and value < 1:
        raise TokenBudgetError("token_budget must be at least 1", {"token_budget": value})
    return positive_integer(value, "token_budget")


def importance(value: object, field: str = "importance") -> float:
    """A finite number in [0, 1]; bools are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValidationError(field, f"must be a number, not {type(value).__name__}")
    if not 0 <= value <= 1:
        raise ValidationError(field, f"must be between 0.0 and 1.0, is {shown(value)}")
    return float(value)


def cosine(value: object, field: str) -> float:
    """A finite number in [-1, 1]; bools are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise ValidationError(field, f"must be a cosine between -1.0 and 1.0, is {shown(value)}")
    return float(value)


def background(value: object, field: str) -> tuple[float, float]:
    """A pair of finite floats, numpy's included: a mean in [-1, 1] and a deviation of at least `SMALLEST_DEVIATION`."""
    match value:
        case [float() | np.floating() as mean, float() | np.floating() as deviation]:
            if -1 <= mean <= 1 and SMALLEST_DEVIATION <= deviation < math.inf:
                return float(mean), float(deviation)
    raise ValidationError(field, f"must be the mean and the deviation (> 0) of a cosine, is {shown(value)}")


def flag(value: object, field: str) -> bool:
    """A bool and nothing else."""
    if not isinstance(value, bool):
        raise ValidationError(field, f"must be True or False, not {type(value).__name__}")
    return value


def timestamp(value: object, field: str = "timestamp") -> datetime:
    """An aware datetime, returned in UTC."""
    if not isinstance(value, datetime):
        raise ValidationError(field, f"must be a datetime, not {type(value).__name__}")
    try:
        aware = value.utcoffset() is not None
        in_utc = value.astimezone(UTC) if aware else None
    except Exception:  # a time zone is code of the caller's
        raise ValidationError(field, "lies outside the years 1 to 9999 in UTC, or has a broken time zone") from None
    if in_utc is None:
        raise ValidationError(field, "must be an aware datetime: add tzinfo, for example datetime.now(timezone.utc)")
    return in_utc


def _one_of(value: object, field: str, choices: tuple[_Choice, ...]) -> _Choice:
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    raise ValidationError(field, f"must be one of {', '.join(choices)}; is {shown(value)}")


def sensitivity(value: object, field: str = "sensitivity") -> Sensitivity:
    """One of the `Sensitivity` values."""
    return _one_of(value, field, get_args(Sensitivity))


def masked(value: object) -> frozenset[MaskedSensitivity]:
    """Some sensitivities to mask: a list of any kind."""
    items = value if isinstance(value, set | frozenset) else _list(value, "redact_sensitivity")
    return frozenset(_one_of(item, "redact_sensitivity", get_args(MaskedSensitivity)) for item in items)


def content_types(value: object) -> list[ContentType] | None:
    """A list of `ContentType` values, or None for no filter."""
    if value is None:
        return None
    return [_one_of(item, "content_types", get_args(ContentType)) for item in _list(value, "content_types")]


def tags(value: object, field: str = "topic_tags") -> list[str]:
    """A list of tags, each an `identifier`; None counts as []. Repeated tags are kept once."""
    if value is None:
        return []
    return list(dict.fromkeys(identifier(item, field) for item in _list(value, field)))


def _list(value: object, field: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise ValidationError(field, f"must be a list, not {type(value).__name__}")
    return value


def metadata(value: object, field: str = "metadata") -> dict[str, JsonValue]:
    """A dict in JSON form, at most 16 MiB of JSON; None counts as {}."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValidationError(field, f"must be a dict, not {type(value).__name__}")
    converted = JsonForm(field).convert(value)
    assert isinstance(converted, dict)
    return converted


def tool_results(value: object, field: str = "tool_results") -> list[ToolResult]:
    """A list of `ToolResult`, each in JSON form, together at most 16 MiB of JSON; None counts as []."""
    if value is None:
        return []
    results = [_tool_result(item, f"{field}[{i}]") for i, item in enumerate(_list(value, field))]
    size = sum(len(result.model_dump_json()) for result in results)
    if size > MAX_JSON_BYTES:
        raise ValidationError(field, f"must be at most {MAX_JSON_BYTES:,} bytes of JSON, are {size:,}")
    return results


def _tool_result(value: object, field: str) -> ToolResult:
    if not isinstance(value, ToolResult):
        made = "make one with ToolResult(tool_name=..., params=..., result=..., success=...)"
        raise ValidationError(field, f"must be a ToolResult, not {type(value).__name__}: {made}")
    given = vars(value)
    duration = given.get("duration_ms")
    if isinstance(duration, int) and duration > LARGEST_INTEGER:
        raise ValidationError(f"{field}.duration_ms", f"must be a duration in milliseconds, is {shown(duration)}")
    return ToolResult(
        tool_name=identifier(given.get("tool_name"), f"{field}.tool_name"),
        params=dict(metadata(given.get("params"), f"{field}.params")),
        result=JsonForm(f"{field}.result").convert(given.get("result")),
        success=flag(given.get("success"), f"{field}.success"),
        duration_ms=None if duration is None else whole_number(duration, f"{field}.duration_ms"),
    )


def records(value: object, session_id: str) -> list[Turn]:
    """The records of a list of turns, each checked like the arguments of ``store_turn``.

    A joined turn, as reads return it, stands for its records. Every record must name ``session_id`` as its session.
    """
    checked: list[Turn] = []
    for i, turn in enumerate(turns(value)):
        field = f"turns[{i}]"
        for part in turns(vars(turn).get("records", []), f"{field}.records") or [turn]:
            given = vars(part)
            own = identifier(given.get("session_id"), f"{field}.session_id")
            if own != session_id:
                raise ValidationError(f"{field}.session_id", f"is {own!r}, the call says {session_id!r}")
            checked.append(
                record(
                    own,
                    given.get("user_message"),
                    given.get("assistant_message"),
                    given.get("tool_results"),
                    given.get("metadata"),
                    identifier(given.get("id"), f"{field}.id"),
                    given.get("timestamp"),
                    given.get("continues", False),
                    given.get("token_count", 0),
                    prefix=f"{field}.",
                )
            )
    return checked


def turns(value: object, field: str = "turns") -> list[Turn]:
    """A list of `Turn` objects; what is in them is not looked at."""
    found: list[Turn] = []
    for i, turn in enumerate(_list(value, field)):
        if not isinstance(turn, Turn):
            raise ValidationError(f"{field}[{i}]", f"must be a Turn, not {type(turn).__name__}")
        found.append(turn)
    return found


def record(
    session_id: str,
    user_message: object,
    assistant_message: object,
    results: object,
    extra: object,
    turn_id: str,
    said_at: object,
    continues: object,
    tokens: object = 0,
    *,
    prefix: str = "",
) -> Turn:
    """One record made of checked values; something must be in it. Errors name their field after ``prefix``."""
    checked = Turn(
        id=turn_id,
        session_id=session_id,
        user_message=text(user_message, f"{prefix}user_message"),
        assistant_message=text(assistant_message, f"{prefix}assistant_message"),
        tool_results=tool_results(results, f"{prefix}tool_results"),
        timestamp=timestamp(said_at, f"{prefix}timestamp"),
        metadata=metadata(extra, f"{prefix}metadata"),
        continues=flag(continues, f"{prefix}continues"),
        token_count=whole_number(tokens, f"{prefix}token_count"),
    )
    said = checked.user_message.strip() or checked.assistant_message.strip()
    if not (said or checked.tool_results or checked.metadata):
        raise ValidationError(f"{prefix}user_message", "nothing to store: give a message, tool results or metadata")
    return checked


class Injected(NamedTuple):
    """The checked arguments of ``inject_memory``; errors about them begin with ``prefix``."""

    content: str
    importance: float
    session_id: str
    topic_tags: list[str]
    source: str
    sensitivity: Sensitivity
    supersedes: str | None
    prefix: str


_INJECTABLE = Injected._fields[:-1]


def injected(given: Mapping[str, object], prefix: str = "") -> Injected:
    """The arguments of ``inject_memory``, each checked; what is not given has the default there."""
    return Injected(
        content=filled_text(given.get("content"), f"{prefix}content"),
        importance=importance(given.get("importance", 0.8), f"{prefix}importance"),
        session_id=identifier(given.get("session_id", "injected"), f"{prefix}session_id"),
        topic_tags=tags(given.get("topic_tags"), f"{prefix}topic_tags"),
        source=identifier(given.get("source", "injected"), f"{prefix}source"),
        sensitivity=sensitivity(given.get("sensitivity", "none"), f"{prefix}sensitivity"),
        supersedes=None if (named := given.get("supersedes")) is None else identifier(named, f"{prefix}supersedes"),
        prefix=prefix,
    )


def injections(value: object) -> list[Injected]:
    """A list of texts, of dicts with the arguments of ``inject_memory``, of facts or of memories."""
    return [
        injected(_injectable(item, f"memories[{i}]"), f"memories[{i}].")
        for i, item in enumerate(_list(value, "memories"))
    ]


def _injectable(item: object, field: str) -> Mapping[str, object]:
    """What of ``item`` is injected: a memory's id and time, for example, are its own."""
    match item:
        case str():
            return {"content": item}
        case ExtractedFact():
            return vars(item)
        case MemoryEntry():
            return {**vars(item), "importance": vars(item).get("importance_score")}
        case Mapping():
            given = dict(item)
            unknown = [name for name in given if name not in _INJECTABLE]
            if unknown:
                raise ValidationError(field, f"has {shown(unknown[0])}; it may have {', '.join(_INJECTABLE)}")
            return given
    raise ValidationError(
        field, f"must be a text, a dict with a content, an ExtractedFact or a MemoryEntry, not {type(item).__name__}"
    )


def facts(value: object) -> list[ExtractedFact]:
    """Checked copies of what a fact extractor returned, facts or dicts of their fields; errors quote none of them."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return [_fact(item, f"facts[{i}]") for i, item in enumerate(value)]
    raise ValidationError("facts", f"must be a list, not {type(value).__name__}")


def _fact(value: object, field: str) -> ExtractedFact:
    if not isinstance(value, ExtractedFact | Mapping):
        raise ValidationError(field, f"must be an ExtractedFact, not {type(value).__name__}")
    try:
        checked = ExtractedFact.model_validate(vars(value) if isinstance(value, ExtractedFact) else dict(value))
    except pydantic.ValidationError as error:
        raise _first_refusal(error, f"{field}.") from None
    text(checked.content, f"{field}.content")
    tags(checked.topic_tags, f"{field}.topic_tags")
    return checked


def _first_refusal(error: pydantic.ValidationError, prefix: str) -> ValidationError:
    first = error.errors(include_input=False, include_url=False)[0]
    return ValidationError(f"{prefix}{'.'.join(map(str, first['loc']))}", first["msg"])


def entries(value: object) -> list[MemoryEntry]:
    """Checked copies of a list of entries; see `entry`."""
    return [entry(item, f"entries[{i}].") for i, item in enumerate(_list(value, "entries"))]


def entry(value: object, prefix: str = "") -> MemoryEntry:
    """A copy of a `MemoryEntry` that a store can hold: every field of its type, texts and ids as in public calls."""
    if not isinstance(value, MemoryEntry):
        raise ValidationError(f"{prefix}entry", f"must be a MemoryEntry, not {type(value).__name__}")
    try:
        checked = MemoryEntry.model_validate(vars(value), strict=True)
    except pydantic.ValidationError as error:
        raise _first_refusal(error, prefix) from None
    for name in ("id", "agent_id", "session_id", "source"):
        identifier(getattr(checked, name), f"{prefix}{name}")
    text(checked.content, f"{prefix}content")
    importance(checked.importance_score, f"{prefix}importance_score")
    checked.timestamp = timestamp(checked.timestamp, f"{prefix}timestamp")
    checked.metadata = metadata(checked.metadata, f"{prefix}metadata")
    for name in ("topic_tags", "source_turn_ids"):
        tags(getattr(checked, name), f"{prefix}{name}")
    if checked.superseded_by is not None:
        identifier(checked.superseded_by, f"{prefix}superseded_by")
    if checked.embedding is not None and not as_vector(checked.embedding, f"{prefix}embedding").size:
        raise ValidationError(f"{prefix}embedding", "must hold at least one number")
    return checked
