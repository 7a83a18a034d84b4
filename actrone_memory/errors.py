"""Every error this package raises on purpose.

ActroneMemoryError                 carries ``code``, ``message`` and ``details``
├── ConfigurationError             the set-up is wrong: settings, missing extras, a closed manager
├── EmbeddingError                 an embedder failed or returned something that is no embedding
├── MemoryNotFoundError            no memory of that id belongs to that agent
├── StoreConnectionError           a store failed or cannot be reached
├── TokenBudgetError               a token budget below 1
└── ValidationError                an argument of a public call is not acceptable
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class ActroneMemoryError(Exception):
    """Root of the tree: catch this to catch all of ours.

    ``code`` is a stable machine-readable word, ``message`` says what to do, ``details`` locates the failure.
    """

    def __init__(self, message: str, *, code: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.details: dict[str, Any] = dict(details or {})

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take other arguments than Exception keeps in ``args``; without this they do not unpickle.
        return _restore, (type(self), self.args, self.__dict__)


def _portable(cause: BaseException) -> BaseException:
    """``cause``, or a plain stand-in of the same words when it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(cause))  # noqa: S301 - our own bytes of a moment ago
    except Exception:  # whatever a driver's exception does in its own pickling code
        return RuntimeError(told(cause))
    return cause


def _restore(kind: type[ActroneMemoryError], args: tuple[Any, ...], state: dict[str, Any]) -> ActroneMemoryError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


@contextmanager
def failing_as(ours: Callable[[Exception], ActroneMemoryError]) -> Iterator[None]:
    """Whatever somebody else's code raises in here leaves as what ``ours`` makes of it; errors of ours as they are."""
    try:
        yield
    except ActroneMemoryError:
        raise
    except Exception as error:
        raise ours(error) from error


def told(error: BaseException) -> str:
    """The class and the words of somebody else's error."""
    return f"{type(error).__name__}: {error}"


class ConfigurationError(ActroneMemoryError):
    """The set-up is wrong, not the moment: a setting, a missing extra, or a manager that was closed."""

    def __init__(self, message: str, details: dict[str, Any] | None = None, *, code: str = "configuration") -> None:
        super().__init__(message, code=code, details=details)


class EmbeddingError(ActroneMemoryError):
    """An embedder raised, or returned the wrong number, size or kind of vectors."""

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message, code="embedding", details=details)


class MemoryNotFoundError(ActroneMemoryError):
    """No memory with this id belongs to the agent that asked; another agent's memory counts as not found.

    ``field`` is where the id stood in a list of memories.
    """

    def __init__(self, memory_id: str, field: str | None = None) -> None:
        super().__init__(
            f"{f'{field}: ' if field else ''}No memory {memory_id!r} for this agent. Ids come from inject_memory(), "
            "search_memories() and list_memories().",
            code="memory_not_found",
            details={"memory_id": memory_id, **({"field": field} if field else {})},
        )
        self.memory_id = memory_id


class StoreConnectionError(ActroneMemoryError):
    """The named store failed. ``cause`` is the exception it raised; ``advice`` says what to do about it."""

    def __init__(
        self,
        store: str,
        cause: BaseException,
        details: dict[str, Any] | None = None,
        *,
        advice: str = "Check that it runs and can be reached; the cause is in `.cause`.",
    ) -> None:
        reason = str(cause).rstrip(".")
        super().__init__(
            f"The store {store} failed: {type(cause).__name__}{f': {reason}' if reason else ''}. {advice}",
            code="store_connection",
            details={"store": store, "cause": repr(cause), **(details or {})},
        )
        self.store = store
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, (kind, args, state) = super().__reduce__()
        return rebuild, (kind, args, {**state, "cause": _portable(self.cause)})


class TokenBudgetError(ActroneMemoryError):
    """``token_budget`` was zero or negative."""

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message, code="token_budget", details=details)


class ValidationError(ActroneMemoryError):
    """The argument named by ``field`` is not acceptable; nothing was written."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}", code="validation", details={"field": field})
        self.field = field
