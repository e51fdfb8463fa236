"""What is remembered of a diagnosed job: where it ran, what was run, and a fingerprint of how it failed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from analyzers.failures.accounting import JobRow, own_row, read_rows
from analyzers.failures.events import Scan
from analyzers.failures.topology import Topology
from analyzers.failures.tracebacks import FRAME, LIBRARY
from analyzers.logs.prefix import strip_prefix
from analyzers.types import Diagnosis, FailureRecord
from prompts.redaction import redact

#: Files that training reads samples from; a checkpoint or a script is none.
_DATA_FILE = re.compile(
    r"(?<![\w/.-])((?:[a-z0-9]{2,6}://|\.{0,2}/)?[\w.@-]+(?:/[\w.@=+-]+){1,30}"
    r"\.(?:tar|tgz|parquet|arrow|feather|jsonl|csv|tsv|tfrecords?|npy|npz|h5|hdf5|lmdb|mdb|zarr|wds|recordio|jpe?g|png|"
    r"webp|tiff?|wav|flac|mp3|mp4|avi|mkv|idx|zst|gz|bz2|txt|json))(?![\w.-]*\w)",
    re.I,
)
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+")
_MOST_LINE_CHARS = 400


@dataclass(frozen=True, slots=True)
class Told:
    """What the scheduler or an operator says of the job, beside its files; what is empty is read from those."""

    job_id: str = ""
    attempt: int = 0
    user: str = ""
    name: str = ""
    nodes: tuple[str, ...] = ()


def record_of(
    found: Diagnosis, scan: Scan, topology: Topology, told: Told, *, unnamed: str, now_s: float
) -> FailureRecord:
    """The record of a diagnosed job. ``unnamed`` is its id where nothing tells one; ``now_s`` its end where no record
    of the scheduler does."""
    row = own_row(
        [row for file, lines in scan.accounting for row in read_rows(file, lines)],
        scan.job_ids,
        topology,
        scan.last_time,
    )
    nodes, nodes_told = _nodes(told, row, topology)
    failure, own_code = ("", False) if found.category == "none" else _fingerprint(found, (*nodes, *topology.nodes))
    name = told.name or (row.name if row else "")
    return FailureRecord(
        job_id=told.job_id or (row.job_id if row else "") or _only(scan.job_ids) or unnamed,
        at_s=row.end.timestamp() if row and row.end else now_s,
        category=found.category,
        subcategory=found.subcategory,
        attempt=told.attempt,
        user=told.user or (row.user if row else ""),
        work=work_of(name),
        failure=failure,
        own_code=own_code,
        nodes=nodes,
        nodes_told=nodes_told,
        culprits=found.culprit_nodes if found.node_proof == "platform" else (),
        data="" if found.category == "none" else _data_file(found),
        retryable=found.retryable,
        node_fault=found.action == "cordon_node_and_restart",
        accused=found.culprit_nodes if found.node_proof in ("job-log", "several-jobs") else (),
    )


def work_of(name: str) -> str:
    """What was run, from the job's name: runs that differ only in their numbers are the same work."""
    return _NUMBERS.sub("#", redact(name.strip()))


def _nodes(told: Told, row: JobRow | None, topology: Topology) -> tuple[tuple[str, ...], bool]:
    """Where it ran, and whether somebody else than the job's own log says so."""
    if told.nodes:
        return told.nodes, True
    if row is not None and row.nodes:
        return row.nodes, True
    return tuple(sorted(topology.nodes)), False


def _fingerprint(found: Diagnosis, nodes: tuple[str, ...]) -> tuple[str, bool]:
    """What two failures have in common when they are the same one: the innermost frame of the job's own code and the
    line that was quoted first, without names of nodes and numbers."""
    frame = next((where for line in found.evidence if (where := _own_frame(line.text))), "")
    line = strip_prefix(found.evidence[0].text).rest.strip() if found.evidence else ""
    for node in sorted(set(nodes), key=len, reverse=True):
        line = line.replace(node, "NODE").replace(node.partition(".")[0], "NODE")
    alike = _NUMBERS.sub("#", redact(line[:_MOST_LINE_CHARS]))
    whole = "\n".join((found.subcategory, frame, alike))
    return hashlib.blake2b(whole.encode("utf-8", "replace"), digest_size=12).hexdigest(), bool(frame)


def _own_frame(text: str) -> str:
    frame = FRAME.match(strip_prefix(text).rest.strip())
    if frame is None or LIBRARY.search(frame["path"]):
        return ""
    return f"{frame['path'].rpartition('/')[2]} {frame['where'] or ''}".strip()


def _data_file(found: Diagnosis) -> str:
    for line in found.evidence:
        if _own_frame(line.text) or FRAME.match(line.text.strip()):
            continue
        if named := _DATA_FILE.search(line.text[:_MOST_LINE_CHARS]):
            return named[1]
    return ""


def _only(numbers: set[str]) -> str:
    return next(iter(numbers)) if len(numbers) == 1 else ""
