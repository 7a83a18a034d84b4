"""The engine that is measured, made as a user makes it: in process, filled by injecting, with the chosen embedder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

from actrone_memory import Embedder, InMemoryStore, MemoryConfig, MemoryManager, create_memory_manager
from actrone_memory._factory import build_embedder

AGENT = "benchmark"
SESSION = "questions"
TOKEN_BUDGET = 4_096

PROVIDERS = ("local", "static", "hashing")
"""Embedders that need no key; "local" is the default of the package."""

_PROVIDER_VARIABLE = "ACTRONE_EMBEDDING_PROVIDER"


def choose(provider: str) -> None:
    """Measure with this embedder from now on, in the fresh processes that a section starts too."""
    os.environ[_PROVIDER_VARIABLE] = provider


def open_manager() -> AbstractAsyncContextManager[MemoryManager]:
    """A manager with an empty store, closed at the end of its ``async with`` block."""
    return create_memory_manager(MemoryConfig())


async def make_embedder() -> Embedder:
    """The embedder that `open_manager` gives to its manager; the factory alone knows what "local" picks."""
    return await build_embedder(MemoryConfig(), InMemoryStore())


async def inject(memory: MemoryManager, texts: Iterable[str]) -> None:
    """Store each text as one memory of `AGENT`."""
    for text in texts:
        await memory.inject_memory(AGENT, text)


async def ask(memory: MemoryManager, query: str) -> None:
    """One retrieval, as before a model call."""
    await memory.retrieve_context(AGENT, SESSION, query, TOKEN_BUDGET)
