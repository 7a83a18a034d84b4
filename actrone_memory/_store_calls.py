"""What a call of a store may say, checked alike by every store that searches in this process. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from actrone_memory import _validation
from actrone_memory._ranking import Weights
from actrone_memory._shelf import Query, document_of, unit_vector
from actrone_memory._similarity import as_vector
from actrone_memory.errors import ConfigurationError, ValidationError
from actrone_memory.models import MemoryEntry, SessionMetadata
from actrone_memory.protocols import EmbedderIdentity, SessionCopy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


T = TypeVar("T")


def pieces(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """The items, in order, for calls that take at most so many."""
    return (items[start : start + most] for start in range(0, len(items), most))


def check_settings(max_turns: object, *weights: object) -> None:
    """Refuse a window below one turn, and weights outside [0, 1]."""
    if isinstance(max_turns, bool) or not isinstance(max_turns, int) or max_turns < 1:
        raise ConfigurationError(f"max_turns must be an integer of at least 1, is {_validation.shown(max_turns)}")
    for weight in weights:
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
            raise ConfigurationError(
                f"relevance_weight and recency_weight must be in [0, 1], got {_validation.shown(weight)}"
            )


def check_ids(agent_id: object, session_id: object = "-") -> None:
    """Refuse what is no id."""
    _validation.identifier(agent_id, "agent_id")
    _validation.identifier(session_id, "session_id")


def check_identity(identity: object) -> None:
    """Refuse what is no `EmbedderIdentity`."""
    if not isinstance(identity, EmbedderIdentity):
        raise ValidationError("identity", f"must be an EmbedderIdentity, not {type(identity).__name__}")


def checked_query(
    query_embedding: object,
    threshold: object,
    weights: Weights,
    *,
    background: object,
    newer_first: object,
    limit: object,
    consider: object,
    content_types: object,
    query_text: object,
    tags: object,
) -> Query:
    """The arguments of `PagedSearch.search_page` as one query, asked now."""
    vector = as_vector(query_embedding, "query_embedding")
    if not vector.size:
        raise ValidationError("query_embedding", "must hold at least one number")
    return Query(
        vector=unit_vector(vector),
        text=None if query_text is None else _validation.text(query_text, "query_text"),
        threshold=_validation.cosine(threshold, "threshold"),
        background=None if background is None else _validation.background(background, "background"),
        limit=_validation.positive_integer(limit, "limit"),
        consider=_validation.positive_integer(consider, "consider"),
        weights=weights,
        now=time.time(),
        content_types=_validation.content_types(content_types),
        tags=None if tags is None else _validation.tags(tags, "tags"),
        newer_first=_validation.flag(newer_first, "newer_first"),
    )


def check_dimensions(held: int | None, size: int, field: str) -> None:
    """Refuse a vector of other dimensions than the store holds."""
    if held not in (None, size):
        raise ValidationError(field, f"has {size} dimensions, the store holds {held}")


def dimensions_with(held: int | None, entries: Sequence[MemoryEntry]) -> int | None:
    """The dimensions of a store's vectors after ``entries``, which must agree, and belong to one agent."""
    for entry in entries:
        if entry.agent_id != entries[0].agent_id:
            raise ValidationError("entries", "must all belong to one agent")
        if entry.embedding is not None:
            check_dimensions(held, len(entry.embedding), "embedding")
            held = len(entry.embedding)
    return held


def checked_copy(copy: object) -> SessionCopy:
    """A session that a store can take in: records without gaps up to its next number, marks before that."""
    if not isinstance(copy, SessionCopy):
        raise ValidationError("copy", f"must be a SessionCopy, not {type(copy).__name__}")
    checked = copy.model_copy()
    _validation.identifier(copy.session_id, "copy.session_id")
    _validation.whole_number(copy.next_sequence, "copy.next_sequence")
    for mark in (copy.archived, copy.erased):
        if _validation.whole_number(mark, "copy.archived", least=-1) >= copy.next_sequence:
            raise ValidationError("copy.archived", "a mark lies behind the last record")
    for name in copy.given_up:
        _validation.identifier(name, "copy.given_up")
    try:
        records = _validation.records(copy.records, copy.session_id)
    except ValidationError as error:
        raise ValidationError("copy.records", str(error)) from None
    numbers = range(copy.next_sequence - len(records), copy.next_sequence)
    checked.records = [
        record.model_copy(update={"sequence": number}) for record, number in zip(records, numbers, strict=True)
    ]
    if [record.sequence for record in copy.records] != list(numbers):
        raise ValidationError("copy.records", f"must be numbered without gaps up to {copy.next_sequence - 1}")
    return checked


def new_vectors(
    identity: EmbedderIdentity, entries: Sequence[MemoryEntry]
) -> list[tuple[str, bytes, NDArray[np.float32]]]:
    """Id, document and unit vector of entries embedded anew."""
    checked = _validation.entries(entries)
    for entry in checked:
        check_dimensions(identity.dimensions, len(entry.embedding or []), "embedding")
    return [(entry.id, document_of(entry), unit_vector(entry.embedding or [])) for entry in checked]


def foreign_id(memory_id: str) -> ValidationError:
    """What is raised when another agent owns the id of an entry."""
    return ValidationError("id", f"{memory_id!r} is the id of another agent's memory; use a new id")


def unlike_vectors(stored: EmbedderIdentity, used: EmbedderIdentity) -> ConfigurationError:
    """What is raised instead of comparing vectors of two embedders."""
    return ConfigurationError(
        f"The store was filled with the embedder {stored.name!r} ({stored.dimensions} dimensions), this manager uses "
        f"{used.name!r} ({used.dimensions}): their vectors cannot be compared. Use the first one again, or embed all "
        "memories with this one: MemoryManager.reindex().",
        {"stored": stored._asdict(), "configured": used._asdict()},
    )


def by_activity(sessions: Sequence[SessionMetadata]) -> list[SessionMetadata]:
    """The most recently active first."""
    return sorted(sessions, key=lambda m: m.last_active.timestamp() if m.last_active else 0.0, reverse=True)
