"""The notebooks run from top to bottom in a real kernel and show what they show; what runs them tells the truth."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NEEDS = {"01_convention_recall": "typer", "02_langchain": "langchain.agents", "03_llamaindex": "llama_index.core"}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scripts.notebooks", *arguments], cwd=ROOT, capture_output=True, text=True
    )


def notebook(path: Path, source: str, shown: str) -> Path:
    """A notebook with one cell that showed that text."""
    cell = nbformat.v4.new_code_cell(source, id="only", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=shown)]
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    return path


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_does(path: Path) -> None:
    pytest.importorskip(NEEDS[path.stem])
    done = run("--check", path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_does_not_tell_where_it_was_run(path: Path) -> None:
    read = nbformat.read(path, as_version=4)
    assert read.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    outputs = [output for cell in read.cells for output in cell.get("outputs", [])]
    assert outputs
    told = " ".join(str(output.get("text", "")) + output.get("data", {}).get("text/html", "") for output in outputs)
    assert not re.search(r"/(?:home|root|tmp|Users|var|private|opt)/|[A-Z]:\\|0x[0-9a-f]{6}", told)
    assert socket.gethostname() not in told
    assert all(cell.metadata == {} for cell in read.cells)


def test_another_output_is_told_with_its_cell_and_written_when_asked(tmp_path: Path) -> None:
    path = notebook(tmp_path / "n.ipynb", "print('one'); print('two')", "one\nthree\n")
    before = path.read_bytes()
    done = run("--check", path)
    assert done.returncode == 1
    assert "n.ipynb, cell only" in done.stderr
    assert "-three\n+two" in done.stderr
    assert path.read_bytes() == before

    assert run(path).returncode == 0
    (cell,) = nbformat.read(path, as_version=4).cells
    assert [output.text for output in cell.outputs] == ["one\ntwo\n"]
    assert run("--check", path).returncode == 0


def test_another_day_alone_changes_no_file(tmp_path: Path) -> None:
    source = "from datetime import date; print('On', date.today())"
    path = notebook(tmp_path / "n.ipynb", source, "On 2001-02-03\n")
    before = path.read_bytes()
    assert run("--check", path).returncode == 0
    assert run(path).returncode == 0
    assert path.read_bytes() == before


def test_a_warning_and_an_error_are_failures(tmp_path: Path) -> None:
    warned = notebook(tmp_path / "warned.ipynb", "import sys; print('careful', file=sys.stderr)", "")
    broken = notebook(tmp_path / "broken.ipynb", "1 / 0", "")
    done = run("--check", warned, broken)
    assert done.returncode == 1
    assert "warned.ipynb, cell only, on stderr: careful" in done.stderr
    assert "broken.ipynb" in done.stderr
    assert "ZeroDivisionError" in done.stderr


def test_a_notebook_does_not_get_out(tmp_path: Path) -> None:
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        source = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{server.server_port}/')"
        done = run("--check", notebook(tmp_path / "n.ipynb", source, ""))
        server.shutdown()
    assert done.returncode == 1
    assert "URLError" in done.stderr
    assert asked == []
