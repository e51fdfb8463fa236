"""sacct --parsable2: any columns, steps, attempts, components, arrays, limits, times, and rows that break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integrations.traces.clock import NEVER, TWICE
from integrations.traces.csv_rows import HEADER_AGAIN
from prompts.errors import UserError

BASE = {
    "JobID": "12",
    "JobName": "train",
    "User": "ann",
    "Account": "vision",
    "Partition": "gpu",
    "State": "COMPLETED",
    "Submit": "2026-03-01T10:00:00",
    "Eligible": "2026-03-01T10:00:00",
    "Start": "2026-03-01T10:05:00",
    "End": "2026-03-01T11:05:00",
    "Elapsed": "01:00:00",
    "Timelimit": "1-00:00:00",
    "NNodes": "2",
    "ReqTRES": "billing=16,cpu=16,gres/gpu=8,mem=64G,node=2",
    "AllocTRES": "billing=16,cpu=16,gres/gpu:a100=8,gres/gpu=8,mem=64G,node=2",
}
SUBMIT_S = 1772359200.0


def dump(*rows: dict[str, str], columns: tuple[str, ...] = tuple(BASE), end: str = "") -> str:
    """A dump of jobs that differ from `BASE` in what is given."""
    lines = ["|".join(columns) + end, *("|".join({**BASE, **row}.get(c, "") for c in columns) + end for row in rows)]
    return "\n".join(lines) + "\n"


def test_every_field(read) -> None:
    (record,), notes = read(dump({}))
    assert (record.job_id, record.name, record.user, record.tenant) == ("12", "train", "ann", "vision")
    assert (record.partition, record.gpu_type, record.gpus, record.nodes, record.cpus) == ("gpu", "a100", 8, 2, 16)
    assert (record.memory_mib, record.requested_s) == (65536, 86400)
    assert (record.submit_s, record.start_s, record.duration_s) == (SUBMIT_S, SUBMIT_S + 300, 3600)
    assert (record.end_s, record.state, record.outcome) == (SUBMIT_S + 3900, "completed", "completed")
    assert notes.rows == 1 and not notes.skipped and notes.header["timezone"] == "UTC (assumed)"


def test_columns_in_any_order_and_with_a_delimiter_at_the_end(read) -> None:
    columns = tuple(reversed(BASE))
    assert read(dump({}, columns=columns))[0] == read(dump({}))[0] == read(dump({}, end="|"))[0]


def test_another_delimiter(read) -> None:
    assert read(dump({}).replace("|", ";"), "sacct", delimiter=";")[0] == read(dump({}))[0]


def test_unix_times_need_no_zone(read) -> None:
    row = {"Submit": "1772359200", "Eligible": "1772359200", "Start": "1772359500", "End": "1772363100"}
    assert read(dump(row), timezone="Asia/Tokyo")[0] == read(dump({}))[0]


@pytest.mark.parametrize(
    ("columns", "cells", "expected"),
    [
        (("Elapsed",), ("2-03:04:05",), 183845),
        (("ElapsedRaw",), ("77",), 77),
        ((), (), 3600),  # end minus start
    ],
)
def test_runtimes(read, columns: tuple[str, ...], cells: tuple[str, ...], expected: float) -> None:
    kept = tuple(name for name in BASE if name != "Elapsed")
    (record,), _ = read(dump(dict(zip(columns, cells, strict=True)), columns=kept + columns))
    assert record.duration_s == expected


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("Timelimit", "UNLIMITED", None),
        ("Timelimit", "Partition_Limit", None),
        ("Timelimit", "00:30:00", 1800),
        ("Timelimit", "", None),
        ("TimelimitRaw", "90", 5400),
        ("TimelimitRaw", "UNLIMITED", None),
    ],
)
def test_limits(read, column: str, cell: str, expected: float | None) -> None:
    kept = tuple(name for name in BASE if name != "Timelimit")
    (record,), _ = read(dump({column: cell}, columns=(*kept, column)))
    assert record.requested_s == expected


@pytest.mark.parametrize(
    ("word", "state", "outcome"),
    [
        ("CANCELLED by 1001", "cancelled", "cancelled"),
        ("CANCELLED+", "cancelled", "cancelled"),
        ("NODE_FAIL", "node_fail", "failed"),
        ("OUT_OF_MEMORY", "out_of_memory", "failed"),
        ("TIMEOUT", "timeout", "timeout"),
        ("PREEMPTED", "preempted", "cancelled"),
        ("DEADLINE", "deadline", "timeout"),
        ("BOOT_FAIL", "boot_fail", "failed"),
        ("SOMETHING_NEW", None, None),
    ],
)
def test_states(read, word: str, state: str | None, outcome: str | None) -> None:
    (record,), _ = read(dump({"State": word}))
    assert (record.state, record.outcome) == (state, outcome)


def test_running_and_waiting_jobs_have_no_runtime(read) -> None:
    rows = (
        {"JobID": "1", "State": "RUNNING", "End": "Unknown"},
        {
            "JobID": "2",
            "State": "PENDING",
            "Start": "Unknown",
            "End": "Unknown",
            "AllocTRES": "",
            "Elapsed": "00:00:00",
        },
        {"JobID": "3", "State": "CANCELLED by 7", "Start": "None", "AllocTRES": "", "Elapsed": "00:00:00"},
    )
    (running, waiting, gone), _ = read(dump(*rows))
    assert (running.start_s, running.duration_s, running.end_s) == (SUBMIT_S + 300, None, None)
    assert (running.ran_so_far_s, waiting.ran_so_far_s, gone.ran_so_far_s) == (3600, None, None)
    assert (waiting.start_s, waiting.duration_s, waiting.gpus, waiting.gpu_type) == (None, None, 8, None)
    assert (gone.start_s, gone.duration_s, gone.end_s) == (None, None, SUBMIT_S + 3900)


def test_a_job_cancelled_in_the_queue_never_ran_although_old_releases_give_it_a_start(read) -> None:
    row = {"State": "CANCELLED by 7", "Start": BASE["End"], "Elapsed": "00:00:00", "AllocTRES": ""}
    (record,), _ = read(dump(row))
    assert record.start_s is None and record.duration_s is None


@pytest.mark.parametrize(
    ("tres", "gpus", "kind", "milli"),
    [
        ("cpu=4,mem=1G", 0, None, None),
        ("gres/gpu:a100=4", 4, "a100", None),
        ("gres/gpu:a100=4,gres/gpu:h100=2,gres/gpu=6", 6, "a100|h100", None),
        ("gres/gpu:1g.5gb=2", 2, "1g.5gb", None),
        ("gres/mps=50", 1, None, 500),
        ("gres/shard=3", 1, None, None),
        ("gres/gpu=1.5K", 1500, None, None),
    ],
)
def test_gpus(read, tres: str, gpus: int, kind: str | None, milli: int | None) -> None:
    (record,), _ = read(dump({"AllocTRES": tres, "ReqTRES": tres}))
    assert (record.gpus, record.gpu_type, record.gpu_milli) == (gpus, kind, milli)


def test_the_gres_columns_of_old_releases_count_for_each_node(read) -> None:
    kept = tuple(name for name in BASE if not name.endswith("TRES"))
    (record,), _ = read(dump({"AllocGRES": "gpu:v100:4(S:0-1)"}, columns=(*kept, "AllocGRES")))
    assert (record.gpus, record.gpu_type) == (8, "v100")


def test_steps_give_their_job_the_memory_they_measured(read) -> None:
    columns = (*BASE, "MaxRSS", "TRESUsageInMax", "TRESUsageInAve")
    steps = (
        {"JobID": "12.batch", "MaxRSS": "1024K", "TRESUsageInMax": "cpu=00:01,gres/gpumem=2G", "TRESUsageInAve": ""},
        {"JobID": "12.0", "MaxRSS": "3M", "TRESUsageInMax": "", "TRESUsageInAve": "gres/gpuutil=70"},
    )
    records, notes = read(dump({}, *steps, {"JobID": "13"}, columns=columns))
    assert [record.job_id for record in records] == ["12", "13"] and notes.rows == 2
    first = records[0]
    assert (first.peak_host_memory_mib, first.peak_gpu_memory_mib, first.mean_gpu_utilization) == (3, 2048, 0.7)
    assert records[1].peak_host_memory_mib is None


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "REQUEUED", "RQ"])
def test_attempts_become_one_job(read, state: str) -> None:
    again = {"Submit": "2026-03-01T11:05:01", "Start": "2026-03-01T12:00:00", "End": "2026-03-01T12:30:00"}
    (record,), _ = read(dump({"State": state}, {**again, "Elapsed": "00:30:00"}))
    assert (record.attempts, record.duration_s, record.state) == (2, 5400, "completed")
    assert (record.submit_s, record.start_s, record.end_s) == (SUBMIT_S, SUBMIT_S + 300, SUBMIT_S + 9000)


def test_a_run_that_ended_in_a_requeue_counts_although_the_next_is_not_in_the_dump(read) -> None:
    (record,), _ = read(dump({"State": "REQUEUED"}))
    assert (record.duration_s, record.end_s, record.state, record.outcome) == (3600, SUBMIT_S + 3900, None, None)


def test_a_requeued_job_that_waits_has_not_ended(read) -> None:
    waits = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "Elapsed": "00:00:00"}
    (record,), _ = read(dump({"State": "REQUEUED"}, waits))
    assert (record.duration_s, record.end_s, record.state, record.attempts) == (None, None, "pending", 1)


def test_a_requeued_job_that_runs_has_run_in_all_its_runs(read) -> None:
    again = {"Submit": "2026-03-01T11:05:01", "Start": "2026-03-01T12:00:00"}
    (record,), _ = read(
        dump({"State": "REQUEUED"}, {**again, "State": "RUNNING", "End": "Unknown", "Elapsed": "00:30:00"})
    )
    assert (record.duration_s, record.ran_so_far_s, record.end_s, record.attempts) == (None, 5400, None, 2)


def test_rows_of_one_run_from_two_dumps_are_no_two_attempts(read) -> None:
    """The dumps were put together where the one ends and the other begins with the same job."""
    runs = {"State": "RUNNING", "End": "Unknown", "Elapsed": "00:10:00"}
    waits = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "Elapsed": "00:00:00"}
    for rows in ((runs, {}), ({}, runs), (waits, runs, {}), ({}, {})):
        (record,), notes = read(dump(*rows))
        assert (record.duration_s, record.state, record.attempts or 1) == (3600, "completed", 1)
        assert notes.rows == 1 and sum(notes.skipped.values()) == len([row for row in rows if row is not waits]) - 1


def test_a_header_in_the_middle_is_told_as_such(read) -> None:
    """After it the rows are of another dump, also of a job that the first one ended with."""
    for end in ("", "|"):
        first, second = dump({"State": "REQUEUED"}, end=end), dump({"State": "REQUEUED"}, {"JobID": "13"}, end=end)
        records, notes = read(first + second)
        assert [(record.job_id, record.attempts) for record in records] == [("12", None), ("12", None), ("13", None)]
        assert notes.remarks == {HEADER_AGAIN: 1} and not notes.skipped
    with pytest.raises(UserError, match="line 3 is a header of other columns"):
        read(dump({}) + dump({}, columns=tuple(reversed(BASE))))


def test_an_end_before_the_start_beside_a_good_runtime_is_counted(read) -> None:
    (record,), notes = read(dump({"End": "2026-03-01T10:04:00"}))
    assert (record.start_s, record.duration_s, record.end_s) == (SUBMIT_S + 300, 3600, None)
    assert notes.remarks == {"end before start: the end is not used": 1}


@pytest.mark.parametrize("cell", ["-4", "nan", "inf", "soon"])
def test_a_limit_that_is_none_is_counted(read, cell: str) -> None:
    (record,), notes = read(dump({"Timelimit": cell}))
    assert record.requested_s is None and notes.remarks == {"limit can not be read: not used": 1}


def test_restarts_are_attempts(read) -> None:
    (record,), _ = read(dump({"Restarts": "2"}, columns=(*BASE, "Restarts")))
    assert record.attempts == 3


def test_components_of_a_heterogeneous_job_are_one_gang(read) -> None:
    other = {"JobID": "12+1", "AllocTRES": "cpu=4,gres/gpu:h100=4,mem=1G,node=1"}
    records, _ = read(dump({"JobID": "12+0"}, other, {"JobID": "12+0"}, {"JobID": "13"}))
    assert [record.job_id for record in records] == ["12", "13"]
    assert (records[0].gpus, records[0].gpu_type, records[0].nodes, records[0].cpus) == (12, "a100|h100", 3, 20)


def test_waiting_array_tasks_are_written_out(read) -> None:
    row = {"JobID": "40_[1-3,8-12:2%2]", "State": "PENDING", "Start": "Unknown", "End": "Unknown", "AllocTRES": ""}
    records, notes = read(dump({"JobID": "40_0"}, row))
    assert [record.job_id for record in records] == [f"40_{i}" for i in (0, 1, 2, 3, 8, 10, 12)]
    assert notes.rows == 7


def test_an_absurd_array_stays_one_row(read) -> None:
    row = {"JobID": "40_[0-999999999]", "State": "PENDING", "Start": "Unknown", "AllocTRES": ""}
    assert len(read(dump(row))[0]) == 1


@pytest.mark.parametrize("end", ["", "|"])
@pytest.mark.parametrize("last", [(), ("MaxRSS",), ("MaxRSS", "Comment"), ("AdminComment",)])
@pytest.mark.parametrize("name", ["a|b", "|", "a||b|c|"])
def test_a_delimiter_in_the_name_whatever_the_row_ends_in(read, end: str, last: tuple[str, ...], name: str) -> None:
    """The last cells of a job's row are empty: no sign of a bar at the end of rows, as the header would have."""
    for columns in ((*BASE, *last), (*(column for column in BASE if column != "JobName"), "JobName", *last)):
        (record,), notes = read(dump({"JobName": name}, columns=columns, end=end))
        plain = read(dump({}, columns=columns, end=end))[0][0]
        assert (replace(record, name="train"), record.name, notes.skipped) == (plain, name, {})


