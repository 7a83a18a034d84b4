"""A message as JSON and back, equal: every field as it stands, no validator run a second time. Pure."""

from __future__ import annotations

import logging
import math
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from io import IOBase
from pathlib import Path, PurePath
from typing import Any, TypeGuard, TypeVar, cast

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock
from pydantic import AnyUrl, BaseModel, JsonValue
from pydantic_core import to_jsonable_python

logger = logging.getLogger("actrone_llamaindex")

KIND = "$kind"
"""Marks a JSON object that stands for something JSON has no word for."""

DEEPEST = 80
"""Levels of JSON below which a value is kept as its repr: the engine takes 100."""

LARGEST_INTEGER_BITS = 4_096
"""Longer integers are kept as their repr: JSON parsers refuse them."""

NO_JSON = "[cannot be stored as JSON] "
"""Begins the text that stands for what JSON cannot hold."""

Model = TypeVar("Model", bound=BaseModel)


def dump(message: ChatMessage) -> dict[str, JsonValue]:
    """``message`` as JSON, enough for `load` to rebuild it equal.

    What has no JSON form becomes its repr, marked, with one warning; tuples and sets become lists, dataclasses dicts,
    times texts.
    """
    lost: list[str] = []
    dumped = _model(message, 0, lost)
    if lost:
        logger.warning("A message holds what JSON cannot; kept as text: %s", ", ".join(sorted(set(lost))))
    return dumped


def load(dumped: object) -> ChatMessage | None:
    """The message that `dump` was given, None for what it did not give. An unknown class becomes the nearest one."""
    if not _is_dump(dumped):
        return None
    try:
        message = _value(dumped)
        if not isinstance(message, ChatMessage):
            parts = {name: _value(part) for name, part in dumped["value"].items()}
            message = _rebuilt(ChatMessage, {name: parts[name] for name in ChatMessage.model_fields if name in parts})
    except Exception:  # another writer's data, or a class that is made differently today
        return None
    return message if _is_whole(message) else None


def dump_value(value: object) -> JsonValue:
    """Any value as `dump` keeps it in a message, without a warning."""
    return _json(value, 0, [])


