"""The arrows between the modules, read from their sources: imports only point down."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import actrone_memory

ROOT = Path(actrone_memory.__file__).parents[1]
ENGINE = "actrone_memory"
ADAPTERS = ("actrone_langchain", "actrone_llamaindex")

BOTTOM = {"errors", "models"}
SEAMS = {"protocols", "config", "tokens"}
PURE = {
    "_budget",
    "_cues",
    "_digest",
    "_ids",
    "_json",
    "_lexical",
    "_newer_first",
    "_panel",
    "_ranking",
    "_render",
    "_session_log",
    "_shelf",
    "_similarity",
    "_sparse_terms",
    "_statements",
    "_store_calls",
    "_turns",
    "_updates",
    "_validation",
    "_vector_rows",
    "_vocabulary",
    "_wordpieces",
}
TEXT = {"context", "extraction", "reranking", "summarising"}
INDEX = {"_index", "_page_search"}
MODEL = {"_model_embedder", "_onnx_folder"}
LOOPS = {"_loop_clients"}
REMOTE = {"_chat", "_foreign", "_openai"}
PARTS = {"embedders", "stores"}
MACHINERY = {
    "_archive",
    "_background",
    "_capabilities",
    "_cold_tier",
    "_embedding",
    "_export_lines",
    "_export_reader",
    "_factory",
    "_hot_tier",
    "_loop_thread",
    "_local_chain",
    "_memories",
    "_recall",
    "_redaction",
    "_reindex",
    "_stand_ins",
    "_transfer",
    "_turnstile",
}
FILE = f"{ENGINE}.stores.sqlite.file"
CLIENTS = (f"{ENGINE}.stores.qdrant.link", f"{ENGINE}.stores.redis.clients")
LAYERS: list[set[str]] = [
    BOTTOM,
    SEAMS,
    PURE,
    TEXT | INDEX | MODEL | LOOPS | REMOTE,
    PARTS,
    MACHINERY,
    {"manager"},
    {"sync"},
    {"__init__", "cli", "testing"},
]
"""Each room of the engine, bottom first: a module sees its own layer and those below. Folders count as one room."""

CORE_PACKAGES = {"numpy", "pydantic", "pydantic_core", "pydantic_settings", "snowballstemmer"}
OPTIONAL_PACKAGES = {
    "fastembed": {"actrone_memory.embedders.onnx", "actrone_memory.reranking"},
    "httpx": {"actrone_memory.stores.qdrant.link"},
    "huggingface_hub": {"actrone_memory._model_embedder", "actrone_memory.embedders.sentence_transformers"},
    "langchain": {"actrone_langchain"},
    "langchain_core": {"actrone_langchain"},
    "langgraph": {"actrone_langchain"},
    "llama_index": {"actrone_llamaindex"},
    "loguru": {"actrone_memory._onnx_folder"},
    "onnxruntime": {"actrone_memory.embedders.onnx", "actrone_memory.reranking"},
    "openai": {"actrone_memory._openai"},
    "pytest": {"actrone_memory.testing"},
    "portalocker": {"actrone_memory.stores.qdrant.link"},
    "qdrant_client": {
        f"actrone_memory.stores.qdrant.{module}"
        for module in ("census", "collection", "link", "questions", "reading", "search", "store", "vectors", "writing")
    },
    "redis": {"actrone_memory.stores.redis.clients", "actrone_memory.stores.redis.store"},
    "markdown_it": {"actrone_memory.cli.rules"},
    "rich": {"actrone_memory.cli.show"},
    "sentence_transformers": {"actrone_memory.embedders.sentence_transformers", "actrone_memory.reranking"},
    "tiktoken": {"actrone_memory.tokens"},
    "tokenizers": {"actrone_memory._onnx_folder"},
    "torch": {"actrone_memory.embedders.sentence_transformers"},
    "typer": {"actrone_memory.cli.app"},
}
"""Which module, or package, may import what is not always installed."""

WAITING = {"asyncio", "concurrent", "http", "logging", "os", "random", "select", "socket", "sqlite3", "subprocess"}
"""Modules of the standard library that a pure module has no business with."""


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _sources() -> dict[str, ast.Module]:
    paths = [path for package in (ENGINE, *ADAPTERS) for path in sorted((ROOT / package).rglob("*.py"))]
    return {_module_name(path): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in paths}


MODULES = _sources()
PACKAGES = {_module_name(path) for package in (ENGINE, *ADAPTERS) for path in (ROOT / package).rglob("__init__.py")}
every_module = pytest.mark.parametrize("module", MODULES)


def imports(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Every imported module and the name taken from it ("" for a whole module), wherever the statement stands."""
    package = module if module in PACKAGES else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((source, alias.name) for alias in node.names)


def own_imports(module: str) -> set[str]:
    """The modules of ours that ``module`` imports; a module taken from its package counts as itself."""
    found = set()
    for source, name in imports(MODULES[module], module):
        target = f"{source}.{name}" if f"{source}.{name}" in MODULES else source
        if target in MODULES:
            found.add(target)
    return found


def room(module: str) -> str:
    """``errors`` for actrone_memory.errors, ``stores`` for all of actrone_memory.stores."""
    return module.removeprefix(ENGINE).lstrip(".").split(".")[0] or "__init__"


def part(module: str) -> str:
    """``stores.sqlite`` for all of actrone_memory.stores.sqlite: one store or embedder, of one file or of several."""
    return ".".join(module.split(".")[1:3])


