"""What a sweep's specification may say, and what is told about a mistake in it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from prompts.errors import UserError
from schedmate.scheduler import POLICIES
from schedmate.simulator import Conditions, Restarts
from schedmate.simulator.failures import Failures
from schedmate.simulator.slowdown import read_slowdown
from schedmate.sweep.run import planned
from schedmate.sweep.spec import Generated, read_spec

ROOT = Path(__file__).resolve().parents[3]


def spec(tmp_path: Path, text: str):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    return read_spec(path)


def test_the_short_form_names_one_workload(tmp_path: Path) -> None:
    found = spec(tmp_path, "{trace: philly.csv.gz, nodes: 72, columns: {gpus: n}, policies: [fifo, kant/requested]}")
    (workload,) = found.workloads
    assert (workload.name, workload.trace, workload.nodes) == ("philly", tmp_path / "philly.csv.gz", 72)
    assert workload.options == (("gpus", "n"),)
    assert found.runs == (("fifo", "perfect"), ("kant", "requested"))
    assert (found.seeds, found.loads, found.shake_s) == (tuple(range(1, 11)), (1.0,), 30.0)


def test_policies_cross_estimates_but_for_those_that_use_none(tmp_path: Path) -> None:
    found = spec(tmp_path, "{trace: a.csv, nodes: 1, policies: [fifo, sjf], estimates: [perfect, predicted]}")
    assert found.runs == (("fifo", "perfect"), ("sjf", "perfect"), ("sjf", "predicted"))
    every = spec(tmp_path, "{trace: a.csv, nodes: 1, policies: all}")
    assert [policy for policy, _ in every.runs] == list(POLICIES)


def test_a_generated_workload_has_its_own_cluster(tmp_path: Path) -> None:
    found = spec(tmp_path, "workloads: {made: {generate: {jobs: 30, load: 0.8}}}\npolicies: [fifo]\nshakes: 0\n")
    assert found.workloads[0].generated == Generated(30, 0.8)
    assert [[cell.seed for cell in group.cells] for group in planned(found)] == [[1]]


def test_what_is_played_beside_the_jobs_is_asked_for_by_key(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("at,kind,node\n1h,down,0\n")
    more = "checkpoint: 10m, restart: 0, failures: 0.1, faults: f.csv, requeues: 2, slowdown: usual, size_classes: true"
    (workload,) = spec(tmp_path, f"{{trace: a.csv, nodes: 1, {more}}}").workloads
    around = workload.conditions
    assert around.restarts == Restarts(600.0, 0.0, 0.0) and around.failures == Failures(0.1)
    assert around.faults is not None and around.faults.told[0].kind == "down"
    assert (around.requeues, around.size_classes, around.slowdown) == (2, True, read_slowdown())
    assert workload.files == (tmp_path / "f.csv",)
    assert spec(tmp_path, "{trace: a.csv, nodes: 1}").workloads[0].conditions == Conditions()


def test_some_policies_may_have_fewer_replays(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("job_id,submit,duration,gpus\n1,0,60,1\n")
    few = "{replays: 1, policies: [sjf], why: x}"
    found = spec(tmp_path, f"{{trace: a.csv, nodes: 1, policies: [fifo, sjf], shakes: 3, fewer_shakes: {few}}}")
    assert [[cell.seed for cell in group.cells] for group in planned(found)] == [[1, 2, 3], [1]]


@pytest.mark.parametrize(
    "text, told",
    [
        ("{trace: a.csv, nodes: 1, checkpoint: soon}", "workload a: checkpoint 'soon': not a length of time"),
        ("{trace: a.csv, nodes: 1, failures: 2}", "workload a: failures 2: not a share"),
        ("{trace: a.csv, nodes: 1, faults: none.csv}", "none.csv"),
        ("{trace: a.csv, nodes: 1, size_classes: 1}", "size_classes: 1 is not true or false"),
        ("{trace: a.csv, nodes: 1, requeues: -1}", "requeues: -1 is not a whole number"),
        ("{trace: a.csv, nodes: 1, fewer_shakes: {replays: 1, policies: [fifo]}}", "does not say why"),
        ("{trace: a.csv, nodes: 1, fewer_shakes: {replays: 0, policies: [fifo], why: x}}", "replays: 0 is not"),
        ("{trace: a.csv, nodes: 1, fewer_shakes: {replays: 1, policies: [lifo], why: x}}", "no policy named 'lifo'"),
        ("", "not a mapping"),
        ("[1, 2]", "not a mapping"),
        ("{", "not YAML"),
        ("{trace: a.csv, nodes: 1, nods: 2}", "no such key: nods"),
        ("{trace: a.csv}", "how large is the cluster"),
        ("{trace: a.csv, nodes: 1, cluster: c.yaml}", "one of them"),
        ("{trace: a.csv, nodes: 0}", "nodes: 0 is not"),
        ("{trace: a.csv, nodes: true}", "nodes: True is not"),
        ("{trace: a.csv, nodes: 1, policies: fifo}", "policies is not a list"),
        ("{trace: a.csv, nodes: 1, policies: [lifo]}", "no policy named 'lifo'"),
        ("{trace: a.csv, nodes: 1, policies: [easy/guessed]}", "estimates 'guessed': not known"),
        ("{trace: a.csv, nodes: 1, loads: [0]}", "loads: 0 is not"),
        ("{trace: a.csv, nodes: 1, loads: [.nan]}", "is not a number"),
        ("{trace: a.csv, nodes: 1, shakes: 2.5}", "shakes: 2.5"),
        ("{workloads: {}, policies: [fifo]}", "workloads"),
        ("{workloads: {a: {nodes: 1}}}", "workload a: names no trace"),
        ("{workloads: {a: {generate: {job: 1}}}}", "no such key: job"),
    ],
)
def test_a_mistake_is_told_with_the_file(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        spec(tmp_path, text)
    assert told in str(caught.value) and str(caught.value).startswith(str(tmp_path / "s.yaml"))


def test_what_is_left_out_of_a_trace_and_of_a_replay_is_told(schedmate, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit,duration,gpus\na,0,60,1\na,0,60,1\nb,5,-1,1\nc,9,60,99\n")
    (tmp_path / "s.yaml").write_text("{trace: t.csv, nodes: 1, policies: [fifo, sjf], shakes: 0}")
    done = schedmate("sweep", tmp_path / "s.yaml", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stderr.split())
    assert "skipped 2 of 4 rows: 1 x a job that came before" in told and "1 x duration is negative" in told
    assert "1 job left out: larger than the cluster" in done.stdout


def test_a_trace_that_is_not_there_is_one_line(schedmate, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("{trace: none.csv, nodes: 1}")
    done = schedmate("sweep", tmp_path / "s.yaml", "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "none.csv" in done.stderr


@pytest.mark.slow
def test_the_example_runs_and_keeps_its_contract(schedmate, tmp_path: Path) -> None:
    words = ["sweep", ROOT / "examples/sweep.yaml", "--out", tmp_path / "out"]
    done = schedmate(*words, "--json")
    assert done.returncode == 0, done.stderr
    schema = json.loads((ROOT / "schedmate/schemas/sweep.schema.json").read_text())
    jsonschema.validate(json.loads(done.stdout), schema)
    told = schedmate(*words)
    assert "40 cells, 40 of them done before, 0 failed" in told.stdout and "kant" in told.stdout


def test_all_as_a_list_exponents_and_keys_that_are_there_twice(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job_id,submit,duration,gpus\na,0,10,1\n")
    path = tmp_path / "s.yaml"
    path.write_text("trace: jobs.csv\nnodes: 2\npolicies: [all]\nloads: [1e0, 5e-1]\n")
    spec = read_spec(path)
    assert len(spec.runs) > 10 and spec.loads == (1.0, 0.5)
    path.write_text("trace: jobs.csv\nnodes: 2\nnodes: 3\n")
    with pytest.raises(UserError, match="there twice"):
        read_spec(path)
