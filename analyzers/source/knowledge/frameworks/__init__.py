"""What public training frameworks do with a configuration: one file each, read once; docs/adding-a-framework.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

Rules = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class KnownCall:
    """A library call that runs, or takes part in, a training: ``endings`` of its path, and what it says.

    ``config`` is the argument that holds the configuration (``result``: what the call gives back holds it;
    ``arguments``: all of them are it); ``always`` lets the call speak even where no call is known that runs the
    training; ``stages``: several such calls train one after the other.
    """

    endings: tuple[str, ...]
    config: tuple[int | str, ...] = ()
    runs: str = ""
    always: bool = False
    rules: Rules = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    stages: bool = False


@dataclass(frozen=True, slots=True)
class KnownCommand:
    """A program by its name; ``words`` is how it reads its command line (``options``, ``pairs`` or ``hydra``)."""

    names: tuple[str, ...]
    words: str
    runs: str
    rules: Rules
    flags: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()
    positionals: tuple[str, ...] = ()
    short: dict[str, str] = field(default_factory=dict)
    config_option: str = ""
    config_folders: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework: its packages, its calls and commands, argument parsers and configurations that it hands out.

    ``chained`` are methods that give back their own instance.
    """

    name: str
    source: tuple[str, ...]
    family: str
    packages: tuple[str, ...]
    calls: tuple[KnownCall, ...]
    commands: tuple[KnownCommand, ...]
    parsers: dict[str, list[dict[str, Any]]]
    configurations: dict[str, dict[str, Any]]
    chained: tuple[str, ...] = ()


def _rules(raw: dict[str, Any] | None) -> Rules:
    return {
        name: [alternative if isinstance(alternative, dict) else {"value": alternative}
               for alternative in (value if isinstance(value, list) else [value])]
        for name, value in (raw or {}).items()
    }  # fmt: skip


def _names(raw: str | list[str]) -> tuple[str, ...]:
    return (raw,) if isinstance(raw, str) else tuple(raw)


def _framework(document: dict[str, Any]) -> Framework:
    shared = document.get("rules", {})
    calls = tuple(
        KnownCall(_names(c["path"]), tuple(c.get("config", ())), c.get("runs", ""), c.get("always", False),
                  _rules({**shared.get(c.get("uses", ""), {}), **c.get("facts", {})}), c.get("defaults", {}),
                  c.get("stages", False))
        for c in document.get("calls", ())
    )  # fmt: skip
    commands = tuple(
        KnownCommand(
            _names(c["names"]), c.get("words", "options"), c.get("runs", ""),
            _rules({**shared.get(c.get("uses", ""), {}), **c.get("facts", {})}), frozenset(c.get("flags", ())),
            frozenset(c.get("lists", ())), tuple(c.get("positionals", ())), c.get("short", {}),
            c.get("config_option", ""), tuple(c.get("config_folders", ())), c.get("defaults", {}),
        )
        for c in document.get("commands", ())
    )  # fmt: skip
    return Framework(
        document["name"], _names(document["source"]), document["framework"], _names(document["packages"]), calls,
        commands, document.get("parsers", {}), document.get("configurations", {}),
        _names(document.get("chained", ())),
    )  # fmt: skip


@cache
def frameworks() -> tuple[Framework, ...]:
    """All frameworks that are described."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    folder = files(__package__)
    documents = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    return tuple(_framework(yaml.load(f.read_text(encoding="utf-8"), Loader=loader)) for f in documents)


def library_defaults(path: str) -> dict[str, Any]:
    """The configuration that a library function hands out, as far as it is described."""
    return next((f.configurations[path] for f in frameworks() if path in f.configurations), {})


def known_command(program: str, words: Sequence[str]) -> tuple[Framework, KnownCommand, int] | None:
    """The framework whose program this is, and how many of its words name it (``yolo train``); None where none is."""
    for framework in frameworks():
        for command in framework.commands:
            for name in command.names:
                first, *rest = name.split(" ")
                named = program == first or ("/" in first and program.endswith("/" + first))
                if named and list(words[: len(rest)]) == rest:
                    return framework, command, len(rest)
    return None


def described_parsers() -> list[str]:
    """Library functions that hand out an argument parser with options of their own."""
    return [path for framework in frameworks() for path in framework.parsers]


def described_options(path: str) -> list[dict[str, Any]]:
    """The options of the parser that this library function hands out."""
    return next((f.parsers[path] for f in frameworks() if path in f.parsers), [])
