"""The searchable memories of one agent: what stays true while entries come, change and go."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from actrone_memory import MemoryEntry
from actrone_memory._index import AgentIndex
from actrone_memory._ranking import Weights
from actrone_memory._shelf import SMALLEST_REBUILD, Query, prepare, unit_vector
from actrone_memory.protocols import Page

T0 = datetime(2025, 1, 1, tzinfo=UTC)
EAST, NORTH, UP = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]


def entry(id_: str, content: str = "", embedding: list[float] | None = NORTH, **fields: Any) -> MemoryEntry:
    fields = {"session_id": "s", "content_type": "fact", "timestamp": T0, **fields}
    return MemoryEntry(id=id_, agent_id="a", content=content or id_, embedding=embedding, **fields)


def turn(sequence: int, content: str, session: str = "s", **fields: Any) -> MemoryEntry:
    fields = {"timestamp": T0 + timedelta(minutes=sequence), "sequence": sequence, **fields}
    return entry(f"{session}{sequence}", content, session_id=session, content_type="turn", **fields)


def index_of(*entries: MemoryEntry) -> AgentIndex:
    index = AgentIndex()
    for one in entries:
        index.put(prepare(one))
    return index


def page(
    index: AgentIndex, text: str | None = None, vector: list[float] = EAST, threshold: float = 0.5, **fields: Any
) -> Page:
    fields = {"limit": 50, "consider": max(fields.get("limit", 50), 50), **fields}
    return index.search(
        Query(
            vector=unit_vector(vector),
            text=text,
            threshold=threshold,
            weights=Weights(0.7, 0.3),
            now=(T0 + timedelta(days=30)).timestamp(),
            **fields,
        )
    )


def search(index: AgentIndex, *args: Any, **fields: Any) -> list[MemoryEntry]:
    return page(index, *args, **fields).entries


def ids(entries: list[MemoryEntry]) -> list[str]:
    return [one.id for one in entries]


def results(index: AgentIndex, *queries: str) -> list[list[tuple[str, float]]]:
    """Ids with scores, best first; what scores alike in the order of the ids, as row numbers are nobody's business."""
    found = []
    for query in queries:
        scored = [(one.id, round(one.score or 0.0, 4)) for one in search(index, query)]
        found.append(sorted(scored, key=lambda pair: (-pair[1], pair[0])))
    return found


def churn(index: AgentIndex, rounds: int = 4 * SMALLEST_REBUILD) -> None:
    """Put and remove so many strangers that the columns are rebuilt."""
    for i in range(rounds):
        index.put(prepare(turn(i, f"stranger{i}", session="elsewhere")))
        index.put(prepare(entry(f"stranger{i}", f"stranger{i}")))
    for i in range(rounds):
        assert index.remove(f"elsewhere{i}")
        assert index.remove(f"stranger{i}")


# --- what a search finds ----------------------------------------------------------------------------------------------


def test_without_text_the_cosine_admits_and_scores() -> None:
    index = index_of(entry("east", embedding=EAST), entry("north"), entry("between", embedding=[1.0, 1.0, 0.0]))
    found = search(index, threshold=0.5)
    assert ids(found) == ["east", "between"]
    assert [one.score for one in found] == pytest.approx([0.7 + 0.15, 0.7 * 0.5**0.5 + 0.15])


def test_with_text_words_admit_too() -> None:
    index = index_of(entry("1", "Unit tests run with Vitest"), entry("2", "Deploy on Fridays"))
    assert ids(search(index, "how do I run vitest")) == ["1"]
    assert ids(search(index, "deployments")) == ["2"]
    assert ids(search(index, "the of and")) == []
    assert ids(search(index, "vitest", vector=NORTH)) == ["1", "2"]


def test_tags_count_as_text() -> None:
    index = index_of(entry("1", "Use pnpm", topic_tags=["packaging"]), entry("2", "Use vitest", topic_tags=["testing"]))
    assert ids(search(index, "packaging")) == ["1"]


