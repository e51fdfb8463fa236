"""Command lines made from signatures: click, typer, fire, tyro, and dataclasses through HfArgumentParser."""

from __future__ import annotations

import ast

from analyzers.source.library.arguments import Option, Parser, parse
from analyzers.source.library.configs import parse_config
from analyzers.source.program.attributes import attribute
from analyzers.source.program.calls import default_of, fields_of
from analyzers.source.program.expressions import evaluate
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import (
    NONE,
    ClassVal,
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

_TYPES = {"int": Ext("int"), "float": Ext("float"), "str": Ext("str")}


def _words(a: Arguments) -> list[Val]:
    argv = a.machine.library_values.get("sys.argv")
    return list(argv.items[1:]) if isinstance(argv, Seq) else []


def _option(name: str, default: Val, annotation: ast.expr | None, origin: Origin) -> Option:
    """An option for a parameter or field, typed by its annotation, else by its default."""
    written = ast.unparse(annotation) if annotation is not None and not isinstance(annotation, ast.BinOp) else ""
    base = written.removeprefix("Optional[").removeprefix("typing.Optional[").rstrip("]")
    if annotation is not None and isinstance(annotation, ast.BinOp):
        base = ast.unparse(annotation.left)
    is_bool = base == "bool" or (isinstance(default, Const) and isinstance(default.value, bool))
    kind: Val | None = _TYPES.get(base)
    if kind is None and isinstance(default, Const) and not is_bool:
        kind = _TYPES.get(type(default.value).__name__)
    if isinstance(default, Const):
        default = Const(default.value, Origin(default.origin.file, default.origin.line, "default"), default.assumed)
    names = [f"--{name}", f"--{name.replace('_', '-')}"]
    nargs = "?" if is_bool else "+" if base.lower().startswith(("list[", "tuple[", "list")) else None
    return Option(names, name, "store", default, None if is_bool else kind, nargs, Const(True, origin), origin)


def _booleans(values: Map) -> None:
    for key, value in values.items.items():
        text = string(value)
        if text is not None and text.lower() in ("true", "false") and value is not NONE:
            values.items[key] = Const(text.lower() == "true", getattr(value, "origin", Origin()))


def class_options(a: Arguments, cls: ClassVal) -> list[Option]:
    """Options for the fields of a dataclass of the tree."""
    options = []
    for name, default in fields_of(cls).items():
        value = default_of(a.machine, default, a.origin) if default is not None else NONE
        annotation = next((c.annotations[name] for c in _line(cls) if name in c.annotations), None)
        options.append(_option(name, value, annotation, getattr(value, "origin", a.origin)))
    return options


def _line(cls: ClassVal) -> list[ClassVal]:
    found = [cls]
    for base in cls.bases:
        if isinstance(base, ClassVal) and base is not cls and len(found) < 10:
            found.extend(_line(base))
    return found


HF_PARSER = "transformers.HfArgumentParser"


@models(
    HF_PARSER,
    "transformers.hf_argparser.HfArgumentParser",
    "trl.TrlParser",
    "trl.trainer.TrlParser",
    "trl.commands.cli_utils.TrlParser",
)
def _hf_parser(a: Arguments) -> Val | None:
    classes = a.get(0, "dataclass_types")
    return Obj(Ext(HF_PARSER), {"classes": classes or NONE}, a.origin)


@models(f"{HF_PARSER}().parse_args_into_dataclasses", f"{HF_PARSER}().parse_args_and_config")
def _hf_parse(a: Arguments) -> Val | None:
    return _dataclasses(a, _words(a))


@models(f"{HF_PARSER}().parse_json_file", f"{HF_PARSER}().parse_yaml_file")
def _hf_file(a: Arguments) -> Val | None:
    return a.unknown("arguments from a file")


def _dataclasses(a: Arguments, words: list[Val]) -> Val:
    classes_value = a.owner.attrs.get("classes", NONE) if isinstance(a.owner, Obj) else NONE
    classes = classes_value.items if isinstance(classes_value, Seq) else [classes_value]
    text = string(words[0]) if len(words) == 1 else None
    config: dict[str, Val] = {}
    if a.path.endswith("_and_config"):
        config = _config_option(a, words)
    elif text is not None and text.endswith((".json", ".yaml", ".yml")):
        return a.unknown("arguments from a file")
    declared = [class_options(a, c) for c in classes if isinstance(c, ClassVal)]
    known = {o.dest for options in declared for o in options}
    results: list[Val] = []
    for cls in classes:
        options = class_options(a, cls) if isinstance(cls, ClassVal) else []
        if not isinstance(cls, ClassVal) or any(isinstance(b, Ext) for c in _line(cls) for b in c.bases):
            options += _undeclared(words, known | {o.dest for o in options})
        namespace = Map({}, a.origin, attr=True)
        parse(Parser(options), words, namespace, a)
        _booleans(namespace)
        values = {str(k): v for k, v in namespace.items.items()}
        given_names = {(string(w) or "").lstrip("-").partition("=")[0].replace("-", "_") for w in words}
        values.update({k: v for k, v in config.items() if k not in given_names})
        results.append(a.machine.call(cls, [], values, a.origin))
    remaining = a.get(None, "return_remaining_strings")
    if isinstance(remaining, Const) and remaining.value is True:
        results.append(Seq([], "list", a.origin, open=True))
    return Seq(results, "tuple", a.origin)


def _config_option(a: Arguments, words: list[Val]) -> dict[str, Val]:
    """TRL-style ``--config file.yaml``."""
    from analyzers.source.library.configs import config_value, readable

    texts = [string(w) or "" for w in words]
    for position, text in enumerate(texts):
        name, equals, value = text.partition("=")
        if name == "--config":
            written = value if equals else texts[position + 1] if position + 1 < len(texts) else ""
            path = readable(a.machine, written)
            loaded = config_value(a.machine, path, attr=False) if path is not None else None
            return {str(k): v for k, v in loaded.items.items()} if isinstance(loaded, Map) else {}
    return {}


def _undeclared(words: list[Val], known: set[str]) -> list[Option]:
    """Options of a library's dataclass, which we do not see: those that the launch command gives."""
    options = []
    for position, word in enumerate(words):
        text = string(word) or ""
        name, equals, _ = text.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if not text.startswith("--") or name in known or not name.isidentifier():
            continue
        following = string(words[position + 1]) if position + 1 < len(words) else None
        flag = not equals and (following is None or following.startswith("--"))
        origin = getattr(word, "origin", Origin())
        value = text.partition("=")[2] if equals else following
        kind: Val | None = None
        plain = parse_config(value, ".yaml") if value is not None and not flag and len(value) < 200 else None
        if isinstance(plain, int | float) and not isinstance(plain, bool):
            kind = _TYPES[type(plain).__name__]
        options.append(Option([f"--{name}", f"--{name.replace('_', '-')}"], name, "store", NONE, kind,
                              "?" if flag else None, Const(True, origin), origin))  # fmt: skip
    return options


@models("simple_parsing.parse", "fire.Fire", "typer.run")
def from_signature(a: Arguments) -> Val | None:
    """Call a function, or fill a dataclass, with what the command line says of its parameters."""
    target = a.get(0, "f", "config_class", "component")
    if isinstance(target, ClassVal) and a.path != "fire.Fire":
        namespace = Map({}, a.origin, attr=True)
        parse(Parser(class_options(a, target)), _words(a), namespace, a)
        _booleans(namespace)
        return a.machine.call(target, [], {str(k): v for k, v in namespace.items.items()}, a.origin)
    if isinstance(target, Func):
        return _run_function(a, target, _words(a), {})
    if isinstance(target, ClassVal | Map) and a.path == "fire.Fire":
        return _fire_member(a, target)
    if target is None:
        module = next(iter(a.machine.modules.values()))
        return _fire_member(a, Map(dict(module.names), a.origin))
    return None


def _fire_member(a: Arguments, target: Val) -> Val | None:
    words = _words(a)
    name = string(words[0]) if words else None
    if isinstance(target, Map):
        member = target.items.get(name) if name is not None else None
    else:
        instance = a.machine.call(target, [], {}, a.origin)
        member = attribute(a.machine, instance, name, a.origin) if name is not None else None
    return _run_function(a, member, words[1:], {}) if isinstance(member, Func) else NONE


def _run_function(a: Arguments, func: Func, words: list[Val], declared: dict[str, Option]) -> Val:
    """Call a function with its parameters taken from a command line."""
    spec = func.node.args
    parameters = [*spec.posonlyargs, *spec.args][1 if func.self_ is not None else 0 :] + spec.kwonlyargs
    defaults: dict[str, ast.expr] = {}
    for parameter, default in zip(reversed([*spec.posonlyargs, *spec.args]), reversed(spec.defaults), strict=False):
        defaults[parameter.arg] = default
    for parameter, keyword_default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        if keyword_default is not None:
            defaults[parameter.arg] = keyword_default
    options: list[Option] = []
    for parameter in parameters:
        if parameter.arg in declared:
            continue
        node = defaults.get(parameter.arg)
        value = evaluate(a.machine, node, func.frame) if node is not None else None
        value, names = _typer_default(a, value)
        option = _option(parameter.arg, value if value is not None else NONE, parameter.annotation,
                         getattr(value, "origin", a.origin))  # fmt: skip
        option.names += names
        if value is None and not names:
            option.names = [parameter.arg]
            option.nargs = None
        options.append(option)
    options += list(declared.values())
    namespace = Map({}, a.origin, attr=True)
    parse(Parser(options), words, namespace, a)
    if not declared:
        _booleans(namespace)
    return a.machine.call(func, [], {str(k): v for k, v in namespace.items.items()}, a.origin)


def _typer_default(a: Arguments, value: Val | None) -> tuple[Val | None, list[str]]:
    """``typer.Option(default, "--name")`` as a default and its names."""
    if isinstance(value, Obj) and value.call is not None and value.call.path in ("typer.Option", "typer.Argument"):
        default = value.call.argument(0, "default")
        names = [s for s in map(string, value.call.args[1:]) if s]
        return None if isinstance(default, Unknown) else default, names
    return value, []


# --- click and typer apps -----------------------------------------------------------------------------------------

CLICK = "click.Command"


@models("@click.option", "@click.argument")
def _click_option(a: Arguments) -> Val | None:
    target = a.args[0]
    call = a.owner.call if isinstance(a.owner, Obj) else None
    if call is None:
        return target
    names = [s for s in map(string, call.args) if s]
    if not names:
        return target
    plain = [n for n in names if not n.startswith("-")]
    dest = (plain or sorted(names, key=len, reverse=True))[0].lstrip("-").partition("/")[0].replace("-", "_").lower()
    flag = call.argument(None, "is_flag")
    is_flag = (isinstance(flag, Const) and flag.value is True) or "/" in names[0]
    default = call.argument(None, "default") or (Const(False) if is_flag else NONE)
    if isinstance(default, Const):
        default = Const(default.value, Origin(call.origin.file, call.origin.line, "default"))
    if a.path.endswith("argument"):
        names = [dest]
    elif plain:
        names = [n for n in names if n.startswith("-")]
    kind = call.argument(None, "type")
    if kind is None and isinstance(default, Const) and not isinstance(default.value, bool):
        kind = _TYPES.get(type(default.value).__name__)
    multiple = call.argument(None, "multiple")
    action = "store_true" if is_flag else "append" if isinstance(multiple, Const) and multiple.value else "store"
    option = Option(names, dest, action, default, kind, None, NONE, call.origin)
    holder = target if isinstance(target, Obj) and isinstance(target.cls, Ext) and target.cls.path == CLICK else None
    if holder is None:
        holder = Obj(Ext(CLICK), {"function": target, "options": Unknown("options", detail=())}, a.origin)
    before = holder.attrs["options"]
    assert isinstance(before, Unknown)
    holder.attrs["options"] = Unknown("options", detail=(option, *before.detail))
    return holder


@models(
    "@click.command",
    "@click.group",
    "@?.command",
    "@typer.Typer().command",
    "@click.Group().command",
    "@typer.Typer().callback",
)
def _click_command(a: Arguments) -> Val | None:
    target = a.args[0]
    holder = target
    if not (isinstance(target, Obj) and isinstance(target.cls, Ext) and target.cls.path == CLICK):
        holder = Obj(Ext(CLICK), {"function": target, "options": Unknown("options", detail=())}, a.origin)
    call = a.owner.call if isinstance(a.owner, Obj) else None
    if call is not None and isinstance(call.receiver, Obj):
        function = holder.attrs.get("function") if isinstance(holder, Obj) else None
        written = string(call.argument(0, "name")) or str(getattr(function, "name", ""))
        name = written.replace("_", "-")
        call.receiver.attrs[f"command {name}"] = holder
    return holder


@models(f"{CLICK}()()", "typer.Typer()()")
def _click_call(a: Arguments) -> Val | None:
    owner = a.owner
    if not isinstance(owner, Obj):
        return None
    words = _words(a)
    commands = {k.removeprefix("command "): v for k, v in owner.attrs.items() if k.startswith("command ")}
    if commands:
        name = next((t for t in map(string, words) if t in commands), None)
        if name is None and len(commands) == 1:
            chosen = next(iter(commands.values()))
        elif name is not None:
            chosen = commands[name]
            words = words[[string(w) for w in words].index(name) + 1 :]
        else:
            return NONE
        return _run_command(a, chosen, words)
    return _run_command(a, owner, words)


def _run_command(a: Arguments, command: Val, words: list[Val]) -> Val:
    function = command.attrs.get("function") if isinstance(command, Obj) else None
    options = command.attrs.get("options") if isinstance(command, Obj) else None
    declared = {o.dest: o for o in options.detail if isinstance(o, Option)} if isinstance(options, Unknown) else {}
    return _run_function(a, function, words, declared) if isinstance(function, Func) else NONE
