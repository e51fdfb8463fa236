"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2 (Feitelson, Tsafrir, Krakov 2014).

Eighteen whitespace-separated numbers a job, ``-1`` for unknown; header comments start with ``;``. Times are seconds of
the log's own clock, whose 0 is the header's UnixStartTime; memory is KiB a processor.

Also its extension by the simulators Alea and AleaNG (Klusáček): three more columns, which are either GPUs of the whole
job, a soft limit and properties such as ``all:excl:2x4`` (2 nodes), or something else, the queue's name and a node list
such as ``1:ppn=8:gpu=2:cl_doom``. There memory is KiB a node.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from analyzers.types import JobRecord, State
from integrations.traces.values import not_used, outcome_of
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.trace_files import head_text, lines

FIELDS = 18
(_JOB, _SUBMIT, _WAIT, _RUNTIME, _ALLOCATED, _CPU_TIME, _USED_MEMORY, _REQUESTED_PROCESSORS, _REQUESTED_TIME) = range(9)
(_REQUESTED_MEMORY, _STATUS, _USER, _GROUP, _APPLICATION, _QUEUE, _PARTITION) = range(9, 16)
(_GPUS, _QUEUE_NAME, _PROPERTIES) = (18, 19, 20)
STATES: Mapping[float, State] = {0: "failed", 1: "completed", 5: "cancelled"}
#: 2 to 4 mark the partial runs of a job that was checkpointed; its summary line repeats them as one.
_PARTIAL = frozenset({2.0, 3.0, 4.0})
_MAX_TIME_S = 1e13
_UNKNOWN = -1
_MAX_PROCESSORS = 10_000_000
_KIB_PER_MIB = 1024
_LAYOUT = re.compile(r"(?:^|:)(?P<nodes>\d{1,6})x(?P<each>\d{1,6})(?:$|[:#])")
_NODE_LIST = re.compile(r"(?P<nodes>\d{1,6})(?P<rest>:[^+]*)?")
_GPUS_EACH = re.compile(r":(?:n?gpus?)=(?P<gpus>\d{1,6})(?:$|[:#])")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class SwfTrace:
    """Reads SWF. Processors count as GPUs, unless the extended form names GPUs; a job's size is what it asked for,
    else what it got."""

    name = "swf"

    def matches(self, path: Path, head: bytes) -> bool:
        """True when the first line that is no comment holds eighteen numbers, or comments are all there is."""
        rows = head_text(head).splitlines()
        for row in rows:
            if row.strip() and not row.lstrip().startswith(";"):
                return _numbers(row.split()) is not None
        return any(row.lstrip().startswith(";") for row in rows)

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield the jobs; those that never ran (runtime 0 or less) are counted in ``notes`` and left out."""
        if options:
            raise UserError(f"{path}: SWF takes no options, got {', '.join(sorted(options))}", "leave them out")
        return self._rows(path, notes)

    def _rows(self, path: Path, notes: TraceNotes) -> Iterator[JobRecord]:
        for number, line in enumerate(lines(path, notes), start=1):
            text = line.strip()
            if not text:
                continue
            if text.startswith(";"):
                _note_header(text, notes)
                continue
            made = _record(text.split(), notes)
            if isinstance(made, str):
                notes.skip(made, f"line {number}")
            else:
                notes.rows += 1
                yield made


def _note_header(text: str, notes: TraceNotes) -> None:
    key, colon, value = text.lstrip("; ").partition(":")
    if colon and key and len(key) <= 40 and len(notes.header) < 200:
        notes.header.setdefault(key.strip(), value.strip())
        if key.strip() == "UnixStartTime" and (number := _NUMBER.match(value.strip())):
            notes.epoch_s = float(number[0]) or None


def _numbers(words: list[str]) -> list[float] | None:
    if len(words) < FIELDS:
        return None
    try:
        return [float(word) for word in words[:FIELDS]]
    except ValueError:
        return None


def _record(words: list[str], notes: TraceNotes) -> JobRecord | str:
    """The job on one line, or the reason why it can not be used."""
    values = _numbers(words)
    if values is None:
        return f"not {FIELDS} numbers"
    if not all(map(math.isfinite, values)):
        return "a field is not finite"
    runtime_s, submit_s, requested_s = values[_RUNTIME], values[_SUBMIT], values[_REQUESTED_TIME]
    if values[_STATUS] in _PARTIAL:
        return "partial run of a checkpointed job"
    if runtime_s <= 0:
        return "runtime is 0 or less"
    processors = values[_REQUESTED_PROCESSORS] if values[_REQUESTED_PROCESSORS] > 0 else values[_ALLOCATED]
    if processors <= 0:
        return "no processors stated"
    if processors > _MAX_PROCESSORS or max(abs(submit_s), runtime_s) > _MAX_TIME_S:
        return "a field is out of range"
    if requested_s < 0 and requested_s != _UNKNOWN:
        notes.remark(not_used("requested time"))
    if 0 < requested_s < runtime_s:
        notes.remark("ran for longer than its requested time")
    start_s = submit_s + values[_WAIT] if values[_WAIT] >= 0 else None
    extended = len(words) > _PROPERTIES
    gpus, nodes, queue = _extension(words) if extended else (None, None, None)
    sharing = (nodes or 1) if extended else processors
    state = STATES.get(values[_STATUS])
    return JobRecord(
        job_id=words[_JOB],
        submit_s=submit_s,
        duration_s=runtime_s,
        gpus=math.ceil(processors) if gpus is None else gpus,
        start_s=start_s,
        user=_known(values[_USER]),
        tenant=_known(values[_GROUP]),
        name=f"app{app}" if (app := _known(values[_APPLICATION])) else None,
        nodes=nodes,
        requested_s=requested_s if requested_s > 0 else None,
        outcome=outcome_of(state),
        end_s=None if start_s is None else start_s + runtime_s,
        state=state,
        partition=queue or _known(values[_PARTITION]) or _known(values[_QUEUE]),
        cpus=None if gpus is None else processors,
        memory_mib=_mib(values[_REQUESTED_MEMORY], sharing),
        peak_host_memory_mib=_mib(values[_USED_MEMORY], sharing),
    )


def _extension(words: list[str]) -> tuple[int | None, int | None, str | None]:
    """(GPUs, nodes, queue) from the columns beyond the eighteenth; None for what they do not say."""
    properties = words[_PROPERTIES]
    if _NUMBER.fullmatch(words[_QUEUE_NAME]):  # GPUs, soft limit, properties
        layout = _LAYOUT.search(properties)
        used = float(words[_GPUS]) if _NUMBER.fullmatch(words[_GPUS]) else -1.0
        gpus = int(used) if 0 <= used <= _MAX_PROCESSORS else None
        return gpus, int(layout["nodes"]) if layout else None, None
    nodes = gpus = 0
    for part in properties.split("#")[0].split("+"):
        if node := _NODE_LIST.match(part):
            nodes += int(node["nodes"])
            if each := _GPUS_EACH.search(node["rest"] or ""):
                gpus += int(node["nodes"]) * int(each["gpus"])
    return (gpus if gpus <= _MAX_PROCESSORS else None) or None, nodes or None, words[_QUEUE_NAME]


def _mib(each_kib: float, sharing: float) -> float | None:
    return each_kib / _KIB_PER_MIB * sharing if 0 < each_kib < _MAX_TIME_S else None


def _known(value: float) -> str | None:
    return str(int(value)) if value >= 0 else None
