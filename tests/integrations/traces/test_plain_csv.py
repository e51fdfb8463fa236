"""CSV traces: columns by name, units, bad rows, and nothing that crashes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.traces import open_trace


def read(path: Path, text: str | bytes, **options: str) -> tuple[list[JobRecord], TraceNotes]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    records, notes = open_trace(path, "csv", options)
    return list(records), notes


@pytest.mark.parametrize(
    "header",
    [
        "job_id,submit,duration,gpus",
        "id,submit_time,runtime,num_gpus",
        "JobID;Arrival Time;Run Time;GPU_Num",
        "jobid\tsubmitted_at\trun_time\tgpu",
        "ID|Submit|Elapsed|NGPUs",
        '"job_id","submit","duration","gpus"',
        "\ufeffjob_id,submit,duration_s,gpus",
    ],
)
def test_usual_headers_are_recognised(tmp_path: Path, header: str) -> None:
    delimiter = next(d for d in ",;\t|" if d in header)
    row = delimiter.join(("a", "10", "20.5", "4"))
    records, notes = read(tmp_path / "t.csv", f"{header}\n{row}\n")
    assert [(r.job_id, r.submit_s, r.duration_s, r.gpus) for r in records] == [("a", 10, 20.5, 4)]
    assert notes.rows == 1 and not notes.skipped


def test_every_optional_column(tmp_path: Path) -> None:
    records, _ = read(
        tmp_path / "t.csv",
        "id,submit,start,end,gpus,user,account,job_name,command,time_limit,state,gpu_type,nodes,extra\n"
        '7,100,150,250,8,ann,vision,bert,"python t.py --x ""a,b""",1-00:00:00,CANCELLED by 12,A100,2,zzz\n',
    )
    assert records == [
        JobRecord(
            job_id="7",
            submit_s=100,
            start_s=150,
            duration_s=100,
            gpus=8,
            user="ann",
            tenant="vision",
            name="bert",
            command='python t.py --x "a,b"',
            requested_s=86_400,
            outcome="cancelled",
            gpu_type="A100",
            nodes=2,
            end_s=250,
            state="cancelled",
        )
    ]


def test_columns_can_be_mapped_and_unused_ones_are_ignored(tmp_path: Path) -> None:
    text = "when,how_long,workers,duration\n5,7,2,999\n"
    records, _ = read(tmp_path / "t.csv", text, submit="when", duration="how_long", gpus="workers")
    assert (records[0].submit_s, records[0].duration_s, records[0].gpus) == (5, 7, 2)
    assert records[0].job_id == "line2"


@pytest.mark.parametrize(
    ("header", "row", "options", "expected"),
    [
        ("submit,duration,gpus", "1000,2000,1", {"time_unit": "ms"}, (1.0, 2.0)),
        ("submit,duration_min,gpus", "30,2,1", {}, (30.0, 120.0)),
        ("submit_ms,duration (h),gpus", "3000,2,1", {}, (3.0, 7200.0)),
        ("submit,duration,gpus", "2024-01-01T00:00:00Z,1:02:03,1", {}, (1704067200.0, 3723.0)),
        ("submit,duration,gpus", "2024-01-01 01:00:00+01:00,2-00:00:01,1", {}, (1704067200.0, 172801.0)),
        ("submit,start,end,gpus", "0,2024-01-01T00:00:00,2024-01-01T00:01:00,1", {}, (0.0, 60.0)),
    ],
)
def test_units_and_clocks(
    tmp_path: Path, header: str, row: str, options: dict[str, str], expected: tuple[float, float]
) -> None:
    records, _ = read(tmp_path / "t.csv", f"{header}\n{row}\n", **options)
    assert (records[0].submit_s, records[0].duration_s) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2,1,-5,1", "duration is negative"),
        ("2,1,nan,1", "duration is not finite"),
        ("2,1,inf,1", "duration is not finite"),
        ("2,nan,5,1", "submit time is not finite"),
        ("2,one,5,1", "submit time is neither a number nor an ISO-8601 time"),
        ("2,1,,1", "duration is missing"),
        ("2,1,soon,1", "duration is no number"),
        ("2,1,5,", "gpus is missing"),
        ("2,1,5,0", "gpus is 0"),
        ("2,1,5,-1", "gpus is negative"),
        ("2,1,5,0.5", "gpus is no whole number"),
        ("2,1,5,1e300", "gpus is out of range"),
        ("2,1,1e300,1", "duration is out of range"),
        ("2,1", "too few columns"),
    ],
)
def test_a_bad_row_is_counted_with_its_line_and_the_rest_counts(tmp_path: Path, row: str, reason: str) -> None:
    records, notes = read(tmp_path / "t.csv", f"id,submit,duration,gpus\n1,0,5,1\n{row}\n3,2,7,2\n")
    assert [r.job_id for r in records] == ["1", "3"]
    assert notes.skipped == {reason: 1}
    assert notes.examples == [f"line 3: {reason}"]
    assert notes.rows == 2


def test_a_stray_quote_costs_one_row_only(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i},5,1,cmd\n" for i in range(200))
    records, _ = read(tmp_path / "t.csv", f'id,submit,duration,gpus,command\nx,0,5,1,"open\n{rows}')
    assert len(records) == 201


def test_a_command_over_several_lines_is_one_row(tmp_path: Path) -> None:
    records, _ = read(
        tmp_path / "t.csv", 'id,submit,duration,gpus,command\nx,0,5,1,"python a.py \\\n  --lr 1"\ny,1,5,1,b\n'
    )
    assert [r.command for r in records] == ["python a.py \\\n  --lr 1", "b"]


