"""How a log ends: completed, failed, cancelled, out of time, or not at all; and a log that has fallen silent."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from analyzers.logs import read_progress
from analyzers.types import Progress

START = datetime(2026, 11, 25, 8)
SOON, LATE = datetime(2026, 11, 25, 8, 20, 50), datetime(2026, 11, 25, 15)
STEPS = [f"{START + timedelta(seconds=30 * i)} step {i * 10}/1800 loss {3 / (1 + i / 10):.3f}" for i in range(1, 41)]
FRAMES = ["Traceback (most recent call last):", '  File "/x/train.py", line 3, in <module>', "    main()"]
TRACEBACK = [*FRAMES, "ValueError: shapes (3,4) and (5,6) not aligned"]
CANCELLED = "slurmstepd: error: *** JOB 77 ON n3 CANCELLED AT 2026-11-25T08:20:40"


def read(folder: Path, lines: list[str], now: datetime | None = LATE, name: str = "train.log") -> Progress:
    (folder / name).write_text("\n".join(lines) + "\n")
    return read_progress(folder / name, now=now)


@pytest.mark.parametrize(
    ("tail", "ended"),
    [
        (TRACEBACK, "failed"),
        ([f"[rank3]: {line}" for line in TRACEBACK], "failed"),
        ([*TRACEBACK, *["Assertion `t < n` failed in thread 7"] * 100], "failed"),
        ([*TRACEBACK, "Job finished at Wed Nov 25 08:21:00 CET 2026"], "failed"),
        ([*TRACEBACK, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "], "failed"),
        (["/var/spool/job12/script: line 14: 41222 Killed                  python train.py"], "failed"),
        (["Segmentation fault (core dumped)"], "failed"),
        (["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."], "failed"),
        (["Process finished with exit code 137 (interrupted by signal 9: SIGKILL)"], "failed"),
        (["Exit status: 1"], "failed"),
        ([CANCELLED + " DUE TO TASK FAILURE ***"], "failed"),
        (["2026-11-25 08:21:00 Received SIGTERM, saving a checkpoint and exiting"], "cancelled"),
        (["All epochs finished. Best accuracy 0.81."], "completed"),
        (["Fatal Python error: Bus error", "", "Thread 0x7f (most recent call first):"], "failed"),
        (["slurmstepd: error: Detected 1 oom_kill event in StepId=12.0."], "failed"),
        (["srun: error: n1: task 0: Exited with exit code 1", CANCELLED + " ***"], "failed"),
        ([CANCELLED + " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"], "failed"),
        ([CANCELLED + " ***", "srun: error: n3: task 0: Killed"], "cancelled"),
        ([CANCELLED + " DUE TO PREEMPTION ***"], "cancelled"),
        ([*FRAMES, "KeyboardInterrupt"], "cancelled"),
        ([CANCELLED + " DUE TO TIME LIMIT ***", "srun: error: n3: task 0: Terminated"], "timeout"),
        (["=>> PBS: job killed: walltime 3610 exceeded limit 3600"], "timeout"),
        ([*TRACEBACK, CANCELLED + " DUE TO TIME LIMIT ***"], "timeout"),
        (["2026-11-25 08:20:30 Training completed. 0 errors."], "completed"),
        (["saved to out/", "Finished training in 0:20:30", "wandb: Synced 5 files"], "completed"),
        (["`Trainer.fit` stopped: `max_epochs=3` reached."], "completed"),
        (["Training complete", "Exception ignored in: <function f at 0x7f>", *TRACEBACK], "completed"),
        (["Training complete", "Saving failed", *TRACEBACK], "failed"),
        (["Optimization finished!", "Test set results: accuracy= 0.81"], "completed"),
    ],
)
def test_the_end_is_told(tail: list[str], ended: str, tmp_path: Path) -> None:
    found = read(tmp_path, [*STEPS, *tail])
    assert found.ended == ended
    assert found.eta_seconds == (0.0 if ended == "completed" else None)
    assert found.anomaly is None  # no stall, however late it is
    assert found.current_step == 400
    assert found.evidence[0].text in tail
    assert found.evidence[-1].text == STEPS[-1]


@pytest.mark.parametrize(
    "lines",
    [
        STEPS,
        [*STEPS[:20], *TRACEBACK, *STEPS[20:]],
        [*STEPS[:20], CANCELLED + " DUE TO PREEMPTION ***", *STEPS[20:]],
        [*STEPS[:20], "Training complete", *STEPS[20:]],
        [*STEPS, "2026-11-25 08:20:10 ERROR upload failed", *TRACEBACK, "2026-11-25 08:20:10 INFO retrying in 30 s"],
        [*STEPS, *TRACEBACK, *[f"2026-11-25 08:20:1{i} INFO cleaning the cache" for i in range(4)]],
        [*STEPS, "Exception in thread Thread-5 (_monitor):", *TRACEBACK],
        [*STEPS, "--- Logging error ---", *TRACEBACK],
        [*STEPS, "2026-11-25 08:20:10 WARNING CUDA out of memory, halving the batch and retrying"],
        [*STEPS, "2026-11-25 08:20:10 Evaluating on the test set", "Test: [ 10/50] acc 0.71"],
        [*STEPS, "worker 3 exited with code 1, restarting"],
        [*STEPS, "EarlyStopping counter: 3 out of 10", "early stopping patience: 10"],
        [*STEPS, "2026-11-25 08:20:10 Training done for epoch 2, validating"],
        [*STEPS, "2026-11-25 08:20:10 a report follows once training is finished"],
        [*STEPS, "2026-11-25 08:20:10 fold 2: training finished"],
    ],
)
def test_the_job_goes_on(lines: list[str], tmp_path: Path) -> None:
    found = read(tmp_path, lines, SOON)
    assert (found.ended, found.anomaly, found.current_step) == (None, None, 400)
    assert found.eta_seconds == pytest.approx(4200)


def test_a_failed_rank_ends_the_job_unless_others_go_on(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"rank_{rank}.log").write_text("\n".join([*STEPS, *(TRACEBACK if rank == 1 else [])]) + "\n")
    assert read_progress(tmp_path, now=LATE).ended == "failed"
    (tmp_path / "rank_1.log").write_text("\n".join([*STEPS[:10], *TRACEBACK]) + "\n")
    assert read_progress(tmp_path, now=SOON).ended is None


def test_epochs_that_are_told_without_steps_count(tmp_path: Path) -> None:
    epochs = [f"{START + timedelta(minutes=20 * n)} epoch {n} finished, eval_loss 0.4" for n in (1, 2, 3)]
    found = read(tmp_path, [f"{START} epoch 1 step 50/700 loss 0.7", *epochs, "Training complete."])
    assert (found.current_epoch, found.ended, found.eta_seconds) == (3, "completed", 0.0)
    assert found.current_step is None


def test_silence_is_a_stall_though_nothing_counts(tmp_path: Path) -> None:
    prose = [f"{START + timedelta(seconds=30 * i)} INFO annealing the lattice" for i in range(40)]
    late = read(tmp_path, prose)
    assert (late.anomaly, late.current_step) == ("stall", None)
    assert [line.text for line in late.evidence] == prose[-1:]
    soon = read(tmp_path, prose, datetime(2026, 11, 25, 8, 22))
    assert (soon.anomaly, soon.not_understood) == (None, ("counter",))
    assert read(tmp_path, prose, None).anomaly is None
    assert read(tmp_path, [*prose, *["a line without a time"] * 30]).anomaly is None
    assert read(tmp_path, [*prose, "Training completed"]).anomaly is None


def test_what_was_not_understood_is_said(tmp_path: Path) -> None:
    assert read(tmp_path, ["hello"]).not_understood == ("counter", "time")
    assert read(tmp_path, [f"step {i} loss 2.0" for i in range(9)]).not_understood == ("time",)
    assert read(tmp_path, STEPS, SOON).not_understood == ()


@pytest.mark.parametrize(
    ("now", "anomaly"),
    [(datetime(2026, 11, 25, 8, 20, 40), None), (datetime(2026, 11, 25, 9, 40), "stall"), (START, None)],
)
def test_a_clock_without_dates(now: datetime, anomaly: str | None, tmp_path: Path) -> None:
    assert read(tmp_path, [line[11:] for line in STEPS], now).anomaly == anomaly


def test_times_without_a_zone_are_in_that_of_now(tmp_path: Path) -> None:
    assert read(tmp_path, STEPS, datetime.fromisoformat("2026-11-25T08:20:40+05:00")).anomaly is None
    assert read(tmp_path, STEPS, datetime.fromisoformat("2026-11-25T09:20:40+05:00")).anomaly == "stall"
    zoned = [line.replace(" step", "Z step") for line in STEPS]
    assert read(tmp_path, zoned, datetime.fromisoformat("2026-11-25T13:20:40+05:00")).anomaly is None
