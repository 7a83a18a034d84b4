"""How much of a token budget a text costs: by a rule of thumb, or exactly, with tiktoken (extra ``tiktoken``)."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from actrone_memory.errors import ConfigurationError, told

if TYPE_CHECKING:
    from tiktoken import Encoding

TokenCounter = Callable[[str], int]

CHARACTERS_PER_TOKEN = 4
"""English prose and code average about four characters per token in the tokenizers in use."""

DEFAULT_ENCODING = "o200k_base"
"""The vocabulary of OpenAI's models since GPT-4o."""

VOCABULARY_SECONDS = 20.0
"""3.6 MB at 1.5 Mbit/s. tiktoken itself would wait for ever for a server that does not answer."""

REMEMBERED_COSTS = 10_000
"""Texts whose cost is not counted again, by a hash of 16 bytes: some 2 MB."""

LONGEST_BLANK = 100_000
"""White space that tiktoken is given at once; from about a million characters on it panics."""

_LONG_BLANK = re.compile(rf"(?<!\s)\s{{{LONGEST_BLANK + 1},}}")

_loading: dict[str, Future[Encoding]] = {}
_loading_lock = threading.Lock()


def heuristic_tokens(text: str) -> int:
    """``ceil(len(text) / 4)``: an estimate that needs no vocabulary; 0 for empty text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def token_counter(name: str, encoding: str = DEFAULT_ENCODING) -> TokenCounter:
    """The counter that ``MemoryConfig.token_counter`` names; "tiktoken" counts in ``encoding``.

    The first counter of an encoding in a process reads its vocabulary, which takes up to a second, or 20 when it must
    be downloaded.

    Raises:
        ConfigurationError: there is no such counter or encoding, tiktoken is not installed, or the vocabulary cannot
            be had.
    """
    if name == "heuristic":
        return heuristic_tokens
    if name == "tiktoken":
        return TiktokenCounter(encoding)
    raise ConfigurationError(
        f"There is no token_counter={name!r}; set it to 'heuristic' or 'tiktoken'.", {"setting": "token_counter"}
    )


class TiktokenCounter:
    """Counts exactly as the models of an encoding do; special tokens such as ``<|endoftext|>`` count as text.

    Only white space of more than 100,000 characters on end is counted in stretches of that length, each of which may
    make a few tokens more. What was counted before is looked up.

    Raises:
        ConfigurationError: see `token_counter`.
    """

    def __init__(self, encoding: str = DEFAULT_ENCODING) -> None:
        self._encoding = _loaded(encoding)
        self._costs: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, text: str) -> int:
        """How many tokens ``text`` is; 0 for empty text."""
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            if key in self._costs:
                self._costs.move_to_end(key)
                return self._costs[key]
        cost = self._cost(text)
        with self._lock:
            self._costs[key] = cost
            if len(self._costs) > REMEMBERED_COSTS:
                self._costs.popitem(last=False)
        return cost

    def _cost(self, text: str) -> int:
        return sum(len(self._encoding.encode_ordinary(stretch)) for stretch in _stretches(text))


def _stretches(text: str) -> Iterator[str]:
    """The text, cut where white space goes on for longer than `LONGEST_BLANK`."""
    start = 0
    for blank in _LONG_BLANK.finditer(text):
        for end in range(blank.start() + LONGEST_BLANK, blank.end(), LONGEST_BLANK):
            yield text[start:end]
            start = end
    yield text[start:]


def _loaded(name: str) -> Encoding:
    """The encoding, read once in a process."""
    if importlib.util.find_spec("tiktoken") is None:
        raise ConfigurationError(
            "token_counter='tiktoken' needs tiktoken: pip install 'actrone-memory[tiktoken]'.",
            {"setting": "token_counter", "missing": "tiktoken", "extra": "tiktoken"},
        )
    try:
        return _reading(name).result(VOCABULARY_SECONDS)
    except TimeoutError:
        reason = f"it was not here after {VOCABULARY_SECONDS:g} seconds"
    except ValueError as error:
        if "Unknown encoding" in str(error):
            raise _unknown(name) from None
        reason = str(error)
    except Exception as error:  # of requests, of sockets, of files: whatever stands between us and the vocabulary
        reason = told(error)
    raise ConfigurationError(
        f"The vocabulary {name!r} of tiktoken cannot be had: {reason.rstrip('.')}. Start once with network access and "
        "TIKTOKEN_CACHE_DIR set to a folder that stays, or set it to one that holds the vocabulary, or use "
        "token_counter='heuristic'.",
        {"setting": "tiktoken_encoding", "encoding": name},
    )


def _reading(name: str) -> Future[Encoding]:
    """What reads the encoding, on a thread that no exit waits for; after a failure it is tried again."""
    with _loading_lock:
        known = _loading.get(name)
        if known is None or (known.done() and known.exception() is not None):
            known = _loading[name] = Future()
            threading.Thread(target=_read, args=(name, known), daemon=True, name="actrone-vocabulary").start()
        return known


def _read(name: str, outcome: Future[Encoding]) -> None:
    try:
        import tiktoken

        outcome.set_result(tiktoken.get_encoding(name))
    except BaseException as error:  # handed to the one who waits
        outcome.set_exception(error)


def _unknown(name: str) -> ConfigurationError:
    import tiktoken

    known = ", ".join(map(repr, sorted(tiktoken.list_encoding_names())))
    return ConfigurationError(
        f"tiktoken_encoding={name!r} is no encoding of tiktoken; it has {known}.", {"setting": "tiktoken_encoding"}
    )
