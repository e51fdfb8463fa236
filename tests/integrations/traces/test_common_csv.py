"""The common form: written and read back, nothing changes; bad rows are counted."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord, Outcome, State
from integrations.traces.common_csv import FIELDS, CommonWriter
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.traces import open_trace

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
TIMES = st.floats(-1e12, 1e12)
LENGTHS = st.floats(0, 1e12)
COUNTS = st.integers(0, 10_000_000)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


RECORDS = st.builds(
    JobRecord,
    job_id=TEXT, submit_s=TIMES, duration_s=maybe(LENGTHS), gpus=COUNTS, start_s=maybe(TIMES), user=maybe(TEXT),
    tenant=maybe(TEXT), name=maybe(TEXT), command=maybe(TEXT), gpu_type=maybe(TEXT), nodes=maybe(COUNTS),
    requested_s=maybe(LENGTHS), outcome=maybe(st.sampled_from(get_args(Outcome))), fingerprint=maybe(TEXT),
    facts=st.dictionaries(TEXT, st.none() | st.integers(-9, 9) | TEXT | st.lists(TEXT, max_size=2), max_size=2),
    peak_gpu_memory_mib=maybe(LENGTHS), mean_gpu_utilization=maybe(st.floats(0, 1)),
    peak_host_memory_mib=maybe(LENGTHS), eligible_s=maybe(TIMES), end_s=maybe(TIMES),
    state=maybe(st.sampled_from(get_args(State))), partition=maybe(TEXT), cpus=maybe(LENGTHS),
    memory_mib=maybe(LENGTHS), gpu_milli=maybe(COUNTS), attempts=maybe(COUNTS), ran_so_far_s=maybe(LENGTHS),
)  # fmt: skip


def written(records: list[JobRecord]) -> str:
    stream = io.StringIO(newline="")
    assert CommonWriter().write(records, stream, TraceNotes()) == (len(records), {})
    return stream.getvalue()


def test_the_fields_are_those_of_a_record() -> None:
    assert {field.name for field in dataclasses.fields(JobRecord)} == set(FIELDS)


@settings(max_examples=150, deadline=None)
@given(records=st.lists(RECORDS, min_size=1, max_size=4))
def test_nothing_is_lost_on_the_way_there_and_back(
    tmp_path_factory: pytest.TempPathFactory, records: list[JobRecord]
) -> None:
    path = tmp_path_factory.mktemp("common") / "t.csv"
    path.write_text(written(records), encoding="utf-8", newline="")
    back, notes = open_trace(path, "schedmate")
    assert list(back) == records and not notes.skipped


def test_every_sample_survives(sample, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(sample[1])
    records = list(open_trace(tmp_path / "t")[0])
    (tmp_path / "u").write_text(written(records), newline="")
    assert list(open_trace(tmp_path / "u")[0]) == records


def test_columns_in_any_order_and_some_missing(read) -> None:
    (record,), _ = read("state,gpus,duration_s,submit_s,job_id,unknown\nfailed,2,5,1,a,x\n")
    assert (record.gpus, record.state, record.duration_s) == (2, "failed", 5)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,1", "too few columns"),
        ("a,1,2,3,completed,6", "too many columns"),
        (",1,2,3,completed", "job_id is missing"),
        ("a,soon,2,3,completed", "submit_s is not what it should be"),
        ("a,1,-2,3,completed", "duration_s is not what it should be"),
        ("a,1,nan,3,completed", "duration_s is not what it should be"),
        ("a,1,2,-3,completed", "gpus is not what it should be"),
        ("a,1,2,3,exploded", "state is not what it should be"),
        ('a,1,2,3,"completed', "quotes do not match"),
    ],
)
def test_bad_rows_are_counted(read, row: str, reason: str) -> None:
    records, notes = read(f"job_id,submit_s,duration_s,gpus,state\n{row}\nb,1,2,3,completed\n")
    assert [record.job_id for record in records] == ["b"]
    assert notes.skipped == {reason: 1}


def test_options_are_refused(read) -> None:
    with pytest.raises(UserError, match="no options"):
        read("job_id,submit_s,duration_s,gpus,state\na,1,2,3,completed\n", gpus="x")
