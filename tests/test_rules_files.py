"""A rules file becomes one memory for each rule, with the headings as tags."""

from __future__ import annotations

import textwrap
import time

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


@pytest.mark.parametrize(
    ("heading", "led"),
    [
        ("## Don't", "Don't: use spaces"),
        ("## Don't\n### Layout", "Don't: use spaces"),
        ("## ❌ Anti-patterns", "❌ Anti-patterns: use spaces"),
        ("## 禁止事项", "禁止事项: use spaces"),
        ("**Verboten**\n", "Verboten: use spaces"),
        ("Avoid", "Avoid: use spaces"),
        ("Do not:", "Do not: use spaces"),
        ("- **Never**", "**Never**: use spaces"),
        ("## Notes", "use spaces"),
        ("## Testing", "use spaces"),
        ("# Never forget", "use spaces"),
    ],
)
def test_what_a_heading_forbids_reads_as_forbidden(heading: str, led: str) -> None:
    indent = "  " if heading.startswith("-") else ""
    assert texts(f"{heading}\n{indent}- use spaces\n") == [led]


def test_a_paragraph_code_and_a_table_under_such_a_heading_read_as_forbidden() -> None:
    assert texts("## Don't\nGlobal state.\n```ts\nlet x\n```\n| What |\n|---|\n| eval |\n\nGod objects.\n") == [
        "Don't: Global state.\n```ts\nlet x\n```",
        "Don't: What: eval",
        "Don't: God objects.",
    ]


def test_a_tag_that_says_bad_is_kept_as_a_word() -> None:
    assert texts("<good>\nconst a\n</good>\n<bad>\nvar a\n</bad>\n") == ["const a", "Bad: var a"]


def test_lines_that_are_no_wrapped_text_are_rules() -> None:
    assert texts("You are an engineer.\nAlways use type hints\nPrefer pathlib over os.path\n") == [
        "You are an engineer.",
        "Always use type hints",
        "Prefer pathlib over os.path",
    ]
    assert texts("npm run build: Build the project\nnpm run test: Run the tests\n") == [
        "npm run build: Build the project",
        "npm run test: Run the tests",
    ]
    assert texts("Testing:\nUse pytest\nName files test_*.py\n") == [
        "Testing: Use pytest",
        "Testing: Name files test_*.py",
    ]


def test_wrapped_text_is_one_rule() -> None:
    wrapped = "Jede Änderung braucht einen Test, den die\nPrüfung findet. Ausgenommen sind reine\nTexte."
    assert texts(wrapped) == [wrapped.replace("\n", " ")]
    assert texts("Feature flags live in `flags.yaml`;\nremove them within two sprints.\n") == [
        "Feature flags live in `flags.yaml`; remove them within two sprints."
    ]


def test_a_long_paragraph_is_divided_between_sentences() -> None:
    sentences = [f"Sentence {i} tells of module {i}, e.g. how v1.{i} of it is released." for i in range(12)]
    found = texts(" ".join(sentences))
    assert " ".join(found) == " ".join(sentences)
    assert 2 <= len(found) <= 4
    assert all(len(text) <= 300 and text.endswith("released.") for text in found)
    chinese = "数据库的变更必须通过迁移完成，禁止手工修改。" * 20
    assert "".join(texts(chinese)) == chinese


def test_bullets_of_other_kinds_are_items() -> None:
    assert texts("## 運用\n・main へ直接 push しない\n・レビューは二人以上\n") == [
        "main へ直接 push しない",
        "レビューは二人以上",
    ]
    assert texts("• Use tabs\n• Write tests\n  for all of it\n") == ["Use tabs", "Write tests for all of it"]


def test_references_badges_and_contents_are_no_rules() -> None:
    assert texts(
        "[![CI](https://x/y.svg)](https://x) ![Logo](logo.png)\n\n@README.md\n@docs/guide.md\n\n"
        "- [Testing](#testing)\n  - [Unit](#unit)\n- @~/mine.md\n"
        "- See [Testing](#testing) first.\n- git: @docs/git.md\n"
    ) == ["See [Testing](#testing) first.", "git: @docs/git.md"]


