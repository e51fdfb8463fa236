"""Following logs that grow, are rotated, truncated, replaced and removed."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzers.logs import read_progress
from analyzers.logs.follow import Follower
from analyzers.types import Progress
from prompts.errors import UserError


def _steps(first: int, last: int) -> str:
    return "".join(f"step {step}/900 loss {3 - step / 900:.4f}\n" for step in range(first, last))


def _follower(path: Path, told: list[str] | None = None) -> Follower:
    return Follower(path, (told if told is not None else []).append, every_s=1.0)


def _now(follower: Follower, passed_s: float = 0.0) -> dict[str, Progress]:
    follower.poll(passed_s)
    follower.poll(passed_s)  # a line without an end counts once nothing follows
    follower.assess(len(follower.logs), passed_s)
    return {name: one.progress for name, one in follower.logs.items()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    cuts=st.lists(st.integers(1, 4000), max_size=12),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-16"]),
    is_ended=st.booleans(),
)
def test_however_it_was_written_the_end_is_the_same(
    tmp_path: Path, cuts: list[int], end: str, encoding: str, is_ended: bool
) -> None:
    text = "the configuration: ü\n" + _steps(1, 120).replace("\n", end)
    data = (text if is_ended else text.removesuffix(end)).encode(encoding)
    log = tmp_path / "a.log"
    log.write_bytes(data[:60])
    follower = _follower(log)
    at = 60
    for cut in [*cuts, len(data)]:
        with log.open("ab") as stream:
            stream.write(data[at : at + cut])
        at += cut
        follower.poll()
    found, whole = _now(follower)["a.log"], read_progress(log)
    assert (found.current_step, found.total_steps, found.last_loss) == (119, 900, whole.last_loss)
    assert found.evidence == whole.evidence


def test_a_rotated_log_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(_steps(1, 50))
    follower = _follower(log)
    log.rename(tmp_path / "a.log.1")
    assert _now(follower)["a.log"].current_step == 49
    log.write_text(_steps(50, 70))
    found = _now(follower)["a.log"]
    assert found.current_step == 69
    assert found.anomaly is None


def test_what_was_written_before_a_rotation_is_read(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("max_steps 500\n" + _steps(1, 50))
    follower = _follower(log)
    with log.open("a") as stream:
        stream.write("checkpoint saved to ck/49.pt\nlearning rate 0.25")
    log.rename(tmp_path / "a.log.1")
    log.write_text("another file begins\n")
    found = _now(follower)["a.log"]
    assert found.checkpoint is not None
    assert (found.checkpoint.path, found.metrics) == ("ck/49.pt", (("learning_rate", 0.25),))


def test_a_truncated_log_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(_steps(1, 50))
    follower = _follower(log)
    with log.open("r+") as stream:
        stream.truncate(0)
        stream.write(_steps(50, 53))
    assert _now(follower)["a.log"].current_step == 52


def test_a_removed_log_keeps_what_is_known(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text(_steps(1, 50))
    follower = _follower(tmp_path)
    (tmp_path / "b.log").unlink()
    assert {name: one.current_step for name, one in _now(follower).items()} == {"a.log": 49, "b.log": 49}


def test_new_logs_are_found_and_packed_ones_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(_steps(1, 50))
    follower = _follower(tmp_path)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(_steps(1, 60).encode()))
    (tmp_path / "c.log").write_text("")
    follower.look()
    (tmp_path / "c.log").write_text(_steps(1, 20))
    follower.look()
    assert {name: one.current_step for name, one in _now(follower).items()} == {
        "a.log": 49,
        "b.log.gz": 59,
        "c.log": 19,
    }


def test_much_that_was_added_at_once_is_read_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(_steps(1, 5))
    follower = _follower(log)
    with log.open("a") as stream:
        stream.write("".join(f"step {step}/900000 loss 2.5\n" for step in range(5, 90_000)))
    assert _now(follower)["a.log"].current_step == 89_999


def test_a_log_without_times_that_stops_moving_has_stalled(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(_steps(1, 10))
    follower = _follower(log)
    for second in range(10, 40):
        with log.open("a") as stream:
            stream.write(_steps(second, second + 1))
        assert _now(follower, float(second))["a.log"].anomaly is None
    assert _now(follower, 60.0)["a.log"].anomaly is None
    assert _now(follower, 200.0)["a.log"].anomaly == "stall"
    with log.open("a") as stream:
        stream.write(_steps(40, 42))
    assert _now(follower, 202.0)["a.log"].anomaly is None


def _grown(log: Path, text: str, follower: Follower, passed_s: float) -> Progress:
    with log.open("a") as stream:
        stream.write(text)
    return _now(follower, passed_s)["a.log"]


def test_a_log_without_times_is_quiet_and_an_evaluation_holds_its_stall_back(tmp_path: Path) -> None:
    """Lines without time stamps came when they were seen; what was there before that is of no known time."""
    log = tmp_path / "a.log"
    log.write_text(_steps(1, 200))
    follower = _follower(log)
    assert _now(follower, 0.0)["a.log"].quiet is None
    for at in range(200, 280):
        assert _grown(log, _steps(at, at + 1), follower, 30.0 * (at - 199)).quiet is None
    found = _grown(log, "", follower, 2400.0 + 100.0)
    assert found.anomaly == "stall"
    assert found.quiet is not None
    assert found.quiet.usual_gap_s == pytest.approx(30.0)
    assert _grown(log, _steps(280, 281), follower, 2520.0).anomaly is None
    found = _grown(log, "Running validation\n", follower, 2525.0)
    found = _grown(log, "", follower, 2520.0 + 600.0)
    assert found.anomaly is None
    assert found.quiet is not None
    assert found.quiet.may_be == "eval"
    assert _grown(log, "", follower, 2520.0 + 4000.0).anomaly == "stall"


@pytest.mark.parametrize("ahead_s", [-7200, -300, 0, 300, 7200])
def test_a_log_by_another_clock_is_no_stall_and_hides_none(ahead_s: int, tmp_path: Path) -> None:
    """Of a node whose clock is off, or in another zone: what is written now says by how much."""
    log = tmp_path / "a.log"
    log.write_text("starting\n")
    follower = _follower(log)
    begun = datetime.now() + timedelta(seconds=ahead_s)
    for at in range(1, 90):
        line = f"{begun + timedelta(seconds=30 * at):%Y-%m-%d %H:%M:%S} {_steps(at, at + 1)}"
        follower.poll(30.0 * at)
        with log.open("a") as stream:
            stream.write(line)
        follower.poll(30.0 * at)
    one = follower.logs["a.log"]
    for passed, wanted in ((20, None), (80, None), (100, "stall")):
        one.assess(datetime.now().astimezone() + timedelta(seconds=30 * 89 + passed), 30.0 * 89 + passed)
        assert one.progress.anomaly == wanted


@pytest.mark.parametrize(
    "line",
    [
        "the certificate of the registry is valid until 2031-01-01 00:00:00\n",
        "2031-01-01 00:00:00 the lease ends\n",
        "9999-12-31 23:59:59 no end\n",
        "1970-01-01 00:00:03 the clock is not set yet\n",
    ],
)
@pytest.mark.parametrize("lines_after", [1, 3, 20])
def test_one_line_that_names_another_time_is_no_other_clock(line: str, lines_after: int, tmp_path: Path) -> None:
    assert _by_clock(tmp_path, lambda at: 0, 57, {57 - lines_after: line}) == [None, None, "stall"]


@pytest.mark.parametrize("change_s", [3600, -3600, 300, -300])
@pytest.mark.parametrize("lines_after", [1, 2, 4, 20])
def test_a_clock_that_is_set_anew_is_no_stall(change_s: int, lines_after: int, tmp_path: Path) -> None:
    """Summer time begins or ends, or a node's clock is set right, while its log is followed."""
    found = _by_clock(tmp_path, lambda at: change_s if at > 57 - lines_after else 0, 57, {})
    assert found[:2] == [None, None]
    if lines_after > 3 or change_s < 0:
        assert found[2] == "stall"