def test_a_turn_is_found_by_the_day_it_was_said_but_not_by_its_speakers() -> None:
    index = index_of(turn(0, "User: hello there\nAssistant: hi"))
    assert ids(search(index, "what happened in January 2025")) == ["s0"]
    assert ids(search(index, "user assistant")) == []


def test_a_turn_is_found_by_the_words_of_the_turns_around_it_behind_its_own() -> None:
    index = index_of(
        turn(0, "User: any favourite restaurant?"),
        turn(1, "Assistant: the harbour grill"),
        turn(2, "User: great"),
        turn(3, "User: something else"),
        turn(4, "User: unrelated"),
    )
    assert ids(search(index, "restaurant"))[:2] == ["s0", "s1"]
    assert "s4" not in ids(search(index, "restaurant"))


def test_words_do_not_leak_into_the_turns_of_another_session_or_into_memories() -> None:
    index = index_of(
        turn(0, "User: any favourite restaurant?"),
        turn(1, "User: hello", session="other"),
        entry("fact", "hello", sequence=1),
        entry("first", "alpha", content_type="summary", sequence=1),
        entry("second", "beta", content_type="summary", sequence=2),
    )
    assert ids(search(index, "restaurant")) == ["s0"]
    assert ids(search(index, "alpha")) == ["first"]


def test_a_long_chat_does_not_change_how_rare_a_word_is_among_rules() -> None:
    rules = [entry(str(i), f"rule {i} about deployment") for i in range(30)] + [entry("vitest", "tests use vitest")]
    quiet = index_of(*rules)
    loud = index_of(*rules, *(turn(i, "User: vitest vitest vitest") for i in range(200)))
    kinds = {"content_types": ["fact"]}
    assert [(one.id, one.score) for one in search(loud, "vitest deployment", **kinds)] == [
        (one.id, one.score) for one in search(quiet, "vitest deployment", **kinds)
    ]


def test_an_entry_without_a_vector_is_found_by_its_words() -> None:
    index = index_of(
        entry("1", "vitest", embedding=None), entry("2", "jest", embedding=EAST), entry("3", "mocha", None)
    )
    assert ids(search(index, "vitest", vector=NORTH)) == ["1"]
    assert ids(search(index, "mocha", vector=NORTH)) == ["3"]
    assert ids(search(index, threshold=0.5)) == ["2"]


def test_a_query_without_direction_finds_by_words_alone() -> None:
    index = index_of(entry("1", "vitest"), entry("2", "jest"))
    assert ids(search(index, "vitest", vector=[0.0, 0.0, 0.0])) == ["1"]


def test_an_empty_index_finds_nothing() -> None:
    assert search(AgentIndex(), "anything") == search(AgentIndex()) == []
    assert len(AgentIndex()) == 0


# --- exactness --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [3, 37, 256, 384])
@pytest.mark.parametrize("copies", [3, 5, 7])
def test_equal_vectors_tie_exactly_so_that_importance_decides(dimensions: int, copies: int) -> None:
    rng = np.random.default_rng(dimensions * copies)
    for _ in range(20):
        vector = rng.normal(size=dimensions).tolist()
        index = index_of(*(entry(str(i), embedding=vector, importance_score=i / 10) for i in range(copies)))
        near = (np.array(vector) + rng.normal(size=dimensions) / 2).tolist()
        assert ids(search(index, vector=near, threshold=-1.0)) == [str(i) for i in reversed(range(copies))]


@pytest.mark.parametrize(("sign", "threshold"), [(1.0, 1.0), (-1.0, -1.0)])
def test_a_vector_meets_the_threshold_of_its_own_cosine(sign: float, threshold: float) -> None:
    rng = np.random.default_rng(11)
    for _ in range(100):
        vector = rng.normal(size=37)
        index = index_of(entry("same", embedding=vector.tolist()))
        assert ids(search(index, vector=(sign * vector).tolist(), threshold=threshold)) == ["same"]


