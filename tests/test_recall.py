"""What is found by which words, what is not, and what comes first."""

from __future__ import annotations

import pytest

from actrone_memory import MemoryManager

LONG = "The gateway forwards requests to the upstream services and retries twice before it gives up. " * 20


async def found(memory: MemoryManager, query: str, agent: str = "a") -> list[str]:
    return [entry.content for entry in await memory.search_memories(agent, query)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("数据库迁移必须可以回滚", "迁移数据库"),
        ("茶は温かいうちに飲む", "茶"),
        ("テストはVitestで実行する", "テストの実行"),
        ("테스트는 비테스트로 실행한다", "테스트 실행"),
        ("Тесты запускаются через Vitest", "запустить тест"),
        ("الاختبارات تعمل كل ليلة", "اختبارات الليلة"),
        ("Οι δοκιμές τρέχουν κάθε βράδυ", "δοκιμή το βράδυ"),
        ("हर कमिट से पहले परीक्षण चलाएं", "परीक्षण"),
        ("การทดสอบทำงานทุกคืน", "ทดสอบ"),
        ("Releases get a 🚀 in the channel", "🚀"),
        ("Résumés are stored as PDF", "resume"),
        ("Die Formularfelder brauchen Beschriftungen", "Formularfeld"),
    ],
)
async def test_text_in_any_script_is_found_by_its_own_words(memory: MemoryManager, text: str, query: str) -> None:
    await memory.inject_memory("a", text)
    await memory.inject_memory("a", "Something else entirely lives here.")
    assert await found(memory, query) == [text]


@pytest.mark.parametrize(
    ("identifier", "query"),
    [
        ("INC48213", "what about inc48213?"),
        ("E1234", "compiler says E1234"),
        ("date-fns", "date-fns"),
        ("getUserById", "getUserById"),
        ("parse_user_input", "where is parse_user_input"),
        ("parse_user_input", "parseUserInput"),
        ("parseUserInput", "parse user input"),
        ("src/routes/users.ts", "src/routes/users.ts"),
        ("C#", "a C# question"),
        ("C++", "C++ headers"),
    ],
)
async def test_an_exact_identifier_in_a_long_memory_is_found(
    memory: MemoryManager, identifier: str, query: str
) -> None:
    wanted = f"{LONG} Remember {identifier} here. {LONG}"
    await memory.inject_memory("a", wanted)
    await memory.inject_memory("a", f"{LONG} Nothing of the kind. {LONG}")
    assert (await found(memory, query))[0] == wanted


async def test_cpp_and_csharp_are_different_things(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "C++ headers are self-contained.")
    await memory.inject_memory("a", "C# projects target net9.")
    assert await found(memory, "C++") == ["C++ headers are self-contained."]
    assert await found(memory, "C#") == ["C# projects target net9."]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Commit messages follow Conventional Commits.", "commit these changes"),
        ("Route handlers live in src/routes.", "add a handler"),
        ("Every test gets its own database.", "testing the importer"),
        ("Migrations are reviewed by two people.", "migrate the orders table"),
    ],
)
async def test_inflected_words_meet(memory: MemoryManager, text: str, query: str) -> None:
    await memory.inject_memory("a", text)
    assert await found(memory, query) == [text]


@pytest.mark.parametrize("size", [1, 2, 8, 40])
async def test_sentences_that_share_only_function_words_do_not_match(memory: MemoryManager, size: int) -> None:
    for i in range(size):
        await memory.inject_memory("a", f"The invoice {i} is in the folder of the accountant.")
    assert await found(memory, "what is the weather like in the mountains of the north") == []


async def test_of_two_equally_relevant_memories_the_more_important_comes_first(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Deploy with the green button.", 0.9)
    await memory.inject_memory("a", "Deploy with the amber button.", 0.2)
    assert (await found(memory, "deploy with a button"))[0] == "Deploy with the green button."


async def test_an_important_but_irrelevant_memory_pushes_nothing_out(memory: MemoryManager) -> None:
    for i in range(30):
        await memory.inject_memory("a", f"Absolutely vital fact number {i} about astronomy and planets.", 1.0)
    await memory.inject_memory("a", "Dates are formatted with date-fns.", 0.1)
    context = await memory.retrieve_context("a", "s", "format a date", 400)
    assert [m.content for m in context.episodic_memories] == ["Dates are formatted with date-fns."]


async def test_a_convention_comes_first_among_five_hundred_lines_of_chatter(memory: MemoryManager) -> None:
    for i in range(500):
        await memory.inject_memory("a", f"Chat line {i}: someone mentioned tests and went for lunch.", 0.3)
    await memory.inject_memory("a", "Unit tests run with Vitest, next to their module.", 0.9, topic_tags=["testing"])
    assert (await found(memory, "write unit tests for the cart module"))[0].startswith("Unit tests run with Vitest")


async def test_tags_are_words_of_their_memory(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Two spaces, no tabs.", topic_tags=["formatting"])
    assert await found(memory, "how is formatting done") == ["Two spaces, no tabs."]


async def test_a_query_of_fifty_thousand_characters_still_recalls(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Dates are formatted with date-fns.")
    padding = "lorem ipsum dolor " * 2_800
    for query in (f"format a date {padding}", f"{padding} format a date"):
        context = await memory.retrieve_context("a", "s", query, 800)
        assert [m.content for m in context.episodic_memories] == ["Dates are formatted with date-fns."]


async def test_the_same_state_gives_the_same_context(memory: MemoryManager) -> None:
    for i in range(20):
        await memory.inject_memory("a", f"Rule {i}: tests of module {i} run nightly.")
        await memory.store_turn("a", f"s{i}", f"run the tests of module {i}", "done")
    await memory.drain()
    first = await memory.retrieve_context("a", "s0", "tests of module 7", 800)
    again = await memory.retrieve_context("a", "s0", "tests of module 7", 800)
    assert first.render() == again.render()
    assert [m.id for m in first.episodic_memories] == [m.id for m in again.episodic_memories]


async def test_the_answer_to_a_question_is_found_by_the_words_of_the_question(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "Which wine goes with the halibut?", "Let me think about it.")
    await memory.store_turn("a", "s", "Take your time.", "The dry Riesling, I would say.")
    for i in range(30):
        await memory.store_turn("a", f"other{i}", f"Unrelated remark {i}", "Fine.")
    await memory.drain()
    context = await memory.retrieve_context("a", "new", "wine for the halibut", 800)
    assert any("Riesling" in entry.content for entry in context.recalled_turns[:2])
