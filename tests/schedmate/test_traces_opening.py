"""Opening files: what is no readable trace says so in one line."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate.traces import format_names, lines, open_trace, told_skips, trace_options

ROWS = "id,submit,duration,gpus\n" + "".join(f"{i},{i * 7},{i * 37 % 999 + 1},1\n" for i in range(5000))


def drained(path: Path) -> int:
    records, _ = open_trace(path)
    return sum(1 for _ in records)


def test_both_formats_are_registered_and_told_apart(tmp_path: Path, shared_data: Path) -> None:
    assert {"csv", "swf"} <= set(format_names())
    assert drained(shared_data / "traces" / "kth_sp2.swf.gz") == 28_467
    assert drained(shared_data / "traces" / "philly_oct_w1.csv.gz") == 10_650


def test_gzip_under_any_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(gzip.compress(ROWS.encode()))
    (tmp_path / "b.csv.gz").write_text(ROWS)
    assert drained(tmp_path / "a.csv") == drained(tmp_path / "b.csv.gz") == 5000


def bad_file(path: Path, kind: str) -> Path:
    whole = gzip.compress(ROWS.encode())
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_bytes(
            {
                "empty": b"",
                "empty gzip": gzip.compress(b""),
                "cut gzip": whole[: len(whole) // 2],
                "cut gzip header": whole[:5],
                "damaged gzip": b"\x1f\x8b\x08\x00" + b"\x55" * 400,
                "flipped gzip": whole[:-6] + bytes([whole[-6] ^ 255]) + whole[-5:],
                "binary": bytes(range(256)) * 64,
                "zip": b"PK\x03\x04" + b"\0" * 50,
                "prose": b"Dear all,\nthe cluster will be down.\n",
                "only a header": b"id,submit,duration,gpus\n",
                "only bad rows": b"id,submit,duration,gpus\n1,2,-3,4\n",
            }[kind]
        )
    return path


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("missing", "no such file"),
        ("folder", "is a folder"),
        ("pipe", "not a regular file"),
        ("empty", "is empty"),
        ("empty gzip", "is empty"),
        ("cut gzip", "ends early"),
        ("cut gzip header", "ends early"),
        ("damaged gzip", "is damaged"),
        ("flipped gzip", "is damaged"),
        ("binary", "binary"),
        ("zip", "zip data"),
        ("prose", "not recognised"),
        ("only a header", "no usable job"),
        ("only bad rows", "1 x duration is negative"),
    ],
)
def test_unreadable_input_is_one_clear_line(tmp_path: Path, kind: str, said: str) -> None:
    path = bad_file(tmp_path / "input", kind)
    with pytest.raises(UserError) as error:
        drained(path)
    assert said in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)
    assert error.value.hint


def test_lines_of_every_kind_of_ending(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"a\r\nb\rc\nd")
    assert list(lines(tmp_path / "t")) == ["a\n", "b\n", "c\n", "d"]


def test_options_from_flags() -> None:
    assert trace_options(["gpus=n"], "ms", "tab") == {"gpus": "n", "time_unit": "ms", "delimiter": "tab"}
    with pytest.raises(UserError, match="NAME=HEADER"):
        trace_options(["gpus"])


def test_skipped_rows_are_told_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,submit,duration,gpus\n1,0,5,1\n2,0,-5,1\n3,0,-5,1\n")
    records, notes = open_trace(path)
    list(records)
    told = told_skips(path, notes)
    assert told[0].endswith("skipped 2 of 3 rows: 2 x duration is negative")
    assert told[1:] == ["  line 3: duration is negative", "  line 4: duration is negative"]


def test_an_endless_line_fills_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with path.open("w") as stream:
        stream.write("job_id,submit_time,duration,gpus,name\n1,0,5,1,")
        for _ in range(64):
            stream.write("x" * (1 << 20))
        stream.write("\n2,1,5,1,b\n")
    tracemalloc.start()
    records, _ = open_trace(path)
    found = [record.job_id for record in records]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == ["1", "2"]
    assert peak_bytes < 20 << 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"jobs": [', "job 1 is cut off"),
        ('{"jobs": [{"job_id": 1, "us', "job 1 is cut off"),
        ('{"jobs":', "no JSON array 'jobs' in it, or it is cut off"),
        ('{"meta": {"Slurm": {', "no JSON array 'jobs' in it, or it is cut off"),
        ('{"jobs": [{"account": "a", "comment": {"administrator": "', "job 1 is cut off"),
        ("{", "or it is cut off"),
        ('{"meta": {"plu', "or it is cut off"),
        ('{"a":[1,2]}', "JSON, but no dump of sacct"),
        ("[1,2]", "JSON, but no dump of sacct"),
        ('[{"status": "Pa', "or it is cut off"),
    ],
)
def test_json_that_is_no_trace_or_cut_is_told_as_json(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(UserError, match=said):
        list(open_trace(tmp_path / "t")[0])
