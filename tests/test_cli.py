"""Every command of the command line: what it prints, what it stores, how it ends."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("typer", reason="the extra cli is not installed")

from actrone_memory import MemoryConfig, SQLiteStore, SyncMemoryManager, ToolResult, __version__
from actrone_memory.cli import main

RULES = "# Web\n\n## Testing\n- Unit tests run with Vitest.\n- Mocks are rare.\n\n## Style\n- Dates use date-fns.\n"


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Cli = Callable[..., Done]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the memory."""
    path = tmp_path / "store" / "memory.db"
    monkeypatch.setenv("ACTRONE_SQLITE_PATH", str(path))
    return path


@pytest.fixture
def cli(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process, as `actrone-memory` would."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "argv", ["actrone-memory", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A rules file with three rules."""
    return written(tmp_path / "AGENTS.md", RULES)


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def listed(cli: Cli, scope: str = "s", *options: str) -> list[dict[str, Any]]:
    done = cli("list", scope, "--json", *options)
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def contents(cli: Cli, scope: str = "s") -> list[str]:
    return sorted(memory["content"] for memory in listed(cli, scope))


# --- help, usage and exit codes ---------------------------------------------------------------------------------------

COMMANDS = "learn recall list show forget erase scopes sessions export import reindex doctor".split()


def test_help_lists_every_command_and_version_tells_it(cli: Cli) -> None:
    done = cli("--help")
    assert (done.code, done.err) == (0, "")
    assert all(f"\n  {command} " in done.out for command in COMMANDS)
    assert cli("--version").out == f"actrone-memory {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli: Cli, command: str) -> None:
    done = cli(command, "--help")
    assert done.code == 0
    assert f"actrone-memory {command}" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["lern", "s", "x.md"],
        ["learn"],
        ["learn", "s"],
        ["recall", "s"],
        ["list", "s", "--jsn"],
        ["recall", "s", "x", "--budget", "0"],
        ["recall", "s", "x", "--budget", "many"],
        ["forget", "s"],
        ["import"],
    ],
)
def test_what_is_not_understood_ends_with_2_and_writes_nothing(cli: Cli, path: Path, arguments: list[str]) -> None:
    done = cli(*arguments)
    assert done.code == 2
    assert "Usage: actrone-memory" in done.out + done.err
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", " "], "SCOPE: must not be blank"),
        (["recall", "s", " "], "TASK: must not be blank"),
        (["learn", "s", "missing.md"], "missing.md cannot be read: No such file"),
        (["learn", "s", "."], ". cannot be read: Is a directory"),
        (["show", "s", "abc"], "'abc' is no memory of 's'"),
        (["forget", "s", "abc"], "'abc' is no memory of 's'"),
        (["import", "missing.jsonl"], "missing.jsonl cannot be read: No such file"),
        (["export", "s", "missing/out.jsonl"], "missing/out.jsonl cannot be written: No such file"),
    ],
)
def test_what_cannot_be_done_ends_with_1_and_one_line_that_says_why(
    cli: Cli, arguments: list[str], message: str
) -> None:
    done = cli(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("actrone-memory: ")
    assert message in done.err
    assert done.err.count("\n") == 1


# --- learn ------------------------------------------------------------------------------------------------------------


def test_learn_stores_each_rule_with_its_headings(cli: Cli, rules: Path) -> None:
    assert cli("learn", "s", rules) == Done(0, f"{rules}: 3 rules learnt.\n", "")
    found = {memory["content"]: memory for memory in listed(cli)}
    assert found["Mocks are rare."]["topic_tags"] == ["testing"]
    assert found["Dates use date-fns."]["topic_tags"] == ["style"]
    assert {memory["source"] for memory in found.values()} == {f"file:{rules}"}


def test_learning_again_changes_nothing(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    before = listed(cli)
    assert cli("learn", "s", rules).out == f"{rules}: nothing new, 3 unchanged.\n"
    assert listed(cli) == before


def test_learning_an_edited_file_changes_only_what_was_edited(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    before = {memory["content"]: memory for memory in listed(cli)}
    written(rules, RULES.replace("- Mocks are rare.\n", "- Fixtures live in fixtures/.\n"))
    assert cli("learn", "s", rules).out == f"{rules}: 1 rule learnt, 1 forgotten, 2 unchanged.\n"
    after = {memory["content"]: memory for memory in listed(cli)}
    assert after.keys() == before.keys() - {"Mocks are rare."} | {"Fixtures live in fixtures/."}
    assert all(after[text] == before[text] for text in before.keys() & after.keys())


def test_a_rule_in_other_letters_is_learnt_once_in_the_new_ones(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    written(rules, RULES.replace("date-fns", "Date-FNS"))
    assert cli("learn", "s", rules).out == f"{rules}: 1 rule learnt, 2 unchanged.\n"
    assert "Dates use Date-FNS." in contents(cli)
    assert len(contents(cli)) == 3
    assert "nothing new" in cli("learn", "s", rules).out


def test_a_rule_twice_in_other_letters_is_one(cli: Cli, tmp_path: Path) -> None:
    twice = written(tmp_path / "twice.md", "- Use tabs.\n- use  TABS.\n")
    assert cli("learn", "s", twice).out == f"{twice}: 1 rule learnt.\n"
    assert "nothing new, 1 unchanged" in cli("learn", "s", twice).out


def test_a_rule_under_another_heading_gets_its_tag(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    written(rules, RULES.replace("## Style", "## Dates"))
    assert "1 rule learnt, 2 unchanged" in cli("learn", "s", rules).out
    assert "date-fns" in cli("recall", "s", "format a date", "--tag", "dates").out
    assert "nothing new" in cli("learn", "s", rules).out


def test_a_file_that_was_emptied_takes_its_rules_along(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    written(rules, "# Web\n")
    assert cli("learn", "s", rules).out == f"{rules}: no rules in it, 3 forgotten.\n"
    assert contents(cli) == []


@pytest.mark.parametrize("order", [["A.md", "B.md"], ["B.md", "A.md"]])
@pytest.mark.parametrize("together", [True, False])
def test_a_rule_of_two_files_stays_until_both_have_lost_it(
    cli: Cli, tmp_path: Path, order: list[str], together: bool
) -> None:
    first, second = (written(tmp_path / name, "- Use tabs.\n") for name in ["A.md", "B.md"])

    def learn(*files: Path) -> None:
        for some in [files] if together else [[file] for file in files]:
            assert cli("learn", "s", *some).code == 0

    learn(first, second)
    assert [memory["source"] for memory in listed(cli)] == [f"file:{first}\nfile:{second}"]
    learn(first, second)
    assert len(contents(cli)) == 1
    written(first, "")
    learn(*(tmp_path / name for name in order))
    assert [memory["source"] for memory in listed(cli)] == [f"file:{second}"]
    written(second, "")
    learn(*(tmp_path / name for name in order))
    assert contents(cli) == []


def test_a_file_that_is_gone_holds_no_rule_that_its_new_place_has_lost(cli: Cli, tmp_path: Path, rules: Path) -> None:
    cli("learn", "s", rules)
    moved = rules.rename(tmp_path / "CLAUDE.md")
    cli("learn", "s", moved)
    written(moved, RULES.replace("- Mocks are rare.\n", ""))
    assert "1 forgotten" in cli("learn", "s", moved).out
    assert "Mocks are rare." not in contents(cli)


def test_many_long_names_of_files_fit_into_a_source(cli: Cli, tmp_path: Path) -> None:
    files = [written(tmp_path / f"{'long' * 40}-{i}.md", "- Use tabs.\n") for i in range(5)]
    cli("learn", "s", *files)
    assert "nothing new" in cli("learn", "s", *files).out
    for file in files[:-1]:
        written(file, "")
    cli("learn", "s", *files[:-1])
    assert contents(cli) == ["Use tabs."]
    written(files[-1], "")
    cli("learn", "s", files[-1])
    assert contents(cli) == []


def test_what_someone_else_has_stored_is_not_the_files_to_delete(cli: Cli, path: Path, rules: Path) -> None:
    with SyncMemoryManager.create(l1=(store := SQLiteStore(path)), l2=store) as memory:
        memory.inject_memory("s", "Mocks are rare.", topic_tags=["testing"])
        memory.inject_memory("s", "Ask Ada.")
    cli("learn", "s", rules)
    written(rules, "")
    cli("learn", "s", rules)
    assert contents(cli) == ["Ask Ada.", "Mocks are rare."]


def test_a_rule_that_was_replaced_since_is_not_revived(cli: Cli, path: Path, tmp_path: Path) -> None:
    files = [written(tmp_path / name, "- Unit tests run with Jest.\n") for name in ["A.md", "B.md"]]
    cli("learn", "s", files[0])
    with SyncMemoryManager.create(l1=(store := SQLiteStore(path)), l2=store) as memory:
        memory.inject_memory("s", "We moved from Jest to Vitest.")
    assert contents(cli) == ["We moved from Jest to Vitest."]
    cli("learn", "s", *files)
    assert contents(cli) == ["We moved from Jest to Vitest."]
    shown = cli("list", "s", "--all").out
    assert "Unit tests run with Jest.  (replaced by " in shown


def test_the_standard_input_is_read_and_deletes_nothing(cli: Cli) -> None:
    assert cli("learn", "s", "-", stdin=RULES.encode()).out == "-: 3 rules learnt.\n"
    assert cli("learn", "s", "-", stdin=b"- Use tabs.\n").out == "-: 1 rule learnt.\n"
    assert len(contents(cli)) == 4


def test_line_ends_and_a_byte_order_mark_make_no_difference(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    rules.write_bytes(b"\xef\xbb\xbf" + RULES.replace("\n", "\r\n").encode())
    assert "nothing new, 3 unchanged" in cli("learn", "s", rules).out


def test_a_file_that_is_no_text_is_refused_and_no_other_is_learnt(cli: Cli, tmp_path: Path, rules: Path) -> None:
    latin = tmp_path / "latin.md"
    latin.write_bytes("- Prüfungen".encode("latin-1"))
    done = cli("learn", "s", rules, latin)
    assert (done.code, done.out) == (1, "")
    assert "latin.md is no UTF-8 text (byte 4); save it as UTF-8" in done.err
    assert contents(cli) == []


def test_scopes_are_apart(cli: Cli, tmp_path: Path, rules: Path) -> None:
    cli("learn", "a::b", rules)
    cli("learn", "a", written(tmp_path / "b.md", "- Use tabs.\n"))
    assert contents(cli, "a") == ["Use tabs."]
    assert cli("scopes").out == "a\na::b\n"
    assert json.loads(cli("scopes", "--json").out) == ["a", "a::b"]


# --- recall, list, show -----------------------------------------------------------------------------------------------


def test_recall_shows_what_matters_for_the_task_and_what_it_costs(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    done = cli("recall", "s", "add a unit test")
    assert done.out.startswith("- Unit tests run with Vitest.  [testing]\n")
    assert "date-fns" not in done.out
    assert done.out.endswith(" of 800 tokens.\n")
    assert cli("recall", "s", "zzz").out == "Nothing here matches. 0 of 800 tokens.\n"


def test_recall_keeps_to_the_budget_and_says_what_did_not_fit(cli: Cli, tmp_path: Path) -> None:
    many = "".join(f"- Unit test number {i} covers module {i}.\n" for i in range(40))
    cli("learn", "s", written(tmp_path / "many.md", many))
    found = json.loads(cli("recall", "s", "unit test", "--budget", "400", "--json").out)
    assert 0 < found["tokens"] <= 400
    assert found["dropped"]["memories"] > 0
    assert "more did not fit" in cli("recall", "s", "unit test", "--budget", "400").out


def test_recall_with_tags_lets_only_those_through(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    assert "Nothing here matches" in cli("recall", "s", "add a unit test", "--tag", "style").out
    both = cli("recall", "s", "tests and dates", "--tag", "style", "--tag", "testing").out
    assert "Vitest" in both
    assert "date-fns" in both


def test_why_shows_the_parts_of_a_score_and_the_file_by_its_name(
    cli: Cli, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("learn", "s", rules)
    monkeypatch.chdir(rules.parent)
    here = cli("recall", "s", "add a unit test", "--why").out.splitlines()[1]
    monkeypatch.chdir("/")
    elsewhere = cli("recall", "s", "add a unit test", "--why").out.splitlines()[1]
    assert here.startswith("    score 0.99 (words ")
    assert "; injected, AGENTS.md, " in here
    assert f"; injected, file:{rules}, " in elsewhere


def test_recall_as_json_is_all_there_is_on_stdout(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    done = cli("recall", "s", "add a unit test", "--json")
    found = json.loads(done.out)
    assert done.err == ""
    assert found["token_budget"] == 800
    assert found["memories"][0]["content"] == "Unit tests run with Vitest."
    assert found["memories"][0]["score_parts"].keys() >= {"words", "meaning"}
    assert "embedding" not in found["memories"][0]


def test_past_turns_are_recalled_too(cli: Cli, path: Path) -> None:
    with SyncMemoryManager.create(l1=(store := SQLiteStore(path)), l2=store) as memory:
        memory.store_turn("s", "monday", "Where do fixtures live?", "In fixtures/.")
    assert "fixtures" in cli("recall", "s", "where are the fixtures").out
    (session,) = json.loads(cli("sessions", "s", "--json").out)
    assert (session["session_id"], session["turn_count"]) == ("monday", 1)
    assert cli("sessions", "s").out.endswith("     1 turn  monday\n")


def test_empty_scopes_are_said_to_be_empty(cli: Cli) -> None:
    assert cli("list", "s").out == "No memories.\n"
    assert cli("sessions", "s").out == "No sessions.\n"
    assert cli("scopes").out == "Nothing is stored yet.\n"
    assert [json.loads(cli(*command, "--json").out) for command in (["list", "s"], ["sessions", "s"], ["scopes"])] == [
        [],
        [],
        [],
    ]


def test_show_tells_all_of_one_memory(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    memory = next(one for one in listed(cli) if one["content"] == "Mocks are rare.")
    done = cli("show", "s", memory["id"][:8])
    assert done.out.startswith(f"Mocks are rare.\n\nid: {memory['id']}\n")
    assert "topic_tags: testing\n" in done.out
    assert json.loads(cli("show", "s", memory["id"], "--json").out) == memory


# --- forget, erase ----------------------------------------------------------------------------------------------------


def ambiguous_prefix(ids: list[str]) -> str:
    return next(id_[0] for id_ in ids if sum(other[0] == id_[0] for other in ids) > 1)


def test_ids_may_be_shortened_while_they_name_one_memory(cli: Cli, tmp_path: Path) -> None:
    cli("learn", "s", written(tmp_path / "x.md", "".join(f"- Rule number {i}.\n" for i in range(20))))
    ids = [memory["id"] for memory in listed(cli)]
    done = cli("forget", "s", ambiguous_prefix(ids))
    assert done.code == 1
    assert "give more of it" in done.err
    assert len(listed(cli)) == 20
    done = cli("forget", "s", ids[0][:13], ids[1])
    assert done.out.count("Forgotten: ") == 2
    assert {memory["id"] for memory in listed(cli)} == set(ids[2:])


def test_with_one_unknown_id_nothing_is_forgotten(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    (first, *_) = listed(cli)
    assert cli("forget", "s", first["id"], "unknown").code == 1
    assert len(listed(cli)) == 3


def test_a_memory_named_twice_is_forgotten_once(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    (first, *_) = listed(cli)
    done = cli("forget", "s", first["id"], first["id"][:8])
    assert (done.code, done.out.count("Forgotten")) == (0, 1)


def test_ids_of_another_scope_are_unknown(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    (first, *_) = listed(cli)
    assert cli("forget", "other", first["id"]).code == 1
    assert len(listed(cli)) == 3


def test_erase_asks_before_it_deletes(cli: Cli, path: Path, rules: Path) -> None:
    cli("learn", "s", rules)
    cli("learn", "kept", rules)
    with SyncMemoryManager.create(l1=(store := SQLiteStore(path)), l2=store) as memory:
        memory.store_turn("s", "monday", "Where do fixtures live?", "In fixtures/.")
    refused = cli("erase", "s", stdin=b"n\n")
    assert (refused.code, refused.out) == (1, "")
    assert "Delete 3 memories, 1 session, 1 archived turn of 's' for ever?" in refused.err
    nobody = cli("erase", "s")
    assert nobody.code == 1
    assert "give --yes" in nobody.err
    assert len(listed(cli)) == 3
    assert cli("erase", "s", stdin=b"y\n").out == "Erased 3 memories, 1 session, 1 archived turn of 's'.\n"
    assert cli("scopes").out == "kept\n"
    assert b"date-fns" in path.read_bytes()
    assert cli("erase", "kept", "--yes").code == 0
    assert b"date-fns" not in path.read_bytes()


def test_erasing_what_is_not_there_asks_nothing(cli: Cli) -> None:
    assert cli("erase", "s") == Done(0, "Nothing is stored under 's'.\n", "")


# --- export, import, reindex ------------------------------------------------------------------------------------------


def test_an_export_comes_back_exactly(cli: Cli, path: Path, tmp_path: Path, rules: Path) -> None:
    cli("learn", "s", rules)
    with SyncMemoryManager.create(l1=(store := SQLiteStore(path)), l2=store) as memory:
        grep = ToolResult(tool_name="grep", params={"q": "TODO"}, result=["a.py"], success=True)
        memory.store_turn("s", "monday", "Find the TODOs", "One.", [grep])
    file = tmp_path / "s.jsonl"
    assert cli("export", "s", file) == Done(0, "", "")
    exported = file.read_bytes()
    assert cli("export", "s").out.encode() == exported
    before = listed(cli)
    cli("erase", "s", "--yes")
    assert cli("import", file).out == "Imported 4 memories and 1 session.\n"
    assert listed(cli) == before
    assert cli("export", "s").out.encode() == exported
    assert cli("import", "-", "--as", "t", stdin=exported).code == 0
    assert contents(cli, "t") == contents(cli, "s")


def test_an_export_is_readable_by_its_owner_alone_and_replaces_the_one_before(
    cli: Cli, tmp_path: Path, rules: Path
) -> None:
    cli("learn", "s", rules)
    file = written(tmp_path / "s.jsonl", "old")
    file.chmod(0o644)
    cli("export", "s", file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().startswith('{"kind":"agent"')
    assert [one.name for one in tmp_path.glob("*.jsonl*")] == ["s.jsonl"]


def test_wrong_lines_are_named_by_number_and_nothing_is_imported(cli: Cli, rules: Path) -> None:
    cli("learn", "s", rules)
    lines = cli("export", "s").out.splitlines()
    lines[2] = "garbage"
    lines[3] = lines[3].replace('"kind":"memory"', '"kind":"mystery"')
    done = cli("import", "-", "--as", "t", stdin="\n".join(lines).encode())
    assert (done.code, done.out) == (1, "")
    assert "line 3" in done.err
    assert "line 4" in done.err
    assert contents(cli, "t") == []
    for text in (b"", b"\xff\xfe", "\n".join(lines[:2]).encode()):
        assert cli("import", "-", stdin=text).code == 1


def test_another_embedder_is_refused_until_everything_is_embedded_anew(
    cli: Cli, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("learn", "s", rules)
    monkeypatch.setenv("ACTRONE_EMBEDDING_PROVIDER", "hashing")
    refused = cli("recall", "s", "add a unit test")
    assert refused.code == 1
    assert "'actrone-memory reindex'" in refused.err
    sick = cli("doctor")
    assert sick.code == 1
    assert "!! vectors" in sick.out
    assert "'actrone-memory reindex'" in sick.out
    assert cli("reindex").out == "Embedded 3 memories anew.\n"
    assert "Vitest" in cli("recall", "s", "add a unit test").out
    assert cli("doctor").code == 0


# --- doctor and settings ----------------------------------------------------------------------------------------------


def findings(done: Done) -> dict[str, tuple[bool, str]]:
    return {finding["subject"]: (finding["ok"], finding["text"]) for finding in json.loads(done.out)}


def test_a_doctor_who_finds_nothing_says_what_was_looked_at(cli: Cli, path: Path, rules: Path) -> None:
    cli("learn", "s", rules)
    done = cli("doctor", "--json")
    assert done.code == 0
    found = findings(done)
    assert found["store"] == (True, f"SQLiteStore, {path}, scopes: 1")
    assert found["embedder"][1].startswith("static-v")
    assert f"actrone-memory {__version__}" in found["versions"][1]
    assert "ok store     SQLiteStore" in cli("doctor").out


@pytest.mark.parametrize(
    ("variable", "value", "subject", "advice"),
    [
        ("ACTRONE_MAX_SESSION_TURNS", "0", "settings", "max_session_turns"),
        ("ACTRONE_BACKEND", "mysql", "settings", "backend"),
        ("ACTRONE_EMBEDDING_PROVIDER", "openai", "embedder", "ACTRONE_OPENAI_API_KEY"),
        ("ACTRONE_LOCAL_MODEL", "/nowhere", "embedder", "name a folder that exists"),
        ("ACTRONE_SQLITE_PATH", "/", "store", "Name a file"),
    ],
)
def test_a_doctor_names_what_is_wrong_and_what_to_do(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, subject: str, advice: str
) -> None:
    monkeypatch.setenv(variable, value)
    done = cli("doctor", "--json")
    assert done.code == 1
    found = findings(done)
    assert [name for name, (ok, _) in found.items() if not ok] == [subject]
    assert advice in found[subject][1]


def test_a_doctor_tries_the_reranker_that_the_settings_ask_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "reranker" not in findings(cli("doctor", "--json"))
    monkeypatch.setenv("ACTRONE_RERANK_ENABLED", "true")
    monkeypatch.setenv("ACTRONE_RERANK_MODEL", "/nowhere")
    done = cli("doctor", "--json")
    ok, text = findings(done)["reranker"]
    assert (done.code, ok) == (1, False)
    assert "rerank_model='/nowhere'" in text
    assert [name for name, (ok, _) in findings(done).items() if not ok] == ["reranker"]


def test_a_foreign_file_is_refused_and_left_alone(cli: Cli, path: Path, rules: Path) -> None:
    path.parent.mkdir()
    written(path, "not a database, " * 100)
    assert findings(cli("doctor", "--json"))["store"][0] is False
    for arguments in (["learn", "s", rules], ["list", "s"], ["erase", "s", "--yes"], ["reindex"], ["export", "s"]):
        done = cli(*arguments)
        assert (done.code, done.out) == (1, "")
        assert "no SQLite database" in done.err
    assert path.read_text() == "not a database, " * 100


def test_db_names_another_file(cli: Cli, path: Path, tmp_path: Path, rules: Path) -> None:
    cli("--db", tmp_path / "other.db", "learn", "s", rules)
    assert not path.exists()
    assert "Vitest" in cli("--db", tmp_path / "other.db", "list", "s").out


def test_a_misspelt_variable_is_said_once_and_not_on_stdout(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ACTRONE_SQLITE_PAHT", "x")
    assert json.loads(cli("scopes", "--json").out) == []
    assert [record.message for record in caplog.records] == [
        "ACTRONE_SQLITE_PAHT is no setting of actrone-memory and is ignored. Did you mean 'sqlite_path'?"
    ]


# --- what others may have stored --------------------------------------------------------------------------------------

HOSTILE = "Red \x1b[31malert\x1b[0m\x07 \x9b2J \u202eevil \x1b]0;title\x07\rover"


def test_control_characters_never_reach_the_terminal(cli: Cli, path: Path) -> None:
    with SyncMemoryManager.create(l1=(store := SQLiteStore(path)), l2=store) as memory:
        memory.inject_memory("s", HOSTILE, topic_tags=[HOSTILE], source=HOSTILE)
        memory.inject_memory("s\x1b[2J", "x")
        memory.store_turn("s", "s\x1b[2J", HOSTILE, HOSTILE)
    (memory_id,) = (one["id"] for one in listed(cli))
    commands = [
        ["list", "s"],
        ["recall", "s", "red alert", "--why"],
        ["show", "s", memory_id],
        ["sessions", "s"],
        ["scopes"],
        ["list", "s", "--json"],
        ["recall", "s", "red alert", "--json"],
        ["export", "s"],
        ["forget", "s", memory_id],
        ["show", "s", "\x1b[31m"],
        ["erase", "s\x1b[2J"],
        ["erase", "s\x1b[2J", "--yes"],
        ["erase", "s\x1b[2J", "--yes"],
        ["learn", "s", "\x1b[31m.md"],
        ["\x1b[31m"],
    ]
    for command in commands:
        done = cli(*command)
        printed = done.out + done.err
        assert printed
        assert not {character for character in printed if ord(character) < 32} - {"\n"}, command
        assert not set(printed) & {"\x7f", "\x9b", "\u202e"}, command


def test_learning_where_reads_are_masked_stores_no_mask(
    cli: Cli, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (written(tmp_path / name, "- Call Ms Zyx on 555-0199.\n") for name in ("A.md", "B.md"))
    cli("learn", "s", first)
    with SyncMemoryManager.create(MemoryConfig(backend="sqlite", sqlite_path=path)) as memory:
        (entry,) = memory.list_memories("s")
        memory.inject_memory("s", entry.content, topic_tags=entry.topic_tags, source=entry.source, sensitivity="pii")
    monkeypatch.setenv("ACTRONE_REDACT_SENSITIVITY", "pii")
    assert cli("learn", "s", second).code == 0
    assert [entry["content"] for entry in listed(cli)] == ["[redacted: pii]"]
    recalled = cli("recall", "s", "call Ms Zyx", "--why").out
    assert "555" not in recalled
    assert "()" not in recalled
    monkeypatch.delenv("ACTRONE_REDACT_SENSITIVITY")
    assert [entry["content"] for entry in listed(cli)] == ["Call Ms Zyx on 555-0199."]
