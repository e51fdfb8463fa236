"""Which column of a CSV is what: usual names, units in headers, and a mapping by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from integrations.traces.csv_rows import split
from prompts.errors import UserError

#: Canonical name -> usual headers, letters and digits only, the surest first.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "job_id": ("jobid", "id", "jobidraw", "uid", "jobuuid"),
    "submit": (
        "submit", "submittime", "submittedat", "submitted", "submittedtime", "submitat", "submissiontime", "submission",
        "arrival", "arrivaltime", "arrivedat", "queuedat", "created", "createdat", "creationtime", "createtime", "time",
        "timestamp",
    ),
    "duration": (
        "duration", "runtime", "elapsed", "elapsedtime", "elapsedraw", "walltime", "runduration", "jobduration",
        "executiontime", "servicetime", "length",
    ),
    "start": ("start", "starttime", "startedat", "started", "scheduledtime", "begin"),
    "end": ("end", "endtime", "endedat", "ended", "finish", "finishtime", "finishedat", "completed", "completedat"),
    "gpus": (
        "gpus", "numgpus", "gpunum", "gpu", "ngpus", "ngpu", "numgpu", "gpucount", "gpureq", "reqgpus", "gpusrequested",
        "requestedgpus", "allocgpus", "numaccelerators",
    ),
    "user": ("user", "username", "userid", "owner", "submitter", "uidname"),
    "tenant": ("tenant", "group", "account", "vc", "project", "team", "namespace", "queue", "partition", "groupid"),
    "name": ("jobname", "name", "title"),
    "command": ("command", "cmd", "commandline", "submitline", "entrypoint"),
    "requested": (
        "requested", "timelimit", "requestedtime", "limit", "walltimelimit", "reqtime", "requesttime", "timelimitraw",
        "maxruntime", "estimate", "estimatedruntime", "requestedruntime", "requestedwalltime",
    ),
    "status": ("status", "state", "outcome", "jobstate", "jobstatus", "exitstatus", "phase", "result"),
    "gpu_type": ("gputype", "gpumodel", "gpuspec", "accelerator", "acceleratortype"),
    "nodes": ("nodes", "numnodes", "nnodes", "nodenum", "nodecount", "allocnodes", "reqnodes"),
    "partition": ("partition", "partitionname", "queue", "queuename"),
    "eligible": ("eligible", "eligibletime", "eligibleat"),
    "cpus": ("cpus", "numcpus", "cpunum", "cpucount", "ncpus", "reqcpus", "alloccpus", "cpureq"),
    "memory_mib": ("memorymib", "memmib", "requestedmemorymib", "reqmemorymib"),
    "gpu_milli": ("gpumilli",),
    "attempts": ("attempts", "numattempts", "tries"),
    "peak_gpu_memory_mib": ("peakgpumemorymib", "maxgpumemorymib", "gpumemorymib"),
    "mean_gpu_utilization": ("meangpuutilization", "gpuutilization", "gpuutil", "avggpuutil"),
    "peak_host_memory_mib": ("peakhostmemorymib", "maxrssmib", "hostmemorymib"),
    "workdir": ("workdir", "workingdirectory", "workdirectory", "cwd"),
}  # fmt: skip
_TIMES = ("submit", "duration", "start", "end", "requested", "eligible")
UNITS_S: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0}
_UNIT_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
}
_UNIT_SUFFIX = re.compile(r"(?<=[^\s_.:(\[-])[\s_.:(\[-]++(?P<unit>[a-z]++)[)\]]?$")
_DELIMITERS = (",", "\t", ";", "|")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each canonical column stands and, for times, how many seconds its unit has."""

    delimiter: str
    header: tuple[str, ...]
    columns: Mapping[str, int]
    unit_s: Mapping[str, float]
    least_cells: int


def recognised(header_line: str) -> int:
    """How many of submit time, duration (or end) and GPUs the line names in a usual way."""
    found = _by_usual_names(_cells(header_line, _delimiter(header_line)))
    return ("submit" in found) + ("duration" in found or "end" in found) + ("gpus" in found)


def layout_of(path: Path, header_line: str, options: Mapping[str, str]) -> Layout:
    """Find the columns. Raises `UserError` naming the columns there are when a needed one is not among them."""
    known = {*COLUMNS, "time_unit", "delimiter", "timezone"}
    if unknown := sorted(set(options) - known):
        raise UserError(f"{path}: no column or option {unknown[0]!r}", f"known: {', '.join(sorted(known))}")
    delimiter = _chosen_delimiter(options.get("delimiter")) or _delimiter(header_line)
    header = _cells(header_line, delimiter)
    columns = _by_usual_names(header)
    for canonical in COLUMNS:
        if canonical in options:
            columns[canonical] = _position(path, header, options[canonical], canonical)
    if "duration" not in options and "end" in options:
        columns.pop("duration", None)
    _require(path, header, columns)
    refuse_twins(path, header, columns.values())
    units = {name: _unit_s(header[columns[name]], options, path) for name in _TIMES if name in columns}
    return _layout(delimiter, header, columns, units)


