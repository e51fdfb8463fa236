"""A stall is told after three gaps, wherever no pause is due; a pause that is due is none."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.logs import read_progress
from analyzers.logs.evenly import Even
from analyzers.types import Progress

_GAP_S = 30
_PAUSE_S = 600


class _Run:
    """A record of 7 steps each 30 s; pauses of 10 min."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 2, 7)
        self.step = 0
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(f"{self.time:%Y-%m-%d %H:%M:%S} {text}")

    def train(self, records: int) -> _Run:
        for _ in range(records):
            self.time += timedelta(seconds=_GAP_S)
            self.step += 7
            self.say(f"step {self.step}/9001 loss 2.1")
        return self

    def pause(self, before: str = "", after: str = "", parts: int = 1, seconds: float = _PAUSE_S) -> _Run:
        for part in range(parts):
            if before:
                self.say(before.format(part))
            self.time += timedelta(seconds=seconds / parts)
        if after:
            self.say(after)
        return self

    def seen(self, folder: Path, seconds: float) -> Progress:
        (folder / "train.log").write_text("\n".join(self.lines))
        return read_progress(folder / "train.log", now=self.time + timedelta(seconds=seconds))

    def is_stalled(self, folder: Path, seconds: float) -> bool:
        return self.seen(folder, seconds).anomaly == "stall"


def _evaluating(times: int, before: str = "", after: str = "") -> _Run:
    run = _Run()
    for _ in range(times):
        run.train(40).pause(before, after)
    return run


def test_quiet_is_told_after_three_gaps_wherever_the_job_is(tmp_path: Path) -> None:
    for more, reason in ((40, "eval"), (17, None)):
        run = _evaluating(5, after="validation loss 2.2").train(more)
        assert run.seen(tmp_path, 2.9 * _GAP_S).quiet is None
        found = run.seen(tmp_path, 3.1 * _GAP_S)
        assert found.quiet is not None
        assert found.quiet.may_be == reason
        assert found.quiet.seconds == pytest.approx(3.1 * _GAP_S, abs=1)
        assert found.quiet.usual_gap_s == _GAP_S
        assert (found.anomaly == "stall") == (found.quiet.seconds > found.quiet.stall_after_s) == (reason is None)


def test_an_ended_job_is_not_quiet(tmp_path: Path) -> None:
    run = _evaluating(2).train(17)
    run.say("slurmstepd: error: *** JOB 77 ON gpu-1 CANCELLED AT 2026-03-02T09:00:00 ***")
    found = run.seen(tmp_path, 7200)
    assert found.ended == "cancelled"
    assert found.quiet is None


@pytest.mark.parametrize(
    ("before", "after"), [("Running validation", ""), ("", "validation loss 2.2"), ("", ""), ("Saving checkpoint", "")]
)
def test_long_pauses_elsewhere_do_not_hide_a_stall(before: str, after: str, tmp_path: Path) -> None:
    run = _evaluating(5, before, after).train(17)
    assert not run.is_stalled(tmp_path, 2 * _GAP_S)
    assert run.is_stalled(tmp_path, 3.2 * _GAP_S)


@pytest.mark.parametrize(("before", "after"), [("Running validation", ""), ("", "validation loss 2.2"), ("", "")])
def test_a_pause_that_is_due_is_no_stall_unless_it_never_ends(before: str, after: str, tmp_path: Path) -> None:
    run = _evaluating(5, before, after).train(40)
    if before:
        run.say(before)
    assert not run.is_stalled(tmp_path, 1.3 * _PAUSE_S)
    assert run.is_stalled(tmp_path, 2 * _PAUSE_S)


def test_a_first_evaluation_may_last_and_one_that_counts_lives(tmp_path: Path) -> None:
    run = _Run().train(131)
    run.say("***** Running Evaluation *****")
    assert not run.is_stalled(tmp_path, 25 * _GAP_S)
    run.pause("validating batch {}/90", parts=90, seconds=7200)
    assert not run.is_stalled(tmp_path, 2 * _GAP_S)
    assert run.is_stalled(tmp_path, 1800)


def test_two_announced_pauses_may_follow_on_each_other(tmp_path: Path) -> None:
    run = _Run()
    for word in ("Running validation", "Saving checkpoint", "Running validation", "Saving checkpoint"):
        run.train(23).pause(word)
    run.train(19).pause("Running validation").say("Saving checkpoint")
    assert not run.is_stalled(tmp_path, 1.2 * _PAUSE_S)


def test_unevenly_coming_silences_without_a_reason_are_allowed_for(tmp_path: Path) -> None:
    run = _Run()
    for records in (31, 12, 55, 17, 40):
        run.train(records).pause()
    run.train(23)
    assert not run.is_stalled(tmp_path, 1.2 * _PAUSE_S)


@given(apart=st.integers(4, 500), count=st.integers(2, 12), begin=st.integers(0, 3))
def test_what_comes_evenly_is_due_next_and_only_there(apart: int, count: int, begin: int) -> None:
    places = [float(apart * (1 + at)) for at in range(count)]
    evenly = Even(places, within=1.0, since=float(begin), from_zero=True)
    assert evenly.due(places[-1] + apart)
    assert not evenly.due(places[-1] + apart / 2 + (1 if apart > 6 else 0)) or apart < 8
    assert all(evenly.keeps_coming(at) for at in range(count))
