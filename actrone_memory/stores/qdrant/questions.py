"""What a search asks the collection, and what the answers tell. Knows the client's models, and no client."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from actrone_memory._shelf import Query
from actrone_memory._sparse_terms import asked_terms
from actrone_memory.stores.qdrant.points import EPOCH_STEP, SHELVES, WORDS, Mark, marks_of

WHOLE_SHELF = 1_000
"""Memories of an agent that are all looked at: their ids and stamps are some 100 KB of an answer."""

BY_MEANING = 256
BY_WORDS = 256
"""Candidates of an agent with more: several times what any context holds."""

MARK = ["stamp", "epoch", "length", "session_id", "sequence"]
"""What a search asks of a payload: enough to know whether the rest is known."""


class Sight(NamedTuple):
    """What one shelf of an agent answered to a query."""

    talk: bool
    whole: bool
    marks: dict[str, Mark]
    sample: dict[str, Mark]
    cosines: list[float]
    by_words: list[str]
    erased: int
    """The epoch of the agent's last erasure of everything; older points are left over."""


def search_requests(agent_id: str, query: Query, vector: str, talk: bool) -> list[Any]:
    """A sample with its cosines, all there is when it is not full; the nearest; of a text, the best by words."""
    from qdrant_client import models

    shelf, wanted = shelf_filter(agent_id, talk), shelf_filter(agent_id, talk, query)
    near = query.vector.tolist()
    by_ids = models.Prefetch(filter=shelf, limit=WHOLE_SHELF)
    sample = models.QueryRequest(prefetch=by_ids, query=near, using=vector, limit=WHOLE_SHELF, with_payload=MARK)
    most = max(BY_MEANING, min(query.consider, WHOLE_SHELF))
    nearest = models.QueryRequest(query=near, using=vector, filter=wanted, limit=most, with_payload=MARK)
    if query.text is None:
        return [sample, nearest]
    asked = asked_terms(query.text, talk=talk)
    best = models.QueryRequest(
        query=models.SparseVector(indices=asked.indices, values=asked.values),
        using=WORDS,
        filter=wanted,
        params=models.SearchParams(idf=models.IdfCorpusParams(corpus=shelf)),
        limit=BY_WORDS,
        with_payload=MARK,
    )
    return [sample, nearest, best]


def shelf_request(agent_id: str, talk: bool) -> Any:
    """What there is on a shelf, as far as it is small."""
    from qdrant_client import models

    return models.QueryRequest(filter=shelf_filter(agent_id, talk), limit=WHOLE_SHELF, with_payload=MARK)


def sight_of(talk: bool, found: Sequence[list[Any]], vector: str, erased: int) -> Sight:
    """What the answers to `search_requests`, or to the first of them, tell."""
    sample, *candidates = found
    everything = marks_of(sample, vector, erased)
    if len(sample) < WHOLE_SHELF:
        return Sight(talk, True, everything, everything, [], [], erased)
    return Sight(
        talk=talk,
        whole=False,
        marks=marks_of(chain.from_iterable(candidates), vector, erased),
        sample=everything,
        cosines=[point.score for point in sample],
        by_words=[str(point.id) for best in candidates[1:] for point in best],
        erased=erased,
    )


def shelf_filter(agent_id: str, talk: bool, query: Query | None = None) -> Any:
    """The points of one shelf of an agent; those that ``query`` lets through."""
    from qdrant_client import models

    conditions = [equals("agent_id", agent_id), equals("shelf", SHELVES[talk])]
    if query is not None and query.content_types is not None:
        conditions.append(is_any("content_type", query.content_types))
    if query is not None and query.tags is not None:
        conditions.append(is_any("topic_tags", query.tags))
    return models.Filter(must=conditions)


def of_agent(agent_id: str) -> Any:
    """All points of an agent but its own, whichever shelf they stand on."""
    from qdrant_client import models

    return models.Filter(must=[equals("agent_id", agent_id)])


def has_id(ids: Sequence[str]) -> Any:
    """The points of these ids."""
    from qdrant_client import models

    return models.Filter(must=[models.HasIdCondition(has_id=list(ids))])


def equals(name: str, value: str | int) -> Any:
    """The condition that a payload's field has this value."""
    from qdrant_client import models

    return models.FieldCondition(key=name, match=models.MatchValue(value=value))


def since(epoch: int) -> Any:
    """The condition that a point was written in this epoch of its agent or a later one."""
    from qdrant_client import models

    return models.FieldCondition(key="epoch", range=models.Range(gte=epoch - EPOCH_STEP // 2))


def is_any(name: str, values: Sequence[str]) -> Any:
    """The condition that it has, or a list there holds, one of these values."""
    from qdrant_client import models

    return models.FieldCondition(key=name, match=models.MatchAny(any=list(values)))
