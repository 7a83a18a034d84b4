"""The statistics of a shelf that is too large to be looked at as a whole: how many entries, how long, which words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from actrone_memory._ranking import inverse_document_frequency
from actrone_memory._shelf import CONTEXT, Census, Prepared, Query, Shelf
from actrone_memory._sparse_terms import is_stored_whole, stored_values, term_number
from actrone_memory.stores.qdrant.collection import Collection
from actrone_memory.stores.qdrant.points import WORDS
from actrone_memory.stores.qdrant.questions import Sight, has_id, shelf_filter

MOST_COUNTED_TERMS = 400
"""Terms of a query, with what looks like them, that the server counts; a page of text has more, of no weight."""

SMALLEST_SHARE = 1e-3
"""Of the clearest: what the scores tell less clearly is left as it was counted."""


async def census_of(
    collection: Collection, agent_id: str, query: Query, sight: Sight, shelf: Shelf, candidates: Mapping[str, Prepared]
) -> Census:
    """The statistics of the whole shelf, of which ``shelf`` holds the ``candidates``."""
    terms = sorted(shelf.terms_of(query.text)) if query.text is not None else []
    asked = terms[:MOST_COUNTED_TERMS]
    which = shelf_filter(agent_id, sight.talk)
    counted, scores = await asyncio.gather(
        collection.ask("count", count_filter=which, exact=True), _scores(collection, which, asked, candidates)
    )
    entries = int(counted.count)
    told = {point: score for point, score in scores.items() if is_stored_whole(candidates[point].terms)}
    idf = _rarity(asked, [candidates[point].terms for point in told], list(told.values()), shelf, entries)
    for term in terms[MOST_COUNTED_TERMS:]:
        idf[term] = inverse_document_frequency(entries * shelf.containing(term) // len(shelf.rows), entries)
    own = float(np.mean([mark.length for mark in sight.sample.values()]))
    length = own * (1 + sum(CONTEXT.values())) if sight.talk else own
    return Census(entries, length, idf, np.array(sight.cosines, np.float32))


async def _scores(
    collection: Collection, which: Any, terms: Sequence[str], candidates: Mapping[str, Prepared]
) -> dict[str, float]:
    """What the server's idf of all terms, times what the points store for them, comes to for each candidate."""
    from qdrant_client import models

    if not terms or not candidates:
        return {}
    numbers = sorted({term_number(term) for term in terms})
    request = models.QueryRequest(
        query=models.SparseVector(indices=numbers, values=[1.0] * len(numbers)),
        using=WORDS,
        filter=has_id(list(candidates)),
        params=models.SearchParams(idf=models.IdfCorpusParams(corpus=which)),
        limit=len(candidates),
    )
    (points,) = await collection.batch([request])
    return {str(point.id): point.score for point in points}


def _rarity(
    terms: Sequence[str], texts: Sequence[Mapping[str, float]], scores: Sequence[float], shelf: Shelf, entries: int
) -> dict[str, float]:
    """The idf of each term among all entries.

    A term that few entries have is counted among the candidates: they are those entries. For the others that count is
    too small, and the scores say by how much: each is a sum of known numbers times the idf of its terms.
    """
    idf = np.array([inverse_document_frequency(shelf.containing(term), entries) for term in terms])
    if texts and terms:
        stored = stored_values(texts, terms)
        idf += np.linalg.lstsq(stored, np.array(scores) - stored @ idf, rcond=SMALLEST_SHARE)[0]
    least, most = (inverse_document_frequency(containing, entries) for containing in (entries, 0))
    return dict(zip(terms, np.clip(idf, least, most).tolist(), strict=True))
