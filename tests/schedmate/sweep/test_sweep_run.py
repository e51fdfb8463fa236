"""A sweep: the same numbers whatever runs it and however often it was stopped; nothing that is torn is believed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integrations.local import LocalEngine
from prompts.errors import UserError
from schedmate.ports import ItemFailed
from schedmate.simulator import Requested, simulate
from schedmate.simulator.headline import headline
from schedmate.simulator.shake import shaken
from schedmate.sweep import generated
from schedmate.sweep.cells import cluster_of, read_records, read_trace, run_cell
from schedmate.sweep.run import Options, all_na, planned, run_sweep, told_of_traces
from schedmate.sweep.spec import Spec, Workload, read_spec
from schedmate.sweep.store import CellStore

SPEC = """
trace: jobs.csv
nodes: 2
gpus_per_node: 4
policies: [fifo, easy]
estimates: [perfect, requested]
shakes: 3
"""
#: A blocked large job, small ones behind it, and requested times that are too long.
JOBS = "job_id,submit,duration,gpus,requested,user\n" + "".join(
    f"{i},{97 * i},{60 + 700 * (i % 5)},{(1, 2, 4, 8, 1)[i % 5]},{3600 + 60 * i},u{i % 3}\n" for i in range(60)
)


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text(JOBS)
    path = tmp_path / "sweep.yaml"
    path.write_text(SPEC)
    return path


class InOrder:
    """An engine that works here and now, and is interrupted after so many items."""

    name = "in order"

    def __init__(self, until: int = 10**9) -> None:
        self.left, self.worked = until, 0

    def map(
        self, function: Callable[[Any], Any], items: Iterable[Any], *, workers: int, timeout_s: float
    ) -> Iterator[tuple[Any, Any]]:
        for item in items:
            if self.worked == self.left:
                raise KeyboardInterrupt
            self.worked += 1
            try:
                yield item, function(item)
            except UserError as error:
                yield item, ItemFailed("error", str(error))


def run(spec: Spec, out: Path, engine: Any, workers: int = 1, fresh: bool = False) -> dict[str, Any]:
    return run_sweep(planned(spec), Options(out, workers, 60.0, fresh), engine)


def test_the_same_summary_whatever_the_number_of_processes(spec_file: Path, tmp_path: Path) -> None:
    spec = read_spec(spec_file)
    run(spec, tmp_path / "a", InOrder())
    for workers in (1, 3):
        run(spec, tmp_path / f"b{workers}", LocalEngine(), workers)
        assert (tmp_path / f"b{workers}" / "summary.json").read_bytes() == (tmp_path / "a/summary.json").read_bytes()


def test_it_goes_on_where_it_was_interrupted(spec_file: Path, tmp_path: Path) -> None:
    spec, out = read_spec(spec_file), tmp_path / "out"
    whole = run(spec, tmp_path / "whole", InOrder())
    with pytest.raises(KeyboardInterrupt):
        run(spec, out, InOrder(until=4))
    rest = InOrder()
    again = run(spec, out, rest)
    assert (rest.worked, again["already_done"]) == (whole["cells"] - 4, 4)
    assert again["rows"] == whole["rows"]
    third = InOrder()
    run(spec, out, third)
    assert third.worked == 0
    run(spec, out, third, fresh=True)
    assert third.worked == whole["cells"]


def test_another_trace_or_cluster_is_another_cell(spec_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cells = run(read_spec(spec_file), out, InOrder())["cells"]
    (tmp_path / "jobs.csv").write_text(JOBS.replace("1,97,", "1,98,"))
    changed = InOrder()
    run(read_spec(spec_file), out, changed)
    spec_file.write_text(SPEC.replace("nodes: 2", "nodes: 3"))
    run(read_spec(spec_file), out, changed)
    assert changed.worked == 2 * cells


def test_a_torn_or_swapped_cell_is_computed_again(spec_file: Path, tmp_path: Path) -> None:
    spec, out = read_spec(spec_file), tmp_path / "out"
    whole = run(spec, out, InOrder())
    files = sorted((out / "cells").iterdir())
    data = files[0].read_bytes()
    files[0].write_bytes(data[: len(data) // 2])
    files[1].write_bytes(b"")
    files[2].write_bytes(data)
    files[3].write_bytes(files[3].read_bytes().replace(b'"jobs": 60', b'"jobs": 61'))
    repaired = InOrder()
    assert run(spec, out, repaired)["rows"] == whole["rows"]
    assert repaired.worked == 4


def test_no_part_of_a_cell_file_is_taken_for_it(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    store.put("k", {"metrics": {"a": 1.5}})
    assert store.get("k") == {"metrics": {"a": 1.5}}
    path = tmp_path / "cells" / "k.json"
    data = path.read_bytes()
    for length in range(len(data) - 1):  # without the last line end it is still whole
        path.write_bytes(data[:length])
        assert store.get("k") is None, length
    assert list((tmp_path / "cells").iterdir()) == [path]


def test_a_cell_is_the_replay_that_anyone_can_make(spec_file: Path) -> None:
    group = next(g for g in planned(read_spec(spec_file)) if (g.policy, g.estimates) == ("easy", "requested"))
    workload = group.workload
    records = shaken(read_records(workload), 2, 30.0)
    by_hand = simulate(records, cluster_of(workload)[0], "easy", Requested())
    assert run_cell(group.cells[1])["metrics"] == headline(by_hand)


def test_what_is_played_beside_the_jobs_makes_another_cell_and_other_numbers(spec_file: Path, tmp_path: Path) -> None:
    faults = tmp_path / "f.csv"
    faults.write_text("at,kind,node\n10m,down,0\n9h,repair,0\n")
    spec_file.write_text(
        "workloads:\n  plain: {trace: jobs.csv, nodes: 2, gpus_per_node: 4}\n"
        "  broken: {trace: jobs.csv, nodes: 2, gpus_per_node: 4, faults: f.csv, checkpoint: 1m, restart: 0}\n"
        "policies: [easy]\nestimates: [perfect]\nshakes: 2\n"
    )
    plain, broken = run(read_spec(spec_file), tmp_path / "out", InOrder())["rows"]
    assert broken["metrics"]["queueing_mean_s"]["mean"] > plain["metrics"]["queueing_mean_s"]["mean"]
    faults.write_text("at,kind,node\n10m,down,0\n8h,repair,0\n")
    again = InOrder()
    run(read_spec(spec_file), tmp_path / "out", again)
    assert again.worked == 2, "only what depends on the file"


def test_rows_of_fewer_replays_are_paired_by_seed(spec_file: Path, tmp_path: Path) -> None:
    whole = run(read_spec(spec_file), tmp_path / "a", InOrder())["rows"]
    spec_file.write_text(SPEC + "fewer_shakes: {replays: 2, policies: [easy], why: it is slow}\n")
    engine = InOrder()
    rows = run(read_spec(spec_file), tmp_path / "a", engine)["rows"]
    assert engine.worked == 0, "they are cells of the sweep before"
    assert [row["seeds"] for row in rows] == [[1, 2, 3], [1, 2], [1, 2]]
    assert [row["fewer_because"] for row in rows] == [None, "it is slow", "it is slow"]
    assert rows[1]["jct_ratio"] != whole[1]["jct_ratio"] and rows[0]["metrics"] == whole[0]["metrics"]


@pytest.mark.parametrize("estimates", ["perfect", "predicted"])
def test_a_generated_cell_is_the_same_after_others_of_its_seed(tmp_path: Path, estimates: str) -> None:
    """What is prepared once for all policies is not used up by the first."""
    path = tmp_path / "s.yaml"
    path.write_text(f"generate: {{jobs: 25, load: 1.5}}\npolicies: [sjf, kant]\nestimates: [{estimates}]\nshakes: 2\n")
    first = run(read_spec(path), tmp_path / "a", InOrder())["rows"]
    for cached in (generated._workload, generated._read):
        cached.cache_clear()
    path.write_text(path.read_text().replace("sjf, kant", "kant, sjf"))
    second = run(read_spec(path), tmp_path / "b", InOrder())["rows"]
    assert [row["metrics"] for row in first] == [row["metrics"] for row in second[::-1]]


def test_a_row_that_the_trace_can_not_support_says_why(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job_id,submit,duration,gpus\n1,0,60,1\n2,5,60,8\n")
    path = tmp_path / "s.yaml"
    path.write_text("{trace: jobs.csv, nodes: 1, policies: [easy, kant], estimates: [requested, predicted], shakes: 0}")
    rows = run(read_spec(path), tmp_path / "out", InOrder())["rows"]
    told = {(row["policy"], row["estimates"]): (row["reason"], row["metrics"] is None) for row in rows}
    assert told == {
        ("easy", "requested"): ("the trace has no requested times", True),
        ("easy", "predicted"): ("nothing to predict from: the trace has no users, job names or requested times", True),
        ("kant", "requested"): (None, False),
        ("kant", "predicted"): ("nothing to predict from: the trace has no users, job names or requested times", True),
    }
    path.write_text("{trace: jobs.csv, nodes: 1, policies: [easy], estimates: [requested]}")
    assert all_na(planned(read_spec(path))) is not None


def test_a_cell_that_fails_costs_its_row_only(spec_file: Path, tmp_path: Path) -> None:
    spec_file.write_text(
        "workloads:\n  good: {trace: jobs.csv, nodes: 2}\n  bad: {trace: big.csv, nodes: 1}\n"
        "policies: [fifo]\nestimates: [perfect]\nshakes: 2\n"
    )
    (tmp_path / "big.csv").write_text("job_id,submit,duration,gpus\n1,0,60,999\n")
    summary = run(read_spec(spec_file), tmp_path / "out", InOrder())
    assert [row["reason"] for row in summary["rows"]] == [None, "cells of it failed"]
    assert len(summary["failures"]) == 2 and "no job of it" in summary["failures"][0]["message"]


def test_more_load_means_longer_waits_and_shaking_means_intervals(spec_file: Path, tmp_path: Path) -> None:
    spec_file.write_text(SPEC + "loads: [0.5, 2.0]\n")
    rows = run(read_spec(spec_file), tmp_path / "out", InOrder())["rows"]
    light, heavy = (next(r for r in rows if (r["policy"], r["load"]) == ("fifo", load)) for load in (0.5, 2.0))
    assert light["metrics"]["queueing_mean_s"]["high"] < heavy["metrics"]["queueing_mean_s"]["low"]
    assert light["jct_ratio"] == {"mean": 1.0, "low": 1.0, "high": 1.0}


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on(spec_file: Path, tmp_path: Path) -> None:
    spec_file.write_text(SPEC.replace("shakes: 3", "shakes: 40"))
    launcher, out = Path(sys.executable).parent / "schedmate", tmp_path / "out"
    words = [str(launcher), "sweep", str(spec_file), "--out", str(out), "--workers", "2", "--json"]
    for kept in (1, 30):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list(out.glob("cells/*.json"))) < kept:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    done = len(list(out.glob("cells/*.json")))
    last = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert last.returncode == 0, last.stderr
    summary = json.loads(last.stdout)
    assert summary["already_done"] == done >= 30
    whole = run(read_spec(spec_file), tmp_path / "whole", InOrder())
    assert summary["rows"] == json.loads(json.dumps(whole["rows"]))


def test_a_job_that_still_ran_is_played_and_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "job_id,submit_s,start_s,duration_s,ran_so_far_s,gpus,state\na,0,5,,90,1,running\nb,1,5,7,,1,failed\n"
    )
    records, notes = read_trace(Workload("w", path, nodes=1))
    assert [record.duration_s for record in records] == [90, 7]
    assert notes.remarks == {"still ran when the trace was written, played as far as it had got": 1}


def test_a_cluster_smaller_than_the_recorded_one_and_an_assumed_clock_are_told(tmp_path: Path) -> None:
    rows = "".join(
        f"{i}|2026-03-01T00:0{i}:00|2026-03-01T00:10:00|2026-03-01T01:00:00|gres/gpu=4|COMPLETED|60\n" for i in range(4)
    )
    (tmp_path / "jobs.sacct").write_text("JobID|Submit|Start|End|AllocTRES|State|TimelimitRaw\n" + rows)
    told = {}
    for nodes in (2, 1):
        path = tmp_path / f"sweep{nodes}.yaml"
        path.write_text(f"trace: jobs.sacct\nnodes: {nodes}\ngpus_per_node: 8\npolicies: [fifo]\n")
        told[nodes] = "\n".join(told_of_traces(planned(read_spec(path))))
    assert "read as UTC (assumed)" in told[2] and "at once" not in told[2]
    assert "held up to 16 GPUs at once, the cluster has 8" in told[1]
