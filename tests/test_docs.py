"""What the documents show is what happens: every Python block runs, and the shown output is the real one."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import actrone_memory
from actrone_memory import MemoryConfig, SyncMemoryManager

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PACKAGE = Path(actrone_memory.__file__).parent
DOCUMENTS = [ROOT / "README.md", *sorted(DOCS.glob("**/*.md")), ROOT / "CONTRIBUTING.md"]
UPSTREAM = [
    # LlamaIndex's workflows look through all attributes of an agent, which pydantic remarks on.
    "ignore:The `__fields:DeprecationWarning:inspect",
    "ignore:Accessing the 'model_:DeprecationWarning:inspect",
    # What the page about moving away from them moves away from.
    "ignore:`langchain-community` is being sunset:DeprecationWarning",
    "ignore:The class `InMemoryChatMessageHistory` was deprecated",
    "ignore:The class `BaseChatMessageHistory` was deprecated",
]


def blocks_of(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text("utf-8"), re.MULTILINE | re.DOTALL)


BLOCKS = [
    pytest.param(document, block, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(blocks_of(document))
]


def run(*arguments: str, cwd: Path, **environment: str) -> str:
    filters = [option for text in ["error", *UPSTREAM] for option in ("-W", text)]
    done = subprocess.run(
        [sys.executable, *filters, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_block(block: str, cwd: Path, **environment: str) -> str:
    """What the block prints; one with a test class is given to pytest, as its page says."""
    script = cwd / "test_snippet.py"
    script.write_text(block, "utf-8")
    if re.search(r"^class Test", block, re.MULTILINE):
        return run("-m", "pytest", "-q", "-rs", "-p", "no:asyncio", "-p", "no:cacheprovider", script.name, cwd=cwd)
    return run(script.name, cwd=cwd, **environment)


BY_SETTING = {"qdrant_url=": "qdrant_client", 'token_counter="tiktoken"': "tiktoken"}
"""What a block needs without importing it."""


def needed_packages(block: str) -> set[str]:
    found = {package for setting, package in BY_SETTING.items() if setting in block}
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def skip_without(packages: set[str]) -> None:
    absent = sorted(package for package in packages if importlib.util.find_spec(package) is None)
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis with a session as LangChain's class for it keeps one."""
    from redis_servers import running

    with running("redis", tmp_path_factory.mktemp("redis")) as server, server.client() as client:
        said = ('{"type": "human", "data": {"content": "Hello", "type": "human"}}',
                '{"type": "ai", "data": {"content": "Hello Ann.", "type": "ai"}}')  # fmt: skip
        for message in reversed(said):
            client.rpush("message_store:ann-1", message)
        yield server.url


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """One for each document: its blocks may read what earlier ones wrote."""
    return {document: tmp_path_factory.mktemp(document.stem) for document in DOCUMENTS}


@pytest.mark.parametrize(("document", "block"), BLOCKS)
def test_a_block_runs_as_it_stands(
    document: Path, block: str, folders: dict[Path, Path], request: pytest.FixtureRequest
) -> None:
    skip_without(needed_packages(block))
    environment = {"REDIS_URL": request.getfixturevalue("redis_url")} if "REDIS_URL" in block else {}
    run_block(block, folders[document], **environment)


# --- what is shown beside the blocks ----------------------------------------------------------------------------------


def test_the_readme_shows_the_output_of_the_demo(tmp_path: Path) -> None:
    skip_without({"typer"})
    shown = (ROOT / "README.md").read_text("utf-8").split("$ make demo", 1)[1].split("\n", 1)[1].split("$ make test")[0]
    examples = ["command_line.py", "coding_assistant.py"]
    printed = "".join(run(str(ROOT / "examples" / example), cwd=tmp_path) for example in examples)
    without_day = re.compile(r"\d{4}-\d{2}-\d{2}")
    assert without_day.sub("DAY", printed).strip() == without_day.sub("DAY", shown).strip()


def test_the_shown_message_is_the_real_one(tmp_path: Path) -> None:
    (block,) = (block for block in blocks_of(DOCS / "settings.md") if "max_sesion_turns" in block)
    shown = re.search(r"print\(error\)  # (.*)", block)
    assert shown is not None
    assert run_block(block, tmp_path).strip() == shown.group(1)


