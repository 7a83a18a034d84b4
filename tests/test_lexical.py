"""From text to terms: which words, identifiers and scripts meet, and which do not."""

from __future__ import annotations

import threading

import pytest

from actrone_memory._lexical import (
    CHARACTER_WEIGHT,
    EXACT_FORM_WEIGHT,
    GENERIC_WEIGHT,
    GERMAN_STOPWORDS,
    IDENTIFIER_WEIGHT,
    LONGEST_TERM,
    STOPWORDS,
    document_terms,
    fold,
    holds_unspaced,
    in_words,
    is_unspaced,
    query_terms,
    stem,
)


def asked(query: str) -> dict[str, float]:
    return query_terms(query, generic_words=True)


def shared(query: str, text: str) -> set[str]:
    """Terms by which ``query`` finds ``text``."""
    return set(asked(query)) & set(document_terms(text))


# --- identifiers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identifier", ["INC48213", "E1234", "b1946ac9", "v2"])
def test_a_word_with_digits_is_one_term_as_it_is(identifier: str) -> None:
    assert document_terms(f"see {identifier}.") == {"see": 1.0, identifier.lower(): 1.0}


@pytest.mark.parametrize(
    ("identifier", "parts", "whole"),
    [
        ("date-fns", {"date", "fns"}, "datefns"),
        ("getUserById", {"get", "user", "id"}, "getuserbyid"),
        ("parse_user_input", {"pars", "user", "input"}, "parseuserinput"),
        ("src/routes/users.ts", {"src", "rout", "user", "ts"}, "srcroutesusersts"),
        ("HTTPServerError", {"http", "server", "error"}, "httpservererror"),
        ("user@example.com", {"user", "exampl", "com"}, "userexamplecom"),
        (r"C:\temp\log", {"c", "temp", "log"}, "ctemplog"),
        ("std::vector", {"std", "vector"}, "stdvector"),
    ],
)
def test_an_identifier_is_found_by_its_parts_and_as_a_whole(identifier: str, parts: set[str], whole: str) -> None:
    terms = dict(document_terms(identifier))
    assert terms.pop(whole) == IDENTIFIER_WEIGHT
    assert terms == dict.fromkeys(parts, 1.0)


@pytest.mark.parametrize(
    "spelling", ["parseUserInput", "parse_user_input", "parse-user-input", "ParseUserInput", "PARSE_USER_INPUT"]
)
def test_every_spelling_of_an_identifier_is_the_same_term(spelling: str) -> None:
    assert document_terms(spelling) == document_terms("parseUserInput")
    assert {"pars", "user", "input"} <= shared("parse user input", spelling)


def test_numbers_keep_their_points() -> None:
    assert document_terms("Python 3.11")["3.11"] == IDENTIFIER_WEIGHT
    assert "3.11" not in document_terms("version 31.1 and 311")
    assert shared("3.11", "needs 3.11") > shared("3.11", "needs 3.12") == {"3"}


def test_c_cpp_and_csharp_are_three_languages() -> None:
    assert document_terms("C# and C++") == {"c#": 1.0, "c++": 1.0}
    assert shared("C++", "written in C#") == set()
    assert shared("C#", "written in C") == set()
    assert shared("C", "written in C++") == set()
    assert shared("c++", "(C++), F#") == {"c++"}


@pytest.mark.parametrize("text", ["C++17 modules", "Objective-C++ code", "the C++/CLI bridge"])
def test_cpp_is_found_in_the_names_made_of_it(text: str) -> None:
    assert "c++" in shared("C++", text)


def test_a_hash_before_a_number_belongs_to_the_number() -> None:
    assert document_terms("issue #12") == {"issu": 1.0, "12": 1.0}


def test_a_run_longer_than_any_word_is_cut() -> None:
    assert document_terms("x" * 500) == {"x" * LONGEST_TERM: 1.0}
    assert max(map(len, document_terms("Ab" * 500))) == LONGEST_TERM


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("handler", "handlers"),
        ("testing", "tests"),
        ("commit these changes", "Commit messages follow Conventional Commits"),
        ("DEPLOY", "deploying"),
        ("тест", "тесты"),
        ("формы", "форма"),
        ("δοκιμή", "δοκιμές"),
        ("كتاب", "الكتاب"),
        ("Die Häuser und das Haus", "das Haus für die Gäste"),
    ],
)
def test_inflected_words_meet(query: str, text: str) -> None:
    assert shared(query, text)


