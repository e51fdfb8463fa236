"""absl flags and ml_collections config files."""

from __future__ import annotations

import ast

from analyzers.source.launch.words import UNKNOWN
from analyzers.source.library.arguments import named_word
from analyzers.source.library.configs import readable, set_path
from analyzers.source.program.machine import Machine
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import (
    DIGITS_MAX,
    NONE,
    Const,
    Ext,
    Func,
    Map,
    Obj,
    Origin,
    Seq,
    Unknown,
    Val,
    string,
)

_HOLDER = Ext("absl.flags.FlagHolder")
_DEFINERS = ("string", "integer", "float", "bool", "boolean", "enum", "list", "multi_string")


def argument_words(machine: Machine) -> list[tuple[str, Origin]]:
    """Words of ``sys.argv`` after the program's name; what is not known of one is `UNKNOWN`."""
    argv = machine.library_values.get("sys.argv")
    items = argv.items[1:] if isinstance(argv, Seq) else []
    return [(string(i) or named_word(i) or UNKNOWN, i.origin) for i in items if isinstance(i, Const | Unknown)]


def given(machine: Machine, name: str) -> tuple[str, Origin] | None:
    """What ``--name=value`` or ``--name value`` sets, or None."""
    words = argument_words(machine)
    found = None
    for position, (text, origin) in enumerate(words):
        if not text.startswith("-"):
            continue
        written, equals, value = text.lstrip("-").partition("=")
        if written == name:
            following = words[position + 1][0] if position + 1 < len(words) else ""
            found = (value if equals else ("true" if following.startswith("-") or not following else following), origin)
        elif written == f"no{name}":
            found = ("false", origin)
    return found


def _define(a: Arguments) -> Val | None:
    name = a.text(0, "name")
    kind = a.path.rpartition("DEFINE_")[2]
    default = a.get(1, "default") or NONE
    if name is None:
        return None
    if isinstance(default, Const):
        default = Const(default.value, Origin(a.origin.file, a.origin.line, "default"))
    setting = given(a.machine, name)
    value: Val = default if setting is None else typed(setting[0], kind, setting[1])
    if setting is not None and UNKNOWN in setting[0]:
        value = Unknown("launch argument", setting[1])
    flags = a.machine.library_values["absl.flags.FLAGS"]
    assert isinstance(flags, Map)
    flags.items[name] = value
    return Obj(_HOLDER, {"value": value, "default": default}, a.origin)


def typed(text: str, kind: str, origin: Origin) -> Val:
    """A flag's text as its type."""
    place = Origin(origin.file, origin.line, "override")
    try:
        if kind == "integer" and len(text) > DIGITS_MAX:
            return Unknown("too large", place)
        if kind == "integer":
            return Const(int(text), place)
        if kind == "float":
            return Const(float(text), place)
    except ValueError:
        return Unknown("flag", place)
    if kind in ("bool", "boolean"):
        return Const(text.lower() in ("true", "1", "t", "yes"), place)
    if kind in ("list", "multi_string"):
        return Seq([Const(p, place) for p in text.split(",")], "list", place)
    return Const(text, place)


#: Where TensorFlow keeps what became absl's flags.
HOMES = ("absl.flags", "tensorflow.flags", "tensorflow.app.flags", "tensorflow.compat.v1.flags",
         "tensorflow.compat.v1.app.flags", "tensorflow.python.platform.flags", "gflags")  # fmt: skip

for _kind in _DEFINERS:
    models(*(f"{home}.DEFINE_{_kind}" for home in HOMES))(_define)


@models("ml_collections.config_flags.DEFINE_config_file", "config_flags.DEFINE_config_file",
        "ml_collections.config_flags.config_flags.DEFINE_config_file")  # fmt: skip
def _config_file(a: Arguments) -> Val | None:
    name = a.text(0, "name")
    if name is None:
        return None
    setting = given(a.machine, name)
    written = setting[0] if setting is not None else a.text(1, "default")
    config: Val = Unknown("configuration", a.origin)
    if written is not None:
        file, _, argument = written.partition(":")
        config = _get_config(a, file, argument) or config
    if isinstance(config, Map):
        for text, origin in argument_words(a.machine):
            key, equals, value = text.lstrip("-").partition("=")
            if equals and key.startswith(f"{name}."):
                given_value = _literal(value, origin) if UNKNOWN not in value else Unknown("launch argument", origin)
                set_path(config, key.split(".")[1:], given_value)
    flags = a.machine.library_values["absl.flags.FLAGS"]
    assert isinstance(flags, Map)
    flags.items[name] = config
    return Obj(_HOLDER, {"value": config}, a.origin)


def _get_config(a: Arguments, file: str, argument: str) -> Val | None:
    path = readable(a.machine, file)
    module = a.machine.load(path, path.removesuffix(".py").replace("/", ".")) if path is not None else None
    function = module.names.get("get_config") if module is not None else None
    if not isinstance(function, Func):
        return None
    return a.machine.call(function, [Const(argument)] if argument else [], {}, a.origin)


def _literal(text: str, origin: Origin) -> Val:
    place = Origin(origin.file, origin.line, "override")
    try:
        value = ast.literal_eval(text) if len(text) < 1000 else text
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = {"true": True, "false": False}.get(text.lower(), text)
    return Const(value, place) if isinstance(value, str | int | float | bool | None) else Unknown("flag", place)


@models("absl.app.run", "tensorflow.app.run", "tensorflow.compat.v1.app.run", "tensorflow.python.platform.app.run")
def _run(a: Arguments) -> Val | None:
    main = a.get(0, "main")
    if main is None:
        module = next(iter(a.machine.modules.values()))
        main = module.names.get("main")
    if main is None:
        return NONE
    return a.machine.call(main, [Seq([Const("main")], "list", a.origin)], {}, a.origin)
