"""What the adapters accept, checked before anything is read or written. Pure."""

from __future__ import annotations

from typing import Annotated

from llama_index.core.base.llms.types import ChatMessage
from pydantic import BeforeValidator

from actrone_llamaindex._messages import storable, text_of
from actrone_memory import TokenBudgetError, ValidationError

LONGEST_ID = 256


def identifier(value: object, field: str) -> str:
    """An id that the engine takes: 1 to 256 characters, not blank, no NUL, no lone surrogate."""
    if not isinstance(value, str):
        raise ValidationError(field, f"must be a string, not {type(value).__name__}")
    if not value.strip():
        raise ValidationError(field, "must not be blank")
    if len(value) > LONGEST_ID:
        raise ValidationError(field, f"must have at most {LONGEST_ID} characters, has {len(value)}")
    if storable(value) != value:
        raise ValidationError(field, "must not contain the NUL character or a lone surrogate")
    return value


AgentId = Annotated[str, BeforeValidator(lambda value: identifier(value, "agent_id"))]
SessionId = Annotated[str, BeforeValidator(lambda value: identifier(value, "session_id"))]
"""Fields that hold ids."""


def whole_number(value: object, field: str) -> int:
    """An int; bools are refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(field, f"must be an integer, not {type(value).__name__}")
    return value


def token_budget(value: object, default: int) -> int:
    """A budget in tokens, at least 1; ``default`` for None."""
    budget = default if value is None else whole_number(value, "token_budget")
    if budget < 1:
        raise TokenBudgetError("token_budget must be at least 1", {"token_budget": budget})
    return budget


def query(value: object) -> str:
    """The words of a query given as text or as a message; "" for None."""
    if value is None:
        return ""
    if isinstance(value, ChatMessage):
        return text_of(value)
    if not isinstance(value, str):
        raise ValidationError("input", f"must be a string or a ChatMessage, not {type(value).__name__}")
    return storable(value)
