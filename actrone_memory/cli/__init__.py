"""The command line, ``actrone-memory``; needs the extra ``cli``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without the packages of the extra, say how to get them."""
    try:
        from actrone_memory.cli.app import run
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in {"typer", "rich", "markdown_it"}:
            raise
        sys.exit(f"actrone-memory needs the package {package}: pip install 'actrone-memory[cli]'")
    run()
