"""When a newer memory takes the place of an older one, told from both alone, without a model. Pure.

Hiding is for the clear case: the new text says that something the old one builds on is gone, or repeats it with another
number. Likeness alone never hides; it only puts the newer of two memories about the same matter before the older.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import dropwhile, islice
from typing import NamedTuple

from actrone_memory import _cues
from actrone_memory._lexical import compose, fold, stem
from actrone_memory._statements import EMPTY_WORDS, HAN, LONGEST_STATEMENT, content_words, ordinary_stems
from actrone_memory.models import MemoryEntry

MOST_OWN_WORDS = 6
"""A memory with more words of its own tells more than the new one answers, so it stays."""

MOST_OWN_WORDS_UNLINKED = 3
"""The same where the new text names no matter: "we moved from X to Y" ends "unit tests run with X"."""

WORDS_TO_A_VERSION = 3
"""How far before a version the word may stand that tells of it: "runs on Python 3.9"."""

MOST_FAREWELLS = 8
"""More than a statement says, and an end to what a hostile text can cost."""

_MEASURED_WORD = re.compile(rf"{_cues.NAME}|[{HAN}]+")
_NAME = re.compile(_cues.NAME)
_MARKS = re.compile('[`"“”„«»*]')
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[;。；！？\n]")
_CLAUSE_END = re.compile(
    rf"[:,](?:\s|(?=(?-i:[{HAN}])))|{_cues.REASON.pattern}|\bbut\b|\bsondern\b|而是", re.IGNORECASE
)
"""A comma, a colon, the reason or what came instead: what follows the news there narrows nothing."""
_LOOKS_LIKE_A_NAME = re.compile(r"[A-Z]|\d|.[-./_:@#+]|^@")


class Farewell(NamedTuple):
    """What a text says is gone: the name's key, what came instead, the matter it is said of, and the words used."""

    name: tuple[str, ...]
    successor: tuple[str, ...]
    matter: frozenset[str]
    contrast: bool
    words: str
    looks_like_a_name: bool


class _Measure(NamedTuple):
    """The words of a text with its numbers taken out, the numbers, and which of them are measures, not labels."""

    frame: tuple[str, ...]
    numbers: tuple[str, ...]
    measured: frozenset[int]


class Update(NamedTuple):
    """What a new text says that may end older memories."""

    told: frozenset[str]
    tags: frozenset[str]
    farewells: tuple[Farewell, ...]
    measure: _Measure | None


def update_of(entry: MemoryEntry) -> Update | None:
    """What ``entry`` may end; None for most texts, and for those too long for a statement. Cheap, so ask it first."""
    if len(entry.content) > LONGEST_STATEMENT:
        return None
    text = _plain(entry.content)
    farewells, measure = tuple(islice(_farewells(text), MOST_FAREWELLS)), _measure(text)
    if not farewells and measure is None:
        return None
    return Update(frozenset(content_words(text)), frozenset(entry.topic_tags), farewells, measure)


def why_replaced(old: MemoryEntry, update: Update) -> str | None:
    """Why ``old`` no longer holds after ``update``, in words for a reader; None when both may hold.

    Memories that each have a tag which the other lacks speak of other matters, and never replace each other.
    """
    tags = frozenset(old.topic_tags)
    if (tags - update.tags and update.tags - tags) or len(old.content) > LONGEST_STATEMENT:
        return None
    text = _plain(old.content)
    for farewell in update.farewells:
        if _ends(farewell, text, update.told):
            return f"the newer memory says: {farewell.words}"
    numbers = _changed_number(_measure(text), update.measure) if update.measure else None
    return numbers and f"only a number changed: {numbers}"


# --- what is gone -----------------------------------------------------------------------------------------------------


def _farewells(text: str) -> Iterator[Farewell]:
    """Everything that ``text`` says is gone, without what is planned, conditional or denied."""
    folded = text.casefold()
    said = [manner for manner in _cues.MANNERS if any(hint in folded for hint in manner.hints)]
    if not said or _cues.LINGERING.search(text):
        return
    for sentence in _SENTENCE_END.split(text):
        for manner in said:
            for found in (match for pattern in manner.compiled() for match in pattern.finditer(sentence)):
                farewell = _farewell(sentence, found, manner.contrast)
                if farewell.name and not _in_doubt(sentence, found) and not _upheld(farewell, text):
                    yield farewell


