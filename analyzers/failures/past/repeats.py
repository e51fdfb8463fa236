"""Work that keeps failing in a way that running it again does not help: it should be stopped, not retried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analyzers.types import Category, FailureRecord

ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Repeated:
    """One work that failed the same way ``times`` times, on so many nodes, since it last ended well. ``jobs`` are the
    latest."""

    user: str
    work: str
    category: Category
    subcategory: str
    times: int
    nodes: int
    last_s: float
    jobs: tuple[str, ...]


_MOST_JOBS = 5


def repeat_offenders(records: Iterable[FailureRecord], enough: int = ENOUGH) -> tuple[Repeated, ...]:
    """Works that failed at least ``enough`` times the same way without ending well in between, the most often first.

    ``records`` come in order of time. Failures that the platform blames a node for do not count, nor do those that
    another try can help with.
    """
    open_: dict[tuple[str, str], dict[str, list[FailureRecord]]] = {}
    for record in records:
        who = (record.user, record.work or record.job_id)
        if record.category == "none":
            open_.pop(who, None)
        elif record.failure and record.retryable is False and not record.culprits:
            open_.setdefault(who, {}).setdefault(record.failure, []).append(record)
    found = [
        _told(failures)
        for failures in (failures for by_failure in open_.values() for failures in by_failure.values())
        if len(failures) >= enough
    ]
    return tuple(sorted(found, key=lambda each: (-each.times, each.user, each.work)))


def _told(failures: list[FailureRecord]) -> Repeated:
    last = failures[-1]
    jobs = tuple(dict.fromkeys(each.job_id for each in reversed(failures)))
    nodes = {node for each in failures for node in each.nodes}
    return Repeated(
        last.user, last.work, last.category, last.subcategory, len(failures), len(nodes), last.at_s, jobs[:_MOST_JOBS]
    )
