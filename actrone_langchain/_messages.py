"""Messages to records of a session and back, exactly. Pure.

A record keeps the exact message under the metadata key ``"langchain"``, and its text in the plain fields for anyone
else. A record of another writer becomes messages from its plain fields.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from pydantic import JsonValue

from actrone_langchain._arguments import is_identifier
from actrone_langchain._json_form import json_form
from actrone_langchain._repair import Said, is_placeholder, repaired
from actrone_memory import ToolResult, Turn

KEY = "langchain"
SYSTEM_KEY = "system"
"""Where every adapter puts the text of a system message, which has no plain field."""

MAX_TEXT_CHARACTERS = 1_000_000
UNKNOWN_TOOL = "tool"

CLASSES: dict[str, type[BaseMessage]] = {
    kind.model_fields["type"].default: kind
    for kind in (
        AIMessage,
        AIMessageChunk,
        ChatMessage,
        ChatMessageChunk,
        FunctionMessage,
        FunctionMessageChunk,
        HumanMessage,
        HumanMessageChunk,
        RemoveMessage,
        SystemMessage,
        SystemMessageChunk,
        ToolMessage,
        ToolMessageChunk,
    )
}
"""Every message class of langchain-core under its type."""

_TYPES = {kind: name for name, kind in CLASSES.items()}
_USER_ROLES = {"user", "human"}
_SYSTEM_ROLES = {"system", "developer"}
_PART_OF_A_RECORD = re.compile(r".+:(\d+|call)", re.DOTALL)
"""The id of a message that was made from the plain fields of a record and may share it with others."""

logger = logging.getLogger("actrone_langchain")


class Call(NamedTuple):
    """What a tool was called with."""

    name: str
    params: dict[str, Any]


# --- messages to records ----------------------------------------------------------------------------------------------


def records_of(messages: Sequence[BaseMessage], session_id: str, turns: Sequence[Turn]) -> list[Turn]:
    """One record for each message that reading ``turns``, the session's turns, does not give; none for placeholders."""
    told = messages_of(turns)
    known = {message.id for message in told}
    calls = dict(_calls(told))
    for call_id, call in _calls(messages):
        calls.setdefault(call_id, call)
    records = []
    for message in messages:
        calls.update(_calls([message]))
        read_there = bool(message.id) and message.id in known and not isinstance(message, RemoveMessage)
        if not (read_there or is_placeholder(message)):
            records.append(_record(message, session_id, calls))
    return records


def needs_the_session(messages: Iterable[BaseMessage]) -> bool:
    """Whether `records_of` has to look into the session: for a tool's call, or for what was read from there."""
    return any(isinstance(m, ToolMessage) or _PART_OF_A_RECORD.fullmatch(str(m.id or "")) for m in messages)


def record_ids(turns: Iterable[Turn]) -> set[str]:
    """The ids of all records of the turns."""
    return {record.id for turn in turns for record in (turn.records or [turn])}


def record_id(message: BaseMessage) -> str | None:
    """The id under which the message is stored; None when it has none and was not read from a session."""
    if (read_from := _origins.get(message)) is not None:
        return read_from
    own = str(message.id or "")
    if not own:
        return None
    if is_identifier(own) and not isinstance(message, RemoveMessage):
        return own
    # A removal carries the id of what it removes; other ids no store can hold.
    return f"{message.type}:{hashlib.sha256(own.encode('utf-8', 'backslashreplace')).hexdigest()}"


def _record(message: BaseMessage, session_id: str, calls: Mapping[str, Call]) -> Turn:
    fields = _plain_fields(message, calls)
    metadata: dict[str, JsonValue] = {KEY: _exact(message)}
    if (system := fields.pop("system", None)) is not None:
        metadata[SYSTEM_KEY] = system
    return Turn(
        id=record_id(message) or str(uuid4()),
        session_id=session_id,
        user_message=fields.get("user", ""),
        assistant_message=fields.get("assistant", ""),
        tool_results=fields.get("results", []),
        metadata=metadata,
        continues=not ("user" in fields or system is not None),
    )


def _plain_fields(message: BaseMessage, calls: Mapping[str, Call]) -> dict[str, Any]:
    """What the message says, for anyone to read: ``user``, ``assistant``, ``system`` or ``results``."""
    said = clean(text_of(message))
    role = message.role.casefold() if isinstance(message, ChatMessage) else ""
    if isinstance(message, HumanMessage) or role in _USER_ROLES:
        return {"user": said}
    if isinstance(message, SystemMessage) or role in _SYSTEM_ROLES:
        return {"system": said}
    if isinstance(message, ToolMessage):
        call = calls.get(message.tool_call_id, Call(message.name or UNKNOWN_TOOL, {}))
        return {"results": [_result(call, _tool_text(message), success=message.status != "error")]}
    if isinstance(message, FunctionMessage):
        return {"results": [_result(Call(message.name, {}), _tool_text(message), success=True)]}
    return {} if isinstance(message, RemoveMessage) else {"assistant": said}


def _result(call: Call, result: str, *, success: bool) -> ToolResult:
    name = call.name if is_identifier(call.name) else UNKNOWN_TOOL
    params, _ = json_form(call.params)
    return ToolResult(
        tool_name=name, params=params if isinstance(params, dict) else {}, result=clean(result), success=success
    )