def test_missing_columns_name_those_there_are_and_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path / "t.csv", "alpha,beta\n1,2\n")
    message = str(error.value)
    assert "alpha, beta" in message and "--column" in message and "submit" in message and "\n" not in message


@pytest.mark.parametrize("options", [{"gpus": "nope"}, {"colour": "alpha"}, {"delimiter": "ab"}, {"time_unit": "y"}])
def test_bad_options_are_user_errors(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(UserError):
        read(tmp_path / "t.csv", "id,submit,duration,gpus\n1,0,5,1\n", **options)


def test_utf16_as_spreadsheets_write_it(tmp_path: Path) -> None:
    records, _ = read(tmp_path / "t.csv", "id,submit,duration,gpus,user\n1,0,5,1,Zoë\n".encode("utf-16"))
    assert records[0].user == "Zoë"


HEADER = b"id,submit,duration,gpus,user,command,status\n"


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=400), with_header=st.booleans())
def test_any_bytes_give_records_counts_or_a_user_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, with_header: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "t.csv"
    try:
        records, notes = read(path, HEADER + data if with_header else data)
    except UserError as error:
        assert "\n" not in str(error)
        return
    assert notes.rows == len(records) > 0
    for record in records:
        assert record.gpus >= 1 and record.duration_s is not None and 0 <= record.duration_s < 1e14


@settings(max_examples=100, deadline=None)
@given(
    cells=st.lists(
        st.tuples(st.sampled_from(["1", "-1", "nan", "", "x", '"', "1e999", "0", "2024-01-01"]), st.text(max_size=5)),
        max_size=12,
    )
)
def test_rows_used_and_skipped_add_up(tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("rows") / "t.csv"
    lines = [f"{number},{number},{cell},1" for number, (cell, _) in enumerate(cells)]
    records, notes = read(path, "id,submit,duration,gpus\n" + "\n".join(lines) + "\nlast,9,9,9\n")
    if not any('"' in line for line in lines):
        assert notes.rows + sum(notes.skipped.values()) == len(cells) + 1
    assert records[-1].job_id == "last" or any('"' in line for line in lines)


@pytest.mark.parametrize(
    "cell", ["9" * 5000 + ":00:00", "9" * 400 + ":00:00", "9" * 5000 + "-00:00:00", "9" * 5000, "1:2:3." + "9" * 5000]
)
def test_absurd_numbers_cost_their_row_only(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        f"job_id,submit_time,duration,gpus,time_limit\n1,0,{cell},1,5\n2,{cell},5,1,5\n3,0,5,{cell},5\n4,0,5,1,{cell}\n"
    )
    records, _ = open_trace(path)
    assert "4" in {record.job_id for record in records}


def test_a_long_header_is_read_in_time(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    wide = ",".join(unit * (100_000 // len(unit)) for unit in ("_", "a_", " ", "a(", "_s"))
    path.write_text(f"submit,duration_min,gpus,{wide}x\n0,2,1,\n")
    since = time.process_time()
    records, _ = open_trace(path)
    assert [record.duration_s for record in records] == [120.0]
    assert time.process_time() - since < 5


@pytest.mark.parametrize("cell", ["-4", "nan", "inf", "1e300", "soon"])
@pytest.mark.parametrize("column", ["requested", "start", "eligible", "cpus", "nodes", "attempts", "gpu_milli"])
def test_cells_that_can_not_be_used_are_counted(read, column: str, cell: str) -> None:
    if (column, cell) in {("start", "-4"), ("eligible", "-4")}:
        pytest.skip("a time of the trace's own clock")
    (record, other), notes = read(f"id,submit,duration,gpus,{column}\n1,0,9,1,{cell}\n2,0,9,1,-1\n")
    assert notes.remarks == {f"{column} can not be read: not used": 1}
    assert replace(record, job_id="") == replace(other, job_id="")


def test_words_for_none_are_no_odd_cells(read) -> None:
    rows = "".join(f"{i},0,9,1,{word}\n" for i, word in enumerate(("UNLIMITED", "-1", "", "Partition_Limit", "None")))
    records, notes = read(f"id,submit,duration,gpus,timelimit\n{rows}")
    assert {record.requested_s for record in records} == {None} and not notes.remarks


@pytest.mark.parametrize(
    "header", ["id,submit,duration,gpus,gpus", "id,submit,duration,gpus,GPUS", "submit,submit,duration,gpus,id"]
)
def test_two_columns_of_one_name_are_refused(read, header: str) -> None:
    with pytest.raises(UserError, match=r"two columns are named '(gpus|submit)'"):
        read(f"{header}\n1,0,9,1,2\n")
    records, _ = read("id,submit,duration,gpus,note,note\n1,0,9,1,2,3\n")
    assert records[0].gpus == 1


@pytest.mark.parametrize(("column", "cell"), [("duration", "3600"), ("elapsed", "01:00:00")])
def test_the_hour_that_comes_twice_is_what_the_row_says(read, column: str, cell: str) -> None:
    row = f"1,2026-10-25T01:50:00,2026-10-25T02:30:00,2026-10-25T03:30:00,{cell},1"
    (record,), notes = read(f"id,submit,start,end,{column},gpus\n{row}\n", timezone="Europe/Berlin")
    assert (record.start_s, record.end_s, notes.remarks) == (1792891800.0, 1792895400.0, {})
