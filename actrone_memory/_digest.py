"""A summary made of what was said, without a model: the sentences that ask, decide and name things. Pure.

Nothing is rewritten and no sentence is cut where it could lose a number or an identifier: a piece is told or left out.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from actrone_memory._lexical import document_terms, holds_unspaced
from actrone_memory._turns import CUT_MARK, cut_middle

LONGEST_DIGEST = 1_200
"""Characters: as much as a summary of 150 words, some 300 tokens."""

LONGEST_PIECE = 240
"""A sentence beyond this is taken apart where it pauses, or it would take the place of several others."""

LONGEST_MESSAGE = 6_000
"""Characters of one message that are read, half from each end; more is a document, not a thing that was said."""

MOST_PIECES = 1_000
"""Pieces that are weighed against each other, the latest ones: some hundred turns."""

ASKS = 2.5
"""Worth of what a user asks or opens with, in terms told for the first time: it says what was wanted."""

DECIDES = 4.0
"""Worth of a sentence that settles something, in such terms."""

NAMES = 1.5
"""The same for a term with a digit, a joint or an inner capital: an identifier, a version, an amount."""

MOST_NAMES = 4
"""More of them in one sentence are a listing."""

FEWEST_TERMS = 2
"""A sentence with fewer, and no name, is a greeting or a nod."""

LONGEST_NAME = 40
"""Characters; what is longer is data."""

OVERHEAD = 40
"""Characters added to the length of a piece when its worth is divided by it: short ones do not win by shortness."""

_SPEAKER = re.compile(r"^(User|Tool|Assistant): ", re.MULTILINE)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKUP = re.compile(r"^\s*(?:[-*+•>]|#{1,6}|\d{1,2}[.)])\s+|\*\*|__")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？；])|\n+")
_PAUSE = re.compile(r"(?<=[,;:])\s+|(?<=[，、：])|\s+[-–—]\s+")
_NAME = re.compile(r"\w*\d[\w.,:%/-]*|\w+(?:[-_./:\\@]\w+)+|[a-z]+[A-Z]\w*|`[^`\n]+`")
_DECISION = re.compile(
    r"\b(?:decid|agree|settle|conclu|chose|chosen|(?:go|going|went) with|let'?s (?:use|go|take|keep)|"
    r"we(?:'ll| will|'re going to| should| are going to)|from now on|instead of|no longer|must|always|never|"
    r"remember|prefer|fixed|resolved|solved|root cause|turned out|merged|deployed|released|renamed|created|added|"
    r"done|next step|todo|still open|remains|deadline|"
    r"entschied|beschlossen|geeinigt|einig|wir (?:nehmen|verwenden|nutzen|bleiben)|ab sofort|künftig|statt|nicht mehr|"
    r"muss|müssen|immer|niemals|behoben|erledigt|gelöst|noch offen|"
    r"décid|convenu|choisi|désormais|au lieu de|doit|doivent|toujours|jamais|corrigé|terminé|résolu|"
    r"decid|acord|elegid|a partir de ahora|en lugar de|debe|siempre|nunca|corregid|terminad|resuelt|"
    r"реши|договор|выбра|теперь|вместо|должн|всегда|никогда|исправ|готово)|"
    r"决定|确定|商定|同意|选择|采用|改用|不再|必须|始终|今后|完成|修复|解决|记住|統一|"
    r"決定|決め|にします|にしましょう|採用|必ず|今後|修正|完了|결정|하기로|사용하|반드시|변경|완료|수정",
    re.IGNORECASE,
)
"""Says that something was settled, or holds from now on, or is done, in the languages of most users."""


class _Piece(NamedTuple):
    place: int
    speaker: str
    text: str
    worth: float
    """Whatever was told before."""
    terms: dict[str, float]
    """What telling it adds, as long as no other piece has."""


def digest(text: str, longest: int = LONGEST_DIGEST) -> str:
    """What a conversation was about, in its own sentences and order, in at most ``longest`` characters.

    ``text`` has lines of ``Speaker: text``, as archived turns have. The first request is always in it. The same text
    gives the same digest; "" only for a blank one.
    """
    pieces = list(_pieces(text))[-MOST_PIECES:]
    return "\n".join(_lines(_chosen(pieces, longest))) or cut_middle(text.strip(), longest)


def _pieces(text: str) -> Iterator[_Piece]:
    spoken = list(_messages(text))
    common = Counter(term for _, message in spoken for term in document_terms(message) if len(term) <= LONGEST_NAME)
    places = itertools.count()
    for speaker, message in spoken:
        opens = speaker == "User"
        for sentence in _sentences(message):
            terms = {term: 1 + math.log(common[term]) for term in document_terms(sentence) if term in common}
            names = {name for name in _NAME.findall(sentence) if len(name) <= LONGEST_NAME}
            if (len(terms) < FEWEST_TERMS and not names) or CUT_MARK.strip() in sentence:
                continue
            asks = opens or (speaker == "User" and sentence[-1] in "?？")
            worth = ASKS * asks + DECIDES * bool(_DECISION.search(sentence)) + NAMES * min(len(names), MOST_NAMES)
            yield _Piece(next(places), speaker, sentence, worth, terms)
            opens = False


def _messages(text: str) -> Iterator[tuple[str, str]]:
    """What the user and the assistant said; what tools returned was not said, it was looked at."""
    begun = [*_SPEAKER.finditer(text)]
    ends = [later.start() for later in begun[1:]]
    for found, end in zip(begun, [*ends, len(text)], strict=False):
        if found[1] != "Tool":
            yield found[1], cut_middle(_CODE.sub("\n", text[found.end() : end]).strip(), LONGEST_MESSAGE)


def _sentences(message: str) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(message):
        plain = _MARKUP.sub("", sentence).strip()
        if len(plain) <= LONGEST_PIECE:
            yield from [plain] if plain else []
        else:
            yield from _joined(_PAUSE.split(plain))


def _joined(parts: Sequence[str]) -> Iterator[str]:
    """Neighbouring parts of a long sentence, as many together as `LONGEST_PIECE` allows; words where none pauses."""
    held = ""
    for part in parts:
        for word in [part] if len(part) <= LONGEST_PIECE else _words(part):
            if held and len(held) + 1 + len(word) > LONGEST_PIECE:
                yield held
                held = ""
            held = f"{held} {word}" if held else word
    if held:
        yield held


def _words(part: str) -> Iterator[str]:
    """Without what is longer than a piece, which is data, unless its script has no spaces between words."""
    for word in part.split():
        if len(word) <= LONGEST_PIECE:
            yield word
        elif holds_unspaced(word):
            yield from (word[start : start + LONGEST_PIECE] for start in range(0, len(word), LONGEST_PIECE))


def _chosen(pieces: Sequence[_Piece], longest: int) -> list[_Piece]:
    """The first request, then again and again the piece that tells most for its length; in the order of the talk."""
    waiting = [piece for piece in pieces if _cost(piece) <= longest]
    best = next((piece for piece in waiting if piece.speaker == "User"), None)
    chosen: list[_Piece] = []
    told: set[str] = set()
    room = longest
    while waiting:
        best = best or max(waiting, key=lambda piece: (_value(piece, told), -piece.place))
        if chosen and not _value(best, told):
            break
        chosen.append(best)
        told.update(best.terms)
        room -= _cost(best)
        waiting = [piece for piece in waiting if piece is not best and _cost(piece) <= room]
        best = None
    return sorted(chosen)


def _cost(piece: _Piece) -> int:
    """Characters, the speaker and the end of the line included."""
    return len(piece.speaker) + len(": ") + len(piece.text) + 1


def _value(piece: _Piece, told: set[str]) -> float:
    """By character; nothing new is worth nothing, however it is worded."""
    news = sum(worth for term, worth in piece.terms.items() if term not in told)
    return (news + piece.worth) / (len(piece.text) + OVERHEAD) if news else 0.0


def _lines(pieces: Sequence[_Piece]) -> Iterator[str]:
    """What each speaker said, on one line until another speaks."""
    for speaker, said in itertools.groupby(pieces, key=lambda piece: piece.speaker):
        yield f"{speaker}: {' '.join(piece.text for piece in said)}"
