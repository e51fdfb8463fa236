"""Python's own functions."""

from __future__ import annotations

from typing import Any

from analyzers.source.program.attributes import attribute, lineage
from analyzers.source.program.expressions import known_items
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import (
    DIGITS_MAX,
    NONE,
    ClassVal,
    Const,
    Ext,
    File,
    Map,
    Module,
    Obj,
    Partial,
    Range,
    Scalar,
    Scaled,
    Seq,
    Unknown,
    Val,
    number,
    string,
    truth,
)


@models("int", "float", "str", "bool")
def _convert(a: Arguments) -> Val | None:
    if not a.args:
        empty: dict[str, Scalar] = {"int": 0, "float": 0.0, "str": "", "bool": False}
        return Const(empty[a.path], a.origin)
    value = a.args[0]
    if a.path == "bool":
        known = truth(value)
        return a.unknown("bool") if known is None else Const(known, a.origin)
    if isinstance(value, Scaled) and a.path in ("int", "float"):
        return value
    if isinstance(value, Unknown) and a.path in ("int", "float"):
        return value
    if not isinstance(value, Const):
        return a.unknown(a.path)
    return converted(a.path, value, a)


def converted(kind: str, value: Const, a: Arguments) -> Val:
    """A constant through ``int``, ``float`` or ``str``."""
    raw = value.value
    try:
        if kind == "int" and isinstance(raw, str) and len(raw) <= DIGITS_MAX:
            result: Any = int(raw)
        elif kind == "int" and isinstance(raw, int | float):
            result = int(raw)
        elif kind == "float" and isinstance(raw, str | int | float):
            result = float(raw)
        elif kind == "str":
            result = str(raw)
        else:
            return a.unknown(kind)
    except (ValueError, OverflowError):
        return a.unknown(kind)
    return Const(result, value.origin, value.assumed)


@models("len")
def _len(a: Arguments) -> Val | None:
    value = a.args[0] if a.args else NONE
    if isinstance(value, Seq) and not value.open:
        return Const(len(value.items), a.origin)
    if isinstance(value, Map) and not value.open:
        return Const(len(value.items), a.origin)
    if isinstance(value, Const) and isinstance(value.value, str):
        return Const(len(value.value), a.origin)
    result = a.machine.call(attribute(a.machine, value, "__len__", a.origin), [], {}, a.origin) if isinstance(
        value, Obj) and isinstance(value.cls, ClassVal) and "__len__" in value.cls.attrs else None  # fmt: skip
    return result or Unknown("len", a.origin, detail=("len", value))


@models("range")
def _range(a: Arguments) -> Val | None:
    zero, one = Const(0, a.origin), Const(1, a.origin)
    if len(a.args) == 1:
        return Range(zero, a.args[0], one, a.origin)
    if len(a.args) >= 2:
        return Range(a.args[0], a.args[1], a.args[2] if len(a.args) > 2 else one, a.origin)
    return a.unknown("range")


@models("tqdm.trange", "tqdm.auto.trange")
def _trange(a: Arguments) -> Val | None:
    return _range(a)


_KINDS = {"tuple": "tuple", "set": "set", "frozenset": "set"}


@models("enumerate", "iter", "itertools.islice", "reversed", "sorted", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.std.tqdm",
        "tqdm.rich.tqdm", "tqdm.notebook.tqdm", "rich.progress.track", "list", "tuple", "set", "frozenset",
        "next")  # fmt: skip
