"""Counting tokens, with and without a vocabulary."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tiktoken", reason="the extra tiktoken is not installed")

import tiktoken

from actrone_memory import ConfigurationError, MemoryConfig, MemoryManager, tokens
from actrone_memory.tokens import TiktokenCounter, heuristic_tokens, token_counter

if "TIKTOKEN_CACHE_DIR" not in os.environ:
    pytest.skip("no vocabulary: llama-index-core brings two", allow_module_level=True)

VOCABULARIES = Path(os.environ["TIKTOKEN_CACHE_DIR"])
"""Those of o200k_base and cl100k_base: what a folder for use without a network looks like."""


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" ", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("x" * 40_000, 10_000),
        ("数据库迁移", 2),
        ("🚀", 1),
        ("\n\n\n\n\n", 2),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_four_characters_are_a_token_and_a_begun_one_counts(text: str, tokens: int) -> None:
    assert heuristic_tokens(text) == tokens


def test_special_tokens_are_text() -> None:
    assert heuristic_tokens("<|endoftext|>") == 4


def test_texts_cost_no_more_together_than_apart() -> None:
    rng = random.Random(1)
    for _ in range(200):
        a, b = "x" * rng.randint(0, 20), "y" * rng.randint(0, 20)
        assert heuristic_tokens(a + b) <= heuristic_tokens(a) + heuristic_tokens(b)


def test_the_default_counter_is_the_heuristic() -> None:
    assert token_counter("heuristic") is heuristic_tokens


def test_an_unknown_counter_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigurationError, match="abacus"):
        token_counter("abacus")


# --- exactly ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vocabularies are in a folder; nothing answers beyond this machine."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(VOCABULARIES))
    for variable in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")


@pytest.fixture
def exact(offline: None) -> TiktokenCounter:
    return TiktokenCounter()


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No vocabulary has been read yet."""
    monkeypatch.setattr(tokens, "_loading", {})
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})


TEXTS = [
    "",
    " ",
    "Unit tests run with Vitest.",
    "<|endoftext|>",
    "a <|endofprompt|><|fim_prefix|> b",
    "数据库迁移 и тесты 🚀 café",
    "def f(x):\n\n\n    return x  # \t\n" * 50,
    "x" * 40_000,
    "^" * 40_000,
    "你" * 20_000,
    "word " * 30_000,
    "a" + " " * 99_999 + "b",
    "a." + "\n" * 100_000 + "b",
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text)[:20])
@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
@pytest.mark.usefixtures("offline")
def test_it_counts_what_the_tokenizer_makes_and_special_tokens_as_text(text: str, encoding: str) -> None:
    expected = len(tiktoken.get_encoding(encoding).encode(text, disallowed_special=()))
    counter = token_counter("tiktoken", encoding)
    assert [counter(text), counter(text)] == [expected, expected]


@pytest.mark.parametrize("unit", ["x", " ", "\n", "\t ", "^", "你", "🚀", "a1", "=-"])
def test_a_million_characters_without_an_end_are_counted_in_seconds(exact: TiktokenCounter, unit: str) -> None:
    text = (unit * 1_000_000)[:1_000_000]
    started = time.perf_counter()
    cost = exact(f"start {text} end")
    assert time.perf_counter() - started < 10
    assert 0 < cost <= 2_000_010
    started = time.perf_counter()
    assert exact(f"start {text} end") == cost
    assert time.perf_counter() - started < 0.1


def test_white_space_without_an_end_costs_at_most_a_few_tokens_more_for_each_stretch(exact: TiktokenCounter) -> None:
    for blank in (" " * 350_000, "\n" * 350_000, " \n\t" * 120_000):
        text = f"a.{blank}b"
        whole = len(tiktoken.get_encoding("o200k_base").encode_ordinary(text))
        assert whole <= exact(text) <= whole + 3 * 3


def test_a_lone_surrogate_is_counted_like_the_tokenizer_does(exact: TiktokenCounter) -> None:
    assert exact("a \ud800 b") == len(tiktoken.get_encoding("o200k_base").encode_ordinary("a \ud800 b"))


def test_no_more_costs_are_remembered_than_the_most(exact: TiktokenCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "REMEMBERED_COSTS", 3)
    for text in ("one", "two", "three", "one", "four"):
        exact(text)
    assert len(exact._costs) == 3
    counted: list[str] = []
    monkeypatch.setattr(exact, "_cost", lambda text: counted.append(text) or 1)
    for text in ("one", "four", "two"):
        exact(text)
    assert counted == ["two"]  # what was used last is kept


