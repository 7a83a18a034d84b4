"""OpenAI's API, or a server that speaks it: retries, deadlines, no key in errors."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from actrone_memory import _validation
from actrone_memory._chat import model_error
from actrone_memory._loop_clients import LoopClients
from actrone_memory.errors import ActroneMemoryError, ConfigurationError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Answer = TypeVar("Answer")

OPENAI_URL = "https://api.openai.com/v1"

RETRIES = 3
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 10.0
"""A pause doubles with every attempt; half of it is left to chance, so that many callers do not come back at once."""

ANSWER_SECONDS = 120.0
"""A chat model writes a hundred tokens a second and a summary has a few hundred; the rest is for queues and retries."""

READ_AT_ONCE = 100_000
"""Bytes of an answer that are read within three milliseconds; longer ones are read beside the event loop."""

LONGEST_REASON = 300
"""Characters of a server's own words in an error."""

TRANSIENT_STATUS = frozenset({408, 409, 429})
NO_QUOTA = "insufficient_quota"
"""What OpenAI calls a 429 that no waiting cures."""


class UnreadableAnswerError(Exception):
    """The server answered with something that is no answer; another attempt may get one."""


class _Failure(NamedTuple):
    """Why an attempt failed; ``wait_seconds`` is what the server asked for."""

    reason: str
    may_pass: bool = True
    status: int | None = None
    wait_seconds: float | None = None


