"""Methods of strings, lists and dicts."""

from __future__ import annotations

from typing import Any

from analyzers.source.program.expressions import known_items
from analyzers.source.program.native import HANDLERS, Arguments, models
from analyzers.source.program.values import (
    NONE,
    Const,
    Map,
    Seq,
    Unknown,
    Val,
    string,
)

_STRING_METHODS = frozenset(
    [
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "startswith",
        "endswith",
        "split",
        "replace",
        "removeprefix",
        "removesuffix",
        "isdigit",
        "isnumeric",
        "isupper",
        "islower",
        "isalpha",
        "isidentifier",
        "title",
        "capitalize",
        "rsplit",
        "partition",
        "rpartition",
        "find",
        "count",
    ]
)


def string_method(a: Arguments) -> Val | None:
    """A method of a known string with known arguments."""
    owner = a.owner
    name = a.path.rpartition(".")[2]
    if not isinstance(owner, Const) or not isinstance(owner.value, str):
        return None
    values = [v.value for v in a.args if isinstance(v, Const)]
    if name == "join" and a.args:
        items = known_items(a.args[0])
        texts = [string(i) for i in items or [Unknown()]]
        size = sum(len(t or "") for t in texts) + len(owner.value) * len(texts)
        if all(t is not None for t in texts) and size < 10_000:
            return Const(owner.value.join(t for t in texts if t is not None), a.origin)
        return a.unknown("join")
    if name == "format":
        fields = [str(v.value) if isinstance(v, Const) else "?" for v in a.args]
        if "?" in fields or a.kwargs or owner.value.count("{") != owner.value.count("{}"):
            return a.unknown("format")
        return Const(owner.value.format(*fields)[:10_000], a.origin)
    if name not in _STRING_METHODS or len(values) != len(a.args) or len(owner.value) > 10_000:
        return a.unknown(name)
    if name == "replace" and len(owner.value) * max((len(str(v)) for v in values), default=0) > 1_000_000:
        return a.unknown(name)
    try:
        result = getattr(owner.value, name)(*values)
    except (TypeError, ValueError, OverflowError, MemoryError):
        return a.unknown(name)
    if isinstance(result, list | tuple):
        return Seq([Const(r, owner.origin) for r in result[:1000]], "list", owner.origin, len(result) > 1000)
    return Const(result, owner.origin, owner.assumed) if len(str(result)) <= 10_000 else a.unknown(name)


for _name in (*_STRING_METHODS, "join", "format"):
    HANDLERS[f"str().{_name}"] = string_method


@models("list().append", "list().extend", "list().insert", "set().add", "list().remove", "list().pop", "list().sort")
def _list_method(a: Arguments) -> Val | None:
    owner, name = a.owner, a.path.rpartition(".")[2]
    if not isinstance(owner, Seq):
        return None
    if name in ("append", "add") and a.args and len(owner.items) < 2000:
        a.machine.change_items(owner, [*owner.items, a.args[0]])
        if a.machine.loops:
            owner.open = True
    elif name == "extend" and a.args:
        items = known_items(a.args[0])
        a.machine.change_items(owner, [*owner.items, *(items or [])])
        owner.open = owner.open or items is None
    elif name == "insert" and len(a.args) == 2:
        a.machine.change_items(owner, [a.args[1], *owner.items])
    elif name == "pop" and owner.items and not a.args:
        last = owner.items[-1]
        a.machine.change_items(owner, owner.items[:-1])
        return last
    else:
        owner.open = True
    return NONE


@models("dict().get", "dict().pop", "dict().setdefault", "dict().items", "dict().keys", "dict().values",
        "dict().update",
        "dict().copy", "dict().to_dict", "dict().copy_and_resolve_references", "dict().unlock",
        "dict().lock", "dict().unlocked")  # fmt: skip
def _dict_method(a: Arguments) -> Val | None:
    owner, name = a.owner, a.path.rpartition(".")[2]
    if not isinstance(owner, Map):
        return None
    if name in ("get", "pop", "setdefault"):
        key = a.args[0] if a.args else NONE
        default = a.get(1, "default", "default_value") or NONE
        if isinstance(key, Const) and key.value in owner.items:
            owner.reads.add(key.value)
            return owner.items[key.value]
        if isinstance(key, Const) and name == "setdefault":
            a.machine.store(owner.items, key.value, default)
        return a.unknown("get") if owner.open or not isinstance(key, Const) else default
    if name == "items":
        pairs: list[Val] = [Seq([Const(k, a.origin), v], "tuple", a.origin) for k, v in owner.items.items()
                            if isinstance(k, str | int | float | bool | None)]  # fmt: skip
        return Seq(pairs, "list", a.origin, owner.open)
    if name == "keys":
        return Seq(known_items(Map(owner.items, owner.origin)) or [], "list", a.origin, owner.open)
    if name == "values":
        return Seq(list(owner.items.values()), "list", a.origin, owner.open)
    if name == "update":
        other = a.args[0] if a.args else None
        updates: dict[Any, Val] = {**other.items} if isinstance(other, Map) else {}
        updates.update(a.kwargs)
        for key_name, value in updates.items():
            a.machine.store(owner.items, key_name, value)
        if other is not None and not isinstance(other, Map):
            owner.open = True
        return NONE
    if name in ("lock", "unlock", "unlocked"):
        return owner
    return Map(dict(owner.items), a.origin, owner.attr, owner.open, owner.label)
