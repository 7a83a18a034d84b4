"""What the constructors accept: every check names the argument, and none of them waits."""

from __future__ import annotations

from typing import TypeVar

from actrone_memory import MemoryManager, SyncMemoryManager, TokenBudgetError, ValidationError

MAX_ID_CHARACTERS = 256

_Memory = TypeVar("_Memory")


def is_identifier(value: object) -> bool:
    """Whether the engine takes ``value`` as an id: 1 to 256 characters, not blank, no NUL, no lone surrogate."""
    return (
        isinstance(value, str)
        and bool(value.strip())
        and len(value) <= MAX_ID_CHARACTERS
        and "\x00" not in value
        and value.isascii() | (value == value.encode("utf-8", "replace").decode("utf-8"))
    )


def identifier(value: object, field: str) -> str:
    """``value`` when it is an id."""
    if not isinstance(value, str):
        raise ValidationError(field, f"must be a string, not {type(value).__name__}")
    if not is_identifier(value):
        raise ValidationError(
            field, f"must have 1 to {MAX_ID_CHARACTERS} characters, not be blank, and hold no NUL and no lone surrogate"
        )
    return value


def positive_integer(value: object, field: str) -> int:
    """``value`` when it is an int of at least 1; bools are refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(field, f"must be an integer, not {type(value).__name__}")
    if value < 1:
        raise ValidationError(field, f"must be at least 1, is {value}")
    return value


def token_budget(value: object) -> int:
    """``value`` when it is a budget in tokens; below 1 it is a `TokenBudgetError`."""
    if isinstance(value, int) and not isinstance(value, bool) and value < 1:
        raise TokenBudgetError("token_budget must be at least 1", {"token_budget": value})
    return positive_integer(value, "token_budget")


def manager(value: _Memory) -> _Memory:
    """``value`` when it is a manager, async or sync."""
    if not isinstance(value, MemoryManager | SyncMemoryManager):
        raise ValidationError("memory", f"must be a MemoryManager or SyncMemoryManager, not {type(value).__name__}")
    return value


def plain(value: MemoryManager | SyncMemoryManager) -> SyncMemoryManager:
    """The plain calls of a manager, async or sync; all of one manager's share a thread."""
    given = manager(value)
    return given if isinstance(given, SyncMemoryManager) else SyncMemoryManager(given)
