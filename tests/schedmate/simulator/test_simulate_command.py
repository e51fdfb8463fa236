"""`schedmate simulate` as a user runs it."""

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
    """Forty jobs out of order, with users and requested times under headers of their own."""
    rows = [
        f"j{i},{(i * 37) % 400},{5 + (i * 13) % 90},{(1, 2, 8, 16)[i % 4]},u{i % 3},{100 + (i * 7) % 50}"
        for i in range(40)
    ]
    path = tmp_path / "mine.csv"
    path.write_text("job,t_submit,secs,devices,who,ask\n" + "\n".join(rows) + "\n")
    return path


COLUMNS = [
    word
    for mapping in ("job_id=job", "submit=t_submit", "duration=secs", "gpus=devices", "user=who", "requested=ask")
    for word in ("--column", mapping)
]


def answer(done: CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    schema = json.loads((files("schedmate") / "schemas" / "simulate.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema, cls=jsonschema.Draft202012Validator)
    return found


@pytest.mark.parametrize("estimates", ["requested", "perfect", "predicted"])
def test_json_fits_its_schema_for_every_policy(schedmate: Run, trace: Path, estimates: str) -> None:
    words = ("simulate", trace, "--format", "csv", *COLUMNS, "--nodes", 2, "--policy", "fifo,sjf,easy,kant")
    found = answer(schedmate(*words, "--estimates", estimates, "--json"))
    assert list(found["policies"]) == ["fifo", "sjf", "easy", "kant"]
    for policy in found["policies"].values():
        assert policy["jobs"] == 40
        assert sum(bucket["jobs"] for bucket in policy["jwtd_s"].values()) == 40
        assert len(policy["gar"]["series"]["mean"]) == 200
    assert found["policies"]["sjf"]["queueing_s"]["mean"] < found["policies"]["fifo"]["queueing_s"]["mean"]


@pytest.mark.parametrize("estimates", ["noisy", "noisy:0.5", "one-minute", "one-lies"])
def test_wrong_hints_are_played_and_said_to_be_wrong(schedmate: Run, trace: Path, estimates: str) -> None:
    words = ("simulate", trace, "--format", "csv", *COLUMNS, "--nodes", 2, "--policy", "core", "--estimates", estimates)
    found = answer(schedmate(*words, "--seed", 3, "--json"))
    assert found["estimates"] == estimates
    assert any("wrong on purpose" in warning for warning in found["warnings"])


def test_a_gated_policy_stands_beside_the_one_that_is_not(schedmate: Run, trace: Path) -> None:
    words = ("simulate", trace, "--format", "csv", *COLUMNS, "--nodes", 2, "--estimates", "hostile")
    found = answer(schedmate(*words, "--policy", "core,core+gate", "--json"))
    assert list(found["policies"]) == ["core", "core+gate"]
    without = answer(schedmate(*words[:-1], "requested", "--policy", "core", "--json"))
    gated, plain = found["policies"]["core+gate"], without["policies"]["core"]
    assert gated["queueing_s"] == plain["queueing_s"]  # too few have ended for anything to be believed
    assert found["policies"]["core"]["queueing_s"] != plain["queueing_s"]
    done = schedmate(*words, "--policy", "fifo+gate")
    assert done.returncode == 2 and "does not look at hints" in done.stderr


def test_estimates_that_there_are_not_are_told_with_those_that_there_are(schedmate: Run, trace: Path) -> None:
    done = schedmate("simulate", trace, *COLUMNS, "--format", "csv", "--nodes", 2, "--estimates", "noisy:much")
    assert done.returncode == 2
    assert "noisy:much" in done.stderr and "Traceback" not in done.stderr


def test_the_table_shows_policies_side_by_side(schedmate: Run, trace: Path) -> None:
    done = schedmate("simulate", trace, *COLUMNS, "--format", "csv", "--nodes", 2, "--policy", "fifo,easy")
    assert done.returncode == 0, done.stderr
    assert "40 jobs on 2 nodes, 16 GPUs, perfect runtimes" in done.stdout
    assert all(word in done.stdout for word in ("fifo", "easy", "waiting, mean", "SOR", "GFR", "makespan"))


def test_a_cluster_of_pools(schedmate: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "job_id,submit,duration,gpus,gpu_type\na,0,10,8,a100\nb,0,10,1,a100\nc,0,10,4,\nd,0,10,1,tpu\n"
    )
    (tmp_path / "c.yaml").write_text("pools: {a100: 1x8, v100: 2x4}")
    found = answer(schedmate("simulate", tmp_path / "t.csv", "--cluster", tmp_path / "c.yaml", "--json"))
    assert found["cluster"]["gpus"] == 16
    assert found["policies"]["fifo"]["queueing_s"]["max"] == 10
    assert found["policies"]["fifo"]["jobs"] == 3
    assert found["warnings"] == ["1 of 4 jobs left out: larger than the cluster, or of a GPU type that it lacks"]


def test_a_job_larger_than_the_cluster_is_counted_on_stderr(schedmate: Run, trace: Path) -> None:
    done = schedmate("simulate", trace, *COLUMNS, "--format", "csv", "--nodes", 1)
    assert done.returncode == 0
    assert "warning: 10 of 40 jobs left out: larger than the cluster" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "how large is the cluster"),
        (["--nodes", 2, "--cluster", "c.yaml"], "both --nodes and --cluster"),
        (["--nodes", 0], "nodes is 0"),
        (["--nodes", 2, "--policy", "lifo"], "no policy named 'lifo'; known: fifo, sjf, easy, easy-predicted-sjbf"),
        (["--nodes", 2, "--policy", ","], "names no policy"),
        (["--nodes", 2, "--estimates", "magic"], "give one of requested, perfect, predicted"),
        (["--nodes", 2, "--column", "gpus"], "not NAME=HEADER"),
        (["--nodes", 2, "--column", "gpus=none"], "no column 'none'"),
        (["--nodes", 2, "--format", "pdf"], "no trace_formats named 'pdf'"),
        (["--nodes", 2, "--policy", "easy", "--estimates", "requested"], "has no requested times, which easy need"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_2(schedmate: Run, tmp_path: Path, words: list[str], line: str) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit,duration,gpus\na,0,10,8\n")
    done = schedmate("simulate", tmp_path / "t.csv", *words, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_job_that_stands_twice_is_replayed_once(schedmate: Run, tmp_path: Path) -> None:
    """b is there twice, and the id of a was used again."""
    path = tmp_path / "t.csv"
    path.write_text("job_id,submit,duration,gpus\na,0,10,8\nb,1,10,8\nb,1,10,8\na,50,10,8\na,50,10,8\n")
    found = answer(schedmate("simulate", path, "--nodes", 1, "--detail", "--json"))
    assert found["policies"]["fifo"]["jobs"] == found["rows"] == 3
    assert found["rows_skipped"] == {"a job that came before (the same id and submit time)": 2}
    told = " ".join(found["warnings"])
    assert "skipped 2 of 5 rows: 2 x a job that came before" in told
    assert "job id that came before with another submit time, taken for another job: 1 rows" in told


def test_a_job_that_was_held_waits_from_when_only_the_queue_kept_it(schedmate: Run, tmp_path: Path) -> None:
    """b was submitted with a, for after it; the eligible time of c is behind its start, and so wrong."""
    path = tmp_path / "t.csv"
    path.write_text(
        "job_id,submit_s,eligible_s,start_s,duration_s,gpus\na,0,0,0,10,8\nb,0,100,130,10,8\nc,200,900,210,5,8\n"
    )
    found = answer(schedmate("simulate", path, "--nodes", 1, "--json"))
    assert found["policies"]["fifo"]["queueing_s"]["max"] == 0
    assert found["policies"]["fifo"]["makespan_s"] == 205
    assert found["recorded"]["queueing_s"]["mean"] == pytest.approx((0 + 30 + 10) / 3)
    assert "1 jobs were held in the trace" in " ".join(found["warnings"])


def test_jobs_that_still_ran_are_load_as_they_were(schedmate: Run, tmp_path: Path) -> None:
    """b waited 90 s for a, which held the node when the trace was written; why others have no runtime is told."""
    path = tmp_path / "t.csv"
    path.write_text(
        "job_id,submit_s,start_s,duration_s,ran_so_far_s,gpus,state,outcome\n"
        "a,0,0,,100,8,running,\nb,10,100,20,,8,completed,completed\nc,20,,,,8,pending,\n"
        "d,30,,,,8,cancelled,cancelled\ne,40,50,,,8,running,\n"
    )
    found = answer(schedmate("simulate", path, "--nodes", 1, "--json"))
    fifo, recorded, told = found["policies"]["fifo"], found["recorded"], " ".join(found["warnings"])
    assert fifo["jobs"] == recorded["jobs"] == 2
    assert fifo["queueing_s"]["max"] == recorded["queueing_s"]["max"] == 90
    assert fifo["jct_s"]["mean"] == recorded["jct_s"]["mean"] == 105
    assert "1 jobs still ran when the trace was written: played" in told
    for why in ("still waited when", "cancelled before it ran", "still ran when the trace was written, and for how"):
        assert f"1 of 5 jobs left out: {why}" in told


def test_a_cluster_smaller_than_that_of_the_trace_is_told(schedmate: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("job_id,submit,start,duration,gpus\na,0,0,100,8\nb,1,50,100,8\nc,2,150,10,8\n")
    told = [" ".join(answer(schedmate("simulate", path, "--nodes", n, "--json"))["warnings"]) for n in (1, 2)]
    assert "the trace held up to 16 GPUs at once, the cluster has 8" in told[0]
    assert "at once" not in told[1]


def test_a_trace_without_gpus_says_what_slurm_needs(schedmate: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.sacct"
    path.write_text(
        "JobID|State|Submit|Start|Elapsed|AllocTRES\n1|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:00|00:10:00|cpu=4\n"
    )
    done = schedmate("simulate", path, "--nodes", 1)
    assert done.returncode == 2 and "no job of it asks for a GPU" in done.stderr
    assert "AccountingStorageTRES=gres/gpu" in done.stderr
    assert "AccountingStorageTRES=gres/gpu" in schedmate("trace", "describe", path).stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("submit", "zone", "told"),
    [
        ("2026-03-01T10:00:00", (), True),
        ("2026-03-01T10:00:00", ("--timezone", "Europe/Berlin"), False),
        ("2026-03-01T10:00:00Z", (), False),
        ("1772359200", (), False),
    ],
)
def test_an_assumed_zone_is_told(
    schedmate: Run, tmp_path: Path, submit: str, zone: tuple[str, ...], told: bool
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"job_id,submit,duration,gpus\na,{submit},10,8\n")
    warnings = answer(schedmate("simulate", path, "--nodes", 1, *zone, "--json"))["warnings"]
    assert ("times without a zone were read as UTC (assumed)" in " ".join(warnings)) == told


def test_no_job_fits_at_all(schedmate: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit,duration,gpus\na,0,10,9\n")
    done = schedmate("simulate", tmp_path / "t.csv", "--nodes", 1)
    assert done.returncode == 2
    assert "no job of it can be replayed on this cluster" in done.stderr


def test_kant_runs_without_requested_times(schedmate: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit,duration,gpus\na,0,10,8\nb,0,10,8\n")
    words = ("--nodes", 1, "--policy", "kant,fifo", "--estimates", "requested", "--json")
    found = answer(schedmate("simulate", tmp_path / "t.csv", *words))
    assert found["warnings"] == ["2 of 2 jobs have no requested time: nothing is assumed of their runtime"]
    assert found["policies"]["kant"]["queueing_s"]["max"] == 10


TENANTS = """
pools: {a100: 1x8, v100: 1x8}
tenants:
  lab: {quota: {a100: 8}}
  lab/vision: {quota: {a100: {guaranteed: 8, borrow: 0}, v100: {borrow: 0}}}
  lab/text: {queue: strict}
"""


def test_tenants_of_the_cluster_file(schedmate: Run, tmp_path: Path) -> None:
    rows = ("a,0,10,8,lab/vision", "b,0,10,8,lab/vision", "c,0,20,8,lab/text", "d,0,5,1,", "e,0,5,1,stranger")
    (tmp_path / "t.csv").write_text("job_id,submit,duration,gpus,tenant\n" + "\n".join(rows) + "\n")
    (tmp_path / "c.yaml").write_text(TENANTS)
    words = ("simulate", tmp_path / "t.csv", "--cluster", tmp_path / "c.yaml", "--policy", "fifo,core")
    found = answer(schedmate(*words, "--json"))
    assert any("1 of 5 jobs name a tenant that" in told and "'stranger'" in told for told in found["warnings"])
    for policy in found["policies"].values():
        owned = policy["tenants"]
        assert {name: each["jobs"] for name, each in owned.items()} == {"": 2, "lab": 0, "lab/vision": 2, "lab/text": 1}
        assert owned["lab/vision"]["gpu_s"] == 160
        assert owned["lab/text"]["gpu_s"] == 160
        assert owned["lab/vision"]["share"] == 160 / (16 * policy["makespan_s"])
        assert owned["lab/vision"]["queueing_s"]["max"] >= 10, "never more than 8 GPUs at once, of a100 alone"
        assert owned["lab"]["queueing_s"]["mean"] is None
    assert "tenant lab/vision, waiting, mean" in schedmate(*words).stdout


def test_without_tenants_there_are_none(schedmate: Run, trace: Path) -> None:
    found = answer(schedmate("simulate", trace, "--format", "csv", *COLUMNS, "--nodes", 2, "--json"))
    assert "tenants" not in found["policies"]["fifo"]


def test_a_job_beyond_the_quota_is_left_out_for_that(schedmate: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit,duration,gpus,tenant\na,0,10,8,lab\nb,0,10,4,lab\n")
    (tmp_path / "c.yaml").write_text("pools: {a100: 1x8}\ntenants: {lab: {quota: {a100: {guaranteed: 4, borrow: 0}}}}")
    found = answer(schedmate("simulate", tmp_path / "t.csv", "--cluster", tmp_path / "c.yaml", "--json"))
    assert found["policies"]["fifo"]["skipped"] == {"larger than the quota of its tenant": 1}


def test_a_tenant_that_makes_no_sense_is_named(schedmate: Run, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("pools: {a100: 1x8}\ntenants: {lab: {quota: {a100: 9}}}\n")
    done = schedmate("simulate", trace, *COLUMNS, "--format", "csv", "--cluster", tmp_path / "c.yaml")
    assert done.returncode == 2
    assert "c.yaml: tenants: the cluster has 8 GPUs of type a100 to give" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_policy_that_knows_no_tenants_says_so(schedmate: Run, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("pools: {a100: 1x8}\ntenants: {lab: {}}\n")
    cluster = ("--format", "csv", "--cluster", tmp_path / "c.yaml")
    done = schedmate("simulate", trace, *COLUMNS, *cluster, "--policy", "patient")
    assert done.returncode == 2
    assert done.stderr.strip() == "schedmate: policy patient knows no tenants; take core, or a cluster without tenants"
