"""The file of the embedded store: its owner's alone, refused untouched when it is not ours, explained when it fails."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlite_children import finished, run, start

from actrone_memory import ConfigurationError, MemoryConfig, MemoryManager, SQLiteStore, StoreConnectionError, Turn

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs limits and users of Linux")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def record(text: str) -> Turn:
    return Turn(session_id="s", user_message=text, assistant_message="ok")


async def fill(path: Path, turns: int = 1) -> None:
    store = SQLiteStore(path)
    for i in range(turns):
        await store.append_turn("a", "s", record(f"number {i} " + "x" * 500))
    await store.close()


def beside(path: Path) -> dict[str, bytes]:
    """Everything in the folder, byte for byte."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}


# --- making it --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
async def test_the_file_and_what_lies_beside_it_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "made" / "memory.db"
    before = os.umask(0)
    try:
        store = SQLiteStore(path)
        await store.append_turn("a", "s", record("secret"))
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await store.close()


async def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch(mode=0o644)
    await fill(path)
    assert path.stat().st_size > 0
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_relative_path_and_one_with_odd_characters_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SQLiteStore("50% ünï?mode=ro#x.db")
    monkeypatch.chdir("/")
    await store.append_turn("a", "s", record("hello"))
    await store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["50% ünï?mode=ro#x.db"]


async def test_a_creation_that_was_cut_off_is_begun_anew(path: Path) -> None:
    cut_off = start(
        """
from actrone_memory.stores.sqlite.file.opening import Opening
store = SQLiteStore(path)
making = Opening._fill

def die(self, connection):
    making(self, connection)
    connection.execute("PRAGMA cache_spill=ON")
    os._exit(9)

Opening._fill = die
asyncio.run(store.turn_count("a", "s"))
""",
        path,
    )
    cut_off.communicate()
    assert cut_off.returncode == 9
    await fill(path)
    store = SQLiteStore(path)
    assert await store.turn_count("a", "s") == 1
    await store.close()


async def test_eight_processes_make_one_file(path: Path) -> None:
    program = """
async def main():
    store = SQLiteStore(path)
    await store.append_turn("a", arguments[0], Turn(session_id=arguments[0], user_message="hi", assistant_message=""))
    await store.close()
asyncio.run(main())
"""
    for process in [start(program, path, f"s{i}") for i in range(8)]:
        finished(process)
    store = SQLiteStore(path)
    assert len(await store.list_sessions("a")) == 8
    await store.close()


# --- refusing it ------------------------------------------------------------------------------------------------------


def text(path: Path) -> None:
    path.write_text("my notes\n" * 100)


