"""Facts taken out of sessions: stored once, beside what a caller said, never against what holds now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from actrone_memory import ExtractedFact, MemoryEntry, MemoryManager

NOW = datetime.now(UTC)


class Script:
    """An extractor that answers the next of some lists; the last one again and again."""

    def __init__(self, *answers: Sequence[ExtractedFact]) -> None:
        self.answers = list(answers)

    async def extract(self, text: str) -> list[ExtractedFact]:
        return list(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


def fact(content: str, importance: float = 0.6) -> ExtractedFact:
    return ExtractedFact(content=content, importance=importance)


async def talked(*answers: Sequence[ExtractedFact], said: datetime = NOW) -> MemoryManager:
    memory = await MemoryManager.create(extractor=Script(*answers))
    await memory.store_turn("a", "s", "a question", "an answer", timestamp=said)
    return memory


async def everything(memory: MemoryManager) -> list[MemoryEntry]:
    return await memory.list_memories("a", include_superseded=True)


async def test_a_fact_is_folded_with_the_same_text_in_other_letters_in_one_answer_and_in_the_store() -> None:
    memory = await talked([fact("The user lives in Lyon."), fact("THE USER  lives in Ｌyon.")])
    injected = await memory.inject_memory("a", "the user lives in Lyon.")
    assert await memory.extract_memories("a", "s") == [injected]
    assert await memory.extract_memories("a", "s") == [injected]
    assert len(await everything(memory)) == 1
    await memory.close()


async def test_what_a_caller_said_stays_theirs_when_a_model_finds_it_again() -> None:
    memory = await talked([fact("tests run with VITEST.", importance=0.3)])
    await memory.inject_memory("a", "Tests run with Vitest.", 0.9, session_id="conventions", source="user")
    (before,) = await everything(memory)
    await memory.extract_memories("a", "s")
    assert await everything(memory) == [before]
    await memory.inject_memory("a", "Tests run with Vitest.", 0.5)
    assert [entry.importance_score for entry in await everything(memory)] == [0.5], "a caller may lower it"
    await memory.close()


async def test_a_fact_found_again_is_as_important_as_it_was_found() -> None:
    memory = await talked([fact("Tests run.", 0.9)], [fact("Tests run.", 0.3)])
    await memory.extract_memories("a", "s")
    await memory.extract_memories("a", "s")
    assert [entry.importance_score for entry in await everything(memory)] == [0.9]
    await memory.close()


async def test_what_was_replaced_since_it_was_said_does_not_hold_again_because_a_model_reads_it_again() -> None:
    memory = await talked([fact("Refunds take ten days.")], said=NOW - timedelta(days=1))
    (old,) = await memory.extract_memories("a", "s")
    new = await memory.inject_memory("a", "Refunds take three days.", supersedes=old)
    await memory.extract_memories("a", "s")
    assert [entry.id for entry in await memory.list_memories("a")] == [new]
    await memory.close()


async def test_what_was_said_after_the_replacement_holds_again() -> None:
    memory = await talked([fact("Refunds take ten days.")], said=NOW - timedelta(days=1))
    (old,) = await memory.extract_memories("a", "s")
    await memory.inject_memory("a", "Refunds take three days.", supersedes=old)
    await memory.store_turn("a", "s", "ten days again", "Noted.", timestamp=datetime.now(UTC) + timedelta(seconds=1))
    await memory.extract_memories("a", "s")
    assert old in [entry.id for entry in await memory.list_memories("a")]
    await memory.close()


async def test_a_fact_is_as_old_as_what_it_was_taken_from() -> None:
    said = NOW - timedelta(days=400)
    memory = await talked([fact("Tests run with Jest.")], said=said)
    await memory.extract_memories("a", "s")
    assert [entry.timestamp for entry in await everything(memory)] == [said]
    await memory.close()