def _upheld(farewell: Farewell, text: str) -> bool:
    """Whether the same text affirms what it says is gone: "we moved from Jest to Vitest, snapshots use Jest"."""
    rest = text.replace(farewell.words, ".", 1)
    place = _named(farewell.name, rest)
    return place is not None and not _rejected(rest, place)


def _farewell(sentence: str, found: re.Match[str], contrast: bool) -> Farewell:
    return Farewell(
        name=_key(found["old"]),
        successor=_key(found.groupdict(default="").get("new", "")),
        matter=_matter(sentence, found),
        contrast=contrast,
        words=found.group().strip(),
        looks_like_a_name=_looks_like_a_name(sentence, *found.span("old")),
    )


def _in_doubt(sentence: str, found: re.Match[str]) -> bool:
    """Whether the sentence speaks of a plan, a condition, a part only, or of something it points at."""
    named = sentence[: found.end("old")].split(" ")[-1 - len(found["old"].split()) :]
    if _cues.POINTING.search(" ".join(named)):
        return True
    said_before = f"{sentence[: found.start()]} {_object(found)} {found['old']}"
    return bool(_cues.UNCERTAIN.search(said_before) or _cues.PARTIAL.search(sentence, found.end()))


def _object(found: re.Match[str]) -> str:
    """What the cue says it of, within its own words: "all dates" in "moved all dates from"."""
    return found.groupdict(default="").get("object", "")


def _plain(text: str) -> str:
    """``text`` in one form of its characters, without marks of code, quotation and emphasis."""
    return _MARKS.sub("", compose(text).replace("’", "'"))


def _key(name: str) -> tuple[str, ...]:
    """``name`` in the form in which names are compared; () for words that name nothing."""
    words = dropwhile(lambda word: word.casefold() in EMPTY_WORDS, _NAME.findall(name))
    keys = [stem(fold(word).removesuffix(".js")) for word in words]
    return () if set(keys) <= ordinary_stems() else tuple(keys)


def _matter(sentence: str, found: re.Match[str]) -> frozenset[str]:
    """What the sentence says it of: all but the cue itself, up to the end of the clause."""
    before = sentence[: found.start()]
    clause = 0 if "," in sentence[found.start() : found.start("old")] else len(before.rpartition(",")[2])
    earlier = _cues.SUCCESSOR.sub(lambda came: came["before"], before[: len(before) - clause])
    end = _CLAUSE_END.search(sentence, found.end())
    after = sentence[found.end() : end.start() if end else None]
    return frozenset(content_words(f"{earlier} {before[len(before) - clause :]} {_object(found)}")) | _limits(after)


def _limits(after: str) -> frozenset[str]:
    """What the news is limited to: here "for calls" and "in the tools repo" say something, "everywhere" does not."""
    words = (stem(fold(word)) for word in _NAME.findall(after) if word.casefold() not in EMPTY_WORDS)
    return frozenset(content_words(after)) | {word for word in words if word not in _cues.whole_stems()}


# --- whether it ends the older memory ---------------------------------------------------------------------------------


def _ends(farewell: Farewell, old: str, told: frozenset[str]) -> bool:
    """Whether ``old`` builds on what is gone, and speaks of nothing beyond the matter that it is said of.

    ``told`` holds all content words of the new text.
    """
    place = _named(farewell.name, old)
    if place is None or not _stands(old, place) or not _is_name(farewell, old, place):
        return False
    if farewell.successor and _named(farewell.successor, old):
        return False
    rest = f"{old[: place[0]]} {old[place[1] :]}"
    about = content_words(rest)
    if not all(_speaks_of(word, about, rest) for word in farewell.matter):
        return False
    if farewell.contrast or not _builds_on(old[: place[0]]):
        return farewell.matter.issuperset(about)
    return _same_subject(old, place, about, told)


def _speaks_of(word: str, about: list[str], text: str) -> bool:
    """Whether the word is among the content words; two Chinese characters may stand apart, where words are joined."""
    return word in about or (word[0] >= HAN[0] and set(word) <= set(text))


def _is_name(farewell: Farewell, old: str, place: tuple[int, int]) -> bool:
    """Whether what is gone looks like a name in either text, or stands where tools do: "run with unittest"."""
    if farewell.looks_like_a_name or _looks_like_a_name(old, *place):
        return True
    return bool(_cues.INSTRUMENT.search(old[: place[0]]) and _cues.AFTER_NAME.match(old[place[1] :]))