def short(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00 cut off")


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE memories (text)")
    other.close()


def foreign_with_a_log(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("CREATE TABLE memories (text)")
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{path}.copy{suffix}")
    other.close()
    for suffix in ("", "-wal"):
        Path(f"{path}.copy{suffix}").rename(f"{path}{suffix}")


def changed(path: Path, change: Callable[[bytearray], None]) -> None:
    subprocess.run([sys.executable, "-c", MAKING, str(path)], check=True, cwd=Path(__file__).parent.parent)
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


MAKING = """
import asyncio, sys
from actrone_memory import SQLiteStore, Turn
async def main():
    store = SQLiteStore(sys.argv[1])
    for i in range(60):
        text = f"number {i} " + "x" * 500
        await store.append_turn("a", "s", Turn(session_id="s", user_message=text, assistant_message=""))
    await store.close()
asyncio.run(main())
"""


def newer(path: Path) -> None:
    changed(path, lambda content: content.__setitem__(slice(60, 64), (99).to_bytes(4, "big")))


def half(path: Path) -> None:
    changed(path, lambda content: content.__delitem__(slice(len(content) // 2, None)))


def overwritten(path: Path) -> None:
    def overwrite(content: bytearray) -> None:
        content[8192:16384] = os.urandom(8192)

    changed(path, overwrite)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (text, "no SQLite database"),
        (short, "no SQLite database"),
        (foreign, "another program"),
        (foreign_with_a_log, "another program"),
        (newer, "Upgrade"),
        (half, "damaged"),
        (overwritten, "damaged"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_what_is_not_ours_is_refused_and_left_as_it_was(
    make: Callable[[Path], None], says: str, path: Path
) -> None:
    make(path)
    before = beside(path)
    with pytest.raises(ConfigurationError, match=says) as error:
        await MemoryManager.create(MemoryConfig(backend="sqlite", sqlite_path=path))
    assert str(path) in error.value.message
    assert "ACTRONE_SQLITE_PATH" in error.value.message
    assert beside(path) == before


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is a folder"):
        await SQLiteStore(tmp_path).turn_count("a", "s")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
async def test_a_pipe_is_no_file_and_nothing_waits_for_it(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="no regular file"):
        await SQLiteStore(path).turn_count("a", "s")


async def test_a_refused_file_may_be_put_right_without_a_new_store(path: Path) -> None:
    text(path)
    store = SQLiteStore(path)
    with pytest.raises(ConfigurationError):
        await store.turn_count("a", "s")
    path.unlink()
    await store.append_turn("a", "s", record("now"))
    assert await store.turn_count("a", "s") == 1
    await store.close()


async def test_an_older_sqlite_is_refused_by_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 7, 17))
    with pytest.raises(ConfigurationError, match=r"3\.22\.0"):
        await SQLiteStore(path).turn_count("a", "s")
    assert not path.exists()


# --- failures ---------------------------------------------------------------------------------------------------------


@LINUX
async def test_a_full_disk_is_explained_costs_nothing_and_passes(path: Path) -> None:
    printed = run(
        """
import resource

async def main():
    store = SQLiteStore(path)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def append(text):
        await store.append_turn("a", "s", Turn(session_id="s", user_message=text, assistant_message=""))

    await append("first")
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, unlimited[1]))
    kept = 1
    try:
        for i in range(1_000):
            await append(f"{i} " + "x" * 5_000)
            kept += 1
    except StoreConnectionError as error:
        print(kept, error, flush=True)
    print(await store.turn_count("a", "s"))
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    await append("last")
    print((await store.get_recent_turns("a", "s"))[-1].user_message)
    await store.close()

asyncio.run(main())
""",
        path,
    )
    told, kept, last = printed.splitlines()
    assert "Nothing was written" in told
    assert str(path) in told
    assert int(kept) == min(50, int(told.split()[0]))
    assert last == "last"
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


WRITE_ONE = """
async def main():
    if os.geteuid() == 0:  # modes mean nothing to root: become nobody
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        await SQLiteStore(path).append_turn("a", "s", Turn(session_id="s", user_message="x", assistant_message=""))
    except StoreConnectionError as error:
        print(error)

asyncio.run(main())
"""


@LINUX
def test_a_folder_that_may_not_be_written_is_explained(public_folder: Path) -> None:
    public_folder.chmod(0o555)
    path = public_folder / "memory.db"
    printed = run(WRITE_ONE, path)
    assert "ACTRONE_SQLITE_PATH" in printed
    assert str(path) in printed
    public_folder.chmod(0o755)


@LINUX
async def test_a_file_that_may_not_be_written_is_explained(public_folder: Path) -> None:
    path = public_folder / "memory.db"
    await fill(path)
    path.chmod(0o444)
    before = beside(path)
    public_folder.chmod(0o777)
    printed = run(WRITE_ONE, path)
    assert "may be written" in printed
    assert str(path) in printed
    assert beside(path)["memory.db"] == before["memory.db"]


async def test_damage_met_later_is_explained(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(path, lambda content: content.__setitem__(slice(8192, len(content)), bytes(len(content) - 8192)))
    monkeypatch.setattr("actrone_memory.stores.sqlite.file.opening.LARGEST_CHECKED_BYTES", 0)
    store = SQLiteStore(path)
    with pytest.raises(StoreConnectionError, match="damaged"):
        await store.append_turn("a", "s", record("x"))
    await store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_fork_opens_the_file_anew_on_both_sides(path: Path) -> None:
    printed = run(
        """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of every fork beside threads

async def add(store, text):
    await store.append_turn("a", "s", Turn(session_id="s", user_message=text, assistant_message=""))
    return await store.turn_count("a", "s")

store = SQLiteStore(path)
asyncio.run(add(store, "before"))
child = os.fork()
if child == 0:
    asyncio.run(add(store, "child"))
    os._exit(0)
asyncio.run(add(store, "parent"))
assert os.waitpid(child, 0)[1] == 0
print(asyncio.run(add(store, "after")))
asyncio.run(store.close())
""",
        path,
    )
    assert printed == "4\n"
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