def layer(module: str) -> int:
    """Height of the module's room."""
    return next(height for height, rooms in enumerate(LAYERS) if room(module) in rooms)


def engine_modules(rooms: Iterable[str] | None = None) -> list[str]:
    """Modules of the engine, or of some of its rooms."""
    ours = [module for module in MODULES if module.split(".")[0] == ENGINE]
    return ours if rooms is None else [module for module in ours if room(module) in set(rooms)]


def test_every_room_of_the_engine_has_a_layer() -> None:
    assert {room(module) for module in engine_modules()} <= set().union(*LAYERS)


def test_every_layer_has_a_room() -> None:
    assert [rooms for rooms in LAYERS if not engine_modules(rooms)] == []


@pytest.mark.parametrize("module", engine_modules())
def test_imports_point_down(module: str) -> None:
    assert {target for target in own_imports(module) if layer(target) > layer(module)} == set()


@pytest.mark.parametrize("module", engine_modules(BOTTOM))
def test_the_bottom_imports_nothing_of_ours(module: str) -> None:
    assert own_imports(module) == set()


@pytest.mark.parametrize("module", engine_modules(SEAMS))
def test_the_seams_import_only_the_bottom(module: str) -> None:
    assert {room(target) for target in own_imports(module)} <= BOTTOM


@pytest.mark.parametrize("module", engine_modules(PURE))
def test_a_pure_module_imports_only_pure_ones_and_what_is_below(module: str) -> None:
    assert {room(target) for target in own_imports(module)} <= PURE | SEAMS | BOTTOM


@pytest.mark.parametrize("module", engine_modules(PURE))
def test_a_pure_module_waits_for_nothing_and_reaches_nothing_outside(module: str) -> None:
    tree = MODULES[module]
    assert {source.split(".")[0] for source, _ in imports(tree, module)} & WAITING == set()
    assert [node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)] == []


@pytest.mark.parametrize("module", engine_modules(INDEX))
def test_the_index_imports_only_pure_modules_and_what_is_below(module: str) -> None:
    assert {room(target) for target in own_imports(module)} <= PURE | SEAMS | BOTTOM


@pytest.mark.parametrize("module", engine_modules(PARTS))
def test_a_store_or_embedder_sees_neither_the_manager_nor_another_part(module: str) -> None:
    others = {target for target in own_imports(module) if part(target) != part(module)}
    assert {room(target) for target in others} <= BOTTOM | SEAMS | PURE | INDEX | MODEL | LOOPS | REMOTE


@pytest.mark.parametrize("module", CLIENTS)
def test_clients_know_nothing_of_what_is_stored(module: str) -> None:
    assert {room(target) for target in own_imports(module)} <= {"errors"} | LOOPS


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith(FILE)])
def test_the_file_knows_no_store_and_no_index(module: str) -> None:
    assert {room(target) for target in own_imports(module) if not target.startswith(FILE)} <= BOTTOM


@pytest.mark.parametrize("module", [module for module in MODULES if part(module) == "stores.sqlite"])
def test_the_file_is_used_through_its_front(module: str) -> None:
    assert (
        module.startswith(FILE) or {target for target in own_imports(module) if target.startswith(f"{FILE}.")} == set()
    )


def test_the_manager_is_imported_by_the_sync_manager_and_the_package_alone() -> None:
    users = {room(module) for module in engine_modules() if f"{ENGINE}.manager" in own_imports(module)}
    assert users <= {"sync", "__init__", "cli"}
    assert "sync" in users


@pytest.mark.parametrize("module", engine_modules(set().union(*LAYERS[:-1])))
def test_the_engine_does_not_import_from_its_own_front(module: str) -> None:
    assert ENGINE not in own_imports(module)


@pytest.mark.parametrize("module", [module for module in MODULES if module.split(".")[0] in ADAPTERS])
def test_an_adapter_sees_public_names_and_no_other_adapter(module: str) -> None:
    public = {(ENGINE, name) for name in actrone_memory.__all__}
    for source, name in imports(MODULES[module], module):
        if source.split(".")[0] == ENGINE:
            seam = source in {f"{ENGINE}.protocols", f"{ENGINE}.testing"} and not name.startswith("_")
            assert (source, name) in public or (source == ENGINE and not name) or seam
        assert source.split(".")[0] not in set(ADAPTERS) - {module.split(".")[0]}


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: own_imports(module) - {module} for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@every_module
def test_a_module_says_in_its_docstring_what_it_is(module: str) -> None:
    assert ast.get_docstring(MODULES[module])


@every_module
def test_a_package_from_outside_is_imported_only_where_it_belongs(module: str) -> None:
    outside = {source.split(".")[0] for source, _ in imports(MODULES[module], module)}
    outside -= {ENGINE, *ADAPTERS, *CORE_PACKAGES, *sys.stdlib_module_names}
    strangers = {
        package for package in outside if not {module, module.split(".")[0]} & OPTIONAL_PACKAGES.get(package, set())
    }
    assert strangers == set()


def test_imports_are_seen_wherever_they_stand() -> None:
    source = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from actrone_memory.manager import MemoryManager
def build():
    import redis.asyncio
    from . import errors
    from ..stores import in_memory
"""
    found = set(imports(ast.parse(source), "actrone_memory.embedders.hashing"))
    assert ("actrone_memory.manager", "MemoryManager") in found
    assert ("redis.asyncio", "") in found
    assert ("actrone_memory.embedders", "errors") in found
    assert ("actrone_memory.stores", "in_memory") in found
