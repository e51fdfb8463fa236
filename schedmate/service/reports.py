"""Root causes summed up over everything that was diagnosed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Select, case, func, select

from schedmate.service.store import Store, culprit_nodes, diagnoses

GroupBy = Literal["category", "subcategory", "node", "tenant", "user", "action"]

_EVIDENCE_PER_GROUP = 3
_MOST_SUBCATEGORIES = 10
_MOST_NODES = 10


@dataclass(frozen=True, slots=True)
class Window:
    """What is looked at: times in seconds since 1970 (``until_s`` excluded), and whose jobs."""

    since_s: float | None = None
    until_s: float | None = None
    tenant: str | None = None
    user: str | None = None


def root_causes(store: Store, group_by: GroupBy, window: Window, limit: int) -> dict[str, Any]:
    """The report: how often what, how much of it is retryable, and on what evidence. Largest groups first.

    A diagnosis with several culprit nodes counts under each of them when grouped by node, and once in the total.
    """
    total, retryable, first_s, last_s = store.rows(_filtered(select(*_counts()), window))[0]
    key = _key(group_by)
    groups = store.rows(
        _joined(_filtered(select(key, *_counts()), window), group_by)
        .group_by(key)
        .order_by(func.count().desc(), key)
        .limit(limit)
    )
    return {
        "since_s": window.since_s,
        "until_s": window.until_s,
        "tenant": window.tenant,
        "user": window.user,
        "group_by": group_by,
        "total": total,
        "retryable_share": _share(retryable, total),
        "first_s": first_s,
        "last_s": last_s,
        "groups": [
            {
                "key": name,
                "count": count,
                "share": _share(count, total),
                "retryable_share": _share(yes, count),
                "first_s": first,
                "last_s": last,
                **_details(store, group_by, window, name),
            }
            for name, count, yes, first, last in groups
        ],
    }


def _details(store: Store, group_by: GroupBy, window: Window, name: str | None) -> dict[str, Any]:
    def within(statement: Any, nodes: bool = False) -> Any:
        chosen = _filtered(statement, window).where(_key(group_by).is_not_distinct_from(name))
        return chosen.outerjoin(culprit_nodes) if nodes or group_by == "node" else chosen

    kinds = store.rows(
        within(select(diagnoses.c.category, diagnoses.c.subcategory, func.count()))
        .group_by(diagnoses.c.category, diagnoses.c.subcategory)
        .order_by(func.count().desc())
        .limit(_MOST_SUBCATEGORIES)
    )
    nodes = store.rows(
        within(select(culprit_nodes.c.node, func.count()), nodes=True)
        .where(culprit_nodes.c.node.is_not(None))
        .group_by(culprit_nodes.c.node)
        .order_by(func.count().desc(), culprit_nodes.c.node)
        .limit(_MOST_NODES)
    )
    evidence = store.rows(
        within(select(func.max(diagnoses.c.evidence_text), func.count(), func.max(diagnoses.c.id)))
        .where(diagnoses.c.evidence_shape.is_not(None))
        .group_by(diagnoses.c.evidence_shape)
        .order_by(func.count().desc(), func.max(diagnoses.c.created_s).desc())
        .limit(_EVIDENCE_PER_GROUP)
    )
    categories: Counter[str] = Counter()
    for category, _, count in kinds:
        categories[category] += count
    return {
        "categories": dict(categories),
        "subcategories": [
            {"category": category, "subcategory": subcategory, "count": count} for category, subcategory, count in kinds
        ],
        "nodes": {str(node): int(count) for node, count in nodes},
        "evidence": [{"text": text, "count": count, "diagnosis": number} for text, count, number in evidence],
    }


def _counts() -> tuple[Any, ...]:
    created = diagnoses.c.created_s
    retryable = func.coalesce(func.sum(case((diagnoses.c.retryable.is_(True), 1), else_=0)), 0)
    return func.count(), retryable, func.min(created), func.max(created)


def _key(group_by: GroupBy) -> Any:
    return culprit_nodes.c.node if group_by == "node" else diagnoses.c[group_by]


def _joined(statement: Select[Any], group_by: GroupBy) -> Select[Any]:
    return statement.outerjoin(culprit_nodes) if group_by == "node" else statement


def _filtered(statement: Select[Any], window: Window) -> Select[Any]:
    statement = statement.select_from(diagnoses)
    if window.since_s is not None:
        statement = statement.where(diagnoses.c.created_s >= window.since_s)
    if window.until_s is not None:
        statement = statement.where(diagnoses.c.created_s < window.until_s)
    if window.tenant is not None:
        statement = statement.where(diagnoses.c.tenant == window.tenant)
    if window.user is not None:
        statement = statement.where(diagnoses.c.user == window.user)
    return statement


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
