"""The commands of ``actrone-memory``: each opens the memory, asks it one thing, and shows the answer."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from actrone_memory import ActroneMemoryError, MemoryConfig, MemoryEntry, SyncMemoryManager, ValidationError
from actrone_memory.cli import doctoring, learning, show, transfer
from actrone_memory.models import ContentType

app = typer.Typer(
    name="actrone-memory",
    help="Memory for AI agents. A SCOPE keeps what belongs together, for example one repository: repo:web.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

SESSION = "command-line"
"""The session in which the command line recalls; it never says anything in it."""

Scope = Annotated[str, typer.Argument(metavar="SCOPE", help="What belongs together: a repository, a user, a project.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class _Store:
    """Where the memory is, as the options of the command line say."""

    path: Path | None = None

    def config(self) -> MemoryConfig:
        """The settings of the environment, SQLite unless it names another backend.

        No ``.env`` is read: the folder this runs in may be anyone's, and could send what is learnt somewhere else.
        """
        settings: dict[str, Any] = {}
        if "ACTRONE_BACKEND" not in {name.upper() for name in os.environ}:
            settings["backend"] = "sqlite"
        if self.path is not None:
            settings |= {"backend": "sqlite", "sqlite_path": self.path}
        return MemoryConfig(_env_file=None, **settings)

    @contextmanager
    def open(self) -> Iterator[SyncMemoryManager]:
        with SyncMemoryManager.create(self.config()) as memory:
            yield memory


store = _Store()


def _version(wanted: bool) -> None:
    if wanted:
        from actrone_memory import __version__

        typer.echo(f"actrone-memory {__version__}")
        raise typer.Exit


@app.callback()
def options(
    db: Annotated[
        Path | None,
        typer.Option(
            "--db", metavar="FILE", help="The SQLite file.  [default: ACTRONE_SQLITE_PATH, or one for the user]"
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - the callback answers
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command."""
    store.path = db


@app.command()
def learn(
    scope: Scope,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="AGENTS.md, CLAUDE.md, .cursorrules; - for stdin.")
    ],
) -> None:
    """Learn the rules of files, one memory for each. Again, it changes what has changed in them."""
    read = [(path, learning.read_file(path, sys.stdin.buffer.read)) for path in files]
    with store.open() as memory:
        for path, rules in read:
            stored = memory.list_memories(scope, include_superseded=True, redact_sensitivity=[])
            changes = learning.compare(scope, learning.source_of(path), rules, stored)
            with show.progress(f"Learning {Path(path).name}") as progress:
                learning.apply(changes, scope, memory, progress)
            show.learnt(path, changes)


