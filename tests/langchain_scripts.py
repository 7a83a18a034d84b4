"""A chat model that answers by a script, for the LangChain tests; it keeps what it was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

OLD_CORE = pytest.mark.filterwarnings("ignore:Accessing the 'model_fields' attribute on the instance")
"""langchain-core 0.3 reads a class attribute through its objects, which pydantic 2.11 warns of."""


def echo(messages: Sequence[BaseMessage]) -> AIMessage:
    """The answer that tells what was asked, so that tests can see which answer belongs to which question."""
    return AIMessage(content=f"re: {messages[-1].content}")


class ScriptedModel(BaseChatModel):
    """Answers with ``script``: a function of the messages, or a list that is worked off; exceptions are raised."""

    script: Any = echo
    asked: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedModel:
        return self

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        assert_valid(messages)
        self.asked.append(list(messages))
        answer = self.script.pop(0) if isinstance(self.script, list) else self.script(messages)
        if isinstance(answer, Exception):
            raise answer
        return answer.model_copy(deep=True)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])


class StreamingModel(ScriptedModel):
    """The same, word by word."""

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for word in str(self._next(messages).content).split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))


def assert_valid(messages: Sequence[BaseMessage]) -> None:
    """What providers ask for: results of all calls directly behind the message that called, no result without one.

    An invalid call may have a result too.
    """
    waiting: list[str | None] = []
    invalid: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in [*waiting, *invalid], f"a result without its call: {message}"
            (waiting if message.tool_call_id in waiting else invalid).remove(message.tool_call_id)
            continue
        assert not waiting, f"no result for the calls {waiting} before {message}"
        waiting = [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
        invalid = [call["id"] for call in message.invalid_tool_calls] if isinstance(message, AIMessage) else []
    assert not waiting, f"no result for the calls {waiting}"


def invalid_call(id_: str) -> AIMessage:
    """An AI message with a call whose arguments are broken off."""
    return AIMessage(content="", invalid_tool_calls=[{"name": "look_up", "args": "{q:", "id": id_, "error": "no JSON"}])


def calls(*ids: str, name: str = "look_up", content: str = "", **args: Any) -> AIMessage:
    """An AI message that calls a tool once for each id."""
    return AIMessage(content=content, tool_calls=[{"name": name, "args": {"q": id_, **args}, "id": id_} for id_ in ids])
