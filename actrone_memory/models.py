"""What is remembered: turns of a conversation and memories. Plain data that knows nothing of stores or ranking."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, JsonValue

ContentType = Literal["turn", "summary", "tool_result", "injected", "fact"]
Sensitivity = Literal["none", "low", "pii", "sensitive"]
MaskedSensitivity = Literal["low", "pii", "sensitive"]
"""What redaction can mask; of "none" there is nothing to hide."""


def _new_id() -> str:
    return str(uuid4())


def utc_now() -> datetime:
    """The current time as an aware datetime in UTC."""
    return datetime.now(UTC)


class Record(BaseModel):
    """Data with checked fields; the checks are built with the first object, which keeps the import fast."""

    model_config = ConfigDict(defer_build=True)


class ToolResult(Record):
    """One tool call of a turn with what it returned.

    ``params`` and ``result`` come back from every store as JSON values. ``duration_ms`` is in milliseconds.
    """

    tool_name: str
    params: dict[str, object]
    result: object
    success: bool
    duration_ms: int | None = None


class Turn(Record):
    """A user message with all that answers it; on the way in, one record of such a turn.

    A record with ``continues=True`` belongs to the turn before it. What reads return are whole turns: joined from
    their ``records`` (in order), with the first record's ``id``, ``timestamp`` and ``sequence`` and the texts joined
    by a blank line. A turn of several records leaves ``metadata`` on its records.

    ``token_count`` is the rendered size in tokens. ``sequence`` is given by the store and orders the records of a
    session; None until stored. ``timestamp`` says when it was said and orders nothing.
    """

    id: str = Field(default_factory=_new_id)
    session_id: str
    user_message: str
    assistant_message: str
    tool_results: list[ToolResult] = Field(default_factory=list)
    timestamp: datetime = Field(default_factory=utc_now)
    token_count: int = 0
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    continues: bool = False
    sequence: int | None = None
    records: list[Turn] = Field(default_factory=list, repr=False)


class MemoryEntry(Record):
    """One long-term memory of one agent.

    ``importance_score`` is in [0, 1]. ``score`` (best match of a query near 1.0) is set on what a search returns, with
    ``score_parts``: points for ``words`` and ``meaning``, the shares that ``importance`` and ``recency`` added to them
    (the score is their product over that of the best), and ``newer``, what the score gained or lost when a newer memory
    took an older one's place. Without hybrid retrieval the parts add up to the score. Neither is stored; ``embedding``
    is None on reads. ``superseded_by`` is the id of the memory that replaced this one. ``sequence`` is the place of a
    ``content_type="turn"`` entry in its session, and for a summary the place of the last turn it covers.
    """

    id: str = Field(default_factory=_new_id)
    agent_id: str
    session_id: str
    content: str
    content_type: ContentType
    embedding: list[float] | None = None
    importance_score: float = 0.5
    topic_tags: list[str] = Field(default_factory=list)
    token_count: int = 0
    timestamp: datetime = Field(default_factory=utc_now)
    source_turn_ids: list[str] = Field(default_factory=list)
    source: str = "unknown"
    sensitivity: Sensitivity = "none"
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    score: float | None = None
    score_parts: dict[str, float] | None = None
    superseded_by: str | None = None
    sequence: int | None = None


class SessionMetadata(Record):
    """Size and age of one session. ``turn_count`` counts whole turns still held by the hot tier."""

    agent_id: str
    session_id: str
    turn_count: int
    created_at: datetime | None = None
    last_active: datetime | None = None
