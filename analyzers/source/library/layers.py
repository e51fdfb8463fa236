"""Containers of layers: what is added to them after they were made."""

from __future__ import annotations

from analyzers.source.program.expressions import known_items
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import NONE, Obj, Seq, Val

_LISTS = [f"{home}.{kind}()" for home in ("torch.nn", "nn") for kind in ("ModuleList", "Sequential")]


@models(*[f"{container}.{method}" for container in _LISTS for method in ("append", "extend", "insert")])
def _append(a: Arguments) -> Val | None:
    """A container that grows: its later layers stand beside those that it was made with."""
    owner, name = a.owner, a.path.rpartition(".")[2]
    if not isinstance(owner, Obj) or not a.args:
        return None
    before = owner.attrs.get("appended")
    items = list(before.items) if isinstance(before, Seq) else []
    is_open = (isinstance(before, Seq) and before.open) or bool(a.machine.loops)
    added = known_items(a.args[0]) if name == "extend" else [a.args[-1]]
    grown = Seq([*items, *(added or [])], "list", a.origin, is_open or added is None)
    a.machine.store(owner.attrs, "appended", grown)
    return owner if name == "append" else NONE


@models(*[f"{home}.{kind}().{method}" for home in ("torch.nn", "nn") for kind in ("Module", "Sequential")
          for method in ("add_module", "register_module")])  # fmt: skip
def _add_module(a: Arguments) -> Val | None:
    """A layer under a name of its own."""
    name, layer = a.text(0, "name"), a.get(1, "module")
    if isinstance(a.owner, Obj) and layer is not None:
        key = name if name is not None else f"added {len(a.owner.attrs)}"
        a.machine.store(a.owner.attrs, key, layer)
    return NONE