def _by_clock(folder: Path, ahead_s: Callable[[int], int], lines: int, more: dict[int, str]) -> list[str | None]:
    """The anomalies told 20, 80 and 140 s after the last line of a log with a step each 30 s; ``ahead_s`` is how far
    its clock is ahead then."""
    log = folder / "a.log"
    log.write_text("starting\n")
    follower = _follower(log)
    begun = datetime.now()
    for at in range(1, lines + 1):
        time = begun + timedelta(seconds=30 * at + ahead_s(at))
        follower.poll(30.0 * at)
        with log.open("a") as stream:
            stream.write(f"{time:%Y-%m-%d %H:%M:%S} {_steps(at, at + 1)}{more.get(at, '')}")
        follower.poll(30.0 * at)
    one = follower.logs["a.log"]
    told: list[str | None] = []
    for passed in (20, 80, 140):
        one.assess(datetime.now().astimezone() + timedelta(seconds=30 * lines + passed), 30.0 * lines + passed)
        told.append(one.progress.anomaly)
    return told


@pytest.mark.parametrize("is_stamped", [False, True])
@pytest.mark.parametrize("way", ["replaced", "emptied", "cut"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_log_that_is_copied_whole_again_and_again_stalls(
    is_stamped: bool, way: str, end: str, tmp_path: Path
) -> None:
    """A job that stands still while somebody writes all of its log anew each minute."""
    log = tmp_path / "a.log"
    begun = datetime.now()

    def copy(steps: int) -> None:
        times = [begun + timedelta(seconds=20 * at) for at in range(1, steps)]
        lines = [f"{time:%Y-%m-%d %H:%M:%S} " if is_stamped else "" for time in times]
        text = "\n".join(line + f"step {at}/900 loss 2.5" for at, line in enumerate(lines, 1)) + end
        if way == "replaced":
            (tmp_path / "new").write_text(text)
            (tmp_path / "new").rename(log)
            return
        log.write_text("" if way == "emptied" else text[:20])
        if log.exists() and steps > 2:
            follower.poll(60.0 * minute)
        log.write_text(text)

    follower, minute = _follower(_written(log)), 0
    told = []
    for minute in range(1, 40):
        copy(3 * min(minute, 24) + 1)
        follower.poll(60.0 * minute)
        follower.poll(60.0 * minute + 1)
        one = follower.logs["a.log"]
        one.assess(begun.astimezone() + timedelta(seconds=60 * minute), 60.0 * minute)
        told.append(one.progress.anomaly)
    assert told[:24] == [None] * 24
    assert told[-1] == "stall"


def _written(log: Path) -> Path:
    log.write_text("starting\n")
    return log


def test_a_log_that_has_times_later_keeps_to_them(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("starting\n")
    follower = _follower(log)
    _grown(log, _steps(1, 2), follower, 5.0)
    begun = datetime.now() - timedelta(seconds=20)
    stamped = "".join(f"{begun + timedelta(seconds=k):%Y-%m-%d %H:%M:%S} {_steps(k, k + 1)}" for k in range(2, 20))
    found = _grown(log, stamped, follower, 40.0)
    assert found.anomaly is None
    assert found.seconds_per_step == pytest.approx(1.0, rel=0.2)


def test_a_log_with_times_stalls_by_the_clock(tmp_path: Path) -> None:
    begun = datetime.now() - timedelta(seconds=600)
    log = tmp_path / "a.log"
    log.write_text(
        "".join(f"{begun + timedelta(seconds=k):%Y-%m-%d %H:%M:%S} step {k}/900 loss 2.5\n" for k in range(60))
    )
    assert _now(_follower(log))["a.log"].anomaly == "stall"


def test_nothing_to_follow_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        _follower(tmp_path)


def test_little_is_kept_of_each_of_very_many(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.log").write_text(_steps(1, 600))
    follower = _follower(tmp_path)
    for one in follower.logs.values():
        limits = one.tracker.limits
        assert all(len(series.records()) <= limits.recent + limits.older for series in one.tracker.series.values())
        assert limits.recent + limits.older < 200
        assert len(one.tracker.series) <= limits.series
