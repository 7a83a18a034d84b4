"""Meaning without a model: one vector for each WordPiece, summed. The table comes with the package.

The table is distilled from a sentence encoder by ``scripts/static_table``, which says what it was made of.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actrone_memory import _validation
from actrone_memory.protocols import Embedder

TABLE = "static_table.npz"
RECIPE = 1
"""Raise it with every new table, or other pieces for the same text: stores remember it as part of the name."""

LONGEST_WORD = 100
"""Longer words have no pieces, as in BERT's tokenizer: they are data, not language."""

REMEMBERED_WORDS = 65_536

FOREIGN_PIECES = 1.6
"""Pieces for each word from which a text is in a language that the table does not know: English texts about code have
1.0 to 1.5, German ones 1.8 to 2.8. The pieces of foreign words are spelled like others and mean nothing."""

CODE_LIMIT = 7
"""Codes of 4 bits run from -7 to 7; they are stored with 8 added, two in a byte, the first in the lower half."""

RELEVANCE_THRESHOLD = 0.35

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]|[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class StaticEmbedder(Embedder):
    """Embeds with the table of the package: no download, no network, microseconds a text. English in substance.

    The table is read on first use, once in a process, and shared by all objects. Text without a known word has the
    zero vector.
    """

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return _table().dimensions

    @property
    def relevance_threshold(self) -> float | None:
        """Cosine that few unrelated texts reach."""
        return RELEVANCE_THRESHOLD

    @property
    def background(self) -> tuple[float, float] | None:
        """Mean and deviation of the cosine of unrelated texts, as measured when the table was made."""
        return _table().background

    @property
    def name(self) -> str:
        """``static`` and the version of the table."""
        return f"static-v{RECIPE}"

    async def embed(self, text: str) -> list[float]:
        """The vector of one text; see the class."""
        return self._vector(_validation.text(text, "text"))

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        return [self._vector(text) for text in _validation.texts(texts, "texts")]

    def _vector(self, text: str) -> list[float]:
        vector: list[float] = _table().vector(text).tolist()
        return vector


_loading = threading.Lock()
_loaded: StaticTable | None = None


def _table() -> StaticTable:
    """The table of the package."""
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                with (files("actrone_memory.embedders") / TABLE).open("rb") as file:
                    _loaded = StaticTable.load(file)
    return _loaded


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

    @classmethod
    def load(cls, file: BinaryIO) -> StaticTable:
        """Read what `save` wrote."""
        with np.load(file) as arrays:
            packed, scales = arrays["codes"], arrays["scales"]
            pieces = arrays["pieces"].tobytes().decode().split("\n")
            mean, deviation = arrays["background"].tolist()
        codes = np.empty((len(packed), 2 * packed.shape[1]), np.int8)
        codes[:, 0::2], codes[:, 1::2] = packed & 15, packed >> 4
        return cls(pieces, codes - np.int8(CODE_LIMIT + 1), scales, (mean, deviation))

    def save(self, file: BinaryIO) -> None:
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
        return self._vectors.shape[1]

    def vector(self, text: str) -> NDArray[np.float32]:
        """The sum of the vectors of the pieces of ``text`` at length 1.

        Zero for a text without known pieces, and for one in another language than the table's.
        """
        spoken = words(text)
        numbers = self._tokenizer.numbers(spoken)
        if len(numbers) > FOREIGN_PIECES * len(spoken) + 1:
            numbers = []
        total: NDArray[np.float32] = self._vectors[numbers].sum(axis=0)
        length = float(np.sqrt(total @ total))
        return total / np.float32(length) if length else total


class WordPieces:
    """BERT's WordPiece on words: the longest known piece first, pieces inside a word begin with ``##``.

    Unlike BERT's it splits camelCase and leaves punctuation out; a word with an unknown part has no pieces.
    """

    def __init__(self, pieces: list[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._longest = max(map(len, pieces))
        self._of_word = lru_cache(maxsize=REMEMBERED_WORDS)(self._split)

    def numbers(self, words: Iterable[str]) -> list[int]:
        """Positions of the pieces of ``words`` in the vocabulary, in order."""
        found: list[int] = []
        for word in words:
            found += self._of_word(word)
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
        return tuple(numbers)


def words(text: str) -> list[str]:
    """Lower-case words without accents; parts of camelCase and single CJK characters are words of their own."""
    text = _CAMEL.sub(" ", text).lower()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    return _WORD.findall(text)
