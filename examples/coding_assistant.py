"""A coding assistant that learns a repository's conventions once and recalls the ones a task needs.

The memory runs in this process and sends nothing anywhere: `python examples/coding_assistant.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from actrone_memory import MemoryManager, RetrievedContext, create_memory_manager

TOKEN_BUDGET = 800

CONVENTIONS = {
    "web": [
        ("Unit tests run with Vitest and sit next to the module they cover.", ["testing"]),
        ("Dates are formatted with date-fns, never by hand.", ["dates"]),
        ("Route handlers live in src/routes and only parse input and call a service.", ["layout"]),
        ("Commit messages follow Conventional Commits.", ["git"]),
        ("Every visible text goes through t() with an entry in locales/en.json.", ["i18n"]),
    ],
    "billing": [
        ("Tests run with pytest; each test gets a database of its own.", ["testing"]),
        ("Amounts are integers in cents; never use floats for money.", ["money"]),
    ],
}

TASKS = [
    ("web", "add a unit test for the cart module"),
    ("web", "format the invoice date in the header"),
    ("billing", "write tests for the refund service"),
    ("billing", "the receipt is off by a penny"),
]


@dataclass
class TaskContext:
    conventions: list[str]
    tokens_used: int


def scope_for(repo: str) -> str:
    """One scope for each repository: what is learnt for one is never recalled for another."""
    return f"repo:{repo}"


async def learn_convention(memory: MemoryManager, repo: str, convention: str, tags: list[str]) -> str:
    """Record a rule once, when a developer or a review states it."""
    return await memory.inject_memory(
        scope_for(repo), convention, importance=0.9, session_id="conventions", topic_tags=tags, source="user"
    )


async def context_for(memory: MemoryManager, repo: str, session_id: str, task: str) -> RetrievedContext:
    """Before a request: what matters for this task, within the budget."""
    return await memory.retrieve_context(scope_for(repo), session_id, task, TOKEN_BUDGET)


async def conventions_for(memory: MemoryManager, repo: str, session_id: str, task: str) -> TaskContext:
    """The rules alone, and what they cost."""
    context = await context_for(memory, repo, session_id, task)
    return TaskContext([m.content for m in context.episodic_memories], context.total_tokens_used)


async def record_exchange(memory: MemoryManager, repo: str, session_id: str, request: str, answer: str) -> None:
    """After a request: keep the exchange, so that this session goes on and later ones can recall it."""
    await memory.store_turn(scope_for(repo), session_id, request, answer)


async def main() -> None:
    async with create_memory_manager() as memory:
        for repo, conventions in CONVENTIONS.items():
            for convention, tags in conventions:
                await learn_convention(memory, repo, convention, tags)
        print(f"Learnt {sum(map(len, CONVENTIONS.values()))} conventions for {len(CONVENTIONS)} repositories.\n")

        for repo, task in TASKS:
            recalled = await conventions_for(memory, repo, "monday", task)
            print(f"[{repo}] {task}   ({recalled.tokens_used} of {TOKEN_BUDGET} tokens)")
            for convention in recalled.conventions:
                print(f"   - {convention}")
            await record_exchange(memory, repo, "monday", task, "Done.")

        print("\nA day later, in a new session, the prompt for 'which test did we add to the cart?':\n")
        context = await context_for(memory, "web", "tuesday", "which test did we add to the cart?")
        print(context.render())


if __name__ == "__main__":
    asyncio.run(main())
