"""Giving values to names, attributes, keys and several of them at once."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from analyzers.source.program.events import Loop
from analyzers.source.program.expressions import evaluate, item, known_items, origin_of
from analyzers.source.program.machine import Machine
from analyzers.source.program.values import (
    Bound,
    ClassVal,
    Const,
    Ext,
    Frame,
    Map,
    Module,
    Obj,
    Origin,
    Seq,
    Unknown,
    Val,
)


def assign(machine: Machine, target: ast.expr, value: Val, frame: Frame) -> None:
    """Bind ``value`` to a target."""
    if isinstance(target, ast.Name):
        names = frame.module.names if target.id in frame.global_names else frame.names
        machine.store(names, target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(machine, target, value, frame)
    elif isinstance(target, ast.Attribute):
        owner = evaluate(machine, target.value, frame)
        _set_attribute(machine, owner, target.attr, value, origin_of(target, frame))
    elif isinstance(target, ast.Subscript):
        owner = evaluate(machine, target.value, frame)
        key = evaluate(machine, target.slice, frame) if not isinstance(target.slice, ast.Slice) else Unknown("slice")
        if isinstance(owner, Map) and isinstance(key, Const):
            machine.store(owner.items, key.value, value)
        elif isinstance(owner, Seq) and isinstance(key, Const) and isinstance(key.value, int):
            if 0 <= key.value < len(owner.items):
                machine.change_items(owner, [*owner.items[: key.value], value, *owner.items[key.value + 1 :]])
        elif isinstance(owner, Map):
            owner.open = True
        elif isinstance(key, Const) and key.value == "lr" and machine.loops and _one_group(target.value):
            machine.record.settings.append(("param_groups.lr by step", value))
        elif isinstance(key, Const) and key.value == "lr" and machine.loops and _over_groups(machine.loops[-1]):
            once = not machine.guards and len(machine.loops) == 1
            machine.record.settings.append(("param_groups.lr" if once else "param_groups.lr by step", value))
    elif isinstance(target, ast.Starred):
        assign(machine, target.value, Unknown("rest"), frame)


def _one_group(owner: ast.expr) -> bool:
    """Whether this is ``optimizer.param_groups[i]``."""
    groups = owner.value if isinstance(owner, ast.Subscript) else None
    return isinstance(groups, ast.Attribute) and groups.attr == "param_groups"


def _over_groups(loop: Loop) -> bool:
    """Whether a loop goes over an optimizer's parameter groups, numbered or not."""
    groups = loop.iterable
    if isinstance(groups, Obj) and isinstance(groups.cls, Ext):
        numbered = groups.attrs.get("iterable")
        if isinstance(numbered, Bound):
            return numbered.name == "param_groups"
        return groups.cls.path.endswith("param_groups")
    return isinstance(groups, Bound) and groups.name == "param_groups"


def _unpack(machine: Machine, target: ast.Tuple | ast.List, value: Val, frame: Frame) -> None:
    items = known_items(value)
    starred = any(isinstance(t, ast.Starred) for t in target.elts)
    if items is not None and len(items) == len(target.elts) and not starred:
        for element, part in zip(target.elts, items, strict=True):
            assign(machine, element, part, frame)
        return
    if items is not None and starred and len(items) >= len(target.elts) - 1:
        _unpack_rest(machine, target.elts, items, frame, origin_of(target, frame))
        return
    for position, element in enumerate(target.elts):
        of_loop = value.detail[1:] if isinstance(value, Unknown) and value.detail[:1] == ("loop",) else ()
        unpacked: Val = Unknown("element", origin_of(target, frame), detail=("part", *of_loop) if of_loop else ())
        if isinstance(value, Obj) and isinstance(value.cls, Ext):
            unpacked = item(value, Const(position), origin_of(target, frame))
        assign(machine, element, unpacked, frame)


def _unpack_rest(machine: Machine, targets: Sequence[ast.expr], items: list[Val], frame: Frame, origin: Origin) -> None:
    """``first, *middle, last = items``."""
    at = next(i for i, t in enumerate(targets) if isinstance(t, ast.Starred))
    after = len(targets) - at - 1
    end = len(items) - after
    rest: Val = Seq(items[at:end], "list", origin)
    starred = targets[at]
    assert isinstance(starred, ast.Starred)
    parts: list[tuple[ast.expr, Val]] = [*zip(targets[:at], items[:at], strict=True), (starred.value, rest)]
    parts += zip(targets[at + 1 :], items[end:], strict=True)
    for element, part in parts:
        assign(machine, element, part, frame)


def _set_attribute(machine: Machine, owner: Val, name: str, value: Val, origin: Origin) -> None:
    if isinstance(owner, Map) and owner.attr:
        machine.store(owner.items, name, value)
    elif isinstance(owner, Obj | ClassVal):
        machine.store(owner.attrs, name, value)
    elif isinstance(owner, Module):
        machine.store(owner.names, name, value)
    elif isinstance(owner, Ext):
        machine.record.settings.append((f"{owner.path}.{name}", value))
