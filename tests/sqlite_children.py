"""Programs that the tests of the SQLite store run as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

PRELUDE = """
import asyncio, os, sys
from actrone_memory import *
path, arguments = sys.argv[1], sys.argv[2:]

def settings(**values):
    return MemoryConfig(_env_file=None, backend="sqlite", sqlite_path=path, embedding_provider="hashing", **values)
"""


def start(program: str, path: Path, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """The program in a process of its own, with ``path`` and ``arguments`` as its own variables."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PRELUDE + program, str(path), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        **options,
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What the process printed; it must have ended well."""
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output


def run(program: str, path: Path, *arguments: object, **options: Any) -> str:
    """What the program printed."""
    return finished(start(program, path, *arguments, **options))
