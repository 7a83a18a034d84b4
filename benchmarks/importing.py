"""How long `import actrone_memory` takes, against what it cannot do without."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

from benchmarks.figures import Figure

OURS, FLOOR = "actrone_memory", "pydantic_settings, numpy"
RUNS = 11
MOST_FLOORS = 1.3

_PROGRAM = "import time; started = time.perf_counter(); import {}; print(time.perf_counter() - started)"


async def measure() -> list[Figure]:
    """Medians over fresh interpreters that take turns; the start of the interpreter does not count."""
    _seconds(OURS), _seconds(FLOOR)  # the first ones read from disk and compile
    pairs = [(_seconds(FLOOR), _seconds(OURS)) for _ in range(RUNS)]
    floor, ours = (median(seconds) for seconds in zip(*pairs, strict=True))
    return [
        Figure(f"import {FLOOR}", floor * 1e3, "ms"),
        Figure(f"import {OURS}", ours * 1e3, "ms"),
        Figure(f"import {OURS} / import {FLOOR}", ours / floor, "x", at_most=MOST_FLOORS),
    ]


def _seconds(modules: str) -> float:
    program = [sys.executable, "-c", _PROGRAM.format(modules)]
    # Installed packages are compiled; a checkout is too, unless the environment forbids it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return float(subprocess.run(program, env=environment, check=True, capture_output=True, text=True).stdout)