def _named(name: tuple[str, ...], text: str) -> tuple[int, int] | None:
    """Where ``text`` has exactly this name, not a longer one such as jest-axe or React Router."""
    found = list(_NAME.finditer(text))
    keys = [stem(fold(word.group()).removesuffix(".js")) for word in found]
    size = len(name)
    for i in range(len(keys) - size + 1):
        if tuple(keys[i : i + size]) == name and not _continues(text, found[i + size - 1].end()):
            return found[i].start(), found[i + size - 1].end()
    return None


def _continues(text: str, end: int) -> bool:
    return re.match(r" [A-Z0-9]", text[end : end + 2]) is not None


def _stands(text: str, place: tuple[int, int]) -> bool:
    """Whether ``text`` is a standing rule that affirms what is named there."""
    limited = _cues.LINGERING.search(text) or _cues.LIMITED.search(text) or _cues.PAST.search(text)
    return not limited and not _rejected(text, place)


def _rejected(text: str, place: tuple[int, int]) -> bool:
    return bool(_cues.REJECTED.search(text[: place[0]]) or _cues.REFUSED.search(text[place[1] :]))


def _looks_like_a_name(text: str, start: int, end: int) -> bool:
    """Capitals, digits or joints; the capital that every sentence begins with tells nothing."""
    opens_sentence = re.search(r"[.:;!?。；！？]\s*$|^\s*$", text[:start])
    return bool(_LOOKS_LIKE_A_NAME.search(text[start + bool(opens_sentence) : end]))


def _builds_on(before: str) -> bool:
    """Whether a name after ``before`` is what is used, or what something is; not a place, or something liked."""
    return not before.strip() or _cues.BUILT_ON.search(before) is not None


def _same_subject(old: str, place: tuple[int, int], about: list[str], told: frozenset[str]) -> bool:
    """Whether the new text names what ``old`` is about, or ``old`` says little more than that it uses what is gone."""
    own = set(about) - told
    subject = content_words(_cues.SUBJECT_END.split(old[: place[0]], maxsplit=1)[0])
    if subject and told.issuperset(subject[-1:]):
        return len(own) <= MOST_OWN_WORDS
    return len(own) <= MOST_OWN_WORDS_UNLINKED and not _cues.LOCATIVE.search(old)


# --- another number ---------------------------------------------------------------------------------------------------


def _changed_number(before: _Measure | None, after: _Measure) -> str | None:
    """ "100 -> 120" when the two texts differ in one measured number and in nothing else."""
    if before is None or before.frame != after.frame:
        return None
    changed = [i for i, (was, now) in enumerate(zip(before.numbers, after.numbers, strict=True)) if was != now]
    if len(changed) != 1 or changed[0] not in after.measured:
        return None
    return f"{before.numbers[changed[0]]} -> {after.numbers[changed[0]]}"


def _measure(text: str) -> _Measure | None:
    """None for a text that measures nothing, for the past, and for conditions, which may hold side by side."""
    if not _has_number(text) or _cues.CONDITION.search(text) or _cues.PAST.search(text):
        return None
    words = list(_measured_words(text))
    numbers = {place: number for place, word in enumerate(words) if (number := _cues.A_NUMBER.fullmatch(word))}
    measured = frozenset(i for i, place in enumerate(numbers) if _is_measured(words, place))
    if not measured:
        return None
    frame = (f"#{numbers[place]['unit']}" if place in numbers else word for place, word in enumerate(words))
    values = tuple(number["value"] for number in numbers.values())
    return _Measure(tuple(word for word in frame if word not in _cues.FILLERS), values, measured)


def _is_measured(words: list[str], place: int) -> bool:
    """Whether the word before tells that the number there measures: after a noun it is a label, as in "port 443".

    A number with a point is a version, which stands after a name: "runs on Python 3.9".
    """
    near = words[max(0, place - (WORDS_TO_A_VERSION if "." in words[place] else 1)) : place]
    return any(_cues.MEASURING.search(word) for word in near)


def _has_number(text: str) -> bool:
    if re.search(r"\d", text) or not _cues.NUMBER_WORDS.keys().isdisjoint(fold(text).split()):
        return True
    return not text.isascii() and _cues.HAN_NUMERAL.search(text) is not None


def _measured_words(text: str) -> Iterator[str]:
    """The words in one form; number words as digits."""
    for found in _MEASURED_WORD.finditer(_cues.HAN_NUMERAL.sub(lambda m: _cues.NUMBER_WORDS[m.group()], text)):
        word = found.group()
        if word != "a":  # "plan A" is no article
            folded = fold(word)
            yield _cues.SAME_WORDS.get(folded, folded)
