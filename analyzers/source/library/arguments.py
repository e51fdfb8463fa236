"""argparse: options as declared, values as the launch command sets them."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzers.source.knowledge.frameworks import described_options, described_parsers
from analyzers.source.launch.words import UNKNOWN
from analyzers.source.library.builtin import converted
from analyzers.source.library.pyconfigs import key_value_words
from analyzers.source.program.native import HANDLERS, Arguments, models
from analyzers.source.program.values import (
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

PARSER = "argparse.ArgumentParser"


@dataclass(slots=True)
class Option:
    """One declared option or positional argument."""

    names: list[str]
    dest: str
    action: str
    default: Val
    type_: Val | None
    nargs: object
    const: Val
    origin: Origin
    choices: list[object] = field(default_factory=list)

    @property
    def positional(self) -> bool:
        """Whether it is given by position."""
        return not self.names[0].startswith("-")


@dataclass(slots=True)
class Parser:
    """What a parser was told."""

    options: list[Option] = field(default_factory=list)
    defaults: dict[str, Val] = field(default_factory=dict)
    commands: dict[str, Obj] = field(default_factory=dict)
    command_dest: str = ""
    deepspeed: bool = False


#: Parsers by the identity of the object that stands for them; kept on the object so that they die with it.
def parser_of(value: Val | None) -> Parser | None:
    """The parser behind a value, or None."""
    if isinstance(value, Obj):
        holder = value.attrs.get("__parser__")
        if isinstance(holder, Unknown) and holder.detail and isinstance(holder.detail[0], Parser):
            return holder.detail[0]
    return None


def new_parser(origin: Origin, parser: Parser | None = None) -> Obj:
    """An object that stands for an argument parser."""
    return Obj(Ext(PARSER), {"__parser__": Unknown("parser", detail=(parser or Parser(),))}, origin)


@models(PARSER, "configargparse.ArgumentParser", "configargparse.ArgParser", "jsonargparse.ArgumentParser")
def _create(a: Arguments) -> Val | None:
    created = new_parser(a.origin)
    parents = a.kwargs.get("parents")
    parser = parser_of(created)
    if isinstance(parents, Seq) and parser is not None:
        for parent in parents.items:
            inherited = parser_of(parent)
            if inherited is not None:
                parser.options.extend(inherited.options)
    return created


def _described(a: Arguments) -> Val | None:
    """A parser that a library hands out with options of its own, as they are described."""
    parser = Parser()
    for written in described_options(a.path):
        names: list[str] = written["names"]
        dest = names[0].lstrip("-").replace("-", "_")
        default = Const(written.get("default", False if written.get("action") == "store_true" else None))
        default.origin = Origin(a.origin.file, a.origin.line, "default")
        kind = Ext(written["type"]) if "type" in written else None
        parser.options.append(Option(names, dest, written.get("action", "store"), default, kind, written.get("nargs"),
                                     NONE, a.origin))  # fmt: skip
    return new_parser(a.origin, parser)


for _path in described_parsers():
    HANDLERS[_path] = _described


@models(f"{PARSER}().add_argument_group", f"{PARSER}().add_mutually_exclusive_group")
def _group(a: Arguments) -> Val | None:
    return a.owner


@models(f"{PARSER}().add_subparsers")
def _subparsers(a: Arguments) -> Val | None:
    parser = parser_of(a.owner)
    if parser is not None:
        parser.command_dest = a.text(None, "dest") or ""
    return a.owner


@models(f"{PARSER}().add_parser")
def _subparser(a: Arguments) -> Val | None:
    parser, name = parser_of(a.owner), a.text(0)
    created = new_parser(a.origin)
    if parser is not None and name is not None:
        parser.commands[name] = created
    return created


@models(f"{PARSER}().set_defaults")
def _set_defaults(a: Arguments) -> Val | None:
    parser = parser_of(a.owner)
    if parser is not None:
        parser.defaults.update(a.kwargs)
    return NONE


@models("deepspeed.add_config_arguments")
def _deepspeed_arguments(a: Arguments) -> Val | None:
    parser = parser_of(a.args[0] if a.args else None)
    if parser is not None:
        for name, action in (
            ("--deepspeed", "store_true"),
            ("--deepspeed_config", "store"),
            ("--deepscale", "store_true"),
        ):
            default: Val = Const(False) if action == "store_true" else NONE
            parser.options.append(Option([name], name[2:], action, default, None, None, Const(True), a.origin))
    return a.args[0] if a.args else None


@models(f"{PARSER}().add_argument")
def _add(a: Arguments) -> Val | None:
    parser = parser_of(a.owner)
    names = [s for s in map(string, a.args) if s]
    if parser is None or not names or len(parser.options) > 3000:
        return NONE
    dest = a.text(None, "dest")
    if dest is None:
        long = [n for n in names if n.startswith("--")]
        dest = (long or names)[0].lstrip("-").replace("-", "_")
    action_value = a.kwargs.get("action")
    action = string(action_value) or (
        "boolean_optional" if isinstance(action_value, Ext) and action_value.path.endswith("BooleanOptionalAction") else
        "store" if action_value is None else
        "pairs" if isinstance(action_value, Ext) and action_value.path.endswith(".DictAction") else "custom"
    )  # fmt: skip
    default = a.kwargs.get("default")
    if default is None:
        default = {"store_true": Const(False), "store_false": Const(True)}.get(action, NONE)
    if isinstance(default, Const):
        line = default.origin if default.origin.file else a.origin
        place = Origin(line.file, a.origin.line if line.file == a.origin.file else line.line, "default")
        default = Const(default.value, place, default.assumed)
    nargs_value = a.kwargs.get("nargs")
    nargs = nargs_value.value if isinstance(nargs_value, Const) else None
    if isinstance(nargs_value, Ext) and nargs_value.path.endswith("argparse.REMAINDER"):
        nargs = "..."
    const = a.kwargs.get("const", NONE)
    parser.options.append(Option(names, dest, action, default, a.kwargs.get("type"), nargs, const, a.origin))
    return NONE


@models(f"{PARSER}().parse_args", f"{PARSER}().parse_known_args", f"{PARSER}().parse_intermixed_args")
def _parse(a: Arguments) -> Val | None:
    parser = parser_of(a.owner)
    if parser is None:
        return None
    given = a.get(0, "args")
    words = given if isinstance(given, Seq) else a.machine.library_values.get("sys.argv")
    items = list(words.items) if isinstance(words, Seq) else []
    if not isinstance(given, Seq):
        items = items[1:]
    namespace = Map({}, a.origin, attr=True, label="arguments")
    existing = a.get(1, "namespace")
    if isinstance(existing, Map):
        namespace = existing
    rest = parse(parser, items, namespace, a)
    if a.path.endswith("parse_known_args"):
        return Seq([namespace, Seq(rest, "list", a.origin)], "tuple", a.origin)
    return namespace


@models(f"{PARSER}().get_default")
def _get_default(a: Arguments) -> Val | None:
    parser, name = parser_of(a.owner), a.text(0)
    found = [o.default for o in parser.options if o.dest == name] if parser is not None else []
    return found[0] if found else NONE


def parse(parser: Parser, words: list[Val], namespace: Map, a: Arguments) -> list[Val]:
    """Fill ``namespace`` from words; return the words that no option takes."""
    for declared in parser.options:
        if declared.dest not in namespace.items or declared.action != "append":
            namespace.items[declared.dest] = _typed_default(declared, a)
    namespace.items.update(parser.defaults)
    by_name = {name: option for option in parser.options for name in option.names if not option.positional}
    waiting = [o for o in parser.options if o.positional]
    rest: list[Val] = []
    i = 0
    while i < len(words):
        text = string(words[i]) or named_word(words[i])
        if text is None or not text.startswith("-") or text == "-" or _is_number(text):
            if parser.commands and text in parser.commands:
                if parser.command_dest:
                    namespace.items[parser.command_dest] = words[i]
                inner = parser_of(parser.commands[text])
                return rest + (parse(inner, words[i + 1 :], namespace, a) if inner is not None else [])
            i = _take_positional(words, i, waiting, by_name, namespace, a, rest)
            continue
        name, equals, value = text.partition("=")
        option = _named(by_name, name)
        if option is None and not text.startswith("--") and len(text) > 2 and text[:2] in by_name:
            option, equals, value = by_name[text[:2]], "=", text[2:]
        i += 1
        if option is None:
            rest.append(words[i - 1])
            continue
        origin = getattr(words[i - 1], "origin", a.origin)
        if equals:
            given: Val = Const(value, origin) if UNKNOWN not in value else Unknown("launch argument", origin)
            namespace.items[option.dest] = _stored(option, [given], namespace, a, origin)
            continue
        count = i
        limit = _arity(option)
        while count < len(words) and count - i < limit:
            following = string(words[count])
            if (
                option.nargs != "..."
                and following is not None
                and following.startswith("-")
                and not _is_number(following)
                and len(following) > 1
            ):
                break
            count += 1
        namespace.items[option.dest] = _stored(option, words[i:count], namespace, a, origin, name)
        i = count
    return rest


def named_word(word: Val) -> str | None:
    """``--name=value`` of which only the name is known, as it is written."""
    text = word.detail[1] if isinstance(word, Unknown) and word.detail[:1] == ("word",) else None
    named = isinstance(text, str) and text.startswith("-") and UNKNOWN not in text.partition("=")[0]
    return str(text) if named and "=" in str(text) else None


def _named(by_name: dict[str, Option], name: str) -> Option | None:
    if name in by_name:
        return by_name[name]
    if name.startswith("--no-") and f"--{name[5:]}" in by_name:
        return by_name[f"--{name[5:]}"] if by_name[f"--{name[5:]}"].action == "boolean_optional" else None
    matches = [o for n, o in by_name.items() if n.startswith(name)] if name.startswith("--") and len(name) > 2 else []
    return matches[0] if len({id(m) for m in matches}) == 1 else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _arity(option: Option) -> int:
    if option.action not in ("store", "append", "extend", "custom", "pairs"):
        return 0
    if option.nargs in ("*", "+", "..."):
        return 100_000
    return option.nargs if isinstance(option.nargs, int) and not isinstance(option.nargs, bool) else 1


def _take_positional(
    words: list[Val],
    i: int,
    waiting: list[Option],
    by_name: dict[str, Option],
    namespace: Map,
    a: Arguments,
    rest: list[Val],
) -> int:
    if not waiting:
        rest.append(words[i])
        return i + 1
    option = waiting.pop(0)
    count = 1
    if option.nargs == "...":  # all that follows, options too
        count = len(words) - i
    elif option.nargs in ("*", "+"):
        while i + count < len(words) and not (string(words[i + count]) or "").startswith("-"):
            count += 1
    elif isinstance(option.nargs, int):
        count = max(1, option.nargs)
    origin = getattr(words[i], "origin", a.origin)
    namespace.items[option.dest] = _stored(option, words[i : i + count], namespace, a, origin)
    return i + count


def _typed_default(option: Option, a: Arguments) -> Val:
    default = option.default
    if isinstance(default, Const) and isinstance(default.value, str) and option.type_ is not None:
        return _typed(option, default, a)
    return default


def _stored(option: Option, values: list[Val], namespace: Map, a: Arguments, origin: Origin, written: str = "") -> Val:
    if option.action == "store_true":
        return Const(True, origin)
    if option.action == "store_false":
        return Const(False, origin)
    if option.action == "boolean_optional":
        return Const(not written.startswith("--no-"), origin)
    if option.action in ("store_const", "append_const"):
        return option.const
    if option.action == "count":
        return Unknown("count", origin)
    if option.action == "pairs":
        return key_value_words(values, origin)
    typed = [_typed(option, v, a) for v in values]
    if option.action == "append":
        before = namespace.items.get(option.dest)
        return Seq([*(before.items if isinstance(before, Seq) else []), *typed], "list", origin)
    if option.nargs in ("*", "+", "...") or (isinstance(option.nargs, int) and not isinstance(option.nargs, bool)):
        return Seq(typed, "list", origin)
    return typed[0] if typed else (option.const if option.nargs == "?" else NONE)


def _typed(option: Option, value: Val, a: Arguments) -> Val:
    kind = option.type_
    if not isinstance(value, Const) or kind is None:
        return value
    if isinstance(kind, Ext) and kind.path in ("int", "float", "str"):
        return converted(kind.path, value, a)
    if isinstance(kind, Ext) and kind.path == "bool":
        return Const(bool(value.value), value.origin)
    if isinstance(kind, Func):
        result = a.machine.call(kind, [value], {}, value.origin)
        return Const(result.value, value.origin) if isinstance(result, Const) else result
    return value