def test_an_introduction_alone_is_no_rule() -> None:
    assert texts("Examples:\n\n## A\n\nThese tools:\n\n| Tool |\n|---|\n| ruff |\n") == ["Tool: ruff"]


def test_a_bold_introduction_leads_its_list() -> None:
    assert texts("**Testing:**\n- Use vitest\n- No mocks\n") == ["**Testing:** Use vitest", "**Testing:** No mocks"]


def test_a_bold_line_is_a_heading_until_the_next_one() -> None:
    assert rules(
        "## A\n\n**Unit tests**\n\nUse vitest.\n\n- Tabs.\n\n**E2E**\n\nUse playwright.\n\n## B\nSpaces.\n"
    ) == [
        Rule("Use vitest.", ["a", "unit tests"]),
        Rule("Tabs.", ["a", "unit tests"]),
        Rule("Use playwright.", ["a", "e2e"]),
        Rule("Spaces.", ["b"]),
    ]


def test_an_item_that_only_names_leads_what_is_nested_in_it() -> None:
    assert texts(
        "- Backend\n  - Python\n    - Use ruff\n    - Format:\n      - no black\n  - SQL\n    - Upper case\n"
    ) == [
        "Backend: Python: Use ruff",
        "Backend: Python: Format: no black",
        "Backend: SQL: Upper case",
    ]


def test_points_of_points_stay_below_them() -> None:
    assert texts("- Prefer named exports.\n  - except for all pages\n    - and layouts\n") == [
        "Prefer named exports.\n- except for all pages\n  - and layouts"
    ]


def test_a_definition_is_one_rule() -> None:
    assert texts("Branches\n: are named after the ticket\n") == ["Branches: are named after the ticket"]


def test_alerts_and_tags_around_a_rule_leave_the_rule() -> None:
    assert texts("> [!WARNING]\n> Never deploy locally.\n\n<rule name='sql'>Bind parameters.</rule>\n") == [
        "Never deploy locally.",
        "Bind parameters.",
    ]


def test_the_name_of_the_file_and_numbers_are_no_tags() -> None:
    assert [rule.tags for rule in rules("# CLAUDE.md\n## 一、代码风格\n- Tabs.\n# Reminders\n- Test.\n")] == [
        ["代码风格"],
        ["reminders"],
    ]


def test_front_matter_of_either_kind_is_no_rule() -> None:
    assert texts("+++\ntitle = 'x'\n+++\n\n- Tabs.\n") == ["Tabs."]


def test_fences_of_tildes_and_fences_in_fences_are_kept() -> None:
    code = '~~~python\ndef f():\n    """\n    ```\n    """\n~~~'
    assert texts(f"For example:\n\n{code}\n") == [f"For example:\n{code}"]


def test_a_rule_in_other_letters_stands_there_once() -> None:
    assert texts("- Use tabs.\n- use  TABS.\n") == ["Use tabs."]


def test_a_file_of_two_thousand_lines_is_read_whole_and_soon() -> None:
    lines = [f"## Area {i // 10}\n- Rule {i} of it.\n  - detail {i}\n" for i in range(700)]
    began = time.perf_counter()
    found = texts("".join(lines))
    assert time.perf_counter() - began < 10
    assert len(found) == 700


@pytest.mark.parametrize("piece", ["<", "<a", "a: ", "a. ", "<!--", "<!-->", "!", "・", "|", "@", "`", "a\n"])
@pytest.mark.parametrize("around", ["{}", "<p>\n{}\n</p>", "# {}a", "- {}\n  - a"])
def test_hostile_text_is_read_soon(piece: str, around: str) -> None:
    began = time.perf_counter()
    read_rules(around.format(piece * 60_000))
    assert time.perf_counter() - began < 10


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
