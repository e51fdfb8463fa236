"""Attributes of abstract values: of modules, objects, classes and library names."""

from __future__ import annotations

import posixpath

from analyzers.source.program.machine import Machine
from analyzers.source.program.values import (
    Bound,
    ClassVal,
    Const,
    Ext,
    Func,
    Map,
    Module,
    Obj,
    Origin,
    Seq,
    Unknown,
    Val,
    merged,
)


def attribute(machine: Machine, owner: Val, name: str, origin: Origin) -> Val:
    """``owner.name``."""
    if isinstance(owner, Ext):
        path = f"{owner.path}.{name}"
        return machine.library_values.get(path) or Ext(path, origin)
    if isinstance(owner, Map) and owner.attr and name in owner.items:
        owner.reads.add(name)
        machine.read_name(name, owner.items[name])
        return owner.items[name]
    if isinstance(owner, Module):
        if name == "__dict__":
            return Map(owner.names, origin)
        if name in owner.names:
            return owner.names[name]
        file = machine.resolve(f"{owner.name}.{name}", owner, 0) if owner.is_package else None
        loaded = machine.load(file, f"{owner.name}.{name}") if file and not file.endswith("/") else None
        return loaded or (Ext(f"{owner.stars[-1]}.{name}", origin) if owner.stars else Unknown(name, origin))
    if isinstance(owner, Obj):
        return object_attribute(machine, owner, name, origin)
    if isinstance(owner, ClassVal):
        if name == "__dict__":
            return Map(dict(owner.attrs), origin, open=True)
        found = class_attribute(owner, name)
        if found is not None:
            machine.read_name(name, found)
            return found
        base = library_base(owner)
        return Ext(f"{base}.{name}", origin) if base else Bound(owner, name, origin)
    if isinstance(owner, Const) and isinstance(owner.value, str) and name in _PATH_PARTS:
        return _path_part(owner.value, name, owner.origin)
    if isinstance(owner, Unknown) and owner.options and not isinstance(owner.options[0], Const):
        values = [attribute(machine, option, name, origin) for option in owner.options if not _is_none(option)]
        return merged(values, origin) if values else Unknown(name, origin)
    return Bound(owner, name, origin)


#: What a path of pathlib knows about itself; a plain string has none of these.
_PATH_PARTS = ("parent", "parents", "name", "stem", "suffix")


def _path_part(text: str, name: str, origin: Origin) -> Val:
    if name == "parents":
        found: list[Val] = []
        while len(found) < 8:
            text = posixpath.dirname(text) or "."
            found.append(Const(text, origin))
        return Seq(found, "tuple", origin)
    if name == "parent":
        return Const(posixpath.dirname(text) or ".", origin)
    last = posixpath.basename(text)
    stem, suffix = posixpath.splitext(last)
    return Const({"name": last, "stem": stem, "suffix": suffix}[name], origin)


def _is_none(value: Val) -> bool:
    return isinstance(value, Const) and value.value is None


def object_attribute(machine: Machine, owner: Obj, name: str, origin: Origin) -> Val:
    """An attribute of an instance: its own, its class's, what it wraps, or a library method."""
    if name in owner.attrs:
        machine.read_name(name, owner.attrs[name])
        return owner.attrs[name]
    if name == "__dict__":
        return Map({**owner.attrs}, origin, attr=True)
    if name == "__class__":
        return owner.cls
    if isinstance(owner.cls, ClassVal):
        found = class_attribute(owner.cls, name)
        if isinstance(found, Func) and found.self_ is None:
            if any(isinstance(d, Ext) and d.path.endswith(("property", "cached_property")) for d in found.decorators):
                return machine.call(bind(found, owner), [], {}, origin)
            return bind(found, owner)
        if found is not None:
            return found
        if library_base(owner.cls) is None:
            return Unknown(name, origin)
        return Bound(owner, name, origin)
    wrapped = owner.attrs.get("module")
    if isinstance(wrapped, Obj) and name not in ("parameters", "to", "cuda", "train", "eval", "state_dict"):
        found_inside = object_attribute(machine, wrapped, name, origin)
        if not isinstance(found_inside, Bound):
            return found_inside
    return Bound(owner, name, origin)


def bind(func: Func, owner: Val) -> Func:
    """A method bound to its object (static methods stay as they are)."""
    if any(isinstance(d, Ext) and d.path.endswith("staticmethod") for d in func.decorators):
        return func
    self_ = owner
    if any(isinstance(d, Ext) and d.path.endswith("classmethod") for d in func.decorators) and isinstance(owner, Obj):
        self_ = owner.cls
    return Func(func.node, func.frame, func.name, self_, func.owner, func.origin, func.decorators)


def lineage(cls: ClassVal) -> list[Val]:
    """A class, then its bases and theirs, depth first, each once; cut where no honest class has that many."""
    found: list[Val] = []
    seen: set[int] = set()
    waiting: list[Val] = [cls]
    while waiting and len(found) < _LINEAGE_MAX:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            found.append(each)
            if isinstance(each, ClassVal):
                waiting.extend(reversed(each.bases[:_LINEAGE_MAX]))
    return found


_LINEAGE_MAX = 64


def class_attribute(cls: ClassVal, name: str) -> Val | None:
    """An attribute of a class or of its bases in the tree."""
    for each in lineage(cls):
        if isinstance(each, ClassVal) and name in each.attrs:
            found = each.attrs[name]
            is_classmethod = isinstance(found, Func) and any(
                isinstance(d, Ext) and d.path.endswith("classmethod") for d in found.decorators
            )
            return bind(found, each) if is_classmethod and isinstance(found, Func) else found
    return None


def library_base(cls: ClassVal) -> str | None:
    """The dotted path of the first library class that ``cls`` derives from."""
    return next((each.path for each in lineage(cls) if isinstance(each, Ext)), None)
