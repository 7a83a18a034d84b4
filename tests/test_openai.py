"""OpenAI's models over real HTTP, with the real client, against a server that misbehaves."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra openai is not installed")

from openai_server import DIMENSIONS, KEY, OpenAIServer, Reply, refused

from actrone_memory import (
    ActroneMemoryError,
    ConfigurationError,
    Embedder,
    EmbeddingError,
    MemoryConfig,
    MemoryManager,
    OpenAIEmbedder,
    OpenAIFactExtractor,
    OpenAISummariser,
    SyncMemoryManager,
    _openai,
)
from actrone_memory.embedders import openai as embedding
from actrone_memory.testing import EmbedderConformance

TEXT = "Unit tests run with Vitest."
BUSY = refused(429, "Rate limit reached", "rate_limit_exceeded")
DOWN = Reply(503, b"<html>upstream is down</html>", {"content-type": "text/html"})


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_openai, "FIRST_PAUSE_SECONDS", 0.01)


def embedder_on(server: OpenAIServer, model: str = "text-embedding-3-small", key: str = KEY) -> OpenAIEmbedder:
    return OpenAIEmbedder(key, model, DIMENSIONS, base_url=server.url)


class TestEmbedderConformance(EmbedderConformance):
    @pytest.fixture(autouse=True)
    def _server(self, server: OpenAIServer) -> None:
        self.server = server

    def make_embedder(self) -> Embedder:
        return embedder_on(self.server)


# --- what is asked ----------------------------------------------------------------------------------------------------


async def test_a_model_that_makes_vectors_of_any_size_is_asked_for_the_wanted_one(server: OpenAIServer) -> None:
    await embedder_on(server).embed(TEXT)
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {
        "input": [TEXT],
        "model": "text-embedding-3-small",
        "dimensions": DIMENSIONS,
        "encoding_format": "base64",
    }


async def test_a_model_of_one_size_is_not_asked_for_another(server: OpenAIServer) -> None:
    await embedder_on(server, "nomic-embed-text").embed(TEXT)
    assert "dimensions" not in server.requests[0].body


async def test_a_server_that_answers_in_plain_numbers_is_understood(server: OpenAIServer) -> None:
    packed = await embedder_on(server).embed(TEXT)
    server.as_floats = True
    assert await embedder_on(server).embed(TEXT) == pytest.approx(packed, abs=1e-6)


def test_its_name_carries_model_and_dimensions_and_nothing_was_measured() -> None:
    embedder = OpenAIEmbedder(KEY, "text-embedding-3-large", 256)
    assert embedder.name == "openai:text-embedding-3-large@256"
    assert (embedder.dimensions, embedder.relevance_threshold, embedder.background) == (256, None, None)


async def test_no_request_is_larger_than_the_api_allows_and_none_is_needless(server: OpenAIServer) -> None:
    short = [f"rule {i}" for i in range(5_000)]
    vectors = await embedder_on(server).embed_batch(short)
    assert [len(request.body["input"]) for request in server.requests] == [2048, 2048, 904]
    assert vectors[4_321] == pytest.approx(await server.embedder.embed(short[4_321]), abs=1e-6)
    server.requests.clear()
    await embedder_on(server).embed_batch(["word " * 1_600] * 100)
    assert [len(request.body["input"]) for request in server.requests] == [37, 37, 26]


async def test_blank_texts_have_zero_vectors_and_are_not_sent(server: OpenAIServer) -> None:
    vectors = await embedder_on(server).embed_batch(["", TEXT, " \n"])
    assert server.requests[0].body["input"] == [TEXT]
    assert [any(vector) for vector in vectors] == [False, True, False]
    assert await embedder_on(server).embed_batch([]) == []
    assert len(server.requests) == 1


async def test_a_text_too_long_for_the_model_is_cut_and_the_texts_beside_it_are_not(server: OpenAIServer) -> None:
    fits, too_long = "z" * 12_000, "start " + "测" * 8_000 + " end"
    batch = await embedder_on(server).embed_batch(["a", fits, too_long, "b"])
    alone = await embedder_on(server).embed(too_long)
    assert batch[2] == alone
    assert batch[1] == pytest.approx(await server.embedder.embed(fits), abs=1e-6)
    (last,) = server.requests[-1].body["input"]
    assert len(last.encode()) <= 8_191
    assert last.startswith("start 测")
    assert last.endswith("测 end")


async def test_a_refusal_that_has_nothing_to_do_with_the_length_is_passed_on(server: OpenAIServer) -> None:
    server.script.extend([refused(400, "no such option")] * 10)
    with pytest.raises(EmbeddingError, match="no such option"):
        await embedder_on(server).embed_batch(["short", "texts"])
    assert len(server.requests) == 1


# --- a server that misbehaves -----------------------------------------------------------------------------------------


def without_last(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "data": answer["data"][:-1]}


def numbered_twice(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "data": [{**item, "index": 0} for item in answer["data"]]}


def with_vectors(vector: Any) -> Any:
    return lambda answer: {**answer, "data": [{**item, "embedding": vector} for item in answer["data"]]}


PASSING = {
    "rate limit": BUSY,
    "server error": refused(500, "The server had an error"),
    "upstream down": DOWN,
    "timed out there": refused(408, "timeout"),
    "conflict": refused(409, "lock"),
    "cut before the answer": Reply(cut=0),
    "cut in the answer": Reply(body={"data": [1, 2, 3]}, cut=5),
    "malformed": Reply(body=b'{"data": [{"index": 0, "embed'),
    "empty": Reply(),
    "a page": Reply(body=b"<html>Sign in to the wi-fi</html>", headers={"content-type": "text/html"}),
    "no object": Reply(body=b"[1, 2]"),
    "deep": Reply(body=b"[" * 100_000),
    "no data": Reply(body={"object": "list"}),
    "data of another kind": Reply(body={"data": {"0": []}}),
    "items of another kind": Reply(body={"data": ["x", None]}),
    "fewer vectors": without_last,
    "more vectors": lambda answer: {**answer, "data": answer["data"] * 2},
    "numbered twice": numbered_twice,
    "numbers of another kind": lambda answer: {**answer, "data": [{**i, "index": [0]} for i in answer["data"]]},
    "no vector": with_vectors(None),
    "no base64": with_vectors("%%%"),
    "half a number": with_vectors("AAAAAAA="),
    "words for numbers": with_vectors(["one"] * DIMENSIONS),
    "not finite": with_vectors([float("nan")] * DIMENSIONS),
    "vectors in vectors": with_vectors([[0.1] * DIMENSIONS]),
}


@pytest.mark.parametrize("wrong", PASSING.values(), ids=PASSING)
async def test_what_may_pass_is_asked_again(server: OpenAIServer, wrong: Any) -> None:
    server.script.extend([wrong, wrong])
    vectors = await embedder_on(server).embed_batch([TEXT, "other"])
    assert len(server.requests) == 3
    assert vectors[1] == pytest.approx(await server.embedder.embed("other"), abs=1e-6)


@pytest.mark.parametrize("wrong", PASSING.values(), ids=PASSING)
async def test_what_does_not_pass_is_one_clear_error_after_three_retries(server: OpenAIServer, wrong: Any) -> None:
    server.script.extend([wrong] * 10)
    with pytest.raises(
        EmbeddingError, match=r"OpenAIEmbedder at http://127.* failed: .*, after 4 attempts\. \w+"
    ) as error:
        await embedder_on(server).embed_batch([TEXT, "other"])
    assert len(server.requests) == 4
    assert error.value.details["attempts"] == 4


FINAL = {
    401: (refused(401, "Incorrect API key provided"), "ACTRONE_OPENAI_API_KEY"),
    403: (refused(403, "not allowed to sample"), "ACTRONE_OPENAI_API_KEY"),
    404: (refused(404, "The model does not exist"), "embedding_model.*ACTRONE_OPENAI_BASE_URL"),
    400: (refused(400, "invalid"), "embedding_model"),
    429: (refused(429, "You exceeded your current quota", "insufficient_quota"), "no credit"),
}


@pytest.mark.parametrize("status", FINAL)
async def test_what_no_retry_cures_is_told_at_once_with_what_to_do(server: OpenAIServer, status: int) -> None:
    reply, advice = FINAL[status]
    server.script.extend([reply] * 10)
    with pytest.raises(EmbeddingError, match=f"(?s)status {status}.*{advice}") as error:
        await embedder_on(server).embed(TEXT)
    assert len(server.requests) == 1
    assert error.value.details["status"] == status
    assert reply.body["error"]["message"] in error.value.message


async def test_vectors_of_another_size_are_told_at_once_with_the_setting(server: OpenAIServer) -> None:
    embedder = OpenAIEmbedder(KEY, "nomic-embed-text", 768, base_url=server.url)
    with pytest.raises(EmbeddingError, match=rf"{DIMENSIONS} dimensions, not of 768.*ACTRONE_EMBEDDING_DIMENSIONS"):
        await embedder.embed(TEXT)
    assert len(server.requests) == 1


async def test_vectors_in_another_order_are_put_into_theirs(server: OpenAIServer) -> None:
    server.script.append(lambda answer: {**answer, "data": answer["data"][::-1]})
    texts = ["one", "two", "three"]
    for text, vector in zip(texts, await embedder_on(server).embed_batch(texts), strict=True):
        assert vector == pytest.approx(await server.embedder.embed(text), abs=1e-6)


async def test_vectors_without_numbers_are_taken_as_they_stand(server: OpenAIServer) -> None:
    server.script.append(lambda answer: {"data": [{"embedding": item["embedding"]} for item in answer["data"]]})
    assert len(await embedder_on(server).embed_batch(["one", "two"])) == 2
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "0.3"},
        {"retry-after-ms": "300", "retry-after": "60"},
        {"retry-after": formatdate(time.time() + 10**9), "retry-after-ms": "300"},
    ],
    ids=["seconds", "milliseconds", "milliseconds before a date"],
)
async def test_the_server_says_when_to_come_back(server: OpenAIServer, headers: dict[str, str]) -> None:
    server.script.append(BUSY._replace(headers=headers))
    await embedder_on(server).embed(TEXT)
    first, second = server.requests
    assert 0.3 <= second.at - first.at < 2


async def test_the_server_may_name_a_date(server: OpenAIServer) -> None:
    embedder, named = embedder_on(server), time.monotonic() + 3
    server.script.append(BUSY._replace(headers={"retry-after": formatdate(time.time() + 3, usegmt=True)}))
    await embedder.embed(TEXT)
    _, second = server.requests
    assert named - 1.1 <= second.at < named + 2  # a date is of whole seconds


@pytest.mark.parametrize("wait", ["soon", "", "-5", "nan"])
async def test_a_wait_that_makes_no_sense_is_none(server: OpenAIServer, wait: str) -> None:
    server.script.append(BUSY._replace(headers={"retry-after": wait}))
    await embedder_on(server).embed(TEXT)
    first, second = server.requests
    assert second.at - first.at < 1


@pytest.mark.parametrize("wait", ["3600", "inf"])
async def test_nobody_waits_longer_than_the_deadline(server: OpenAIServer, wait: str) -> None:
    server.script.append(BUSY._replace(headers={"retry-after": wait}))
    started = time.monotonic()
    with pytest.raises(EmbeddingError, match=f"come back in {wait} seconds"):
        await embedder_on(server).embed(TEXT)
    assert time.monotonic() - started < 5


async def test_a_server_that_hangs_or_trickles_is_given_up_at_the_deadline(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await embedder_on(server).embed(TEXT)  # the client is imported
    monkeypatch.setattr(embedding, "EMBEDDING_SECONDS", 1.0)
    server.script.extend([Reply(delay_seconds=3)] * 10)
    started = time.monotonic()
    with pytest.raises(EmbeddingError, match=r"no answer within 0\.\d+ seconds, after 2 attempts"):
        await embedder_on(server).embed(TEXT)
    assert time.monotonic() - started < 2


async def test_a_hanging_answer_is_asked_for_again_in_time(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = embedder_on(server)
    await embedder.embed(TEXT)
    monkeypatch.setattr(embedding, "EMBEDDING_SECONDS", 2.0)
    server.script.append(Reply(delay_seconds=3))
    assert len(await embedder.embed(TEXT)) == DIMENSIONS


async def test_an_address_where_nobody_listens_is_an_error_that_names_the_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(EmbeddingError, match="ACTRONE_OPENAI_BASE_URL"):
            await OpenAIEmbedder(KEY, base_url=url).embed(TEXT)


async def test_pauses_double_and_vary_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for attempt, longest in ((1, 1), (2, 2), (3, 4), (5, 10), (50, 10)):
        pauses = [_openai._pause_seconds(attempt, None) for _ in range(200)]
        assert longest / 2 <= min(pauses) < max(pauses) <= longest
        assert len(set(pauses)) > 100


# --- keys and addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [OpenAIEmbedder, OpenAIFactExtractor, OpenAISummariser])
@pytest.mark.parametrize("key", ["", "  ", None, 7, "sk-with\nbreak", "sk-“quoted”", "two words"], ids=repr)
def test_a_key_that_cannot_be_one_is_refused_and_not_shown(kind: Any, key: Any) -> None:
    with pytest.raises(ConfigurationError, match="ACTRONE_OPENAI_API_KEY") as error:
        kind(key)
    assert not str(key).strip() or str(key) not in f"{error.value}{error.value.details}"


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000",
        "ftp://host/v1",
        "https://",
        "https://user:hunter2@host/v1",
        "https://host/v1?key=hunter2",
        "https://host/v1#hunter2",
        "http://[::1",
        "http://host:hunter2/v1",
        "",
    ],
)
def test_an_address_that_is_none_or_holds_a_password_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="openai_base_url") as error:
        OpenAIEmbedder(KEY, base_url=url)
    assert "hunter2" not in f"{error.value}{error.value.details}"


@pytest.mark.parametrize(("arguments", "named"), [({"dimensions": 0}, "dimensions"), ({"model": " "}, "model")])
def test_a_model_without_a_name_and_no_dimensions_are_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        OpenAIEmbedder(KEY, **arguments)


async def test_the_key_is_in_no_error_log_or_representation(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "sk-proj-the-wrong-one"
    embedder = embedder_on(server, key=wrong)
    with pytest.raises(EmbeddingError) as refusal:  # this server echoes the key it was given
        await embedder.embed(TEXT)
    error: BaseException | None = refusal.value
    while error is not None:
        assert wrong not in f"{error!r}{error}{vars(error)}"
        error = error.__cause__ or error.__context__
    assert "Bearer ***" in str(refusal.value)
    assert wrong not in f"{embedder!r}{vars(embedder)}{vars(embedder._access)}"
    server.script.extend([refused(500, f"crashed with {wrong}")] * 10)
    with pytest.raises(EmbeddingError) as crash:
        await embedder.embed(TEXT)
    assert wrong not in f"{crash.value}{crash.value.details}"
    assert wrong not in caplog.text


# --- loops, threads, connections --------------------------------------------------------------------------------------


async def until_closed(server: OpenAIServer) -> None:
    for _ in range(200):
        if not server.open_connections:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{server.open_connections} connections are still open")


async def test_one_connection_serves_one_call_after_another(server: OpenAIServer) -> None:
    embedder = embedder_on(server)
    for _ in range(5):
        await embedder.embed(TEXT)
    assert len({request.connection for request in server.requests}) == 1
    await embedder.close()
    await until_closed(server)
    assert len(await embedder.embed(TEXT)) == DIMENSIONS  # a later call opens them again
    await embedder.close()
    await embedder.close()
    await until_closed(server)


def test_a_loop_that_ends_closes_its_connections_and_is_let_go(server: OpenAIServer) -> None:
    embedder = embedder_on(server)
    for _ in range(3):
        asyncio.run(embedder.embed(TEXT))
        asyncio.run(until_closed(server))
    gc.collect()  # an unclosed connection would warn here, and warnings are errors
    assert len(embedder._access._clients._openings) <= 1


async def test_an_embedder_that_is_dropped_closes_its_connections(server: OpenAIServer) -> None:
    embedder = embedder_on(server)
    await embedder.embed(TEXT)
    del embedder
    gc.collect()
    await until_closed(server)


async def test_close_reaches_the_loops_of_other_threads(server: OpenAIServer) -> None:
    embedder = embedder_on(server)
    asked, done = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def elsewhere() -> None:
        loops.append(asyncio.get_running_loop())
        ended = asyncio.Event()
        ends.append(ended)
        await embedder.embed(TEXT)
        asked.set()
        await ended.wait()

    ends: list[asyncio.Event] = []
    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    await asyncio.to_thread(asked.wait)
    await embedder.embed(TEXT)
    assert server.open_connections == 2
    await embedder.close()
    await until_closed(server)
    loops[0].call_soon_threadsafe(ends[0].set)
    thread.join()
    assert not done.is_set()


async def test_fifty_calls_at_once_share_one_client(server: OpenAIServer) -> None:
    embedder = embedder_on(server)
    vectors = await asyncio.gather(*(embedder.embed(f"{TEXT} {i}") for i in range(50)))
    assert len({tuple(vector) for vector in vectors}) == 50
    assert len(embedder._access._clients._openings) == 1


async def test_a_caller_that_gives_up_takes_nothing_from_the_others(server: OpenAIServer) -> None:
    embedder = embedder_on(server)
    impatient, patient = (asyncio.create_task(embedder.embed(TEXT)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    impatient.cancel()
    assert len(await patient) == DIMENSIONS
    with pytest.raises(asyncio.CancelledError):
        await impatient


# --- facts and summaries ----------------------------------------------------------------------------------------------

FACTS = '```json\n{"facts": [{"content": "Ann lives in Graz.", "sensitivity": "pii", "importance": 0.9}]}\n```'
CONVERSATION = "User: I moved to Graz.\nAssistant: Noted."


async def test_facts_are_asked_for_in_json_and_parsed_tolerantly(server: OpenAIServer) -> None:
    server.says = [FACTS]  # type: ignore[assignment]
    extractor = OpenAIFactExtractor(KEY, "my-model", base_url=server.url)
    (fact,) = await extractor.extract(CONVERSATION)
    assert (fact.content, fact.sensitivity, fact.importance) == ("Ann lives in Graz.", "pii", 0.9)
    (request,) = server.requests
    assert (request.path, request.body["model"]) == ("/v1/chat/completions", "my-model")
    assert request.body["response_format"] == {"type": "json_object"}
    instructions, conversation = request.body["messages"]
    assert "JSON" in instructions["content"]
    assert conversation == {"role": "user", "content": CONVERSATION}
    assert await extractor.extract("  ") == []
    await extractor.close()


async def test_rubbish_holds_no_facts(server: OpenAIServer) -> None:
    server.says = ["I could not find any."]  # type: ignore[assignment]
    assert await OpenAIFactExtractor(KEY, base_url=server.url).extract(CONVERSATION) == []


async def test_a_long_conversation_is_read_between_its_turns_and_nothing_is_left_out(server: OpenAIServer) -> None:
    turns = [f"User: question {i} {'x' * 5_000}\nAssistant: answer {i}" for i in range(30)]
    text = "\n\n".join(turns)
    summariser = OpenAISummariser(KEY, base_url=server.url)
    server.says = type(server.says)(["First.", " Second. ", "Third."])
    assert await summariser.summarise(text) == "First.\n\nSecond.\n\nThird."
    pieces = [request.body["messages"][1]["content"] for request in server.requests]
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 60_000
    assert all(piece.lstrip().startswith("User: question") for piece in pieces)
    assert "response_format" not in server.requests[0].body
    server.requests.clear()
    await summariser.summarise("y" * 130_000)
    assert [len(request.body["messages"][1]["content"]) for request in server.requests] == [60_000, 60_000, 10_000]
    assert await summariser.summarise("\n") == ""


SILENT = {
    "no choices": Reply(body={"choices": []}),
    "no message": Reply(body={"choices": [{"index": 0}]}),
    "a refusal": Reply(body={"choices": [{"message": {"content": None, "refusal": "I cannot"}}]}),
    "blank": Reply(body={"choices": [{"message": {"content": " "}}]}),
    "malformed": Reply(body=b"{"),
    "down": DOWN,
}


@pytest.mark.parametrize("wrong", SILENT.values(), ids=SILENT)
async def test_a_model_that_says_nothing_is_asked_again_and_then_an_error(server: OpenAIServer, wrong: Reply) -> None:
    summariser = OpenAISummariser(KEY, base_url=server.url)
    server.script.extend([wrong] * 3)
    assert await summariser.summarise(CONVERSATION) == "Noted."
    server.script.extend([wrong] * 4)
    with pytest.raises(ActroneMemoryError, match=r"OpenAISummariser at http.*after 4 attempts") as error:
        await summariser.summarise(CONVERSATION)
    assert error.value.code == "model"


async def test_an_answer_that_was_cut_off_is_an_error_and_not_half_a_summary(server: OpenAIServer) -> None:
    server.script.append(Reply(body={"choices": [{"finish_reason": "length", "message": {"content": "Half a"}}]}))
    with pytest.raises(ActroneMemoryError, match="cut off"):
        await OpenAISummariser(KEY, base_url=server.url).summarise(CONVERSATION)


async def test_a_refused_chat_model_is_named_with_its_setting(server: OpenAIServer) -> None:
    server.script.append(refused(404, "no such model"))
    with pytest.raises(ActroneMemoryError, match=r"summarisation_model \('tiny'\)"):
        await OpenAIFactExtractor(KEY, "tiny", base_url=server.url).extract(CONVERSATION)


# --- the manager ------------------------------------------------------------------------------------------------------


def settings(server: OpenAIServer, **changed: Any) -> MemoryConfig:
    given = {
        "embedding_provider": "openai",
        "openai_api_key": KEY,
        "openai_base_url": server.url,
        "embedding_dimensions": DIMENSIONS,
        **changed,
    }
    return MemoryConfig(**given)


async def test_a_manager_remembers_with_openai_and_leaves_no_connection(server: OpenAIServer) -> None:
    memory = await MemoryManager.create(settings(server, strict_background_errors=True, summarise_after_turns=2))
    await memory.inject_memory("a", TEXT)
    server.says = ["Ann and the assistant spoke of tests."]  # type: ignore[assignment]
    for i in range(2):
        await memory.store_turn("a", "s", f"question {i}", f"answer {i}")
    await memory.drain()
    (summary,) = await memory.list_memories("a", content_types=["summary"])
    assert summary.content == "Ann and the assistant spoke of tests."
    context = await memory.retrieve_context("a", "other", "how do unit tests run?", 800)
    assert TEXT in context.render()
    await memory.close()
    await until_closed(server)


def test_the_sync_manager_works_and_leaves_no_connection(server: OpenAIServer) -> None:
    with SyncMemoryManager.create(settings(server)) as memory:
        memory.inject_memory("a", TEXT)
        assert len(memory.search_memories("a", "unit tests")) == 1
    asyncio.run(until_closed(server))


async def test_facts_are_extracted_with_the_chat_model_of_the_settings(server: OpenAIServer) -> None:
    config = settings(server, extract_facts=True, summarisation_model="my-model", auto_summarise=False)
    memory = await MemoryManager.create(config)
    await memory.store_turn("a", "s", "I moved to Graz.", "Noted.")
    server.says = [FACTS]  # type: ignore[assignment]
    assert len(await memory.extract_memories("a", "s")) == 1
    (fact,) = await memory.list_memories("a")
    assert (fact.content, fact.sensitivity, fact.source) == ("Ann lives in Graz.", "pii", "extracted")
    assert {r.body["model"] for r in server.requests if "chat" in r.path} == {"my-model"}
    await memory.close()


async def test_a_model_that_is_away_costs_facts_and_no_turn(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings(server, extract_facts=True, embedding_provider="hashing", summarise_after_turns=1)
    memory = await MemoryManager.create(config)
    await memory.store_turn("a", "s", "I moved to Graz.", "Noted.")
    await memory.drain()
    server.script.extend([DOWN] * 8)
    assert await memory.extract_memories("a", "s") == []
    assert memory.background_failures == 1
    assert "status 503" in caplog.text
    assert KEY not in caplog.text
    assert len(await memory.get_recent_turns("a", "s")) == 1
    await memory.close()


@pytest.mark.parametrize(
    ("changed", "summarises"),
    [
        ({}, True),
        ({"auto_summarise": False}, False),
        ({"embedding_provider": "hashing"}, False),
        ({"embedding_provider": "hashing", "summarisation_model": "gpt-4o-mini"}, True),
        ({"embedding_provider": "hashing", "summarisation_model": "gpt-4o-mini", "openai_api_key": None}, False),
    ],
)
async def test_conversations_go_to_a_chat_model_only_where_the_settings_say_so(
    server: OpenAIServer, changed: dict[str, Any], summarises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    memory = await MemoryManager.create(settings(server, summarise_after_turns=1, **changed))
    await memory.store_turn("a", "s", "question", "answer")
    await memory.drain()
    assert any("chat" in request.path for request in server.requests) is summarises
    assert ("ACTRONE_OPENAI_API_KEY is missing" in caplog.text) is ("openai_api_key" in changed)
    await memory.close()


async def test_what_was_handed_in_is_not_closed(server: OpenAIServer) -> None:
    embedder = embedder_on(server)
    memory = await MemoryManager.create(settings(server), embedder=embedder)
    await memory.inject_memory("a", TEXT)
    await memory.close()
    assert server.open_connections == 1
    await embedder.close()


async def test_a_store_filled_with_other_dimensions_is_refused(server: OpenAIServer, tmp_path: Any) -> None:
    file = {"backend": "sqlite", "sqlite_path": tmp_path / "memory.db"}
    memory = await MemoryManager.create(settings(server, **file))
    await memory.inject_memory("a", TEXT)
    await memory.close()
    with pytest.raises(ConfigurationError, match=r"openai:text-embedding-3-small@64.*text-embedding-3-large@64"):
        await MemoryManager.create(settings(server, embedding_model="text-embedding-3-large", **file))
    assert await MemoryManager.reindex(settings(server, embedding_model="text-embedding-3-large", **file)) == 1
    await until_closed(server)


def test_the_address_comes_from_the_environment(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTRONE_OPENAI_BASE_URL", server.url)
    assert MemoryConfig().openai_base_url == server.url
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.invalid/v1")
    assert re.match("https://api.openai.com", OpenAIEmbedder(KEY)._access._url)
