"""The logs: in each framework's format, in step with the truth, and failures whose cause stands in them."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from itertools import islice, pairwise

import pytest

from schedmate.workload import FailureTruth, Generated, SemanticGenerator, WorkloadSpec
from schedmate.workload.logs import pieces, running_trail
from schedmate.workload.logs.failure import FOLDER, MARK
from schedmate.workload.params import parameters
from schedmate.workload.sessions import Draft
from schedmate.workload.types import moment

GENERATOR = SemanticGenerator(WorkloadSpec(seed=2, jobs=600, users=70))
START_S = 7_200.0
Told = tuple[Generated[Draft], dict[str, str], FailureTruth | None]


@pytest.fixture(scope="module")
def told() -> list[Told]:
    """Every job with the text of its log files and the cause that was put there."""
    found = []
    for job in GENERATOR.jobs():
        nodes = tuple(f"gpu-{index + 1:02d}" for index in range(job.ask.nodes))
        files, cause = GENERATOR.logs(job, START_S, nodes)
        found.append((job, {file.name: "".join(file.pieces) for file in files}, cause))
    return found


def test_every_failed_job_has_its_cause_in_its_files(told: list[Told]) -> None:
    for job, files, cause in told:
        assert (cause is not None) == (job.truth.outcome in ("failed", "timeout"))
        everything = "\n".join(files.values())
        assert f"\n{MARK}" not in everything and "{{" not in everything
        if cause is not None:
            assert cause.failure == (job.truth.failure or "timeout")
            assert cause.lines, cause.failure
            assert all(line in everything for line in cause.lines)


def test_the_rank_at_fault_has_a_log_of_its_own(told: list[Told]) -> None:
    several = 0
    for job, files, cause in told:
        if cause is None or not cause.ranks:
            continue
        several += 1
        (rank,) = cause.ranks
        assert f"rank_{rank}.log" in files
        assert sum(name.startswith("rank_") for name in files) == job.ask.gpus
        if cause.nodes:
            (node,) = cause.nodes
            assert node in files[f"rank_{rank}.log"]
    assert several > 10


def test_causes_vary(told: list[Told]) -> None:
    counts = Counter(cause.failure for _, _, cause in told if cause)
    assert set(counts) >= set(parameters()["failures"]) - set(parameters()["needs_several_nodes"])
    exceptions = {cause.lines[-1].split(":")[0] for _, _, cause in told if cause and cause.failure == "exception"}
    assert len(exceptions) >= 3


def test_every_cause_has_its_templates() -> None:
    for failure in (*parameters()["failures"], "timeout"):
        assert {"case.yaml", "culprit.j2", "peer.j2", "launcher.j2"} <= {
            path.name for path in (FOLDER / failure).iterdir()
        }


@pytest.mark.parametrize(
    "style, words",
    [
        ("raw_argparse", r"INFO  epoch 1/\d+ batch|^Epoch: \[0\]\["),
        ("yaml_config", r"INFO  epoch 1/\d+ batch"),
        ("hydra", r"^\[[\d :,-]+\]\[__main__\]\[INFO\] - epoch=1/"),
        ("hf_trainer", r"Total optimization steps = "),
        ("lightning", r"\rEpoch 0: "),
        ("keras_fit", r"^Epoch 1/"),
        ("jax_flax", r"steps_per_sec="),
        ("jax_config", r"steps_per_sec="),
        ("deepspeed_json", r"\[logging\.py:96:log_dist\] \[Rank 0\]"),
        ("megatron_sbatch", r"elapsed time per iteration \(ms\):"),
        ("notebook", r"^Input Notebook:  train\.ipynb"),
        ("array_script", r"^epoch 1/\d+ step "),
    ],
)
def test_finished_jobs_log_in_their_framework_s_own_format(told: list[Told], style: str, words: str) -> None:
    done = [
        files[f"slurm-{job.ask.job_id}.out"]
        for job, files, _ in told
        if job.truth.style == style and job.truth.outcome == "completed" and job.truth.kind == "single"
    ]
    assert done
    assert all(re.search(words, text, re.MULTILINE) for text in done)


def test_log_lines_are_ones_that_the_program_could_print(told: list[Told]) -> None:
    """The words of a line of progress stand in the program that is said to have printed it."""
    wanted = {"raw_argparse": "train.py", "hydra": "main.py", "jax_flax": "train.py", "array_script": "fit.py"}
    marks = {"jax_flax": "steps_per_sec=%.3f", "hydra": "epoch=%d/%d step=%d/%d loss=%.4f", "array_script": "held-out"}
    checked = Counter[str]()
    for job, files, _ in told:
        style = job.truth.style
        if style not in wanted or job.truth.kind == "evaluation" or not job.truth.steps_done:
            continue
        program = GENERATOR.tree(job)[wanted[style]]
        text = files[f"slurm-{job.ask.job_id}.out"]
        if style == "raw_argparse":
            assert ("Epoch: [" in program) or "Epoch: [" not in text
            assert ("INFO  epoch" not in text) or 'log.info("epoch %d/%d batch %d/%d loss=%.4f' in program
        else:
            assert marks[style] in program
        checked[style] += 1
    assert set(checked) == set(wanted)


def test_clocks_and_counters_agree_with_the_truth(told: list[Told]) -> None:
    """Stamped lines lie within the run, in order; the last step that is named is one that was done."""
    stamp = re.compile(r"^\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3}\]?", re.MULTILINE)
    seen = 0
    for job, files, cause in told:
        text = files[f"slurm-{job.ask.job_id}.out"]
        times = [datetime.fromisoformat(when) for when in stamp.findall(text)]
        if len(times) < 5 or cause is not None:
            continue
        end = moment(START_S + job.truth.duration_s) + timedelta(seconds=2)
        assert moment(START_S) - timedelta(seconds=1) <= min(times) and max(times) <= end
        assert all(one <= two + timedelta(seconds=1) for one, two in pairwise(times))
        seen += 1
    assert seen > 50


def test_a_running_log_is_cut_where_the_job_is() -> None:
    cut = 0
    for job in islice(GENERATOR.jobs(), 0, None, 3):
        truth = job.truth
        if truth.kind == "evaluation" or truth.steps_done < 20:
            continue
        startup_s = min(truth.startup_s, 0.9 * truth.duration_s)
        half_s = startup_s + (truth.duration_s - startup_s) / 2
        trail = running_trail(job, START_S, START_S + half_s, 2)
        assert trail.steps_done == pytest.approx(truth.steps_done / 2, abs=max(2, 0.03 * truth.steps_done))
        assert trail.startup_s + trail.seconds(trail.steps_done) <= half_s + 1e-6
        whole = "".join(pieces(running_trail(job, START_S, START_S + truth.duration_s, 2)))
        assert whole.startswith("".join(pieces(trail)).rstrip("\n"))
        cut += 1
    assert cut > 50


def test_cancelled_jobs_say_so(told: list[Told]) -> None:
    cancelled = [files for job, files, _ in told if job.truth.outcome == "cancelled"]
    assert cancelled
    for files in cancelled:
        (text,) = files.values()
        assert re.search(r"STEP \d+\.0 ON gpu-01 CANCELLED AT", text.splitlines()[-1])
