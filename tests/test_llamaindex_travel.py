"""Memories as data: in dicts, pickles and workflow contexts, within a process and out of it."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import Context, JsonPickleSerializer, JsonSerializer
from llamaindex_scripts import UPSTREAM, ScriptedLLM, said

from actrone_llamaindex import ActroneMemory, ActroneMemoryBlock, _link
from actrone_memory import ConfigurationError, MemoryConfig, MemoryManager, SyncMemoryManager, ValidationError

pytestmark = UPSTREAM


def of(memory: Any) -> ActroneMemory:
    return ActroneMemory.from_defaults(memory=memory, agent_id="a", session_id="s", token_budget=1_234)


def by_dict(memory: ActroneMemory) -> ActroneMemory:
    return ActroneMemory.from_dict(json.loads(json.dumps(memory.to_dict())))


def by_dump(memory: ActroneMemory) -> ActroneMemory:
    return ActroneMemory.model_validate(json.loads(memory.model_dump_json()))


def by_pickle(memory: ActroneMemory) -> ActroneMemory:
    back = pickle.loads(pickle.dumps(memory))
    assert isinstance(back, ActroneMemory)
    return back


@pytest.mark.parametrize("way", [by_dict, by_dump, by_pickle, copy.deepcopy, copy.copy])
async def test_it_finds_its_manager_again(memory: MemoryManager, way: Any) -> None:
    await of(memory).aput(ChatMessage(content="hello"))
    back = way(of(memory))
    assert (back.agent_id, back.session_id, back.token_budget) == ("a", "s", 1_234)
    assert back.memory.manager is memory
    assert back == of(memory)
    assert said(await back.aget_all()) == [("user", "hello")]
    assert said(back.get_all()) == [("user", "hello")]


@pytest.mark.parametrize("serializer", [JsonSerializer(), JsonPickleSerializer()])
async def test_a_workflow_context_goes_on_after_it_was_data(memory: MemoryManager, serializer: Any) -> None:
    first = FunctionAgent(llm=ScriptedLLM("Hello Ann."))
    context = Context(first)
    await first.run("I am Ann.", ctx=context, memory=of(memory))
    data = json.loads(json.dumps(context.to_dict(serializer=serializer)))
    llm = ScriptedLLM("Ann.")
    second = FunctionAgent(llm=llm)
    await second.run("Who am I?", ctx=Context.from_dict(second, data, serializer=serializer))
    assert said(llm.seen[0]) == [("user", "I am Ann."), ("assistant", "Hello Ann."), ("user", "Who am I?")]
    assert len(await of(memory).aget_all()) == 4


async def test_no_secret_travels(tmp_path: Path) -> None:
    config = MemoryConfig(
        openai_api_key="sk-secret",
        qdrant_api_key="qd-secret",
        redis_url="redis://:secret@example.org:6379",
        qdrant_url="http://example.org:6333?api_key=secret",
        max_session_turns=7,
    )
    manager = await MemoryManager.create(config)
    for data in (of(manager).to_json(), of(manager).model_dump_json(), str(pickle.dumps(of(manager)))):
        assert "secret" not in data
    assert of(manager).to_dict()["memory"]["settings"]["max_session_turns"] == 7
    await manager.close()


ELSEWHERE = """
import json, pickle, sys
from actrone_llamaindex import ActroneMemory
from actrone_memory import ConfigurationError, SyncMemoryManager
from llama_index.core.llms import ChatMessage

data = pickle.loads(bytes.fromhex(sys.argv[1]))
memory = ActroneMemory.from_dict(data) if isinstance(data, dict) else data
assert (memory.agent_id, memory.token_budget) == ("a", 1234)
try:
    memory.get_all()
except ConfigurationError as error:
    print(error.code)
    print(error)
with SyncMemoryManager.create() as manager:
    given = ActroneMemory.from_dict(memory.to_dict(), memory=manager)
    given.put(ChatMessage(content="here"))
    print(len(given.get_all()))
