"""SWF: the eighteen fields, comments, and rows that can not be used."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.traces import open_trace

GOOD = "1 100 20 300 4 -1 -1 8 600 -1 1 7 3 2 -1 -1 -1 -1"


def read(path: Path, text: str) -> tuple[list[JobRecord], TraceNotes]:
    path.write_text(text)
    records, notes = open_trace(path)
    return list(records), notes


def row(**changes: float | str) -> str:
    names = [
        *("job", "submit", "wait", "run", "alloc", "cpu", "mem", "procs", "req"),
        *("reqmem", "status", "user", "group", "app", "queue", "part", "prev", "think"),
    ]
    values = dict(zip(names, GOOD.split(), strict=True)) | {k: str(v) for k, v in changes.items()}
    return " ".join(values.values())


def test_the_fields(tmp_path: Path) -> None:
    records, notes = read(tmp_path / "t.swf", f"; Computer: test machine\n; MaxProcs: 128\n{GOOD}\n")
    assert records == [
        JobRecord(
            job_id="1",
            submit_s=100,
            start_s=120,
            duration_s=300,
            gpus=8,
            user="7",
            tenant="3",
            name="app2",
            requested_s=600,
            outcome="completed",
            end_s=420,
            state="completed",
        )
    ]
    assert notes.header == {"Computer": "test machine", "MaxProcs": "128"}


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({"procs": -1}, "gpus", 4),
        ({"req": 100}, "requested_s", 100),  # what was asked, also where the job ran for longer
        ({"req": -1}, "requested_s", None),
        ({"status": 0}, "outcome", "failed"),
        ({"status": 5}, "outcome", "cancelled"),
        ({"status": -1}, "outcome", None),
        ({"wait": -1}, "start_s", None),
        ({"user": -1}, "user", None),
        ({"app": -1}, "name", None),
    ],
)
def test_what_is_unknown_or_inconsistent(
    tmp_path: Path, changes: dict[str, float], field: str, expected: object
) -> None:
    records, _ = read(tmp_path / "t.swf", row(**changes))
    assert getattr(records[0], field) == expected


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row(run=0), "runtime is 0 or less"),
        (row(run=-1), "runtime is 0 or less"),
        (row(procs=-1, alloc=-1), "no processors stated"),
        (row(status=3), "partial run of a checkpointed job"),
        (row(submit="nan"), "a field is not finite"),
        ("1 2 3", "not 18 numbers"),
        ("hello", "not 18 numbers"),
        (row(run=1e300), "a field is out of range"),
    ],
)
def test_bad_rows_are_counted(tmp_path: Path, bad: str, reason: str) -> None:
    records, notes = read(tmp_path / "t.swf", f"{GOOD}\n{bad}\n{row(job=3)}\n")
    assert [r.job_id for r in records] == ["1", "3"]
    assert notes.skipped == {reason: 1} and notes.examples == [f"line 2: {reason}"]


def test_options_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.swf").write_text(GOOD)
    with pytest.raises(UserError, match="no options"):
        open_trace(tmp_path / "t.swf", None, {"gpus": "x"})


def test_gzip_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(gzip.compress(GOOD.encode()))
    records, _ = open_trace(tmp_path / "t.txt")
    assert len(list(records)) == 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_records_or_a_user_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "t.swf"
    path.write_bytes(GOOD.encode() + b"\n" + data)
    try:
        records, notes = open_trace(path, "swf")
        assert notes.rows == len(list(records)) or notes.rows >= 1
    except UserError as error:
        assert "\n" not in str(error)


def test_kth_drops_its_nine_jobs_that_never_ran(shared_data: Path) -> None:
    records, notes = open_trace(shared_data / "traces" / "kth_sp2.swf.gz")
    assert len(list(records)) == 28_476 - 9
    assert sum(notes.skipped.values()) == 9
