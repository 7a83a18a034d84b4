"""The command line on a rules file: learn it once, then recall what each task needs. `make demo` runs this.

It keeps what it learns in a temporary file: `python examples/command_line.py`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).parent

COMMANDS = [
    ["learn", "repo:web", "web/AGENTS.md"],
    ["recall", "repo:web", "add a unit test for the cart"],
    ["recall", "repo:web", "the total is off by a penny", "--why"],
    ["learn", "repo:web", "web/AGENTS.md"],
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = os.environ | {"ACTRONE_BACKEND": "sqlite", "ACTRONE_SQLITE_PATH": str(Path(folder, "memory.db"))}
        for command in COMMANDS:
            print(f"$ actrone-memory {shlex.join(command)}", flush=True)
            subprocess.run(
                [sys.executable, "-m", "actrone_memory.cli", *command], cwd=EXAMPLES, env=settings, check=True
            )
            print(flush=True)


if __name__ == "__main__":
    main()
