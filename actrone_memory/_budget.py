"""What fits into a token budget, in which order, measured as rendered text. Pure.

Nothing here is estimated item by item: a section fits when the text it renders to costs no more than its share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from actrone_memory import _render
from actrone_memory._turns import CUT_MARK, cut_middle, turn_text
from actrone_memory.models import MemoryEntry, ToolResult, Turn
from actrone_memory.tokens import TokenCounter

SMALLEST_EXCERPT = 16
"""Characters of a text that must remain after cutting; a section with less room stays empty."""

ROUNDING = 2
"""Tokens by which two texts counted apart may cost more than together."""

LARGEST_BUDGET = 10**9
"""Budgets above this are treated as this: more than any model reads, and exact as a float."""

_Item = TypeVar("_Item")


class Shares(NamedTuple):
    """Tokens for memories and for turns of this session and earlier ones."""

    memories: int
    session: int


def shares(token_budget: int, episodic_fraction: float, session_fraction: float) -> Shares:
    """Divide the budget; both shares together never exceed ``floor((episodic + session) x token_budget)``."""
    budget = min(token_budget, LARGEST_BUDGET)
    total = math.floor((episodic_fraction + session_fraction) * budget)
    memories = min(math.floor(episodic_fraction * budget), total)
    return Shares(memories, min(math.floor(session_fraction * budget), total - memories))


class Cost(NamedTuple):
    """Tokens of the rendered text: of the memories, of the turns, and of both together."""

    memories: int
    session: int
    total: int


class Selection(NamedTuple):
    """What fits, what it costs, and how many candidates of each kind do not fit."""

    recent: list[Turn]
    recalled: list[MemoryEntry]
    memories: list[MemoryEntry]
    cost: Cost
    dropped_recent: int
    dropped_recalled: int
    dropped_memories: int


def select(
    recent: Sequence[Turn],
    memories: Sequence[MemoryEntry],
    turns: Sequence[MemoryEntry],
    share: Shares,
    count: TokenCounter,
) -> Selection:
    """Cut this session's turns (oldest first), memories and archived turns (best first) to the shares.

    Nothing is told twice: neither an archived turn that is among the recent ones, nor a summary of turns that are all
    there already.
    """
    kept_recent = fit_recent_turns(recent, share.session, count)
    here = {(turn.session_id, turn.id) for turn in kept_recent}
    earlier = [entry for entry in turns if not _told(entry, here)]
    left = share.session - count(_render.render([], [], kept_recent))
    kept_earlier = fit_recalled_turns(earlier, left, count)
    told = here | {(entry.session_id, turn_id) for entry in kept_earlier for turn_id in entry.source_turn_ids}
    news = [entry for entry in memories if entry.content_type != "summary" or not _told(entry, told)]
    kept_memories = fit_memories(news, share.memories, count)
    cost = _cost(kept_memories, kept_earlier, kept_recent, count)
    while cost.total > share.memories + share.session:
        # Only a counter for which the whole costs more than its parts comes here: give up the least important.
        (kept_earlier or kept_memories or kept_recent).pop(-1 if kept_earlier or kept_memories else 0)
        cost = _cost(kept_memories, kept_earlier, kept_recent, count)
    return Selection(
        kept_recent,
        kept_earlier,
        kept_memories,
        cost,
        len(recent) - len(kept_recent),
        len(earlier) - len(kept_earlier),
        len(news) - len(kept_memories),
    )


def _cost(
    memories: Sequence[MemoryEntry], recalled: Sequence[MemoryEntry], recent: Sequence[Turn], count: TokenCounter
) -> Cost:
    long_term, session = _render.render(memories, [], []), _render.render([], recalled, recent)
    return Cost(count(long_term), count(session), count(long_term + session))


def _told(entry: MemoryEntry, told: set[tuple[str, str]]) -> bool:
    """Whether all turns that ``entry`` stands for are in ``told``."""
    return bool(entry.source_turn_ids) and all((entry.session_id, id_) in told for id_ in entry.source_turn_ids)


def fit_recent_turns(turns: Sequence[Turn], share: int, count: TokenCounter) -> list[Turn]:
    """The newest turns that fit, oldest first, without a gap. The newest one is cut rather than left out."""
    packer = _Packer(_render.RECENT_TURNS, share, count)
    kept: list[Turn] = []
    for turn in reversed(turns):
        if not packer.add(_render.turn_item(turn)):
            break
        kept.append(turn)
    if turns and not kept:
        cut = _cut_turn_to_fit(turns[-1], packer)
        return [cut] if cut else []
    return kept[::-1]


def fit_recalled_turns(entries: Sequence[MemoryEntry], share: int, count: TokenCounter) -> list[MemoryEntry]:
    """The best-ranked archived turns that fit; one that is too long is passed over."""
    packer = _Packer(_render.EARLIER_TURNS, share, count)
    kept = [entry for entry in entries if packer.add(_render.recalled_item(entry))]
    return kept or _best_excerpt(entries, packer, _render.recalled_item)


def fit_memories(entries: Sequence[MemoryEntry], share: int, count: TokenCounter) -> list[MemoryEntry]:
    """The best-ranked memories that fit; one that is too long is passed over, unless it is the best of all.

    The best one comes back cut when it exceeds the whole share; half of the share is then kept for the others.
    """
    packer = _Packer(_render.MEMORIES, share, count)
    if not entries or packer.fits(_render.memory_item(entries[0])):
        return [entry for entry in entries if packer.add(_render.memory_item(entry))]
    others = _Packer(_render.MEMORIES, share // 2, count)
    kept = [entry for entry in entries[1:] if others.add(_render.memory_item(entry))]
    packer.items = list(others.items)
    return _best_excerpt(entries, packer, _render.memory_item) + kept


class _Packer:
    """Collects the items of one section as long as the section costs at most ``share`` tokens."""

    def __init__(self, name: str, share: int, count: TokenCounter) -> None:
        self.items: list[str] = []
        self._name, self._share, self.count = name, share, count
        self._at_most = count(_render.section(name, [" "]))
        self._exact = False

    def fits(self, item: str) -> bool:
        return self._cost([*self.items, item]) <= self._share

    def add(self, item: str) -> bool:
        # Texts counted one by one cost at least what they cost together, and only rounding more: so the whole section
        # need not be counted for items that clearly fit, nor for those that clearly do not.
        own = self.count(item)
        if self._at_most + own > self._share:
            if not self._exact:
                self._at_most, self._exact = (self._cost(self.items) if self.items else self._at_most), True
            if self._at_most + own - ROUNDING > self._share or not self.fits(item):
                return False
        self._at_most += own
        self._exact = False
        self.items.append(item)
        return True

    def _cost(self, items: Sequence[str]) -> int:
        return self.count(_render.section(self._name, items))


def _best_excerpt(
    entries: Sequence[MemoryEntry], packer: _Packer, item: Callable[[MemoryEntry], str]
) -> list[MemoryEntry]:
    """The first entry cut to the room that is left; [] when no readable part of it fits."""
    if not entries:
        return []
    best = entries[0]
    excerpt = _longest(
        lambda limit: best.model_copy(update={"content": cut_middle(best.content, limit)}),
        lambda entry: packer.fits(item(entry)),
        len(best.content),
    )
    if excerpt is None:
        return []
    excerpt.token_count = packer.count(excerpt.content)
    return [excerpt]


def _cut_turn_to_fit(turn: Turn, packer: _Packer) -> Turn | None:
    """The turn with its long texts cut in the middle; its tool results are left out when even that is too much."""
    longest = max(map(len, (turn.user_message, turn.assistant_message, *map(_outcome, turn.tool_results))))
    for keep_tools in (True, False):
        cut = _longest(
            lambda limit, keep_tools=keep_tools: _cut_turn(turn, limit, keep_tools=keep_tools),  # type: ignore[misc]
            lambda candidate: packer.fits(_render.turn_item(candidate)),
            longest,
        )
        if cut is not None:
            cut.token_count = packer.count(turn_text(cut))
            return cut
    return None


def _cut_turn(turn: Turn, limit: int, *, keep_tools: bool) -> Turn:
    """A copy with every text cut to ``limit`` characters; without records and metadata, which would be uncut."""
    answer = cut_middle(turn.assistant_message, limit)
    if turn.tool_results and not keep_tools:
        answer = f"[{len(turn.tool_results)} tool results cut] {answer}".rstrip()
    return turn.model_copy(
        update={
            "user_message": cut_middle(turn.user_message, limit),
            "assistant_message": answer,
            "tool_results": [_cut_result(result, limit) for result in turn.tool_results if keep_tools],
            "metadata": {},
            "records": [],
        }
    )


def _cut_result(result: ToolResult, limit: int) -> ToolResult:
    params = result.params if len(str(result.params)) <= limit else {"...": CUT_MARK.strip()}
    return result.model_copy(update={"params": params, "result": cut_middle(_outcome(result), limit)})


def _outcome(result: ToolResult) -> str:
    return result.result if isinstance(result.result, str) else str(result.result)


def _longest(make: Callable[[int], _Item], fits: Callable[[_Item], bool], upper: int) -> _Item | None:
    """``make(limit)`` for the largest limit from SMALLEST_EXCERPT up that fits; None when not even that does."""
    best: _Item | None = None
    low, high = SMALLEST_EXCERPT, max(SMALLEST_EXCERPT, upper)
    while low <= high:
        middle = (low + high) // 2
        candidate = make(middle)
        if fits(candidate):
            best, low = candidate, middle + 1
        else:
            high = middle - 1
    return best
