"""Alibaba's openb cluster (GPU trace v2023; Weng et al., ATC'23): the list of pods; the list of nodes is told apart.

| column | is |
|---|---|
| name, qos | id; class of service, as the partition |
| cpu_milli, memory_mib | CPUs in thousandths, host memory |
| num_gpu, gpu_milli | GPUs (0 for CPU pods); of one shared GPU, the thousandths |
| gpu_spec | acceptable types, ``|`` between them |
| pod_phase | Succeeded, Running, Pending, Failed |
| creation_time, scheduled_time, deletion_time | submission, start, end, in seconds of the trace's own clock |

A pod that was Running when it was deleted did end then: services are stopped, they do not finish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from analyzers.types import JobRecord, State
from integrations.traces.csv_columns import header_has, refuse_twins
from integrations.traces.csv_rows import split, without_headers
from integrations.traces.plain_csv import first_line, refuse_options
from integrations.traces.values import BadValueError, optional_number, outcome_of, text, whole
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.trace_files import lines

_PODS = frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time"})
_NODES = frozenset({"sn", "cpu_milli", "memory_mib", "gpu", "model"})
_WHOLE_MILLI = 1000
_PHASES: Mapping[str, State] = {
    "succeeded": "completed", "failed": "failed", "running": "cancelled", "pending": "pending",
}  # fmt: skip


class OpenbTrace:
    """Reads ``openb_pod_list_*.csv``."""

    name = "openb"

    def matches(self, path: Path, head: bytes) -> bool:
        """True for the header of a pod list or of a node list."""
        header = first_line(head)
        return header_has(header, _PODS) or header_has(header, _NODES)

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield a job a pod; a list of nodes is refused with what to do about it."""
        refuse_options(path, self.name, options)
        numbered = enumerate(lines(path, notes), start=1)
        header = next((line for _, line in numbered if line.strip()), "")
        if header_has(header, _NODES):
            raise UserError(
                f"{path}: this is a list of nodes, not of jobs",
                "give the list of pods; nodes are described in a cluster file: docs/cluster-file.md",
            )
        names = [cell.strip() for cell in split(header.lstrip("\ufeff"), ",")]
        if missing := sorted(_PODS - set(names)):
            raise UserError(f"{path}: no column {', '.join(missing)}", "give an openb_pod_list CSV as published")
        refuse_twins(path, names, range(len(names)))
        told = without_headers(numbered, header, notes)
        return _jobs(told, {name: position for position, name in enumerate(names)}, notes)


def _jobs(numbered: Iterator[tuple[int, str]], at: Mapping[str, int], notes: TraceNotes) -> Iterator[JobRecord]:
    for number, row in numbered:
        if not row.strip():
            continue
        cells = split(row, ",")
        try:
            if len(cells) < len(at):
                raise BadValueError("too few columns")
            record = _record(cells, at)
        except BadValueError as error:
            notes.skip(str(error), f"line {number}")
            continue
        notes.rows += 1
        yield record


def _record(cells: list[str], at: Mapping[str, int]) -> JobRecord:
    def number(name: str) -> float | None:
        return optional_number(cells[at[name]]) if name in at else None

    def word(name: str) -> str | None:
        found = text(cells[at[name]]) if name in at else None
        return None if found is None or found.lower() == "nan" else found

    submit_s, end_s, start_s = number("creation_time"), number("deletion_time"), number("scheduled_time")
    if submit_s is None:
        raise BadValueError("creation time is no number")
    gpus = whole(cells[at["num_gpu"]], "num_gpu", least=0)
    state = _PHASES.get((word("pod_phase") or "").lower())
    if state == "cancelled" and end_s is None:
        state = "running"
    if state == "pending" or start_s is None:
        start_s = None
    elif end_s is not None and end_s < start_s:
        raise BadValueError("deleted before it was scheduled")
    milli, cpus = number("gpu_milli"), number("cpu_milli")
    return JobRecord(
        job_id=word("name") or f"pod{int(submit_s)}",
        submit_s=submit_s,
        duration_s=None if start_s is None or end_s is None else end_s - start_s,
        gpus=gpus,
        start_s=start_s,
        gpu_type=word("gpu_spec"),
        nodes=1,
        outcome=outcome_of(state),
        end_s=None if state == "pending" else end_s,
        state=state,
        partition=word("qos"),
        cpus=None if cpus is None else cpus / 1000,
        memory_mib=number("memory_mib"),
        gpu_milli=int(milli) if gpus and milli and milli < _WHOLE_MILLI else None,
    )
