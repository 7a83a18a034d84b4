"""The comparison of libraries as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from benchmarks.timings import Case, Timing


def markdown(cases: Sequence[Case]) -> str:
    """One row for each library, one column for each case, and below it why cells are empty or rest on few queries."""
    names = list(cases[0].timings)
    lines = [
        "| p50 / p99 in ms | " + " | ".join(case.label for case in cases) + " |",
        "|---|" + "---:|" * len(cases),
        *(f"| {name} | " + " | ".join(_cell(case.timings[name]) for case in cases) + " |" for name in names),
    ]
    return "\n".join(chain(lines, [""], *map(_notes, cases)))


def _cell(timing: Timing) -> str:
    if not timing.milliseconds:
        return "-"
    return f"{_short(timing.percentile(50))} / {_short(timing.percentile(99))}"


def _short(milliseconds: float) -> str:
    """Two decimals below 10 ms, none above 100."""
    if milliseconds >= 100:
        return f"{milliseconds:,.0f}"
    return f"{milliseconds:.1f}" if milliseconds >= 10 else f"{milliseconds:.2f}"


def _notes(case: Case) -> Iterator[str]:
    most = max(len(timing.milliseconds) for timing in case.timings.values())
    for name, timing in case.timings.items():
        if timing.given_up:
            yield f"{case.label}, {name}: {timing.given_up}."
        elif len(timing.milliseconds) < most:
            yield f"{case.label}, {name}: {len(timing.milliseconds)} queries instead of {most}, its time was up."