def test_ties_between_turns_and_memories_are_broken_by_importance_too() -> None:
    fields: dict[str, Any] = {"embedding": EAST, "timestamp": T0}
    index = index_of(entry("fact", importance_score=0.1, **fields), turn(0, "x", importance_score=0.9, **fields))
    assert ids(search(index)) == ["s0", "fact"]
    assert ids(search(index, limit=1)) == ["s0"]


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_length_of_a_vector_does_not_matter(scale: float) -> None:
    assert unit_vector([3 * scale, 4 * scale]).tolist() == pytest.approx([0.6, 0.8])


# --- filters ----------------------------------------------------------------------------------------------------------


def test_content_types_filter_before_the_limit() -> None:
    index = index_of(
        *(turn(i, "User: vitest", embedding=EAST) for i in range(30)),
        *(entry(f"injected{i}", "vitest", EAST, content_type="injected") for i in range(30)),
        entry("fact", "vitest", [1.0, 0.5, 0.0]),
    )
    for text in (None, "vitest"):
        assert ids(search(index, text, content_types=["fact"], limit=1)) == ["fact"]
        assert {one.content_type for one in search(index, text, content_types=["turn", "fact"])} == {"turn", "fact"}
        assert len(search(index, text, limit=100)) == 61
        assert search(index, text, content_types=["summary"]) == search(index, text, content_types=[]) == []


def test_tags_filter_before_the_limit_and_any_of_them_will_do() -> None:
    index = index_of(
        *(entry(f"plain{i}", "vitest", EAST) for i in range(30)),
        entry("red", "vitest", [1.0, 0.5, 0.0], topic_tags=["red"]),
        entry("both", "vitest", [1.0, 0.4, 0.0], topic_tags=["red", "blue"]),
    )
    for text in (None, "vitest"):
        assert set(ids(search(index, text, tags=["red"], limit=2))) == {"red", "both"}
        assert ids(search(index, text, tags=["blue"])) == ["both"]
        assert set(ids(search(index, text, tags=["blue", "red"]))) == {"red", "both"}
        assert search(index, text, tags=["re"]) == search(index, text, tags=[]) == []
    index.put(prepare(entry("red", "vitest", EAST)))
    assert ids(search(index, tags=["red"])) == ["both"]


def test_the_limit_spans_turns_and_memories() -> None:
    index = index_of(
        turn(0, "x", embedding=EAST), entry("near", "x", [1.0, 0.1, 0.0]), entry("far", "x", [1.0, 0.9, 0.0])
    )
    assert len(search(index, limit=2, threshold=0.1)) == 2
    assert ids(search(index, limit=1, threshold=0.1)) == ["s0"]


@pytest.mark.parametrize("text", [None, "vitest"])
def test_a_page_holds_the_best_entries_and_the_ids_of_all_considered(text: str | None) -> None:
    index = index_of(
        *(entry(f"fact{i}", "vitest", [1.0, i / 20, 0.0]) for i in range(10)),
        *(turn(i, "User: vitest", embedding=[1.0, i / 20, 0.01]) for i in range(10)),
    )
    everything = search(index, text, consider=100)
    assert len(everything) == 20
    for limit, consider in ((1, 20), (3, 5), (5, 5), (20, 20)):
        found = page(index, text, limit=limit, consider=consider)
        assert [(one.id, one.score) for one in found.entries] == [(one.id, one.score) for one in everything[:limit]]
        assert list(found.considered) == ids(everything)[:consider]


# --- putting, removing, superseding -----------------------------------------------------------------------------------


def test_the_same_id_replaces_words_vector_tags_and_kind() -> None:
    index = index_of(entry("1", "old words", EAST, topic_tags=["old"]))
    index.put(prepare(entry("1", "new text", NORTH, topic_tags=["new"], content_type="turn")))
    assert len(index) == 1
    assert search(index, "old") == search(index) == search(index, vector=NORTH, tags=["old"]) == []
    assert ids(search(index, "text")) == ids(search(index, vector=NORTH, tags=["new"])) == ["1"]
    assert ids(search(index, "text", content_types=["turn"])) == ["1"]


