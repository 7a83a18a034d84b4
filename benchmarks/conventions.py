"""Recall of repository conventions: for each task, are its rules in the context, and what is there without reason?

The file holds scopes (repositories) of conventions and tasks. A task names its relevant conventions with a grade, 2
for those that must be recalled; a task of kind ``none`` has no relevant convention.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from actrone_memory import MemoryManager
from benchmarks import engine
from benchmarks.figures import Figure

TOKEN_BUDGET = 800
MUST = 2
"""The grade of a convention that must be recalled."""


async def measure(path: Path) -> list[Figure]:
    """Share of the must-recall conventions by kind of task, and wrong recalls per task that needs none."""
    recalls: dict[str, list[float]] = defaultdict(list)
    wrong: list[int] = []
    async with engine.open_manager() as memory:
        for scope in _scopes(path):
            ids = await _learn(memory, scope)
            for task in scope["tasks"]:
                recalled = await _recall(memory, scope["scope"], task, ids)
                must = {name for name, grade in task["relevant"].items() if grade == MUST}
                if must:
                    recalls[task["kind"]].append(len(must & recalled) / len(must))
                elif not task["relevant"]:
                    wrong.append(len(recalled))
    return _figures(recalls, wrong)


def _scopes(path: Path) -> list[dict[str, Any]]:
    scopes: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["scopes"]
    return scopes


async def _learn(memory: MemoryManager, scope: dict[str, Any]) -> dict[str, str]:
    """Store the scope's conventions; the convention of each memory id."""
    return {
        await memory.inject_memory(
            scope["scope"], rule["text"], 0.9, "conventions", topic_tags=rule["tags"], source="user"
        ): rule["id"]
        for rule in scope["conventions"]
    }


async def _recall(memory: MemoryManager, agent: str, task: dict[str, Any], ids: dict[str, str]) -> set[str]:
    context = await memory.retrieve_context(agent, f"task-{task['id']}", task["text"], TOKEN_BUDGET)
    return {ids[entry.id] for entry in context.episodic_memories}


def _figures(recalls: dict[str, list[float]], wrong: list[int]) -> list[Figure]:
    by_kind = recalls | {"all": [share for shares in recalls.values() for share in shares]}
    figures = [
        Figure(f"must-recall share, {kind} tasks ({len(shares)})", mean(shares), "")
        for kind, shares in by_kind.items()
        if shares
    ]
    if wrong:
        figures.append(Figure(f"wrong recalls per task that needs none ({len(wrong)})", mean(wrong), ""))
    return figures
