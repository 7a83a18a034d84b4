"""From text to weighted terms: Unicode words, identifiers and their parts, stems. Pure; knows no store and no query.

Both sides of a search, and the hashing embedder, see text through `document_terms` and `query_terms` only.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from actrone_memory._wordpieces import telling

if TYPE_CHECKING:
    from snowballstemmer.basestemmer import BaseStemmer as Stemmer

IDENTIFIER_WEIGHT = 0.5
"""A whole identifier beside its parts: enough to put an exact name first, too little to drown its parts."""

EXACT_FORM_WEIGHT = 0.5
"""An accented word beside its folded form: 'résumé' ranks the exact spelling first, 'resume' finds both."""

CHARACTER_WEIGHT = 0.5
"""A single character of a script without spaces, so that a query of one character finds it."""

UNSPACED_SHARE = 0.2
"""Share of such letters from which a text is written in them: a Chinese sentence about code is half English names, and
one of its letters says as much as three of theirs."""

LONGEST_TERM = 64
"""Longer runs (base64, hashes of logs) are cut: nobody types them, and they would fill the vocabulary."""

HIGHEST_PILE = 30
"""Marks on one letter that are looked at, as in Unicode's Stream-Safe format: ordering n of them takes n squared."""

STOPWORDS = frozenset(
    """a about above after again against all also am an and any are aren as at be because been before being below
    between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from
    further had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it
    its itself just ll m me might more most must mustn my myself no nor not now of off on once only or other our ours
    ourselves out over own re s same shall she should shouldn so some such t than that the their theirs them
    themselves then there these they this those through to too under until up ve very was wasn we were weren what
    when where which while who whom whose why will with won would wouldn you your yours yourself yourselves""".split()
)

GERMAN_STOPWORDS = frozenset(
    """aber alle allem allen aller alles als am ander andere anderem anderen anderer auch auf aus bei beim bin bis bist
    da damit dann das dass dem den denn der des die dies diese diesem diesen dieser dieses doch dort du durch ein eine
    einem einen einer eines er es etwas für gegen hat haben hatte hier hin hinter ich ihr ihre im in ins ist jede
    jedem jeden jeder jedes jetzt kann kein keine keinem keinen keiner können man mehr mit muss müssen nach nicht
    nichts noch nun nur ob oder ohne sehr sein seine sich sie sind so soll sollen solche sondern sonst über um und uns
    unter viel vom von vor war waren was weil welche wenn werden wie wieder will wir wird wo zu zum zur zwischen immer
    nie niemals statt""".split()
)

GENERIC_WORDS = frozenset(
    """one two three four five six seven eight nine ten first second third last next new old other another many much
    several few lot bit whole half big small large little good bad better best great nice right wrong real sure able
    available possible different main general add make made do get got getting give take took put set let go goes
    going come keep kept use used using write written writing need needed want wanted try tried look looking show find
    found see seen know think say tell ask help work working start started stop begin end finish call called happen
    seem become bring buy hold move turn leave mean plan prepare decide choose pick send way thing things something
    someone anyone everyone anything nothing everything kind sort part place point case time times today tomorrow
    yesterday day days week weeks month months year years hour minute people person team hand hands side top back line
    long short high low early late soon still even already yet ever never always often sometimes maybe please thanks
    hello really quite rather actually currently without within across along around per via etc like well worth idea
    question answer problem reason neu neue neuer neues neuen alt alte ganz gut wenig erst letzte nächste machen gehen
    geben nehmen brauchen sache ding tag woche monat jahr zeit leute frage idee""".split()
)
"""Words that tasks are worded with whatever they are about: as part of a query they count little."""

GENERIC_WEIGHT = 0.2

_GERMAN_MARKERS = frozenset(
    """auf aus bei das dem der des dürfen ein eine einen für im ist kann kein keine mit muss nach nicht nur oder sich
    sind soll und vom von werden wie wir wird zu zum zur über""".split()
)
"""German function words that are no English words ("die", "den", "was" are)."""