def plain(value: Any) -> Any:
    """What `dump` gave without its marks: models and dicts of the same content are alike."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    content = value["value"] if KIND in value else value
    if value.get(KIND) == "items":
        content = {str(plain(key)): item for key, item in content}
    # What is marked as a dict, or as a model, is one: its own keys are no marks.
    return {key: plain(item) for key, item in content.items()} if isinstance(content, dict) else plain(content)


def _is_dump(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and value.get(KIND) == "model" and isinstance(value.get("value"), dict)


def _is_whole(message: ChatMessage) -> bool:
    return (
        isinstance(message.role, MessageRole)
        and isinstance(message.blocks, list)
        and all(isinstance(block, BaseModel) for block in message.blocks)
        and isinstance(message.additional_kwargs, dict)
    )


# --- to JSON ----------------------------------------------------------------------------------------------------------


def _json(value: object, depth: int, lost: list[str]) -> JsonValue:
    if isinstance(value, MessageRole):
        return _marked("role", value.value)
    if value is None or isinstance(value, bool | str | int | float):
        return _scalar(value, lost)
    if depth > DEEPEST:
        return _repr(value, lost)
    if isinstance(value, BaseModel):
        return _model(value, depth, lost)
    if isinstance(value, Mapping):
        return _mapping(value, depth, lost)
    if isinstance(value, list | tuple | Set | deque):
        return [_json(item, depth + 1, lost) for item in value]
    return _other(value, depth, lost)


def _scalar(value: object, lost: list[str]) -> JsonValue:
    if isinstance(value, str):
        return _text(str.__str__(value))
    if isinstance(value, float) and not math.isfinite(value):
        return _marked("float", repr(value))
    if isinstance(value, int) and value.bit_length() > LARGEST_INTEGER_BITS:
        return _repr(value, lost)
    return cast("JsonValue", value)


def _text(value: str) -> JsonValue:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return _marked("text", value.encode("utf-8", "surrogatepass").decode("latin-1"))
    return value


def _model(value: BaseModel, depth: int, lost: list[str]) -> dict[str, JsonValue]:
    kind = type(value)
    parts = {**vars(value), **(value.__pydantic_extra__ or {})}
    dumped = {name: _json(part, depth + 3, lost) for name, part in parts.items()}
    return {KIND: "model", "class": f"{kind.__module__}:{kind.__qualname__}", "value": dumped}


def _mapping(value: Mapping[Any, object], depth: int, lost: list[str]) -> JsonValue:
    if not all(isinstance(key, str) and _text(key) == key for key in value):
        items = [[_json(key, depth + 3, lost), _json(item, depth + 3, lost)] for key, item in value.items()]
        return _marked("items", cast("JsonValue", items))
    dumped = {str.__str__(key): _json(item, depth + 1, lost) for key, item in value.items()}
    return _marked("dict", dumped) if KIND in dumped else dumped


def _other(value: object, depth: int, lost: list[str]) -> JsonValue:
    if isinstance(value, bytes | bytearray | memoryview):
        return _marked("bytes", bytes(value).decode("latin-1"))
    if isinstance(value, AnyUrl):
        return _marked("url", str(value))
    if isinstance(value, PurePath):
        return _marked("path", str(value))
    if isinstance(value, IOBase):
        return _stream(value, lost)
    if is_dataclass(value) and not isinstance(value, type):
        return _mapping({field.name: getattr(value, field.name, None) for field in fields(value)}, depth, lost)
    if isinstance(value, Iterator):
        return _repr(value, lost)  # looking into it would use it up
    try:
        return _json(to_jsonable_python(value), depth + 1, lost)
    except Exception:  # serialisers are code of the caller's
        return _repr(value, lost)


def _stream(value: Any, lost: list[str]) -> JsonValue:
    """What an open file holds, in the base64 form in which the framework keeps bytes."""
    try:
        position = value.tell()
        value.seek(0)
        content = value.read()
        value.seek(position)
        return _marked("bytes", (ImageBlock(image=content).image or b"").decode("latin-1"))  # type: ignore[union-attr]
    except Exception:  # closed, not seekable, or no file of bytes
        return _repr(value, lost)


def _repr(value: object, lost: list[str]) -> JsonValue:
    lost.append(type(value).__name__)
    try:
        shown = f"{value!r:.1000}"
    except Exception:  # a repr may raise anything, and a huge int's does
        shown = type(value).__name__
    return _text(NO_JSON + shown)


def _marked(kind: str, value: JsonValue) -> dict[str, JsonValue]:
    return {KIND: kind, "value": value}


# --- from JSON --------------------------------------------------------------------------------------------------------


def _value(dumped: Any) -> Any:
    if isinstance(dumped, list):
        return [_value(item) for item in dumped]
    if not isinstance(dumped, dict):
        return dumped
    if KIND in dumped:
        return _unmarked(dumped[KIND], dumped)
    return {key: _value(item) for key, item in dumped.items()}


def _unmarked(kind: Any, dumped: dict[str, Any]) -> Any:
    value = dumped["value"]
    match kind:
        case "model":
            return _known_model(dumped)
        case "dict":
            return {key: _value(item) for key, item in value.items()}
        case "items":
            return {_key(_value(key)): _value(item) for key, item in value}
        case "bytes":
            return value.encode("latin-1")
        case "text":
            return value.encode("latin-1").decode("utf-8", "surrogatepass")
        case "float":
            return float(value)
        case "path":
            return Path(value)
        case "url":
            return AnyUrl(value)
        case "role":
            return MessageRole(value) if value in {role.value for role in MessageRole} else MessageRole.USER
    return value


def _key(key: Any) -> Any:
    return tuple(map(_key, key)) if isinstance(key, list) else key


def _known_model(dumped: dict[str, Any]) -> Any:
    """The model; a content block of a class this process does not know becomes text, anything else a dict."""
    parts = {name: _value(part) for name, part in dumped["value"].items()}
    kind = _loaded_class(dumped["class"])
    if kind is not None:
        return _rebuilt(kind, parts)
    if "block_type" not in parts:
        return parts
    text = parts.get("text")
    return TextBlock(text=text if isinstance(text, str) else f"[{parts['block_type']}] {plain(dumped)}")


def _loaded_class(path: str) -> type[BaseModel] | None:
    """The model class of that name, if its module has been imported; nothing is imported for a stored name."""
    module, _, names = path.partition(":")
    found: Any = sys.modules.get(module)
    for name in names.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _rebuilt(kind: type[Model], parts: dict[str, Any]) -> Model:
    # Validators have run when the message was made; run again they would guess anew, or look for a file that is gone.
    return kind.model_construct(**parts)
