"""The lines of an export: JSON without line ends of any kind, vectors exact."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from actrone_memory.models import MemoryEntry
from actrone_memory.protocols import SessionCopy

FORMAT = 1

LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""Characters that some readers take for the end of a line, as JSON may also write them."""


class ProblemError(Exception):
    """What is wrong with a line."""


def line_of(kind: str, **fields: object) -> str:
    """One line of this kind."""
    return json.dumps({"kind": kind, **fields}, ensure_ascii=False, separators=(",", ":")).translate(LINE_ENDS)


def session_lines(copy: SessionCopy) -> Iterator[str]:
    """A line about the session, and one for each of its records."""
    yield line_of("session", session=copy.model_dump(mode="json", exclude={"records"}))
    for record in copy.records:
        yield line_of("record", record=record.model_dump(mode="json", exclude={"records"}))


def entry_of(data: Mapping[str, Any]) -> MemoryEntry:
    """The memory of a line, with its vector."""
    entry = MemoryEntry.model_validate(data.get("entry"))
    entry.embedding = _unpacked(data.get("vector"))
    return entry


def packed(embedding: Sequence[float] | None) -> str | None:
    """A vector as base64 of 32-bit floats, little-endian: exact, and a third of its size in digits."""
    return None if embedding is None else base64.b64encode(np.asarray(embedding, "<f4").tobytes()).decode()


def _unpacked(text: object) -> list[float] | None:
    if text is None:
        return None
    try:
        vector: list[float] = np.frombuffer(base64.b64decode(str(text), validate=True), "<f4").tolist()
    except (ValueError, binascii.Error):
        raise ProblemError("its vector is no base64 of 32-bit floats") from None
    return vector
