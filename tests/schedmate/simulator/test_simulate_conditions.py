"""The flags of `schedmate simulate` that say what is played beside the jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import jsonschema
import pytest

Run = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Thirty jobs that ran, of three users, and one that was cancelled in the queue; some were started twice."""
    rows = [
        f"j{i},{i * 40},300,{(1, 2, 8, 16)[i % 4]},{i * 40 + 5},{i * 40 + 305},u{i % 3},completed,completed,{1 + i % 2}"
        for i in range(30)
    ]
    path = tmp_path / "jobs.csv"
    head = "job_id,submit_s,duration_s,gpus,start_s,end_s,user,outcome,state,attempts"
    path.write_text("\n".join([head, *rows[:9], "gone,350,,16,,500,u1,cancelled,cancelled,", *rows[9:], ""]))
    return path


def answer(done: CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    schema = json.loads((files("schedmate") / "schemas" / "simulate.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema, cls=jsonschema.Draft202012Validator)
    return found


def test_all_of_it_together_fits_the_schema(schedmate: Run, trace: Path, tmp_path: Path) -> None:
    faults = tmp_path / "faults.yaml"
    faults.write_text("events: [{at: 400, kind: down, node: 0}, {at: 700, kind: repair, node: 0}]\n")
    words = ("simulate", trace, "--nodes", 2, "--policy", "easy,srtf,core,multifactor", "--detail", "--json")
    more = ("--cancellations", "--failures", "trace", "--faults", faults, "--slowdown", "usual", "--checkpoint", "1m")
    found = answer(schedmate(*words, *more, "--restart", "0"))
    for policy in found["policies"].values():
        assert policy["jobs"] == 30
        assert policy["failures"]["runs"] == 15
        assert policy["faults"]["events"] == 1
        assert sum(policy["cancelled"].values()) == 1
        assert policy["restarts"] == {"checkpoint_s": 60.0, "grace_s": 0.0, "restart_s": 0.0}
    assert found["policies"]["srtf"]["evictions"] > 0


def test_a_stretch_begins_with_the_cluster_as_it_was(schedmate: Run, trace: Path) -> None:
    found = answer(schedmate("simulate", trace, "--nodes", 2, "--from", "200", "--until", "600", "--json"))
    assert found["policies"]["fifo"]["jobs"] == 10
    assert "begins with 5 jobs that ran then by the trace, which are in no figure" in found["warnings"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--failures", "often"), "--failures often: not a share"),
        (("--failures", "1.5"), "--failures 1.5: not a share"),
        (("--checkpoint", "soon"), "--checkpoint 'soon': not a length of time"),
        (("--slowdown", "no-such-file"), "no-such-file"),
        (("--faults", "no-such-file"), "no-such-file"),
        (("--from", "2026-10-05"), "clock of its own"),
        (("--from", "300d"), "no job waited at --from"),
        (("--from", "600", "--until", "200"), "--until 200 is not after --from 600; give a later --until"),
        (("--from", "10m", "--until", "600"), "--until 600 is not after --from 10m"),
    ],
)
def test_what_can_not_be_is_refused_in_one_line(
    schedmate: Run, trace: Path, flags: tuple[str, str], words: str
) -> None:
    done = schedmate("simulate", trace, "--nodes", 2, *flags)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
