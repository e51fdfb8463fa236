"""Configuration files: YAML, JSON, TOML and OmegaConf, and the values they turn into."""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
from typing import Any

import yaml

from analyzers.source.files import normal
from analyzers.source.program.machine import Machine
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.operators import NUMBER_BITS_MAX
from analyzers.source.program.parsing import remembered
from analyzers.source.program.values import NONE, Const, File, Map, Origin, Seq, Unknown, Val, string

NODES_MAX = 20_000
CONFIG_BYTES_MAX = 300_000
VALUE_TEXT_MAX = 5_000
_TYPED_SCALAR_MAX = 100
#: tomllib takes time that grows with the square of a dotted key's length.
_TOML_KEY_DOTS_MAX = 50


class _Loader(yaml.SafeLoader):
    """Safe YAML that reads ``1e-4`` as a number, as YAML 1.2 and OmegaConf do, and passes over unknown tags.

    A long scalar is text: the patterns and constructors for numbers and dates take time that grows with its square.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise yaml.YAMLError("more entries than are read of one file")
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: tuple[bool, bool] | bool) -> str:
        if kind is yaml.ScalarNode and value is not None and len(value) > _TYPED_SCALAR_MAX:
            return "tag:yaml.org,2002:str"
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return tag


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:\d[\d_]*(?:\.[\d_]*)?(?:[eE][-+]?\d+)|\d[\d_]*\.[\d_]*|\.\d[\d_]*(?:[eE][-+]?\d+)?|\.inf|\.nan)$"
    ),
    list("-+0123456789."),
)
_Loader.add_multi_constructor("", lambda loader, suffix, node: None)


def readable(machine: Machine, written: str) -> str | None:
    """A path as a program writes it, as a file of the tree: from the working folder, else from the entry's folder."""
    folders = [machine.launch.cwd, posixpath.dirname(machine.launch.entry or ""), ""]
    for folder in folders:
        path = normal(posixpath.join(folder, written))
        if machine.tree.is_file(path):
            return path
    return None


def parse_config(text: str, path: str) -> Any:
    """The plain value of a configuration text by its name's ending; None where it can not be read."""
    if len(text) > CONFIG_BYTES_MAX:
        return None
    # An alias bomb multiplies in memory: no honest configuration has this many aliases.
    if not path.endswith((".json", ".toml")) and len(re.findall(r"(?:^|[\s\[,:])\*\w", text)) > 200:
        return None
    try:
        if path.endswith(".toml"):
            if any(row.partition("=")[0].count(".") > _TOML_KEY_DOTS_MAX for row in text.splitlines()):
                return None
            return tomllib.loads(text)
        if path.endswith(".json"):
            try:
                return json.loads(text)
            except ValueError:
                pass
        return yaml.load(text, Loader=_Loader)
    except (ValueError, yaml.YAMLError, RecursionError, MemoryError, OverflowError, TypeError, AttributeError):
        return None


def plain_config(machine: Machine, text: str, path: str) -> Any:
    """What `parse_config` gives for a file of the tree, remembered by content; says where it gives nothing.

    Nobody may change the result. Raises `BudgetExceededError` when the reading's time is up.
    """
    machine.tree.deadline.check()
    plain = remembered(f"config {posixpath.splitext(path)[1]}", text, lambda: parse_config(text, path))
    if plain is None and any(row.strip().strip("-") and not row.lstrip().startswith("#") for row in text.splitlines()):
        machine.tree.warn(f"{path}: can not be read as a configuration, or is too large for one")
        machine.record.complete = False
    return plain


def as_value(value: Any, origin: Origin, *, attr: bool = False, lines: dict[str, int] | None = None) -> Val:
    """A plain Python value as an abstract one. ``lines``: key -> line in the file, for evidence."""
    budget = [NODES_MAX]

    def convert(part: Any, place: Origin) -> Val:
        budget[0] -= 1
        if budget[0] < 0:
            return Unknown("too large", place)
        if isinstance(part, dict):
            result = Map({}, place, attr=attr)
            for key, inner in part.items():
                if isinstance(key, str | int | float | bool | None):
                    line = lines.get(str(key)) if lines else None
                    result.items[key] = convert(inner, Origin(place.file, line or place.line, place.how))
            return result
        if isinstance(part, list | tuple):
            return Seq([convert(p, place) for p in part], "list", place)
        if isinstance(part, int) and part.bit_length() > NUMBER_BITS_MAX:
            return Unknown("too large", place)
        if isinstance(part, str | int | float | bool) or part is None:
            return Const(part, place)
        return Unknown("value", place)

    return convert(value, origin)


def key_lines(text: str) -> dict[str, int]:
    """The line on which each key of a YAML or JSON text last stands."""
    found: dict[str, int] = {}
    for number, row in enumerate(text.splitlines()[:5000], 1):
        match = re.match(r"""\s*(?:-\s+)?["']?([\w./-]+)["']?\s*[:=]""", row)
        if match:
            found[match.group(1)] = number
    return found


