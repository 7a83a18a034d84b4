"""Recall of conversation evidence (LoCoMo): is what answers a question, word for word, in the context?

Conversations are stored turn by turn and asked from a session of their own, so that everything has to be recalled.
Questions of category 5 have no evidence and are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from actrone_memory import MemoryManager, RetrievedContext
from benchmarks import engine
from benchmarks.figures import Figure

TOKEN_BUDGETS = (4_096, 1_024)
UNANSWERABLE = 5
_EVIDENCE = re.compile(r"D\d+:\d+")


class Session(NamedTuple):
    """One session of a conversation and the time at which it took place; None where the file does not say."""

    name: str
    time: datetime | None
    utterances: list[dict[str, Any]]


async def measure(path: Path) -> list[Figure]:
    """Mean share of a question's evidence that is recalled, over all conversations of the file."""
    shares: dict[int, list[float]] = {budget: [] for budget in TOKEN_BUDGETS}
    for sample in _samples(path):
        sessions = list(_sessions(sample["conversation"]))
        async with engine.open_manager() as memory:
            await _tell(memory, sessions)
            for question, evidence in _questions(sample["qa"], _texts(sessions)):
                for budget in TOKEN_BUDGETS:
                    shares[budget].append(await _recalled_share(memory, question, evidence, budget))
    return [
        Figure(f"evidence recall, {budget:,} tokens ({len(values)} questions)", mean(values), "")
        for budget, values in shares.items()
        if values
    ]


def _samples(path: Path) -> list[dict[str, Any]]:
    samples: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return samples


def _sessions(conversation: dict[str, Any]) -> Iterator[Session]:
    number = 1
    while f"session_{number}_date_time" in conversation or f"session_{number}" in conversation:
        time = _parse_time(conversation.get(f"session_{number}_date_time", ""))
        yield Session(f"session-{number}", time, conversation.get(f"session_{number}") or [])
        number += 1


def _parse_time(text: str) -> datetime | None:
    """The time of a text like ``1:56 pm on 8 May, 2023``."""
    try:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _texts(sessions: list[Session]) -> dict[str, str]:
    return {each["dia_id"]: _one_line(each["text"]) for session in sessions for each in session.utterances}


async def _tell(memory: MemoryManager, sessions: list[Session]) -> None:
    """Store every two utterances of a session as one turn."""
    for name, time, utterances in sessions:
        said = [f"{each['speaker']}: {_one_line(each['text'])}" for each in utterances]
        answers = [*said[1::2], ""]
        for message, answer in zip(said[::2], answers, strict=False):
            await memory.store_turn(engine.AGENT, name, message, answer, timestamp=time)
    await memory.drain()


def _questions(entries: list[dict[str, Any]], texts: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Questions with the texts of their evidence."""
    for entry in entries:
        references = _EVIDENCE.findall(" ".join(entry.get("evidence", [])))
        evidence = [texts[reference] for reference in references if reference in texts]
        if evidence and entry["category"] != UNANSWERABLE:
            yield entry["question"], evidence


async def _recalled_share(memory: MemoryManager, question: str, evidence: list[str], budget: int) -> float:
    context = await memory.retrieve_context(engine.AGENT, engine.SESSION, question, budget)
    text = _text(context)
    return mean(each in text for each in evidence)


def _text(context: RetrievedContext) -> str:
    turns = [f"{turn.user_message} {turn.assistant_message}" for turn in context.recent_turns]
    entries = [entry.content for entry in [*context.episodic_memories, *context.recalled_turns]]
    return _one_line(" ".join(turns + entries))


def _one_line(text: str) -> str:
    return " ".join(text.split())