def test_a_row_that_is_not_mended_says_what_it_may_be(read) -> None:
    records, notes = read(dump({"Timelimit": "a|b"}, {"JobID": "13", "Timelimit": "a|b|c"}, {"JobID": "14"}))
    assert [record.job_id for record in records] == ["14"]
    assert notes.skipped == {
        "one cell more than columns, perhaps a | in JobName": 1,
        "some cells more than columns, perhaps a | in JobName": 1,
    }


def test_rows_with_a_bar_at_their_end_under_a_header_without(read) -> None:
    header, _, row = dump({}).partition("\n")
    assert read(f"{header}\n{row.strip()}|\n")[0] == read(dump({}))[0]


def test_the_delimiter_and_line_breaks_inside_texts(read) -> None:
    columns = (*BASE, "SubmitLine")
    (record,), notes = read(dump({"JobName": "a|b|c", "SubmitLine": "sbatch run.sh"}, columns=columns))
    assert (record.name, record.command, notes.skipped) == ("a|b|c", "sbatch run.sh", {})
    (record,), notes = read(dump({"SubmitLine": "sbatch --wrap 'x\ny'"}, columns=columns))
    assert (record.command, notes.skipped) == ("sbatch --wrap 'x\ny'", {})


def test_short_rows_are_counted_and_cost_no_other(read) -> None:
    text = dump({}, {"JobID": "13"})
    first, second, third = text.splitlines()
    records, notes = read("\n".join([first, "broken", second, "5|6", third, "cut|off"]))
    assert [record.job_id for record in records] == ["12", "13"]
    assert notes.skipped == {"too few columns": 3}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"Submit": "Unknown"}, "submit time is missing"),
        ({"Submit": "soon"}, "submit time is neither a number nor an ISO-8601 time"),
        ({"Elapsed": "-5"}, "elapsed is negative"),
        ({"Elapsed": "", "End": "2026-03-01T10:04:00"}, "ends before it starts"),
        ({"Elapsed": "", "End": "Unknown"}, "neither elapsed nor end is known"),
        ({"JobID": ""}, "job id is missing"),
        ({"AllocTRES": "gres/gpu=99999999999"}, "gpus is out of range"),
    ],
)
def test_bad_rows_are_counted(read, row: dict[str, str], reason: str) -> None:
    records, notes = read(dump({**row}, {"JobID": "13"}))
    assert [record.job_id for record in records] == ["13"]
    assert notes.skipped == {reason: 1} and notes.examples == [f"line 2: {reason}"]


