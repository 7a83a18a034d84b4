"""A message as JSON and back, equal: every field as it stands, no validator run a second time. Pure."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping, Set
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

    What has no JSON form becomes its repr, marked, with one warning; tuples and sets become lists, times texts.
    """
    lost: list[str] = []
    dumped = _model(message, 0, lost)
    if lost:
        logger.warning("A message holds what JSON cannot; kept as text: %s", ", ".join(sorted(set(lost))))
    return dumped


def load(dumped: Mapping[str, JsonValue]) -> ChatMessage:
    """The message that `dump` was given. A class that this process does not know becomes the nearest one."""
    message = _value(dict(dumped))
    if isinstance(message, ChatMessage):
        return message
    fields = {name: _value(part) for name, part in _fields(dumped).items()}
    return _rebuilt(ChatMessage, {name: fields[name] for name in ChatMessage.model_fields if name in fields})


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
    # What is marked as a dict, or as a model, is one: its own keys are no marks.
    return {key: plain(item) for key, item in content.items()} if isinstance(content, dict) else plain(content)


def is_dump(value: object) -> TypeGuard[dict[str, JsonValue]]:
    """Whether ``value`` is what `dump` gives."""
    return isinstance(value, dict) and value.get(KIND) == "model" and isinstance(value.get("value"), dict)


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
    if isinstance(value, list | tuple | Set):
        return [_json(item, depth + 1, lost) for item in value]
    return _other(value, lost)


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
    fields = {**vars(value), **(value.__pydantic_extra__ or {})}
    dumped = {name: _json(part, depth + 3, lost) for name, part in fields.items()}
    return {KIND: "model", "class": f"{kind.__module__}:{kind.__qualname__}", "value": dumped}


def _mapping(value: Mapping[Any, object], depth: int, lost: list[str]) -> JsonValue:
    dumped = {_key(key): _json(item, depth + 1, lost) for key, item in value.items()}
    return _marked("dict", dumped) if KIND in dumped else dumped


def _key(key: object) -> str:
    text = key if isinstance(key, str) else str(key)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _other(value: object, lost: list[str]) -> JsonValue:
    if isinstance(value, bytes | bytearray | memoryview):
        return _marked("bytes", bytes(value).decode("latin-1"))
    if isinstance(value, AnyUrl):
        return _marked("url", str(value))
    if isinstance(value, PurePath):
        return _marked("path", str(value))
    if isinstance(value, IOBase):
        return _stream(value, lost)
    try:
        converted = to_jsonable_python(value)
    except Exception:  # serialisers are code of the caller's
        return _repr(value, lost)
    return converted if isinstance(converted, str | int | bool) else _repr(value, lost)


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


def _known_model(dumped: dict[str, Any]) -> Any:
    """The model; a content block of a class this process does not know becomes text, anything else a dict."""
    fields = {name: _value(part) for name, part in dumped["value"].items()}
    kind = _loaded_class(dumped["class"])
    if kind is not None:
        return _rebuilt(kind, fields)
    if "block_type" not in fields:
        return fields
    text = fields.get("text")
    return TextBlock(text=text if isinstance(text, str) else f"[{fields['block_type']}] {plain(dumped)}")


def _fields(dumped: Mapping[str, JsonValue]) -> dict[str, Any]:
    value = dumped.get("value")
    return value if isinstance(value, dict) else {}


def _loaded_class(path: str) -> type[BaseModel] | None:
    """The model class of that name, if its module has been imported; nothing is imported for a stored name."""
    module, _, names = path.partition(":")
    found: Any = sys.modules.get(module)
    for name in names.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _rebuilt(kind: type[Model], fields: dict[str, Any]) -> Model:
    # Validators have run when the message was made; run again they would guess anew, or look for a file that is gone.
    return kind.model_construct(**fields)
