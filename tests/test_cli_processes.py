"""The command line as a process of its own: in pipes, on a terminal, in a folder of someone else, without its extra."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

COMMAND = [sys.executable, "-m", "actrone_memory.cli"]
ROOT = Path(__file__).parent.parent

terminal = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX systems")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """An environment with a memory of its own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ACTRONE_")}
    return plain | {"ACTRONE_SQLITE_PATH": str(tmp_path / "memory.db"), "TERM": "xterm-256color", "COLUMNS": "80"}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A rules file with many rules, one of them long."""
    long = " ".join(f"word{i}" for i in range(60))
    text = "".join(f"- Module {i} is covered by unit test {i}.\n" for i in range(300))
    path = tmp_path / "AGENTS.md"
    path.write_text(f"## Testing\n{text}- Snapshots: {long}\n", "utf-8")
    return path


def run(
    arguments: Sequence[str | Path], settings: dict[str, str], cwd: Path | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], env=settings, cwd=cwd, input=stdin, capture_output=True, encoding="utf-8"
    )


def test_in_a_pipe_nothing_is_coloured_wrapped_or_drawn(settings: dict[str, str], rules: Path) -> None:
    learnt = run(["learn", "s", rules], settings)
    assert (learnt.returncode, learnt.stdout, learnt.stderr) == (0, f"{rules}: 301 rules learnt.\n", "")
    listed = run(["list", "s"], settings)
    assert len(listed.stdout.splitlines()) == 301
    recalled = run(["recall", "s", "word7 snapshots", "--why"], settings)
    assert "word58 word59  [testing]\n" in recalled.stdout
    assert "\x1b" not in listed.stdout + recalled.stdout


@pytest.mark.skipif(os.name != "posix", reason="needs a shell's pipe")
@pytest.mark.parametrize("command", ["list s", "export s -", "list s --json"])
def test_a_reader_who_leaves_early_is_no_error(settings: dict[str, str], rules: Path, command: str) -> None:
    run(["learn", "s", rules], settings)
    pipe = f"{' '.join(COMMAND)} {command} | head -c 10"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {pipe}"], env=settings, capture_output=True, text=True)
    assert (len(done.stdout), done.stderr) == (10, "")


def on_a_terminal(
    arguments: Sequence[str | Path], settings: dict[str, str], act: Callable[[int, int, bytes], bool] = lambda *_: True
) -> tuple[int, str]:
    """Exit code and all that was printed; ``act(pid, terminal, printed)`` is asked until it has acted."""
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments], env=settings, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    printed, acted = b"", False
    while True:
        try:
            printed += (more := os.read(master, 65_536))
        except OSError:  # how Linux says that the other side is closed
            break
        if not more:
            break
        acted = acted or act(process.pid, master, printed)
    os.close(master)
    return process.wait(), printed.decode()


@terminal
def test_a_terminal_gets_a_bar_and_colours_unless_it_wants_none(settings: dict[str, str], rules: Path) -> None:
    code, printed = on_a_terminal(["learn", "s", rules], settings)
    assert code == 0
    assert "301/301" in printed
    assert printed.endswith("301 rules learnt.\r\n")
    code, printed = on_a_terminal(["recall", "s", "test of module 7"], settings)
    assert "\x1b[2m" in printed
    code, printed = on_a_terminal(["recall", "s", "test of module 7"], settings | {"NO_COLOR": "1"})
    assert "Module 7 is covered" in printed
    assert "\x1b" not in printed


@terminal
@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 301), (b"\n", 301), (b"\x04", 301), (b"yes\n", 0)])
def test_erase_asks_on_a_terminal(settings: dict[str, str], rules: Path, answer: bytes, left: int) -> None:
    run(["learn", "s", rules], settings)

    def reply(pid: int, master: int, printed: bytes) -> bool:
        if b"[y/N]" not in printed:
            return False
        os.write(master, answer)
        return True

    code, _ = on_a_terminal(["erase", "s"], settings, reply)
    assert code == (1 if left else 0)
    assert len(json.loads(run(["list", "s", "--json"], settings).stdout)) == left


@terminal
def test_an_interrupt_ends_without_a_trace_and_keeps_what_was_learnt(settings: dict[str, str], tmp_path: Path) -> None:
    rules = tmp_path / "LONG.md"
    rules.write_text("".join(f"- Module {number} is owned by a team.\n" for number in range(3_000)), "utf-8")

    def interrupt(pid: int, master: int, printed: bytes) -> bool:
        if b"Learning" not in printed:
            return False
        os.kill(pid, signal.SIGINT)
        return True

    began = time.monotonic()
    code, printed = on_a_terminal(["learn", "s", rules], settings, interrupt)
    assert time.monotonic() - began < 30
    assert code != 0
    assert "Traceback" not in printed
    assert "3000 rules learnt" not in printed
    assert run(["learn", "s", rules], settings).returncode == 0
    assert len(json.loads(run(["list", "s", "--json"], settings).stdout)) == 3_000


def test_a_hostile_folder_decides_nothing(settings: dict[str, str], tmp_path: Path, rules: Path) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    lines = [
        f"ACTRONE_SQLITE_PATH={hostile / 'stolen.db'}",
        "ACTRONE_BACKEND=redis_qdrant",
        "ACTRONE_REDIS_URL=redis://evil.example:6379",
        "ACTRONE_EMBEDDING_PROVIDER=openai",
        "ACTRONE_OPENAI_API_KEY=x",
        "ACTRONE_MAX_SESSION_TURNS=0",
    ]
    (hostile / ".env").write_text("\n".join(lines), "utf-8")
    before = sorted(path.name for path in hostile.iterdir())
    script = [str(Path(sys.executable).with_name("actrone-memory"))]
    for command in (["learn", "s", rules], ["recall", "s", "module"], ["doctor"], ["reindex"], ["export", "s"]):
        done = subprocess.run([*script, *map(str, command)], env=settings, cwd=hostile, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "evil" not in done.stdout + done.stderr
    assert sorted(path.name for path in hostile.iterdir()) == before
    assert (tmp_path / "memory.db").exists()


def test_the_default_file_is_one_for_the_user(settings: dict[str, str], tmp_path: Path, rules: Path) -> None:
    del settings["ACTRONE_SQLITE_PATH"]
    home = {"HOME": str(tmp_path / "home"), "LOCALAPPDATA": str(tmp_path / "home"), "XDG_DATA_HOME": ""}
    assert run(["learn", "s", rules], settings | home, cwd=tmp_path).returncode == 0
    (file,) = (tmp_path / "home").rglob("memory.db")
    assert file.parent.name == "actrone-memory"


@pytest.mark.parametrize("package", ["typer", "rich", "markdown_it"])
def test_without_its_extra_the_command_says_how_to_get_it(
    settings: dict[str, str], tmp_path: Path, package: str
) -> None:
    blocked = f"import sys; sys.modules[{package!r}] = None; from actrone_memory.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", blocked], env=settings, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"actrone-memory needs the package {package}: pip install 'actrone-memory[cli]'\n"


def test_letters_of_any_script_pass_through_a_pipe_of_any_locale(settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "規約.md").write_text("## 测试\n- 提交之前运行 lint ✅\n", "utf-8")
    settings |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    learnt = run(["learn", "s", "規約.md"], settings, cwd=tmp_path)
    assert learnt.returncode == 0, learnt.stderr
    for command in (["list", "s"], ["recall", "s", "lint"], ["list", "s", "--json"], ["export", "s"]):
        done = run(command, settings)
        assert done.returncode == 0, done.stderr
        assert "提交之前运行 lint ✅" in done.stdout


def test_four_processes_learn_at_once_and_lose_nothing(settings: dict[str, str], tmp_path: Path) -> None:
    processes = []
    for i in range(4):
        file = tmp_path / f"{i}.md"
        file.write_text("".join(f"- Rule {j} of file {i} stands.\n" for j in range(30)), "utf-8")
        processes.append(subprocess.Popen([*COMMAND, "learn", "s", file], env=settings, stdout=subprocess.DEVNULL))
    assert [process.wait() for process in processes] == [0] * 4
    assert len(json.loads(run(["list", "s", "--json", "--all"], settings).stdout)) == 120


def test_the_example_runs_in_any_place(settings: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    done = subprocess.run(
        [sys.executable, tmp_path / "examples" / "command_line.py"], env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stdout
    assert not (tmp_path / "memory.db").exists()