FIRST_S, SECOND_S = 1792888200.0, 1792891800.0  # 02:30 in Berlin, before and after the clock was put back


@pytest.mark.parametrize(
    ("row", "expected", "told"),
    [
        # Only the second 02:30 is an hour before 03:30; the submission may be either.
        (("", "02:30", "02:30", "03:30", "3600"), (SECOND_S, SECOND_S, SECOND_S + 3600), 1),
        (("", "02:30", "02:30", "03:30", "7200"), (FIRST_S, FIRST_S, SECOND_S + 3600), 0),
        # It started after it was submitted, and ended after it started.
        (("", "02:30", "02:10", "02:40", "1800"), (FIRST_S, SECOND_S - 1200, SECOND_S + 600), 0),
        (("", "01:50", "02:30", "02:30", "3600"), (FIRST_S - 2400, FIRST_S, SECOND_S), 0),
        (("", "01:50", "02:50", "02:10", "1200"), (FIRST_S - 2400, FIRST_S + 1200, SECOND_S - 1200), 0),
        # Suspended for ten minutes: a runtime shorter than end minus start, never a longer one.
        (("", "01:50", "02:30", "03:30", "3000"), (FIRST_S - 2400, SECOND_S, SECOND_S + 3600), 0),
        (("", "01:50", "02:30", "03:30", "3700"), (FIRST_S - 2400, FIRST_S, SECOND_S + 3600), 0),
        # Cancelled while it waited: not before it was submitted.
        (("CANCELLED by 7", "02:50", "None", "02:10", "0"), (FIRST_S + 1200, None, SECOND_S - 1200), 0),
        (("CANCELLED by 7", "01:50", "None", "02:10", "0"), (FIRST_S - 2400, None, FIRST_S - 1200), 1),
        (("PENDING", "02:30", "Unknown", "Unknown", "0"), (FIRST_S, None, None), 1),
        (("RUNNING", "02:30", "04:00", "Unknown", "9"), (SECOND_S, SECOND_S + 5400, None), 1),
    ],
)
def test_the_hour_that_comes_twice_is_what_the_row_says(
    read, row: tuple[str, ...], expected: tuple[float | None, ...], told: int
) -> None:
    state, *clocks, elapsed = row
    times = [f"2026-10-25T{each}:00" if ":" in each else each for each in clocks]
    cells = dict(zip(("Submit", "Start", "End"), times, strict=True)) | {"Eligible": times[0], "ElapsedRaw": elapsed}
    columns = tuple("ElapsedRaw" if name == "Elapsed" else name for name in BASE)
    (record,), notes = read(
        dump(cells | ({"State": state} if state else {}), columns=columns), timezone="Europe/Berlin"
    )
    assert (record.submit_s, record.start_s, record.end_s) == expected and record.eligible_s == record.submit_s
    assert notes.remarks == ({TWICE: told} if told else {})
    assert all(type(each) is float for each in (record.submit_s, record.eligible_s))