def _wrap(a: Arguments) -> Val | None:
    """Iterating over a wrapper goes round as often as what it wraps."""
    inner = a.get(0, "iterable", "sequence")
    if inner is None:
        return Seq([], a.path, a.origin) if a.path in ("list", "tuple", "set", "frozenset") else a.unknown(a.path)
    if a.path == "next":
        return Unknown("next", a.origin)
    items = known_items(inner)
    if a.path in ("list", "tuple", "set", "frozenset", "sorted", "iter", "reversed") and items is not None:
        if a.path == "sorted":
            return Seq(items, "list", a.origin, open=False) if len(items) < 2 else Seq(items, "list", a.origin)
        if a.path == "reversed":
            items = items[::-1]
        return Seq(items, _KINDS.get(a.path, "list"), a.origin)
    if a.path == "enumerate" and items is not None and not isinstance(inner, Range):
        pairs: list[Val] = [Seq([Const(i, a.origin), v], "tuple", a.origin) for i, v in enumerate(items)]
        return Seq(pairs, "list", a.origin)
    if a.path in ("iter", "sorted", "reversed") or "tqdm" in a.path or "track" in a.path:
        return inner
    if isinstance(inner, Range) and a.path in ("list", "tuple"):
        return inner
    name = "enumerate" if a.path == "enumerate" else a.path
    return Obj(Ext(name), {"iterable": inner}, a.origin)


@models("zip")
def _zip(a: Arguments) -> Val | None:
    lists = [known_items(v) for v in a.args]
    known = [items for items in lists if items is not None]
    if len(known) == len(lists) and known:
        return Seq([Seq(list(row), "tuple", a.origin) for row in zip(*known, strict=False)], "list", a.origin)
    return Obj(Ext("zip"), {"iterables": Seq(list(a.args), "list", a.origin)}, a.origin)


@models("map", "filter")
def _map(a: Arguments) -> Val | None:
    items = known_items(a.args[1]) if len(a.args) == 2 else None
    if items is not None and a.path == "map" and len(items) <= 64:
        return Seq([a.machine.call(a.args[0], [i], {}, a.origin) for i in items], "list", a.origin)
    return Seq([], "list", a.origin, open=True)


@models("dict", "collections.OrderedDict", "types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict",
        "addict.Dict", "ml_collections.ConfigDict", "ml_collections.config_dict.ConfigDict",
        "omegaconf.OmegaConf.create",
        "omegaconf.DictConfig", "box.Box", "collections.defaultdict", "ml_collections.FrozenConfigDict",
        "munch.Munch")  # fmt: skip
def _dict(a: Arguments) -> Val | None:
    # Maps that stand in each other several times unfold without end: each copy is a step.
    a.machine.tick()
    attr = a.path not in ("dict", "collections.OrderedDict", "collections.defaultdict")
    result = Map({}, a.origin, attr=attr)
    first = a.args[0] if a.args and a.path != "collections.defaultdict" else None
    if isinstance(first, Map):
        result.items.update(first.items)
        result.open, result.label = first.open, first.label
    elif isinstance(first, Seq) and not first.open:
        for pair in first.items:
            if isinstance(pair, Seq) and len(pair.items) == 2 and isinstance(pair.items[0], Const):
                result.items[pair.items[0].value] = pair.items[1]
    elif first is not None:
        result.open = True
    result.items.update(a.kwargs)
    if attr:
        for key, value in list(result.items.items()):
            if isinstance(value, Map) and not value.attr:
                result.items[key] = _dict(Arguments(a.machine, [value], {}, a.origin, a.path)) or value
    return result


@models("max", "min", "sum")
def _extreme(a: Arguments) -> Val | None:
    values = known_items(a.args[0]) if len(a.args) == 1 else list(a.args)
    if not values:
        return a.unknown(a.path)
    numbers = [number(v) for v in values]
    known = [n for n in numbers if n is not None]
    if len(known) != len(values):
        sizes = [v for v in values if isinstance(v, Unknown) and v.detail[:1] == ("len",)]
        if a.path == "min" and len(known) == 1 and len(sizes) == len(values) - 1 and known[0] > 0:
            # min(batch_size, len(dataset)): data are taken to be enough.
            return Const(known[0], next(getattr(v, "origin", a.origin) for v in values if number(v) is not None), True)
        return Unknown(a.path, a.origin, tuple(values) if a.path != "sum" else ())
    if a.path == "sum":
        return Const(sum(known), a.origin)
    best = known.index(max(known) if a.path == "max" else min(known))
    return values[best]


