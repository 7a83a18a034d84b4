"""What `retrieve_context` returns: turns and memories that fit a budget, and how they become text."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from actrone_memory import _panel, _render
from actrone_memory.models import MemoryEntry, Record, Turn

Tier = Literal["memories", "session"]


class TierUsage(Record):
    """Tokens of one tier of the budget: what its rendered text costs, and what it may cost."""

    used: int = 0
    allowed: int = 0


class Dropped(Record):
    """How many candidates the budget left out."""

    turns: int = 0
    recalled_turns: int = 0
    memories: int = 0


class RetrievedContext(Record):
    """What matters for the next model call, within the budget.

    ``recent_turns`` are this session's, oldest first. ``episodic_memories`` (facts, summaries, injected) and
    ``recalled_turns`` (archived turns of any session, none that is in ``recent_turns``) are best first.
    ``total_tokens_used`` is the cost of ``render()`` in tokens. ``degraded`` says why long-term memory is missing, when
    it could not be reached and ``MemoryConfig.degrade`` let the turns come back alone; None otherwise.
    """

    recent_turns: list[Turn]
    episodic_memories: list[MemoryEntry]
    total_tokens_used: int
    token_budget: int
    retrieval_duration_ms: float
    recalled_turns: list[MemoryEntry] = Field(default_factory=list)
    dropped: Dropped = Field(default_factory=Dropped)
    tiers: dict[Tier, TierUsage] = Field(default_factory=dict)
    degraded: str | None = None

    @property
    def budget_utilisation(self) -> float:
        """``total_tokens_used / token_budget``, in [0, 1]."""
        return self.total_tokens_used / self.token_budget if self.token_budget > 0 else 0.0

    def render(self, turns: bool = True) -> str:
        """The context as text for a prompt: each kind in a labelled, fenced section; "" when it is empty.

        With ``turns=False`` this session's turns are left out, for callers that pass them as messages. A fence
        inside a text is escaped. The same context always gives the same text.
        """
        return _render.render(self.episodic_memories, self.recalled_turns, self.recent_turns if turns else [])

    def __repr__(self) -> str:
        return (
            f"RetrievedContext({len(self.recent_turns)} recent turns, {len(self.episodic_memories)} memories, "
            f"{len(self.recalled_turns)} recalled turns, {self.total_tokens_used}/{self.token_budget} tokens)"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """A readable panel for notebooks."""
        bars = [_panel.Bar(name, tier.used, tier.allowed) for name, tier in self.tiers.items()]
        caption = f"{self.total_tokens_used} of {self.token_budget} tokens"
        return _panel.panel(caption, bars, self.episodic_memories, self.recalled_turns, self.recent_turns)
