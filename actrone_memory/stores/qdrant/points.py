"""Memories as points of a Qdrant collection, and what is asked about them. Knows the client's models, and no client."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from actrone_memory._shelf import Prepared, prepare, read_entry
from actrone_memory._sparse_terms import stored_terms
from actrone_memory.models import MemoryEntry
from actrone_memory.protocols import EmbedderIdentity

LARGEST_REQUEST_BYTES = 16 * 1024 * 1024
"""Half of what a server accepts by default."""

MEANING = "meaning"
WORDS = "words"
"""The vectors of a point, the compared one as it is named at first."""


_NAMESPACE = uuid.UUID("0b6ac1b1-5d5a-4c0e-9d0f-3a4b2f2a7e52")
INDEXED = {
    "agent_id": "tenant",
    "shelf": "keyword",
    "id": "keyword",
    "session_id": "keyword",
    "content_type": "keyword",
    "topic_tags": "keyword",
    "sequence": "integer",
}
"""Fields of a payload that filters look at."""

SHELVES = {False: "memory", True: "turn"}
OLD = "superseded"
"""Where a point stands, by whether it is a turn; what was replaced stands apart and is not searched."""

EPOCH_STEP = 1_024
"""Nanoseconds, at least, from an epoch to the next: apart even where a server compares them as floats."""

STORE_POINT = str(uuid.uuid5(_NAMESPACE, "store"))
"""Where the names of vectors and embedders stand."""


class Mark(NamedTuple):
    """What tells whether a point is known already, and where it stands."""

    stamp: str
    length: float
    session_id: str
    sequence: int | None


class Kept(NamedTuple):
    """A point as it was fetched."""

    stamp: str
    written: int
    entry: Prepared


class AgentState(NamedTuple):
    """What the collection says of an agent: its erasure epoch, and the epoch of the last erasure of everything."""

    epoch: int
    erased: int


class Filling(NamedTuple):
    """The name of the vectors in use, and whose they are; the same of those that are being made."""

    vector: str
    embedder: EmbedderIdentity | None
    new_vector: str | None
    new_embedder: EmbedderIdentity | None


def point_of(prepared: Prepared, dimensions: int, *, epoch: int, written: int) -> dict[str, Any]:
    """A memory as a point; without an embedding its vector is zero, close to nothing."""
    entry = prepared.entry
    vector = prepared.vector if prepared.vector.size else np.zeros(dimensions, np.float32)
    stamp = hashlib.blake2b(prepared.document + vector.tobytes(), digest_size=9).hexdigest()
    payload = {
        "agent_id": entry.agent_id,
        "id": entry.id,
        "session_id": entry.session_id,
        "content_type": entry.content_type,
        "topic_tags": entry.topic_tags,
        "shelf": OLD if entry.superseded_by is not None else SHELVES[entry.content_type == "turn"],
        "sequence": entry.sequence,
        "length": sum(prepared.terms.values()),
        "epoch": epoch,
        "written": written,
        "stamp": stamp,
        "document": prepared.document.decode(),
    }
    point = entry_point(entry.agent_id, entry.id)
    return {"id": point, "payload": payload, "meaning": vector.tolist(), "words": stored_terms(prepared.terms)}


def kept_point(point: Any, vector: str) -> Kept:
    """The fetched point with its entry, analysed; one that lacks the vector will be fetched again next time."""
    payload = point.payload
    prepared, numbers = prepare(read_entry(payload["document"].encode())), (point.vector or {}).get(vector)
    if numbers is None:
        return Kept("", payload["written"], prepared)
    # The vector is at length 1 already, to the last bit.
    prepared = prepared._replace(vector=np.array(numbers, np.float32))
    return Kept(stamp_in(vector, payload), payload["written"], prepared)


def stamp_in(vector: str, payload: Mapping[str, Any]) -> str:
    """What tells the state of a point whose vectors of this name are in use."""
    return f"{vector} {payload['stamp']}"


def entry_of(point: Any, vector: str) -> MemoryEntry:
    """The fetched point's entry with the vector that is compared, None where there is none, or one of no direction."""
    entry = read_entry(point.payload["document"].encode())
    numbers = np.array((point.vector or {}).get(vector, []), np.float32)
    entry.embedding = numbers.tolist() if entry.superseded_by is None and numbers.any() else None
    return entry


def batches(points: Sequence[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """The points in requests that a server accepts; one that is too large by itself goes alone."""
    batch: list[dict[str, Any]] = []
    size = 0
    for point in points:
        # A number of a vector is some 20 bytes of JSON, a character of a text at most 6.
        own = 6 * len(point["payload"]["document"]) + 20 * len(point["meaning"]) + 40 * len(point["words"].indices)
        if batch and size + own > LARGEST_REQUEST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(point)
        size += own
    yield batch


def marks_of(points: Iterable[Any], vector: str, erased: int) -> dict[str, Mark]:
    """The points that no erasure has overtaken."""
    return {
        str(point.id): Mark(
            stamp_in(vector, point.payload),
            point.payload["length"],
            point.payload["session_id"],
            point.payload.get("sequence"),
        )
        for point in points
        if point.payload["epoch"] >= erased
    }


def agent_state(payload: Mapping[str, Any] | None) -> AgentState:
    """What the agent's own point says; zeros before its first erasure."""
    return AgentState(payload["epoch"], payload["erased"]) if payload else AgentState(0, 0)


def filling_of(payload: Mapping[str, Any] | None) -> Filling:
    """What the collection's own point says, or what holds while there is none."""
    told = payload or {}
    return Filling(
        told.get("vector", MEANING),
        _embedder(told.get("embedder"), told.get("dimensions")),
        told.get("new_vector"),
        _embedder(told.get("new_embedder"), told.get("new_dimensions")),
    )


def _embedder(name: str | None, dimensions: int | None) -> EmbedderIdentity | None:
    return EmbedderIdentity(name, dimensions) if name is not None and dimensions is not None else None


def entry_point(agent_id: str, memory_id: str) -> str:
    """Two agents' entries never share a point, whatever their ids."""
    return str(uuid.uuid5(_NAMESPACE, f"{len(agent_id)} {agent_id}{memory_id}"))


def agent_point(agent_id: str) -> str:
    """Where the epochs of an agent stand; its name is not in there."""
    return str(uuid.uuid5(_NAMESPACE, f"agent {agent_id}"))
