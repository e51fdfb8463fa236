"""Reads what the scheduler wrote down about jobs (sacct as a table, with bars or as JSON; scontrol)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from analyzers.failures.events import seconds_between
from analyzers.failures.topology import Topology, same_node
from analyzers.logs.companions import LogFile
from analyzers.types import LogEvidence

_BRACKETS = re.compile(r"^(.*?)\[([\d,-]+)\](.*)$")
_MOST_NODES = 4096
#: A job and its log end this close together.
ENDS_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job (not a step). ``state`` is the first word in capitals, for example ``"COMPLETED"``."""

    job_id: str
    state: str
    name: str
    user: str
    nodes: tuple[str, ...]
    start: datetime | None
    end: datetime | None
    evidence: LogEvidence


def read_rows(file: LogFile, lines: list[str]) -> list[JobRow]:
    """The jobs of one accounting file; rows that can not be read are left out."""
    if lines and lines[0].lstrip().startswith(("{", "[")):
        return list(_json_rows(file, lines))
    if any("JobState=" in line for line in lines):
        return list(_scontrol_rows(file, lines))
    return list(_table_rows(file, lines))


def own_row(rows: list[JobRow], job_ids: set[str], topology: Topology, end: datetime | None) -> JobRow | None:
    """The row of the job whose logs were read: by its number, else the only one, else by nodes and end."""
    mine = [row for row in rows if row.job_id in job_ids]
    if mine:
        return mine[-1]
    if len(rows) == 1:
        return rows[0]
    here = [row for row in rows if row.nodes and topology.nodes and _covers(row.nodes, topology.nodes)]
    if end is not None:
        gaps = {row.job_id: seconds_between(row.end, end) for row in here}
        here = [row for row in here if abs(gaps[row.job_id] or 0.0) < ENDS_WITHIN_S and gaps[row.job_id] is not None]
    return here[0] if len(here) == 1 else None


def fails_elsewhere(rows: list[JobRow], own: JobRow | None) -> list[JobRow]:
    """Rows of the same user's job of the same name that failed on other nodes."""
    if own is None or not own.name:
        return []
    return [
        row
        for row in rows
        if row.job_id != own.job_id
        and (row.name, row.user, row.state) == (own.name, own.user, "FAILED")
        and row.nodes
        and not set(row.nodes) & set(own.nodes)
    ]


def expand_nodes(text: str) -> tuple[str, ...]:
    """``"a[1-3,7]"`` as its nodes; text that is no node list gives nothing."""
    found: list[str] = []
    for part in re.findall(r"[^,\[\]]*(?:\[[^\]]*\])?[^,\[\]]*", text):
        if not part:
            continue
        brackets = _BRACKETS.match(part)
        if not brackets:
            found.append(part)
            continue
        for piece in brackets[2].split(","):
            first, _, last = piece.partition("-")
            if first.isdigit() and (not last or last.isdigit()) and int(last or first) - int(first) < _MOST_NODES:
                for number in range(int(first), int(last or first) + 1):
                    found.append(f"{brackets[1]}{number:0{len(first)}d}{brackets[3]}")
    return tuple(found[:_MOST_NODES])


def _covers(row_nodes: tuple[str, ...], nodes: set[str]) -> bool:
    return all(any(same_node(node, other) for other in row_nodes) for node in nodes)


def _table_rows(file: LogFile, lines: list[str]) -> Iterator[JobRow]:
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split("|")] if "|" in line else line.split()
        if not header:
            if cells and cells[0].lower() in ("jobid", "jobidraw") and any(cell.lower() == "state" for cell in cells):
                header = [cell.lower() for cell in cells]
            continue
        if "|" not in line and "CANCELLED" in cells and "by" in cells:
            at = cells.index("by")
            cells = cells[:at] + cells[at + 2 :]
        if len(cells) != len(header) or "." in cells[0] or set(cells[0]) <= {"-"}:
            continue
        row = dict(zip(header, cells, strict=True))
        yield JobRow(
            cells[0],
            (row.get("state", "").split() or [""])[0].rstrip("+"),
            row.get("jobname", ""),
            row.get("user", ""),
            expand_nodes(row.get("nodelist", "")),
            _time(row.get("start", "")),
            _time(row.get("end", "")),
            LogEvidence(file.name, number, line.rstrip()),
        )


def _scontrol_rows(file: LogFile, lines: list[str]) -> Iterator[JobRow]:
    """Records of ``scontrol show job``: KEY=VALUE pairs over some lines, each record beginning with JobId=."""
    record: dict[str, str] = {}
    evidence = LogEvidence(file.name, 1, "")
    for number, line in enumerate([*lines, "JobId="], 1):
        pairs = dict(re.findall(r"\b(\w+)=(\S*)", line))
        if "JobId" in pairs and record:
            yield JobRow(
                record.get("JobId", ""),
                record.get("JobState", ""),
                record.get("JobName", ""),
                record.get("UserId", "").partition("(")[0],
                expand_nodes(record.get("NodeList", "").removeprefix("(null)")),
                _time(record.get("StartTime", "")),
                _time(record.get("EndTime", "")),
                evidence,
            )
            record = {}
        if "JobState" in pairs:
            evidence = LogEvidence(file.name, number, line.rstrip())
        record.update(pairs)


def _json_rows(file: LogFile, lines: list[str]) -> Iterator[JobRow]:
    try:
        tree = json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return
    jobs = tree.get("jobs") if isinstance(tree, dict) else tree
    for job in jobs if isinstance(jobs, list) else []:
        if not isinstance(job, dict):
            continue
        state = _json_state(job)
        quoted = f'"{state}"'
        number = next((at for at, line in enumerate(lines, 1) if state and quoted in line), 1)
        yield JobRow(
            str(job.get("job_id", "")),
            state,
            str(job.get("name", "")),
            str(job.get("user", "")),
            expand_nodes(str(job.get("nodes", ""))),
            None,
            None,
            LogEvidence(file.name, number, lines[number - 1].rstrip()),
        )


def _json_state(job: dict[str, Any]) -> str:
    state = job.get("state") or job.get("job_state") or ""
    if isinstance(state, dict):
        state = state.get("current", "")
    if isinstance(state, list):
        state = state[0] if state else ""
    return str(state).split()[0] if str(state).strip() else ""


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None
