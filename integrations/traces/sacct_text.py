"""What ``sacct --parsable2`` (or ``--parsable``) prints, with any columns in any order.

| column | is |
|---|---|
| JobID (else JobIDRaw) | id: ``12_3`` array task, ``12+0`` component of a heterogeneous job, ``12.batch`` step |
| Submit, Eligible, Start, End | local times of the machine that ran sacct (option ``timezone``), or Unix seconds |
| ElapsedRaw, Elapsed | runtime; time suspended is not in it |
| TimelimitRaw (minutes), Timelimit | limit |
| AllocTRES, else ReqTRES (before 20.11: AllocGRES, ReqGRES) | GPUs and their type, CPUs, memory, nodes |
| State, Restarts | state; attempts. With ``--duplicates`` each attempt is a row, and they become one job |
| User, Account, Partition, JobName, SubmitLine | user, tenant, partition, name, command |
| MaxRSS, TRESUsageInMax, TRESUsageInAve of steps | peak memory of a task; GPU memory and utilisation |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analyzers.types import JobRecord
from integrations.traces import slurm_values as slurm
from integrations.traces.clock import Clock, number_or_time, settled
from integrations.traces.sacct_rows import COMMAND, Columns, whole_rows
from integrations.traces.slurm_jobs import Gathering, Measured, Row, record_of
from integrations.traces.values import BadValueError, duration_s, not_used, text
from prompts.errors import UserError
from schedmate.durations import zone_named
from schedmate.ports import TraceNotes
from schedmate.trace_files import head_text, lines

_OPTIONS = frozenset({"timezone", "delimiter"})
#: One of these beside the job's id makes a header sacct's, even if it lacks what is needed: that is told then.
_SIGNS = frozenset(
    ("submit", "start", "elapsed", "elapsedraw", "alloctres", "reqtres", "allocgres", "reqgres", "alloccpus")
)
_JOB_ID = re.compile(r"\d+(?:[_+](?:\d+|\[[^|]*\]))?(?:\.\w+)?")
_DASHES = re.compile(r"-+(?: +-+)+\s*$")


class SacctTrace:
    """Reads a dump of Slurm's accounting as text."""

    name = "sacct"

    def matches(self, path: Path, head: bytes) -> bool:
        """True when the first line has sacct's columns, or is the header of its table for people."""
        rows = head_text(head).splitlines()[:2]
        if not rows:
            return False
        if len(rows) == 2 and "jobid" in rows[0].lower().split() and _DASHES.match(rows[1]):
            return True
        names = {cell.strip().lower() for cell in rows[0].split("|")}
        if names & {"jobid", "jobidraw"}:
            return bool(names & _SIGNS)
        return _lacks_its_header(rows[0])

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Read the header at once, then yield the jobs; steps are read into their job."""
        if unknown := sorted(set(options) - _OPTIONS):
            raise UserError(f"{path}: sacct takes no option {unknown[0]!r}", f"known: {', '.join(sorted(_OPTIONS))}")
        numbered = enumerate(lines(path, notes), start=1)
        header = next((line for _, line in numbered if line.strip()), "")
        if _lacks_its_header(header):
            raise UserError(f"{path}: a dump of sacct without its header line (--noheader, -n)", f"use {COMMAND}")
        if "|" not in header and "delimiter" not in options:
            raise UserError(f"{path}: this is sacct's table for people, which cuts what it shows", f"use {COMMAND}")
        columns = Columns(path, header, options.get("delimiter") or "|")
        notes.header.update({name: name for name in columns.names})
        notes.header["timezone"] = options.get("timezone") or "UTC (assumed)"
        notes.epoch_s = 0.0
        clock = Clock(zone_named(options.get("timezone", "UTC")), notes)
        return _jobs(whole_rows(path, numbered, columns, notes), _Reader(columns, clock, notes), notes)


def _lacks_its_header(row: str) -> bool:
    """Whether a first line is that of a job: an id, and a state in Slurm's spelling."""
    cells = [cell.strip() for cell in row.split("|")]
    return _JOB_ID.fullmatch(cells[0]) is not None and any(
        cell.split()[:1] == [cell.split(" ")[0].upper()] and slurm.slurm_state(cell) is not None
        for cell in cells[1:]
        if len(cell) > 2
    )


def _jobs(rows: Iterator[tuple[int, list[str] | None]], reader: _Reader, notes: TraceNotes) -> Iterator[JobRecord]:
    gathering = Gathering(notes)
    steps_of = ""  # of a job that was left out, steps are no rows of the job before it
    for number, cells in rows:
        if cells is None:  # another dump begins, with what may be the rows of the same job
            for whole in gathering.rest():
                notes.rows += 1
                yield whole
            continue
        job_id, dot, _ = reader.job_id(cells).partition(".")
        if dot:
            if job_id == steps_of:
                gathering.step(reader.measured(cells))
            continue
        try:
            if not job_id:
                raise BadValueError("job id is missing")
            record = record_of(reader.row(cells, job_id), notes)
        except BadValueError as error:
            notes.skip(str(error), f"line {number}")
            steps_of = ""
            continue
        steps_of = job_id
        for whole in gathering.job(record):
            notes.rows += 1
            yield whole
    for whole in gathering.rest():
        notes.rows += 1
        yield whole


