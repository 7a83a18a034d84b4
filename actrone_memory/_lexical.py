"""From text to weighted terms: Unicode words, identifiers and their parts, stems. Pure; knows no store and no query.

Both sides of a search, and the hashing embedder, see text through `document_terms` and `query_terms` only.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from snowballstemmer import stemmer as snowball

IDENTIFIER_WEIGHT = 0.5
"""A whole identifier beside its parts: enough to put an exact name first, too little to drown its parts."""

EXACT_FORM_WEIGHT = 0.5
"""An accented word beside its folded form: 'résumé' ranks the exact spelling first, 'resume' finds both."""

CHARACTER_WEIGHT = 0.5
"""A single character of a script without spaces, so that a query of one character finds it."""

LONGEST_TERM = 64
"""Longer runs (base64, hashes of logs) are cut: nobody types them, and they would fill the vocabulary."""

STOPWORDS = frozenset(
    """a about above after again against all also am an and any are aren as at be because been before being below
    between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from
    further had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it
    its itself just ll m me might more most must mustn my myself no nor not now of off on once only or other our ours
    ourselves out over own re s same shall she should shouldn so some such t than that the their theirs them
    themselves then there these they this those through to too under until up ve very was wasn we were weren what
    when where which while who whom whose why will with won would wouldn you your yours yourself yourselves""".split()
)

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"  # Kana, Han, Hangul
    "\U00020000-\U0003ffff"  # Han, further planes
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_EMOJI = re.compile(
    "[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
_CHUNK = re.compile(r"[A-Za-z](?:\+\+|#)(?!\w)|[^\W_]+(?:[-_./:\\@]+[^\W_]+)*")
_JOINER = re.compile(r"[-_./:\\@]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_STEMMED_SCRIPTS = (
    ("a", "z", "english"),
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0600", "\u06ff", "arabic"),
)

_stemmers = threading.local()


@lru_cache(maxsize=2048)
def document_terms(text: str) -> dict[str, float]:
    """Terms of a stored text with their weighted counts. The dict is shared: read it only."""
    counts: dict[str, float] = {}
    for term, weight in _terms(text):
        counts[term] = counts.get(term, 0.0) + weight
    for run in _UNSPACED_RUN.findall(_compose(text)):
        for character in run if len(run) > 1 else "":
            counts[character] = max(counts.get(character, 0.0), CHARACTER_WEIGHT)
    return counts


def query_terms(text: str) -> dict[str, float]:
    """Terms of a query, each with the weight of its best occurrence: saying a word twice asks for it once."""
    weights: dict[str, float] = {}
    for term, weight in _terms(text):
        weights[term] = max(weights.get(term, 0.0), weight)
    return weights


def _compose(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _terms(text: str) -> Iterator[tuple[str, float]]:
    text = _compose(text)
    if not text.isascii():
        yield from _unspaced_terms(text)
        text = _drop_marks(_EMOJI.sub(" ", _UNSPACED_RUN.sub(" ", text)))
    for match in _CHUNK.finditer(text):
        yield from _chunk_terms(match.group())


def _unspaced_terms(text: str) -> Iterator[tuple[str, float]]:
    """Bigrams of scripts that put no spaces between words, and emoji."""
    for run in _UNSPACED_RUN.findall(text):
        if len(run) == 1:
            yield run, 1.0
        for i in range(len(run) - 1):
            yield run[i : i + 2], 1.0
    for emoji in _EMOJI.findall(text):
        yield emoji, 1.0


def _drop_marks(text: str) -> str:
    """Without the marks that have no composed form: they would split a word in the middle."""
    return "".join(c for c in text if not unicodedata.category(c).startswith("M"))


def _chunk_terms(chunk: str) -> Iterator[tuple[str, float]]:
    if chunk[-1] in "+#":
        yield chunk.lower(), 1.0
        return
    parts = [part for piece in _JOINER.split(chunk) for part in _CAMEL.split(piece) if part]
    for part in parts:
        yield from _word_terms(part.casefold())
    if len(parts) > 1:
        # One spelling for parseUserInput, parse_user_input and parse-user-input; numbers keep their points.
        whole = fold("".join(parts)) if any(part.isalpha() for part in parts) else chunk.lower()
        yield whole[:LONGEST_TERM], IDENTIFIER_WEIGHT


def _word_terms(word: str) -> Iterator[tuple[str, float]]:
    if word in STOPWORDS:
        return
    word = word[:LONGEST_TERM]
    folded = fold(stem(word))
    yield folded, 1.0
    if not word.isascii() and folded != word:
        yield word, EXACT_FORM_WEIGHT


@lru_cache(maxsize=65536)
def fold(word: str) -> str:
    """``word`` casefolded and without accents."""
    word = word.casefold()
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The Snowball stem of a casefolded word, in the language its script suggests; numbers and mixtures as they are."""
    if len(word) < 3 or not word.isalpha():
        return word
    for first, last, language in _STEMMED_SCRIPTS:
        if first <= word[0] <= last and (language != "english" or word.isascii()):
            return str(_stemmer(language).stemWord(word)) or word
    return word


def _stemmer(language: str) -> snowball:
    # A Snowball stemmer keeps the word it works on in itself, so every thread has its own.
    found = getattr(_stemmers, language, None)
    if found is None:
        found = snowball(language)
        setattr(_stemmers, language, found)
    return found
