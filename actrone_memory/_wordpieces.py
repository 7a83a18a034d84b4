"""The table that comes with the package: WordPieces, a vector each, and how much a word says. Pure.

``scripts/static_table`` makes the table from a sentence encoder, and says what it was made of. It is read on first use.
"""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import IO, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLE = "static_table.npz"
"""The table's file in the package."""

LONGEST_WORD = 100
"""Longer words have no pieces, as in BERT's tokenizer: they are data, not language."""

REMEMBERED_WORDS = 65_536

FRAGMENTS = 3
"""Pieces of a word from which it is no word that the table knows, but a name, a foreign word or data."""

LEAST_LETTERS, LEAST_WORDS, FOREIGN_SHARE = 4, 3, 0.5
"""A text is in a language that the table does not know when more than this share of its words of so many letters are
fragments, if it has so many of them: a tenth is in English texts about code, most in German ones. The pieces of foreign
words are spelled like others and mean nothing."""

CODE_LIMIT = 7
"""Codes of 4 bits run from -7 to 7; they are stored with 8 added, two in a byte, the first in the lower half."""

TELLING, EMPTY = 0.67, 0.33
"""Lengths of a word's vector, in medians of all pieces, from which a word counts fully and below which hardly. The
training made the vectors of words that decide the meaning of sentences long: of "appear" .5, of "test" 1.05."""

LEAST_TELLING = 0.2

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]|[^\W_]{2,}|\d")
_DIGIT = re.compile(r"\d")
_DATA = re.compile(r"(?<![\w-])(?=[\w-]*\d)[\w-]{20,}")
"""Hashes, tokens and the like: long, with a digit."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class StaticTable:
    """WordPieces with a vector each, and the background of the cosines of unrelated texts.

    ``codes`` (pieces, dimensions) are whole numbers from -7 to 7, ``scales`` (pieces,) what one step is worth.
    """

    def __init__(
        self,
        pieces: list[str],
        codes: NDArray[np.int8],
        scales: NDArray[np.float16],
        background: tuple[float, float],
    ) -> None:
        self.pieces, self.codes, self.scales, self.background = pieces, codes, scales, background
        self._vectors = codes.astype(np.float32) * scales.astype(np.float32)[:, None]
        self._tokenizer = WordPieces(pieces)
        self._usual_length = float(np.median(np.linalg.norm(self._vectors, axis=1)))

    @classmethod
    def load(cls, file: IO[bytes]) -> StaticTable:
        """Read what `save` wrote."""
        with np.load(file) as arrays:
            packed, scales = arrays["codes"], arrays["scales"]
            pieces = arrays["pieces"].tobytes().decode().split("\n")
            mean, deviation = arrays["background"].tolist()
        codes = np.empty((len(packed), 2 * packed.shape[1]), np.int8)
        codes[:, 0::2], codes[:, 1::2] = packed & 15, packed >> 4
        return cls(pieces, codes - np.int8(CODE_LIMIT + 1), scales, (mean, deviation))

    def save(self, file: IO[bytes]) -> None:
        """Write the table as an ``npz`` archive; the same table gives the same bytes."""
        shifted = (self.codes + CODE_LIMIT + 1).astype(np.uint8)
        np.savez_compressed(
            file,
            codes=shifted[:, 0::2] | shifted[:, 1::2] << 4,
            scales=self.scales,
            pieces=np.frombuffer("\n".join(self.pieces).encode(), np.uint8),
            background=np.array(self.background, np.float32),
        )

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return int(self.codes.shape[1])

    def vector(self, text: str) -> NDArray[np.float32]:
        """The sum of the vectors of the pieces of ``text`` at length 1.

        Zero for a text without known pieces, and for one in another language than the table's.
        """
        spoken = words(text)
        numbers = [] if self._is_foreign(spoken) else self._tokenizer.numbers(spoken)
        total: NDArray[np.float32] = self._vectors[numbers].sum(axis=0)
        length = float(np.sqrt(total @ total))
        return total / np.float32(length) if length else total

    def _is_foreign(self, spoken: list[str]) -> bool:
        long = [self._tokenizer.of(word) for word in spoken if len(word) >= LEAST_LETTERS and word.isalpha()]
        fragments = sum(not 0 < len(pieces) < FRAGMENTS for pieces in long)
        return fragments >= LEAST_WORDS and fragments > FOREIGN_SHARE * len(long)

    def telling(self, word: str) -> float:
        """How much ``word`` says about what a text means, from `LEAST_TELLING` to 1; 1 for an unknown word."""
        numbers = self._tokenizer.numbers(words(word))
        if not numbers:
            return 1.0
        total = self._vectors[numbers].sum(axis=0)
        length = math.sqrt(total @ total) / self._usual_length
        return min(1.0, max(LEAST_TELLING, (length - EMPTY) / (TELLING - EMPTY)))


class WordPieces:
    """BERT's WordPiece on words: the longest known piece first, pieces inside a word begin with ``##``.

    Unlike BERT's it splits camelCase and leaves punctuation out. A word with an unknown part has no pieces, nor has one
    with a digit that falls into fragments: a part of a hash is no word.
    """

    def __init__(self, pieces: list[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._longest = max(map(len, pieces))
        self.of = lru_cache(maxsize=REMEMBERED_WORDS)(self._split)

    def numbers(self, words: Iterable[str]) -> list[int]:
        """Positions of the pieces of ``words`` in the vocabulary, in order."""
        found: list[int] = []
        for word in words:
            found += self.of(word)
        return found

    def _split(self, word: str) -> tuple[int, ...]:
        numbers, start = [], 0
        while start < len(word) <= LONGEST_WORD:
            prefix = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    numbers.append(number)
                    break
            else:
                return ()
            start = end
        is_data = len(numbers) >= FRAGMENTS and any(map(str.isdigit, word))
        return () if is_data else tuple(numbers)


def words(text: str) -> list[str]:
    """Lower-case words without accents; parts of camelCase and single CJK characters are words of their own.

    Single Latin letters are left out: the C of C++ is not that of C#.
    """
    if _DIGIT.search(text):
        text = _DATA.sub(" ", text)
    text = _CAMEL.sub(" ", text).lower()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    return _WORD.findall(text)


_loading = threading.Lock()
_loaded: StaticTable | None = None


def packaged_table() -> StaticTable:
    """The table of the package, read once in a process."""
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                with (files("actrone_memory") / TABLE).open("rb") as file:
                    _loaded = StaticTable.load(file)
    return _loaded


@lru_cache(maxsize=REMEMBERED_WORDS)
def telling(word: str) -> float:
    """`StaticTable.telling` of the packaged table."""
    return packaged_table().telling(word)
