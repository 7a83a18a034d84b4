"""Execute the notebooks, each in a kernel of its own, and keep what they show.

    python -m scripts.notebooks            write the outputs into the notebooks
    python -m scripts.notebooks --check    write nothing, say where the text of an output is another one

Run from the checkout (``make notebooks``). Days and ages are left as they were when nothing else has changed, so that a
second run changes no file.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from matplotlib import font_manager  # noqa: F401 - fills the cache of fonts here; the kernel would report that it does
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).parents[1] / "notebooks"
TIMEOUT_SECONDS = 120

DAY_OR_AGE = re.compile(r"\d{4}-\d{2}-\d{2}|(?<=>)(?:now|\d+ (?:min|h|d))(?=</td>)")
"""What differs from run to run: a day in a text, an age in the panel of a context."""

SHUT_DOOR = "http://127.0.0.1:9"
"""A proxy that nobody answers at: what wants to go out fails."""


def main() -> None:
    """Execute what is named, or all; then write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the outputs, write nothing")
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(FOLDER.glob("*.ipynb")), metavar="NOTEBOOK")
    arguments = parser.parse_args()
    problems = [problem for path in arguments.notebooks for problem in _execute(path, arguments.check)]
    sys.exit("\n".join(problems) if problems else 0)


def _execute(path: Path, check: bool) -> list[str]:
    """What is wrong with the notebook, if anything; without ``check`` its outputs are written."""
    before = nbformat.read(path, as_version=4)
    try:
        after = _executed(before, path.parent)
    except CellExecutionError as error:
        return [f"{path.name}: {error}"]
    if check:
        return _differences(path.name, before, after)
    nbformat.write(after, path)
    print(f"{path.name}: {len(after.cells)} cells", flush=True)
    return _warnings(path.name, after)


def _executed(notebook: Any, folder: Path) -> Any:
    """A copy with the outputs of a run, and nothing that tells when and where it was run."""
    copy = nbformat.from_dict(json.loads(json.dumps(notebook)))
    client = NotebookClient(
        copy,
        timeout=TIMEOUT_SECONDS,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=_environment())
    copy.metadata = notebook.metadata
    for was, cell in zip(notebook.cells, copy.cells, strict=True):
        cell.metadata = was.metadata
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
            cell.outputs = was.outputs if _timeless(was.outputs) == _timeless(cell.outputs) else cell.outputs
    return copy


def _environment() -> dict[str, str]:
    """This process's, without settings of ours, with the embedder of the package and without a way out."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("ACTRONE_")}
    shut = {"http_proxy": SHUT_DOOR, "https_proxy": SHUT_DOOR, "all_proxy": SHUT_DOOR, "no_proxy": ""}
    return kept | shut | {"ACTRONE_EMBEDDING_PROVIDER": "static"}


def _joined(outputs: list[Any]) -> list[Any]:
    """The outputs with each stream in one piece: where a kernel cuts it is chance."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.output_type == "stream" and output.get("name") == joined[-1].get("name"):
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _timeless(outputs: list[Any]) -> str:
    return DAY_OR_AGE.sub("...", json.dumps(outputs, sort_keys=True))


def _differences(name: str, before: Any, after: Any) -> list[str]:
    found = _warnings(name, after)
    for was, cell in zip(before.cells, after.cells, strict=True):
        shown, now = _text(was), _text(cell)
        if shown != now:
            lines = difflib.unified_diff(shown.splitlines(), now.splitlines(), "shown", "now", lineterm="")
            found.append("\n".join([f"{name}, cell {cell.id}: the output is another one", *lines]))
    return found


def _warnings(name: str, notebook: Any) -> list[str]:
    return [
        f"{name}, cell {cell.id}, on stderr: {output.text}"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.get("name") == "stderr"
    ]


def _text(cell: Any) -> str:
    """The outputs of a cell as text, a picture by its kind."""
    told = []
    for output in cell.get("outputs", []):
        for kind, content in [("stream", output.text)] if "text" in output else sorted(output.data.items()):
            told.append(f"[{kind}]\n{content if kind == 'stream' or kind.startswith('text/') else ''}")
    return DAY_OR_AGE.sub("...", "\n".join(told))


if __name__ == "__main__":
    main()