def shown_after(document: str, number: int) -> str:
    """The output that a page shows after its block of this number."""
    parts = (DOCS / document).read_text("utf-8").split("```python\n")
    found = re.search(r"^```text\n(.*?)^```", parts[number + 1], re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_quickstart_shows_what_it_prints(tmp_path: Path) -> None:
    printed = run_block(blocks_of(DOCS / "quickstart.md")[0], tmp_path)
    assert printed == shown_after("quickstart.md", 0)


def test_the_page_about_own_parts_shows_what_its_store_lacks(tmp_path: Path) -> None:
    printed = run_block(blocks_of(DOCS / "own-parts.md")[0], tmp_path)
    lacking = re.findall(r"SKIPPED (\[\d+\]) .*: (FolderStore has no \w+)", printed)
    outcome = re.search(r"\d+ passed, \d+ skipped", printed)
    assert outcome is not None
    told = "".join(f"SKIPPED {count} {text}\n" for count, text in lacking) + outcome.group() + "\n"
    assert told == shown_after("own-parts.md", 0)


def test_the_picture_is_the_panel_of_today(tmp_path: Path) -> None:
    run(str(ROOT / "scripts" / "panel.py"), str(tmp_path / "panel.svg"), cwd=tmp_path)
    made, kept = ((folder / "panel.svg").read_text("utf-8") for folder in (tmp_path, DOCS))
    assert made == kept, "make panel"


def test_the_settings_page_has_every_setting_with_its_default() -> None:
    text = (DOCS / "settings.md").read_text("utf-8")
    shown = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    assert shown == {name: f"`{field.default}`" for name, field in MemoryConfig.model_fields.items()}


def test_the_reference_has_every_public_name_once() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in sorted((DOCS / "api").glob("*.rst")))
    shown = re.findall(r"^\.\. auto(?:class|function|exception):: (\w+)$", pages, re.MULTILINE)
    assert len(shown) == len(set(shown))
    suites = {"L1StoreConformance", "L2StoreConformance", "EmbedderConformance"}
    public = set(actrone_memory.__all__) | suites | names_of("actrone_langchain") | names_of("actrone_llamaindex")
    assert set(shown) == public | {"ActroneMemoryMiddleware"}


def names_of(package: str) -> set[str]:
    """What the package offers, read from its source: its framework may be absent."""
    spec = importlib.util.find_spec("actrone_memory")
    assert spec is not None
    assert spec.origin is not None
    source = (Path(spec.origin).parents[1] / package / "__init__.py").read_text("utf-8")
    (names,) = (
        node.value for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    )  # fmt: skip
    return set(ast.literal_eval(names))


def test_a_link_between_documents_leads_somewhere() -> None:
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
            page = document.parent / target if target else document
            assert page.exists(), f"{document.name}: {target}"
            assert not heading or heading in anchors_of(page), f"{document.name}: {target}#{heading}"


def anchors_of(page: Path) -> set[str]:
    """How the headings of a page are addressed."""
    headings = re.findall(r"^#+ (.*)", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_module_has_its_line_in_the_list_of_rooms() -> None:
    rooms = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## The rooms of the house")[1].split("```")[1]
    listed = set(re.findall(r"\w+\.py", rooms))
    assert {module.name for module in PACKAGE.glob("*.py")} - {"__init__.py"} <= listed


# --- moving from the package of the same name -------------------------------------------------------------------------


def test_what_the_one_script_writes_the_other_takes_in(tmp_path: Path) -> None:
    old = {"ACTRONE_BACKEND": "sqlite", "ACTRONE_SQLITE_PATH": str(tmp_path / "old.db")}
    config = MemoryConfig(backend="sqlite", sqlite_path=tmp_path / "old.db")
    with SyncMemoryManager.create(config) as memory:
        for number in range(30):
            memory.inject_memory("support", f"Rule {number}: refunds of kind {number} take {number} days.")
        memory.store_turn("support", "ann-1", "I am Ann.", "Hello Ann.")
        memory.store_turn("support", "ann-1", "Where is order 4711?", "It has shipped.")
    leaves, arrives = blocks_of(DOCS / "from-actrone-memory-0.3.md")
    run_block(leaves, tmp_path, **old)
    memories, turns = run_block(arrives, tmp_path).splitlines()
    assert memories.count("refunds of kind") == 30
    assert ast.literal_eval(turns) == ["I am Ann.", "Where is order 4711?"]
