"""Reads tenants from YAML: by path, each with its quota per GPU type. Explained in docs/cluster-file.md::

lab: {quota: {a100: 16}}
lab/vision: {weight: 2, queue: strict, quota: {a100: {guaranteed: 8, borrow: 4, lend: 2}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prompts.errors import UserError
from schedmate.scheduler.tenants import MOST_LEVELS, Queueing, Quota, Tenant
from schedmate.simulator import cluster_fields as f

_EXAMPLE = "write for example `lab: {quota: {a100: 16}}`"


def tenants_from(where: str, value: Any) -> tuple[Tenant, ...]:
    """The top of the tree that a parsed description stands for. Raises `UserError` naming the place."""
    given = f.mapping(where, value or {}, _EXAMPLE)
    for name in given:
        if not all(name.split("/")) or name.count("/") >= MOST_LEVELS:
            raise UserError(f"{where}: {f.shown(name)} is no path of a tenant", _EXAMPLE)
        parent = name.rpartition("/")[0]
        if parent and parent not in given:
            raise UserError(f"{where}: tenant {name} has no parent {parent}", "name it as well, above it")
    return tuple(_tenant(where, given, name) for name in given if "/" not in name)


def queueing_from(where: str, value: Any) -> Queueing:
    """The name of a `Queueing`."""
    names = [each.value for each in Queueing]
    if value not in names:
        raise UserError(f"{where}: no queueing {f.shown(value)}", f"there are {', '.join(names)}")
    return Queueing(value)


def _tenant(where: str, tree: Mapping[str, Any], name: str) -> Tenant:
    below = [each for each in tree if each.rpartition("/")[0] == name]
    place = f"{where}: {name}"
    given = f.mapping(place, tree[name] or {}, _EXAMPLE)
    f.known(place, given, ("weight", "isolated", "queue", "quota"))
    quotas = f.mapping(f"{place}: quota", given.get("quota", {}), _EXAMPLE)
    try:
        return Tenant(
            name,
            {of_type: _quota(f"{place}: quota: {of_type}", each) for of_type, each in quotas.items()},
            tuple(_tenant(where, tree, each) for each in below),
            f.positive(f"{place}: weight", given.get("weight", 1)),
            f.yes_no(f"{place}: isolated", given.get("isolated", False)),
            queueing_from(place, given["queue"]) if "queue" in given else None,
        )
    except ValueError as error:
        raise UserError(f"{place}: {error}", "see docs/cluster-file.md") from None


def _quota(where: str, value: Any) -> Quota:
    """``8`` or ``{guaranteed: 8, borrow: 4, lend: 2}``."""
    given = f.mapping(where, value if isinstance(value, dict) else {"guaranteed": value}, _EXAMPLE)
    f.known(where, given, ("guaranteed", "borrow", "lend"))
    amounts = {key: f.amount(f"{where}: {key}", each) for key, each in given.items()}
    return Quota(amounts.get("guaranteed", 0.0), amounts.get("borrow"), amounts.get("lend"))
