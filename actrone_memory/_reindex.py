"""All memories embedded anew, in pieces that an interruption leaves in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from actrone_memory._cold_tier import ColdTier
from actrone_memory._embedding import batches, embed_entries
from actrone_memory.errors import ActroneMemoryError
from actrone_memory.protocols import Embedder

MOST_LOOKS = 5
"""How often in a row all entries may lack their vectors again: whoever rewrites one takes its new vector away."""


async def reindexed(cold: ColdTier, embedder: Embedder, progress: Callable[[int, int], None] | None) -> int:
    """Give all entries of all agents vectors of ``embedder``; returns how many it made.

    What was made before an interruption is kept. ``progress`` is told how many are done, of how many.
    """
    done, looks, before = 0, 0, list[tuple[str, str]]()
    while True:
        pending = sorted(await cold.begin_reindex())
        looks = looks + 1 if before and set(before) <= set(pending) else 0
        if looks == MOST_LOOKS:
            raise ActroneMemoryError(
                f"{len(before)} memories lack their new vectors again and again: other processes rewrite them all the "
                "while or reindex to another embedder, or the store keeps no vectors. Reindex again when they rest.",
                code="reindex",
            )
        before, total = pending, done + len(pending)
        for agent_id, memory_ids in _by_agent(pending):
            entries = await cold.get_with_embeddings(agent_id, memory_ids)
            await embed_entries(embedder, entries)
            await cold.add_vectors(entries)
            done += len(memory_ids)
            if progress is not None:
                progress(done, total)
        if await cold.finish_reindex():
            return done


def _by_agent(pending: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Sequence[str]]]:
    for agent_id, pairs in groupby(pending, key=lambda pair: pair[0]):
        for memory_ids in batches([pending_id for _, pending_id in pairs]):
            yield agent_id, memory_ids
