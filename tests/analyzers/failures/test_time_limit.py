"""What is said about a job that reached its time limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.failures import diagnose
from analyzers.types import Diagnosis

LIMIT = "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2026-01-02T16:00:00 DUE TO TIME LIMIT ***\n"


def ended(tmp_path: Path, text: str) -> Diagnosis:
    path = tmp_path / "slurm-9.out"
    path.write_text(text + LIMIT, encoding="utf-8")
    return diagnose(path)


def steps(*minutes: str) -> str:
    return "".join(f"[2026-01-02 {at}:00] step {n} | loss 2.{n}\n" for n, at in enumerate(minutes, 1))


@pytest.mark.parametrize(
    "line",
    [
        "Resuming from ckpt/step_40000.pt",
        "Resumed training from checkpoint-500",
        "Restored all states from the checkpoint at /c/last.ckpt",
        "  Continuing training from global step 500",
        " successfully loaded checkpoint from /c/7b [ t 0, p 0 ] at iteration 5000",
    ],
)
def test_a_run_that_had_resumed_goes_on(tmp_path: Path, line: str) -> None:
    found = ended(tmp_path, line + "\n" + steps("15:00", "15:30", "15:59"))
    assert (found.action, found.retryable) == ("requeue_from_checkpoint", True)
    assert "slurm-9.out:1" in found.explanation


@pytest.mark.parametrize(
    "line",
    [
        "not resuming, starting from scratch",
        "saved checkpoint at step 500",
        "loaded checkpoint pretrained.pt",
        "resume: null",
    ],
)
def test_nothing_shows_resumption(tmp_path: Path, line: str) -> None:
    found = ended(tmp_path, line + "\n" + steps("15:00", "15:30", "15:59"))
    assert (found.action, found.retryable) == ("resubmit_longer_limit", False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (steps("15:00", "15:30", "15:59"), "It was not hanging: its last step was logged 60 s before the limit"),
        (steps("09:00", "09:10", "09:20"), "It was probably hanging: its last step was logged 6.7 h before the limit"),
        (steps("11:00", "13:00", "15:00"), "Its last step was logged 60 min before the limit"),
        ("step 1 loss 2.0\n", "Check first that the job had not been hanging."),
    ],
)
def test_whether_it_hung_is_told_from_the_last_step(tmp_path: Path, text: str, says: str) -> None:
    assert says in ended(tmp_path, text).explanation
