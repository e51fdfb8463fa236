"""`schedmate trace` as a user runs it: the contract, the page, conversions, and what goes wrong in one line."""

from __future__ import annotations

import gzip
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from integrations.traces.csv_rows import HEADER_AGAIN
from schedmate.repeats import TWICE

ROOT = Path(__file__).resolve().parents[3]
DUMP = ROOT / "examples" / "jobs.sacct"


def told(run: Any) -> dict[str, Any]:
    assert run.returncode == 0, run.stderr
    document: dict[str, Any] = json.loads(run.stdout)
    schema = json.loads(files("schedmate").joinpath("schemas/trace.schema.json").read_text())
    jsonschema.validate(document, schema)
    return document


def test_describe_keeps_its_contract_and_draws_a_page(schedmate, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run = schedmate("trace", "describe", DUMP, "--timezone", "Europe/Berlin", "--out", page, "--json")
    document = told(run)
    assert document["format"] == "sacct" and document["jobs"] == document["rows"] > 200
    assert document["clock"]["timezone"] == "Europe/Berlin" and document["load"]["recorded"]
    assert document["load"]["peak_gpus"] <= 32
    html = page.read_text()
    assert html.count("<svg") >= 10 and "jobs.sacct" in html
    assert not re.search(r"(?:src|href)=\"(?!data:|#)|<script|url\(", html)  # nothing is fetched, nothing runs


def test_describe_for_people(schedmate) -> None:
    run = schedmate("trace", "describe", DUMP)
    assert run.returncode == 0
    for words in ("jobs (sacct)", "UTC (assumed)", "out_of_memory", "missing", "busiest bo"):
        assert words in run.stdout


def test_dates_for_people_are_those_of_the_zone(schedmate, tmp_path: Path) -> None:
    """The first job was submitted at 6:36 UTC; of a trace's JSON all dates are UTC."""
    page = tmp_path / "p.html"
    run = schedmate("trace", "describe", DUMP, "--timezone", "Europe/Berlin", "--out", page)
    assert "2026-10-12T08:36 to" in run.stdout and "(Europe/Berlin)" in run.stdout
    assert "time (Europe/Berlin)" in page.read_text() and "(UTC)" not in page.read_text()
    (tmp_path / "t.csv").write_text("id,submit,start,duration,gpus\n1,2026-10-12T23:30:00,2026-10-12T23:30:00,3600,1\n")
    run = schedmate("trace", "describe", tmp_path / "t.csv", "--timezone", "+05:00", "--out", page)
    assert "2026-10-12T23:30 to" in run.stdout and "from 2026-10-12 to 2026-10-12" in page.read_text()


def test_waits_in_the_headline_are_those_of_jobs_with_gpus(schedmate, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,start_s,duration_s,gpus,state\na,0,60,9,1,\nb,0,6000,9,0,\n")
    run = schedmate("trace", "describe", tmp_path / "t.csv")
    assert "jobs with GPUs waited: 1 min (half), 1 min (mean)" in run.stdout
    waits = told(schedmate("trace", "describe", tmp_path / "t.csv", "--json"))["waiting_s"]
    assert (waits["with_gpus"]["mean"], waits["all"]["mean"]) == (60, 3030)


@pytest.mark.parametrize("sample", ["trace.csv", "jobs.sacct"])
def test_converting_to_the_common_form_loses_nothing(schedmate, tmp_path: Path, sample: str) -> None:
    first, second = tmp_path / "a.csv.gz", tmp_path / "b.csv"
    document = told(schedmate("trace", "convert", ROOT / "examples" / sample, "--out", first, "--json"))
    assert document["lost"] == {} and document["to"] == "csv"
    told(schedmate("trace", "convert", first, "--out", second, "--json"))
    one, other = (told(schedmate("trace", "describe", path, "--json")) for path in (first, second))
    assert {**one, "file": ""} == {**other, "file": ""}
    assert one["jobs"] == document["written"]


def test_converting_to_swf_says_what_is_lost(schedmate, tmp_path: Path) -> None:
    document = told(schedmate("trace", "convert", DUMP, "--out", tmp_path / "a.swf", "--json"))
    assert document["to"] == "swf" and document["lost"]["the GPU type"] == document["written"]
    again = told(schedmate("trace", "describe", tmp_path / "a.swf", "--json"))
    assert again["format"] == "swf" and again["clock"]["first_submit"].startswith("2026-10-12")


def test_dumps_that_overlap_are_described_and_converted_as_one(schedmate, tmp_path: Path) -> None:
    """The older one was written while the last jobs still ran or waited."""
    text = DUMP.read_text()
    header, *rows = text.splitlines(keepends=True)
    at = {name: position for position, name in enumerate(header.strip().split("|"))}

    def before(row: str) -> str:
        cells = row.rstrip("\n").split("|")
        for name, cell in (("State", "RUNNING"), ("End", "Unknown"), ("ElapsedRaw", "1")):
            cells[at[name]] = cell
        return "|".join(cells) + "\n"

    started = [row for row in rows if "Unknown|Unknown" not in row and row.split("|")[at["JobID"]].isdigit()]
    (tmp_path / "t.sacct").write_text(header + "".join(map(before, started[-20:])) + text)
    one, both = (told(schedmate("trace", "describe", path, "--json")) for path in (DUMP, tmp_path / "t.sacct"))
    assert both["rows_skipped"] == {TWICE: 20} and both["remarks"][HEADER_AGAIN] == 1
    known = ("file", "rows_skipped", "remarks")
    assert {**one, **dict.fromkeys(known)} == {**both, **dict.fromkeys(known)}
    told(schedmate("trace", "convert", tmp_path / "t.sacct", "--out", tmp_path / "both.csv", "--json"))
    told(schedmate("trace", "convert", DUMP, "--out", tmp_path / "one.csv", "--json"))
    assert (tmp_path / "both.csv").read_text() == (tmp_path / "one.csv").read_text()


def test_a_stretch_of_a_trace(schedmate, tmp_path: Path) -> None:
    words = ("--from", "2026-10-19", "--until", "2026-10-26", "--out", tmp_path / "week.csv", "--json")
    document = told(schedmate("trace", "convert", DUMP, *words))
    assert 0 < document["written"] < document["rows"]
    week = told(schedmate("trace", "describe", tmp_path / "week.csv", "--json"))
    assert "2026-10-19" <= week["clock"]["first_submit"] < week["clock"]["last_submit"] < "2026-10-26"


def test_a_stretch_that_ends_before_it_begins_is_refused(schedmate, tmp_path: Path) -> None:
    words = ("--from", "2026-10-26", "--until", "2026-10-19", "--out", tmp_path / "week.csv")
    run = schedmate("trace", "convert", DUMP, *words)
    assert run.returncode == 2 and not (tmp_path / "week.csv").exists()
    assert "--until 2026-10-19 is not after --from 2026-10-26" in run.stderr


def test_a_stretch_is_in_the_zone_of_the_dump(schedmate, tmp_path: Path) -> None:
    """Midnight in Berlin is two hours before that of UTC, for the dump's own times as for those of the stretch."""
    words = ("--from", "2026-10-19", "--until", "2026-10-20", "--json")
    day = told(schedmate("trace", "convert", DUMP, *words, "--out", tmp_path / "utc.csv"))
    zoned = (*words, "--timezone", "Europe/Berlin", "--out", tmp_path / "berlin.csv")
    assert told(schedmate("trace", "convert", DUMP, *zoned))["written"] == day["written"] > 0
    jobs = [
        json.loads(schedmate("simulate", DUMP, "--nodes", "4", *words, *zone).stdout)["policies"]["fifo"]["jobs"]
        for zone in ((), ("--timezone", "Europe/Berlin"))
    ]
    assert jobs[0] == jobs[1] > 0


@pytest.mark.parametrize("command", [("trace", "convert", "--out", "x.csv"), ("simulate", "--nodes", "4")])
@pytest.mark.parametrize("stretch", [("--until", "2025-02-01"), ("--from", "2027-01-01")])
def test_an_empty_stretch_says_from_when_to_when_there_is_something(
    schedmate, tmp_path: Path, command: tuple[str, ...], stretch: tuple[str, ...]
) -> None:
    run = schedmate(*command, DUMP, *stretch, "--timezone", "Europe/Berlin", cwd=tmp_path)
    assert run.returncode == 2 and run.stderr.count("\n") == 1 and not (tmp_path / "x.csv").exists()
    assert "nothing was submitted in that stretch; the trace has submissions from 2026-" in run.stderr
    assert "(Europe/Berlin)" in run.stderr


@pytest.mark.parametrize("name", ["old.csv", "old.csv.gz", "old.swf.xz", "old.csv.zst"])
def test_a_conversion_that_fails_half_way_leaves_the_old_file(schedmate, tmp_path: Path, name: str) -> None:
    """The trace is damaged near its end: most of the new file has been written when that shows."""
    damaged, old = tmp_path / "jobs.gz", tmp_path / name
    damaged.write_bytes(gzip.compress(DUMP.read_bytes())[:-4])
    old.write_text("old")
    run = schedmate("trace", "convert", damaged, "--out", old)
    assert run.returncode == 2 and "ends early" in run.stderr
    assert old.read_text() == "old" and set(tmp_path.iterdir()) == {damaged, old}
    run = schedmate("trace", "convert", DUMP, "--out", old)
    assert run.returncode == 0 and f"as {'swf' if 'swf' in name else 'csv'}" in run.stdout
    assert told(schedmate("trace", "describe", old, "--json"))["jobs"] > 200


def test_no_table_of_a_trace_is_written_over(schedmate, tmp_path: Path) -> None:
    job, task = tmp_path / "pai_job_table.csv", tmp_path / "pai_task_table.csv"
    job.write_text("j1,i1,u1,Terminated,10.0,90.0\n")
    task.write_text("j1,tensorflow,1.0,Terminated,20.0,90.0,600.0,30.0,100.0,V100\n")
    for words in (("convert", job, "--out", task), ("describe", job, "--out", task)):
        run = schedmate("trace", *words)
        assert run.returncode == 2 and "pai_task_table.csv itself, which is read" in run.stderr
    assert task.read_text().startswith("j1,tensorflow")


def test_formats(schedmate) -> None:
    document = told(schedmate("trace", "formats", "--json"))
    assert {"csv", "swf", "sacct", "sacct-json", "philly", "helios", "acme", "pai", "openb"} <= set(document["read"])
    assert document["write"] == ["csv", "swf"]


def test_a_dump_is_replayed_on_nodes_without_types(schedmate) -> None:
    run = schedmate("simulate", DUMP, "--nodes", "4", "--policy", "fifo,kant", "--estimates", "requested", "--json")
    document = json.loads(run.stdout)
    assert document["policies"]["kant"]["jobs"] > 200
    assert any("GPU type" in warning for warning in document["warnings"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("describe", "nothing.csv"), "no such file"),
        (("describe", DUMP, "--timezone", "Moon/Sea"), "Moon/Sea"),
        (("describe", DUMP, "--format", "philly"), "no JSON array"),
        (("describe", DUMP, "--format", "fax"), "no trace_formats named 'fax'"),
        (("describe", DUMP, "--out", "no/such/folder/p.html"), "cannot be written"),
        (("convert", DUMP, "--out", "x", "--to", "fax"), "no trace_writers named 'fax'"),
        (("convert", DUMP, "--out", "no/such/folder/x"), "cannot be written"),
        (("convert", DUMP, "--out", DUMP, "--to", "csv"), "jobs.sacct itself, which is read here"),
        (("describe", DUMP, "--out", DUMP), "jobs.sacct itself, which is read here"),
        (("convert", DUMP, "--out", "o.xml"), ".xml says no form to write (csv, swf); say which with --to"),
        (("convert", DUMP, "--out", "o.csv.bz2"), ".bz2 says no form to write"),
        (("convert", DUMP, "--out", "x", "--from", "Tuesday"), "not a moment"),
        (("describe", "/proc/self/mem"), "/proc/self/mem: can not be read: Input/output error; check the disk"),
    ],
)
def test_what_goes_wrong_is_one_line(schedmate, tmp_path: Path, words: tuple[str | Path, ...], said: str) -> None:
    run = schedmate("trace", *words, cwd=tmp_path)
    assert run.returncode == 2 and said in run.stderr and run.stderr.count("\n") == 1
    assert DUMP.stat().st_size > 50_000
