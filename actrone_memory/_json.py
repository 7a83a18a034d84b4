"""Values of callers in JSON form: what every store can hold, and nothing that it cannot. Pure."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Set

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

from actrone_memory.errors import ValidationError

MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_JSON_DEPTH = 100
MAX_INTEGER_BITS = 4_096
"""Longer integers cannot be read back from JSON (CPython refuses to parse more than 4,300 digits)."""


class JsonForm:
    """Brings values of one argument into pydantic's JSON form, at most 16 MiB of it in all.

    Datetimes, UUIDs, Decimals and enums become texts, models and dataclasses dicts. What JSON cannot say (bytes, NaN,
    functions, other objects) is refused with the path to it.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._path: list[object] = []
        self._left = MAX_JSON_BYTES
        # Containers done, with what they cost: one that stands in many places is walked once and charged each time.
        self._done: dict[int, tuple[object, JsonValue, int]] = {}

    def convert(self, value: object) -> JsonValue:
        """``value`` as JSON can say it."""
        self._charge(2)
        if len(self._path) > MAX_JSON_DEPTH:
            raise self._error(f"is nested more than {MAX_JSON_DEPTH} levels deep, or contains itself")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, bytes | bytearray | memoryview):
            raise self._error("holds bytes, which JSON cannot say; decode them or encode them as base64 text")
        if id(value) in self._done:
            _, converted, size = self._done[id(value)]
            self._charge(size)
            return converted
        before = self._left
        converted = self._container(value)
        self._done[id(value)] = value, converted, before - self._left
        return converted

    def _text(self, value: str) -> str:
        try:
            self._charge(len(value.encode("utf-8")))
        except UnicodeEncodeError:
            raise self._error("contains a lone surrogate, which no store can hold as UTF-8") from None
        return str.__str__(value)

    def _number(self, value: float) -> int | float:
        if isinstance(value, int):
            if value.bit_length() > MAX_INTEGER_BITS:
                raise self._error("holds an integer too long for JSON; store it as text")
            return int(value)
        if not math.isfinite(value):
            raise self._error(f"holds {value}, which JSON cannot say; use None or a string")
        return float(value)

    def _container(self, value: object) -> JsonValue:
        if isinstance(value, BaseModel):
            return self._below("", self._jsonable(value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            return [self._below(i, item) for i, item in enumerate(value)]
        if isinstance(value, Set):
            return sorted((self._below(i, item) for i, item in enumerate(value)), key=json.dumps)
        converted = self._jsonable(value)
        if isinstance(converted, str | int | float | bool):
            return self.convert(converted)
        raise self._no_json_form(value)

    def _mapping(self, value: Mapping[object, object]) -> JsonValue:
        keys = {self._key(key): item for key, item in value.items()}
        if len(keys) < len(value):
            raise self._error("has two keys that are one key in JSON")
        return {key: self._below(key, item) for key, item in keys.items()}

    def _key(self, key: object) -> str:
        if isinstance(key, str):
            return self._text(key)
        if isinstance(key, Mapping | list | tuple | Set | BaseModel) or dataclasses.is_dataclass(key):
            raise self._error("has a key that is no string; JSON keys are strings")
        converted = self.convert(key)
        return converted if isinstance(converted, str) else json.dumps(converted)

    def _below(self, step: object, value: object) -> JsonValue:
        self._path.append(step)
        converted = self.convert(value)
        self._path.pop()
        return converted

    def _jsonable(self, value: object) -> object:
        try:
            return to_jsonable_python(value)
        except Exception:  # serialisers are code of the caller's
            raise self._no_json_form(value) from None

    def _charge(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self._error(f"must be at most {MAX_JSON_BYTES:,} bytes of JSON")

    def _no_json_form(self, value: object) -> ValidationError:
        return self._error(f"holds a {type(value).__name__}, which has no JSON form; store a dict or a string")

    def _error(self, problem: str) -> ValidationError:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step:.40}" for step in self._path[:8] if step != "")
        return ValidationError(self._field + "".join(steps), problem)
