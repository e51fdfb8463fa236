"""The plan: what each kind of failure needs, in numbers where the log has them, and what it costs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from analyzers.failures import cost_in_words, examine, plan_of
from analyzers.types import Checkpoint, LogEvidence, RecoveryPlan

CKPT = Checkpoint("/ck/step_400", 400, None, datetime(2026, 3, 1, 11, 0), LogEvidence("a.log", 1, "saved"))
STEPS = "".join(
    f"[rank0] 2026-03-01 {10 + n // 60:02d}:{n % 60:02d}:00 step {n + 1}/400 loss 2.0 host=cn07 world_size=8\n"
    for n in range(0, 120, 10)
)


def plan(
    tmp_path: Path, checkpoint: Checkpoint | None = None, share: float | None = None, **files: str
) -> RecoveryPlan:
    for name, text in files.items():
        (tmp_path / f"{name}.log").write_text(text, encoding="utf-8")
    found, scan, topology = examine(tmp_path if len(files) > 1 else tmp_path / f"{next(iter(files))}.log")
    made = plan_of(found, scan, topology, checkpoint, share)
    assert made is not None
    return made


def kinds(made: RecoveryPlan) -> list[str]:
    return [step.kind for step in made.steps]


def test_code_names_the_innermost_line_of_its_own(tmp_path: Path) -> None:
    crash = (
        STEPS + 'Traceback (most recent call last):\n  File "/h/u/train.py", line 31, in main\n    run()\n'
        '  File "/h/u/model.py", line 9, in forward\n    y = x @ w\n'
        '  File "/usr/lib/python3.11/site-packages/torch/nn/m.py", line 5, in _call\n    f()\n'
        "ValueError: shapes (3,4) and (5,6) not aligned\n"
    )
    made = plan(tmp_path, CKPT, job=crash)
    assert kinds(made) == ["fix_line", "requeue_from_checkpoint"]
    place = made.steps[0].place
    assert place is not None and (place.file, place.line, place.function) == ("/h/u/model.py", 9, "forward")
    assert (made.steps[1].checkpoint, made.steps[1].checkpoint_step) == ("/ck/step_400", 400)
    assert "from /ck/step_400 (step 400)" in made.steps[1].says


def test_gpu_memory(tmp_path: Path) -> None:
    line = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 "
        "GiB of which 1.25 GiB is free.\n"
    )
    made = plan(tmp_path, job="step 1 loss 2.0 lr 1\nTraceback (most recent call last):\n" + line)
    change = made.steps[0].change
    assert kinds(made) == ["lower_memory", "restart"] and change is not None
    assert (change.limit, change.had, change.needed, change.to) == ("gpu-memory", 1280, 2560, None)


@pytest.mark.parametrize(
    ("line", "had", "needed", "to"),
    [
        ("slurmstepd: error: Job 7 exceeded memory limit (70000 > 65536), being killed", 65536, 70000, 98304),
        (
            "slurmstepd: error: Step 7.0 exceeded job memory limit (9437184K > 8388608K), being killed",
            8192,
            9216,
            12288,
        ),
    ],
)
def test_host_memory(tmp_path: Path, line: str, had: int, needed: int, to: int) -> None:
    change = plan(tmp_path, job=f"step 1 loss 2.0 lr 1\n{line}\n").steps[0].change
    assert change is not None and (change.had, change.needed, change.to) == (had, needed, to)


def test_time_limit_asks_for_what_the_rest_needs(tmp_path: Path) -> None:
    ended = "slurmstepd: error: *** JOB 7 ON cn07 CANCELLED AT 2026-03-01T12:00:00 DUE TO TIME LIMIT ***\n"
    made = plan(tmp_path, None, 0.25, job=STEPS + ended)
    change = made.steps[0].change
    assert kinds(made) == ["raise_limit", "restart"] and change is not None and change.limit == "time"
    assert change.to is not None and change.needed is not None and made.wrong_s is not None
    assert change.needed == pytest.approx(made.wrong_s * 4, rel=0.01) and change.to > change.needed
    without = plan(tmp_path, None, None, job=STEPS + ended)
    assert kinds(without) == ["advice", "restart"]


def test_a_bad_node_is_left_out(tmp_path: Path) -> None:
    xid = "[Sun Mar  1 11:49:00 2026] NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus.\n"
    (tmp_path / "x").mkdir()
    made = plan(
        tmp_path / "x", CKPT, rank_0=STEPS + "[rank0] RuntimeError: CUDA error: unspecified launch failure\n",
        dmesg_cn07=xid,
    )  # fmt: skip
    assert kinds(made) == ["exclude_nodes", "requeue_from_checkpoint"] and made.steps[0].nodes == ("cn07",)
    assert "out of service" in made.steps[0].says


def test_what_it_costs(tmp_path: Path) -> None:
    made = plan(tmp_path, CKPT, job=STEPS + "2026-03-01 12:00:00 OSError: [Errno 116] Stale file handle: '/nfs/a'\n")
    assert "wait" in kinds(made) and made.gpus == 8
    assert made.lost_s is not None and made.wrong_s is not None and made.lost_s < made.wrong_s
    assert made.lost_gpu_hours == pytest.approx(made.lost_s * 8 / 3600, abs=0.01)
    assert "GPU hours" in cost_in_words(made) and "if this is wrong" in cost_in_words(made)
    assert cost_in_words(RecoveryPlan(())) == ""


def test_an_unknown_cause_plans_nothing_and_a_healthy_job_has_no_plan(tmp_path: Path) -> None:
    vague = plan(tmp_path, job="step 1 loss 2.0 lr 1\nsrun: error: n-1: task 0: Exited with exit code 1\n")
    assert kinds(vague) == ["advice"] and "before the cause is known" in vague.steps[0].says
    log = tmp_path / "well.log"
    log.write_text("step 1 loss 2.0 lr 1\nstep 2 loss 1.9 lr 1\nTraining finished\n", encoding="utf-8")
    found, scan, topology = examine(log)
    assert plan_of(found, scan, topology, None) is None
