"""A rules file becomes one memory for each rule, with the headings as tags."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("markdown_it", reason="the extra cli is not installed")

from actrone_memory.cli.rules import Rule, read_rules


def rules(text: str) -> list[Rule]:
    return read_rules(textwrap.dedent(text))


def texts(text: str) -> list[str]:
    return [rule.text for rule in rules(text)]


def test_each_item_of_a_list_is_a_rule() -> None:
    assert texts("- Use tabs.\n* Tests run with vitest.\n1. First lint.\n2) Then commit.\n- [ ] Sign off.\n") == [
        "Use tabs.",
        "Tests run with vitest.",
        "First lint.",
        "Then commit.",
        "Sign off.",
    ]


def test_a_paragraph_is_a_rule_on_one_line_and_lines_that_are_sentences_are_rules() -> None:
    assert texts("Commit messages follow\nConventional Commits.\n\nUse tabs.\nNever use `any`.\n") == [
        "Commit messages follow Conventional Commits.",
        "Use tabs.",
        "Never use `any`.",
    ]


def test_headings_are_tags_and_the_only_first_level_heading_is_the_title() -> None:
    found = rules(
        "# Guide\nBe kind.\n## 1. Testing ✅\n- Use vitest.\n### C++ & `Go`\n- Use gtest.\n## Style\n- Tabs.\n"
    )
    assert [rule.tags for rule in found] == [[], ["testing"], ["testing", "c++ & go"], ["style"]]


def test_several_first_level_headings_are_tags() -> None:
    assert [rule.tags for rule in rules("# Testing\n- Use vitest.\n\n# Style\n- Tabs.\n")] == [["testing"], ["style"]]


def test_headings_underlined_count_too() -> None:
    assert rules("Guide\n=====\n\nTesting\n-------\n- Use vitest.\n") == [Rule("Use vitest.", ["testing"])]


def test_what_introduces_a_list_leads_each_item() -> None:
    assert texts("Before you commit:\n- run lint\n- run tests:\n  - unit\n  - end to end\n") == [
        "Before you commit: run lint",
        "Before you commit: run tests: unit",
        "Before you commit: run tests: end to end",
    ]


def test_a_name_without_a_stop_before_a_list_is_a_tag_of_its_items() -> None:
    assert rules("Code Style\n- Tabs.\n\nNaming\n- Short names.\n") == [
        Rule("Tabs.", ["code style"]),
        Rule("Short names.", ["naming"]),
    ]


def test_a_sentence_before_a_list_is_a_rule_of_its_own() -> None:
    assert texts("We care for names.\n- Short names.\n") == ["We care for names.", "Short names."]


def test_an_item_keeps_what_is_nested_in_it() -> None:
    assert texts("- Prefer named exports.\n  - except pages\n  - except configs\n- Tabs.\n") == [
        "Prefer named exports.\n- except pages\n- except configs",
        "Tabs.",
    ]


def test_a_long_nested_list_gives_a_rule_for_each_item() -> None:
    points = [f"point {number} {'word ' * 20}".strip() for number in range(10)]
    nested = "".join(f"  - {point}\n" for point in points)
    assert texts(f"- Handle errors.\n{nested}") == ["Handle errors.", *(f"Handle errors: {point}" for point in points)]


@pytest.mark.parametrize(
    "before", ["Run it like this:\n", "Run it like this:\n\n", "- Run it like this:\n", "- Run it like this:\n\n"]
)
def test_code_is_kept_whole_with_the_text_before_it(before: str) -> None:
    code = "```bash\nnpm test\n\n# - no rule\nnpm run lint   # twice\n```"
    assert texts(f"{before}{code}\n\n- Tabs.\n") == [f"Run it like this:\n{code}", "Tabs."]


def test_code_inside_an_item_belongs_to_it() -> None:
    assert texts("- Read it:\n  ```ts\n  const a = 1\n    const b = 2\n  ```\n- Tabs.\n") == [
        "Read it:\n```ts\nconst a = 1\n  const b = 2\n```",
        "Tabs.",
    ]


def test_code_alone_is_led_by_its_heading() -> None:
    assert texts("## Commands\n```\nmake test\n```\n~~~sh\n```\n~~~\n") == [
        "Commands:\n```\nmake test\n```",
        "Commands:\n~~~sh\n```\n~~~",
    ]


def test_a_row_of_a_table_is_a_rule_with_the_names_of_its_columns() -> None:
    assert texts("| Tool | Use |\n|---|:-:|\n| ruff | lint \\| format |\n| mypy | |\n") == [
        "Tool: ruff; Use: lint | format",
        "Tool: mypy",
    ]


def test_front_matter_comments_and_tags_are_no_rules() -> None:
    front = "---\ndescription: TypeScript\nglobs: '*.ts'\n---\n"
    text = f"{front}<!-- generated -->\n<rules>\n- Tabs.\n</rules>\n\nUse `Array<T>`. <!-- x -->\n"
    assert texts(text) == ["Tabs.", "Use `Array<T>`."]


def test_a_rule_across_the_file_stands_there_once() -> None:
    assert rules("## A\n- Tabs.\n\n## B\n- Tabs.\n") == [Rule("Tabs.", ["a"])]


def test_quotes_are_read() -> None:
    assert texts("> **Note:** never push to main.\n>\n> - Tabs.\n") == ["**Note:** never push to main.", "Tabs."]


@pytest.mark.parametrize(
    "text", ["", "\n \n", "---\n", "# Only a title\n", "***\n", "- \n", "---\nname: x\n---\n", "<!-- x -->"]
)
def test_a_file_without_a_rule_has_none(text: str) -> None:
    assert read_rules(text) == []


def test_line_ends_and_a_byte_order_mark_do_not_matter() -> None:
    text = "# A\n\n## Tests\n- Use vitest.\n- Tabs.\n\n```\na\n```\n"
    assert read_rules("\ufeff" + text.replace("\n", "\r\n")) == read_rules(text)


def test_other_languages_are_read_alike() -> None:
    assert rules(
        "# 规范\n\n## 测试\n提交之前：\n- 运行 lint\n- 测试用 vitest。\n\n## Prüfungen\n- Formulare werden geprüft.\n"
    ) == [
        Rule("提交之前： 运行 lint", ["测试"]),
        Rule("提交之前： 测试用 vitest。", ["测试"]),
        Rule("Formulare werden geprüft.", ["prüfungen"]),
    ]


LINES = st.sampled_from(
    ["# T", "## A", "- a", "  - b", "    - c:", "1. d", "text", "a sentence.", "lead:", "", "```", "~~~", "| a | b |",
     "|---|---|", "> q", "<x>", "</x>", "<!--", "-->", "---", "    code", "\t- tab", "- [ ] e", "用 tabs。"]
)  # fmt: skip


@given(st.lists(LINES | st.text(max_size=20), max_size=30).map("\n".join))
def test_whatever_a_file_holds_it_is_read_and_read_alike_again(text: str) -> None:
    found = read_rules(text)
    assert len({rule.text for rule in found}) == len(found)
    assert all(rule.text.strip() and all(tag.strip() for tag in rule.tags) for rule in found)
    assert read_rules(text) == found


@given(st.lists(st.from_regex(r"[a-z]{3,8}( [a-z]{3,8}){1,3}", fullmatch=True), min_size=1, max_size=8, unique=True))
def test_no_item_is_lost(items: list[str]) -> None:
    assert texts("".join(f"- {item}\n" for item in items)) == items
