"""Tool calls of messages, in every shape the framework and its models give them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from pydantic import BaseModel

CALL_BLOCK: type[Any] | None = getattr(types, "ToolCallBlock", None)
"""The framework's own block of a tool call; before it had one, calls stood in ``additional_kwargs`` alone."""

UNNAMED_TOOL = "tool"

_ID_KEYS = ("tool_call_id", "tool_id", "call_id", "toolUseId", "id")
"""Where the id stands that results name; OpenAI's responses have a ``call_id`` and, for the item itself, an ``id``."""

_ARGUMENT_KEYS = ("tool_kwargs", "args", "input", "arguments", "parameters")


class ToolCall(NamedTuple):
    """One call that an assistant made. Models without call ids name the tool instead."""

    id: str
    name: str
    params: dict[str, object]


def is_tool_result(message: ChatMessage) -> bool:
    """Whether the message answers a tool call."""
    return message.role == MessageRole.TOOL


def result_id(message: ChatMessage) -> str:
    """The id of the call that a tool message answers; its tool's name, or "", when it names none."""
    kwargs = message.additional_kwargs
    return str(kwargs.get("tool_call_id") or kwargs.get("call_id") or kwargs.get("name") or "")


def by_what_results_name(calls: Iterable[ToolCall]) -> dict[str, ToolCall]:
    """The newest calls by their ids, and by their tools' names: some models give ids that their results do not use."""
    return {key: call for call in calls for key in (call.name, call.id)}


def calls_of(message: ChatMessage) -> list[ToolCall]:
    """The tool calls of an assistant's message, in order; [] for other messages."""
    if message.role not in {MessageRole.ASSISTANT, MessageRole.CHATBOT, MessageRole.MODEL}:
        return []
    blocks = [_call(vars(block)) for block in message.blocks if CALL_BLOCK and isinstance(block, CALL_BLOCK)]
    listed = message.additional_kwargs.get("tool_calls")
    others = [_call(given) for given in map(_as_dict, listed) if given] if isinstance(listed, list | tuple) else []
    told = {call.id for call in blocks}  # the same call may stand in a block and in additional_kwargs
    return blocks + [call for call in others if call.id not in told]


def call_message(calls: Iterable[ToolCall]) -> ChatMessage:
    """An assistant's message that makes the calls, for messages whose calls are known by their results alone."""
    if CALL_BLOCK is not None:
        blocks = [CALL_BLOCK(tool_call_id=call.id, tool_name=call.name, tool_kwargs=call.params) for call in calls]
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)
    listed = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.params, ensure_ascii=False)},
        }
        for call in calls
    ]
    return ChatMessage(role=MessageRole.ASSISTANT, additional_kwargs={"tool_calls": listed})


def result_message(call: ToolCall, text: str) -> ChatMessage:
    """A tool's message that answers ``call``."""
    return ChatMessage(
        role=MessageRole.TOOL, content=text, additional_kwargs={"tool_call_id": call.id, "name": call.name}
    )


def _as_dict(call: object) -> Mapping[str, Any]:
    if isinstance(call, BaseModel):
        return {**vars(call), **(call.__pydantic_extra__ or {})}
    return call if isinstance(call, Mapping) else {}


def _call(given: Mapping[str, Any]) -> ToolCall:
    """A call from any of the shapes in use: the framework's and those of its models' providers."""
    function = _as_dict(given.get("function"))
    name = str(given.get("tool_name") or given.get("name") or function.get("name") or UNNAMED_TOOL)
    call_id = next((given[key] for key in _ID_KEYS if given.get(key)), name)
    shapes = [*((given, key) for key in _ARGUMENT_KEYS), (function, "arguments")]
    return ToolCall(str(call_id), name, _params(next((part[key] for part, key in shapes if key in part), None)))


def _params(arguments: object) -> dict[str, object]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {"arguments": arguments}
    if isinstance(arguments, Mapping):
        return {str(key): value for key, value in arguments.items()}
    return {} if arguments is None else {"arguments": arguments}
