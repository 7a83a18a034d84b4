"""The contract of stores and embedders as test suites: subclass one, build your part, run pytest.

    class TestMyStore(L1StoreConformance):
        async def make_store(self, max_turns):
            return MyStore(max_turns=max_turns)

Capabilities (see `actrone_memory.protocols`) are tested where a store has them and skipped by name where it has not.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

try:
    import pytest
except ImportError as error:
    raise ImportError("actrone_memory.testing needs pytest: pip install pytest") from error

from actrone_memory._similarity import cosine_similarity
from actrone_memory.errors import ActroneMemoryError, ValidationError
from actrone_memory.models import MemoryEntry, ToolResult, Turn
from actrone_memory.protocols import (
    AgentListing,
    ArchiveLog,
    BatchWrites,
    Embedder,
    EmbedderBinding,
    EmbedderIdentity,
    EntryAccess,
    EntryTransfer,
    L1Store,
    L2Store,
    MemoryListing,
    PagedSearch,
    Reindexing,
    SessionListing,
    SessionTransfer,
    SessionTurns,
    TurnBatches,
)

T = TypeVar("T")

ID_PAIRS = (
    *((f"a{separator}b", "c") for separator in ":/-_.|, #@\\%"),
    *(("a", f"b{separator}c") for separator in ":/-_.|, #@\\%"),
    ("a::b", "c"),
    ("a", "b::c"),
    ("a:b:c", "-"),
    ("a\\:b", "c"),
    ("a%3Ab", "c"),
    ("abc", "c"),
    ("a", "bc"),
    (" a", "c"),
    ("a ", "c"),
    ("a", " c"),
    ("a  b", "c"),
    ("a!", "c"),
    ("a?", "c"),
    ("a*", "c"),
    ("repo:{web}", "s*"),
    ("repo:{web", "}s*"),
    ("用户-1", "会话"),
    ("用戶-1", "会话"),
    ("-1", "会话"),
    ("Agent", "s"),
    ("agent", "s"),
    ("caf\u00e9", "s"),
    ("cafe\u0301", "s"),
    ('"a","b"', "c"),
    ("a/../b", "%2F"),
    ("x" * 64 + "1", "s"),
    ("x" * 64 + "2", "s"),
    ("x" * 255 + "y", "y" * 256),
    ("x" * 255 + "z", "y" * 256),
    ("x" * 255, "y" * 256),
)
"""Pairs of agent and session ids that mix in stores that join, trim, fold, cut or normalise them."""

TEXT = "  two  spaces, a tab\t, CR LF\r\n, a decomposed e\u0301, 日本 🚀, \u2028 and a last newline\n"
"""A text of which nothing may change."""

THREADS = 8
DAY = timedelta(days=1)
LONG_AGO = datetime(2024, 1, 1, tzinfo=UTC)


def _turn(session_id: str, text: str, **fields: Any) -> Turn:
    return Turn(session_id=session_id, user_message=text, assistant_message=f"answer to {text}", **fields)


def _entry(agent_id: str, content: str, embedding: list[float], **fields: Any) -> MemoryEntry:
    fields = {"session_id": "s", "content_type": "fact", "timestamp": LONG_AGO, **fields}
    return MemoryEntry(agent_id=agent_id, content=content, embedding=embedding, **fields)


def _texts(turns: Sequence[Turn]) -> list[str]:
    return [turn.user_message for turn in turns]


def _contents(entries: Sequence[MemoryEntry]) -> list[str]:
    return [entry.content for entry in entries]


async def _refused(call: Awaitable[object], kind: type[ActroneMemoryError] = ActroneMemoryError) -> None:
    try:
        await call
    except kind:
        return
    pytest.fail(f"should have raised {kind.__name__}")


async def _gathered(calls: Iterable[Awaitable[T]]) -> list[T]:
    return await asyncio.gather(*calls)


def _in_threads(job: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Run ``job(i)`` in `THREADS` threads at once, each on an event loop of its own."""
    failures: list[BaseException] = []

    def run(i: int) -> None:
        try:
            asyncio.run(job(i))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def _capability(store: object, protocol: type[T]) -> T:
    if not isinstance(store, protocol):
        pytest.skip(f"{type(store).__name__} has no {protocol.__name__}")
    return store


