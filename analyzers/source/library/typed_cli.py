"""jsonargparse: command lines and YAML typed by signatures (``CLI``, ``class_path``, dotted overrides)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from analyzers.source.library.configs import config_value, merge_into, override_value, readable, set_path
from analyzers.source.library.frameworks import by_path
from analyzers.source.library.hydra import interpolate
from analyzers.source.program.attributes import class_attribute
from analyzers.source.program.calls import bind_arguments, default_of, fields_of
from analyzers.source.program.expressions import evaluate
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import (
    NONE,
    ClassVal,
    Const,
    Ext,
    Frame,
    Func,
    Map,
    Obj,
    Seq,
    Unknown,
    Val,
    string,
)

DEPTH_MAX = 8
_CONFIG_OPTIONS = frozenset({"--config", "-c", "--config_file"})


def command_words(a: Arguments) -> list[Val]:
    """The words of the command line after the program's name, or those that are passed as ``args``."""
    given = a.kwargs.get("args")
    if isinstance(given, Seq):
        return list(given.items)
    argv = a.machine.library_values.get("sys.argv")
    return list(argv.items[1:]) if isinstance(argv, Seq) else []


def configuration(
    a: Arguments, words: list[Val], positionals: list[str], files: frozenset[str] = _CONFIG_OPTIONS
) -> Map:
    """Files named by ``--config`` (``files``) and options, each over what stands before it.

    The result is open where a file can not be read or a word is not known.
    """
    result = Map({}, a.origin, attr=True)
    waiting = list(positionals)
    i = 0
    while i < len(words):
        word, i = words[i], i + 1
        text = string(word)
        if text is None:
            result.open = True
            continue
        origin = getattr(word, "origin", a.origin)
        if not text.startswith("-") or text == "-":
            if waiting:
                set_path(result, [waiting.pop(0)], override_value(text, origin))
            continue
        name, equals, value = text.partition("=")
        given: Val | None = override_value(value, origin) if equals else None
        if not equals and i < len(words) and not (string(words[i]) or "").startswith("--"):
            following, i = words[i], i + 1
            value = string(following) or ""
            given = override_value(value, origin) if string(following) is not None else Unknown("launch", origin)
        if name in files:
            _add_file(a, result, value)
        else:
            parts = name.lstrip("-").replace("-", "_").removesuffix("+").split(".")
            _set(result, parts, given if given is not None else Const(True, origin))
    interpolate(result, result, 0)
    return result


def _add_file(a: Arguments, target: Map, written: str) -> None:
    path = readable(a.machine, written) if written else None
    loaded = config_value(a.machine, path, attr=True) if path is not None else None
    if isinstance(loaded, Map):
        merge_into(target, loaded)
    else:
        target.open = True


def _set(target: Map, path: list[str], value: Val) -> None:
    """Set a dotted key; what is set on a node with a ``class_path`` goes into its ``init_args``."""
    node: Val | None = target
    for position, part in enumerate(path):
        if isinstance(node, Map) and "class_path" in node.items and part not in _CLASS_KEYS and position:
            return _set(node, ["init_args", *path[position:]], value)
        if position == len(path) - 1:
            break
        node = node.items.get(part) if isinstance(node, Map) else None
    if isinstance(value, Const) and isinstance(value.value, str) and isinstance(node, Map):
        existing = node.items.get(path[-1])
        if isinstance(existing, Map) and "class_path" in existing.items:  # another class; its arguments are new
            node.items[path[-1]] = Map({"class_path": value}, value.origin, attr=True)
            return None
    if isinstance(value, Map) and isinstance(node, Map) and isinstance(node.items.get(path[-1]), Map):
        merge_into(node.items[path[-1]], value)  # type: ignore[arg-type]
        return None
    set_path(target, path, value)
    return None


_CLASS_KEYS = ("class_path", "init_args", "dict_kwargs")


# --- values by their annotation -----------------------------------------------------------------------------------


def annotated_classes(a: Arguments, annotation: ast.expr | None, frame: Frame) -> Iterator[ClassVal]:
    """Classes of the tree that an annotation names (``Optional[Options]``)."""
    if annotation is None:
        return
    for node in ast.walk(annotation):
        inner = node
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            try:
                inner = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError):
                continue
            yield from annotated_classes(a, inner, frame)
        elif isinstance(inner, ast.Name | ast.Attribute):
            value = evaluate(a.machine, inner, frame)
            if isinstance(value, ClassVal):
                yield value


_PLAIN = frozenset({"str", "int", "float", "bool", "dict", "Dict", "list", "List", "Any", "Union", "Optional", "None"})


