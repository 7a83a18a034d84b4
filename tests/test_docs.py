"""What the documents show is what happens: every Python block runs, and the shown output is the real one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")), ROOT / "CONTRIBUTING.md"]
BLOCKS = [
    pytest.param(block, id=f"{document.name}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", document.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
]
UPSTREAM = [
    "ignore:The `__fields:DeprecationWarning:inspect",
    "ignore:Accessing the 'model_:DeprecationWarning:inspect",
]
"""LlamaIndex's workflows look through all attributes of an agent, which pydantic remarks on."""


def run(*arguments: str, cwd: Path) -> str:
    filters = [option for text in ["error", *UPSTREAM] for option in ("-W", text)]
    done = subprocess.run([sys.executable, *filters, *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs_as_it_stands(block: str, tmp_path: Path) -> None:
    script = tmp_path / "snippet.py"
    script.write_text(block, "utf-8")
    run(str(script), cwd=tmp_path)


def test_the_readme_shows_the_output_of_the_demo(tmp_path: Path) -> None:
    shown = (ROOT / "README.md").read_text("utf-8").split("$ make demo", 1)[1].split("\n", 1)[1].split("$ make test")[0]
    examples = ["command_line.py", "coding_assistant.py"]
    printed = "".join(run(str(ROOT / "examples" / example), cwd=tmp_path) for example in examples)
    without_day = re.compile(r"\d{4}-\d{2}-\d{2}")
    assert without_day.sub("DAY", printed).strip() == without_day.sub("DAY", shown).strip()


def test_the_shown_message_is_the_real_one(tmp_path: Path) -> None:
    (block,) = (b for p in BLOCKS if "max_sesion_turns" in (b := str(p.values[0])))
    script = tmp_path / "snippet.py"
    script.write_text(block, "utf-8")
    shown = re.search(r"print\(error\)  # (.*)", block)
    assert shown is not None
    assert run(str(script), cwd=tmp_path).strip() == shown.group(1)
