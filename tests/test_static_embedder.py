"""The embedder that comes with the package: pieces, vectors, and the table file itself."""

from __future__ import annotations

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import numpy as np
import pytest

from actrone_memory import MemoryConfig, MemoryManager, StaticEmbedder, cosine_similarity
from actrone_memory._wordpieces import CODE_LIMIT, TABLE, StaticTable, WordPieces, words

LARGEST_TABLE = 1_500_000


@pytest.fixture(scope="module")
def table() -> StaticTable:
    with (files("actrone_memory") / TABLE).open("rb") as file:
        return StaticTable.load(file)


async def similarity(a: str, b: str) -> float:
    left, right = await StaticEmbedder().embed_batch([a, b])
    return cosine_similarity(left, right)


# --- words and pieces -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Don't panic!", ["don", "panic"]),
        ("C++ or C#, step 2", ["or", "step", "2"]),
        ("parseUserInput", ["parse", "user", "input"]),
        ("HTTPServer snake_case kebab-case", ["http", "server", "snake", "case", "kebab", "case"]),
        ("Café ÜBER", ["cafe", "uber"]),
        ("用 vitest", ["用", "vitest"]),
    ],
)
def test_a_text_becomes_lower_case_words_without_accents_punctuation_and_single_letters(
    text: str, expected: list[str]
) -> None:
    assert words(text) == expected


def test_the_longest_piece_comes_first_and_a_word_with_an_unknown_part_has_none() -> None:
    pieces = WordPieces(["t", "test", "##s", "##ing", "##in", "##g"])
    assert pieces.numbers(["tests", "testing"]) == [1, 2, 1, 3]
    assert pieces.numbers(["tested", "t"]) == [0]


def test_a_word_of_more_than_a_hundred_characters_has_no_pieces() -> None:
    pieces = WordPieces(["a", "##a"])
    assert len(pieces.numbers(["a" * 100])) == 100
    assert pieces.numbers(["a" * 101]) == []


# --- the table --------------------------------------------------------------------------------------------------------


def test_the_table_is_small_and_sound(table: StaticTable) -> None:
    packaged = (files("actrone_memory") / TABLE).read_bytes()
    assert len(packaged) <= LARGEST_TABLE
    assert len(table.pieces) == len(set(table.pieces)) == len(table.codes) == len(table.scales)
    assert np.abs(table.codes).max() == CODE_LIMIT
    assert np.isfinite(table.scales).all()
    assert (table.scales > 0).all()
    mean, deviation = table.background
    assert -0.1 < mean < 0.3
    assert 0.05 < deviation < 0.3


def test_a_saved_table_reads_back_the_same_and_is_the_same_bytes_every_time(table: StaticTable) -> None:
    first, second = io.BytesIO(), io.BytesIO()
    table.save(first)
    table.save(second)
    assert first.getvalue() == second.getvalue()
    again = StaticTable.load(io.BytesIO(first.getvalue()))
    assert again.pieces == table.pieces
    assert again.background == table.background
    assert np.array_equal(again.codes, table.codes)
    assert np.array_equal(again.scales, table.scales)


def test_a_vector_is_the_sum_of_its_pieces_at_length_one() -> None:
    codes, scales = np.array([[7, 0], [0, 7]], np.int8), np.array([1.0, 1.0], np.float16)
    small = StaticTable(["left", "up"], codes, scales, (0.0, 1.0))
    assert small.vector("left up").tolist() == pytest.approx([0.5**0.5, 0.5**0.5])
    assert small.vector("nothing known").tolist() == [0.0, 0.0]


# --- the embedder -----------------------------------------------------------------------------------------------------


async def test_texts_of_one_meaning_are_closer_than_strangers_without_a_common_word() -> None:
    pairs = [
        ("users cannot sign in", "authentication and login"),
        ("the page loads slowly", "performance of rendering"),
        ("money is rounded wrongly", "currency amounts are stored as integers of cents"),
    ]
    for task, rule in pairs:
        others = [other for _, other in pairs if other != rule]
        assert await similarity(task, rule) > max([await similarity(task, other) for other in others])


async def test_text_without_a_known_word_has_the_zero_vector() -> None:
    embedder = StaticEmbedder()
    for text in ("", "!?", "\u0416\u0416"):
        assert not any(await embedder.embed(text))


def test_importing_the_package_does_not_read_the_table_and_threads_read_it_once() -> None:
    code = """
import actrone_memory._wordpieces as pieces
from concurrent.futures import ThreadPoolExecutor
import actrone_memory
from actrone_memory import StaticEmbedder
assert pieces._loaded is None
loads = []
load = pieces.StaticTable.load.__func__
pieces.StaticTable.load = classmethod(lambda cls, file: loads.append(1) or load(cls, file))
with ThreadPoolExecutor(8) as pool:
    dimensions = set(pool.map(lambda _: StaticEmbedder().dimensions, range(32)))
assert len(loads) == len(dimensions) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_many_threads_get_the_same_vectors(table: StaticTable) -> None:
    texts = [f"parse the input of user {i} with a schema" for i in range(200)]
    expected = [table.vector(text).tolist() for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: table.vector(text).tolist(), texts)) == expected


async def test_a_paraphrase_without_a_common_word_recalls_the_rule() -> None:
    memory = await MemoryManager.create(MemoryConfig(embedding_provider="static"))
    await memory.inject_memory("repo", "Passwords are hashed with argon2.")
    await memory.inject_memory("repo", "Buttons come from the design system.")
    await memory.inject_memory("repo", "Migrations are written by hand.")
    found = await memory.search_memories("repo", "store the credentials of a new account")
    assert [entry.content for entry in found][:1] == ["Passwords are hashed with argon2."]
    await memory.close()
