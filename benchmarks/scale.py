"""How long a query takes among a thousand memories and among a million, beside the floor and other libraries.

Every query goes through all libraries before the next one does, so noise of the machine hits them alike. Ours and the
floor search words and vectors; LlamaIndex, LangGraph and qdrant search vectors only, bm25s words only. All are asked
for the best ten; `retrieve_context` brings all that fits into its budget. No one encodes: the vectors are looked up.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks import chart, corpus, engine, table
from benchmarks.figures import Figure
from benchmarks.filling import Memories, agent_name, fill_unbounded, fill_within
from benchmarks.floor import embed
from benchmarks.peers.bare import Bare
from benchmarks.peers.ours import Retrieve, Search
from benchmarks.peers.protocol import Lookup, Peer, Searcher, Vectors
from benchmarks.timings import Case, Timing

EACH = 100
"""Memories of one of many agents."""

MOST_FILL_SECONDS = 120.0
"""How long a library may take to be filled; as long as ours, if that takes longer."""

WARM_UP_QUERIES = 5
REST_SECONDS = 0.002
"""Sleep before every query: the system takes the processor from one that has worked long in the middle of the next
query, whoever's that is. After a slow library all would look slow."""

MOST_QUERY_SECONDS = 60.0
"""What the queries of one library may take in all: a slow one answers the first of them only."""


class Question(NamedTuple):
    """One query to one agent."""

    agent: str
    text: str
    vector: Vectors


async def measure(sizes: Sequence[int], agents: int, queries: int, chart_path: Path) -> list[Figure]:
    """Every size for one agent, then ``agents`` of 100 memories each (none for 0); prints a table, writes a chart."""
    extents = [(size, 1) for size in sizes] + ([(agents * EACH, agents)] if agents else [])
    cases = [await _measure_case(memories, agents, queries) for memories, agents in extents]
    print(f"\n{table.markdown(cases)}\nChart: {chart.write(chart_path, cases)}\n")
    return [figure for case in cases for figure in case.figures()]


async def _measure_case(size: int, agents: int, queries: int) -> Case:
    case = Case(size, agents, {})
    texts = list(corpus.sentences(corpus.MEMORIES, size))
    memories = Memories(texts, await embed(texts), agents)
    lookup = Lookup()
    questions = await _questions(agents, queries, lookup)
    filled = await _fill_all(case, memories, lookup)
    with _everything_frozen():
        await _ask_all(case, filled, questions)
    return case


async def _questions(agents: int, queries: int, lookup: Lookup) -> list[Question]:
    """Queries to agents far apart, after those that warm up; ``lookup`` knows their vectors."""
    texts = list(corpus.sentences(corpus.QUERIES, WARM_UP_QUERIES + queries))
    vectors = await embed(texts)
    lookup.know_queries(texts, vectors)
    asked = [agent_name(number * agents // len(texts)) for number in range(len(texts))]
    return [Question(*question) for question in zip(asked, texts, vectors, strict=True)]


async def _fill_all(case: Case, memories: Memories, lookup: Lookup) -> list[Searcher]:
    """The libraries that hold all memories now, ours with both its ways; the case notes why others do not."""
    ours = Search(await engine.make_embedder(), lookup)
    seconds = await fill_unbounded(ours, memories, lookup)
    filled: list[Searcher] = [ours, Retrieve(ours)]
    case.timings.update({way.name: Timing() for way in filled})
    for peer in _peers(lookup, memories.vectors.shape[1]):
        given_up = await fill_within(max(MOST_FILL_SECONDS, seconds), peer, memories, lookup)
        case.timings[peer.name] = Timing(given_up=given_up)
        filled += [] if given_up else [peer]
        print(f"  {case.label}: {peer.name} {given_up or 'filled'}", flush=True)
    return filled


def _peers(lookup: Lookup, dimensions: int) -> Iterator[Peer]:
    """The floor and the other libraries, empty, one at a time: one that was given up makes room for the next."""
    # Imported here: they take seconds to load, and no other section needs them.
    from benchmarks.peers.bm25 import Bm25s
    from benchmarks.peers.langgraph_store import LangGraphStore
    from benchmarks.peers.qdrant_local import QdrantLocal
    from benchmarks.peers.vector_memory import LlamaIndexMemory

    yield Bare()
    yield Bm25s()
    yield QdrantLocal(dimensions)
    yield LangGraphStore(lookup, dimensions)
    yield LlamaIndexMemory(lookup)


async def _ask_all(case: Case, peers: Sequence[Searcher], questions: Sequence[Question]) -> None:
    """Every question to every library whose time is not up, each time beginning with another one."""
    for number, question in enumerate(questions):
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            times = case.timings[peer.name].milliseconds
            if sum(times) < MOST_QUERY_SECONDS * 1e3:
                times.append(await _ask(peer, question))
    for peer in peers:
        del case.timings[peer.name].milliseconds[:WARM_UP_QUERIES]


async def _ask(peer: Searcher, question: Question) -> float:
    """Milliseconds until the answer is there.

    Raises:
        RuntimeError: there was none; then its time would say nothing.
    """
    time.sleep(REST_SECONDS)  # noqa: ASYNC251 - nothing else runs in this loop
    started = time.perf_counter()
    found = await peer.search(*question)
    milliseconds = (time.perf_counter() - started) * 1e3
    if not found:
        raise RuntimeError(f"{peer.name} found nothing for {question.text!r}")
    return milliseconds


@contextmanager
def _everything_frozen() -> Iterator[None]:
    """Keeps the garbage collector off what is held now.

    It would look at the objects of every library in the middle of any library's query.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
