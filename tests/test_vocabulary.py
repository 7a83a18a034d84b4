"""Which terms look alike, and which do not."""

from __future__ import annotations

import itertools
import random
import string

import pytest

from actrone_memory._vocabulary import (
    BEGINNING_WEIGHT,
    ENDING_WEIGHT,
    PREFIX_WEIGHT,
    TYPO_WEIGHT,
    Vocabulary,
    likeness,
)


def similar(term: str, *known: str) -> dict[str, float]:
    vocabulary = Vocabulary()
    for one in known:
        vocabulary.add(one)
    return vocabulary.similar(term)


def test_one_term_that_begins_another_is_alike_the_more_the_longer() -> None:
    assert similar("test", "tests", "testbed", "vitest", "toast") == {
        "tests": pytest.approx(PREFIX_WEIGHT * (4 / 5) ** 0.5),
        "testbed": pytest.approx(PREFIX_WEIGHT * (4 / 7) ** 0.5),
    }
    assert similar("formularfelder", "formular") == {"formular": pytest.approx(PREFIX_WEIGHT * (8 / 14) ** 0.5)}


def test_a_long_common_beginning_is_alike_a_short_one_is_not() -> None:
    assert similar("configure", "configural") == {"configural": pytest.approx(BEGINNING_WEIGHT * 8 / 10)}
    assert similar("formularfeld", "formularsatz", "formularfels") == {
        "formularfels": pytest.approx(BEGINNING_WEIGHT * 11 / 12)
    }
    assert similar("contract", "contest") == {}


def test_the_ending_of_a_compound_is_alike_from_either_side() -> None:
    weight = pytest.approx(ENDING_WEIGHT * (9 / 18) ** 0.5)
    assert similar("datenbankmigration", "migration") == {"migration": weight}
    assert similar("migration", "datenbankmigration") == {"datenbankmigration": weight}
    assert similar("vitest", "test") == {}


@pytest.mark.parametrize(
    "typo",
    ["databse", "dattabase", "datebase", "databaes", "adtabase", "atabase", "xdatabase", "databas", "databasex"],
)
def test_one_typo_is_alike_wherever_it_is(typo: str) -> None:
    assert similar(typo, "database", "datum", "base")["database"] >= TYPO_WEIGHT * 0.9
    assert similar("database", typo)[typo] >= TYPO_WEIGHT * 0.9


def test_two_neighbouring_letters_swapped_at_an_end_are_one_typo_in_short_words_too() -> None:
    assert similar("servre", "server") == {"server": TYPO_WEIGHT}


@pytest.mark.parametrize("typo", ["dtabse", "databxsy", "atabas", "daatbsae"])
def test_two_typos_are_another_word(typo: str) -> None:
    assert likeness(typo, "database") == 0.0


@pytest.mark.parametrize(
    ("term", "other"), [("cat", "cats"), ("id", "ids"), ("dat", "data"), ("ca", "c"), ("go", "goto")]
)
def test_short_terms_are_alike_nothing(term: str, other: str) -> None:
    assert similar(term, other) == {}
    assert similar(other, term) == {}


@pytest.mark.parametrize("term", ["e12345", "3.11", "c++", "数据库迁移", "parse_user", "ข้อมูลใหม่", "データベース"])
def test_numbers_mixtures_and_scripts_without_spaces_are_matched_exactly_only(term: str) -> None:
    assert similar(term, term + "x", term[:-1], "x" + term, term) == {}
    assert term not in similar(term[:-1], term)


def test_a_term_is_not_alike_itself() -> None:
    assert similar("handler", "handler") == {}


def test_words_with_accents_take_part() -> None:
    assert set(similar("größe", "größen", "grösse")) == {"größen"}
    assert set(similar("тестов", "тестовый")) == {"тестовый"}


def test_weights_are_below_an_exact_match_and_the_same_from_both_sides() -> None:
    rng = random.Random(7)
    words = ["".join(rng.choices("abcde", k=rng.randint(4, 9))) for _ in range(300)]
    for a, b in itertools.pairwise(words):
        assert 0.0 <= likeness(a, b) < 1.0 or a == b
        assert likeness(a, b) == likeness(b, a)


def test_what_is_found_does_not_depend_on_the_order_of_adding() -> None:
    rng = random.Random(3)
    words = sorted({"".join(rng.choices(string.ascii_lowercase[:4], k=rng.randint(4, 8))) for _ in range(200)})
    shuffled = rng.sample(words, len(words))
    assert [similar(word, *words) for word in words[:40]] == [similar(word, *shuffled) for word in words[:40]]


def test_an_empty_vocabulary_knows_nothing() -> None:
    assert similar("anything") == {}
