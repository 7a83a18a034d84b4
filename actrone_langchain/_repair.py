"""A list of messages that every provider takes: results directly behind their calls, none without the other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from actrone_memory import ToolResult

PLACEHOLDER = {"actrone_memory": "placeholder"}
"""In the ``response_metadata`` of a result that never came; such a message is never stored."""

NO_RESULT = "[no result: the tool call was interrupted]"
INVALID_CALL = "[no result: the arguments of the tool call are not valid]"


class Said(NamedTuple):
    """A message with the record it comes from, and that record's plain results."""

    message: BaseMessage
    record_id: str
    results: Sequence[ToolResult] = ()


def is_placeholder(message: BaseMessage) -> bool:
    """Whether the message stands in for a result that never came."""
    return isinstance(message, ToolMessage) and message.response_metadata == PLACEHOLDER


def repaired(said: Sequence[Said], *, invalid_too: bool = False) -> list[BaseMessage]:
    """The messages in order, results directly behind the message that called.

    A call without a result gets a marked placeholder; a result without a call gets the call before it. Invalid calls,
    which no tool is called with, get a placeholder only with ``invalid_too``: providers are sent them like others.
    """
    owners, dangling = _owners([item.message for item in said])
    results: dict[int, list[BaseMessage]] = {}
    for position, owner in owners.items():
        results.setdefault(owner, []).append(said[position].message)
    messages: list[BaseMessage] = []
    for position, item in enumerate(said):
        if position in owners:
            continue
        if isinstance(item.message, ToolMessage):
            messages.append(_rebuilt_call(item, item.message))
        messages.append(item.message)
        messages += results.get(position, [])
        valid = set(_call_ids(item.message))
        missing = [call_id for call_id in dangling.get(position, []) if invalid_too or call_id in valid]
        messages += [_placeholder(item, call_id) for call_id in missing]
    return messages


def _owners(messages: Sequence[BaseMessage]) -> tuple[dict[int, int], dict[int, list[str]]]:
    """Position of each result -> position of the message that called; position of a call -> ids without a result.

    An id that is used twice belongs to the latest call before the result that has none yet; a result that was written
    before its call belongs to the next one.
    """
    owners: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    early: list[tuple[int, str]] = []
    for position, message in enumerate(messages):
        for call_id in _call_ids(message) + _invalid_ids(message):
            waiting.setdefault(call_id, []).append(position)
        if isinstance(message, ToolMessage):
            callers = waiting.get(message.tool_call_id)
            if callers:
                owners[position] = callers.pop()
            else:
                early.append((position, message.tool_call_id))
    for position, call_id in early:
        callers = waiting.get(call_id, [])
        caller = next((caller for caller in callers if caller > position), None)
        if caller is not None:
            owners[position] = caller
            callers.remove(caller)
    return owners, _by_caller(waiting)


def _call_ids(message: BaseMessage) -> list[str]:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [call["id"] for call in calls if call["id"] is not None]


def _invalid_ids(message: BaseMessage) -> list[str]:
    calls = message.invalid_tool_calls if isinstance(message, AIMessage) else []
    valid = _call_ids(message)
    return [id_ for call in calls if (id_ := call.get("id")) is not None and id_ not in valid]


def _by_caller(waiting: Mapping[str, Sequence[int]]) -> dict[int, list[str]]:
    dangling: dict[int, list[str]] = {}
    for call_id, callers in waiting.items():
        for caller in callers:
            dangling.setdefault(caller, []).append(call_id)
    return dangling


def _placeholder(item: Said, call_id: str) -> ToolMessage:
    assert isinstance(item.message, AIMessage)
    calls = [*item.message.tool_calls, *item.message.invalid_tool_calls]
    return ToolMessage(
        content=NO_RESULT if call_id in _call_ids(item.message) else INVALID_CALL,
        tool_call_id=call_id,
        name=next((call.get("name") for call in calls if call.get("id") == call_id), None),
        status="error",
        id=f"{item.record_id}:no-result:{call_id}",
        response_metadata=dict(PLACEHOLDER),
    )


def _rebuilt_call(item: Said, orphan: ToolMessage) -> AIMessage:
    name, params = orphan.name or "tool", {}
    for result in item.results:
        name, params = result.tool_name, result.params
    call = {"name": name, "args": params, "id": orphan.tool_call_id}
    return AIMessage(content="", tool_calls=[call], id=f"{item.record_id}:call")
