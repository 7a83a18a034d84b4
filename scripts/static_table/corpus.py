"""The sentences that the table is trained on: docstrings and descriptions of permissive packages, and WordNet.

Every sentence stands once; the order depends on nothing but the sentences.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from email.parser import Parser
from pathlib import Path

SHORTEST, LONGEST = 20, 300
"""Characters of a sentence: shorter ones are headings, longer ones lists that no sentence pattern split."""

FEWEST_WORDS = 4
LEAST_LETTERS = 0.65
"""Share of letters: below it stand tables, paths and code."""

MOST_OF_ONE_PACKAGE = 1_500
"""Generated clients would drown the others: one cloud provider has more docstrings than all frameworks together."""

LARGEST_MODULE = 150_000
EXAMPLES, GLOSSES = 18_000, 12_000
"""Sentences taken from WordNet."""

_PARAGRAPH = re.compile(r"\n\s*\n|\n\s*(?=[-*+] |\d+\. |#|:param|:return|:raise)")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`\"'(])")
_MARKUP = (
    (re.compile(r"```.*?```", re.DOTALL), "\n\n"),
    (re.compile(r"<[^>\n]{1,200}>"), " "),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), " "),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r":[a-z:]+:`~?([^`<]*?)(?: <[^>]*>)?`"), r"`\1`"),
    (re.compile(r"^\s*\.\. .*$", re.MULTILINE), ""),
    (re.compile(r"https?://\S+"), ""),
    (re.compile(r"\*\*|``"), ""),
)


def technical_sentences(wheels: Iterable[Path]) -> list[str]:
    """Sentences of the wheels' docstrings, descriptions and bundled documents, shuffled by their hash."""
    found: dict[str, str] = {}
    for wheel in sorted(wheels):
        own = {_key(sentence): sentence for text in _texts(wheel) for sentence in _sentences(text)}
        for key in _shuffled(own.keys() - found.keys())[:MOST_OF_ONE_PACKAGE]:
            found[key] = own[key]
    return [found[key] for key in _shuffled(found)]


def wordnet_sentences(folder: Path) -> list[str]:
    """Example sentences and definitions of WordNet's ``data.*`` files, shuffled by their hash."""
    examples: dict[str, str] = {}
    glosses: dict[str, str] = {}
    for file in sorted(folder.glob("data.*")):
        for line in file.read_text(encoding="utf-8", errors="ignore").splitlines():
            if not line.startswith("  "):
                words, quoted, gloss = _synset(line)
                examples |= {_key(text): text for text in quoted if text.count(" ") >= 2}
                if all(word.islower() or " " in word for word in words):
                    text = f"{', '.join(words[:4])}: {gloss[:200]}"
                    glosses[_key(text)] = text
    chosen = [examples[key] for key in _shuffled(examples)[:EXAMPLES]]
    chosen += [glosses[key] for key in _shuffled(glosses)[:GLOSSES]]
    return _shuffled(chosen)


def _synset(line: str) -> tuple[list[str], list[str], str]:
    """Words, quoted examples and definition of one line of a data file (see WordNet's wndb(5))."""
    head, _, text = line.partition(" | ")
    fields = head.split()
    words = [re.sub(r"\(.*\)", "", fields[4 + 2 * i]).replace("_", " ") for i in range(int(fields[3], 16))]
    return words, re.findall(r'"([^"]{12,200})"', text), re.sub(r';?\s*"[^"]*"', "", text).strip().rstrip(";")


def _texts(wheel: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            lower = name.lower()
            if "/_vendor/" in lower:
                continue
            if lower.endswith(".dist-info/metadata"):
                yield str(Parser().parsestr(archive.read(name).decode(errors="ignore")).get_payload())
            elif lower.endswith((".md", ".rst")) and "license" not in lower:
                yield archive.read(name).decode(errors="ignore")
            elif lower.endswith(".py") and "/test" not in lower and archive.getinfo(name).file_size <= LARGEST_MODULE:
                yield from _docstrings(archive.read(name))


def _docstrings(source: bytes) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def _sentences(text: str) -> Iterator[str]:
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    for paragraph in _PARAGRAPH.split(text):
        if not paragraph.lstrip().startswith(">>>"):
            for sentence in _SENTENCE_END.split(re.sub(r"\s+", " ", paragraph)):
                sentence = sentence.strip(" -*#>|=~")
                if _is_prose(sentence):
                    yield sentence


def _is_prose(sentence: str) -> bool:
    long_enough = SHORTEST <= len(sentence) <= LONGEST and sentence.count(" ") >= FEWEST_WORDS - 1
    letters = sum(character.isalpha() and character.isascii() for character in sentence)
    return long_enough and letters >= LEAST_LETTERS * len(sentence) and not re.search(r"[{}<>]{2}|\||::", sentence)


def _key(sentence: str) -> str:
    return re.sub(r"\W+", "", sentence.lower())


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _shuffled(texts: Iterable[str]) -> list[str]:
    return sorted(texts, key=_digest)
