"""Command lines of nested dataclasses: tyro, draccus and pyrallis (``--optim.lr 1e-3``, a decorated ``main(cfg)``)."""

from __future__ import annotations

from analyzers.source.library.signatures import from_signature
from analyzers.source.library.typed_cli import annotated_classes, command_words, configuration, converted_value
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import ClassVal, Const, Ext, Func, Map, Obj, Val

_FILES = frozenset({"--config_path", "--config-path"})
_MAIN = "pyrallis.Main"


def parsed(a: Arguments, cls: ClassVal, default: Val | None) -> Val:
    """An instance of a dataclass with what the command line sets in it and in those that it holds."""
    given = configuration(a, command_words(a), [], _FILES)
    _negations(given)
    return converted_value(a, given, default if isinstance(default, Obj) else None, [cls])


def _negations(config: Map) -> None:
    """``--no-flag`` switches ``flag`` off."""
    for key, value in list(config.items.items()):
        if isinstance(value, Map):
            _negations(value)
        elif str(key).startswith("no_") and isinstance(value, Const) and value.value is True:
            del config.items[key]
            config.items[str(key)[3:]] = Const(False, value.origin)


@models("tyro.cli", "draccus.parse", "pyrallis.parse")
def _parse(a: Arguments) -> Val | None:
    target = a.get(0, "f", "config_class")
    return parsed(a, target, a.kwargs.get("default")) if isinstance(target, ClassVal) else from_signature(a)


@models("@pyrallis.wrap", "@draccus.wrap")
def _wrap(a: Arguments) -> Val | None:
    return Obj(Ext(_MAIN), {"function": a.args[0]}, a.origin)


@models(f"{_MAIN}()()")
def _call(a: Arguments) -> Val | None:
    function = a.owner.attrs.get("function") if isinstance(a.owner, Obj) else None
    if not isinstance(function, Func) or not function.node.args.args:
        return None
    classes = list(annotated_classes(a, function.node.args.args[0].annotation, function.frame))
    first = [parsed(a, classes[0], None)] if classes else [a.unknown("configuration")]
    return a.machine.call(function, [*first, *a.args], a.kwargs, a.origin)
