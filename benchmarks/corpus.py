"""Senseless sentences of English words with a Zipf-like distribution: the same ones for the same seed and table."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate, islice

from actrone_memory._lexical import STOPWORDS
from actrone_memory._wordpieces import packaged_table

VOCABULARY_SIZE = 5_000
SHORTEST_SENTENCE, LONGEST_SENTENCE = 8, 14
SHORTEST_WORD = 4

ZIPF_OFFSET = 2.7
"""Mandelbrot's correction: without it one word would stand in two sentences of three, as only stopwords do."""

MEMORIES, QUERIES = "memories", "queries"
"""Seeds: what is stored and what is asked share the vocabulary, not the sentences."""


def sentences(seed: str, count: int) -> Iterator[str]:
    """``count`` sentences of 8 to 14 words."""
    return islice(_endless(seed), count)


def _endless(seed: str) -> Iterator[str]:
    generator = random.Random(seed)
    words = _vocabulary()
    cumulative = list(accumulate(1 / (rank + ZIPF_OFFSET) for rank in range(1, len(words) + 1)))
    while True:
        length = generator.randint(SHORTEST_SENTENCE, LONGEST_SENTENCE)
        chosen = generator.choices(words, cum_weights=cumulative, k=length)
        yield " ".join(chosen).capitalize() + "."


def _vocabulary() -> list[str]:
    """English words that the table of the package knows whole, in an order that is nobody's: the first are frequent."""
    known = packaged_table().pieces
    words = [piece for piece in known if len(piece) >= SHORTEST_WORD and piece.isalpha() and piece not in STOPWORDS]
    return random.Random("vocabulary").sample(words, VOCABULARY_SIZE)
