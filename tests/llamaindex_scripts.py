"""Scripted models for LlamaIndex: they say what the script says, and refuse what a model provider refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from pydantic import PrivateAttr

from actrone_llamaindex import _calls

UPSTREAM = [
    pytest.mark.filterwarnings("ignore:The `__fields:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:is_running called from within a step:DeprecationWarning"),
]
"""The framework's own deprecations in its workflows; marks for modules that run agents."""


def calling(*calls: tuple[str, str, dict[str, Any]], text: str | None = None) -> ChatMessage:
    """An assistant's message that calls tools, in the form of the installed version: (id, name, arguments)."""
    message = _calls.call_message([_calls.ToolCall(*call) for call in calls])
    return ChatMessage(
        role="assistant",
        blocks=[*ChatMessage(content=text).blocks, *message.blocks],
        additional_kwargs=message.additional_kwargs,
    )


def answering(call_id: str, text: str) -> ChatMessage:
    """A tool's message, as the framework's agents write it."""
    return ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": call_id})


def said(messages: Sequence[ChatMessage]) -> list[tuple[str, str | None]]:
    """Role and words of each message."""
    return [(message.role.value, message.content) for message in messages]


def assert_accepted(messages: Sequence[ChatMessage]) -> None:
    """What providers ask for: every call answered directly behind it, nothing answered that was not called."""
    waiting: list[str] = []
    for message in messages:
        if message.role == MessageRole.TOOL:
            assert message.additional_kwargs["tool_call_id"] in waiting, said(messages)
            waiting.remove(message.additional_kwargs["tool_call_id"])
            continue
        assert waiting == [], said(messages)
        waiting = [call.id for call in _calls.calls_of(message)]
    assert waiting == [], said(messages)


class ScriptedLLM(FunctionCallingLLM):
    """Answers with the next message of its script, word by word when streaming."""

    _script: list[ChatMessage] = PrivateAttr(default_factory=list)
    _seen: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, *script: str | ChatMessage) -> None:
        super().__init__()
        self._script = [s if isinstance(s, ChatMessage) else ChatMessage(role="assistant", content=s) for s in script]

    @property
    def seen(self) -> list[list[ChatMessage]]:
        """The messages of each call so far."""
        return self._seen

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, is_function_calling_model=True)

    def _next(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        assert_accepted(messages)
        self._seen.append([message.model_copy(deep=True) for message in messages])
        return self._script.pop(0)

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        return ChatResponse(message=self._next(messages))

    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        await asyncio.sleep(0)
        return self.chat(messages)

    def stream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> Generator[ChatResponse, None, None]:
        answer = self._next(messages)
        return self._stream(answer)

    def _stream(self, answer: ChatMessage) -> Generator[ChatResponse, None, None]:
        text = answer.content or ""
        for end in [position for position, sign in enumerate(text) if sign == " "]:
            begin = text.rfind(" ", 0, end) + 1
            yield ChatResponse(message=ChatMessage(role="assistant", content=text[:end]), delta=text[begin : end + 1])
        yield ChatResponse(message=answer, delta=text[text.rfind(" ") + 1 :])

    async def astream_chat(self, messages: Sequence[ChatMessage], **_: Any) -> AsyncGenerator[ChatResponse, None]:
        answer = self._next(messages)

        async def stream() -> AsyncGenerator[ChatResponse, None]:
            for response in self._stream(answer):
                await asyncio.sleep(0)
                yield response

        return stream()

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self._next([ChatMessage(role="user", content=prompt)]).content or "")

    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return self.complete(prompt)

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError

    async def astream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[Any],
        user_msg: Any = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        return {"messages": [*(chat_history or []), *([user_msg] if user_msg else [])]}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(tool_id=call.id, tool_name=call.name, tool_kwargs=call.params)
            for call in _calls.calls_of(response.message)
        ]
