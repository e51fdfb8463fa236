"""What decorators and base classes make of the functions and classes that are defined."""

from __future__ import annotations

import ast

from analyzers.source.program.attributes import class_attribute
from analyzers.source.program.expressions import evaluate, lookup, origin_of
from analyzers.source.program.machine import Machine
from analyzers.source.program.values import (
    ClassVal,
    Ext,
    Frame,
    Func,
    Obj,
    Origin,
    Partial,
    Val,
)


def decorated(
    machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame, owner: ClassVal | None
) -> Val:
    """A function with its decorators applied; decorators of libraries that only wrap are remembered and passed over."""
    origin = origin_of(node, frame)
    scope = frame if owner is None else (frame.parent or frame)
    decorators = [evaluate(machine, d, frame) for d in node.decorator_list]
    value: Val = Func(node, scope, node.name, None, owner, origin, tuple(decorators))
    for decorator in reversed(decorators):
        path = decorator.path if isinstance(decorator, Ext) else decorator_path(decorator)
        model = machine.handlers.get(f"@{path}")
        called = decorator.func if isinstance(decorator, Partial) else decorator
        if isinstance(called, Ext) and called.path.endswith(_SPREADING):
            machine.call(called, [value], {}, origin)
        if model is not None:
            from analyzers.source.program.native import Arguments

            value = model(Arguments(machine, [value], {}, origin, path, decorator)) or value
        elif isinstance(decorator, Func):
            made = register(machine, decorator, value, origin)
            value = made if _replaces(machine, made, value) else value
    return value


def register(machine: Machine, decorator: Func, value: Val, origin: Origin) -> Val:
    """Call a decorator of the tree for what it leaves behind (a registry's entry) and return what it makes."""
    calls = len(machine.record.calls)
    made = machine.call(decorator, [value], {}, origin)
    del machine.record.calls[calls:]
    return made


def _replaces(machine: Machine, made: Val, value: Val) -> bool:
    """Whether a decorator gives another function of the tree that has no use for the decorated one.

    A wrapper that calls what it wraps is passed over: the function stays itself.
    """
    if not isinstance(made, Func) or made is value:
        return False
    names = {n.id for n in ast.walk(made.node) if isinstance(n, ast.Name)}
    return not any(lookup(machine, name, made.frame) is value for name in names)


#: Decorators that say where a function runs: they count as the call that they are.
_SPREADING = (".pmap", ".shard_map")


def decorator_path(decorator: Val) -> str:
    """The path of a decorator that was made by a call, or the name of one of the tree."""
    if isinstance(decorator, Obj) and decorator.call is not None:
        return decorator.call.path
    return f"?.{decorator.name}" if isinstance(decorator, Func) else ""


def tell_bases(machine: Machine, cls: ClassVal, node: ast.ClassDef, frame: Frame, origin: Origin) -> None:
    """Call the ``__init_subclass__`` of a base of the tree: it keeps a registry, or gives the class what it needs."""
    for base in cls.bases:
        hook = class_attribute(base, "__init_subclass__") if isinstance(base, ClassVal) else None
        if isinstance(hook, Func):
            words = {k.arg: evaluate(machine, k.value, frame) for k in node.keywords if k.arg and k.arg != "metaclass"}
            bound = Func(hook.node, hook.frame, hook.name, cls, hook.owner, hook.origin)
            calls = len(machine.record.calls)
            machine.call(bound, [], words, origin)
            del machine.record.calls[calls:]
            return
