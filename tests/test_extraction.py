"""Reading facts out of whatever a model answers."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from actrone_memory import ExtractedFact, parse_facts
from actrone_memory.extraction import (
    DEFAULT_IMPORTANCE,
    MAX_FACT_CHARACTERS,
    MAX_FACTS,
    MAX_TAG_CHARACTERS,
    MAX_TAGS,
)

FACT = {"content": "Tests run with Vitest.", "sensitivity": "low", "topic_tags": ["testing"], "importance": 0.9}
PARSED = [ExtractedFact(**FACT)]


def one(**fields: Any) -> ExtractedFact:
    (fact,) = parse_facts(json.dumps([{"content": "x", **fields}]))
    return fact


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps([FACT]),
        json.dumps({"facts": [FACT]}),
        json.dumps({"facts": [FACT], "note": "done"}, indent=2),
        json.dumps(FACT),
        json.dumps({"facts": FACT}),
        f"```json\n{json.dumps(FACT)}\n```",
        f'```json\n{{"test": "vitest"}}\n```\nsays:\n```json\n{json.dumps([FACT])}\n```',
        f'The fact is {{"facts": {json.dumps(FACT)}}}.',
        f"  \n{json.dumps([FACT])}\n ",
        f"```json\n{json.dumps([FACT])}\n```",
        f"```JSON\n{json.dumps({'facts': [FACT]})}```",
        f"```\n{json.dumps([FACT], indent=4)}\n```",
        f"Here are the facts:\n```json\n{json.dumps([FACT])}\n```\nAnything else?",
        f"```python\nprint()\n```\nand\n```json\n{json.dumps([FACT])}\n```",
        f"Here are the facts: {json.dumps({'facts': [FACT]})} Shall I go on [y/n]?",
        f"Among {{these}} and [those] there is {json.dumps(FACT)}.",
        f'<think>Perhaps {{"content": "not this"}}?</think>\n{json.dumps([FACT])}',
        f'{{"facts": [{json.dumps(FACT)}, {{"content": "cut o',
        f'[{json.dumps(FACT)}, {{"content": "cut off too", "topic_tags": ["a"',
    ],
)
def test_a_list_is_read_bare_or_in_an_envelope_fenced_or_not(raw: str) -> None:
    assert parse_facts(raw) == PARSED


@pytest.mark.parametrize("raw", ['[{"content": "a\nb\tc"}]', 'Here: {"content": "a\nb\tc"}!'])
def test_lines_may_end_inside_a_text(raw: str) -> None:
    assert [fact.content for fact in parse_facts(raw)] == ["a\nb\tc"]


def test_a_fact_about_thoughts_is_no_thought() -> None:
    raw = '[{"content": "The model ends its thoughts with </think>."}]'
    assert [fact.content for fact in parse_facts(raw)] == ["The model ends its thoughts with </think>."]


def test_a_fact_about_fences_is_read_out_of_a_fence() -> None:
    raw = '```json\n[{"content": "Code in answers stands between ``` fences."}]\n```'
    assert [fact.content for fact in parse_facts(raw)] == ["Code in answers stands between ``` fences."]


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "I found no facts.",
        "{}",
        "[]",
        "null",
        "3",
        '"text"',
        '{"facts": null}',
        '{"facts": {"text": "x"}}',
        '{"text": "x"}',
        '```json\n[]\n```\nand not\n```json\n[{"content": "an example"}]\n```',
        "[{",
        "```json\n[{]\n```",
        "[" * 200_000,
        "[" * 50_000 + "]" * 50_000,
        '{"facts":' * 100_000,
        '{"a":' * 20_000 + "1" + "}" * 20_000,
        "Nothing [to see] in {here}.",
        '<think>[{"content": "a thought"}]</think>',
        "\x00",
        "\ud800",
    ],
    ids=lambda raw: repr(raw[:20]),
)
def test_what_cannot_be_read_is_no_facts(raw: str) -> None:
    assert parse_facts(raw) == []


@pytest.mark.parametrize(
    "raw", [None, 3, b"[]", [FACT], {"facts": [FACT]}, object()], ids=lambda raw: type(raw).__name__
)
def test_what_is_no_text_is_no_facts(raw: Any) -> None:
    assert parse_facts(raw) == []


@pytest.mark.parametrize(
    "item",
    [None, "text", 3, [], [FACT], {}, {"content": None}, {"content": 3}, {"content": ["x"]}, {"content": " \n"},
     {"content": "\x00"}, {"Content": "x"}],
    ids=repr,
)  # fmt: skip
def test_an_entry_without_text_is_skipped_and_the_others_are_kept(item: object) -> None:
    assert parse_facts(json.dumps([item, FACT, item])) == PARSED


def test_a_bare_text_gets_the_defaults() -> None:
    assert one() == ExtractedFact(content="x", sensitivity="none", topic_tags=[], importance=DEFAULT_IMPORTANCE)
    assert one(sensitivity=None, topic_tags=None, importance=None) == one()


def test_text_is_trimmed_cut_and_made_storable() -> None:
    assert one(content="  a\nb  ").content == "a\nb"
    assert one(content="x" * 5_000).content == "x" * MAX_FACT_CHARACTERS
    assert [fact.content for fact in parse_facts('[{"content": "a\\u0000b\\ud800c 🚀"}]')] == ["abc 🚀"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (0.3, 0.3),
        (1, 1.0),
        (7, 1.0),
        (-0.1, 0.0),
        ("0.75", 0.75),
        ("high", DEFAULT_IMPORTANCE),
        (True, DEFAULT_IMPORTANCE),
        (None, DEFAULT_IMPORTANCE),
        ([0.9], DEFAULT_IMPORTANCE),
        (float("nan"), DEFAULT_IMPORTANCE),
        ("nan", DEFAULT_IMPORTANCE),
        ("inf", DEFAULT_IMPORTANCE),
        (10**400, DEFAULT_IMPORTANCE),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_importance_is_clamped_and_rubbish_becomes_the_default(given: object, kept: float) -> None:
    assert one(importance=given).importance == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("none", "none"),
        ("low", "low"),
        ("pii", "pii"),
        ("sensitive", "sensitive"),
        (" PII ", "pii"),
        (None, "none"),
        ("secret", "sensitive"),
        ("", "sensitive"),
        (3, "sensitive"),
        (["none"], "sensitive"),
    ],
)
def test_an_unknown_sensitivity_counts_as_sensitive(given: object, kept: str) -> None:
    assert one(sensitivity=given).sensitivity == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", " a "], ["a"]),
        (["", None, 3, ["x"], " "], []),
        ("testing", []),
        ({"a": 1}, []),
        (["x" * 500], ["x" * MAX_TAG_CHARACTERS]),
        ([str(i) for i in range(99)], [str(i) for i in range(MAX_TAGS)]),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_tags_are_texts_each_once_and_not_too_many(given: object, kept: list[str]) -> None:
    assert one(topic_tags=given).topic_tags == kept


def test_no_more_facts_are_kept_than_the_most() -> None:
    facts = parse_facts(json.dumps([{"content": str(i)} for i in range(500)]))
    assert [fact.content for fact in facts] == [str(i) for i in range(MAX_FACTS)]


def test_entries_that_are_skipped_do_not_count_towards_the_most() -> None:
    assert len(parse_facts(json.dumps([None] * 200 + [FACT] * 10))) == 10


def test_objects_one_after_the_other_are_read() -> None:
    raw = "\n".join(json.dumps({"content": str(i)}) for i in range(3))
    assert [fact.content for fact in parse_facts(raw)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "unit", ["[", "[{", "{}", '{"facts":', "```", "[1]", '"', "<think>", '{"content":"a"' + " " * 999], ids=repr
)
def test_ten_megabytes_of_rubbish_take_moments(unit: str) -> None:
    began = time.perf_counter()
    parse_facts(unit * (10_000_000 // len(unit)))
    assert time.perf_counter() - began < 5


def test_a_list_of_ten_megabytes_gives_its_first_facts() -> None:
    raw = json.dumps([{"content": f"{i}{'x' * 1_000}"} for i in range(10_000)])
    assert [fact.content[:2] for fact in parse_facts(raw)][:3] == ["0x", "1x", "2x"]
    assert len(parse_facts(raw)) == MAX_FACTS
