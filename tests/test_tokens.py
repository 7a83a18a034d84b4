"""Counting tokens without a vocabulary."""

from __future__ import annotations

import random

import pytest

from actrone_memory import ConfigurationError
from actrone_memory.tokens import heuristic_tokens, token_counter


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" ", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("x" * 40_000, 10_000),
        ("数据库迁移", 2),
        ("🚀", 1),
        ("\n\n\n\n\n", 2),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_four_characters_are_a_token_and_a_begun_one_counts(text: str, tokens: int) -> None:
    assert heuristic_tokens(text) == tokens


def test_special_tokens_are_text() -> None:
    assert heuristic_tokens("<|endoftext|>") == 4


def test_texts_cost_no_more_together_than_apart() -> None:
    rng = random.Random(1)
    for _ in range(200):
        a, b = "x" * rng.randint(0, 20), "y" * rng.randint(0, 20)
        assert heuristic_tokens(a + b) <= heuristic_tokens(a) + heuristic_tokens(b)


def test_the_default_counter_is_the_heuristic() -> None:
    assert token_counter("heuristic") is heuristic_tokens


def test_an_unknown_counter_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigurationError, match="abacus"):
        token_counter("abacus")
