"""The logs: in each framework's format, and failures whose cause stands in them once the marks are off."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from schedmate.demo.folder import OutFolder
from schedmate.demo.history import replay_records
from schedmate.demo.logs.failure import FOLDER, MARK
from schedmate.demo.params import FAILURE_SHARE, WorkloadSpec
from schedmate.demo.sessions import make_workload
from schedmate.demo.write import write_running, write_runs
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Requested, simulate


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory):
    work = make_workload(WorkloadSpec(seed=2))
    today = simulate(replay_records(work), ClusterSpec.uniform(16), "fifo", Requested(), keep_placements=True)
    starts = dict(zip(today.job_ids, today.start_s.tolist(), strict=True))
    nodes = {job_id: today.placement(i).nodes for i, job_id in enumerate(today.job_ids)}
    out = OutFolder(tmp_path_factory.mktemp("demo"))
    failed = write_runs(out, work, starts, nodes, 2)
    running = write_running(out, work, starts, 0.6 * work.span_s, 2)
    return out.root, work, failed, running


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_every_failed_job_has_its_cause_in_its_files(written) -> None:
    _, work, failed, _ = written
    bad = {job for job, truth in work.truth.items() if truth.outcome in ("failed", "timeout")}
    assert set(failed) == bad
    for folder, cause in failed.values():
        everything = "\n".join(_texts(folder).values())
        assert cause.lines, cause.failure
        for line in cause.lines:
            assert line in everything
        assert f"\n{MARK}" not in everything and "{{" not in everything


def test_the_rank_at_fault_has_a_log_of_its_own(written) -> None:
    _, work, failed, _ = written
    asks = {ask.job_id: ask for ask in work.asks}
    several = 0
    for job_id, (folder, cause) in failed.items():
        if not cause.ranks:
            continue
        several += 1
        files = _texts(folder)
        (rank,) = cause.ranks
        assert f"rank_{rank}.log" in files
        assert sum(name.startswith("rank_") for name in files) == asks[job_id].gpus
    assert several > 10


def test_causes_vary(written) -> None:
    _, _, failed, _ = written
    counts = Counter(cause.failure for _, cause in failed.values())
    assert set(counts) >= set(FAILURE_SHARE)
    exceptions = {cause.lines[-1].split(":")[0] for _, cause in failed.values() if cause.failure == "exception"}
    assert len(exceptions) >= 3


def test_every_cause_has_its_templates() -> None:
    for failure in (*FAILURE_SHARE, "timeout"):
        assert {"case.yaml", "culprit.j2", "peer.j2", "launcher.j2"} <= {
            path.name for path in (FOLDER / failure).iterdir()
        }


def test_running_logs_end_at_the_snapshot(written) -> None:
    _, work, _, running = written
    assert running
    for log in running:
        truth = work.truth[log.job_id]
        assert 0 <= log.step <= truth.steps_done and log.left_s >= 0
        assert log.path.stat().st_size > 100


@pytest.mark.parametrize(
    "style, words",
    [
        ("raw_argparse", "INFO  epoch 1/"),
        ("hf_trainer", "Total optimization steps = "),
        ("lightning", "\rEpoch 0: "),
        ("keras_fit", "Epoch 1/"),
        ("jax_flags", "steps_per_sec="),
        ("deepspeed_json", "[logging.py:96:log_dist] [Rank 0]"),
        ("sbatch_megatron", "elapsed time per iteration (ms):"),
    ],
)
def test_finished_jobs_log_in_their_framework_s_own_format(written, style: str, words: str) -> None:
    root, work, _, _ = written
    jobs = [a for a in work.asks if a.project.style.name == style and work.truth[a.job_id].outcome == "completed"]
    assert jobs
    text = (root / "workload/runs" / jobs[0].job_id / f"slurm-{jobs[0].job_id}.out").read_bytes().decode()
    assert words in text
