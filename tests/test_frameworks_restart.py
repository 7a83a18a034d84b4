"""With a durable store a conversation goes on in the next process, through either framework."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
pytest.importorskip("llama_index.core", reason="the extra llamaindex is not installed")

TESTS = Path(__file__).parent

PRELUDE = """
import asyncio, json, pickle, sys
from actrone_memory import MemoryConfig, SyncMemoryManager
from actrone_langchain import ActroneChatMessageHistory
from actrone_llamaindex import ActroneMemory
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, messages_to_dict
from llama_index.core.base.llms.types import ChatMessage

path, arguments = sys.argv[1], sys.argv[2:]

def opened():
    config = MemoryConfig(_env_file=None, backend="sqlite", sqlite_path=path, embedding_provider="hashing")
    return SyncMemoryManager.create(config)

CALL = {"name": "orders", "args": {"id": 4711}, "id": "c1", "type": "tool_call"}
BAD = {"name": "orders", "args": "{", "id": "c2", "error": "no JSON", "type": "invalid_tool_call"}
USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
CHAIN = [
    SystemMessage("Be brief.", id="0"),
    HumanMessage([{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "data:,"}}], name="ann"),
    AIMessage("", tool_calls=[CALL, {**CALL, "id": "c3"}], invalid_tool_calls=[BAD], usage_metadata=USAGE, id="2"),
    ToolMessage("shipped", tool_call_id="c1", artifact={"rows": [1, 2]}, id="3"),
    ToolMessage("open", tool_call_id="c3", status="error", id="4"),
    AIMessage("One of two.", response_metadata={"model": "m"}, id="5"),
]
INDEX = [
    ChatMessage(role="user", content="I am Ann."),
    ChatMessage(role="assistant", content=None, additional_kwargs={"mood": {"kind": 1}}),
    ChatMessage(role="assistant", content="Hello Ann."),
]
"""


def run(program: str, path: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program, str(path), *arguments], cwd=TESTS, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def test_langchain_messages_come_back_equal_in_the_next_process(path: Path) -> None:
    run("with opened() as memory: ActroneChatMessageHistory(memory, 'a', 's').add_messages(CHAIN)", path)
    printed = run(
        """
with opened() as memory:
    history = ActroneChatMessageHistory(memory, "a", "s")
    assert history.messages == CHAIN, history.messages
    history.add_messages(CHAIN[2:])  # a transcript that is sent again
    print(len(history.messages))
""",
        path,
    )
    assert printed == "6\n"


def test_a_call_without_a_result_is_completed_in_the_next_process_and_gives_way_to_the_result(path: Path) -> None:
    run("with opened() as memory: ActroneChatMessageHistory(memory, 'a', 's').add_messages(CHAIN[:4])", path)
    printed = run(
        """
with opened() as memory:
    history = ActroneChatMessageHistory(memory, "a", "s")
    print([(m.tool_call_id, m.status) for m in history.messages if isinstance(m, ToolMessage)])
    history.add_messages(CHAIN[4:])
    print(history.messages == CHAIN)
""",
        path,
    )
    assert printed == "[('c1', 'success'), ('c3', 'error')]\nTrue\n"


def test_llamaindex_messages_come_back_equal_in_the_next_process(path: Path) -> None:
    run("with opened() as m: ActroneMemory.from_defaults(m, agent_id='a', session_id='s').put_messages(INDEX)", path)
    printed = run(
        """
with opened() as manager:
    memory = ActroneMemory.from_defaults(manager, agent_id="a", session_id="s")
    assert memory.get_all() == INDEX, memory.get_all()
    memory.set([*memory.get_all(), ChatMessage(role="user", content="Who am I?")])
    print(len(memory.get_all()))
""",
        path,
    )
    assert printed == "4\n"


def test_a_memory_that_was_data_opens_its_store_in_the_next_process(path: Path) -> None:
    packed = run(
        """
with opened() as manager:
    memory = ActroneMemory.from_defaults(manager, agent_id="a", session_id="s", token_budget=1234)
    memory.put_messages(INDEX)
    print(pickle.dumps(memory).hex(), json.dumps(memory.to_dict()), sep="\\n")
""",
        path,
    )
    printed = run(
        """
for memory in (pickle.loads(bytes.fromhex(arguments[0])), ActroneMemory.from_dict(json.loads(arguments[1]))):
    assert memory.get_all() == INDEX, memory.get_all()
    # What was left at its default still is: a session in a file expires only when someone says so.
    print(memory.token_budget, "session_ttl_hours" in memory.memory.manager.config.model_fields_set)
""",
        path,
        *packed.splitlines(),
    )
    assert printed == "1234 False\n1234 False\n"


def test_an_agent_goes_on_in_the_next_process(path: Path) -> None:
    program = """
import warnings
from llamaindex_scripts import ScriptedLLM, calling, said
from llama_index.core.agent.workflow import FunctionAgent

warnings.simplefilter("ignore", DeprecationWarning)

def weather(city: str) -> str:
    "The weather in a city."
    return f"sunny in {city}"

async def talk(question, *answers):
    llm = ScriptedLLM(*answers)
    memory = ActroneMemory.from_defaults(manager, agent_id="a", session_id="s")
    await FunctionAgent(llm=llm, tools=[weather]).run(question, memory=memory)
    return said(llm.seen[-1])

manager = opened()
"""
    run(
        f"{program}\nasyncio.run(talk('Weather in Bern?', calling(('c', 'weather', {{'city': 'Bern'}})), 'Sunny.'))\n"
        "manager.close()",
        path,
    )
    printed = run(f"{program}\nprint(asyncio.run(talk('And where was that?', 'Bern.')))\nmanager.close()", path)
    for told in ("Weather in Bern?", "sunny in Bern", "Sunny.", "And where was that?"):
        assert printed.count(told) == 1, printed


def test_past_sessions_are_recalled_in_the_next_process(path: Path) -> None:
    run("with opened() as memory: ActroneChatMessageHistory(memory, 'a', 'monday').add_messages(CHAIN)", path)
    printed = run(
        """
with opened() as manager:
    memory = ActroneMemory.from_defaults(manager, agent_id="a", session_id="tuesday")
    memory.put(ChatMessage(role="user", content="Which orders were open or shipped?"))
    print(memory.get()[0].content)
""",
        path,
    )
    assert "shipped" in printed
    assert "One of two." in printed
