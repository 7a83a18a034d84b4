"""What a public call accepts. Every check names the argument and raises before anything is written."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import TypeVar, get_args

from pydantic import BaseModel, JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from actrone_memory.errors import TokenBudgetError, ValidationError
from actrone_memory.models import ContentType, MemoryEntry, Sensitivity, ToolResult, Turn

MAX_ID_CHARACTERS = 256
MAX_TEXT_CHARACTERS = 1_000_000
MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_JSON_DEPTH = 100
MAX_INTEGER_BITS = 4_096
"""Longer integers cannot be read back from JSON (CPython refuses to parse more than 4,300 digits)."""

_Choice = TypeVar("_Choice", bound=str)


def identifier(value: object, field: str) -> str:
    """An id or label: 1 to 256 characters, not blank, no NUL, no lone surrogate; kept code point by code point."""
    text = _string(value, field)
    if not text.strip():
        raise ValidationError(field, "must not be blank")
    if len(text) > MAX_ID_CHARACTERS:
        raise ValidationError(field, f"must have at most {MAX_ID_CHARACTERS} characters, has {len(text)}")
    return text


def text(value: object, field: str) -> str:
    """A text of at most 1,000,000 characters without NUL and lone surrogates; may be empty."""
    checked = _string(value, field)
    if len(checked) > MAX_TEXT_CHARACTERS:
        raise ValidationError(field, f"must have at most {MAX_TEXT_CHARACTERS:,} characters, has {len(checked):,}")
    return checked


def filled_text(value: object, field: str) -> str:
    """Like `text`, and not blank."""
    checked = text(value, field)
    if not checked.strip():
        raise ValidationError(field, "must not be blank")
    return checked


def _string(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise ValidationError(field, f"must be a string, not {type(value).__name__}")
    if "\x00" in value:
        raise ValidationError(field, "must not contain the NUL character")
    _refuse_surrogates(value, field)
    return str(value)


def _refuse_surrogates(value: str, field: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError(field, "contains a lone surrogate, which no store can hold as UTF-8") from None


def whole_number(value: object, field: str, least: int = 0) -> int:
    """An int of at least ``least``; bools are refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(field, f"must be an integer, not {type(value).__name__}")
    if value < least:
        raise ValidationError(field, f"must be at least {least}, is {value}")
    return value


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
        raise ValidationError(field, f"must be between 0.0 and 1.0, is {value}")
    return float(value)