"""


@pytest.mark.parametrize("packed", [lambda memory: pickle.dumps(memory), lambda memory: pickle.dumps(memory.to_dict())])
async def test_data_of_another_process_is_a_clear_error(memory: MemoryManager, packed: Any) -> None:
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", ELSEWHERE, packed(of(memory)).hex()], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    code, message, count = done.stdout.splitlines()
    assert code == "in_process_data"
    assert "ActroneMemory.from_dict(data, memory=manager)" in message
    assert count == "1"


@pytest.fixture
def durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend counts as one that another process can open."""
    monkeypatch.setattr(_link, "IN_PROCESS_BACKENDS", frozenset())


@pytest.mark.usefixtures("durable")
def test_elsewhere_a_manager_is_opened_once_from_the_settings() -> None:
    settings = of(None).memory.settings | {"max_session_turns": 7, "a_setting_of_a_later_version": True}
    links = [
        _link.ManagerLink.to({"token": f"token of process {number}", "settings": settings}) for number in (1, 2, 1)
    ]
    assert links[0].manager is links[1].manager is links[2].manager
    assert links[0].manager.config.max_session_turns == 7
    links[0].sync.close()
    again = _link.ManagerLink.to({"token": "token of process 1", "settings": settings})
    assert not again.manager.closed
    again.sync.close()


@pytest.mark.usefixtures("durable")
async def test_a_manager_that_opens_slowly_holds_up_nobody_else(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens, opened = threading.Event(), threading.Event()
    create = SyncMemoryManager.create

    def slowly(*arguments: Any) -> SyncMemoryManager:
        opens.set()
        assert opened.wait(10)
        return create(*arguments)

    monkeypatch.setattr(SyncMemoryManager, "create", slowly)
    link = _link.ManagerLink.to({"token": "of another process", "settings": of(memory).memory.settings})
    late = ActroneMemory.from_defaults(memory=memory, agent_id="a", session_id="late").model_copy(
        update={"memory": link}
    )
    opening = asyncio.create_task(late.aget())
    assert await asyncio.to_thread(opens.wait, 10)
    beside = of(memory)
    await beside.aput(ChatMessage(content="hello"))
    beside.put(ChatMessage(content="hello"))
    assert not opening.done()
    opened.set()
    assert await opening == []
    await asyncio.to_thread(link.sync.close)


@pytest.mark.usefixtures("durable")
async def test_a_closed_manager_is_opened_again() -> None:
    manager = await MemoryManager.create()
    data = of(manager).to_dict()
    await manager.close()
    back = ActroneMemory.from_dict(data)
    await back.aput(ChatMessage(content="hello"))
    assert back.memory.manager is not manager
    await asyncio.to_thread(back.memory.sync.close)


async def test_a_closed_manager_with_its_data_gone_says_so() -> None:
    manager = await MemoryManager.create()
    back = ActroneMemory.from_dict(of(manager).to_dict())
    await manager.close()
    with pytest.raises(ConfigurationError, match="closed"):
        await back.aget()


def test_without_a_manager_the_process_has_one_of_its_own() -> None:
    of(None).put(ChatMessage(content="hello"))
    assert said(of(None).get_all()) == [("user", "hello")]
    assert said(by_pickle(of(None)).get_all()) == [("user", "hello")]
    of(None).memory.sync.close()


def test_the_manager_of_a_sync_one_is_found_again() -> None:
    with SyncMemoryManager.create() as manager:
        assert by_pickle(of(manager)).memory.manager is manager.manager


async def test_a_block_travels_too(memory: MemoryManager) -> None:
    block = ActroneMemoryBlock(memory=memory, agent_id="a")
    assert pickle.loads(pickle.dumps(block)).memory.manager is memory
    assert ActroneMemoryBlock(**block.model_dump()).memory.manager is memory


@pytest.mark.parametrize("data", [{}, {"agent_id": "a"}, {"agent_id": 7, "session_id": "s"}])
def test_data_without_its_ids_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"^(agent_id|session_id): "):
        ActroneMemory.from_dict(data)


@pytest.mark.parametrize("memory", [7, "manager", {"token": 3}, {}])
def test_what_is_no_manager_is_refused(memory: Any) -> None:
    with pytest.raises(ConfigurationError):
        of(memory)


def test_it_has_a_schema_and_a_name_for_the_framework() -> None:
    assert {"memory", "agent_id", "session_id", "token_budget"} <= set(ActroneMemory.model_json_schema()["properties"])
    assert ActroneMemory.class_name() == "ActroneMemory"
