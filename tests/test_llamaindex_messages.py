"""Messages of LlamaIndex as JSON and back: equal, whatever is in them."""

from __future__ import annotations

import io
import json
import logging
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import AudioBlock, ChatMessage, DocumentBlock, ImageBlock, MessageRole, TextBlock
from llama_index.core.llms.llm import ToolSelection
from pydantic import BaseModel, ConfigDict

from actrone_llamaindex import ActroneMemory, _exact
from actrone_memory import MemoryManager

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def newer(name: str, **fields: Any) -> list[Any]:
    """A block of a class that not every version has."""
    kind = getattr(types, name, None)
    return [] if kind is None else [kind(**fields)]


def blocks() -> list[Any]:
    citable = newer("CitableBlock", title="t", source="s", content=[TextBlock(text="a"), ImageBlock(image=PNG)])
    return [
        TextBlock(text=""),
        TextBlock(text="日本語 \x00 \ud800 text"),
        ImageBlock(image=PNG, detail="low"),
        ImageBlock(url="https://example.org/a.png?x=1#y"),
        ImageBlock(url="data:image/png;base64,aGVsbG8="),
        AudioBlock(audio=b"RIFF....WAVEfmt ", format="wav"),
        AudioBlock(url="https://example.org/a.mp3"),
        DocumentBlock(data=b"%PDF-1.7 ...", title="t.pdf"),
        DocumentBlock(path="some/where.pdf", url="https://example.org/where.pdf"),
        *newer("VideoBlock", video=b"\x00\x00\x00\x18ftypmp42", fps=3),
        *(
            newer("CachePoint", cache_control=types.CacheControl(type="ephemeral"))
            if hasattr(types, "CachePoint")
            else []
        ),
        *citable,
        *newer("CitationBlock", cited_content="c", source="s", title="t", additional_location_info={"page": 3}),
        *newer("ThinkingBlock", content="hm", num_tokens=3, additional_information={"signature": "x", "n": [1, None]}),
        *newer("ThinkingBlock"),
        *newer(
            "ToolCallBlock", tool_call_id="c", tool_name="f", tool_kwargs={"a": {"$kind": "bytes", "b": [1.5, None]}}
        ),
        *newer("ToolCallBlock", tool_name="f", tool_kwargs='{"half": '),
    ]


def every_block_of_this_version() -> set[str]:
    found = {name for name, kind in vars(types).items() if name.endswith("Block") and isinstance(kind, type)}
    return found - {"BaseContentBlock", "BaseRecursiveContentBlock", "CitableBlock"} | {"TextBlock"}


def test_every_class_of_block_is_among_the_examples() -> None:
    assert every_block_of_this_version() <= {type(block).__name__ for block in blocks()}


async def kept(memory: MemoryManager, *messages: ChatMessage) -> list[ChatMessage]:
    """The messages after a way through the store."""
    here = ActroneMemory.from_defaults(memory=memory, agent_id="a", session_id="s")
    await here.areset()
    await here.aput_messages(messages)
    return await here.aget_all()


@pytest.mark.parametrize("block", blocks(), ids=lambda block: type(block).__name__)
@pytest.mark.parametrize("role", list(MessageRole))
async def test_a_block_comes_back_equal(memory: MemoryManager, block: Any, role: MessageRole) -> None:
    message = ChatMessage(role=role, blocks=[block, TextBlock(text="beside"), block])
    (back,) = await kept(memory, message)
    assert back == message
    assert back.model_dump() == message.model_dump()
    assert [type(part) for part in back.blocks] == [type(part) for part in message.blocks]
    assert back.content == message.content


async def test_no_content_empty_content_and_no_role_come_back_as_they_were(memory: MemoryManager) -> None:
    messages = [ChatMessage(role="assistant", content=None), ChatMessage(role="assistant", content=""), ChatMessage()]
    back = await kept(memory, *messages)
    assert back == messages
    assert [message.content for message in back] == [message.content for message in messages]