@models("any", "all")
def _any_all(a: Arguments) -> Val | None:
    items = known_items(a.args[0]) if a.args else None
    if items is None:
        return a.unknown(a.path)
    answers = [truth(i) for i in items]
    deciding = a.path == "any"
    if deciding in answers:
        return Const(deciding, a.origin)
    return a.unknown(a.path) if None in answers else Const(not deciding, a.origin)


@models("abs", "round", "math.ceil", "math.floor", "math.sqrt", "math.log2", "math.prod", "pow")
def _arithmetic(a: Arguments) -> Val | None:
    import math

    value = number(a.args[0]) if a.args else None
    if value is None or abs(value) > 1e15 or a.path in ("math.prod", "pow"):
        return a.unknown(a.path)
    functions: dict[str, Any] = {
        "abs": abs, "round": round, "math.ceil": math.ceil, "math.floor": math.floor, "math.sqrt": math.sqrt,
        "math.log2": math.log2,
    }  # fmt: skip
    try:
        return Const(functions[a.path](value), a.origin)
    except (ValueError, OverflowError):
        return a.unknown(a.path)


@models("getattr")
def _getattr(a: Arguments) -> Val | None:
    name = a.text(1)
    if name is None:
        value = a.args[0] if a.args else NONE
        return Obj(Ext(f"{value.path}.?"), {}, a.origin) if isinstance(value, Ext) else a.unknown("getattr")
    found = attribute(a.machine, a.args[0], name, a.origin)
    default = a.get(2)
    if default is not None and (_is_missing(a.args[0], name) or isinstance(found, Unknown)):
        return default if _is_missing(a.args[0], name) else found
    return found


def _is_missing(owner: Val, name: str) -> bool:
    return isinstance(owner, Map) and owner.attr and not owner.open and name not in owner.items


@models("hasattr")
def _hasattr(a: Arguments) -> Val | None:
    name = a.text(1)
    owner = a.args[0] if a.args else NONE
    if name is None:
        return a.unknown("hasattr")
    if isinstance(owner, Map) and owner.attr and (name in owner.items or not owner.open):
        return Const(name in owner.items, a.origin)
    if isinstance(owner, Obj) and name in owner.attrs:
        return Const(True, a.origin)
    if isinstance(owner, Const):
        return Const(hasattr(owner.value, name), a.origin)
    return a.unknown("hasattr")


@models("setattr")
def _setattr(a: Arguments) -> Val | None:
    name = a.text(1)
    if name is not None and len(a.args) == 3:
        owner = a.args[0]
        if isinstance(owner, Map) and owner.attr:
            a.machine.store(owner.items, name, a.args[2])
        elif isinstance(owner, Obj | ClassVal):
            a.machine.store(owner.attrs, name, a.args[2])
    return NONE


@models("dir")
def _dir(a: Arguments) -> Val | None:
    value = a.args[0] if a.args else NONE
    names: list[str] | None = None
    if isinstance(value, Module):
        names = list(value.names)
    elif isinstance(value, Obj | ClassVal):
        names = list(value.attrs)
    elif isinstance(value, Map) and value.attr and not value.open:
        names = [str(key) for key in value.items]
    return a.unknown("dir") if names is None else Seq([Const(n, a.origin) for n in sorted(names)], "list", a.origin)


@models("vars")
def _vars(a: Arguments) -> Val | None:
    value = a.args[0] if a.args else NONE
    if isinstance(value, Map):
        return value
    if isinstance(value, Obj):
        return Map(dict(value.attrs), a.origin)
    return a.unknown("vars")


_TYPES = {"int": int, "float": float, "str": str, "bool": bool}


@models("issubclass")
def _issubclass(a: Arguments) -> Val | None:
    cls, other = (*a.args, NONE, NONE)[:2]
    others = other.items if isinstance(other, Seq) else [other]
    if isinstance(cls, ClassVal) and any(base is o for base in lineage(cls) for o in others):
        return Const(True, a.origin)
    return a.unknown("issubclass")