def _is_plain(annotation: ast.expr | None) -> bool:
    """Whether an annotation names no class (``Union[str, Dict]``): then a ``class_path`` stays a dict."""
    if annotation is None:
        return False
    names = [n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)]
    attributes = [n.attr for n in ast.walk(annotation) if isinstance(n, ast.Attribute)]
    texts = [n for n in ast.walk(annotation) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return not texts and all(name in _PLAIN for name in [*names, *attributes] if name != "typing")


def converted_value(a: Arguments, value: Val, default: Val | None, classes: list[ClassVal], depth: int = 0) -> Val:
    """A configured value as what its parameter takes: an object where a class is named or annotated."""
    if depth > DEPTH_MAX:
        return value
    if isinstance(value, Map) and "class_path" in value.items:
        return built_node(a, value, depth)
    if isinstance(value, Map) and classes:
        cls = classes[0]
        if isinstance(default, Obj) and default.cls is cls:
            known = dict(default.attrs)
            known.update({str(k): v for k, v in by_signature(a, cls, value, depth).items()})
            return a.machine.call(cls, [], {k: v for k, v in known.items() if k in fields_of(cls)}, value.origin)
        return a.machine.call(cls, [], by_signature(a, cls, value, depth), value.origin)
    text = string(value)
    if text is not None and classes and not cls_is_text(classes):
        named = _named_class(a, text)
        if named is not None:
            return a.machine.call(named, [], {}, value.origin if isinstance(value, Const) else a.origin)
    if isinstance(value, Seq):
        items = [converted_value(a, item, None, classes, depth + 1) for item in value.items]
        return Seq(items, value.kind, value.origin, value.open)
    return value


def cls_is_text(classes: list[ClassVal]) -> bool:
    """Whether the annotated classes are enumerations, whose members are written as text."""
    return any(isinstance(b, Ext) and b.path.endswith("Enum") for cls in classes for b in cls.bases)


def _named_class(a: Arguments, text: str) -> ClassVal | None:
    if "." in text:
        found = by_path(a, text)
        return found if isinstance(found, ClassVal) else None
    for module in list(a.machine.modules.values()):
        value = module.names.get(text)
        if isinstance(value, ClassVal):
            return value
    return None


def built_node(a: Arguments, node: Map, depth: int) -> Val:
    """The object that a node with a ``class_path`` describes."""
    written = string(node.items.get("class_path"))
    if written is None:
        return Unknown("class", node.origin)
    cls: Val = (_named_class(a, written) if "." not in written else None) or by_path(a, written)
    arguments = node.items.get("init_args")
    given = dict(arguments.items) if isinstance(arguments, Map) else {}
    extra = node.items.get("dict_kwargs")
    given.update(extra.items if isinstance(extra, Map) else {})
    given.update({k: v for k, v in node.items.items() if k not in _CLASS_KEYS})
    values = Map(given, node.origin, attr=True)
    if isinstance(cls, ClassVal):
        return a.machine.call(cls, [], by_signature(a, cls, values, depth + 1), node.origin)
    plain = {str(k): converted_value(a, v, None, [], depth + 1) for k, v in values.items.items()}
    return a.machine.call(cls, [], plain, node.origin)


def by_signature(a: Arguments, cls: ClassVal, given: Map, depth: int) -> dict[str, Val]:
    """Arguments for a class of the tree, each converted by its parameter's or field's annotation."""
    init = class_attribute(cls, "__init__")
    if isinstance(init, Func):
        return by_parameters(a, init, given, depth)
    frames = _frame_of(a, cls)
    result: dict[str, Val] = {}
    for key, value in given.items.items():
        annotation = cls.annotations.get(str(key))
        classes = list(annotated_classes(a, annotation, frames)) if frames is not None else []
        default = fields_of(cls).get(str(key))
        result[str(key)] = converted_value(
            a, value, default_of(a.machine, default, a.origin) if default is not None else None, classes, depth + 1
        )
    return result


def _frame_of(a: Arguments, cls: ClassVal) -> Frame | None:
    module = a.machine.modules.get(cls.origin.file)
    return Frame(module, module.names, None, "<module>") if module is not None else None


def by_parameters(a: Arguments, func: Func, given: Map, depth: int = 0) -> dict[str, Val]:
    """Arguments for a function, each converted by its parameter's annotation."""
    spec = func.node.args
    annotations = {p.arg: p.annotation for p in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]}
    needs_defaults = any(isinstance(v, Map) for v in given.items.values())
    defaults = bind_arguments(a.machine, func, [NONE] if func.owner is not None else [], {}) if needs_defaults else {}
    result: dict[str, Val] = {}
    for key, value in given.items.items():
        name = str(key)
        if name not in annotations and spec.kwarg is None:
            continue
        if _is_plain(annotations.get(name)):
            result[name] = value
            continue
        classes = list(annotated_classes(a, annotations.get(name), func.frame))
        result[name] = converted_value(a, value, defaults.get(name), classes, depth + 1)
    if given.open:
        for name in annotations:
            if name not in result and name != "self":
                result[name] = Unknown("configuration", given.origin)
    return result


# --- the command line ---------------------------------------------------------------------------------------------


@models("jsonargparse.CLI", "jsonargparse.auto_cli", "jsonargparse.cli.CLI")
def _cli(a: Arguments) -> Val | None:
    target: Val | None = a.get(0, "components")
    words = command_words(a)
    if target is None:
        entry = next(iter(a.machine.modules.values()))
        local = {k: v for k, v in entry.names.items() if isinstance(v, Func | ClassVal) and v.origin.file == entry.path}
        target = Map(dict(local), a.origin) if len(local) > 1 else next(iter(local.values()), NONE)
    if isinstance(target, Seq):
        named = {getattr(item, "name", ""): item for item in target.items}
        target = Map(dict(named), a.origin) if len(named) > 1 else target.items[0]
    for _ in range(DEPTH_MAX):
        if not isinstance(target, Map):
            break
        position = next((i for i, w in enumerate(words) if string(w) in target.items), None)
        if position is None:
            return a.unknown("command")
        before, chosen = words[:position], string(words[position])
        target, words = target.items[chosen], [*before, *words[position + 1 :]]
    if isinstance(target, Func):
        given = configuration(a, words, _required(target))
        return a.machine.call(target, [], by_parameters(a, target, given), a.origin)
    if isinstance(target, ClassVal):
        init = class_attribute(target, "__init__")
        given = configuration(a, words, _required(init) if isinstance(init, Func) else [])
        return a.machine.call(target, [], by_signature(a, target, given, 0), a.origin)
    return None


def _required(func: Func) -> list[str]:
    """Parameters without a default, which are given by position."""
    spec = func.node.args
    positional = [*spec.posonlyargs, *spec.args]
    names = [p.arg for p in positional[: len(positional) - len(spec.defaults)]]
    return [name for name in names if name not in ("self", "cls")]