@app.command()
def recall(
    scope: Scope,
    task: Annotated[str, typer.Argument(metavar="TASK", help="What is to be done, in words.")],
    budget: Annotated[
        int, typer.Option(min=1, metavar="TOKENS", help="Tokens of the prompt; memories take their share of it.")
    ] = 800,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Only memories with this tag; may be repeated.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Show what each score is made of.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what matters for a task, inside a token budget."""
    with store.open() as memory:
        context = memory.retrieve_context(scope, SESSION, task, budget, tags=tag)
    show.context(context, why=why, json_wanted=as_json)


@app.command("list")
def list_(
    scope: Scope,
    everything: Annotated[bool, typer.Option("--all", help="Also what newer memories have replaced.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the memories of a scope, oldest first."""
    with store.open() as memory:
        entries = memory.list_memories(scope, include_superseded=everything)
    show.entries(entries, json_wanted=as_json)


@app.command("show")
def show_(
    scope: Scope,
    memory_id: Annotated[str, typer.Argument(metavar="MEMORY_ID", help="Its id, or the first characters of it.")],
    as_json: AsJson = False,
) -> None:
    """Show one memory with all that is known of it."""
    with store.open() as memory:
        entry = _find(memory, scope, memory_id)
    show.entry(entry, json_wanted=as_json)


@app.command()
def forget(
    scope: Scope,
    memory_ids: Annotated[list[str], typer.Argument(metavar="MEMORY_ID", help="Ids, or the first characters of them.")],
) -> None:
    """Delete memories for ever."""
    with store.open() as memory:
        found = {(entry := _find(memory, scope, memory_id)).id: entry for memory_id in memory_ids}
        for entry in found.values():
            memory.delete_memory(scope, entry.id)
            typer.echo(f"Forgotten: {show.line(entry)}")


@app.command()
def erase(scope: Scope, yes: Yes = False) -> None:
    """Delete all of a scope for ever: memories, sessions, archived turns."""
    with store.open() as memory:
        what = _everything(memory, scope)
        if not what:
            typer.echo(f"Nothing is stored under {show.printable(scope)!r}.")
        elif yes or _agreed(f"Delete {what} for ever?"):
            memory.erase_agent_memories(scope, all_sessions=True)
            typer.echo(f"Erased {what}.")
        else:
            typer.echo("Nothing was erased.", err=True)
            raise typer.Exit(1)


@app.command()
def scopes(as_json: AsJson = False) -> None:
    """List the scopes that hold anything."""
    with store.open() as memory:
        found = memory.list_agents()
    show.names(found, json_wanted=as_json)


@app.command()
def sessions(scope: Scope, as_json: AsJson = False) -> None:
    """List the sessions of a scope, the most recently active first."""
    with store.open() as memory:
        found = memory.list_sessions(scope)
    show.sessions(found, json_wanted=as_json)


@app.command()
def export(
    scope: Scope,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write; - for stdout.")] = transfer.STANDARD,
) -> None:
    """Write all of a scope as lines of JSON: memories with their history, sessions with their turns."""
    with store.open() as memory, transfer.writing(file) as write:
        for line in memory.export_agent(scope):
            write(show.escaped(line))


@app.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What 'export' wrote; - for stdin.")],
    scope: Annotated[
        str | None, typer.Option("--as", metavar="SCOPE", help="Import it as this scope.  [default: as it was]")
    ] = None,
) -> None:
    """Take in what 'export' wrote, all of it or nothing. What is there already stays."""
    with store.open() as memory, transfer.reading(file) as lines:
        imported = memory.import_agent(lines, scope)
    show.imported(imported)


@app.command()
def reindex() -> None:
    """Embed all memories anew, after a change of the embedder. Interrupted, it goes on where it was."""
    with show.progress("Embedding") as progress:
        embedded = SyncMemoryManager.reindex(store.config(), progress=progress)
    typer.echo(f"Embedded {show.count(embedded, 'memory')} anew.")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check settings, store, embedder and versions, and say what to fix."""
    findings = doctoring.examine(store.config)
    show.findings(findings, json_wanted=as_json)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _find(memory: SyncMemoryManager, scope: str, memory_id: str) -> MemoryEntry:
    """The memory whose id is or begins with ``memory_id``.

    Raises:
        ValidationError: there is none, or several begin so.
    """
    entries = memory.list_memories(scope, include_superseded=True)
    found = [entry for entry in entries if entry.id == memory_id] or [
        entry for entry in entries if entry.id.startswith(memory_id)
    ]
    if not found:
        raise ValidationError("MEMORY_ID", f"{memory_id!r} is no memory of {scope!r}; 'list' shows them")
    if len(found) > 1:
        raise ValidationError("MEMORY_ID", f"{memory_id!r} begins the ids of {len(found)} memories; give more of it")
    return found[0]


def _everything(memory: SyncMemoryManager, scope: str) -> str:
    """What is stored of a scope, in numbers; "" when nothing is."""
    found = memory.list_memories(scope, content_types=list(get_args(ContentType)), include_superseded=True)
    turns = sum(entry.content_type == "turn" for entry in found)
    numbers = {"memory": len(found) - turns, "session": len(memory.list_sessions(scope)), "archived turn": turns}
    counted = ", ".join(show.count(number, what) for what, number in numbers.items() if number)
    return f"{counted} of {scope!r}" if counted else ""


def _agreed(question: str) -> bool:
    """Whether whoever sits at the standard input says yes."""
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        typer.echo("\nNobody answers here: give --yes.", err=True)
    return answer.strip().casefold() in {"y", "yes"}


def run() -> None:
    """Run the command that was typed: exit code 0 when it is done, 1 when it cannot be, 2 when it is not understood."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")
    try:
        app(prog_name="actrone-memory")
    except ActroneMemoryError as error:
        typer.echo(f"actrone-memory: {show.problem(error.message)}", err=True)
        sys.exit(1)