def text_of(message: BaseMessage) -> str:
    """The text of the message, that of its blocks joined line by line; "" when it has none."""
    return "\n".join(_texts(message.content))


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            text = block.get("text") if isinstance(block, dict) else block
            if isinstance(text, str):
                yield text


def _tool_text(message: BaseMessage) -> str:
    """A tool's text; where it gave none, the kinds of its blocks."""
    if (text := text_of(message)) or isinstance(message.content, str):
        return text
    return " ".join(f"[{block.get('type', 'data')}]" for block in message.content if isinstance(block, dict))


def clean(text: str) -> str:
    """``text`` as a plain field can hold it; the exact one stands in the metadata."""
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[: MAX_TEXT_CHARACTERS - 100]} [...cut...]"


def _exact(message: BaseMessage) -> JsonValue:
    """The message as JSON, in the form of langchain-core's ``message_to_dict`` without what is as by default."""
    kind = next((kind for kind in type(message).__mro__ if kind in _TYPES), ChatMessage)
    data = {name: value for name, value in message if name != "type" and not _is_default(kind, name, value)}
    if kind is ChatMessage:
        data.setdefault("role", str(message.type))
    exact, changed = json_form(data)
    if not isinstance(exact, dict) or "content" not in exact:
        exact = {**_required(message, kind), "content": clean(text_of(message))}
    if changed:
        logger.warning(
            "A %s holds what JSON cannot say: %s. It is stored as text there.",
            type(message).__name__,
            ", ".join(f"{path:.80}" for path in list(dict.fromkeys(changed))[:5]),
        )
    return {"type": _TYPES[kind], "data": exact}


def _is_default(kind: type[BaseMessage], name: str, value: object) -> bool:
    if name not in kind.model_fields or not (value is None or isinstance(value, bool | list | dict)):
        return False
    return not value and bool(kind.model_fields[name].get_default(call_default_factory=True) == value)


def _required(message: BaseMessage, kind: type[BaseMessage]) -> dict[str, JsonValue]:
    names = [name for name, field in kind.model_fields.items() if field.is_required() and name != "content"]
    return {name: clean(str(getattr(message, name, ""))) for name in names}


def _calls(messages: Iterable[BaseMessage]) -> Iterator[tuple[str, Call]]:
    for message in messages:
        for call in message.tool_calls if isinstance(message, AIMessage) else []:
            if call["id"] is not None:
                yield call["id"], Call(call["name"], call["args"])


# --- records to messages ----------------------------------------------------------------------------------------------


def messages_of(turns: Iterable[Turn]) -> list[BaseMessage]:
    """The messages of the turns, in order, such that a provider takes them: every tool call has its result."""
    return repaired([said for turn in turns for record in (turn.records or [turn]) for said in _said(record)])


def _said(record: Turn) -> list[Said]:
    message = _rebuilt(record.metadata.get(KEY))
    if message is not None:
        _origins.remember(message, record.id)
        return [Said(message, record.id, record.tool_results)]
    parts = list(_from_plain_fields(record))
    for position, part in enumerate(parts):
        part.id = f"{record.id}:{position}" if position else record.id
    return [Said(part, record.id, []) for part in parts]


def _from_plain_fields(record: Turn) -> Iterator[BaseMessage]:
    """What another writer stored, as messages: what was asked, the tools' calls and results, the answer."""
    system = record.metadata.get(SYSTEM_KEY)
    if isinstance(system, str):
        yield SystemMessage(content=system)
    if record.user_message:
        yield HumanMessage(content=record.user_message)
    if record.tool_results:
        calls = [
            {"name": result.tool_name, "args": result.params, "id": f"{record.id}:{i}"}
            for i, result in enumerate(record.tool_results)
        ]
        yield AIMessage(content="", tool_calls=calls)
    for i, result in enumerate(record.tool_results):
        text = result.result if isinstance(result.result, str) else json.dumps(result.result, ensure_ascii=False)
        status = "success" if result.success else "error"
        yield ToolMessage(content=text, tool_call_id=f"{record.id}:{i}", name=result.tool_name, status=status)
    if record.assistant_message:
        yield AIMessage(content=record.assistant_message)


def _rebuilt(exact: object) -> BaseMessage | None:
    """The message of `_exact`; None when it is none of ours."""
    match exact:
        case {"type": str(name), "data": {"content": str() | list()} as data} if name in CLASSES:
            kind = CLASSES[name]
        case _:
            return None
    if any(field.is_required() and name not in data for name, field in kind.model_fields.items()):
        return None
    # Without the validators: some derive fields from others, and would undo what was changed afterwards.
    return kind.model_construct(**data)


class _Origins:
    """Which record a message object was read from: an object that is written again is known, also without an id."""

    def __init__(self) -> None:
        self._records: dict[int, tuple[weakref.ref[BaseMessage], str]] = {}

    def remember(self, message: BaseMessage, record: str) -> None:
        key = id(message)
        self._records[key] = weakref.ref(message, lambda _: self._records.pop(key, None)), record

    def get(self, message: BaseMessage) -> str | None:
        reference, record = self._records.get(id(message), (None, None))
        return record if reference is not None and reference() is message else None


_origins = _Origins()