@pytest.mark.parametrize(
    "text", ["the is of in", "what should I do with it and why", "It's you're won't", "", " \n\t…!?"]
)
def test_function_words_and_punctuation_are_no_terms(text: str) -> None:
    assert document_terms(text) == {}
    assert asked(text) == {}


def test_german_function_words_are_dropped_in_german_only() -> None:
    assert set(document_terms("Die Formulare werden mit dem Prüfer geprüft")) & GERMAN_STOPWORDS == set()
    assert "die" in document_terms("Parts of the machine are made by die casting in a process that is slow and hot")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("worker", "Workers never die silently"),
        ("silent", "Connections die silently"),
    ],
)
def test_an_english_word_that_looks_like_a_german_one_makes_no_text_german(query: str, text: str) -> None:
    assert shared(query, text)


def test_german_is_stemmed_as_german() -> None:
    assert "formular" in document_terms("Die Formulare werden geprüft")
    assert shared("Wie werden die Formulare geprüft?", "Das Formular wird vom Prüfer geprüft") >= {"formular"}
    assert document_terms("Größe") == {"gross": 1.0, "grösse": EXACT_FORM_WEIGHT}


def test_stopwords_are_casefolded_words() -> None:
    assert [word for word in STOPWORDS | GERMAN_STOPWORDS if word != word.casefold()] == []


def test_counts_add_up_in_a_text_and_do_not_in_a_query() -> None:
    assert document_terms("cache the cache in a cache") == {"cach": 3.0}
    assert asked("cache the cache in a cache") == {"cach": 1.0}


def test_generic_words_count_little_in_a_query_that_says_so() -> None:
    weights = query_terms("write a new test", generic_words=False)
    assert weights["test"] == 1.0
    assert weights["write"] == weights["new"] == GENERIC_WEIGHT
    assert asked("write a new test")["write"] == 1.0
    assert document_terms("write")["write"] == 1.0


# --- accents ----------------------------------------------------------------------------------------------------------


def test_an_accented_word_is_found_without_its_accents_and_better_with_them() -> None:
    assert document_terms("café") == {"cafe": 1.0, "café": EXACT_FORM_WEIGHT}
    assert shared("cafe", "café") == {"cafe"}
    assert shared("café", "café") == {"cafe", "café"}
    assert shared("café", "cafe") == {"cafe"}


@pytest.mark.parametrize(("plain", "accented"), [("resume", "résumé"), ("naive", "naïve"), ("deja vu", "déjà vu")])
def test_a_word_whose_plain_form_is_stemmed_is_found_without_its_accents(plain: str, accented: str) -> None:
    assert set(document_terms(plain)) <= set(document_terms(accented))


@pytest.mark.parametrize(
    ("one", "other"), [("cafe\u0301", "café"), ("ﬁle", "file"), ("ＡＢＣ", "abc"), ("ﾃﾞｰﾀ", "データ")]
)
def test_ways_to_encode_one_text_are_one_text(one: str, other: str) -> None:
    assert document_terms(one) == document_terms(other)


@pytest.mark.parametrize(("one", "other"), [("Straße", "STRASSE"), ("ΟΔΟΣ", "οδος"), ("İstanbul", "istanbul")])
def test_case_does_not_matter_in_any_script(one: str, other: str) -> None:
    assert shared(other, one)


def test_folding_drops_case_and_accents() -> None:
    assert fold("École") == "ecole"
    assert fold("GRÖSSE") == "grosse"
    assert fold("plain") == "plain"


