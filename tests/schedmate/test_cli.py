"""What holds for every command alike."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schedmate import cli

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    *("demo", "simulate", "analyze", "predict", "diagnose", "progress", "batch", "serve", "history", "config"),
    "version",
    "workload",
    "compare",
    "sweep",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_useful(schedmate, command: str) -> None:
    words = {"batch": ["batch", "diagnose"], "history": ["history", "import"], "config": ["config", "show"]}
    words["workload"] = ["workload", "generate"]
    done = schedmate(*words.get(command, [command]), "--help")
    assert done.returncode == 0
    assert f"schedmate {command}" in done.stdout.replace("\n", " ")
    assert "Example:" in done.stdout
    assert "--json" in done.stdout


def test_usage_errors_are_one_line(schedmate) -> None:
    for words in (["nonsense"], ["simulate"], ["diagnose", "x", "--nope"], ["simulate", "x", "--nodes", "many"]):
        done = schedmate(*words)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert "--help" in done.stderr


@pytest.mark.parametrize(
    "words", [["predict", ".", "--command", "x", "--set", "a=b"], ["signatures", "list", "--config", "f"]]
)
def test_an_option_of_all_commands_is_told_to_go_first(schedmate, words: list[str]) -> None:
    done = schedmate(*words)
    assert done.returncode == 2
    assert f"{words[-2]} goes before the command: `schedmate {words[-2]} ... {words[0]}" in done.stderr


def test_debug_shows_the_traceback(schedmate) -> None:
    assert "Traceback" in schedmate("diagnose", "/nonexistent", "--debug").stderr
    assert "Traceback" not in schedmate("diagnose", "/nonexistent").stderr


def test_version_is_the_installed_one(schedmate) -> None:
    from importlib.metadata import version

    assert json.loads(schedmate("version", "--json").stdout) == {"version": version("schedmate")}


def test_a_closed_pipe_is_no_error(schedmate) -> None:
    launcher = Path(sys.executable).parent / "schedmate"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {launcher} config show | head -1"], capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr and "Error" not in done.stderr


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    """The command line itself loads none of the large libraries; each command imports what it uses."""
    code = (
        "import sys, schedmate.cli; schedmate.cli.command_line(); print([m for m in sys.argv[1:] if m in sys.modules])"
    )
    heavy = ["numpy", "pandas", "sklearn", "fastapi", "langchain", "openai", "matplotlib", "sqlalchemy", "hyperscan"]
    done = subprocess.run([sys.executable, "-I", "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words, asked",
    [
        (["diagnose", "trace"], "diagnose"), (["--set", "a=b", "--config", "trace", "trace"], "trace"),
        (["--set=a=b", "llm", "eval"], "llm"), (["--help", "diagnose"], ""), (["--config"], ""), ([], ""),
        (["nonsense"], "nonsense"), (["-h"], ""),
    ],
)  # fmt: skip
def test_the_command_that_is_asked_for(words: list[str], asked: str) -> None:
    assert cli._asked(words) == asked


def test_a_command_loads_no_other_one() -> None:
    code = "import sys; from schedmate.cli import run\ntry: run(['version'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("schedmate.commands.")}
    assert loaded == {"schedmate.commands.version"}


def test_each_command_is_in_the_help(schedmate) -> None:
    shown = schedmate("--help").stdout
    assert not [name for name in cli.COMMANDS if name not in shown]


@pytest.mark.parametrize("schema", sorted((ROOT / "schedmate" / "schemas").glob("*.json")), ids=lambda path: path.name)
def test_every_schema_is_valid(schema: Path) -> None:
    import jsonschema

    content = json.loads(schema.read_text(encoding="utf-8"))
    assert content["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(content)


def test_errors_steer_no_terminal(schedmate) -> None:
    for words in (["diagnose", "\x1b[31mx\x9b1m"], ["--set", "service.host=\x1b]0;x\x07", "serve"], ["\x1b[2J"]):
        done = schedmate(*words)
        assert done.returncode == 2
        assert done.stderr.rstrip("\n").isprintable(), done.stderr


def test_closed_streams_do_not_end_up_in_files(schedmate, tmp_path: Path) -> None:
    trace, log = tmp_path / "t.csv", tmp_path / "x.log"
    trace.write_text("job_id,submit_time,duration,gpus\n1,0,5,1\n")
    log.write_text("Killed\n")
    launcher = Path(sys.executable).parent / "schedmate"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SCHEDMATE_DATA_DIR": str(tmp_path / "data")}
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        for command, code in ((f"history import {trace}", 0), (f"diagnose {log}", 1), ("history list --json", 0)):
            done = subprocess.run(
                ["sh", "-c", f"{launcher} {command} {closed}"], env=environment, capture_output=True, text=True
            )
            assert done.returncode == code, (closed, command, done.stderr)
            assert done.stderr == ""
    stored = (tmp_path / "data" / "history.jsonl").read_text().splitlines()
    assert len(stored) == 4 and all(json.loads(line)["job_id"] == "1" for line in stored)


def test_output_that_can_not_be_written_is_one_line(schedmate, tmp_path: Path) -> None:
    launcher = Path(sys.executable).parent / "schedmate"
    for words in (["version"], ["version", "--json"], ["config", "show"], ["--help"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run([launcher, *words], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1 and "No space left" in done.stderr, done.stderr


PLUGINS = """[schedmate.cli]
missing = no_such_module_here:app
mine = mine:app
version = mine:app
no_typer = json:dumps
ends = ends:app
"""


def test_a_plugin_that_can_not_be_used_takes_no_other_command_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "mine-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(PLUGINS)
    (tmp_path / "mine.py").write_text("import typer\napp = typer.Typer()\n@app.command()\ndef hi(): print('hello')\n")
    (tmp_path / "ends.py").write_text("raise RuntimeError('two\\nlines')\n")
    code = f"import sys; sys.path[:0] = {[str(ROOT), str(tmp_path)]}; from schedmate.cli import run; run(sys.argv[1:])"
    for words, status, shown in ((["--help"], 0, "diagnose"), (["mine", "hi"], 0, "hello"), (["missing"], 2, "")):
        done = subprocess.run([sys.executable, "-I", "-c", code, *words], capture_output=True, text=True)
        assert done.returncode == status and shown in done.stdout, done.stderr
        told = done.stderr.splitlines()
        left_out = ("missing", "version", "no_typer", "ends")
        assert [name for name in left_out if any(f"command {name!r} is left out" in line for line in told)] == [
            *left_out
        ]
        assert len(told) == len(left_out) + (status == 2)
    done = subprocess.run([sys.executable, "-I", "-c", code, "version"], capture_output=True, text=True)
    assert "schedmate" in done.stdout and not done.stderr


def test_an_interruption_while_commands_load_is_one_line() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import schedmate.cli as cli\n"
        "def stopped(name): raise KeyboardInterrupt\n"
        "cli.import_module = stopped\n"
        "cli.run(['version'])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 130 and done.stderr == "schedmate: interrupted\n"
