"""How the lines of a rules file are read: a sentence, an introduction, a title, or nothing to remember. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

LONGEST_LEAD = 80
"""Characters of an introduction ("Before you commit:") that is repeated in front of each item of its list."""

LONGEST_LABEL = 24
"""Characters of an item ("Backend") that only names those nested in it; three words at most."""

LONGEST_PARAGRAPH = 300
"""Characters of a paragraph that is one rule; a longer one is divided between its sentences."""

LONGEST_TAG = 80
LONGEST_HEADING = 4 * LONGEST_TAG
"""Characters of a heading that are looked at for a tag."""

_COLONS = (":", "：")
_COMMAS = (",", "，", "、")
_EMPHASISED = re.compile(r"(\*\*|__)([^*_]+)\1")
_SENTENCE_END = re.compile(r"[.!?:;。！？：；…][*_`\"')\]]*$")
_BETWEEN_SENTENCES = re.compile(r"(?<=[\w`)\"'*][\w`)\"'*][.!?])\s+(?=[^\sa-zà-ÿ])|(?<=[。！？])\s*(?=\S)")
_BULLET = re.compile(r"^[・•◦▪‣●○–—]\s*")
_NAMED = re.compile(r"[^:]{1,40}: \S")
_DEFINITION = re.compile(r"[ \t]*\n:[ \t]+")
_REFERENCE = re.compile(r"^(?:[-*+][ \t]+)?@[\w~./-]+$")
_ALERT = re.compile(r"^\[!\w+\][ \t]*")
_PICTURES_AND_JUMPS = re.compile(r"\[?!\[[^\[\]]*\]\([^()]*\)(?:\]\([^()]*\))?|\[[^\[\]]*\]\(#[^()]*\)")
_WORD = re.compile(r"\w")
_NUMBERING = r"(?:\d+(?:\.\d+)*[.)]?\s+|[一二三四五六七八九十]+[、．.]\s*)"
_DECORATION = re.compile(rf"^[^\w]*{_NUMBERING}?[^\w]*|[*`]+|[^\w\s+#)]+\s*$")
_FILE_NAME = re.compile(r"\S+\.(?:md|mdc|mdx|rst|txt)")
_NEGATION = re.compile(
    r"\b(?:don['’]?ts?|do nots?|never|not|no|avoid\w*|without|anti-?patterns?|forbidden|prohibited|disallowed|bad|wrong"
    r"|incorrect|deprecated|nicht|nie|kein\w*|verboten\w*|vermeiden|jamais|interdit\w*|éviter|nunca|evitar|prohibido\w*)\b"
    r"|[❌🚫⛔]|禁止|不要|不得|避免|切勿|ない(?:こと)?$|ダメ",
    re.IGNORECASE,
)


def says_something(text: str) -> bool:
    """Whether there is more in ``text`` than pictures, and links to places in the same file."""
    return _WORD.search(_PICTURES_AND_JUMPS.sub("", text)) is not None


def lines_of(paragraph: str) -> str:
    """The lines of a paragraph that say something themselves: no references to other files, no marks of alerts."""
    lines = [_ALERT.sub("", line.strip()) for line in paragraph.split("\n")]
    return _DEFINITION.sub(": ", "\n".join(line for line in lines if line and not _REFERENCE.match(line)))


def statements(paragraph: str) -> Iterator[str]:
    """What a paragraph states: one rule, or one for each line where each is meant to stand alone.

    A short introduction leads each line after it; alone it states nothing.
    """
    lines = paragraph.split("\n")
    leads = len(lines) > 1 and (introduces(lines[0]) or emphasised(lines[0])) and _stand_alone(lines[1:])
    lead = lines.pop(0) if leads else ""
    for text in _bulleted(lines) or (lines if _stand_alone(lines) else [" ".join(lines)]):
        if text and not introduces(text):
            yield from _in_pieces(led(lead, text))


def introduces(text: str) -> bool:
    """Whether ``text`` is short and announces what follows it."""
    return len(text) <= LONGEST_LEAD and announces(text)


def emphasised(text: str) -> str:
    """What stands between the marks of a title that is bold from end to end; "" when ``text`` is none."""
    found = _EMPHASISED.fullmatch(text)
    return found.group(2) if found and names(text) else ""


def announces(text: str) -> bool:
    """Whether ``text`` ends in a colon, emphasised or not."""
    return text.rstrip("*_ ").endswith(_COLONS)


def names(text: str) -> bool:
    """Whether ``text`` is a title rather than a sentence."""
    return 0 < len(text) <= LONGEST_LEAD and not _SENTENCE_END.search(text)


def labels(text: str) -> bool:
    """Whether ``text`` is so short that it only names what is nested in it."""
    return names(text) and len(text) <= LONGEST_LABEL and len(text.split()) <= 3


def forbids(heading: str) -> bool:
    """Whether what stands under ``heading`` means the contrary without it: "Don't", "Anti-patterns", "禁止"."""
    return len(heading) <= LONGEST_LEAD and _NEGATION.search(heading) is not None


def led(lead: str, text: str) -> str:
    """``text`` after what introduces it."""
    return f"{as_lead(lead)} {text}".strip() if text else ""


def as_lead(text: str) -> str:
    """``text`` as an introduction: with a colon."""
    return text if not text or announces(text) else f"{text.rstrip('.')}:"


def tag(heading: str) -> str:
    """A heading as a tag: lower case, without numbering and decoration; "" for the name of a file."""
    plain = " ".join(_DECORATION.sub(" ", heading[:LONGEST_HEADING]).split()).casefold()
    return "" if _FILE_NAME.fullmatch(plain) else plain[:LONGEST_TAG].strip()


def _stand_alone(lines: Sequence[str]) -> bool:
    """Whether each line is meant for itself, and the paragraph is no text that was wrapped at a margin."""
    if all(map(_BULLET.match, lines)) or all(map(_NAMED.match, lines)):
        return True
    if any(line[:1].islower() for line in lines[1:]) or any(line.endswith(_COMMAS) for line in lines[:-1]):
        return False
    # Text that was wrapped ends in a sentence's end, and breaks only where the next word does not fit.
    if all(map(_SENTENCE_END.search, lines)) or not _SENTENCE_END.search(lines[-1]):
        return True
    width = max(map(len, lines))
    early = [len(line) + 1 + len(after.split()[0]) <= width for line, after in pairwise(lines)]
    return 2 * sum(early) >= len(early)


def _bulleted(lines: Sequence[str]) -> list[str]:
    """The items of a list whose bullets Markdown does not know; [] when it is none."""
    found: list[str] = []
    for line in lines if _BULLET.match(lines[0]) else []:
        if _BULLET.match(line):
            found.append(_BULLET.sub("", line))
        else:
            found[-1] = f"{found[-1]} {line}"
    return found


def _in_pieces(text: str) -> Iterator[str]:
    """Whole sentences, as many as fit into a rule."""
    if len(text) <= LONGEST_PARAGRAPH:
        yield text
        return
    begin = end = 0
    for after in [*(match.end() for match in _BETWEEN_SENTENCES.finditer(text)), len(text)]:
        if begin < end and after - begin > LONGEST_PARAGRAPH:
            yield text[begin:end].rstrip()
            begin = end
        end = after
    yield text[begin:]
