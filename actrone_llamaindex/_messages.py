"""Messages to records and back. Pure: what is stored, and what a stored record says to the framework."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage, MessageRole

from actrone_llamaindex import _exact
from actrone_llamaindex._calls import (
    UNNAMED_TOOL,
    ToolCall,
    by_what_results_name,
    call_message,
    calls_of,
    is_tool_result,
    result_id,
    result_message,
)
from actrone_memory import ToolResult, Turn, ValidationError

OWN_KEY = "llamaindex"
"""Under this key of a record's metadata stands the exact message."""

SYSTEM_KEY = "system"
"""Under this key stands the text of a system message, for any reader; turns have no field for it."""

CARRIED_KEY = "carried"
"""Marks a copy of a system message whose turn leaves the session; names the record that held the message first."""

LONGEST_NAME = 256

NO_RESULT = "[no result: the call was interrupted before its tool answered]"
"""What a tool's message says in place of a result that never came; never stored."""

CHARACTERS_PER_TOKEN = 4
"""An estimate for texts that the engine has not counted."""

_RECALLED = re.compile(
    r'(?:<memories note="[^"\n]*">\n(?:[- ] .*\n)+</memories>\n?)?'
    r'(?:<earlier_turns note="[^"\n]*">\n(?:[- ] .*\n)+</earlier_turns>\n?)?'
)

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


_SYSTEM_ROLES = {MessageRole.SYSTEM, getattr(MessageRole, "DEVELOPER", MessageRole.SYSTEM)}


class Said(NamedTuple):
    """A message with the record it was read from."""

    message: ChatMessage
    record: Turn

    @property
    def is_system(self) -> bool:
        """Whether it is one of the conversation's own system messages."""
        return self.message.role in _SYSTEM_ROLES

    @property
    def origin(self) -> str:
        """The record that held the message first."""
        return str(self.record.metadata.get(CARRIED_KEY, self.record.id))


# --- to records -------------------------------------------------------------------------------------------------------


def derived_ids(messages: Iterable[ChatMessage], after: Iterable[Turn] = ()) -> list[str]:
    """Ids that are the same whenever the same messages follow the same record: nothing is stored twice by them."""
    previous = "".join(record.id for record in after)
    ids = []
    for message in messages:
        told = json.dumps([previous, _exact.dump_value(message)], sort_keys=True)
        previous = f"set-{hashlib.sha256(told.encode()).hexdigest()[:32]}"
        ids.append(previous)
    return ids


def checked(messages: object, field: str = "messages") -> list[ChatMessage]:
    """The messages that belong to the conversation: without memories that `ActroneMemory.get` added, and its repairs.

    Raises:
        ValidationError: not a list of `ChatMessage`.
    """
    if not isinstance(messages, list | tuple):
        raise ValidationError(field, f"must be a list of ChatMessage, not {type(messages).__name__}")
    for position, message in enumerate(messages):
        if not isinstance(message, ChatMessage):
            raise ValidationError(f"{field}[{position}]", f"must be a ChatMessage, not {type(message).__name__}")
    return [message for message in messages if not (_is_recalled(message) or _is_placeholder(message))]


def results_without_call(messages: Sequence[ChatMessage]) -> bool:
    """Whether a tool answers a call that none of ``messages`` makes."""
    made = by_what_results_name(call for message in messages for call in calls_of(message))
    return any(is_tool_result(message) and result_id(message) not in made for message in messages)


def to_records(
    messages: Sequence[ChatMessage], session_id: str, earlier: Iterable[Turn] = (), ids: Iterable[str] = ()
) -> list[Turn]:
    """One record for each message, in order. ``earlier`` turns are where calls are looked up that are not here."""
    calls = by_what_results_name(call for said in read(earlier) for call in calls_of(said.message))
    given = iter(ids)
    records = []
    for message in messages:
        calls.update(by_what_results_name(calls_of(message)))
        records.append(_record(message, session_id, calls, next(given, None) or str(uuid4())))
    return records


def _record(message: ChatMessage, session_id: str, calls: dict[str, ToolCall], record_id: str) -> Turn:
    record = Turn(
        id=record_id,
        session_id=session_id,
        user_message="",
        assistant_message="",
        metadata={OWN_KEY: _exact.dump(message)},
        continues=True,
    )
    said = text_of(message)
    if message.role == MessageRole.USER:
        record.user_message, record.continues = said, False
    elif message.role in _SYSTEM_ROLES:
        record.metadata[SYSTEM_KEY], record.continues = said, False
    elif message.role in {MessageRole.TOOL, MessageRole.FUNCTION}:
        record.tool_results = [_tool_result(message, said, calls)]
    else:
        record.assistant_message = said
    return record