@models("dataclasses.replace", "attr.evolve", "attrs.evolve")
def _replaced(a: Arguments) -> Val | None:
    """An instance like another one, but for what is named."""
    first = a.args[0] if a.args else NONE
    if not isinstance(first, Obj) or not isinstance(first.cls, ClassVal):
        return None
    return Obj(first.cls, {**first.attrs, **a.kwargs}, a.origin, first.call)


@models("isinstance")
def _isinstance(a: Arguments) -> Val | None:
    if len(a.args) != 2:
        return a.unknown("isinstance")
    value, kinds = a.args
    options = kinds.items if isinstance(kinds, Seq) else [kinds]
    answers = [_is_a(value, kind) for kind in options]
    if True in answers:
        return Const(True, a.origin)
    return a.unknown("isinstance") if None in answers or not answers else Const(False, a.origin)


def _is_a(value: Val, kind: Val) -> bool | None:
    name = getattr(kind, "name", "") if not isinstance(kind, Ext) else kind.path
    if isinstance(value, Const):
        python = _TYPES.get(name)
        if python is not None:
            return isinstance(value.value, python)
        return False if name in ("list", "dict", "tuple") or isinstance(kind, ClassVal | Ext) else None
    if isinstance(value, Seq):
        return name == value.kind if name in ("list", "tuple", "set", "dict", "int", "str", "float", "bool") else None
    if isinstance(value, Map):
        return name == "dict" if name in ("list", "tuple", "dict", "int", "str", "float", "bool") else None
    if isinstance(value, Obj) and isinstance(value.cls, ClassVal) and isinstance(kind, ClassVal):
        return value.cls is kind or any(base is kind for base in value.cls.bases)
    if isinstance(value, Obj) and isinstance(value.cls, Ext) and isinstance(kind, Ext) and value.cls.path == kind.path:
        return True
    return None


@models("functools.partial")
def _partial(a: Arguments) -> Val | None:
    return Partial(a.args[0], list(a.args[1:]), dict(a.kwargs), a.origin) if a.args else a.unknown("partial")


@models("@functools.wraps", "@functools.lru_cache", "@functools.cache")
def _same_function(a: Arguments) -> Val | None:
    return a.args[0]


@models("type")
def _type(a: Arguments) -> Val | None:
    value = a.args[0] if a.args else NONE
    if isinstance(value, Const):
        return Ext(type(value.value).__name__)
    return value.cls if isinstance(value, Obj) else a.unknown("type")


@models("exit", "quit", "sys.exit", "os._exit")
def _exit(a: Arguments) -> Val | None:
    return Unknown("exits", a.origin)


@models("print", "warnings.warn", "isort", "id", "repr")
def _nothing(a: Arguments) -> Val | None:
    return NONE


@models("eval", "ast.literal_eval", "json.loads")
def _literal(a: Arguments) -> Val | None:
    import ast

    text = a.text(0)
    if text is None or len(text) > 2000:
        return a.unknown(a.path)
    if a.path == "json.loads" and text in ("true", "false", "null"):
        return Const({"true": True, "false": False, "null": None}[text], a.origin)
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return a.unknown("raises here" if a.path == "ast.literal_eval" else a.path)
    from analyzers.source.library.configs import as_value

    first = a.args[0]
    return as_value(value, first.origin if isinstance(first, Const) else a.origin)


@models("open", "io.open", "pathlib.Path().open")
def _open(a: Arguments) -> Val | None:
    path = a.text(0, "file", "name")
    if isinstance(a.owner, Obj):
        path = string(a.owner.attrs.get("path"))
    mode = a.text(1, "mode") or "r"
    if path is None or "w" in mode or "a" in mode:
        return File("", None, a.origin)
    from analyzers.source.library.configs import readable

    found = readable(a.machine, path)
    return File(found or path, a.machine.tree.read(found) if found else None, a.origin)


@models("?().read", "pathlib.Path().read_text")
def _read(a: Arguments) -> Val | None:
    return a.owner if isinstance(a.owner, File) else None