def test_the_remembered_costs_hold_no_text(exact: TiktokenCounter) -> None:
    exact("my secret")
    assert "secret" not in repr(exact._costs)


def test_many_threads_may_count_at_once(exact: TiktokenCounter) -> None:
    texts = [f"rule {i} of the house" for i in range(40)]
    encoding = tiktoken.get_encoding("o200k_base")
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(exact, texts * 50)) == [len(encoding.encode_ordinary(text)) for text in texts] * 50


@pytest.mark.usefixtures("offline", "new_process")
def test_an_unknown_encoding_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"tiktoken_encoding='o300k'.*'cl100k_base'.*'o200k_base'"):
        token_counter("tiktoken", "o300k")


@pytest.mark.usefixtures("offline", "new_process")
def test_without_a_network_and_a_vocabulary_an_error_names_the_variable_and_the_next_try_can_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"'o200k_base'.*TIKTOKEN_CACHE_DIR.*token_counter='heuristic'"):
        token_counter("tiktoken")
    shutil.copytree(VOCABULARIES, tmp_path, dirs_exist_ok=True)
    assert token_counter("tiktoken")("Unit tests") == 2


@pytest.fixture
def silent_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A network that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for variable in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield


@pytest.mark.usefixtures("offline", "new_process", "silent_proxy")
async def test_a_network_that_does_not_answer_is_not_waited_for_and_the_event_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tokens, "VOCABULARY_SECONDS", 0.5)
    making = asyncio.create_task(MemoryManager.create(MemoryConfig(token_counter="tiktoken")))
    longest, last = 0.0, time.perf_counter()
    while not making.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    with pytest.raises(ConfigurationError, match=r"not here after 0\.5 seconds.*TIKTOKEN_CACHE_DIR"):
        await making
    assert longest < 0.4


def test_a_program_ends_while_a_vocabulary_is_waited_for(silent_proxy: None, tmp_path: Path) -> None:
    code = """
from actrone_memory import ConfigurationError, tokens
tokens.VOCABULARY_SECONDS = 0.2
try:
    tokens.token_counter("tiktoken")
except ConfigurationError as error:
    print(error)
"""
    environment = {**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment, check=True
    )
    assert "TIKTOKEN_CACHE_DIR" in done.stdout


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ConfigurationError, match=r"actrone-memory\[tiktoken\]"):
        token_counter("tiktoken")


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
async def test_a_context_costs_what_the_tokenizer_says_and_no_more_than_its_share(encoding: str) -> None:
    config = MemoryConfig(token_counter="tiktoken", tiktoken_encoding=encoding, embedding_provider="hashing")
    memory = await MemoryManager.create(config)
    for i in range(12):
        await memory.inject_memory("a", f"规则 {i}: tests of module_{i} run with vitest --run {i * 7919}, café ☕.")
        await memory.store_turn("a", "s", f"run the tests of module {i} <|endoftext|>", "done\n\n  " * i + "!")
    await memory.drain()
    tokenizer: Any = tiktoken.get_encoding(encoding)
    for budget in (1, 40, 77, 200, 333, 800, 4_096):
        context = await memory.retrieve_context("a", "s", "how do the tests of module 3 run", budget)
        cost = len(tokenizer.encode_ordinary(context.render()))
        assert context.total_tokens_used == cost <= int(0.6 * budget)
    assert context.episodic_memories[0].token_count == len(
        tokenizer.encode_ordinary(context.episodic_memories[0].content)
    )
    await memory.close()


@pytest.mark.usefixtures("offline")
async def test_no_text_is_tokenised_twice_for_one_context(monkeypatch: pytest.MonkeyPatch) -> None:
    config = MemoryConfig(token_counter="tiktoken", embedding_provider="hashing")
    memory = await MemoryManager.create(config)
    for i in range(30):
        await memory.inject_memory("a", f"Rule {i}: the tests of module {i} run with tool {i}.")
        await memory.store_turn("a", f"s{i % 3}", f"run the tests of module {i}", f"done {i} " * 20)
    await memory.drain()
    told: list[str] = []
    count = TiktokenCounter._cost
    monkeypatch.setattr(TiktokenCounter, "_cost", lambda self, text: (told.append(text), count(self, text))[1])
    for budget in (300, 2_000, 20_000):
        told.clear()
        context = await memory.retrieve_context("a", "s0", "how do the tests run", budget)
        assert told
        assert len(told) == len(set(told))
        again = len(told)
        assert (await memory.retrieve_context("a", "s0", "how do the tests run", budget)).render() == context.render()
        assert len(told) == again, "and none at all for the same context again"
    await memory.close()