async def test_a_file_that_is_gone_later_does_not_matter(memory: MemoryManager, tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    message = ChatMessage(role="user", blocks=[ImageBlock(path=file), DocumentBlock(path=file)])
    here = ActroneMemory.from_defaults(memory=memory, agent_id="a", session_id="s")
    await here.aput(message)
    file.unlink()
    assert await here.aget_all() == [message]


async def test_additional_kwargs_come_back_equal_models_included(memory: MemoryManager) -> None:
    class Function(BaseModel):
        name: str
        arguments: str

    class ProviderCall(BaseModel):
        model_config = ConfigDict(extra="allow")
        id: str
        function: Function

    calls = [
        ToolSelection(tool_id="1", tool_name="f", tool_kwargs={"a": (1, 2)}),
        ProviderCall(id="2", function=Function(name="g", arguments='{"b": 1}'), index=0),
    ]
    message = ChatMessage(
        role="assistant",
        additional_kwargs={"tool_calls": calls, "nested": {"$kind": "x", "value": [None, True, 1.5, {"a": "b"}]}},
    )
    (back,) = await kept(memory, message)
    assert back.additional_kwargs["nested"] == message.additional_kwargs["nested"]
    assert back.additional_kwargs["tool_calls"][0] == ToolSelection(
        tool_id="1", tool_name="f", tool_kwargs={"a": [1, 2]}
    )
    # A class that cannot be found by its name comes back as the dict that it is in JSON.
    assert back.additional_kwargs["tool_calls"][1] == {
        "id": "2",
        "index": 0,
        "function": {"name": "g", "arguments": '{"b": 1}'},
    }


async def test_what_json_cannot_hold_is_kept_as_marked_text_with_one_warning(
    memory: MemoryManager, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    message = ChatMessage(role="user", content="hi", additional_kwargs={"a": Odd(), "b": Odd(), "c": 10**5_000})
    with caplog.at_level(logging.WARNING, "actrone_llamaindex"):
        (back,) = await kept(memory, message)
    assert len(caplog.records) == 1
    assert back.additional_kwargs["a"] == "[cannot be stored as JSON] <odd>"
    assert back.content == "hi"


async def test_bytes_and_odd_numbers_in_additional_kwargs_come_back(memory: MemoryManager) -> None:
    kwargs = {"raw": b"\x00\xff", "logprob": float("-inf"), "path": Path("a/b")}
    (back,) = await kept(memory, ChatMessage(role="user", content="hi", additional_kwargs=kwargs))
    assert back.additional_kwargs == kwargs


@dataclass
class Usage:
    tokens: int
    shares: list[float]


async def test_keys_of_every_kind_come_back_and_containers_come_back_as_lists_and_dicts(
    memory: MemoryManager, caplog: pytest.LogCaptureFixture
) -> None:
    keyed = {1: "a", "1": "b", None: {2.5: "c"}, ("x", 1): "d", "\ud800": "e", MessageRole.USER: "f"}
    kwargs = {"keyed": keyed, "usage": Usage(3, [0.5]), "last": deque([1, (2,)])}
    (back,) = await kept(memory, ChatMessage(role="user", content="hi", additional_kwargs=kwargs))
    assert back.additional_kwargs == {
        "keyed": keyed,
        "usage": {"tokens": 3, "shares": [0.5]},
        "last": [1, [2]],
    }
    assert caplog.records == []


async def test_an_iterator_is_not_used_up(memory: MemoryManager) -> None:
    numbers = iter([1, 2])
    await kept(memory, ChatMessage(role="user", content="hi", additional_kwargs={"numbers": numbers}))
    assert list(numbers) == [1, 2]


def test_what_contains_itself_ends() -> None:
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    json.dumps(_exact.dump(ChatMessage(content="x", additional_kwargs=ring)))


@pytest.mark.skipif(not hasattr(types, "VideoBlock"), reason="this version takes no open files in blocks")
async def test_an_open_file_comes_back_as_what_it_holds(memory: MemoryManager) -> None:
    opened = io.BytesIO(PNG)
    (back,) = await kept(memory, ChatMessage(role="user", blocks=[ImageBlock(image=opened)]))
    assert back.blocks[0].image == ImageBlock(image=PNG).image
    assert opened.tell() == 0


async def test_a_block_of_a_class_that_is_not_here_is_kept_as_text(memory: MemoryManager) -> None:
    dumped: Any = _exact.dump(ChatMessage(role="user", content="x"))
    block = dumped["value"]["blocks"][0]
    block["class"], block["value"] = "llama_index.later:HologramBlock", {"block_type": "hologram", "depth": 3}
    read = _exact.load(dumped)
    assert read is not None
    (text,) = read.blocks
    assert isinstance(text, TextBlock)
    assert "hologram" in text.text
    assert "3" in text.text
    dumped["class"] = "mine:Message"
    assert isinstance(_exact.load(dumped), ChatMessage)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
any_message = st.builds(
    ChatMessage,
    role=st.sampled_from(MessageRole),
    blocks=st.lists(
        st.one_of(
            st.builds(TextBlock, text=st.text()),
            st.builds(ImageBlock, image=st.binary(min_size=1, max_size=60), detail=st.none() | st.text()),
            st.builds(DocumentBlock, data=st.binary(min_size=1, max_size=60), title=st.text()),
            st.sampled_from(blocks()),
        ),
        max_size=4,
    ),
    additional_kwargs=st.dictionaries(st.text().filter(lambda key: key != "images"), json_values, max_size=3),
)


@settings(max_examples=200, deadline=None)
@given(any_message)
def test_any_message_comes_back_equal(message: ChatMessage) -> None:
    dumped = json.loads(json.dumps(_exact.dump(message), ensure_ascii=False).encode())
    assert _exact.load(dumped) == message