class _Reader:
    """Cells of a row to fields."""

    def __init__(self, columns: Columns, clock: Clock, notes: TraceNotes) -> None:
        self._clock = clock
        self._notes = notes
        at = columns.at
        self._id = at.get("jobid", at.get("jobidraw", 0))
        self._state, self._submit, self._start = at["state"], at["submit"], at["start"]
        self._end, self._eligible = at.get("end"), at.get("eligible")
        self._elapsed = at.get("elapsedraw", at.get("elapsed"))
        self._limit, self._limit_unit_s = at.get("timelimitraw"), 60.0
        if self._limit is None:
            self._limit, self._limit_unit_s = at.get("timelimit"), 1.0
        self._allocated, self._requested = at.get("alloctres"), at.get("reqtres")
        self._old = [at[name] for name in ("allocgres", "reqgres") if name in at]
        self._nodes = [at[name] for name in ("allocnodes", "nnodes", "reqnodes") if name in at]
        self._cpus = [at[name] for name in ("alloccpus", "ncpus", "reqcpus") if name in at]
        self._memory, self._restarts = at.get("reqmem"), at.get("restarts")
        self._user, self._account, self._partition = at.get("user"), at.get("account"), at.get("partition")
        self._name, self._command = at.get("jobname"), at.get("submitline")
        self._rss, self._tres_max, self._tres_mean = (
            at.get(name) for name in ("maxrss", "tresusageinmax", "tresusageinave")
        )

    def job_id(self, cells: Sequence[str]) -> str:
        """The id as it stands."""
        return cells[self._id].strip()

    def row(self, cells: Sequence[str], job_id: str) -> Row:
        """The fields of a job's row; raises `BadValueError` for a submit time that is none."""
        elapsed_s = self._elapsed_s(cells)
        submit_s, eligible_s, start_s, end_s = settled(
            (
                self._time(cells, self._submit, "submit time"),
                self._optional(cells, self._eligible, "eligible"),
                self._optional(cells, self._start, "start"),
                self._optional(cells, self._end, "end"),
            ),
            elapsed_s,
            self._notes,
        )
        nodes = self._first(cells, self._nodes)
        cpus = self._first(cells, self._cpus)
        asked, got = self._tres(cells, self._requested), self._tres(cells, self._allocated)
        if asked.gpus is None and got.gpus is None and self._old:
            old = (slurm.parse_old_gres(cells[position], nodes) for position in self._old)
            got = next((tres for tres in old if tres.gpus is not None), got)
        return Row(
            job_id=job_id,
            submit_s=submit_s,
            start_s=start_s,
            end_s=end_s,
            elapsed_s=elapsed_s,
            state=slurm.slurm_state(cells[self._state]),
            eligible_s=eligible_s,
            limit_s=self._limit_s(cells),
            requested=asked,
            allocated=got,
            nodes=nodes,
            cpus=cpus,
            memory_mib=None if self._memory is None else slurm.memory_mib(cells[self._memory], cpus, nodes),
            user=self._text(cells, self._user),
            account=self._text(cells, self._account),
            partition=self._text(cells, self._partition),
            name=self._text(cells, self._name),
            command=self._text(cells, self._command),
            restarts=None if self._restarts is None else _whole(cells[self._restarts]),
        )

    def measured(self, cells: Sequence[str]) -> Measured:
        """What a step's row says of memory and GPUs."""
        peaks = {} if self._tres_max is None else _usage(cells[self._tres_max])
        means = {} if self._tres_mean is None else _usage(cells[self._tres_mean])
        busy = means.get("gres/gpuutil")
        share = None
        if busy is not None and (percent := _whole(busy)) is not None and percent <= 100:
            share = percent / 100
        return Measured(
            None if self._rss is None else slurm.memory_mib(cells[self._rss]),
            slurm.memory_mib(peaks.get("gres/gpumem", "")),
            share,
        )

    def _time(self, cells: Sequence[str], position: int, what: str) -> float | None:
        cell = slurm.known(cells[position])
        return number_or_time(cell, 1.0, what, self._clock) if cell else None

    def _optional(self, cells: Sequence[str], position: int | None, what: str) -> float | None:
        if position is None:
            return None
        try:
            return self._time(cells, position, what)
        except BadValueError:
            self._notes.remark(f"{what} is no time: not used")
            return None

    def _elapsed_s(self, cells: Sequence[str]) -> float | None:
        if self._elapsed is None or not (cell := slurm.known(cells[self._elapsed])):
            return None
        return duration_s(cell, 1.0, "elapsed")

    def _limit_s(self, cells: Sequence[str]) -> float | None:
        if self._limit is None:
            return None
        try:
            return slurm.limit_s(cells[self._limit], self._limit_unit_s)
        except BadValueError:
            self._notes.remark(not_used("limit"))
            return None

    def _tres(self, cells: Sequence[str], position: int | None) -> slurm.Tres:
        return _NO_TRES if position is None or not cells[position] else slurm.parse_tres(cells[position])

    def _first(self, cells: Sequence[str], positions: Sequence[int]) -> int | None:
        return next((count for position in positions if (count := _whole(cells[position]))), None)

    def _text(self, cells: Sequence[str], position: int | None) -> str | None:
        return None if position is None else text(cells[position])


_NO_TRES = slurm.Tres()


def _whole(cell: str) -> int | None:
    return int(cell) if cell.isascii() and cell.isdigit() and len(cell) <= 9 else None


def _usage(text_: str) -> dict[str, str]:
    parts = (part.partition("=") for part in text_.split(","))
    return {name.strip(): value.strip() for name, equals, value in parts if equals}
