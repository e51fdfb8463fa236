"""Who waits most in all: a table of users, or of tenants, with their waits under each policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from schedmate.comparison.own_queue import LABEL
from schedmate.comparison.runs import Run
from schedmate.durations import short_duration

SHOWN = 10
#: Of whom a run does not say how long they wait: fewer are kept than there are.
_UNSAID = "–"


class Waiter(NamedTuple):
    """A row: whose jobs, how many, and a text for each column (the sum of their waits and the mean)."""

    name: str
    jobs: int
    waits: list[str]


class Waiting(NamedTuple):
    """``by`` is user or tenant, ``people`` how many there are, ``heads`` the names of the columns."""

    by: str
    people: int
    heads: list[str]
    rows: list[Waiter]


def who_waits(runs: Sequence[Run], recorded: Mapping[str, Any] | None) -> Waiting | None:
    """Those with the most waiting by the trace, else under the first run, in that order; None where the trace names
    nobody."""
    said = [(LABEL, recorded or {}), *((run.label, run.detail) for run in runs if run.detail)]
    found: list[tuple[str, Mapping[str, Any]]] = [(label, of["waiters"]) for label, of in said if of.get("waiters")]
    if not found:
        return None
    first = found[0][1]
    columns = [{row["name"]: row for row in waiters["rows"]} for _, waiters in found]
    rows = [
        Waiter(row["name"], row["jobs"], [_cell(column.get(row["name"])) for column in columns])
        for row in first["rows"][:SHOWN]
    ]
    return Waiting(first["by"], first["count"], [label for label, _ in found], rows)


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return _UNSAID
    return f"{short_duration(row['queueing_total_s'])} ({short_duration(row['queueing_mean_s'])})"
