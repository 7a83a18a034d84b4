"""Measured figures: what they are held against, how they are printed and written."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import actrone_memory


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value in ``unit``; a ratio has the unit ``x``. ``at_most`` and ``at_least`` are its target."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def target(self) -> str:
        """The target as text; "" when there is none."""
        if self.at_most is not None:
            return f"<= {self.at_most:g}"
        return "" if self.at_least is None else f">= {self.at_least:g}"

    @property
    def verdict(self) -> str:
        """``met`` or ``MISSED``; "" when there is no target."""
        if not self.target:
            return ""
        above = self.at_most is not None and self.value > self.at_most
        below = self.at_least is not None and self.value < self.at_least
        return "MISSED" if above or below else "met"


def print_figures(figures: Iterable[Figure]) -> None:
    """One line for each figure."""
    for figure in figures:
        line = f"  {figure.name:<58} {figure.value:>10,.3f} {figure.unit:<6} {figure.target:<8} {figure.verdict}"
        print(line.rstrip(), flush=True)


def write_json(folder: Path, sections: dict[str, list[Figure]]) -> Path:
    """Write all figures, and the machine they were measured on, to a new file in ``folder``; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    report = {
        "measured_at": now.isoformat(timespec="seconds"),
        "machine": _machine(),
        "sections": {
            title: [asdict(figure) | {"verdict": figure.verdict} for figure in figures]
            for title, figures in sections.items()
        },
    }
    path = folder / f"{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return path


def _machine() -> dict[str, object]:
    return {
        "actrone_memory": actrone_memory.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
    }
