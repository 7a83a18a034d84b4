"""How long the embedder takes to encode one query."""

from __future__ import annotations

import time

import numpy as np

from benchmarks import corpus, engine
from benchmarks.figures import Figure

WARM_UP_QUERIES = 300
"""Until then most words are seen for the first time, as no user's queries are for long."""

MOST_MICROSECONDS = 100.0


async def measure(queries: int) -> list[Figure]:
    """Median and 99th percentile over different queries of words seen before."""
    embedder = await engine.make_embedder()
    microseconds = []
    for text in corpus.sentences(corpus.QUERIES, WARM_UP_QUERIES + queries):
        started = time.perf_counter()
        await embedder.embed(text)
        microseconds.append((time.perf_counter() - started) * 1e6)
    timed = np.asarray(microseconds[WARM_UP_QUERIES:])
    return [
        Figure(f"{embedder.name}, one query, p50", float(np.percentile(timed, 50)), "us", at_most=MOST_MICROSECONDS),
        Figure(f"{embedder.name}, one query, p99", float(np.percentile(timed, 99)), "us"),
    ]
