"""Sentences from a made-up vocabulary with a Zipf-like distribution: the same ones for the same seed, for ever."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate, islice

VOCABULARY_SIZE = 5_000
SHORTEST_SENTENCE, LONGEST_SENTENCE = 8, 14
FEWEST_SYLLABLES, MOST_SYLLABLES = 3, 4
"""With shorter words the vocabulary would be denser than any language: every word one letter away from others."""

ZIPF_OFFSET = 2.7
"""Mandelbrot's correction: without it one word would stand in two sentences of three, as only stopwords do."""

MEMORIES, QUERIES = "memories", "queries"
"""Seeds: what is stored and what is asked share the vocabulary, not the sentences."""

_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aiou"


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
    generator = random.Random("vocabulary")
    words: dict[str, None] = {}
    while len(words) < VOCABULARY_SIZE:
        words[_word(generator)] = None
    return list(words)


def _word(generator: random.Random) -> str:
    syllables = generator.randint(FEWEST_SYLLABLES, MOST_SYLLABLES)
    return "".join(generator.choice(_CONSONANTS) + generator.choice(_VOWELS) for _ in range(syllables))
