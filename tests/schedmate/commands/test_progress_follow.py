"""`schedmate progress --follow` from the outside."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from schedmate.cli import command_line

app = command_line()
_SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "schedmate/schemas/progress.schema.json").read_text())


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    steps = "".join(f"step {step}/900 loss {3 - step / 900:.4f}\n" for step in range(1, 50))
    (tmp_path / "good.log").write_text(steps)
    (tmp_path / "bad.log").write_text(steps + "".join(f"step {step}/900 loss nan\n" for step in range(50, 60)))
    return tmp_path


def test_json_lines_of_each_log_that_moved(logs: Path) -> None:
    found = CliRunner().invoke(app, ["progress", str(logs), "--follow", "--every", "0.2", "--for", "0.5", "--json"])
    assert found.exit_code == 1
    documents = [json.loads(line) for line in found.stdout.splitlines()]
    assert sorted(one["log"] for one in documents) == ["bad.log", "good.log"]
    for one in documents:
        jsonschema.validate(one, _SCHEMA)
    assert {one["log"]: one["anomaly"] for one in documents} == {"bad.log": "divergence", "good.log": None}


def test_a_table_with_the_troubled_first(logs: Path) -> None:
    found = CliRunner().invoke(app, ["progress", str(logs), "--follow", "--every", "0.2", "--for", "0"])
    rows = found.stdout.splitlines()
    assert rows[0].startswith("2 logs: 1 divergence, 1 running")
    assert [row.split()[0] for row in rows[2:4]] == ["bad.log", "good.log"]


def test_now_and_follow_exclude_each_other(logs: Path) -> None:
    found = CliRunner().invoke(app, ["progress", str(logs), "--follow", "--now", "now"])
    assert found.exit_code != 0


def test_a_log_may_come_from_a_pipe() -> None:
    text = "".join(f"step {step}/900 loss {3 - step / 900:.4f}\n" for step in range(1, 50))
    found = CliRunner().invoke(app, ["progress", "-", "--json"], input=text)
    document = json.loads(found.stdout)
    assert (document["current_step"], document["total_steps"]) == (49, 900)
    assert document["evidence"][0]["file"] == "stdin"
    assert CliRunner().invoke(app, ["progress", "-", "--follow"], input=text).exit_code != 0


def test_what_comes_from_a_pipe_is_not_unpacked() -> None:
    found = CliRunner().invoke(app, ["progress", "-"], input=gzip.compress(b"step 1/9 loss 2.5\n"))
    assert found.exit_code != 0
    assert "compressed" in str(found.exception)