def test_a_turn_that_grew_keeps_its_place_and_is_found_by_its_new_words() -> None:
    index = index_of(turn(0, "User: alpha"), turn(1, "User: beta"), turn(2, "User: gamma"))
    index.put(prepare(turn(1, "User: beta\nAssistant: delta")))
    assert results(index, "delta", "beta", "alpha", "gamma") == results(
        index_of(turn(0, "User: alpha"), turn(1, "User: beta\nAssistant: delta"), turn(2, "User: gamma")),
        "delta", "beta", "alpha", "gamma",
    )  # fmt: skip


def test_turns_of_one_number_can_be_removed_one_by_one() -> None:
    index = index_of(*(turn(1, f"word{i}").model_copy(update={"id": f"t{i}"}) for i in range(3)))
    for i in range(3):
        index.put(prepare(turn(0, f"before{i}").model_copy(update={"id": f"b{i}"})))  # its neighbours are indexed anew
        assert index.remove(f"t{2 - i}")
    index.put(prepare(turn(0, "last")))
    assert ids(index.entries(None, include_superseded=False)) == ["b0", "b1", "b2", "s0"]


def test_a_superseded_entry_is_kept_but_not_searched() -> None:
    index = index_of(entry("old", "vitest", EAST), entry("new", "jest", EAST))
    index.put(prepare(entry("old", "vitest", None, superseded_by="new")))
    assert search(index, "vitest", vector=NORTH) == []
    assert ids(search(index)) == ["new"]
    kept = index.get("old")
    assert kept is not None
    assert kept.superseded_by == "new"
    assert ids(index.entries(None, include_superseded=False)) == ["new"]
    assert set(ids(index.entries(None, include_superseded=True))) == {"old", "new"}
    assert set(index.ids()) == {"old", "new"}
    assert len(index) == 2
    assert index.remove("old")
    assert index.get("old") is None


def test_listing_is_oldest_first_and_filtered() -> None:
    index = index_of(
        entry("late", timestamp=T0 + timedelta(days=2)),
        turn(0, "x"),
        entry("early", timestamp=T0 - timedelta(days=2), content_type="injected"),
    )
    assert ids(index.entries(None, include_superseded=False)) == ["early", "s0", "late"]
    assert ids(index.entries(["fact", "injected"], include_superseded=False)) == ["early", "late"]


def test_removing_nothing_says_so() -> None:
    index = index_of(entry("1"))
    assert not index.remove("2")
    assert index.remove("1")
    assert not index.remove("1")
    assert index.get("1") is None


def test_all_turns_of_one_session_can_be_removed_and_nothing_else() -> None:
    index = index_of(
        *(turn(i, f"User: alpha{i}") for i in range(5)),
        turn(0, "User: beta", session="other"),
        entry("summary", "alpha", content_type="summary", sequence=4),
    )
    assert sorted(index.remove_session_turns("s")) == [f"s{i}" for i in range(5)]
    assert set(index.ids()) == {"other0", "summary"}
    assert ids(search(index, "alpha3")) == []
    assert index.remove_session_turns("s") == index.remove_session_turns("unknown") == []
    index.put(prepare(turn(7, "User: gamma")))
    assert ids(search(index, "gamma")) == ["s7"]


@pytest.mark.parametrize("fields", [{"sequence": None}, {"superseded_by": "other0"}], ids=["unnumbered", "superseded"])
def test_a_turn_goes_with_its_session_whatever_its_state(fields: dict[str, Any]) -> None:
    secret = turn(0, "User: secret").model_copy(update=fields)
    index = index_of(secret, turn(0, "User: beta", session="other"))
    assert index.remove_session_turns("s") == ["s0"]
    assert index.ids() == ["other0"]


def test_what_is_found_is_a_copy_without_its_vector() -> None:
    written = entry("1", "vitest", EAST, topic_tags=["one"], metadata={"k": {"v": 1}})
    index = index_of(written)
    written.topic_tags.append("two")
    (found,) = search(index)
    assert found.embedding is None
    found.topic_tags.append("three")
    found.metadata["k"] = None
    (again,) = search(index)
    assert (again.topic_tags, again.metadata) == (["one"], {"k": {"v": 1}})