def cosine(value: object, field: str) -> float:
    """A finite number in [-1, 1]; bools are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise ValidationError(field, f"must be a cosine between -1.0 and 1.0, is {value!r:.80}")
    return float(value)


def flag(value: object, field: str) -> bool:
    """A bool and nothing else."""
    if not isinstance(value, bool):
        raise ValidationError(field, f"must be True or False, not {type(value).__name__}")
    return value


def timestamp(value: object, field: str = "timestamp") -> datetime:
    """An aware datetime, returned in UTC."""
    if not isinstance(value, datetime):
        raise ValidationError(field, f"must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValidationError(field, "must be an aware datetime: add tzinfo, for example datetime.now(timezone.utc)")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValidationError(field, "lies outside the years 1 to 9999 in UTC") from None


def _one_of(value: object, field: str, choices: tuple[_Choice, ...]) -> _Choice:
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    raise ValidationError(field, f"must be one of {', '.join(choices)}; is {value!r:.80}")


def sensitivity(value: object) -> Sensitivity:
    """One of the `Sensitivity` values."""
    return _one_of(value, "sensitivity", get_args(Sensitivity))


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
    converted = _json(value, field)
    assert isinstance(converted, dict)
    _refuse_large_json(converted, field)
    return converted


def tool_results(value: object, field: str = "tool_results") -> list[ToolResult]:
    """A list of `ToolResult`, each in JSON form, together at most 16 MiB of JSON; None counts as []."""
    if value is None:
        return []
    results = [_tool_result(item, f"{field}[{i}]") for i, item in enumerate(_list(value, field))]
    _refuse_large_json([result.__dict__ for result in results], field)
    return results


def _tool_result(value: object, field: str) -> ToolResult:
    if not isinstance(value, ToolResult):
        raise ValidationError(field, f"must be a ToolResult, not {type(value).__name__}")
    duration = value.duration_ms
    return ToolResult(
        tool_name=identifier(value.tool_name, f"{field}.tool_name"),
        params=dict(metadata(value.params, f"{field}.params")),
        result=_json(value.result, f"{field}.result"),
        success=flag(value.success, f"{field}.success"),
        duration_ms=None if duration is None else whole_number(duration, f"{field}.duration_ms"),
    )


def records(value: object, session_id: str) -> list[Turn]:
    """The records of a list of turns, each checked like the arguments of ``store_turn``.

    A joined turn, as reads return it, stands for its records. Every record must name ``session_id`` as its session.
    """
    checked: list[Turn] = []
    for i, turn in enumerate(_list(value, "turns")):
        field = f"turns[{i}]"
        if not isinstance(turn, Turn):
            raise ValidationError(field, f"must be a Turn, not {type(turn).__name__}")
        for part in turn.records or [turn]:
            if part.session_id != session_id:
                raise ValidationError(f"{field}.session_id", f"is {part.session_id!r}, the call says {session_id!r}")
            checked.append(
                record(
                    session_id,
                    part.user_message,
                    part.assistant_message,
                    part.tool_results,
                    part.metadata,
                    identifier(part.id, f"{field}.id"),
                    part.timestamp,
                    part.continues,
                    part.token_count,
                    prefix=f"{field}.",
                )
            )
    return checked


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


def entry(value: object) -> MemoryEntry:
    """A `MemoryEntry` that a store can hold: ids, content, time and importance as in the public calls."""
    if not isinstance(value, MemoryEntry):
        raise ValidationError("entry", f"must be a MemoryEntry, not {type(value).__name__}")
    identifier(value.agent_id, "agent_id")
    identifier(value.session_id, "session_id")
    identifier(value.id, "id")
    text(value.content, "content")
    timestamp(value.timestamp)
    importance(value.importance_score, "importance_score")
    return value


def _refuse_large_json(value: object, field: str) -> None:
    size = len(json.dumps(value, ensure_ascii=False, default=vars).encode())
    if size > MAX_JSON_BYTES:
        raise ValidationError(field, f"must be at most {MAX_JSON_BYTES:,} bytes of JSON, is {size:,}")


def _json(value: object, field: str, depth: int = 0) -> JsonValue:
    """``value`` in pydantic's JSON form: datetimes, UUIDs, Decimals, enums as strings, models and dataclasses as dicts.

    What JSON cannot say (bytes, NaN, functions, other objects) is refused, with the path to it.
    """
    if depth > MAX_JSON_DEPTH:
        raise ValidationError(field[:200], f"is nested more than {MAX_JSON_DEPTH} levels deep, or contains itself")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        _refuse_surrogates(value, field)
        return str(value)
    if isinstance(value, int | float):
        return _json_number(value, field)
    if isinstance(value, bytes | bytearray | memoryview):
        raise ValidationError(field, "holds bytes, which JSON cannot say; decode them or encode them as base64 text")
    return _json_container(value, field, depth)


def _json_number(value: float, field: str) -> int | float:
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise ValidationError(field, "holds an integer too long for JSON; store it as text")
        return int(value)
    if not math.isfinite(value):
        raise ValidationError(field, f"holds {value}, which JSON cannot say; use None or a string")
    return float(value)


def _json_container(value: object, field: str, depth: int) -> JsonValue:
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_json_key(key, field): _json(item, f"{field}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item, f"{field}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Set):
        return [_json(item, f"{field}[{i}]", depth + 1) for i, item in enumerate(sorted(value, key=repr))]
    return _json_scalar(value, field)


def _json_key(key: object, field: str) -> str:
    if isinstance(key, str):
        _refuse_surrogates(key, f"{field} (a key)")
        return str(key)
    converted = _json(key, f"{field} (a key)", MAX_JSON_DEPTH)
    if isinstance(converted, list | dict):
        raise ValidationError(field, "has a key that is no string; JSON keys are strings")
    return converted if isinstance(converted, str) else json.dumps(converted)


def _json_scalar(value: object, field: str) -> JsonValue:
    try:
        converted = to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, TypeError, OverflowError):
        raise ValidationError(
            field, f"holds a {type(value).__name__}, which has no JSON form; store a dict or a string"
        ) from None
    if isinstance(converted, str | int | float | bool):
        return _json(converted, field)
    raise ValidationError(field, f"holds a {type(value).__name__}, which has no JSON form; store a dict or a string")
