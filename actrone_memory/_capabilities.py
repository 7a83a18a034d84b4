"""What holds for stores of both tiers: which of them lacks what, and errors that name the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from actrone_memory.errors import ActroneMemoryError, ConfigurationError, StoreConnectionError
from actrone_memory.protocols import AgentListing


@contextmanager
def named_errors(store: object) -> Iterator[None]:
    """Whatever a foreign store raises leaves here as a `StoreConnectionError` that names the store."""
    try:
        yield
    except ActroneMemoryError:
        raise
    except Exception as error:
        raise StoreConnectionError(type(store).__name__, error) from error


def missing(store: object, method: str) -> ConfigurationError:
    """What is raised when a store lacks a capability that nothing can stand in for."""
    return ConfigurationError(
        f"{type(store).__name__} has no method {method}(), which this call needs; "
        "actrone_memory.protocols describes it.",
        {"store": type(store).__name__, "missing": method},
    )


async def agents_of(store: object) -> list[str]:
    """Every agent of which the store holds something."""
    if not isinstance(store, AgentListing):
        raise missing(store, "list_agents")
    with named_errors(store):
        return await store.list_agents()
