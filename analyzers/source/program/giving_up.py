"""Giving up on one call that takes too many steps: its value is unknown, and so is whatever it may have changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from analyzers.source.program.machine import Machine, Write, own_nodes
from analyzers.source.program.values import (
    ClassVal,
    Frame,
    Func,
    Map,
    Module,
    Obj,
    Origin,
    Seq,
    Unknown,
    Val,
)

#: Shares of all steps that one call may take, by how deep it stands: a program's ``main()`` most of them, a call far
#: inside a good part. The outer ones have more, so that the inner call is given up and the program around it goes on.
_SHARES = (0.9, 0.8, 0.7, 0.6)
WHY = "takes too many steps"


def share_of(depth: int, steps_max: int) -> int:
    """The steps that a call may take which stands in ``depth`` others."""
    return int(_SHARES[min(depth, len(_SHARES) - 1)] * steps_max)


def forget_writes(machine: Machine, writes: list[Write], origin: Origin) -> None:
    """Make unknown what a call that was given up halfway had set: the rest of it may have set it again."""
    for container, key, _ in list(writes):
        if isinstance(container, Seq):
            container.open = True
        else:
            machine.store(container, key, Unknown(WHY, origin))


def forget_targets(machine: Machine, func: Func, frame: Frame, origin: Origin) -> None:
    """Make unknown what the body of a function that was left halfway may set outside of it."""
    for name in frame.global_names | set(_globals(func)):
        machine.store(frame.module.names, name, Unknown(WHY, origin))
    for node in own_nodes(func.node):
        if not isinstance(node, ast.Attribute | ast.Subscript):
            continue
        owner = _named(node.value, frame)
        if isinstance(owner, Seq):
            owner.open = True
        elif isinstance(node.ctx, ast.Load):
            continue
        elif isinstance(node, ast.Attribute):
            names = _names_of(owner)
            if names is not None:
                machine.store(names, node.attr, Unknown(WHY, origin))
        elif isinstance(owner, Map):
            owner.open = True
            if isinstance(node.slice, ast.Constant):
                machine.store(owner.items, node.slice.value, Unknown(WHY, origin))


def _globals(func: Func) -> Iterator[str]:
    for node in own_nodes(func.node):
        if isinstance(node, ast.Global):
            yield from node.names


def _named(node: ast.expr, frame: Frame) -> Val | None:
    if not isinstance(node, ast.Name):
        return None
    scope: Frame | None = frame
    while scope is not None:
        if node.id in scope.names:
            return scope.names[node.id]
        scope = scope.parent
    return frame.module.names.get(node.id)


def _names_of(owner: Val | None) -> dict[str, Val] | None:
    if isinstance(owner, Obj | ClassVal):
        return owner.attrs
    if isinstance(owner, Module):
        return owner.names
    return owner.items if isinstance(owner, Map) and owner.attr else None
