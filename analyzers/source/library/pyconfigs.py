"""Configurations that are Python files: mmengine and mmcv (``_base_``, ``_delete_``, ``read_base``)."""

from __future__ import annotations

import ast
import posixpath
import re

from analyzers.source.files import normal
from analyzers.source.library.configs import config_value, override_value, readable, set_path
from analyzers.source.program.machine import Machine
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.statements import execute
from analyzers.source.program.values import (
    DIGITS_MAX,
    NONE,
    SEQUENCE_MAX,
    ClassVal,
    Const,
    Ext,
    Frame,
    Func,
    Map,
    Module,
    Native,
    Origin,
    Seq,
    Unknown,
    Val,
    string,
)

#: Configurations that inherit from each other; no honest one is this deep.
DEPTH_MAX = 12
_BASE_NAME = "_base_"
_TEMPLATE = re.compile(r"""(['"]?)\{\{\s*(?:\$_?|_)?base_?[.:]([\w.]+)\s*\}\}\1|\{\{\s*_base_[.:]([\w.]+)\s*\}\}""")
_NOT_SETTINGS = (Module, Func, Ext, ClassVal, Native)


def python_config(machine: Machine, path: str, depth: int = 0) -> Map | None:
    """What a Python configuration file defines, with everything it inherits; None where it can not be read.

    A part that it inherits from elsewhere (another package) leaves the result open.
    """
    source = machine.tree.read(path)
    if source is None or depth > DEPTH_MAX:
        return None
    parsed = machine.parse(_TEMPLATE.sub(lambda m: f"_base_.{m.group(2) or m.group(3)}", source), path)
    if parsed is None:
        return None
    names = _base_files(parsed)
    base = Map({}, Origin(path, 1), attr=True)
    for written in names:
        inherited = _inherited(machine, path, written, depth)
        if inherited is None:
            base.open = True
        else:
            merge_config(base, inherited)
    module = Module(path.removesuffix(".py").replace("/", "."), path, {_BASE_NAME: base} if names else {})
    body = [statement for statement in parsed.body if not _names_bases(statement)]
    outer, machine.in_configuration = machine.in_configuration, True
    execute(machine, body, Frame(module, module.names, None, "<module>"))
    machine.in_configuration = outer
    own = Map({}, Origin(path, 1), attr=True)
    for name, value in module.names.items():
        if not name.startswith("_") and not isinstance(value, _NOT_SETTINGS):
            own.items[name] = as_config(value)
    merge_config(base, own)
    return base


def _inherited(machine: Machine, path: str, written: str, depth: int) -> Map | None:
    if "::" in written:  # of another package
        return None
    file = normal(posixpath.join(posixpath.dirname(path), written))
    if file.endswith(".py"):
        return python_config(machine, file, depth + 1)
    found = config_value(machine, file, attr=True)
    return found if isinstance(found, Map) else None


def _names_bases(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == _BASE_NAME for target in statement.targets
    )


def _base_files(parsed: ast.Module) -> list[str]:
    for statement in parsed.body:
        if isinstance(statement, ast.Assign) and _names_bases(statement):
            value = statement.value
            parts = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            return [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]
    return []


def as_config(value: Val, depth: int = 0) -> Val:
    """A value with its dicts as nodes of a configuration, whose keys are attributes too. Copies."""
    if isinstance(value, Map) and depth < 30:
        items = {key: as_config(inner, depth + 1) for key, inner in value.items.items()}
        return Map(items, value.origin, attr=True, open=value.open)
    if isinstance(value, Seq) and depth < 30:
        return Seq([as_config(i, depth + 1) for i in value.items], value.kind, value.origin, value.open)
    return value


def merge_config(target: Map, other: Map) -> None:
    """Merge ``other`` into ``target``, minding ``_delete_``; keys of lists are their positions."""
    for key, value in other.items.items():
        existing = target.items.get(key)
        if isinstance(value, Map) and isinstance(existing, Map) and not _deletes(value):
            merge_config(existing, value)
        elif isinstance(value, Map) and isinstance(existing, Seq) and value.items and all(map(_is_index, value.items)):
            for position, inner in value.items.items():
                at = int(str(position))
                known = existing.items[at] if at < len(existing.items) else None
                if isinstance(known, Map) and isinstance(inner, Map):
                    merge_config(known, inner)
                elif known is not None:
                    existing.items[at] = inner
        else:
            target.items[key] = _without_marks(value)
    target.open = target.open or other.open


