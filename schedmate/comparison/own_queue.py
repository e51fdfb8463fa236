"""The queue that the trace itself records, beside those of the policies: a column of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedmate.comparison.runs import Run
from schedmate.comparison.table import summary_rows

LABEL = "as recorded"
NOT_RECORDED = "n/a"
_NONE = dict.fromkeys(("mean", "p50", "p90", "p99", "max"))
_Rows = Sequence[tuple[str, list[str]]]


def recorded_in(documents: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """What the documents have as recorded, where they have the same or there is only one that has any."""
    found = [document["recorded"] for document in documents if document.get("recorded")]
    return found[0] if found and all(each == found[0] for each in found) else None


def with_recorded(rows: _Rows, recorded: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The rows with one more cell in front, n/a where a trace can not say."""
    summary = dict.fromkeys(("sor", "sor_while_arriving", "makespan_s"), None) | {"gfr": _NONE} | dict(recorded)
    own = {label: cells[0] for label, cells in summary_rows([summary])}
    return [(label, [own.get(label, NOT_RECORDED), *cells]) for label, cells in rows]


def recorded_run(recorded: Mapping[str, Any] | None, beside: Run) -> Run | None:
    """What is recorded as if it were a run, for the pictures of waits."""
    if recorded is None:
        return None
    return Run(LABEL, "recorded", LABEL, beside.document, {**recorded, "detail": recorded})


def told(recorded: Mapping[str, Any]) -> str:
    """What the column means, in a sentence or two."""
    part = "" if recorded["jobs"] == recorded["of"] else f" ({recorded['jobs']:,} of {recorded['of']:,} jobs have one)"
    return (
        f"{LABEL.capitalize()}: by the starts that stand in the trace{part}, from submission or, for jobs that "
        "were held, from when only the queue kept them. The cluster then need not have been the one that is replayed."
    )