class OpenAIAccess:
    """Questions to one server with one key, from any event loop. ``part`` is who asks, ``setting`` names its model.

    Raises:
        ConfigurationError: the package openai is missing, or key or address cannot be used.
    """

    def __init__(
        self,
        part: str,
        api_key: str,
        model: str,
        base_url: str | None,
        *,
        setting: str,
        error: Callable[[str, dict[str, Any]], ActroneMemoryError],
    ) -> None:
        if importlib.util.find_spec("openai") is None:
            raise ConfigurationError(
                f"{part} needs openai: pip install 'actrone-memory[openai]'.", {"missing": "openai", "extra": "openai"}
            )
        self._part, self._setting, self._make_error = part, setting, error
        self._key, self._url = SecretStr(_checked_key(part, api_key)), _checked_url(base_url)
        if not isinstance(model, str) or not model.strip():
            raise ConfigurationError(f"{part} needs the name of a model, not {_validation.shown(model)}.")
        self._model = model
        self._clients: LoopClients[AsyncOpenAI] = LoopClients()

    async def ask(
        self, call: Callable[[AsyncOpenAI], Awaitable[Any]], read: Callable[[bytes], Answer], seconds: float
    ) -> Answer:
        """What ``read`` makes of the body that ``call`` gets, after at most ``seconds`` and three retries.

        Rate limits, errors of the server, cut connections and answers that ``read`` finds unreadable are tried again
        after a pause, or after the time the server names; what another attempt cannot cure is not.

        Raises:
            ActroneMemoryError: as ``error`` makes it; ``details["status"]`` is the HTTP status, None without an answer.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        attempt = 1
        while isinstance(outcome := await self._attempt(call, read, min(seconds / 2, ends - loop.time())), _Failure):
            pause = _pause_seconds(attempt, outcome.wait_seconds)
            if not outcome.may_pass or attempt > RETRIES or loop.time() + pause >= ends:
                # Raised here and not where it was caught: the client's exception may quote the key.
                raise self._error(outcome, attempt)
            await asyncio.sleep(pause)
            attempt += 1
        return outcome

    async def close(self) -> None:
        """Close every client, whatever loop it belongs to; a later question opens one again."""
        await self._clients.close()

    async def _attempt(
        self, call: Callable[[AsyncOpenAI], Awaitable[Any]], read: Callable[[bytes], Answer], seconds: float
    ) -> Answer | _Failure:
        try:
            async with asyncio.timeout(seconds):
                response = await call(await self._clients.get(self._new_client))
            body: bytes = response.http_response.content
            return read(body) if len(body) <= READ_AT_ONCE else await asyncio.to_thread(read, body)
        except ActroneMemoryError:
            raise
        except TimeoutError:
            return _Failure(f"no answer within {seconds:.3g} seconds")
        except UnreadableAnswerError as error:
            return _Failure(f"the answer cannot be read: {error}")
        except Exception as error:  # of any library below: none of their messages may pass on unseen
            return self._failure(error)

    def _failure(self, error: Exception) -> _Failure:
        status: int | None = getattr(error, "status_code", None)
        if status is None:
            return _Failure(self._without_key(_words(error.__cause__ or error)))
        reason = self._without_key(_words(error))
        may_pass = status in TRANSIENT_STATUS or status >= 500
        if getattr(error, "code", None) == NO_QUOTA:
            may_pass = False
        return _Failure(f"status {status}, {reason}", may_pass, status, _wait_seconds(error))

    def _error(self, failure: _Failure, attempts: int) -> ActroneMemoryError:
        reason = failure.reason.rstrip(".")
        if attempts > 1:
            reason += f", after {attempts} attempts"
        if failure.may_pass and failure.wait_seconds is not None:
            reason += f"; it asks to come back in {failure.wait_seconds:g} seconds"
        return self._make_error(
            f"{self._part} at {self._url} failed: {reason}. {self._advice(failure)}",
            {"status": failure.status, "attempts": attempts, "model": self._model},
        )

    def _advice(self, failure: _Failure) -> str:
        match failure.status:
            case 401 | 403:
                return f"Set ACTRONE_OPENAI_API_KEY to a key that may use {self._model!r} there."
            case 404:
                return f"Check {self._setting} ({self._model!r}) and ACTRONE_OPENAI_BASE_URL."
            case 429 if not failure.may_pass:
                return "The account has no credit left."
            case 429:
                return "Ask less often, or raise the account's limits."
            case None:
                return "Check the network and ACTRONE_OPENAI_BASE_URL."
            case status if status >= 500:
                return "Try again later."
            case _:
                return f"Check {self._setting} ({self._model!r})."

    def _without_key(self, text: str) -> str:
        return " ".join(text.replace(self._key.get_secret_value(), "***").split())[:LONGEST_REASON]

    async def _new_client(self) -> AsyncOpenAI:
        return await asyncio.to_thread(_new_client, self._key, self._url)


class OpenAIChat:
    """Questions to a chat model there.

    Raises:
        ConfigurationError: see `OpenAIAccess`.
    """

    def __init__(self, part: str, api_key: str, model: str, base_url: str | None, **options: Any) -> None:
        self._model, self._options = model, options
        self._access = OpenAIAccess(part, api_key, model, base_url, setting="summarisation_model", error=model_error)

    async def ask(self, instructions: str, text: str) -> str:
        """What the model says.

        Raises:
            ActroneMemoryError: code "model"; it cannot be reached, refuses, or says nothing.
        """
        messages: list[Any] = [{"role": "system", "content": instructions}, {"role": "user", "content": text}]
        return await self._access.ask(
            lambda client: client.chat.completions.with_raw_response.create(
                model=self._model, messages=messages, **self._options
            ),
            _chat_text,
            ANSWER_SECONDS,
        )

    async def close(self) -> None:
        """Close the connections; a later question opens them again."""
        await self._access.close()


def parsed(content: bytes, key: str) -> list[Any]:
    """The list under ``key`` of an answer.

    Raises:
        UnreadableAnswerError: there is none.
    """
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise UnreadableAnswerError("it is no JSON") from None
    found = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise UnreadableAnswerError(f"it has no list {key!r}")
    return found


def _chat_text(content: bytes) -> str:
    match parsed(content, "choices"):
        case [{"finish_reason": "length"}, *_]:
            raise model_error("The chat model was cut off before it had finished.", {"finish_reason": "length"})
        case [{"message": {"content": str(text)}}, *_] if text.strip():
            return text
    raise UnreadableAnswerError("the model said nothing")


def _checked_key(part: str, api_key: object) -> str:
    key = api_key.strip() if isinstance(api_key, str) else ""
    if not key:
        raise ConfigurationError(
            f"{part} needs an API key: set ACTRONE_OPENAI_API_KEY. A server that asks for none takes any.",
            {"setting": "openai_api_key"},
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(
            f"The API key of {part} holds characters that no key has; look for a line break or a quotation mark in "
            "ACTRONE_OPENAI_API_KEY.",
            {"setting": "openai_api_key"},
        )
    return key


def _checked_url(base_url: str | None) -> str:
    if base_url is None:
        return OPENAI_URL
    with suppress(ValueError):
        parts = urlsplit(base_url.strip())
        bare = not (parts.username or parts.password or parts.query or parts.fragment)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and bare:
            return parts.geturl()
    raise ConfigurationError(  # without the address, which may hold a password
        "openai_base_url must be an address like https://host/v1, without a password and a query; the key goes to "
        "openai_api_key.",
        {"setting": "openai_base_url"},
    )


def _new_client(key: SecretStr, url: str) -> AsyncOpenAI:
    """A client that leaves retries and deadlines to us. Importing and making it takes seconds: on a thread."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key=key.get_secret_value(), base_url=url, max_retries=0, timeout=ANSWER_SECONDS)
    _ = client.embeddings, client.chat.completions  # imported on first use
    return client


def _pause_seconds(attempt: int, asked_for: float | None) -> float:
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
    chance = random.uniform(longest / 2, longest)  # noqa: S311 - to spread load, not to hide
    return chance if asked_for is None else asked_for + chance / 2


def _words(error: BaseException) -> str:
    """What went wrong, in the words of the server or of the library."""
    body = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _wait_seconds(error: Exception) -> float | None:
    """What the server's ``Retry-After`` asks for, in seconds or until a date; None when it does not say."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    named = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    with suppress(ValueError):
        return max(0.0, float(named))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(named).timestamp() - time.time())
    return None