def _is_index(key: object) -> bool:
    if isinstance(key, str):
        return key.isdecimal() and len(key) <= DIGITS_MAX
    return isinstance(key, int) and not isinstance(key, bool) and 0 <= key < SEQUENCE_MAX


def _deletes(value: Map) -> bool:
    mark = value.items.get("_delete_")
    return isinstance(mark, Const) and bool(mark.value)


def _without_marks(value: Val) -> Val:
    if isinstance(value, Map):
        items = {k: _without_marks(v) for k, v in value.items.items() if k != "_delete_"}
        return Map(items, value.origin, value.attr, value.open)
    return value


@models(
    "mmengine.Config.fromfile", "mmcv.Config.fromfile", "mmengine.config.Config.fromfile",
    "mmcv.utils.Config.fromfile", "mmengine.config.config.Config.fromfile",
)  # fmt: skip
def _from_file(a: Arguments) -> Val | None:
    written = a.text(0, "filename")
    path = readable(a.machine, written) if written is not None else None
    if path is None:
        return Map({}, a.origin, attr=True, open=True)
    if path.endswith(".py"):
        found: Val | None = python_config(a.machine, path)
    else:
        found = config_value(a.machine, path, attr=True)
    return found or Map({}, a.origin, attr=True, open=True)


@models("copy.deepcopy", "copy.copy")
def _copy(a: Arguments) -> Val | None:
    """A configuration's copy, so that what changes one leaves the other as it is."""
    return copied(a.args[0]) if a.args and isinstance(a.args[0], Map | Seq) else None


def copied(value: Val, depth: int = 0) -> Val:
    """A value with its dicts and lists as new ones."""
    if isinstance(value, Map) and depth < 30:
        items = {key: copied(inner, depth + 1) for key, inner in value.items.items()}
        return Map(items, value.origin, value.attr, value.open, value.label)
    if isinstance(value, Seq) and depth < 30:
        return Seq([copied(i, depth + 1) for i in value.items], value.kind, value.origin, value.open)
    return value


@models("mmengine.config.read_base", "mmengine.read_base")
def _read_base(a: Arguments) -> Val | None:
    return NONE


@models("dict().merge_from_dict")
def _merge_from_dict(a: Arguments) -> Val | None:
    options = a.get(0, "options")
    if not isinstance(a.owner, Map):
        return None
    if not isinstance(options, Map):
        a.owner.open = a.owner.open or options is not NONE
        return NONE
    for key, value in options.items.items():
        nested = Map({}, a.origin, attr=True)
        set_path(nested, str(key).split("."), as_config(value))
        merge_config(a.owner, nested)
    return NONE


def key_value_words(words: list[Val], origin: Origin) -> Map:
    """``a.b=1 c=[1,2] d=x,y``, as mmengine's ``DictAction`` reads them."""
    result = Map({}, origin)
    for word in words:
        text = string(word)
        name, equals, value = (text or "").partition("=")
        if not equals:
            result.open = result.open or text is None
            continue
        place = getattr(word, "origin", origin)
        if "," in value and value[:1] not in "[({'\"":
            parts: list[Val] = [override_value(part, place) for part in value.split(",")]
            result.items[name] = Seq(parts, "list", place)
        else:
            result.items[name] = override_value(value.replace("(", "[").replace(")", "]"), place)
    return result


@models("mmengine.config.ConfigDict", "mmcv.ConfigDict", "mmengine.ConfigDict", "mmengine.Config", "mmcv.Config",
        "mmengine.config.Config")  # fmt: skip
def _config_dict(a: Arguments) -> Val | None:
    first = a.args[0] if a.args else None
    items = dict(first.items) if isinstance(first, Map) else {}
    items.update(a.kwargs)
    unknown = isinstance(first, Unknown) or (first is not None and not isinstance(first, Map))
    return as_config(Map(items, a.origin, attr=True, open=unknown))