def config_value(machine: Machine, path: str, *, attr: bool) -> Val | None:
    """A configuration file of the tree as a value, or None."""
    text = machine.tree.read(path)
    plain = plain_config(machine, text, path) if text is not None else None
    if text is None or plain is None:
        return None
    return as_value(plain, Origin(path, 1, "default"), attr=attr, lines=key_lines(text))


@models("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "toml.load", "tomllib.load", "tomli.load",
        "ruamel.yaml.YAML().load", "ruamel_yaml.load", "ruamel_yaml.safe_load", "yaml.unsafe_load",
        "hjson.load")  # fmt: skip
def _load(a: Arguments) -> Val | None:
    source = a.args[0] if a.args else NONE
    if isinstance(source, File) and source.text is not None:
        return config_value(a.machine, source.path, attr=False) or a.unknown("configuration")
    text = string(source)
    path = readable(a.machine, text) if text is not None and len(text) < 1000 and "\n" not in text else None
    if path is not None:
        return config_value(a.machine, path, attr=False) or a.unknown("configuration")
    if text is not None and a.path.startswith(("yaml.", "ruamel.")) and len(text) < VALUE_TEXT_MAX:
        place = getattr(source, "origin", a.origin)  # one value, as in ``lr=1e-3`` of a command line
        return as_value(parse_config(text, ".yaml"), place)
    return a.unknown("configuration")


@models("omegaconf.OmegaConf.load")
def _omega_load(a: Arguments) -> Val | None:
    written = a.text(0, "file_", "filename", "f")
    path = readable(a.machine, written) if written is not None else None
    return (config_value(a.machine, path, attr=True) if path is not None else None) or a.unknown("configuration")


@models("omegaconf.OmegaConf.merge")
def _omega_merge(a: Arguments) -> Val | None:
    result = Map({}, a.origin, attr=True)
    for part in a.args:
        if isinstance(part, Map):
            merge_into(result, part)
        else:
            result.open = True
    return result


@models("omegaconf.OmegaConf.from_cli", "omegaconf.OmegaConf.from_dotlist")
def _omega_cli(a: Arguments) -> Val | None:
    given = a.get(0, "args_list", "dotlist")
    argv = a.machine.library_values.get("sys.argv")
    words = given.items if isinstance(given, Seq) else argv.items[1:] if isinstance(argv, Seq) else []
    result = Map({}, a.origin, attr=True)
    for word in words:
        text = string(word)
        if text is not None and "=" in text:
            name, _, value = text.partition("=")
            set_path(result, name.split("."), override_value(value, getattr(word, "origin", a.origin)))
    return result


@models("omegaconf.OmegaConf.to_container", "omegaconf.OmegaConf.structured", "omegaconf.OmegaConf.to_object",
        "omegaconf.OmegaConf.masked_copy")  # fmt: skip
def _omega_same(a: Arguments) -> Val | None:
    first = a.args[0] if a.args else NONE
    return first if isinstance(first, Map) else None


@models("omegaconf.OmegaConf.set_struct", "omegaconf.OmegaConf.resolve", "omegaconf.OmegaConf.set_readonly")
def _omega_nothing(a: Arguments) -> Val | None:
    return NONE


def merge_into(target: Map, other: Map) -> None:
    """Merge nested maps, the second winning; what is too much to follow is left open.

    A map that stands in others often would unfold without end.
    """
    _merge(target, other, [NODES_MAX])


def _merge(target: Map, other: Map, budget: list[int]) -> None:
    budget[0] -= len(other.items) + 1
    if budget[0] < 0:
        target.open = True
        return
    for key, value in other.items.items():
        existing = target.items.get(key)
        if isinstance(existing, Map) and isinstance(value, Map):
            _merge(existing, value, budget)
        elif isinstance(value, Map):
            copy = Map({}, value.origin, value.attr, value.open, value.label)
            _merge(copy, value, budget)
            target.items[key] = copy
        else:
            target.items[key] = value
    target.open = target.open or other.open


def set_path(target: Map, path: list[str], value: Val) -> None:
    """Set a dotted key, making the maps on the way."""
    for part in path[:-1]:
        inner = target.items.get(part)
        if not isinstance(inner, Map):
            inner = Map({}, target.origin, attr=target.attr)
            target.items[part] = inner
        target = inner
    target.items[path[-1]] = value


def override_value(text: str, origin: Origin) -> Val:
    """The value of ``key=text`` on a command line, typed as YAML would."""
    place = Origin(origin.file or "launch", origin.line or 1, "override")
    plain = parse_config(text, ".yaml") if len(text) < VALUE_TEXT_MAX else text
    return as_value(text if plain is None and text not in ("null", "None", "~", "") else plain, place, attr=True)
