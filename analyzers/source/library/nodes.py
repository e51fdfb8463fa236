"""Configuration trees with attributes: yacs and detectron2's nodes (``_BASE_``), detectron2's lazy configurations."""

from __future__ import annotations

import ast
import posixpath

from analyzers.source.files import normal
from analyzers.source.knowledge.frameworks import library_defaults
from analyzers.source.library.configs import as_value, config_value, override_value, readable, set_path
from analyzers.source.library.pyconfigs import DEPTH_MAX, as_config, merge_config
from analyzers.source.program.machine import Machine
from analyzers.source.program.native import HANDLERS, Arguments, models
from analyzers.source.program.values import (
    NONE,
    ClassVal,
    Const,
    Ext,
    Func,
    Map,
    Module,
    Native,
    Obj,
    Origin,
    Seq,
    Val,
    string,
)

_NODES = ("yacs.config.CfgNode", "detectron2.config.CfgNode", "fvcore.common.config.CfgNode")


@models(*_NODES)
def _node(a: Arguments) -> Val | None:
    first = a.get(0, "init_dict")
    return as_config(first) if isinstance(first, Map) else Map({}, a.origin, attr=True)


def _defaults(a: Arguments) -> Val | None:
    """A configuration as its library hands it out: of its keys those that matter here, the rest being open."""
    return _opened(as_value(library_defaults(a.path), Origin("", 0, "default"), attr=True))


def _opened(value: Val) -> Val:
    if isinstance(value, Map):
        value.open = True
        for inner in value.items.values():
            _opened(inner)
    return value


for _path in ("detectron2.config.get_cfg", "detectron2.config.config.get_cfg"):
    HANDLERS[_path] = _defaults


@models("dict().clone")
def _clone(a: Arguments) -> Val | None:
    return as_config(a.owner) if isinstance(a.owner, Map) else None


@models("dict().freeze", "dict().defrost", "dict().set_new_allowed", "dict().register_deprecated_key")
def _nothing(a: Arguments) -> Val | None:
    return NONE


@models("dict().merge_from_file")
def _merge_from_file(a: Arguments) -> Val | None:
    written = a.text(0, "cfg_filename")
    if not isinstance(a.owner, Map):
        return None
    loaded = _with_bases(a.machine, readable(a.machine, written) if written else None, 0)
    if loaded is None:
        a.owner.open = True
        forget(a.owner)
    else:
        merge_config(a.owner, loaded)
    return NONE


def forget(config: Map) -> None:
    """Forget what a configuration holds: a file that can not be read may have changed any of it."""
    config.items.clear()
    config.open = True


def _with_bases(machine: Machine, path: str | None, depth: int) -> Map | None:
    loaded = config_value(machine, path, attr=True) if path is not None and depth < DEPTH_MAX else None
    if path is None or not isinstance(loaded, Map):
        return None
    written = loaded.items.pop("_BASE_", None)
    parts = written.items if isinstance(written, Seq) else [written] if written is not None else []
    result = Map({}, loaded.origin, attr=True)
    for part in parts:
        text = string(part)
        base = _with_bases(machine, normal(posixpath.join(posixpath.dirname(path), text)), depth + 1) if text else None
        if base is None:
            return None
        merge_config(result, base)
    merge_config(result, _literals(loaded))
    return result


def _literals(value: Map) -> Map:
    """Texts such as ``("coco_2017_train",)`` as what they stand for, the way yacs reads them."""
    for key, inner in list(value.items.items()):
        if isinstance(inner, Map):
            _literals(inner)
        elif isinstance(inner, Const) and isinstance(inner.value, str) and inner.value[:1] in "([":
            value.items[key] = literal(inner.value, inner.origin)
    return value


def literal(text: str, origin: Origin) -> Val:
    """A text as the Python literal that it holds, else as itself."""
    try:
        return as_value(ast.literal_eval(text), origin, attr=True) if len(text) < 1000 else Const(text, origin)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return Const(text, origin)


@models("dict().merge_from_list")
def _merge_from_list(a: Arguments) -> Val | None:
    words = a.get(0, "cfg_list")
    if not isinstance(a.owner, Map):
        return None
    if words is None or (isinstance(words, Const) and words.value is None):
        return NONE
    if not isinstance(words, Seq) or words.open or len(words.items) % 2:
        forget(a.owner)  # any key may have been set
        return NONE
    for key, value in zip(words.items[::2], words.items[1::2], strict=True):
        name = string(key)
        if name is None:
            forget(a.owner)
            return NONE
        text = string(value)
        origin = getattr(value, "origin", a.origin)
        set_path(a.owner, name.split("."), value if text is None else literal(text, origin))
    return NONE


# --- lazy configurations ------------------------------------------------------------------------------------------

_LAZY_CALL = "detectron2.config.LazyCall"


@models(_LAZY_CALL, "detectron2.config.lazy.LazyCall", "detrex.config.LazyCall")
def _lazy_call(a: Arguments) -> Val | None:
    return Obj(Ext(_LAZY_CALL), {"target": a.args[0]} if a.args else {}, a.origin)


@models(f"{_LAZY_CALL}()()")
def _lazy_node(a: Arguments) -> Val | None:
    target = a.owner.attrs.get("target") if isinstance(a.owner, Obj) else None
    if target is None:
        return None
    return Map({"_target_": target, **{k: as_config(v) for k, v in a.kwargs.items()}}, a.origin, attr=True)


@models("detectron2.config.LazyConfig.load", "detectron2.config.lazy.LazyConfig.load",
        "detectron2.config.LazyConfig.load_rel", "detectron2.model_zoo.get_config")  # fmt: skip
def _lazy_load(a: Arguments) -> Val | None:
    written = a.text(0, "filename", "config_path")
    path = _config_file(a, written) if written is not None else None
    if path is None:
        return Map({}, a.origin, attr=True, open=True)
    if not path.endswith(".py"):
        return _with_bases(a.machine, path, 0) or Map({}, a.origin, attr=True, open=True)
    outer, a.machine.in_configuration = a.machine.in_configuration, True
    module = a.machine.load(path, path.removesuffix(".py").replace("/", "."))
    a.machine.in_configuration = outer
    if module is None:
        return Map({}, a.origin, attr=True, open=True)
    settings: Map = Map({}, Origin(path, 1), attr=True)
    for name, value in module.names.items():
        if not name.startswith("_") and not isinstance(value, Module | Func | Ext | ClassVal | Native):
            settings.items[name] = as_config(value)
    only = a.text(1, "keys")
    return settings if only is None else settings.items.get(only)


def _config_file(a: Arguments, written: str) -> str | None:
    if a.path.endswith("get_config"):  # one of the library's own, which a checkout of it holds
        folders = ("configs", "detectron2/model_zoo/configs", "../configs")
        return next((p for p in (readable(a.machine, f"{f}/{written}") for f in folders) if p), None)
    if a.path.endswith("load_rel"):
        return normal(posixpath.join(posixpath.dirname(a.origin.file), written))
    return readable(a.machine, written)


@models("detectron2.config.LazyConfig.apply_overrides", "detectron2.config.lazy.LazyConfig.apply_overrides")
def _lazy_overrides(a: Arguments) -> Val | None:
    config, words = a.get(0, "cfg"), a.get(1, "overrides")
    if not isinstance(config, Map):
        return None
    for word in words.items if isinstance(words, Seq) else []:
        name, equals, value = (string(word) or "").partition("=")
        if equals:
            set_path(config, name.lstrip("+").split("."), override_value(value, getattr(word, "origin", a.origin)))
    return config
