"""Entries of one kind, searchable: vectors and lexical postings in columns. Knows no locks and no agents.

An entry is a row. Rows are only appended; a removed row is dead until the columns are rebuilt without the dead ones.
Entries are kept as JSON, so what reads return are copies and an entry costs its text, not its objects.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from actrone_memory import _ranking
from actrone_memory._lexical import document_terms, is_unspaced, query_terms
from actrone_memory._similarity import unit
from actrone_memory._statements import stated_text
from actrone_memory._vector_rows import VectorRows
from actrone_memory._vocabulary import Vocabulary
from actrone_memory.models import ContentType, MemoryEntry

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONTEXT = {-1: 0.5, -2: 0.25, 1: 0.4}
"""Share of the words of the turns around it, by distance, in the words of a turn: a question is found with its answer
and an answer with its question, also when they are a turn apart."""

LATEST_ROWS = 64
"""Turns whose terms are kept: the turns of some conversations that are held at the same time."""

TERMS_RECIPE = 1
"""To be raised when the same entry would get other terms: a file keeps the terms of its entries."""

SMALLEST_REBUILD = 64
"""Dead rows that are worth a rebuild, once they outnumber the living."""

UNIT_ERROR = 4e-7
"""How far the squared length of a 32-bit unit vector may be off."""

KINDS: tuple[ContentType, ...] = get_args(ContentType)
_SPEAKER = re.compile(r"^(?:User|Assistant|Tool): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Query:
    """One search: a unit vector, the text for the lexical part (None: cosine only), and what may be returned."""

    vector: NDArray[np.float32]
    text: str | None
    threshold: float
    limit: int
    consider: int
    weights: _ranking.Weights
    now: float
    content_types: Sequence[ContentType] | None = None
    tags: Sequence[str] | None = None
    background: _ranking.Background | None = None
    newer_first: bool = False

    @property
    def has_meaning(self) -> bool:
        """Whether cosines say anything: those of models with a measured background do not for unspaced scripts."""
        return self.background is None or self.text is None or not is_unspaced(self.text)


class Census(NamedTuple):
    """What is known of a shelf of which only a part is at hand: its statistics are those of the whole."""

    entries: int
    mean_length: float
    idf: Mapping[str, float]
    """Of every term of a query, and of what looks like it; a term that is missing here is in no entry."""
    cosines: NDArray[np.float32]
    """Of the query with some entries of the whole shelf, any ones."""


class Prepared(NamedTuple):
    """An entry with all that can be computed without looking at the index."""

    entry: MemoryEntry
    document: bytes
    vector: NDArray[np.float32]
    terms: dict[str, float]


def prepare(entry: MemoryEntry) -> Prepared:
    """Serialise and analyse ``entry``; without an embedding the vector is empty and counts as zero."""
    return Prepared(entry, document_of(entry), unit_vector(entry.embedding or []), terms_of(entry))


def document_of(entry: MemoryEntry) -> bytes:
    """``entry`` as JSON, without its vector and scores; `read_entry` reads it."""
    return entry.model_dump_json(exclude={"embedding", "score", "score_parts"}, exclude_defaults=True).encode()


def unit_vector(vector: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float32]:
    """``vector`` at length 1; a zero vector stays zero, and what this returned comes back as it is."""
    given = np.asarray(vector, dtype=np.float64)
    if np.abs(given).max(initial=0.0) <= 1 and abs(float(given @ given) - 1) <= UNIT_ERROR:
        rounded = given.astype(np.float32)
        if (rounded == given).all():
            return rounded
    return unit(given).astype(np.float32)


def terms_of(entry: MemoryEntry) -> dict[str, float]:
    """What the lexical part sees: tags count as text, a turn is also found by the day it was said."""
    if entry.content_type == "turn":
        return document_terms(f"{entry.timestamp:%d %B %Y}\n{_SPEAKER.sub('', entry.content)}")
    return document_terms(stated_text(entry))


@cache
def terms_recipe() -> int:
    """A number for the rules by which an entry gets its terms; with another one stored terms are made anew."""
    rules = (TERMS_RECIPE, unicodedata.unidata_version, version("snowballstemmer"))
    return zlib.crc32(repr(rules).encode())


def read_entry(document: bytes) -> MemoryEntry:
    """The stored entry, a new object on every call."""
    return MemoryEntry.model_validate_json(document)


_Session = list[tuple[int, int]]
"""The turns of one session in order: their sequence numbers and rows."""


def _around(session: _Session, place: int) -> list[int]:
    """Places whose words depend on what stands at ``place``."""
    return [near for near in range(place - max(CONTEXT), place - min(CONTEXT) + 1) if 0 <= near < len(session)]


@dataclass(slots=True)
class _Posting:
    """Rows that hold a term in ascending order, its weight in each, and how many hold it in their own text.

    ``saturated`` is BM25's term frequency of the weights, as of the shelf's state of that number.
    """

    rows: array[int]
    weights: array[float]
    containing: int = 0
    saturated: NDArray[np.float32] | None = None
    state: int = -1

    def add(self, row: int, weight: float) -> None:
        place = len(self.rows)
        if place and self.rows[-1] >= row:
            place = bisect.bisect_left(self.rows, row)
            if self.rows[place] == row:
                self.weights[place] += weight
                return
        self.rows.insert(place, row)
        self.weights.insert(place, weight)


class Shelf:
    """Columns of one kind of entry; see the module. ``talk``: turns, which are found by the turns around them too."""

    def __init__(self, *, talk: bool) -> None:
        self.talk = talk
        self.census: Census | None = None
        self.rows: dict[str, int] = {}
        self._reset()

    def _reset(self) -> None:
        self._documents: list[bytes | None] = []
        self.ids: list[str] = []
        self._vectors = VectorRows()
        self._lengths = array("f")
        self._timestamps = array("d")
        self._importance = array("f")
        self._kinds = array("B")
        self._alive = array("B")
        self._held: set[ContentType] = set()
        self._postings: dict[str, _Posting] = {}
        self._vocabulary = Vocabulary()
        self._tagged: dict[str, set[int]] = {}
        self._sessions: dict[str, _Session] = {}
        self._unnumbered: dict[str, set[int]] = {}
        self._latest_terms: dict[int, dict[str, float]] = {}
        self._total_length = 0.0
        self._norms: _ranking.Floats | None = None
        self._state = 0

    def documents(self) -> Iterable[bytes]:
        """All entries as stored, in the order of their rows."""
        return (document for document in self._documents if document is not None)

    def document(self, memory_id: str) -> bytes | None:
        """The entry of this id as stored; None when there is none."""
        row = self.rows.get(memory_id)
        return None if row is None else self._documents[row]

    def append(self, prepared: Prepared) -> None:
        """Add a row, and its words to the turns around it."""
        entry, row = prepared.entry, self._add_row(prepared)
        if not self.talk:
            return
        if entry.sequence is None:
            self._unnumbered.setdefault(entry.session_id, set()).add(row)
            return
        session = self._sessions.setdefault(entry.session_id, [])
        place = bisect.bisect_left(session, (entry.sequence, row))
        session.insert(place, (entry.sequence, row))
        self._add_context(session, place)
        if place == len(session) - 1:
            for distance, share in CONTEXT.items():
                if 0 < distance <= place:
                    self._add_terms(session[place - distance][1], prepared.terms, share)
        else:
            self._refresh(session, [near for near in _around(session, place) if near != place])

    def remove(self, memory_id: str) -> bool:
        """Remove one entry and its words from the turns around it; False when there is none."""
        row = self.rows.get(memory_id)
        if row is None:
            return False
        entry = self._bury(row)
        if self.talk and entry.sequence is None:
            self._unnumbered[entry.session_id].discard(row)
        elif self.talk and entry.sequence is not None:
            session = self._sessions[entry.session_id]
            # Among turns of one number the rows are in no order: a refresh gives a turn a new row in its old place.
            place = session.index((entry.sequence, row), bisect.bisect_left(session, (entry.sequence, -1)))
            del session[place]
            self._refresh(session, _around(session, place))
        self._rebuild_if_mostly_dead()
        return True

    def remove_session(self, session_id: str) -> list[str]:
        """Remove all rows of one session and return their ids."""
        rows = [row for _, row in self._sessions.pop(session_id, [])]
        rows += self._unnumbered.pop(session_id, set())
        removed = [self._bury(row).id for row in rows]
        self._rebuild_if_mostly_dead()
        return removed

    def _add_row(self, prepared: Prepared) -> int:
        entry, row = prepared.entry, len(self._documents)
        self.rows[entry.id] = row
        self._documents.append(prepared.document)
        self.ids.append(entry.id)
        self._vectors.append(prepared.vector)
        self._lengths.append(0.0)
        self._timestamps.append(entry.timestamp.timestamp())
        self._importance.append(entry.importance_score)
        self._kinds.append(KINDS.index(entry.content_type))
        self._held.add(entry.content_type)
        self._alive.append(1)
        self._remember(row, prepared.terms)
        self._add_terms(row, prepared.terms)
        for term in prepared.terms:
            self._postings[term].containing += 1
        for tag in entry.topic_tags:
            self._tagged.setdefault(tag, set()).add(row)
        return row

    def _remember(self, row: int, terms: dict[str, float]) -> None:
        """Keep the terms of the latest turns: those that come next to them need them."""
        if self.talk:
            self._latest_terms[row] = terms
            if len(self._latest_terms) > LATEST_ROWS:
                del self._latest_terms[next(iter(self._latest_terms))]

    def _terms_of(self, row: int) -> dict[str, float]:
        return self._latest_terms.get(row) or terms_of(self.read(row))

    def _add_terms(self, row: int, terms: dict[str, float], share: float = 1.0) -> None:
        for term, weight in terms.items():
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = _Posting(array("q"), array("f"))
                self._vocabulary.add(term)
            posting.add(row, share * weight)
        length = share * sum(terms.values())
        self._lengths[row] += length
        self._total_length += length
        self._changed()

    def _add_context(self, session: _Session, place: int) -> None:
        """Add the words of the turns around ``place`` to the turn there."""
        for distance, share in CONTEXT.items():
            if 0 <= place + distance < len(session):
                self._add_terms(session[place][1], self._terms_of(session[place + distance][1]), share)

    def _refresh(self, session: _Session, places: Sequence[int]) -> None:
        """Index turns anew whose surroundings have changed."""
        for place in places:
            sequence, row = session[place]
            vector = self._vectors.rows[row].copy()
            entry = self._bury(row)
            session[place] = sequence, self._add_row(Prepared(entry, document_of(entry), vector, terms_of(entry)))
        for place in places:
            self._add_context(session, place)

    def _bury(self, row: int) -> MemoryEntry:
        """Take the row out of everything but the columns, and return its entry."""
        entry = self.read(row)
        del self.rows[entry.id]
        for term in terms_of(entry):
            self._postings[term].containing -= 1
        for tag in entry.topic_tags:
            self._tagged[tag].discard(row)
        self._latest_terms.pop(row, None)
        self._total_length -= self._lengths[row]
        self._changed()
        self._documents[row] = None
        self._alive[row] = 0
        return entry

    def read(self, row: int) -> MemoryEntry:
        """The entry in a living row, a new object."""
        document = self._documents[row]
        assert document is not None, "a dead row is in no session, under no id and found by no search"
        return read_entry(document)

    def _rebuild_if_mostly_dead(self) -> None:
        """Append the living rows anew, so that space and time follow what is stored, not what was ever stored."""
        if len(self._documents) - len(self.rows) <= max(SMALLEST_REBUILD, len(self.rows)):
            return
        vectors = self._vectors.rows
        living = [(vectors[row], document) for row, document in enumerate(self._documents) if document is not None]
        self.rows = {}
        self._reset()
        for vector, document in living:
            entry = read_entry(document)
            self.append(Prepared(entry, document, vector, terms_of(entry)))

    def _cosine(self, query: Query) -> NDArray[np.float32]:
        if not self._vectors.dimensions or not query.has_meaning:
            return np.zeros(len(self._documents), np.float32)
        cosine: NDArray[np.float32] = self._vectors.rows @ query.vector
        return cosine

    def _exact_cosine(self, rows: NDArray[np.intp], query: Query) -> NDArray[np.float32]:
        if not self._vectors.dimensions or not query.has_meaning:
            return np.zeros(len(rows), np.float32)
        # A matrix product sums the rows of a block in different orders; this sums every row alike.
        cosine: NDArray[np.float32] = np.einsum("ij,j->i", self.vectors(rows), query.vector)
        return cosine

    def search(self, query: Query) -> _ranking.Ranked:
        """The best rows, at most as many as the query considers."""
        if not self.rows:
            return _ranking.NOTHING
        # The arrays' buffers must be let go before the next append: these views live no longer than this call.
        cosine = self._cosine(query)
        importance = np.frombuffer(self._importance, np.float32)
        timestamps = np.frombuffer(self._timestamps, np.float64)
        excluded = self._excluded(query)
        if excluded is not None:
            cosine[excluded] = -np.inf
        if query.text is None:
            return _ranking.rank_by_cosine(
                cosine,
                lambda rows: self._exact_cosine(rows, query),
                importance,
                timestamps,
                threshold=query.threshold,
                weights=query.weights,
                now=query.now,
                limit=query.consider,
            )
        lexical, possible = self._bm25(query.text)
        if excluded is not None:
            lexical[excluded] = 0
        return _ranking.rank_hybrid(
            cosine,
            lambda rows: self._exact_cosine(rows, query),
            lexical,
            importance,
            timestamps,
            threshold=query.threshold,
            background=query.background,
            lexical_floor=_ranking.lexical_floor(possible),
            weights=query.weights,
            limit=query.consider,
            sample=self.census.cosines if self.census and query.has_meaning else None,
            meaning_weight=_ranking.MEANING_WEIGHT_OF_TURNS if self.talk else _ranking.MEANING_WEIGHT,
        )

    def terms_of(self, text: str) -> set[str]:
        """The terms of a query, and those of the shelf that look like them."""
        asked = query_terms(text, generic_words=self.talk)
        return set(asked).union(*map(self._vocabulary.similar, asked))

    def containing(self, term: str) -> int:
        """How many entries at hand have the term in their own text."""
        posting = self._postings.get(term)
        return posting.containing if posting else 0

    def vectors(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """The unit vectors of some rows."""
        vectors: NDArray[np.float32] = self._vectors.rows[rows]
        return vectors

    def vector(self, memory_id: str) -> list[float] | None:
        """The unit vector of the entry of this id; None when it has none, or one without a direction."""
        row = self.rows.get(memory_id)
        vector = None if row is None else self._vectors.rows[row]
        return vector.tolist() if vector is not None and vector.any() else None

    def replace_vectors(self, vectors: Mapping[str, NDArray[np.float32]], dimensions: int) -> None:
        """Give every row its vector of ``vectors``, none to those that are not there."""
        none = np.zeros(dimensions, np.float32)
        of_rows = {row: vectors[memory_id] for memory_id, row in self.rows.items() if memory_id in vectors}
        self._vectors = VectorRows()
        for row in range(len(self._documents)):
            self._vectors.append(of_rows.get(row, none))

    def timestamps(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The times of some rows, in seconds."""
        seconds: NDArray[np.float64] = np.frombuffer(self._timestamps, np.float64)[rows]
        return seconds

    def importance_and_time(self, row: int) -> tuple[float, float]:
        """What decides between rows of one score."""
        return self._importance[row], self._timestamps[row]

    def _excluded(self, query: Query) -> NDArray[np.bool_] | None:
        """True for dead rows and for those that the filters leave out; None when there are none."""
        excluded = None
        if len(self.rows) < len(self._documents):
            excluded = np.frombuffer(self._alive, np.uint8) == 0
        if query.content_types is not None and not self._held.issubset(query.content_types):
            kinds = [KINDS.index(kind) for kind in query.content_types]
            other = ~np.isin(np.frombuffer(self._kinds, np.uint8), kinds)
            excluded = other if excluded is None else excluded | other
        if query.tags is not None:
            untagged = np.ones(len(self._documents), bool)
            untagged[list(set().union(*(self._tagged.get(tag, set()) for tag in query.tags)))] = False
            excluded = untagged if excluded is None else excluded | untagged
        return excluded

    def _bm25(self, text: str) -> tuple[NDArray[np.float32], float]:
        """BM25 of every row, and the score of a row that would hold every term of the query once.

        A query term counts once in a row, by itself or by the term there most like it.
        """
        scores = np.zeros(len(self._documents), np.float32)
        most_like = np.empty_like(scores)
        possible = 0.0
        for term, weight in query_terms(text, generic_words=self.talk).items():
            possible += weight * self._idf(term)
            matches = list(self._matches(term, weight))
            if len(matches) == 1:
                np.add.at(scores, *matches[0])
            elif matches:
                most_like.fill(0)
                for rows, matched in matches:
                    np.maximum.at(most_like, rows, matched)
                scores += most_like
        return scores, possible

    def _matches(self, term: str, weight: float) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The rows that hold ``term``, then those that hold a term like it, each with what the match is worth there."""
        for variant, likeness in ({term: 1.0} | self._vocabulary.similar(term)).items():
            posting = self._postings.get(variant)
            if posting is not None and posting.containing:
                worth = np.float32(self._idf(variant) * weight * likeness)
                yield np.frombuffer(posting.rows, np.int64), self._saturated(posting) * worth

    def _saturated(self, posting: _Posting) -> NDArray[np.float32]:
        """BM25's term frequency in each row of ``posting``, computed once until something is written."""
        if posting.saturated is None or posting.state != self._state:
            if self._norms is None:
                mean_length = self.census.mean_length if self.census else self._total_length / len(self.rows)
                self._norms = _ranking.bm25_norm(np.frombuffer(self._lengths, np.float32), mean_length)
            norm = self._norms[np.frombuffer(posting.rows, np.int64)]
            saturated = _ranking.bm25_term(np.frombuffer(posting.weights, np.float32), norm)
            posting.saturated, posting.state = saturated.astype(np.float32), self._state
        return posting.saturated

    def _changed(self) -> None:
        """Forget what was computed from the lengths of all rows."""
        self._norms = None
        self._state += 1

    def _idf(self, term: str) -> float:
        if self.census is not None:
            known = self.census.idf.get(term)
            return _ranking.inverse_document_frequency(0, self.census.entries) if known is None else known
        return _ranking.inverse_document_frequency(self.containing(term), len(self.rows))
