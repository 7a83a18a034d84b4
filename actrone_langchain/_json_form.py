"""Any value as JSON: exact where JSON can say it, otherwise marked, never refused. Pure."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Set
from typing import Any

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

MAX_DEPTH = 90
"""The engine stores 100 levels; a message's own frame takes some of them."""

MAX_BYTES = 11 * 1024 * 1024
"""The engine stores 16 MiB; a plain text of a million characters may stand beside the message."""

MAX_REPEATS = 50_000
"""How many containers within one that was seen may be seen again: there is no end to the ways through a dense graph."""

MAX_INTEGER_BITS = 4_096
MAX_REPR_CHARACTERS = 2_000
SHORTER = (1_000_000, 100_000, 10_000, 1_000, 100)
"""Characters to which long texts are cut, one after the other, until the whole fits."""


class JsonForm:
    """Converts the values of one message; ``changed`` tells what does not come back as it was."""

    def __init__(self, longest: int | None = None) -> None:
        self.changed: list[str] = []
        self._longest = longest
        self._around: dict[int, bool] = {}  # the containers around a value, and whether they were seen before
        self._seen: dict[int, object] = {}
        self._repeats = 0

    def convert(self, value: object, path: str = "", depth: int = 0) -> JsonValue:
        """``value`` in pydantic's JSON form; bytes of a content block as base64, what has no JSON form as a text."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, int | float):
            return self._number(value, path)
        again = id(value) in self._seen
        repeated = again and any(self._around.values())
        self._repeats += repeated
        if depth > MAX_DEPTH or id(value) in self._around or (repeated and self._repeats > MAX_REPEATS):
            return self._left_out(value, path)
        self._seen[id(value)] = value  # kept, so that no other value gets its id
        self._around[id(value)] = again
        converted = self._within(value, path, depth)
        del self._around[id(value)]
        return converted

    def _within(self, value: object, path: str, depth: int) -> JsonValue:
        if isinstance(value, Mapping):
            return self._mapping(value, path, depth)
        if isinstance(value, list | tuple):
            return [self.convert(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
        if isinstance(value, Set):
            return sorted((self.convert(item, path, depth + 1) for item in value), key=json.dumps)
        if isinstance(value, bytes | bytearray | memoryview) and path.startswith("content"):
            self.changed.append(path)
            return base64.b64encode(value).decode("ascii")
        return self._object(value, path, depth)

    def _text(self, value: str, path: str) -> str:
        text = str.__str__(value)
        if not text.isascii():
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        if self._longest is not None and len(text) > self._longest:
            text = f"{text[: self._longest]} [...cut...]"
        if text != value:
            self.changed.append(path)
        return text

    def _number(self, value: float, path: str) -> JsonValue:
        if isinstance(value, int):
            return int(value) if value.bit_length() <= MAX_INTEGER_BITS else self._marked(hex(value), path)
        return float(value) if math.isfinite(value) else self._marked(float(value), path)

    def _mapping(self, value: Mapping[Any, object], path: str, depth: int) -> JsonValue:
        converted: dict[str, JsonValue] = {}
        for key, item in value.items():
            name = self._key(key, path)
            while name in converted:
                self.changed.append(f"{path}.{name:.40}")
                name += "_"
            converted[name] = self.convert(item, f"{path}.{name:.40}" if path else name, depth + 1)
        return converted

    def _key(self, key: object, path: str) -> str:
        if isinstance(key, str):
            return self._text(key, path)
        simple = key is None or isinstance(key, bool | int | float)
        return json.dumps(key) if simple else str(self._object(key, path, MAX_DEPTH))

    def _object(self, value: object, path: str, depth: int) -> JsonValue:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            return self._mapping(fields, path, depth + 1)
        if isinstance(value, bytes | bytearray | memoryview | Iterator):
            return self._marked(value, path)
        try:
            plain = to_jsonable_python(value)
        except Exception:  # serialisers are code of the caller's
            plain = dict(value) if isinstance(value, BaseModel) else value
        known = plain is None or isinstance(plain, str | int | float | list | dict)
        return self.convert(plain, path, depth + 1) if known else self._marked(value, path)

    def _left_out(self, value: object, path: str) -> str:
        # Without its repr, which may go the same ways.
        self.changed.append(path)
        return f"<no JSON: {type(value).__name__}, nested without end>"

    def _marked(self, value: object, path: str) -> str:
        self.changed.append(path)
        try:
            shown = repr(value)
        except Exception:  # a repr may raise anything
            shown = type(value).__name__
        return self._text(f"<no JSON: {shown[:MAX_REPR_CHARACTERS]}>", path)


def json_form(value: object, *, path: str = "") -> tuple[JsonValue, list[str]]:
    """``value`` in at most `MAX_BYTES` of JSON, and the paths of what was changed for that."""
    for longest in (None, *SHORTER):
        form = JsonForm(longest)
        converted = form.convert(value, path)
        if _size(converted) <= MAX_BYTES:
            return converted, form.changed
    return f"<no JSON: {type(value).__name__}, too large>", [path]


def _size(converted: JsonValue) -> int:
    return len(json.dumps(converted, ensure_ascii=False).encode("utf-8"))
