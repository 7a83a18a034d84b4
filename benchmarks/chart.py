"""The comparison of libraries as a chart: how the time of a query grows with the memories of one agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.bare import FLOOR
from benchmarks.timings import OURS, Case

INCHES = (9, 5)


def write(path: Path, cases: Sequence[Case]) -> Path:
    """Draw the cases of one agent as SVG, both axes logarithmic, one line for each library; return ``path``."""
    # Imported here: it takes long, and only this section draws.
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "actrone-memory"  # the same ids in the file for the same figures
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=INCHES, layout="constrained")
    for name, points in _lines(cases).items():
        axes.plot(*zip(*points, strict=True), label=name, marker="o", **_style(name))
    axes.set(xscale="log", yscale="log", xlabel="memories of one agent", ylabel="one query, median [ms]")
    axes.grid(which="major", alpha=0.3)
    figure.legend(loc="outside right upper")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return path


def _lines(cases: Sequence[Case]) -> dict[str, list[tuple[int, float]]]:
    """Number of memories and median of every library, in ascending order."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for case in sorted((case for case in cases if case.agents == 1), key=lambda case: case.memories):
        for name, timing in case.measured.items():
            lines.setdefault(name, []).append((case.memories, timing.percentile(50)))
    return lines


def _style(name: str) -> dict[str, Any]:
    """Ours stand out, the floor is no library."""
    if name == FLOOR:
        return {"color": "black", "linestyle": ":"}
    return {"linewidth": 3} if name in OURS else {"linewidth": 1, "linestyle": "--"}