class L1StoreConformance:
    """The contract of an `L1Store`."""

    async def make_store(self, max_turns: int) -> L1Store:
        """A new, empty store that keeps ``max_turns`` turns of a session."""
        raise NotImplementedError

    async def _filled(self, texts: Sequence[str], max_turns: int = 50) -> L1Store:
        store = await self.make_store(max_turns)
        for text in texts:
            await store.append_turn("a", "s", _turn("s", text))
        return store

    def test_an_unknown_session_is_empty(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            assert await store.get_recent_turns("a", "s") == []
            assert await store.turn_count("a", "s") == 0
            assert await store.get_session_metadata("a", "s") is None
            await store.clear_session("a", "s")
            await store.close()

        asyncio.run(check())

    def test_turns_come_back_in_the_order_of_appending_whatever_their_times(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            for i in range(12):
                await store.append_turn("a", "s", _turn("s", str(i), timestamp=LONG_AGO - i * DAY))
            assert _texts(await store.get_recent_turns("a", "s")) == [str(i) for i in range(12)]
            await store.close()

        asyncio.run(check())

    def test_n_limits_a_read_to_the_newest_turns(self) -> None:
        async def check() -> None:
            store = await self._filled(["0", "1", "2", "3"])
            assert _texts(await store.get_recent_turns("a", "s", 1)) == ["3"]
            assert _texts(await store.get_recent_turns("a", "s", 3)) == ["1", "2", "3"]
            assert _texts(await store.get_recent_turns("a", "s", 99)) == ["0", "1", "2", "3"]
            await store.close()

        asyncio.run(check())

    def test_n_below_one_is_refused(self) -> None:
        async def check() -> None:
            store = await self._filled(["0", "1"])
            for n in (0, -1):
                await _refused(store.get_recent_turns("a", "s", n), ValidationError)
            assert await store.turn_count("a", "s") == 2
            await store.close()

        asyncio.run(check())

    def test_every_field_of_a_turn_comes_back(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            result = ToolResult(
                tool_name="search",
                params={"q": TEXT, "n": 3, "deep": {"list": [1, 2.5, None, True]}},
                result={"rows": [TEXT, '"quoted"', ""]},
                success=False,
                duration_ms=12,
            )
            stored = Turn(
                id="turn:1",
                session_id="s",
                user_message=TEXT,
                assistant_message="",
                tool_results=[result],
                timestamp=datetime(2025, 3, 4, 5, 6, 7, 890123, tzinfo=UTC),
                token_count=7,
                metadata={"langchain": {"type": "ai", "parts": [1, None]}},
            )
            await store.append_turn("a", "s", stored)
            (read,) = await store.get_recent_turns("a", "s")
            record = (read.records or [read])[0]
            for field in set(Turn.model_fields) - {"sequence", "records"}:
                assert getattr(record, field) == getattr(stored, field), field
            await store.close()

        asyncio.run(check())

    def test_a_message_of_a_million_characters_comes_back_whole(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            long = ("0123456789\r\n\t " * 72_000)[:1_000_000]
            await store.append_turn("a", "s", Turn(session_id="s", user_message=long, assistant_message=long[::-1]))
            (read,) = await store.get_recent_turns("a", "s")
            assert read.user_message == long
            assert read.assistant_message == long[::-1]
            await store.close()

        asyncio.run(check())

    def test_a_record_with_nothing_before_it_is_kept(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            await store.append_turn("a", "s", _turn("s", "headless", continues=True))
            (read,) = await store.get_recent_turns("a", "s")
            assert read.user_message == "headless"
            assert (read.records or [read])[0].continues
            await store.close()

        asyncio.run(check())

    def test_what_reads_return_are_copies(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            result = ToolResult(tool_name="t", params={"p": [1]}, result={"r": [1]}, success=True)
            written = _turn("s", "kept", metadata={"k": {"v": 1}}, tool_results=[result])
            await store.append_turn("a", "s", written)
            (read,) = await store.get_recent_turns("a", "s")
            for copy in (written, read, *read.records):
                copy.user_message = "changed"
                copy.tool_results[0].params["p"] = "changed"
                copy.metadata["k"] = "changed"
            (again,) = await store.get_recent_turns("a", "s")
            assert again.user_message == "kept"
            assert again.tool_results[0].params == {"p": [1]}
            assert (again.records or [again])[0].metadata == {"k": {"v": 1}}
            await store.close()

        asyncio.run(check())

    def test_a_record_id_is_appended_once_in_a_session_and_free_in_another(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            for text in ("first", "second"):
                await store.append_turn("a", "s", _turn("s", text, id="same"))
            await store.append_turn("a", "other", _turn("other", "third", id="same"))
            await store.append_turn("b", "s", _turn("s", "fourth", id="same"))
            assert _texts(await store.get_recent_turns("a", "s")) == ["first"]
            assert _texts(await store.get_recent_turns("a", "other")) == ["third"]
            assert _texts(await store.get_recent_turns("b", "s")) == ["fourth"]
            await store.close()

        asyncio.run(check())

    def test_a_record_id_is_recognised_after_its_turn_was_trimmed(self) -> None:
        async def check() -> None:
            store = await self.make_store(2)
            for i in range(900):
                await store.append_turn("a", "s", _turn("s", str(i), id=f"id-{i}"))
            await store.append_turn("a", "s", _turn("s", "again", id="id-0"))
            assert _texts(await store.get_recent_turns("a", "s")) == ["898", "899"]
            await store.close()

        asyncio.run(check())

    def test_sessions_of_any_ids_never_mix(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            for i, (agent, session) in enumerate(ID_PAIRS):
                await store.append_turn(agent, session, _turn(session, str(i)))
            for i, (agent, session) in enumerate(ID_PAIRS):
                assert _texts(await store.get_recent_turns(agent, session)) == [str(i)], (agent, session)
                assert await store.turn_count(agent, session) == 1
            agent, session = ID_PAIRS[0]
            await store.clear_session(agent, session)
            assert await store.turn_count(agent, session) == 0
            for agent, session in ID_PAIRS[1:]:
                assert await store.turn_count(agent, session) == 1, (agent, session)
            await store.close()

        asyncio.run(check())

    def test_a_cleared_session_is_gone_and_may_begin_anew(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            await store.append_turn("a", "s", _turn("s", "old", id="1"))
            await store.clear_session("a", "s")
            assert await store.get_recent_turns("a", "s") == []
            assert await store.get_session_metadata("a", "s") is None
            await store.append_turn("a", "s", _turn("s", "new", id="1"))
            assert _texts(await store.get_recent_turns("a", "s")) == ["new"]
            await store.close()

        asyncio.run(check())

    def test_clearing_takes_an_id_literally(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            pairs = [("a", "s1"), ("a", "s2"), ("a", "s"), ("b", "s"), ("b", "s*"), ("b", "s%"), ("b", "s_")]
            for agent, session in pairs:
                await store.append_turn(agent, session, _turn(session, "hello"))
            for agent, session in (("a", "s"), ("b", "s*"), ("b", "s%"), ("b", "s_"), ("a", "*"), ("a", "%")):
                await store.clear_session(agent, session)
            left = [pair for pair in pairs if await store.turn_count(*pair)]
            assert left == [("a", "s1"), ("a", "s2"), ("b", "s")]
            await store.close()

        asyncio.run(check())

    def test_a_session_keeps_its_beginning_and_its_end_moves_on(self) -> None:
        async def check() -> None:
            store = await self._filled(["first"])
            before = await store.get_session_metadata("a", "s")
            await asyncio.sleep(0.02)
            await store.append_turn("a", "s", _turn("s", "second"))
            after = await store.get_session_metadata("a", "s")
            assert before is not None
            assert after is not None
            assert before.last_active is not None
            assert after.last_active is not None
            assert after.created_at == before.created_at
            assert after.last_active > before.last_active
            await store.close()

        asyncio.run(check())

    def test_metadata_counts_turns_and_tells_their_times(self) -> None:
        async def check() -> None:
            store = await self._filled(["0", "1", "2"])
            metadata = await store.get_session_metadata("a", "s")
            assert metadata is not None
            assert (metadata.agent_id, metadata.session_id, metadata.turn_count) == ("a", "s", 3)
            assert metadata.created_at is not None
            assert metadata.last_active is not None
            assert metadata.created_at <= metadata.last_active
            await store.close()

        asyncio.run(check())

    def test_only_the_window_of_newest_turns_is_kept(self) -> None:
        async def check() -> None:
            store = await self._filled([str(i) for i in range(10)], max_turns=3)
            assert _texts(await store.get_recent_turns("a", "s")) == ["7", "8", "9"]
            assert await store.turn_count("a", "s") == 3
            await store.close()

        asyncio.run(check())

    def test_the_summary_lock_has_one_holder_until_its_time_is_over(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            assert await store.try_acquire_summary_lock("a", "s", 1)
            assert not await store.try_acquire_summary_lock("a", "s", 1)
            assert await store.try_acquire_summary_lock("a", "other", 1)
            assert await store.try_acquire_summary_lock("b", "s", 1)
            await asyncio.sleep(1.1)
            assert await store.try_acquire_summary_lock("a", "s", 1)
            await store.close()

        asyncio.run(check())

    def test_many_threads_lose_nothing_and_keep_each_writers_order(self) -> None:
        store = asyncio.run(self.make_store(1_000))

        async def write(i: int) -> None:
            for k in range(25):
                await store.append_turn("a", "s", _turn("s", f"{i}:{k}"))

        _in_threads(write)
        texts = _texts(asyncio.run(store.get_recent_turns("a", "s")))
        assert len(texts) == THREADS * 25
        for i in range(THREADS):
            assert [text for text in texts if text.startswith(f"{i}:")] == [f"{i}:{k}" for k in range(25)]
        asyncio.run(store.close())

    def test_closing_twice_is_no_error(self) -> None:
        async def check() -> None:
            store = await self.make_store(50)
            await store.close()
            await store.close()

        asyncio.run(check())

    def test_batches_keep_turns_whole(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(2), TurnBatches)
            assert isinstance(store, L1Store)
            for i in range(4):
                question = Turn(session_id="s", user_message=f"q{i}", assistant_message="")
                answer = Turn(session_id="s", user_message="", assistant_message=f"a{i}", continues=True)
                await store.append_turns("a", "s", [question, answer])
            assert await store.turn_count("a", "s") == 2
            turns = await store.get_recent_turns("a", "s")
            assert [(turn.user_message, turn.assistant_message) for turn in turns] == [("q2", "a2"), ("q3", "a3")]
            assert [len(turn.records) for turn in turns] == [2, 2]
            assert _texts(await store.get_recent_turns("a", "s", 1)) == ["q3"]
            await store.close()

        asyncio.run(check())

    def test_a_batch_is_appended_whole_or_not_at_all(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(50), TurnBatches)
            assert isinstance(store, L1Store)
            broken = _turn("s", "broken")
            broken.user_message = "\ud800"
            await _refused(store.append_turns("a", "s", [_turn("s", "fine"), broken]))
            assert await store.turn_count("a", "s") == 0
            await store.close()

        asyncio.run(check())

    def test_a_batch_skips_the_records_it_has_seen_and_no_other(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(50), TurnBatches)
            assert isinstance(store, L1Store)
            await store.append_turn("a", "s", _turn("s", "one", id="1"))
            again = [_turn("s", text, id=id_) for text, id_ in (("x", "1"), ("two", "2"), ("y", "2"), ("three", "3"))]
            await store.append_turns("a", "s", again)
            assert _texts(await store.get_recent_turns("a", "s")) == ["one", "two", "three"]
            await store.close()

        asyncio.run(check())

    def test_many_sessions_are_all_listed_the_most_recently_active_first(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(50), SessionListing)
            assert isinstance(store, L1Store)
            names = [f"s{i}" for i in range(120)]
            for i, name in enumerate(names):
                await store.append_turn("a", name, _turn(name, "hello", timestamp=LONG_AGO + i * DAY))
            await store.clear_session("a", "s60")
            names.remove("s60")
            assert [metadata.session_id for metadata in await store.list_sessions("a")] == names[::-1]
            await store.close()

        asyncio.run(check())

    def test_agents_with_a_session_are_listed(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(50), AgentListing)
            assert isinstance(store, L1Store)
            assert await store.list_agents() == []
            for agent, session in ID_PAIRS:
                await store.append_turn(agent, session, _turn(session, "hello"))
            agents = sorted({agent for agent, _ in ID_PAIRS})
            assert await store.list_agents() == agents
            for agent, session in ID_PAIRS:
                if agent == agents[0]:
                    await store.clear_session(agent, session)
            assert await store.list_agents() == agents[1:]
            await store.close()

        asyncio.run(check())

    def test_listed_sessions_are_all_of_one_agent(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(50), SessionListing)
            assert isinstance(store, L1Store)
            for agent, session in ID_PAIRS:
                await store.append_turn(agent, session, _turn(session, "hello"))
            for agent, _ in ID_PAIRS:
                listed = await store.list_sessions(agent)
                expected = {session for owner, session in ID_PAIRS if owner == agent}
                assert {metadata.session_id for metadata in listed} == expected, agent
                assert {metadata.agent_id for metadata in listed} == {agent}
            assert await store.list_sessions("nobody") == []
            await store.close()

        asyncio.run(check())

    def test_turns_wait_for_the_archive_before_they_are_trimmed(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(2), ArchiveLog)
            assert isinstance(store, TurnBatches)
            for i in range(5):
                await store.append_turns("a", "s", [_turn("s", str(i))], hold=True)
            assert isinstance(store, L1Store)
            assert _texts(await store.get_recent_turns("a", "s")) == ["3", "4"]
            assert await store.turn_count("a", "s") == 2
            for agent, session in (("a", "other"), ("b", "s")):
                await store.append_turn(agent, session, _turn(session, "waits for its own mark"))
            waiting = await store.unarchived("a", "s")
            assert _texts(waiting) == ["0", "1", "2", "3", "4"]
            await store.mark_archived("a", "s", waiting[:3])
            assert _texts(await store.unarchived("a", "s")) == ["3", "4"]
            await store.mark_archived("a", "s", waiting)
            await store.mark_archived("a", "s", waiting[:1])
            assert await store.unarchived("a", "s") == []
            assert len(await store.unarchived("a", "other")) == len(await store.unarchived("b", "s")) == 1
            await store.close()

        asyncio.run(check())

    def test_a_turn_that_grows_waits_for_the_archive_again_as_a_whole(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(50), ArchiveLog)
            assert isinstance(store, L1Store)
            await store.append_turn("a", "s", Turn(session_id="s", user_message="question", assistant_message=""))
            await store.mark_archived("a", "s", await store.unarchived("a", "s"))
            answer = Turn(session_id="s", user_message="", assistant_message="answer", continues=True)
            await store.append_turn("a", "s", answer)
            (turn,) = await store.unarchived("a", "s")
            assert (turn.user_message, turn.assistant_message) == ("question", "answer")
            await store.close()

        asyncio.run(check())

    def test_what_was_erased_is_never_handed_to_the_archive_again(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(50), ArchiveLog)
            assert isinstance(store, L1Store)
            await store.append_turn("a", "s", _turn("s", "secret"))
            await store.append_turn("b", "s", _turn("s", "of another agent"))
            await store.mark_erased("a")
            assert await store.unarchived("a", "s") == []
            assert _texts(await store.get_recent_turns("a", "s")) == ["secret"]
            late = Turn(session_id="s", user_message="", assistant_message="late answer", continues=True)
            await store.append_turn("a", "s", late)
            assert [turn.user_message for turn in await store.unarchived("a", "s")] == [""]
            assert _texts(await store.unarchived("b", "s")) == ["of another agent"]
            await store.close()

        asyncio.run(check())

    def test_a_late_mark_of_a_cleared_session_does_not_touch_the_new_one(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(50), ArchiveLog)
            assert isinstance(store, L1Store)
            for i in range(3):
                await store.append_turn("a", "s", _turn("s", str(i)))
            old = await store.unarchived("a", "s")
            await store.clear_session("a", "s")
            await store.append_turn("a", "s", _turn("s", "new"))
            await store.mark_archived("a", "s", old)
            assert _texts(await store.unarchived("a", "s")) == ["new"]
            await store.close()

        asyncio.run(check())

    def test_a_copied_session_is_added_with_all_that_was_known_of_it(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(2), SessionTransfer)
            assert isinstance(store, L1Store)
            assert isinstance(store, TurnBatches)
            assert isinstance(store, ArchiveLog)
            for i in range(6):
                await store.append_turns("a", "s", [_turn("s", str(i), id=str(i), timestamp=LONG_AGO)], hold=True)
            await store.mark_archived("a", "s", (await store.unarchived("a", "s"))[:5])
            copy = await store.copy_session("a", "s")
            assert copy is not None
            assert await store.add_session("b", copy)
            assert await store.copy_session("b", "s") == copy
            assert await store.get_recent_turns("b", "s") == await store.get_recent_turns("a", "s")
            assert _texts(await store.unarchived("b", "s")) == ["5"]
            for seen in ("0", "5"):
                await store.append_turn("b", "s", _turn("s", "again", id=seen))
            await store.append_turn("b", "s", _turn("s", "next"))
            assert _texts(await store.get_recent_turns("b", "s")) == ["5", "next"]
            assert await store.copy_session("a", "s") == copy
            await store.close()

        asyncio.run(check())

    def test_a_copied_session_does_not_hand_out_what_was_erased(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(2), SessionTransfer)
            assert isinstance(store, L1Store)
            assert isinstance(store, ArchiveLog)
            await store.append_turn("a", "s", _turn("s", "secret"))
            await store.mark_erased("a")
            late = Turn(session_id="s", user_message="", assistant_message="late answer", continues=True)
            await store.append_turn("a", "s", late)
            copy = await store.copy_session("a", "s")
            assert copy is not None
            assert await store.add_session("b", copy)
            assert [turn.assistant_message for turn in await store.unarchived("b", "s")] == ["late answer"]
            await store.close()

        asyncio.run(check())

    def test_a_session_that_is_there_is_neither_replaced_nor_mixed(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(50), SessionTransfer)
            assert isinstance(store, L1Store)
            await store.append_turn("a", "s", _turn("s", "of a"))
            await store.append_turn("b", "s", _turn("s", "of b"))
            copy = await store.copy_session("a", "s")
            assert copy is not None
            assert not await store.add_session("b", copy)
            assert _texts(await store.get_recent_turns("b", "s")) == ["of b"]
            assert await store.copy_session("a", "other") is None
            assert await store.copy_session("nobody", "s") is None
            await store.close()

        asyncio.run(check())


class L2StoreConformance:
    """The contract of an `L2Store`. Set ``hybrid = False`` for a store that ignores ``query_text``."""

    hybrid = True

    async def make_store(self) -> L2Store:
        """A new, empty store for vectors of 3 dimensions; it ranks with weights .7 and .3."""
        raise NotImplementedError

    def test_an_unknown_agent_has_no_memories(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            assert await store.search("a", [1.0, 0.0, 0.0], -1.0) == []
            await store.delete("no-such-id")
            await store.delete_agent_memories("a")
            await store.close()

        asyncio.run(check())

    def test_agents_with_a_memory_are_listed(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), AgentListing)
            assert isinstance(store, L2Store)
            assert await store.list_agents() == []
            for agent in ("b", "a: b", "a"):
                await store.upsert(_entry(agent, TEXT, [1.0, 0.0, 0.0], id=f"of {agent}"))
            assert await store.list_agents() == ["a", "a: b", "b"]
            await store.delete("of a")
            await store.delete_agent_memories("b")
            assert await store.list_agents() == ["a: b"]
            await store.close()

        asyncio.run(check())

    def test_every_field_of_an_entry_comes_back(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            stored = _entry(
                "a",
                TEXT,
                [1.0, 0.0, 0.0],
                id="memory-1",
                session_id="repo: web",
                content_type="injected",
                importance_score=0.9,
                topic_tags=["testing", "名前"],
                token_count=5,
                timestamp=datetime(2025, 3, 4, 5, 6, 7, 890000, tzinfo=UTC),
                source_turn_ids=["t1", "t2"],
                source="user",
                sensitivity="pii",
                metadata={"page": 3},
                sequence=7,
            )
            await store.upsert(stored)
            (read,) = await store.search("a", [1.0, 0.0, 0.0], 0.5)
            for field in set(MemoryEntry.model_fields) - {"embedding", "score", "score_parts"}:
                assert getattr(read, field) == getattr(stored, field), field
            await store.close()

        asyncio.run(check())

    def test_the_closest_memory_comes_first_and_the_threshold_gates(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            await store.upsert(_entry("a", "far", [0.0, 1.0, 0.0]))
            await store.upsert(_entry("a", "near", [1.0, 0.1, 0.0]))
            await store.upsert(_entry("a", "middle", [1.0, 1.0, 0.0]))
            await store.upsert(_entry("a", "opposite", [-1.0, 0.0, 0.0]))
            query = [1.0, 0.0, 0.0]
            assert _contents(await store.search("a", query, 0.5)) == ["near", "middle"]
            assert _contents(await store.search("a", query, 0.9)) == ["near"]
            assert _contents(await store.search("a", [40.0, 0.0, 0.0], 0.9)) == ["near"]
            await store.upsert(_entry("a", "same", [2.0, 0.0, 0.0]))
            assert _contents(await store.search("a", query, 1.0)) == ["same"]
            await store.delete((await store.search("a", query, 1.0))[0].id)
            assert _contents(await store.search("a", query, -1.0)) == ["near", "middle", "far", "opposite"]
            await store.close()

        asyncio.run(check())

    def test_limit_keeps_the_best(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            for i in range(30):
                await store.upsert(_entry("a", str(i), [1.0, i / 10, 0.0]))
            assert _contents(await store.search("a", [1.0, 0.0, 0.0], -1.0, 3)) == ["0", "1", "2"]
            assert len(await store.search("a", [1.0, 0.0, 0.0], -1.0)) == 20
            for limit in (0, -1):
                await _refused(store.search("a", [1.0, 0.0, 0.0], -1.0, limit), ValidationError)
            await store.close()

        asyncio.run(check())

    def test_of_equally_close_memories_the_newer_comes_first_then_the_more_important(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            now = datetime.now(UTC)
            await store.upsert(_entry("a", "new", [1.0, 0.0, 0.0], timestamp=now))
            await store.upsert(_entry("a", "old", [1.0, 0.0, 0.0], timestamp=now - 60 * DAY, importance_score=1.0))
            assert _contents(await store.search("a", [1.0, 0.0, 0.0], 0.5)) == ["new", "old"]
            for content, importance in (("plain", 0.1), ("important", 0.9), ("middling", 0.5)):
                await store.upsert(_entry("b", content, [1.0, 0.0, 0.0], importance_score=importance, timestamp=now))
            assert _contents(await store.search("b", [1.0, 0.0, 0.0], 0.5)) == ["important", "middling", "plain"]
            await store.close()

        asyncio.run(check())

    def test_a_large_limit_is_honoured(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            for i in range(1_100):
                await store.upsert(_entry("a", str(i), [1.0, i / 2_000, 0.0]))
            found = await store.search("a", [1.0, 0.0, 0.0], -1.0, 1_000_000)
            assert _contents(found) == [str(i) for i in range(1_100)]
            await store.close()

        asyncio.run(check())

    def test_a_content_of_a_million_characters_comes_back_whole(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            long = ("lorem ipsum\r\n\t " * 72_000)[:1_000_000]
            await store.upsert(_entry("a", long, [1.0, 0.0, 0.0], topic_tags=["b", "a", "C"]))
            (read,) = await store.search("a", [1.0, 0.0, 0.0], 0.5)
            assert read.content == long
            assert read.topic_tags == ["b", "a", "C"]
            await store.close()

        asyncio.run(check())

    def test_content_types_filter(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            for kind in ("turn", "summary", "injected", "fact"):
                await store.upsert(_entry("a", kind, [1.0, 0.0, 0.0], content_type=kind))
            query = [1.0, 0.0, 0.0]
            assert set(_contents(await store.search("a", query, 0.5))) == {"turn", "summary", "injected", "fact"}
            assert _contents(await store.search("a", query, 0.5, content_types=["turn"])) == ["turn"]
            found = await store.search("a", query, 0.5, 20, ["fact", "summary"])
            assert set(_contents(found)) == {"fact", "summary"}
            assert await store.search("a", query, 0.5, content_types=["tool_result"]) == []
            await store.close()

        asyncio.run(check())

    def test_the_limit_counts_what_the_filters_leave(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            for i in range(40):
                await store.upsert(_entry("other", f"near {i}", [1.0, 0.0, 0.0]))
                await store.upsert(_entry("a", f"near {i}", [1.0, 0.0, 0.0]))
            await store.upsert(_entry("a", "a turn", [1.0, 0.5, 0.0], content_type="turn"))
            await store.upsert(_entry("b", "far", [1.0, 0.5, 0.0]))
            query = [1.0, 0.0, 0.0]
            assert _contents(await store.search("a", query, 0.5, 1, ["turn"])) == ["a turn"]
            assert _contents(await store.search("b", query, 0.5, 1)) == ["far"]
            await store.close()

        asyncio.run(check())

    def test_an_entry_without_a_direction_is_kept_and_close_to_nothing(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            await store.upsert(_entry("a", "zero", [0.0, 0.0, 0.0]))
            await store.upsert(_entry("a", "near", [1.0, 0.0, 0.0]))
            assert _contents(await store.search("a", [1.0, 0.0, 0.0], 0.1)) == ["near"]
            assert set(_contents(await store.search("a", [1.0, 0.0, 0.0], -1.0))) == {"near", "zero"}
            assert await store.search("a", [0.0, 0.0, 0.0], 0.1) == []
            await store.upsert(MemoryEntry(agent_id="a", session_id="s", content="no vector", content_type="fact"))
            assert "no vector" in _contents(await store.search("a", [1.0, 0.0, 0.0], -1.0))
            await store.close()

        asyncio.run(check())

    def test_deleting_an_agent_takes_its_id_literally(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            for agent in ("a", "a1", "a*", "a%", "a_"):
                await store.upsert(_entry(agent, agent, [1.0, 0.0, 0.0]))
            for agent in ("a*", "a%", "a_", "*", "%"):
                await store.delete_agent_memories(agent)
            for agent in ("a", "a1"):
                assert _contents(await store.search(agent, [1.0, 0.0, 0.0], 0.5)) == [agent]
            await store.close()

        asyncio.run(check())

    def test_agents_of_any_ids_never_mix(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            agents = list(dict.fromkeys(agent for agent, _ in ID_PAIRS))
            for i, agent in enumerate(agents):
                await store.upsert(_entry(agent, str(i), [1.0, 0.0, 0.0]))
            for i, agent in enumerate(agents):
                for text in (None, str(i)):
                    found = await store.search(agent, [1.0, 0.0, 0.0], 0.5, query_text=text)
                    assert _contents(found) == [str(i)], agent
            await store.delete_agent_memories(agents[0])
            assert await store.search(agents[0], [1.0, 0.0, 0.0], -1.0) == []
            for i, agent in enumerate(agents[1:], start=1):
                assert _contents(await store.search(agent, [1.0, 0.0, 0.0], 0.5)) == [str(i)], agent
            await store.close()

        asyncio.run(check())

    def test_the_same_id_replaces_its_entry(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            await store.upsert(_entry("a", "old words", [1.0, 0.0, 0.0], id="1"))
            await store.upsert(_entry("a", "new words", [0.0, 1.0, 0.0], id="1"))
            assert _contents(await store.search("a", [1.0, 0.0, 0.0], -1.0)) == ["new words"]
            assert await store.search("a", [1.0, 0.0, 0.0], 0.5) == []
            await store.close()

        asyncio.run(check())

    def test_an_id_of_another_agent_is_refused(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            await store.upsert(_entry("owner", "mine", [1.0, 0.0, 0.0], id="1"))
            await _refused(store.upsert(_entry("thief", "stolen", [1.0, 0.0, 0.0], id="1")))
            assert _contents(await store.search("owner", [1.0, 0.0, 0.0], 0.5)) == ["mine"]
            assert await store.search("thief", [1.0, 0.0, 0.0], -1.0) == []
            await store.close()

        asyncio.run(check())

    def test_a_deleted_memory_is_gone_and_no_other(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            for i in range(3):
                await store.upsert(_entry("a", str(i), [1.0, i / 10, 0.0], id=str(i)))
            await store.delete("1")
            assert _contents(await store.search("a", [1.0, 0.0, 0.0], -1.0, query_text="1")) == ["0", "2"]
            await store.delete("1")
            await store.upsert(_entry("b", "the id is free again", [1.0, 0.0, 0.0], id="1"))
            assert len(await store.search("b", [1.0, 0.0, 0.0], 0.5)) == 1
            await store.close()

        asyncio.run(check())

    def test_deleting_an_agent_leaves_nothing_of_it_and_all_of_the_others(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            for i in range(300):
                await store.upsert(_entry("a", f"a{i}", [1.0, 0.0, 0.0]))
                await store.upsert(_entry("b", f"b{i}", [1.0, 0.0, 0.0]))
            await store.delete_agent_memories("a")
            assert await store.search("a", [1.0, 0.0, 0.0], -1.0, 1_000) == []
            assert len(await store.search("b", [1.0, 0.0, 0.0], -1.0, 1_000)) == 300
            await store.close()

        asyncio.run(check())

    def test_what_reads_return_are_copies(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            written = _entry("a", "kept", [1.0, 0.0, 0.0], topic_tags=["one"], metadata={"k": {"v": 1}})
            await store.upsert(written)
            (read,) = await store.search("a", [1.0, 0.0, 0.0], 0.5)
            for copy in (written, read):
                copy.content = "changed"
                copy.topic_tags.append("changed")
                nested = copy.metadata["k"]
                assert isinstance(nested, dict)
                nested["v"] = "changed"
            (again,) = await store.search("a", [1.0, 0.0, 0.0], 0.5)
            assert (again.content, again.topic_tags, again.metadata) == ("kept", ["one"], {"k": {"v": 1}})
            await store.close()

        asyncio.run(check())

    def test_many_threads_lose_nothing(self) -> None:
        store = asyncio.run(self.make_store())

        async def write(i: int) -> None:
            for k in range(20):
                await store.upsert(_entry("a", f"{i}:{k}", [1.0, 0.0, 0.0]))
                await store.search("a", [1.0, 0.0, 0.0], 0.5, query_text=f"{i}")

        _in_threads(write)
        found = asyncio.run(store.search("a", [1.0, 0.0, 0.0], 0.5, 1_000))
        assert len({entry.content for entry in found}) == THREADS * 20
        asyncio.run(store.close())

    def test_closing_twice_is_no_error(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            await store.close()
            await store.close()

        asyncio.run(check())

    def test_a_match_of_words_is_found_below_the_threshold(self) -> None:
        if not self.hybrid:
            pytest.skip("the store ignores query_text")

        async def check() -> None:
            store = await self.make_store()
            texts = ["Unit tests run with Vitest", "Deploy on Fridays", "parseUserInput trims", "数据库迁移必须可回滚"]
            for text in texts:
                await store.upsert(_entry("a", text, [0.0, 1.0, 0.0], topic_tags=["style"] if "trims" in text else []))
            for query, expected in (
                ("vitest", texts[0]),
                ("testing units", texts[0]),
                ("parse user input", texts[2]),
                ("style", texts[2]),
                ("数据库", texts[3]),
            ):
                found = await store.search("a", [1.0, 0.0, 0.0], 0.5, query_text=query)
                assert _contents(found) == [expected], query
            assert await store.search("a", [1.0, 0.0, 0.0], 0.5, query_text="the and of on") == []
            await store.close()

        asyncio.run(check())

    def test_a_page_holds_the_best_and_names_all_that_were_considered(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), PagedSearch)
            assert isinstance(store, L2Store)
            for i in range(30):
                tags = ["even"] if i % 2 == 0 else ["odd", "rare"] if i == 29 else ["odd"]
                await store.upsert(_entry("a", str(i), [1.0, i / 10, 0.0], id=f"id-{99 - i}", topic_tags=tags))
            query = [1.0, 0.0, 0.0]
            page = await store.search_page("a", query, -1.0, limit=3, consider=10)
            assert _contents(page.entries) == ["0", "1", "2"]
            assert list(page.considered) == [f"id-{99 - i}" for i in range(10)]
            page = await store.search_page("a", query, -1.0, limit=2, consider=4, tags=["odd"])
            assert _contents(page.entries) == ["1", "3"]
            assert list(page.considered) == ["id-98", "id-96", "id-94", "id-92"]
            page = await store.search_page("a", query, -1.0, limit=5, consider=5, tags=["none", "rare"])
            assert (_contents(page.entries), list(page.considered)) == (["29"], ["id-70"])
            await store.close()

        asyncio.run(check())

    def test_a_background_admits_what_stands_out_whatever_the_threshold(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), PagedSearch)
            assert isinstance(store, L2Store)
            await store.upsert(_entry("a", "Near in meaning.", [0.6, 0.8, 0.0]))
            for i in range(20):
                await store.upsert(_entry("a", f"Stranger {i}.", [0.1, 0.0, 1.0]))
            query: dict[str, Any] = {"limit": 5, "consider": 5, "query_text": "other words"}
            for threshold in (-1.0, 1.0):
                page = await store.search_page("a", [1.0, 0.0, 0.0], threshold, background=(0.1, 0.1), **query)
                assert _contents(page.entries) == ["Near in meaning."]
                page = await store.search_page("a", [1.0, 0.0, 0.0], threshold, background=(0.9, 0.1), **query)
                assert page.entries == []
            await store.close()

        asyncio.run(check())

    def test_of_the_same_matter_the_newer_comes_first_when_asked_for(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), PagedSearch)
            assert isinstance(store, L2Store)
            old, new = "Sessions expire after thirty minutes.", "Sessions expire after sixty minutes."
            await store.upsert(_entry("a", old, [1.0, 0.0, 0.0], topic_tags=["auth"]))
            await store.upsert(_entry("a", new, [0.8, 0.6, 0.0], topic_tags=["auth"], timestamp=LONG_AGO + DAY))
            query: dict[str, Any] = {"limit": 5, "consider": 5, "query_text": "when do sessions expire?"}
            for newer_first, expected in ((False, [old, new]), (True, [new, old])):
                page = await store.search_page("a", [1.0, 0.0, 0.0], 0.3, newer_first=newer_first, **query)
                assert _contents(page.entries) == expected
                scores = [entry.score or 0.0 for entry in page.entries]
                assert scores == sorted(scores, reverse=True)
                assert list(page.considered) == [entry.id for entry in page.entries]
            await store.close()

        asyncio.run(check())

    def test_a_batch_with_a_bad_entry_writes_nothing(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), BatchWrites)
            assert isinstance(store, L2Store)
            await store.upsert(_entry("owner", "mine", [1.0, 0.0, 0.0], id="taken"))
            batch = [_entry("a", "fine", [1.0, 0.0, 0.0]), _entry("a", "stolen", [1.0, 0.0, 0.0], id="taken")]
            await _refused(store.upsert_many(batch))
            assert await store.search("a", [1.0, 0.0, 0.0], -1.0) == []
            await store.close()

        asyncio.run(check())

    def test_a_batch_of_an_old_epoch_is_not_written(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), BatchWrites)
            assert isinstance(store, L2Store)
            epoch = await store.erasure_epoch("a")
            assert await store.upsert_many([_entry("a", "first", [1.0, 0.0, 0.0])], epoch=epoch)
            other = await store.erasure_epoch("b")
            await store.delete_agent_memories("a")
            late = [_entry("a", str(i), [1.0, 0.0, 0.0]) for i in range(3)]
            assert not await store.upsert_many(late, epoch=epoch)
            assert await store.search("a", [1.0, 0.0, 0.0], -1.0) == []
            assert await store.upsert_many([_entry("b", "of b", [1.0, 0.0, 0.0])], epoch=other)
            assert await store.upsert_many(late, epoch=await store.erasure_epoch("a"))
            assert len(await store.search("a", [1.0, 0.0, 0.0], -1.0)) == 3
            unknown = await store.erasure_epoch("nobody yet")
            await store.delete_agent_memories("nobody yet")
            assert not await store.upsert_many([_entry("nobody yet", "late", [1.0, 0.0, 0.0])], epoch=unknown)
            await store.close()

        asyncio.run(check())

    def test_entries_are_found_by_id_for_their_own_agent_only(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), EntryAccess)
            assert isinstance(store, L2Store)
            await store.upsert(_entry("a", "mine", [1.0, 0.0, 0.0], id="1"))
            found = await store.get("a", "1")
            assert found is not None
            assert found.content == "mine"
            assert await store.get("b", "1") is None
            assert await store.get("a", "2") is None
            await store.upsert(_entry("a", "old", [1.0, 0.0, 0.0], id="3", superseded_by="1"))
            old = await store.get("a", "3")
            assert old is not None
            assert old.superseded_by == "1"
            await store.delete("1")
            assert await store.get("a", "1") is None
            await store.close()

        asyncio.run(check())

    def test_a_superseded_entry_says_so_or_stays_away(self) -> None:
        async def check() -> None:
            store = await self.make_store()
            old = _entry("a", "old", [1.0, 0.0, 0.0], id="1")
            await store.upsert(old)
            await store.upsert(old.model_copy(update={"superseded_by": "2", "embedding": None}))
            await store.upsert(_entry("a", "new", [1.0, 0.0, 0.0], id="2"))
            found = {entry.id: entry.superseded_by for entry in await store.search("a", [1.0, 0.0, 0.0], -1.0)}
            assert found in ({"2": None}, {"1": "2", "2": None})
            await store.close()

        asyncio.run(check())

    def test_superseded_entries_are_kept_but_not_searched(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), MemoryListing)
            assert isinstance(store, L2Store)
            await store.upsert(_entry("a", "old", [1.0, 0.0, 0.0], id="1", superseded_by="2"))
            await store.upsert(_entry("a", "new", [1.0, 0.0, 0.0], id="2", timestamp=LONG_AGO + DAY))
            assert _contents(await store.search("a", [1.0, 0.0, 0.0], -1.0, query_text="old")) == ["new"]
            assert _contents(await store.list_memories("a")) == ["new"]
            assert _contents(await store.list_memories("a", include_superseded=True)) == ["old", "new"]
            await store.delete_agent_memories("a")
            assert await store.list_memories("a", include_superseded=True) == []
            await store.close()

        asyncio.run(check())

    def test_listing_is_complete_filtered_and_of_one_agent(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), MemoryListing)
            assert isinstance(store, L2Store)
            for i in range(250):
                kind = "turn" if i % 2 else "fact"
                await store.upsert(
                    _entry("a", str(i), [1.0, 0.0, 0.0], content_type=kind, timestamp=LONG_AGO + i * DAY)
                )
            await store.upsert(_entry("b", "other", [1.0, 0.0, 0.0]))
            assert _contents(await store.list_memories("a")) == [str(i) for i in range(250)]
            assert _contents(await store.list_memories("a", content_types=["turn"])) == [
                str(i) for i in range(1, 250, 2)
            ]
            await store.close()

        asyncio.run(check())

    def test_archived_turns_of_one_session_can_be_forgotten(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), SessionTurns)
            assert isinstance(store, L2Store)
            for agent, session in (("a", "s"), ("a", "other"), ("b", "s")):
                for kind, sequence in (("turn", 0), ("turn", None), ("summary", 0)):
                    content = f"{agent} {session} {kind}"
                    await store.upsert(
                        _entry(
                            agent, content, [1.0, 0.0, 0.0], session_id=session, content_type=kind, sequence=sequence
                        )
                    )
            epoch = await store.erasure_epoch("a") if isinstance(store, BatchWrites) else 0
            await store.delete_session_turns("a", "s")
            found = _contents(await store.search("a", [1.0, 0.0, 0.0], -1.0))
            assert sorted(found) == ["a other summary", "a other turn", "a other turn", "a s summary"]
            assert len(await store.search("b", [1.0, 0.0, 0.0], -1.0)) == 3
            if isinstance(store, BatchWrites):
                late = _entry("a", "late", [1.0, 0.0, 0.0], session_id="s", content_type="turn")
                assert not await store.upsert_many([late], epoch=epoch)
            await store.close()

        asyncio.run(check())

    def test_the_embedder_that_filled_the_store_is_remembered(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), EmbedderBinding)
            assert isinstance(store, L2Store)
            first, second = EmbedderIdentity("first", 3), EmbedderIdentity("second", 3)
            assert await store.bind_embedder(second) == second
            assert await store.bind_embedder(first) == first
            await store.upsert(_entry("a", "filled", [1.0, 0.0, 0.0]))
            assert await store.bind_embedder(second) == first
            assert await store.bind_embedder(EmbedderIdentity("first", 4)) == first
            await store.delete_agent_memories("a")
            assert await store.bind_embedder(second) == second
            await store.close()

        asyncio.run(check())

    def test_all_entries_of_an_agent_come_with_their_vectors(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), EntryTransfer)
            assert isinstance(store, L2Store)
            for i, kind in enumerate(("fact", "turn", "summary", "fact")):
                later = "0" if i == 3 else None
                vector = [0.6, 0.8, 0.0] if i else [0.0, 3.0, 4.0]
                await store.upsert(_entry("a", f"{i}", vector, id=f"{i}", content_type=kind, superseded_by=later))
            await store.upsert(_entry("a", "zero", [0.0, 0.0, 0.0], id="4"))
            await store.upsert(_entry("b", "of b", [1.0, 0.0, 0.0], id="5"))
            assert sorted(await store.memory_ids("a")) == ["0", "1", "2", "3", "4"]
            found = await store.get_with_embeddings("a", ["4", "5", "1", "none", "3", "0"])
            assert [entry.id for entry in found] == ["4", "1", "3", "0"]
            assert found[0].embedding in (None, [0.0, 0.0, 0.0])
            assert found[1].embedding == pytest.approx([0.6, 0.8, 0.0])
            assert found[2].superseded_by == "0"
            assert found[3].embedding == pytest.approx([0.0, 0.6, 0.8])
            # What came out goes in again as it was.
            await store.upsert(found[3])
            assert (await store.get_with_embeddings("a", ["0"]))[0] == found[3]
            await store.close()

        asyncio.run(check())

    def test_other_vectors_take_their_place_once_every_entry_has_one(self) -> None:
        async def check() -> None:
            store = _capability(await self.make_store(), Reindexing)
            assert isinstance(store, L2Store)
            assert isinstance(store, EmbedderBinding)
            old, new = EmbedderIdentity("old", 3), EmbedderIdentity("new", 2)
            await store.bind_embedder(old)
            entries = [_entry(agent, agent, [1.0, 0.0, 0.0], id=agent) for agent in "abc"]
            for entry in (*entries, _entry("a", "replaced", [1.0, 0.0, 0.0], id="r", superseded_by="a")):
                await store.upsert(entry)
            assert await store.begin_reindex(old) == []
            assert sorted(await store.begin_reindex(EmbedderIdentity("other", 2))) == [(a, a) for a in "abc"]
            await store.begin_reindex(new)
            first, *rest = [entry.model_copy(update={"embedding": [0.0, 1.0]}) for entry in entries]
            await store.add_vectors(EmbedderIdentity("other", 2), rest)
            await store.add_vectors(new, [first])
            assert sorted(await store.begin_reindex(new)) == [("b", "b"), ("c", "c")]
            assert not await store.finish_reindex(new)
            assert _contents(await store.search("a", [1.0, 0.0, 0.0], 0.9)) == ["a"]
            await store.add_vectors(new, rest)
            changed = entries[2].model_copy(update={"content": "changed"})
            await store.upsert(changed)
            assert await store.begin_reindex(new) == [("c", "c")]
            assert not await store.finish_reindex(new)
            await store.add_vectors(new, [changed.model_copy(update={"embedding": [1.0, 0.0]})])
            assert await store.finish_reindex(new)
            assert await store.finish_reindex(new)
            assert await store.bind_embedder(old) == new
            assert _contents(await store.search("a", [0.0, 1.0], 0.9)) == ["a"]
            assert await store.search("c", [0.0, 1.0], 0.9) == []
            assert _contents(await store.search("c", [1.0, 0.0], 0.9)) == ["changed"]
            await _refused(store.search("a", [1.0, 0.0, 0.0], 0.9), ValidationError)
            await store.close()

        asyncio.run(check())


class EmbedderConformance:
    """The contract of an `Embedder`."""

    TEXTS = (
        "Unit tests run with Vitest.",
        "数据库迁移",
        "тесты и код",
        "🚀",
        "x" * 20_000,
        "word " * 8_000,
        "a\nb\tc",
        "",
    )

    def make_embedder(self) -> Embedder:
        """The embedder under test."""
        raise NotImplementedError

    def test_vectors_are_finite_and_of_the_promised_size(self) -> None:
        embedder = self.make_embedder()
        for text in self.TEXTS:
            for vector in (asyncio.run(embedder.embed(text)), asyncio.run(embedder.embed_query(text))):
                assert len(vector) == embedder.dimensions
                assert all(isinstance(value, float) and math.isfinite(value) for value in vector)

    def test_a_batch_gives_each_text_its_own_vector_in_order(self) -> None:
        async def check() -> None:
            embedder = self.make_embedder()
            batch = await embedder.embed_batch(list(self.TEXTS))
            assert len(batch) == len(self.TEXTS)
            for text, vector in zip(self.TEXTS, batch, strict=True):
                assert vector == pytest.approx(await embedder.embed(text), abs=1e-4), text[:20]
            assert await embedder.embed_batch([]) == []

        asyncio.run(check())

    def test_a_large_batch_gives_each_text_its_own_vector(self) -> None:
        async def check() -> None:
            embedder = self.make_embedder()
            texts = [f"rule number {i} about module {i * 7}" for i in range(300)]
            batch = await embedder.embed_batch(texts)
            assert len(batch) == len(texts)
            for place in (0, 1, 99, 100, 101, 255, 256, 299):
                assert batch[place] == pytest.approx(await embedder.embed(texts[place]), abs=1e-4), place

        asyncio.run(check())

    def test_texts_in_other_scripts_have_vectors_of_their_own_or_zero_vectors(self) -> None:
        embedder = self.make_embedder()
        vectors = asyncio.run(embedder.embed_batch(["数据库迁移", "用户界面", "тесты", "الاختبارات"]))
        # An embedder that does not know a script says so by zeros, which are close to nothing; never by one vector.
        told = [vector for vector in vectors if any(vector)]
        assert all(a != b for i, a in enumerate(told) for b in told[:i])

    def test_the_same_text_has_the_same_vector_in_another_instance_and_another_loop(self) -> None:
        first, second = self.make_embedder(), self.make_embedder()
        text = self.TEXTS[0]
        vector = asyncio.run(first.embed(text))
        assert asyncio.run(first.embed(text)) == pytest.approx(vector, abs=1e-6)
        assert asyncio.run(second.embed(text)) == pytest.approx(vector, abs=1e-6)
        assert first.name == second.name

    def test_related_texts_are_closer_than_unrelated_ones(self) -> None:
        embedder = self.make_embedder()
        rule, same, other = asyncio.run(
            embedder.embed_batch(
                [
                    "Unit tests run with Vitest.",
                    "We use Vitest to run the unit tests.",
                    "Colours follow the brand guide.",
                ]
            )
        )
        assert cosine_similarity(rule, same) > cosine_similarity(rule, other)

    def test_name_threshold_and_background_are_usable(self) -> None:
        embedder = self.make_embedder()
        assert isinstance(embedder.name, str)
        assert embedder.name
        threshold = embedder.relevance_threshold
        assert threshold is None or -1 <= threshold <= 1
        background = embedder.background
        assert background is None or (-1 <= background[0] <= 1 and background[1] > 0)

    def test_many_threads_may_embed_at_once(self) -> None:
        embedder = self.make_embedder()
        texts = [f"{self.TEXTS[0]} {word}" for word in ("one", "red", "sun", "oak", "tin", "fox", "jam", "ice")]
        expected = asyncio.run(embedder.embed_batch(texts))

        async def embed(i: int) -> None:
            for _ in range(5):
                assert await embedder.embed(texts[i]) == pytest.approx(expected[i], abs=1e-4)
                await asyncio.sleep(0)

        _in_threads(embed)
        together = asyncio.run(_gathered(embedder.embed(text) for text in texts))
        for vector, alone in zip(together, expected, strict=True):
            assert vector == pytest.approx(alone, abs=1e-4)