# --- rebuilding -------------------------------------------------------------------------------------------------------


def conversation() -> list[MemoryEntry]:
    lines = ["favourite restaurant downtown", "pizza place", "harbour view", "opening hours", "table for two", "thanks"]
    return [turn(i, f"User: {line}") for i, line in enumerate(lines)]


QUERIES = ("restaurant", "pizza", "harbour hours", "table", "thanks", "vitest tests", "rule7", "alpha")


def test_a_rebuild_leaves_every_result_unchanged() -> None:
    rules = [entry(f"r{i}", f"rule{i} tests use vitest", [1.0, i / 9, 0.0], topic_tags=[f"t{i}"]) for i in range(9)]
    index = index_of(*conversation(), *rules)
    before, tagged = results(index, *QUERIES), ids(search(index, tags=["t3", "t4"]))
    churn(index)
    assert results(index, *QUERIES) == before
    assert ids(search(index, tags=["t3", "t4"])) == tagged
    assert index.remove("r3")
    assert ids(search(index, tags=["t3", "t4"])) == ["r4"]


def test_what_was_removed_and_put_back_is_found_as_before() -> None:
    index = index_of(*conversation())
    before = results(index, *QUERIES)
    for one in conversation():
        index.remove(one.id)
        index.put(prepare(one))
    assert results(index, *QUERIES) == before
    churn(index)
    assert results(index, *QUERIES) == before


def test_the_order_of_arrival_does_not_matter() -> None:
    expected = results(index_of(*conversation()), *QUERIES)
    rng = random.Random(2)
    for _ in range(10):
        assert results(index_of(*rng.sample(conversation(), 6)), *QUERIES) == expected


def test_a_removed_turn_takes_its_words_with_it() -> None:
    index = index_of(*conversation())
    index.remove("s0")
    assert search(index, "restaurant") == []
    assert results(index, *QUERIES) == results(index_of(*conversation()[1:]), *QUERIES)


@pytest.mark.parametrize("seed", range(8))
def test_any_history_finds_what_a_fresh_index_of_the_same_entries_finds(seed: int) -> None:
    rng = random.Random(seed)
    words = ["alpha", "beta", "gamma", "delta", "vitest", "deploy", "restaurant", "harbour", "rule7", "getUserById"]
    index, living = AgentIndex(), dict[str, MemoryEntry]()

    def text() -> str:
        return "User: " + " ".join(rng.choices(words, k=rng.randint(1, 6)))

    for step in range(600):
        chosen = rng.choice(sorted(living)) if living and rng.random() < 0.6 else None
        if chosen and rng.random() < 0.7:
            index.remove(chosen)
            del living[chosen]
        elif chosen:
            living[chosen] = living[chosen].model_copy(update={"content": text()})
            index.put(prepare(living[chosen]))
        else:
            new = (
                turn(rng.randint(0, 40), text(), session=rng.choice("stu"))
                if rng.random() < 0.7
                else entry(f"fact{step}", text(), rng.choice([EAST, NORTH, UP]), timestamp=T0 + timedelta(hours=step))
            )
            living[new.id] = new
            index.put(prepare(new))
    fresh = index_of(*sorted(living.values(), key=lambda one: (one.session_id, one.sequence or 0)))
    vectors = {one.id: one.embedding for one in living.values()}
    assert set(index.ids()) == set(living)
    assert results(index, *words) == results(fresh, *words)
    assert {i: index.get(i) for i in vectors} == {i: fresh.get(i) for i in vectors}
    assert set(ids(search(index, limit=500))) == {i for i, vector in vectors.items() if vector == EAST}


def test_nothing_of_what_was_removed_takes_room_for_ever() -> None:
    index = AgentIndex()
    for i in range(2_000):
        index.put(prepare(turn(0, f"User: version {i} of a turn that grows")))
    rows = len(list(index._turns._documents))
    assert rows <= 2 * SMALLEST_REBUILD
    assert ids(search(index, "1999")) == ["s0"]