def _tool_result(message: ChatMessage, said: str, calls: dict[str, ToolCall]) -> ToolResult:
    call = calls.get(result_id(message))
    name = call.name if call else str(message.additional_kwargs.get("name") or UNNAMED_TOOL)
    params = _exact.plain(_exact.dump_value(call.params)) if call else {}
    name = storable(name)[:LONGEST_NAME]
    return ToolResult(tool_name=name if name.strip() else UNNAMED_TOOL, params=params, result=said, success=True)


def text_of(message: ChatMessage) -> str:
    """What the message says in words; "" for one that is only images, calls or thoughts."""
    return storable(message.content or "")


def tokens(text: str) -> int:
    """What ``text`` costs, estimated."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def cost(turn: Turn) -> int:
    """What a turn costs in tokens, calls and thoughts included, system messages not: the engine counts plain fields."""
    return max(turn.token_count, sum(_cost(said.message) for said in _all([turn]) if not said.is_system))


def system_cost(conversation: Iterable[Said]) -> int:
    """What the system messages cost in tokens."""
    return sum(_cost(said.message) for said in conversation if said.is_system)


def _cost(message: ChatMessage) -> int:
    calls = "".join(call.name + json.dumps(call.params, ensure_ascii=False, default=str) for call in calls_of(message))
    return tokens(calls) + -(-sum(map(_length, message.blocks)) // CHARACTERS_PER_TOKEN)


def _length(block: Any) -> int:
    """Characters of a block that a model reads as text: words, thoughts, and what is cited."""
    content = getattr(block, "content", None)
    if isinstance(content, list):
        return sum(map(_length, content))
    return sum(len(part) for part in (getattr(block, "text", None), content) if isinstance(part, str))


def storable(text: str) -> str:
    """``text`` as plain fields, ids and queries take it: what no store can hold is replaced."""
    return _UNSTORABLE.sub("\ufffd", text)


# --- from records -----------------------------------------------------------------------------------------------------


def read(turns: Iterable[Turn]) -> list[Said]:
    """What was said in the turns: the exact messages, and what another writer's plain fields say.

    A system message whose turn is gone stands first, from a copy that was carried on.
    """
    carried: dict[str, Said] = {}
    others: list[Said] = []
    for said in _all(turns):
        if CARRIED_KEY in said.record.metadata:
            carried.setdefault(said.origin, said)
        else:
            others.append(said)
    here = {said.record.id for said in others}
    return [said for origin, said in carried.items() if origin not in here] + others


def _all(turns: Iterable[Turn]) -> list[Said]:
    return [Said(message, record) for record in records_of(turns) for message in _messages(record)]


def records_of(turns: Iterable[Turn]) -> list[Turn]:
    """The records of the turns, in order."""
    return [record for turn in turns for record in (turn.records or [turn])]


def carried_on(turns: Sequence[Turn], new: Sequence[Turn], most_turns: int) -> list[Turn]:
    """Copies of the system messages whose turns leave a session of ``most_turns`` when the ``new`` records arrive.

    They belong to the newest turn; stored behind ``new`` they stay as long as it does.
    """
    whole = [turn.records or [turn] for turn in turns]
    for record in new:
        if record.continues and whole:
            whole[-1] = [*whole[-1], record]
        else:
            whole.append([record])
    leaving, staying = _all(chain(*whole[:-most_turns])), _all(chain(*whole[-most_turns:]))
    safe = {said.origin for said in staying}
    gone = {said.origin: said for said in leaving if said.is_system and said.origin not in safe}
    return [_copy(said) for said in gone.values()]


def _copy(said: Said) -> Turn:
    return Turn(
        session_id=said.record.session_id,
        user_message="",
        assistant_message="",
        metadata={OWN_KEY: _exact.dump(said.message), CARRIED_KEY: said.origin},
        continues=True,
    )


def newest_user_turn(turns: Sequence[Turn]) -> int:
    """The position of the last turn that a user opened, else of the last turn, else 0."""
    opened = (position for position in range(len(turns) - 1, -1, -1) if _by_user(turns[position]))
    return next(opened, max(0, len(turns) - 1))


def newest_user_text(turns: Sequence[Turn]) -> str:
    """What the user said last, in words; "" when nobody said anything."""
    return turns[newest_user_turn(turns)].user_message if turns else ""


def _by_user(turn: Turn) -> bool:
    # A user's message without words, such as an image, opens a turn too; a system message is told apart by its key.
    first = (turn.records or [turn])[0]
    return bool(turn.user_message) or not (first.continues or SYSTEM_KEY in first.metadata)


def _messages(record: Turn) -> list[ChatMessage]:
    message = _exact.load(record.metadata.get(OWN_KEY))
    return _plain_messages(record) if message is None else [message]


def _plain_messages(record: Turn) -> list[ChatMessage]:
    """System, user, all calls of the record followed by their results, answer: what is there of them."""
    system = record.metadata.get(SYSTEM_KEY)
    messages = [ChatMessage(role=MessageRole.SYSTEM, content=system)] if isinstance(system, str) and system else []
    if record.user_message:
        messages.append(ChatMessage(role=MessageRole.USER, content=record.user_message))
    if record.tool_results:
        calls = [_plain_call(record, position) for position in range(len(record.tool_results))]
        messages.append(call_message(calls))
        messages += [
            result_message(call, _result_text(result)) for call, result in zip(calls, record.tool_results, strict=True)
        ]
    if record.assistant_message:
        messages.append(ChatMessage(role=MessageRole.ASSISTANT, content=record.assistant_message))
    return messages


def _plain_call(record: Turn, position: int) -> ToolCall:
    result = record.tool_results[position]
    return ToolCall(f"{record.id}:{position}", result.tool_name, result.params)


def _result_text(result: ToolResult) -> str:
    return result.result if isinstance(result.result, str) else json.dumps(result.result, ensure_ascii=False)


# --- what providers accept --------------------------------------------------------------------------------------------


class _Exchange:
    """A message and, when it calls tools, their results."""

    def __init__(self, message: ChatMessage) -> None:
        self.message = message
        self.open = calls_of(message)
        self.results: list[ChatMessage] = []

    def answer(self, result: ChatMessage) -> bool:
        """Whether one of the calls was waiting for ``result``; it is kept then."""
        named = [call for call in self.open if result_id(result) in {call.id, call.name}]
        if not named:
            return False
        answered = next((call for call in named if call.id == result_id(result)), named[0])
        self.open.remove(answered)
        self.results.append(result)
        return True

    def messages(self) -> list[ChatMessage]:
        return [self.message, *self.results, *(result_message(call, NO_RESULT) for call in self.open)]


def repaired(conversation: Iterable[Said]) -> list[ChatMessage]:
    """The conversation as model providers accept it; a whole one comes back as it is.

    Results stand directly behind the message that called. A call without a result gets a marked one; a result whose
    call is not there gets the call before it.
    """
    exchanges: list[_Exchange] = []
    callers: dict[str, _Exchange] = {}
    for message, record in conversation:
        if not is_tool_result(message):
            exchanges.append(_Exchange(message))
            callers.update(dict.fromkeys(by_what_results_name(exchanges[-1].open), exchanges[-1]))
        elif not (caller := callers.get(result_id(message))) or not caller.answer(message):
            exchanges.append(_rebuilt(message, record))
    return [message for exchange in exchanges for message in exchange.messages()]


def _rebuilt(message: ChatMessage, record: Turn) -> _Exchange:
    """A tool's message behind the call it answers, as the record tells it."""
    told = _plain_call(record, 0) if record.tool_results else ToolCall(f"{record.id}:0", UNNAMED_TOOL, {})
    if not result_id(message):
        kwargs = {**message.additional_kwargs, "tool_call_id": told.id}
        message = message.model_copy(update={"additional_kwargs": kwargs})
    exchange = _Exchange(call_message([told._replace(id=result_id(message))]))
    exchange.answer(message)
    return exchange