_GERMAN_SHARE = 0.12
"""Share of German function words from which a text counts as German."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"  # Kana, Han, Hangul
    "\U00020000-\U0003ffff"  # Han, further planes
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_HIRAGANA = re.compile("[\u3040-\u309f]+")
"""Japanese writes endings and particles in it, what a sentence is about mostly in other characters."""

_EMOJI = re.compile(
    "[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
_CHUNK = re.compile(r"[^\W_]+(?:[-_./:\\@]+[^\W_]+)*(?:\+\+|#(?![A-Za-z_]))?")
_JOINER = re.compile(r"[-_./:\\@]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_JOINT = re.compile(r"(?<=[^\W\d_])[_./:\\@]+(?=[^\W\d_])")
"""Between letters: where a path or an identifier has its joints, and an amount or a version has none."""

_STEMMED_SCRIPTS = (
    ("a", "z", "english"),
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0600", "\u06ff", "arabic"),
)

_stemmers = threading.local()


def document_terms(text: str) -> dict[str, float]:
    """Terms of a stored text with their weighted counts."""
    counts: dict[str, float] = {}
    for term, weight, _ in _terms(text):
        counts[term] = counts.get(term, 0.0) + weight
    for run in _UNSPACED_RUN.findall(compose(text)):
        for character in run if len(run) > 1 else "":
            counts[character] = max(counts.get(character, 0.0), CHARACTER_WEIGHT)
    return counts


def query_terms(text: str, *, generic_words: bool) -> dict[str, float]:
    """Terms of a query, each with the weight of its best occurrence: saying a word twice asks for it once.

    Without ``generic_words`` the words that any task is worded with count little, and others as much as they tell.
    """
    weights: dict[str, float] = {}
    for term, weight, word in _terms(text):
        if not generic_words:
            generic = word in GENERIC_WORDS or _HIRAGANA.fullmatch(term)
            weight *= GENERIC_WEIGHT if generic else telling(word)
        weights[term] = max(weights.get(term, 0.0), weight)
    return weights


def in_words(text: str) -> str:
    """``text`` as one would read it out: identifiers and paths taken apart, without marks of code.

    Sentence models have learnt words; what they make of ``toUserZone`` has little to do with a user's zone.
    """
    return _CAMEL.sub(" ", _JOINT.sub(" ", text.replace("`", "")))


def holds_unspaced(text: str) -> bool:
    """Whether any letter of ``text`` belongs to a script without spaces between words."""
    return not text.isascii() and _UNSPACED_RUN.search(text) is not None


def is_unspaced(text: str) -> bool:
    """Whether ``text`` is written in a script without spaces between words, names in other letters included."""
    if text.isascii():
        return False
    unspaced = sum(map(len, _UNSPACED_RUN.findall(text)))
    return unspaced > UNSPACED_SHARE * sum(character.isalpha() for character in text)


def compose(text: str) -> str:
    """``text`` in NFKC; of a pile of marks on one letter only as many as any language puts there."""
    return text if text.isascii() else unicodedata.normalize("NFKC", _without_piled_marks(text))


def _without_piled_marks(text: str) -> str:
    kept, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= HIGHEST_PILE:
            kept.append(character)
    return "".join(kept)


def _terms(text: str) -> Iterator[tuple[str, float, str]]:
    """Every term with its weight and the casefolded word it was made of."""
    text = compose(text)
    if not text.isascii():
        yield from _unspaced_terms(text)
        text = _drop_marks(_EMOJI.sub(" ", _UNSPACED_RUN.sub(" ", text)))
    german = is_german(text)
    for chunk in _CHUNK.findall(text):
        # Long ones do not come again, and would fill what is remembered.
        yield from remembered_terms(chunk, german) if len(chunk) <= LONGEST_TERM else _chunk_terms(chunk, german)


def is_german(text: str) -> bool:
    """Whether ``text`` has an umlaut, or as large a share of German function words as German has."""
    folded = text.casefold()
    if re.search("[äöüß]", folded):
        return True
    words = re.findall(r"[^\W\d_]+", folded)
    return sum(word in _GERMAN_MARKERS for word in words) >= max(1, _GERMAN_SHARE * len(words))


def _unspaced_terms(text: str) -> Iterator[tuple[str, float, str]]:
    """Bigrams of scripts that put no spaces between words, and emoji."""
    for run in _UNSPACED_RUN.findall(text):
        if len(run) == 1:
            yield run, 1.0, run
        for i in range(len(run) - 1):
            yield run[i : i + 2], 1.0, run
    for emoji in _EMOJI.findall(text):
        yield emoji, 1.0, emoji


def _drop_marks(text: str) -> str:
    """Without the marks that have no composed form: they would split a word in the middle."""
    return "".join(c for c in text if not unicodedata.category(c).startswith("M"))


@lru_cache(maxsize=16384)
def remembered_terms(chunk: str, german: bool) -> tuple[tuple[str, float, str], ...]:
    """The terms of a word, which comes again and again: to make them takes half of the time of a query's analysis."""
    return tuple(_chunk_terms(chunk, german))


def _chunk_terms(chunk: str, german: bool) -> Iterator[tuple[str, float, str]]:
    bare = chunk.rstrip("+#")
    parts = [part for piece in _JOINER.split(bare) for part in _CAMEL.split(piece) if part]
    if bare != chunk and len(parts[-1]) == 1:
        # C++ and C# are other things than C; of count++ only the word counts.
        parts[-1] += chunk[len(bare) :]
    for part in parts:
        yield from _word_terms(part.casefold(), german=german)
    if len(parts) > 1:
        # One spelling for parseUserInput, parse_user_input and parse-user-input; numbers keep their points.
        whole = fold("".join(parts)[:LONGEST_TERM]) if any(part.isalpha() for part in parts) else bare.lower()
        yield whole[:LONGEST_TERM], IDENTIFIER_WEIGHT, whole


def _word_terms(word: str, *, german: bool) -> Iterator[tuple[str, float, str]]:
    if word in STOPWORDS or (german and word in GERMAN_STOPWORDS):
        return
    word = word[:LONGEST_TERM]
    folded = fold(stem(word, german=german)) if german or not fold(word).isascii() else stem(fold(word))
    yield folded, 1.0, word
    if not word.isascii() and folded != word:
        yield word, EXACT_FORM_WEIGHT, word


@lru_cache(maxsize=65536)
def fold(word: str) -> str:
    """``word`` casefolded and without accents."""
    word = word.casefold()
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


@lru_cache(maxsize=65536)
def stem(word: str, *, german: bool = False) -> str:
    """The Snowball stem of a casefolded word, in the language its script suggests; numbers and mixtures as they are."""
    if len(word) < 3 or not word.isalpha():
        return word
    language = "german" if german else _language_of(word)
    return str(_stemmer(language).stemWord(word)) or word if language else word


def _language_of(word: str) -> str | None:
    """The language whose stemmer fits the script of ``word``; None for a script, or an accented word, without one."""
    language = next((name for first, last, name in _STEMMED_SCRIPTS if first <= word[0] <= last), None)
    return None if language == "english" and not word.isascii() else language


def _stemmer(language: str) -> Stemmer:
    # A Snowball stemmer keeps the word it works on in itself, so every thread has its own.
    found = getattr(_stemmers, language, None)
    if found is None:
        # Imported with the first word: it would be a fifth of the time that importing this package takes.
        from snowballstemmer import stemmer

        found = stemmer(language)
        setattr(_stemmers, language, found)
    return found
