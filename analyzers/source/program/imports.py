"""Imports: modules of the tree are walked, everything else becomes a library name."""

from __future__ import annotations

import ast
import sys

from analyzers.source.program.libraries import KNOWN, NEVER_WALKED
from analyzers.source.program.machine import Machine
from analyzers.source.program.values import Ext, Frame, Map, Module, Origin, Seq, Unknown, Val


def import_plain(machine: Machine, node: ast.Import, frame: Frame, origin: Origin) -> None:
    """``import a.b.c as d``."""
    for alias in node.names:
        top = alias.name.split(".")[0]
        value = module_value(machine, alias.name, frame, 0, origin)
        if alias.asname is None and alias.name != top:
            parent = module_value(machine, top, frame, 0, origin)
            if isinstance(parent, Module) and isinstance(value, Module):
                _attach(parent, alias.name.split(".")[1:], value)
            value = parent
        machine.store(frame.names, alias.asname or top, value)


def _attach(parent: Module, parts: list[str], value: Module) -> None:
    for part in parts[:-1]:
        child = parent.names.get(part)
        if not isinstance(child, Module):
            child = Module(f"{parent.name}.{part}", parent.path, {})
            parent.names[part] = child
        parent = child
    parent.names[parts[-1]] = value


def import_from(machine: Machine, node: ast.ImportFrom, frame: Frame, origin: Origin) -> None:
    """``from a.b import c as d``."""
    name = node.module or ""
    if name == "__future__":
        return
    source = module_value(machine, name, frame, node.level, origin)
    for alias in node.names:
        if alias.name == "*":
            if isinstance(source, Module):
                for key, value in list(source.names.items()):
                    if not key.startswith("_"):
                        machine.store(frame.names, key, _as_node(machine, value))
                frame.module.stars.extend(source.stars)
            elif isinstance(source, Ext):
                frame.module.stars.append(source.path)
            continue
        machine.store(
            frame.names, alias.asname or alias.name, _member(machine, source, alias.name, frame, node, origin)
        )


def _as_node(machine: Machine, value: Val, depth: int = 0) -> Val:
    """What one configuration file takes from another: there a dict's keys are attributes too."""
    if machine.in_configuration and depth < 30:
        if isinstance(value, Map):
            value.attr = True
            for inner in value.items.values():
                _as_node(machine, inner, depth + 1)
        elif isinstance(value, Seq):
            for inner in value.items:
                _as_node(machine, inner, depth + 1)
    return value


def _member(machine: Machine, source: Val, name: str, frame: Frame, node: ast.ImportFrom, origin: Origin) -> Val:
    if isinstance(source, Module):
        if name in source.names:
            return _as_node(machine, source.names[name])
        inner = module_value(
            machine, f"{node.module}.{name}" if node.module else name, frame, node.level, origin, quiet=True
        )
        if isinstance(inner, Module):
            return inner
        if source.stars:
            return Ext(f"{source.stars[-1]}.{name}", origin)
        return Unknown(f"{source.name}.{name}", origin)
    if isinstance(source, Ext):
        path = f"{source.path}.{name}"
        return machine.library_values.get(path) or Ext(path, origin)
    return Unknown(name, origin)


def module_value(
    machine: Machine, dotted: str, frame: Frame, level: int, origin: Origin, *, quiet: bool = False
) -> Val:
    """A module of the tree, or the library name."""
    machine.tick()
    machine.tree.deadline.check()  # looking for a file takes as long as many steps
    top = dotted.split(".")[0]
    path = machine.resolve(dotted, frame.module, level) if level or top not in NEVER_WALKED else None
    if path is not None and path.endswith("/"):
        return Module(dotted, path + "__init__.py", is_package=True)
    if path is not None:
        if path == frame.module.path:
            return machine.modules.get(path) or frame.module
        module = machine.load(path, dotted)
        if module is not None:
            return module
        # Of the tree, but ignored or closed: not the library of that name.
        machine.record.unresolved.add(dotted)
        return Unknown(dotted, origin)
    if not quiet:
        if level or not top:
            machine.record.unresolved.add("." * level + dotted)
            return Unknown(dotted, origin)
        if top not in sys.stdlib_module_names:
            machine.record.imports.setdefault(dotted, origin)
            if top not in KNOWN:
                machine.record.unresolved.add(top)
    return Ext(dotted, origin)