def _is_placeholder(message: ChatMessage) -> bool:
    return is_tool_result(message) and message.content == NO_RESULT


def recalled_message(text: str) -> ChatMessage:
    """The system message that carries recalled memories."""
    return ChatMessage(role=MessageRole.SYSTEM, content=text)


def _is_recalled(message: ChatMessage) -> bool:
    # Nothing but the sections: a message that quotes them among words of its own belongs to the conversation.
    content = message.content or "" if message.role == MessageRole.SYSTEM else ""
    return content != "" and _RECALLED.fullmatch(content) is not None


def kept_by(messages: Sequence[ChatMessage], turns: Sequence[Turn], trimmed: bool) -> int | None:
    """How many of ``messages`` are what the turns say, all of it; None when they tell it otherwise.

    When the session was ``trimmed``, messages may come before it that it no longer has, system messages only those
    that were carried on.
    """
    said = read(turns)
    carried = sum(CARRIED_KEY in one.record.metadata for one in said)
    for there in ([message for message, _ in said], checked(repaired(said))):
        before, here = there[:carried], there[carried:]
        begins = range(len(messages) - len(here) + 1) if trimmed or carried else range(1)
        ends = [
            begin + len(here)
            for begin in begins
            if _same(here, messages[begin : begin + len(here)])
            and _same(before, [message for message in messages[:begin] if message.role in _SYSTEM_ROLES])
        ]
        if len(ends) == 1:  # where it could stand in several places, nobody can say what is new
            return ends[0]
    return None


def _same(one: Sequence[ChatMessage], other: Sequence[ChatMessage]) -> bool:
    """Whether both say the same, whatever classes hold it."""
    return len(one) == len(other) and all(
        first == second or _exact.plain(_exact.dump(first)) == _exact.plain(_exact.dump(second))
        for first, second in zip(one, other, strict=True)
    )
