"""Measure the engine: speed and size as ratios within one run, and recall on evaluation data.

Sections:
  retrieval    retrieve_context against a bare numpy and bm25s search over the same memories
  injecting    rate of inject_memory at many memories against at few
  footprint    memory per entry, as tracemalloc and as the resident set size see it
  scale        one query among 1,000 to 100,000 memories (a million: --sizes 1000000), and of 10,000 agents with 100
               memories each, beside the floor and other libraries; a table, and a chart (--chart FILE)
  encoding     one query through the embedder
  importing    import actrone_memory against import pydantic_settings, numpy
  stall        longest gap of the event loop beside 200 concurrent retrievals
  redis        turns through a real Valkey from 4 processes: throughput, round trips per call, losses
  conventions  must-recall share and wrong recalls on a file of repository conventions (needs --data)
  locomo       evidence recall on LoCoMo conversations at two token budgets (needs --data)

Everything runs in process, with the embedder that --provider names. Times of one run compare with each other only.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import (
    conventions,
    encoding,
    engine,
    footprint,
    importing,
    injecting,
    locomo,
    redis_load,
    retrieval,
    scale,
    stall,
)
from benchmarks.figures import Figure, print_figures, write_json

SECTIONS = (
    "retrieval",
    "injecting",
    "footprint",
    "scale",
    "encoding",
    "importing",
    "stall",
    "redis",
    "conventions",
    "locomo",
)

Measurement = Callable[[], Awaitable[list[Figure]]]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    sizes: list[int]
    scale_sizes: list[int]
    agents: int
    queries: int
    injects: int
    entries: int
    turns: int


FULL = Extent(
    sizes=[1_000, 20_000],
    scale_sizes=[1_000, 10_000, 100_000],
    agents=10_000,
    queries=300,
    injects=100_000,
    entries=20_000,
    turns=20_000,
)
QUICK = Extent(
    sizes=[1_000, 5_000],
    scale_sizes=[1_000, 5_000],
    agents=100,
    queries=50,
    injects=10_000,
    entries=5_000,
    turns=2_000,
)


def main() -> None:
    """Run the sections that the command line asks for, print each as it ends, and write all to a file."""
    arguments = _parse_arguments()
    engine.choose(arguments.provider)
    measured = asyncio.run(_run(arguments))
    print(f"\nWritten to {write_json(arguments.out, measured)}")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="section", help="sections to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller and faster; targets hold for full runs only")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="memories for retrieval and scale")
    parser.add_argument("--agents", type=int, metavar="N", help="agents of 100 memories for scale (0: without)")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="where the SVG of scale goes (default: beside JSON)")
    parser.add_argument("--provider", choices=engine.PROVIDERS, default=engine.PROVIDERS[0], help="the embedder")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder with the evaluation files")
    parser.add_argument("--conventions-file", default="conventions_dev.json", metavar="NAME")
    parser.add_argument("--locomo-file", default="locomo_dev.json", metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), metavar="FOLDER", help="where JSON goes")
    arguments = parser.parse_args()
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))} (there are {', '.join(SECTIONS)})")
    arguments.sections = arguments.sections or SECTIONS
    return arguments


async def _run(arguments: argparse.Namespace) -> dict[str, list[Figure]]:
    measured: dict[str, list[Figure]] = {}
    plan = _plan(arguments)
    for section in arguments.sections:
        print(f"\n{section}", flush=True)
        measured[section] = []
        for measure in plan[section]:
            figures = await measure()
            print_figures(figures)
            measured[section] += figures
    return measured


def _plan(arguments: argparse.Namespace) -> dict[str, list[Measurement]]:
    extent = QUICK if arguments.quick else FULL
    agents = extent.agents if arguments.agents is None else arguments.agents
    chart = arguments.chart or arguments.out / "scale.svg"
    return {
        "retrieval": [partial(retrieval.measure, size, extent.queries) for size in arguments.sizes or extent.sizes],
        "injecting": [partial(injecting.measure, extent.injects)],
        "footprint": [partial(footprint.measure, extent.entries)],
        "scale": [partial(scale.measure, arguments.sizes or extent.scale_sizes, agents, extent.queries, chart)],
        "encoding": [partial(encoding.measure, extent.queries)],
        "importing": [importing.measure],
        "stall": [stall.measure],
        "redis": [partial(redis_load.measure, extent.turns)],
        "conventions": _on_file(conventions.measure, arguments.data, arguments.conventions_file),
        "locomo": _on_file(locomo.measure, arguments.data, arguments.locomo_file),
    }


def _on_file(measure: Callable[[Path], Awaitable[list[Figure]]], folder: Path | None, name: str) -> list[Measurement]:
    """``measure`` on the file, or a measurement that says why there is nothing to measure."""
    if folder is None:
        return [partial(_skip, f"no evaluation data given: --data FOLDER with {name}, or make bench DATA=folder")]
    if not (folder / name).is_file():
        return [partial(_skip, f"there is no file {folder / name}")]
    return [partial(measure, folder / name)]


async def _skip(reason: str) -> list[Figure]:
    print(f"  skipped: {reason}")
    return []


if __name__ == "__main__":
    main()
