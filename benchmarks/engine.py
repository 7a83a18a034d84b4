"""The engine that is measured, made as a user makes it: in process, with the hashing embedder, filled by injecting."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

from actrone_memory import MemoryConfig, MemoryManager, create_memory_manager

AGENT = "benchmark"
SESSION = "questions"
TOKEN_BUDGET = 4_096


def open_manager() -> AbstractAsyncContextManager[MemoryManager]:
    """A manager with an empty store, closed at the end of its ``async with`` block."""
    return create_memory_manager(MemoryConfig(embedding_provider="hashing"))


async def inject(memory: MemoryManager, texts: Iterable[str]) -> None:
    """Store each text as one memory of `AGENT`."""
    for text in texts:
        await memory.inject_memory(AGENT, text)


async def ask(memory: MemoryManager, query: str) -> None:
    """One retrieval, as before a model call."""
    await memory.retrieve_context(AGENT, SESSION, query, TOKEN_BUDGET)
