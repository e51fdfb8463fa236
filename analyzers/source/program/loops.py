"""How often loops go round, what bounds them, and what their bodies change."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from analyzers.source.program.machine import Machine
from analyzers.source.program.values import (
    Const,
    Ext,
    Frame,
    Map,
    Obj,
    Origin,
    Range,
    Scaled,
    Seq,
    Unknown,
    Val,
    number,
)


def trip_count(iterable: Val) -> Val | None:
    """How often a loop over this goes round: a number, a value, or None where nothing bounds it."""
    if isinstance(iterable, Range):
        start, stop, step = iterable.start, iterable.stop, iterable.step
        low, high, stride = number(start), number(stop), number(step)
        if low is not None and high is not None and stride and max(abs(low), abs(high)) < 1e15:
            count = max(0, -int(-(high - low) // stride))
            place = stop.origin if isinstance(stop, Const) else iterable.origin
            return Const(count, place, isinstance(stop, Const) and stop.assumed)
        difference = _difference(stop, start)
        if difference is not None:
            return difference
        if high is not None and abs(high) < 1e15 and isinstance(start, Unknown | Obj):
            # range(start_epoch, epochs): the whole run from its beginning, start being what a restart would set.
            starts = [number(o) for o in start.options] if isinstance(start, Unknown) else []
            if starts and all(s is not None for s in starts[:1]):
                return Const(max(0, int(high - min(s for s in starts if s is not None))), stop.origin)
            return Const(int(high), stop.origin, assumed=True)
        return stop if isinstance(stop, Unknown | Scaled) else Unknown("range", iterable.origin)
    if isinstance(iterable, Seq) and not iterable.open:
        return Const(len(iterable.items), iterable.origin)
    if isinstance(iterable, Obj) and isinstance(iterable.cls, Ext):
        path = iterable.cls.path
        if path in ("itertools.count", "itertools.cycle", "itertools.repeat"):
            return None
        inner = iterable.attrs.get("iterable")
        if inner is not None:
            return trip_count(inner)
        others = iterable.attrs.get("iterables")
        if isinstance(others, Seq):
            counts = [trip_count(o) for o in others.items]
            known = [c for c in counts if isinstance(c, Const)]
            return known[0] if known else (counts[0] if counts else None)
    return Unknown("iterable", getattr(iterable, "origin", Origin()))


def _difference(stop: Val, start: Val) -> Val | None:
    """``range(start, start + n)`` goes round n times, whatever start is."""
    if isinstance(stop, Unknown) and stop.detail[:1] == ("arithmetic",) and stop.detail[3:] == ("Add",):
        left, right = stop.detail[1], stop.detail[2]
        if left is start and isinstance(right, Const) and isinstance(right.value, int):
            return right
        if right is start and isinstance(left, Const) and isinstance(left.value, int):
            return left
    return None


def limits_of(test: Unknown, node: ast.expr) -> list[tuple[str, Val]]:
    detail = test.detail
    if detail[:1] == ("compare",) and len(detail) == 4:
        operator, left, right = detail[1], detail[2], detail[3]
        if isinstance(right, Const) and operator in ("Lt", "LtE", "NotEq"):
            return [(str(operator), right)]
        if isinstance(left, Const) and operator in ("Gt", "GtE", "NotEq"):
            return [(str(operator), left)]
    if detail[:1] == ("bool",) and len(detail) == 2 and isinstance(detail[1], tuple):
        return [limit for part in detail[1] if isinstance(part, Unknown) for limit in limits_of(part, node)]
    return []


def widen(machine: Machine, body: Sequence[ast.stmt], frame: Frame, origin: Origin) -> None:
    """Make unknown every plain name that the loop's body changes step by step."""
    for statement in body:
        for node in ast.walk(statement):
            machine.tick()
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                names = frame.module.names if name in frame.global_names else frame.names
                if isinstance(names.get(name), Const):
                    machine.store(names, name, Unknown("changes in a loop", origin, detail=("counter", name)))
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
                owner_node = node.target.value
                owner = frame.names.get(owner_node.id) if isinstance(owner_node, ast.Name) else None
                if isinstance(owner, Obj) and isinstance(owner.attrs.get(node.target.attr), Const):
                    counter = Unknown("changes in a loop", origin, detail=("counter", node.target.attr))
                    machine.store(owner.attrs, node.target.attr, counter)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
                owner_node, key = node.target.value, node.target.slice
                owner = frame.names.get(owner_node.id) if isinstance(owner_node, ast.Name) else None
                label = key.value if isinstance(key, ast.Constant) else None
                if isinstance(owner, Map) and isinstance(label, str) and isinstance(owner.items.get(label), Const):
                    counter = Unknown("changes in a loop", origin, detail=("counter", label))
                    machine.store(owner.items, label, counter)
