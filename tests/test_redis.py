"""What the store in Redis adds to the contract: keys, round trips, times to live, erasure, the cache of vectors."""

from __future__ import annotations

import asyncio
import logging
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("redis", reason="the extra redis is not installed")

from redis.asyncio import Redis
from redis_servers import Server

from actrone_memory import (
    ConfigurationError,
    EmbeddingError,
    HashingEmbedder,
    InMemoryStore,
    MemoryConfig,
    MemoryManager,
    RedisStore,
    StoreConnectionError,
    Turn,
    VectorCache,
    _session_log,
)
from actrone_memory._session_log import BACKLOG_TURNS
from actrone_memory.embedders.cache import CachedEmbedder
from actrone_memory.stores.redis import store as redis_module

Both = InMemoryStore | RedisStore

LONG_AGO = datetime(2024, 1, 1, tzinfo=UTC)


def said(text: str, session_id: str = "s", **fields: object) -> Turn:
    return Turn(session_id=session_id, user_message=text, assistant_message="ok", **fields)


def texts(turns: Sequence[Turn]) -> list[str]:
    return [turn.user_message for turn in turns]


@pytest.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    store = RedisStore(server.url, 3)
    yield store
    await store.close()


class Counting(HashingEmbedder):
    """Counts the texts that it embeds."""

    def __init__(self) -> None:
        super().__init__(64)
        self.embedded: list[str] = []

    async def embed(self, text: str) -> list[float]:
        self.embedded.append(text)
        return await super().embed(text)

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        self.embedded += texts
        return await super().embed_batch(texts)