def test_a_time_that_clocks_skip_is_told(read) -> None:
    row = {"Submit": "2026-03-29T02:30:00", "Eligible": "2026-03-29T02:30:00", "Start": "2026-03-29T03:31:00"}
    cells = {**row, "End": "2026-03-29T04:31:00"}
    (record,), notes = read(dump(cells), timezone="Europe/Berlin")
    assert (record.start_s, record.duration_s, notes.remarks) == (record.submit_s + 60, 3600, {NEVER: 1})


@pytest.mark.parametrize("column", ["JobID", "Submit", "Start", "State"])
def test_a_dump_without_a_needed_column_says_how_to_dump(read, column: str) -> None:
    with pytest.raises(UserError, match=f"no column.*{column}.*dump it with sacct"):
        read(dump({}, columns=tuple(name for name in BASE if name != column)), "sacct")


def test_a_dump_without_gpus_says_how_to_dump(read) -> None:
    with pytest.raises(UserError, match="AllocTRES"):
        read(dump({}, columns=tuple(name for name in BASE if not name.endswith("TRES"))))


def test_the_columns_of_sacct_without_times_say_how_to_dump(read) -> None:
    usual = ("JobID", "JobName", "Partition", "Account", "AllocCPUS", "State", "ExitCode")
    with pytest.raises(UserError, match="no column Submit, Start, ElapsedRaw, AllocTRES; dump it with sacct"):
        read(dump({}, columns=usual))


@pytest.mark.parametrize("row", [{}, {"JobID": "7_[1-3]", "State": "PENDING"}, {"State": "CANCELLED by 7"}])
def test_a_dump_without_its_header_says_so(read, row: dict[str, str]) -> None:
    with pytest.raises(UserError, match="without its header line"):
        read(dump(row).partition("\n")[2])


def test_the_table_for_people_is_refused_with_the_way_out(read) -> None:
    with pytest.raises(UserError, match="parsable2"):
        read("JobID           JobName      State\n------------ ---------- ----------\n12   train COMPLETED\n")


def test_an_unknown_zone_or_option_is_one_line(read) -> None:
    with pytest.raises(UserError, match="Atlantis"):
        read(dump({}), timezone="Atlantis/Capital")
    with pytest.raises(UserError, match="gpus"):
        read(dump({}), "sacct", gpus="x")