# --- other scripts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("数据库", "数据库迁移必须可回滚"),
        ("回滚", "数据库迁移必须可回滚"),
        ("库", "数据库迁移必须可回滚"),
        ("テスト", "単体テストを書く"),
        ("佐々木", "担当は佐々木さん"),
        ("데이터베이스", "한국어 데이터베이스 설정"),
        ("สวัสดี", "สวัสดีครับ"),
        ("код", "тесты и код"),
        ("λόγος", "Ο λόγος είναι σαφής"),
        ("العربية", "اللغة العربية الفصحى"),
        ("भाषा", "हिन्दी भाषा में"),
        ("עברית", "טקסט בעברית עברית"),
        ("🚀", "ship it 🚀 today"),
        ("👍", "agreed 👍🏽"),
        ("❤", "we ❤️ tests"),
    ],
)
def test_text_of_any_script_is_found_by_its_own_words(query: str, text: str) -> None:
    assert set(asked(query)) <= set(document_terms(text))
    assert asked(query)


def test_scripts_without_spaces_are_cut_into_pairs_with_their_characters_beside() -> None:
    assert document_terms("数据库") == {
        "数据": 1.0,
        "据库": 1.0,
        "数": CHARACTER_WEIGHT,
        "据": CHARACTER_WEIGHT,
        "库": CHARACTER_WEIGHT,
    }
    assert asked("数据库") == {"数据": 1.0, "据库": 1.0}
    assert document_terms("库") == asked("库") == {"库": 1.0}


@pytest.mark.parametrize(("query", "text"), [("数据", "据数"), ("تاب", "كتب"), ("кот", "код"), ("🚀", "🔥")])
def test_other_words_of_the_same_script_do_not_meet(query: str, text: str) -> None:
    assert shared(query, text) == set()


def test_latin_words_between_characters_of_another_script_are_words() -> None:
    assert shared("vitest", "用Vitest运行单元测试") == {"vitest"}


# --- stemming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["id", "e1234", "日本", "3.11", ""])
def test_what_has_no_stem_stays_as_it_is(word: str) -> None:
    assert stem(word) == word


def test_stemming_is_the_same_in_every_thread() -> None:
    words = [f"{word}{ending}" for word in ("test", "handl", "format", "migrat") for ending in ("ing", "ed", "ers")]
    stem.cache_clear()
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append([stem(word) for word in words * 50])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[stem(word) for word in words * 50]] * 4


# --- how much a word of a query counts --------------------------------------------------------------------------------


def test_words_that_tasks_are_worded_with_count_little_and_others_as_much_as_they_say() -> None:
    weights = query_terms("appear migration please", generic_words=False)
    assert weights["pleas"] == GENERIC_WEIGHT
    assert GENERIC_WEIGHT <= weights["appear"] < weights["migrat"] == 1.0
    assert asked("appear migration please") == {"appear": 1.0, "migrat": 1.0, "pleas": 1.0}


def test_a_word_that_the_table_does_not_know_counts_fully() -> None:
    query = "Ж数 数据库 тесты 🚀"
    assert query_terms(query, generic_words=False) == asked(query)


@pytest.mark.parametrize(
    ("text", "mostly", "any_of_it"),
    [("plain text", False, False), ("fix the layout of the 用户 table", False, True), ("用 vitest 测试", True, True),
     ("数据库迁移 npm", True, True), ("тесты", False, False), ("", False, False)],
)  # fmt: skip
def test_scripts_without_spaces_are_told_apart(text: str, mostly: bool, any_of_it: bool) -> None:
    assert is_unspaced(text) is mostly
    assert holds_unspaced(text) is any_of_it


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("convert with `toUserZone` first", "convert with to User Zone first"),
        ("see src/routes/user_api.ts", "see src routes user api ts"),
        ("HTTPServer in internal/httpx", "HTTP Server in internal httpx"),
        ("version 1.4.2, 3/4 of it, 10:30", "version 1.4.2, 3/4 of it, 10:30"),
        ("date-fns and C++ stay", "date-fns and C++ stay"),
        ("Geldbeträge sind `BigDecimal`.", "Geldbeträge sind Big Decimal."),
        ("数据库 迁移", "数据库 迁移"),
        ("", ""),
    ],
)
def test_identifiers_are_read_as_their_words_and_numbers_stay(text: str, words: str) -> None:
    assert in_words(text) == words
