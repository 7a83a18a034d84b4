"""Ids that follow from what they name, so that writing a thing twice writes it once. Pure."""

from __future__ import annotations

import json
import uuid

from actrone_memory._lexical import compose

_NAMESPACE = uuid.UUID("6f1d3c1e-8d0a-4b43-9a55-0f5f4f0f7c11")


def memory_id(agent_id: str, content: str) -> str:
    """One id for one text of one agent, whatever its case, width or spacing."""
    folded = " ".join(compose(content).casefold().split())
    return _derived("memory", agent_id, folded)


def archived_turn_id(agent_id: str, session_id: str, turn_id: str) -> str:
    """The id of a turn in long-term memory; it stays when the turn grows."""
    return _derived("turn", agent_id, session_id, turn_id)


def summary_id(agent_id: str, session_id: str, first_turn_id: str) -> str:
    """The id of the summary that begins with this turn: two that begin together cover the same turns twice."""
    return _derived("summary", agent_id, session_id, first_turn_id)


def moved_id(agent_id: str, foreign_id: str) -> str:
    """The id for ``agent_id`` of what another agent has under an id that follows from nothing."""
    return _derived("moved", agent_id, foreign_id)


def _derived(*parts: str) -> str:
    # JSON keeps the boundaries: ("a:b", "c") and ("a", "b:c") give different ids.
    return str(uuid.uuid5(_NAMESPACE, json.dumps(parts)))
