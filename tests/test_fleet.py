"""The whole backend ``redis_qdrant``: a real Redis, Qdrant's engine over HTTP, managers and the command line."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")
pytest.importorskip("redis", reason="the extra redis is not installed")
pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")

import qdrant_server
import redis_servers

from actrone_memory import SyncMemoryManager
from actrone_memory.cli import main

Cli = Callable[..., str]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The settings of a fleet, in the environment."""
    with redis_servers.running("redis", tmp_path) as redis, qdrant_server.running() as qdrant:
        settings = {"BACKEND": "redis_qdrant", "REDIS_URL": redis.url, "QDRANT_URL": qdrant.url}
        for name, value in {**settings, "EMBEDDING_PROVIDER": "static"}.items():
            monkeypatch.setenv(f"ACTRONE_{name}", value)
        yield


@pytest.fixture
def cli(fleet: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command that succeeds, and returns what it prints."""

    def run(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["actrone-memory", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        try:
            main()
            ended = 0
        except SystemExit as end:
            ended = int(end.code or 0)
        told = capsys.readouterr()
        assert ended == code, told
        return told.out + told.err

    return run


def test_the_command_line_works_on_it(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, export = tmp_path / "AGENTS.md", str(tmp_path / "web.jsonl")
    rules.write_text("# Testing\n- Unit tests run with Vitest.\n- Mocks are rare.\n", "utf-8")
    assert "2 rules learnt" in cli("learn", "repo:web", str(rules))
    with SyncMemoryManager.create() as memory:
        memory.store_turn("repo:api", "s", "where is the key?", "In the drawer.")
    assert cli("scopes").split() == ["repo:api", "repo:web"]
    assert cli("list", "repo:web").count("\n") >= 2
    assert "Vitest" in cli("recall", "repo:web", "write a unit test")
    assert "QdrantStore" in cli("doctor")
    cli("export", "repo:web", export)
    cli("import", export, "--as", "repo:copy")
    assert cli("scopes").split() == ["repo:api", "repo:copy", "repo:web"]

    monkeypatch.setenv("ACTRONE_EMBEDDING_PROVIDER", "hashing")
    assert "reindex" in cli("doctor", code=1)
    assert "reindex" in cli("recall", "repo:web", "write a unit test", code=1)
    assert "5 memories" in cli("reindex")
    assert "Vitest" in cli("recall", "repo:copy", "write a unit test")
    assert "QdrantStore" in cli("doctor")

    assert "Erased" in cli("erase", "repo:web", "--yes")
    assert cli("scopes").split() == ["repo:api", "repo:copy"]
