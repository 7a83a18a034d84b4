"""What holds for stores of both tiers: which of them lacks what, and errors that name the store."""

from __future__ import annotations

from contextlib import AbstractContextManager

from actrone_memory.errors import ConfigurationError, StoreConnectionError, failing_as
from actrone_memory.protocols import AgentListing


def named_errors(store: object) -> AbstractContextManager[None]:
    """Whatever a foreign store raises in here leaves as a `StoreConnectionError` that names the store."""
    return failing_as(lambda error: StoreConnectionError(type(store).__name__, error))


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