async def manager(server: Server, embedder: HashingEmbedder | None = None, **settings: object) -> MemoryManager:
    config = MemoryConfig(backend="redis_qdrant", redis_url=server.url, strict_background_errors=True, **settings)
    return await MemoryManager.create(config, l2=InMemoryStore(), embedder=embedder or Counting())


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"max_turns": 0}, "max_turns"),
        ({"max_turns": True}, "max_turns"),
        ({"max_connections": 0}, "max_connections"),
        ({"session_ttl_seconds": 0}, "session_ttl_seconds"),
        ({"embedding_cache_ttl_seconds": float("inf")}, "embedding_cache_ttl_seconds"),
        ({"socket_timeout": -1}, "socket_timeout"),
        ({"socket_connect_timeout": "5"}, "socket_connect_timeout"),
        ({"url": "localhost:6379"}, "redis_url"),
        ({"url": "http://localhost"}, "redis_url"),
        ({"url": "redis://localhost?sockettimeout=1"}, "redis_url"),
        ({"client": object()}, "client"),
        ({"client": Redis(decode_responses=True)}, "decode_responses"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        RedisStore(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["redis://:hush/hush@localhost:6379", "redis://localhost:hush", "hush://localhost"])
def test_a_refused_address_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        RedisStore(url)
    assert "hush" not in f"{error.value.message} {error.value.details} {error.value.__cause__}"


def test_a_password_in_the_settings_is_not_shown() -> None:
    assert "hush" not in repr(MemoryConfig(redis_url="redis://:hush@localhost"))


def test_without_the_package_the_error_names_the_extra(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['redis'] = None\n"
        "import actrone_memory\n"
        "try: actrone_memory.RedisStore()\n"
        "except actrone_memory.ConfigurationError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "pip install 'actrone-memory[redis]'" in done.stdout


def test_importing_the_package_imports_no_client_of_redis(tmp_path: Path) -> None:
    script = "import sys, actrone_memory; print([name for name in sys.modules if name.split('.')[0] == 'redis'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.strip() == "[]"


# --- round trips ------------------------------------------------------------------------------------------------------


async def test_a_call_asks_the_server_once(server: Server, store: RedisStore) -> None:
    await store.append_turn("a", "s", said("0"))  # brings the script, if nobody has before
    scripts = server.count("eval")
    calls = [
        lambda: store.append_turns("a", "s", [said("1"), said("2")], hold=True),
        lambda: store.get_recent_turns("a", "s"),
        lambda: store.turn_count("a", "s"),
        lambda: store.get_session_metadata("a", "s"),
        lambda: store.unarchived("a", "s"),
        lambda: store.mark_archived("a", "s", [said("0", sequence=1)]),
        lambda: store.try_acquire_summary_lock("a", "s", 10),
        lambda: store.clear_session("a", "s"),
    ]
    for call in calls:
        before = server.count("evalsha")
        await call()
        assert server.count("evalsha") == before + 1
    assert server.count("eval") == scripts


async def test_retrieving_a_context_asks_redis_once(server: Server) -> None:
    memory = await manager(server)
    await memory.store_turn("a", "s", "hello", "hi")
    await memory.drain()
    await memory.retrieve_context("a", "s", "hello there", 800)
    before = server.count("evalsha")
    context = await memory.retrieve_context("a", "s", "who said hello?", 800)
    assert server.count("evalsha") == before + 1
    assert len(context.recent_turns) == 1
    await memory.close()


async def test_no_call_lists_the_keys_of_the_server(server: Server) -> None:
    memory = await manager(server)
    await memory.store_turn("a", "s", "hello", "hi")
    await memory.list_sessions("a")
    await memory.erase_agent_memories("a", all_sessions=True)
    await memory.close()
    assert server.count("keys") == server.count("scan") == 0


async def test_a_server_that_lost_its_scripts_is_given_them_again(server: Server, store: RedisStore) -> None:
    await store.append_turn("a", "s", said("before"))
    with server.client() as client:
        client.script_flush()
    await store.append_turn("a", "s", said("after"))
    assert texts(await store.get_recent_turns("a", "s")) == ["before", "after"]


# --- numbers, batches, backlog ----------------------------------------------------------------------------------------


async def test_records_are_numbered_without_gaps_also_over_repetitions(store: RedisStore) -> None:
    for text in ("0", "1", "1", "2"):
        await store.append_turn("a", "s", said(text, id=text))
    numbers = [turn.sequence for turn in await store.get_recent_turns("a", "s")]
    assert numbers[0] is not None
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


async def test_thousands_of_records_are_one_step(store: RedisStore) -> None:
    records = [said("question", id="0"), *(said(str(i), id=str(i), continues=True) for i in range(1, 5_000))]
    await store.append_turns("a", "s", records)
    (turn,) = await store.get_recent_turns("a", "s")
    assert [record.id for record in turn.records] == [str(i) for i in range(5_000)]


async def test_times_are_compared_and_not_their_texts(store: RedisStore) -> None:
    times = [LONG_AGO, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), LONG_AGO + timedelta(1)]
    for number, time in enumerate(times):
        await store.append_turn("a", "s", said(str(number), timestamp=time))
    metadata = await store.get_session_metadata("a", "s")
    assert metadata is not None
    assert (metadata.created_at, metadata.last_active) == (times[1], times[2])


async def test_turns_that_wait_too_long_are_given_up_loudly(
    store: RedisStore, caplog: pytest.LogCaptureFixture
) -> None:
    await store.append_turns("a", "s", [said(str(i)) for i in range(BACKLOG_TURNS + 3)], hold=True)
    assert not caplog.records
    with caplog.at_level(logging.ERROR, "actrone_memory"):
        await store.append_turns("a", "s", [said("new 0"), said("new 1")], hold=True)
    assert "gave up 2 turns" in caplog.text
    waiting = texts(await store.unarchived("a", "s"))
    assert (waiting[0], waiting[-1], len(waiting)) == ("2", "new 1", BACKLOG_TURNS + 3)


async def test_a_retry_is_recognised_among_the_last_thousand_records(store: RedisStore) -> None:
    for start in range(0, 1_500, 100):
        await store.append_turns("a", "s", [said(str(i), id=str(i)) for i in range(start, start + 100)])
    await store.append_turns("a", "s", [said("late", id="501")])
    assert texts(await store.get_recent_turns("a", "s")) == ["1497", "1498", "1499"]


async def test_a_session_that_was_moved_here_waits_and_recognises_as_before(store: RedisStore) -> None:
    elsewhere = InMemoryStore(3)
    await elsewhere.append_turns("a", "s", [said(str(i), id=str(i)) for i in range(6)], hold=True)
    await elsewhere.mark_archived("a", "s", (await elsewhere.unarchived("a", "s"))[:4])
    copy = await elsewhere.copy_session("a", "s")
    assert copy is not None
    assert await store.add_session("a", copy)
    assert await store.copy_session("a", "s") == copy
    await store.append_turns("a", "s", [said("again", id="0"), said("again", id="5"), said("new", id="6")], hold=True)
    assert texts(await store.get_recent_turns("a", "s")) == ["4", "5", "new"]
    assert texts(await store.unarchived("a", "s")) == ["4", "5", "new"]
    assert [metadata.session_id for metadata in await store.list_sessions("a")] == ["s"]


async def test_a_late_mark_finds_no_record_of_the_session_that_came_after(store: RedisStore) -> None:
    records = [said(str(i), id=str(i)) for i in range(3)]
    await store.append_turns("a", "s", records, hold=True)
    old = await store.unarchived("a", "s")
    await store.clear_session("a", "s")
    await store.append_turns("a", "s", records, hold=True)
    await store.mark_archived("a", "s", old)
    assert texts(await store.unarchived("a", "s")) == ["0", "1", "2"]


async def test_the_lock_is_granted_again_to_the_call_whose_answer_was_lost(store: RedisStore) -> None:
    assert await store._redis.run("lock", ["lock"], "10", "token") == 1
    assert await store._redis.run("lock", ["lock"], "10", "token") == 1
    assert await store._redis.run("lock", ["lock"], "10", "other") == 0


async def test_a_lock_of_no_time_is_everybodys(store: RedisStore) -> None:
    assert await store.try_acquire_summary_lock("a", "s", 0)
    assert await store.try_acquire_summary_lock("a", "s", 2**70)
    assert not await store.try_acquire_summary_lock("a", "s", 0)


@pytest.mark.parametrize("seed", range(6))
async def test_any_course_of_calls_ends_as_in_the_store_of_this_process(
    server: Server, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (_session_log, redis_module):
        monkeypatch.setattr(module, "BACKLOG_TURNS", 4)
        monkeypatch.setattr(module, "REMEMBERED_RECORD_IDS", 12)
    chance = random.Random(seed)
    here, there = InMemoryStore(3), RedisStore(server.url, 3)
    for _ in range(150):
        call = any_call(chance)
        await call(here)
        await call(there)
        for name in ("s", "t"):
            assert await state(here, name) == await state(there, name)
        listed = [{m.session_id: m for m in await store.list_sessions("a")} for store in (here, there)]
        assert listed[0] == listed[1]
    await there.close()


def any_call(chance: random.Random) -> Callable[[Both], Awaitable[None]]:
    """A call that changes a session, the same for both stores."""
    session, most = chance.choice(["s", "t"]), chance.randint(1, 5)
    hold = chance.random() < 0.7
    turns = [
        said(str(chance.random()), session, id=f"id {chance.randrange(60)}", continues=chance.random() < 0.4)
        for _ in range(chance.randint(1, 6))
    ]

    async def archive(store: Both) -> None:
        await store.mark_archived("a", session, (await store.unarchived("a", session))[:most])

    async def archive_again(store: Both) -> None:
        await store.mark_archived("a", session, (await store.get_recent_turns("a", session))[:1])

    calls: list[Callable[[Both], Awaitable[None]]] = [
        lambda store: store.append_turns("a", session, turns, hold=hold),
        archive,
        archive_again,
        lambda store: store.mark_erased("a"),
        lambda store: store.clear_session("a", session),
    ]
    return chance.choices(calls, [60, 25, 5, 4, 3])[0]


async def state(store: Both, session: str) -> object:
    def shape(turns: list[Turn]) -> list[list[tuple[str, str]]]:
        return [[(record.id, record.user_message) for record in turn.records] for turn in turns]

    recent, waiting = await store.get_recent_turns("a", session), await store.unarchived("a", session)
    numbers = [record.sequence or 0 for turn in (waiting or recent) for record in turn.records]
    gapless = numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    copy = await store.copy_session("a", session)
    known = copy and (copy.given_up, [record.id for record in copy.records], copy.hold)
    return shape(recent), shape(waiting), gapless, known, await store.get_session_metadata("a", session)


# --- times to live ----------------------------------------------------------------------------------------------------


async def wait_until_empty(server: Server) -> None:
    for _ in range(100):
        if not server.key_names():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(server.key_names())


async def test_a_session_expires_and_leaves_no_key(server: Server) -> None:
    store = RedisStore(server.url, session_ttl_seconds=0.3)
    await store.append_turn("a", "s", said("hello"))
    await store.append_turn("a", "t", said("hello", "t"))
    assert len(await store.list_sessions("a")) == 2
    await wait_until_empty(server)
    assert await store.list_sessions("a") == []
    assert await store.get_session_metadata("a", "s") is None
    await store.close()


async def test_each_turn_renews_the_time_to_live(server: Server) -> None:
    store = RedisStore(server.url, session_ttl_seconds=0.6)
    for text in ("0", "1", "2", "3"):
        await store.append_turn("a", "s", said(text))
        await asyncio.sleep(0.25)
    assert texts(await store.get_recent_turns("a", "s")) == ["0", "1", "2", "3"]
    await store.close()


async def test_a_session_does_not_expire_before_the_archive_has_it(server: Server) -> None:
    store = RedisStore(server.url, session_ttl_seconds=0.2)
    await store.append_turns("a", "s", [said("waits")], hold=True)
    await store.append_turn("a", "t", said("does not wait", "t"))
    await asyncio.sleep(0.5)
    assert [metadata.session_id for metadata in await store.list_sessions("a")] == ["s"]
    turns = await store.unarchived("a", "s")
    assert texts(turns) == ["waits"]
    await store.mark_archived("a", "s", turns)
    assert server.key_names() == []
    await store.close()


async def test_a_session_lives_its_whole_time_after_it_was_archived(server: Server) -> None:
    store = RedisStore(server.url, session_ttl_seconds=60)
    await store.append_turns("a", "s", [said("hello")], hold=True)
    with server.client() as client:
        assert {client.pttl(key) for key in server.key_names()} == {-1}
    await store.mark_archived("a", "s", await store.unarchived("a", "s"))
    with server.client() as client:
        assert all(50_000 < client.pttl(key) <= 60_000 for key in server.key_names())
    await store.close()


async def test_an_erasure_lets_a_waiting_session_expire(server: Server) -> None:
    store = RedisStore(server.url, session_ttl_seconds=0.3)
    await store.append_turns("a", "s", [said("hello")], hold=True)
    await store.mark_erased("a")
    await wait_until_empty(server)
    await store.close()


# --- keys and erasure -------------------------------------------------------------------------------------------------


async def test_the_keys_of_an_agent_share_one_hash_tag(server: Server, store: RedisStore) -> None:
    await store.append_turn("repo:{web} 用户", "s}1{", said("hello", "s}1{"))
    await store.try_acquire_summary_lock("repo:{web} 用户", "s}1{", 60)
    tags = {key.split(b"{", 1)[1].split(b"}", 1)[0] for key in server.key_names()}
    assert tags == {b"repo%3A%7Bweb%7D%20%E7%94%A8%E6%88%B7"}
    assert len(server.key_names()) == 4


async def test_a_cleared_session_leaves_no_key(server: Server, store: RedisStore) -> None:
    await store.append_turns("a", "s", [said("hello")], hold=True)
    await store.try_acquire_summary_lock("a", "s", 60)
    await store.clear_session("a", "s")
    assert server.key_names() == []


async def test_an_erased_agent_leaves_nothing_and_the_others_keep_theirs(server: Server) -> None:
    memory = await manager(server)
    for agent in ("marker-agent", "other"):
        for session in ("marker-session", "s2"):
            await memory.store_turn(agent, session, "marker-question", "marker-answer", metadata={"marker-key": 1})
        await memory.inject_memory(agent, "marker-fact")
    await memory.drain()
    others = [key for key in server.key_names() if b"{other}" in key]
    vectors = len([key for key in server.key_names() if b":vector:" in key])
    await memory.erase_agent_memories("marker-agent", all_sessions=True)
    assert b"marker-agent" not in server.everything()
    assert [key for key in server.key_names() if b"{other}" in key] == others
    assert len([key for key in server.key_names() if b":vector:" in key]) == vectors // 2 > 0
    await memory.erase_agent_memories("other", all_sessions=True)
    assert server.everything() == b""
    await memory.close()


async def test_an_erasure_amid_the_writes_of_other_managers_leaves_nothing_of_before(server: Server) -> None:
    cold = InMemoryStore()
    config = MemoryConfig(backend="redis_qdrant", redis_url=server.url, embedding_provider="hashing")
    writers = [await MemoryManager.create(config, l2=cold) for _ in range(3)]

    async def write(number: int) -> None:
        for turn in range(20):
            await writers[number].store_turn("a", f"s{number}", f"marker-{number}-{turn}", "ok")
            await writers[number].inject_memory("a", f"marker-fact-{number}-{turn}")

    eraser = await MemoryManager.create(config, l2=cold)
    writing = [asyncio.create_task(write(number)) for number in range(3)]
    for _ in range(5):
        await asyncio.sleep(0.02)
        await eraser.erase_agent_memories("a", all_sessions=True)
    await asyncio.gather(*writing)
    await eraser.erase_agent_memories("a", all_sessions=True)
    for one in (*writers, eraser):
        await one.drain()
    left, found = server.key_names(), await eraser.list_memories("a", content_types=["turn", "injected"])
    for one in (*writers, eraser):
        await one.close()
    # Work that found nothing left to archive may have asked for the epoch of the vectors, which holds nothing said.
    assert [name for name in left if not name.endswith(b":vector-epoch")] == []
    assert found == []


# --- the cache of vectors ---------------------------------------------------------------------------------------------


async def test_a_text_is_embedded_once_for_an_agent_and_once_for_another(server: Server) -> None:
    embedder = Counting()
    first, second = await manager(server, embedder), await manager(server, embedder)
    await first.inject_memory("a", "Tests run with Vitest.")
    await second.inject_memory("a", "Tests run with Vitest.")
    assert embedder.embedded == ["Tests run with Vitest."]
    await second.inject_memory("b", "Tests run with Vitest.")
    assert len(embedder.embedded) == 2
    assert [m.content for m in await second.search_memories("a", "which runner do tests run with?")]
    await first.close()
    await second.close()


async def test_a_query_is_embedded_once_in_a_process(server: Server) -> None:
    embedder = Counting()
    memory = await manager(server, embedder)
    await memory.inject_memory("a", "Tests run with Vitest.")
    before = server.count("evalsha")
    found = [await memory.search_memories("a", "vitest") for _ in range(3)]
    assert embedder.embedded.count("vitest") == 1
    assert found[0][0].score == found[2][0].score
    assert server.count("evalsha") == before
    await memory.close()


async def test_vectors_are_kept_as_floats_of_four_bytes_under_names_that_tell_nothing(server: Server) -> None:
    memory = await manager(server)
    await memory.inject_memory("marker-agent", "marker-text")
    (key,) = [key for key in server.key_names() if b":vector:" in key]
    with server.client() as client:
        assert client.strlen(key) == 4 * 64
        assert 604_000_000 < client.pttl(key) <= 604_800_000
    assert b"marker" not in server.everything()
    await memory.close()


async def test_cached_vectors_expire_and_leave_no_key(server: Server) -> None:
    store = RedisStore(server.url, embedding_cache_ttl_seconds=0.2)
    assert isinstance(store, VectorCache)
    await store.cache_vectors("a", {"name": b"\x00\xff"}, epoch=await store.vector_epoch("a"))
    assert await store.cached_vectors("a", ["name", "other"]) == [b"\x00\xff", None]
    await wait_until_empty(server)
    assert await store.cached_vectors("a", ["name"]) == [None]
    await store.close()


async def test_a_vector_that_an_erasure_overtook_is_not_cached(server: Server, store: RedisStore) -> None:
    epoch = await store.vector_epoch("a")
    await store.forget_vectors("a")
    await store.cache_vectors("a", {"late": b"1"}, epoch=epoch)
    assert server.key_names() == []
    later = await store.vector_epoch("a")
    await store.cache_vectors("a", {"late": b"1"}, epoch=epoch)
    await store.cache_vectors("a", {"new": b"2"}, epoch=later)
    assert await store.cached_vectors("a", ["late", "new"]) == [None, b"2"]


async def test_an_embedder_under_way_caches_nothing_after_an_erasure(server: Server) -> None:
    store = RedisStore(server.url)
    embedder = CachedEmbedder(Counting(), store)
    early = await embedder.for_agent("a")
    await embedder.forget("a")
    await early.embed_batch(["marker"])
    assert server.key_names() == []
    await store.close()


async def test_thousands_of_vectors_are_cached_and_forgotten(server: Server, store: RedisStore) -> None:
    names = [str(number) for number in range(2_500)]
    await store.cache_vectors("a", {name: name.encode() for name in names}, epoch=await store.vector_epoch("a"))
    assert await store.cached_vectors("a", names) == [name.encode() for name in names]
    await store.forget_vectors("a")
    assert server.key_names() == []


class Broken:
    """A cache that fails, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def _fail(self) -> StoreConnectionError:
        self.asked += 1
        return StoreConnectionError("Broken", OSError("away"))

    async def vector_epoch(self, agent_id: str) -> str:
        raise self._fail()

    async def cached_vectors(self, agent_id: str, names: Sequence[str]) -> list[bytes | None]:
        raise self._fail()

    async def cache_vectors(self, agent_id: str, vectors: Mapping[str, bytes], *, epoch: str) -> None:
        raise self._fail()

    async def forget_vectors(self, agent_id: str) -> None:
        raise self._fail()


async def test_a_cache_that_is_away_costs_one_attempt_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    cache, plain = Broken(), Counting()
    embedder = CachedEmbedder(plain, cache)
    with caplog.at_level(logging.WARNING, "actrone_memory"):
        for number in range(20):
            (vector,) = await (await embedder.for_agent("a")).embed_batch([f"text {number}"])
            assert vector == await HashingEmbedder(64).embed(f"text {number}")
    assert cache.asked == 1
    assert len(caplog.records) == 1
    with pytest.raises(StoreConnectionError):
        await embedder.forget("a")


async def test_rubbish_is_neither_cached_nor_taken_from_the_cache(server: Server) -> None:
    class Rubbish(Counting):
        async def embed_batch(self, texts: list[str]) -> list[list[float]]:
            return [[float("nan")] * 64 for _ in texts]

    memory = await manager(server, Rubbish())
    with pytest.raises(EmbeddingError):
        await memory.inject_memory("a", "Tests run with Vitest.")
    assert not [key for key in server.key_names() if b":vector:" in key]
    await memory.close()

    embedder = Counting()
    memory = await manager(server, embedder)
    await memory.inject_memory("a", "Tests run with Vitest.")
    with server.client() as client:
        client.set(next(key for key in server.key_names() if b":vector:" in key), b"short")
    await memory.inject_memory("a", "Tests run with Vitest.")
    assert len(embedder.embedded) == 2
    await memory.close()


# --- the operators' page ----------------------------------------------------------------------------------------------


async def test_the_user_of_the_operators_page_may_do_all_that_is_needed(server: Server) -> None:
    page = (Path(__file__).parents[1] / "docs" / "production.md").read_text("utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("ACL SETUSER")]
    rules = line.split()
    with server.client() as client:
        if server.kind == "redis":  # the oldest one knows no CLIENT SETINFO, and none of its clients needs it
            rules.remove("+client|setinfo")
        client.execute_command(*rules)
    try:
        url = server.url.replace("redis://", "redis://actrone:a-long-password@")
        config = MemoryConfig(backend="redis_qdrant", redis_url=url, strict_background_errors=True)
        memory = await MemoryManager.create(config, l2=InMemoryStore(), embedder=Counting())
        await memory.store_turn("a", "s", "hello", "hi")
        await memory.inject_memory("a", "Tests run with Vitest.")
        await memory.drain()
        assert len((await memory.retrieve_context("a", "s", "tests", 800)).recent_turns) == 1
        store = RedisStore(url, 1)
        for number in range(3):
            await store.append_turns("b", "s", [said(str(number))], hold=number == 0)
        await store.mark_erased("b")
        assert await store.try_acquire_summary_lock("b", "s", 10)
        assert not await store.try_acquire_summary_lock("b", "s", 0)
        assert len(await store.list_sessions("b")) == 1
        assert await store.list_agents() == ["a", "b"]
        copy = await store.copy_session("b", "s")
        assert copy is not None
        assert await store.add_session("c", copy)
        await store.clear_session("c", "s")
        await store.clear_session("b", "s")
        await store.close()
        await memory.erase_agent_memories("a", all_sessions=True)
        await memory.close()
        assert server.key_names() == []
    finally:
        with server.client() as client:
            client.execute_command("ACL", "DELUSER", "actrone")