def layout_by_names(path: Path, header_line: str, names: Mapping[str, str]) -> Layout:
    """The layout of a published table: canonical name -> its header, times in seconds; headers may be missing."""
    header = _cells(header_line, ",")
    columns = {canonical: header.index(name) for canonical, name in names.items() if name in header}
    _require(path, header, columns)
    refuse_twins(path, header, columns.values())
    return _layout(",", header, columns, dict.fromkeys(_TIMES, 1.0))


def header_has(header_line: str, names: Iterable[str]) -> bool:
    """Whether a comma separated header line holds all these columns."""
    return set(names) <= set(_cells(header_line, ","))


def refuse_twins(path: Path, header: Sequence[str], used: Iterable[int]) -> None:
    """`UserError` where two columns have one name and one of them is used: nobody can tell which was meant."""
    names = [_squash(cell) for cell in header]
    for position in used:
        if names[position] and names.count(names[position]) > 1:
            raise UserError(
                f"{path}: two columns are named {header[position]!r}", "give each its own name in the header line"
            )


def _layout(delimiter: str, header: list[str], columns: Mapping[str, int], unit_s: Mapping[str, float]) -> Layout:
    needed = ("submit", "gpus", *(("duration",) if "duration" in columns else ("start", "end")))
    return Layout(delimiter, tuple(header), columns, unit_s, 1 + max(columns[name] for name in needed))


def _cells(header_line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cell in split(header_line.lstrip("\ufeff# "), delimiter)]


def _delimiter(header_line: str) -> str:
    return max(_DELIMITERS, key=header_line.count)


def _chosen_delimiter(option: str | None) -> str | None:
    if not option:
        return None
    chosen = {"tab": "\t", "\\t": "\t"}.get(option, option)
    if len(chosen) != 1 or chosen in '"\r\n':
        raise UserError(f"delimiter {option!r} is not one character", "give one character, or the word tab")
    return chosen


def _squash(header: str) -> str:
    return "".join(c for c in header.lower() if c.isalnum())


def _stem(header: str) -> str:
    name = header.strip().lower()
    match = _UNIT_SUFFIX.search(name)
    return name[: match.start()] if match and match["unit"] in _UNIT_WORDS else header


def _by_usual_names(header: list[str]) -> dict[str, int]:
    """Canonical name -> position. A header's whole name goes before its name without a unit suffix."""
    whole = {_squash(cell): position for position, cell in reversed(list(enumerate(header)))}
    stems = {_squash(_stem(cell)): position for position, cell in reversed(list(enumerate(header)))}
    found: dict[str, int] = {}
    for canonical, names in COLUMNS.items():
        for name in names:
            position = whole.get(name, stems.get(name) if canonical in _TIMES else None)
            if position is not None:
                found[canonical] = position
                break
    return found


def _position(path: Path, header: list[str], wanted: str, canonical: str) -> int:
    for position, cell in enumerate(header):
        if cell == wanted.strip() or _squash(cell) == _squash(wanted) != "":
            return position
    raise UserError(f"{path}: no column {wanted!r} to take {canonical} from", f"there are: {_listed(header)}")


def _require(path: Path, header: list[str], columns: Mapping[str, int]) -> None:
    missing = [name for name in ("submit", "gpus") if name not in columns]
    if "duration" not in columns and not {"start", "end"} <= set(columns):
        missing.append("duration (or start and end)")
    if missing:
        first = missing[0].split()[0]
        raise UserError(
            f"{path}: no column found for {', '.join(missing)}; the columns are: {_listed(header)}",
            f"say which one it is with --column {first}=HEADER",
        )


def _listed(header: list[str]) -> str:
    shown = ", ".join(cell[:40] for cell in header[:30])
    return f"{shown}, ... ({len(header)} in all)" if len(header) > 30 else shown


def _unit_s(header: str, options: Mapping[str, str], path: Path) -> float:
    match = _UNIT_SUFFIX.search(header.strip().lower())
    if match and match["unit"] in _UNIT_WORDS:  # the column's own word is more specific than one for all
        return UNITS_S[_UNIT_WORDS[match["unit"]]]
    unit = options.get("time_unit", "s")
    if unit not in UNITS_S:
        raise UserError(f"{path}: time_unit {unit!r} is not known", f"one of {', '.join(UNITS_S)}")
    return UNITS_S[unit]
