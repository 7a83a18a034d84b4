"""Questions to a chat model about a conversation: in stretches that it can read, with one error for all failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

from actrone_memory import _validation
from actrone_memory._foreign import ForeignFunction
from actrone_memory.errors import ActroneMemoryError, failing_as, told

Ask: TypeAlias = Callable[[str, str], "str | Awaitable[str]"]
"""Instructions and a conversation to a chat model's answer."""

LONGEST_READ = 60_000
"""Characters of a conversation for one question: even at two tokens each they fit into a window of 128,000."""


class ChatModel:
    """Questions to a chat model about a conversation, each by itself.

    Raises:
        ValidationError: ``ask`` is no function.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ForeignFunction(ask, "ask")

    async def answers(self, instructions: str, conversation: str) -> list[str]:
        """What the model says to each stretch of the conversation; mostly there is one. [] for a blank conversation.

        Raises:
            ActroneMemoryError: code "model"; it failed, or said nothing.
        """
        conversation = _validation.unbounded_text(conversation, "text")
        stretches = _stretches(conversation) if conversation.strip() else ()
        return [await self._answer(instructions, stretch) for stretch in stretches]

    async def _answer(self, instructions: str, conversation: str) -> str:
        with failing_as(lambda error: model_error(f"The chat model failed: {told(error)}")):
            answer = await self._ask(instructions, conversation)
        if not isinstance(answer, str):
            raise model_error(f"The chat model answered with {type(answer).__name__}, not with text")
        if not answer.strip():
            raise model_error("The chat model said nothing")
        return answer


def model_error(message: str, details: dict[str, object] | None = None) -> ActroneMemoryError:
    """A chat model that failed, refused or said nothing."""
    return ActroneMemoryError(message, code="model", details=details)


def _stretches(text: str) -> Iterator[str]:
    """Stretches of at most `LONGEST_READ` characters, parted between turns where that is possible."""
    while len(text) > LONGEST_READ:
        between = text.rfind("\n\n", LONGEST_READ // 2, LONGEST_READ)
        end = between if between > 0 else LONGEST_READ
        yield text[:end]
        text = text[end:]
    yield text
