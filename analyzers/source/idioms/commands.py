"""Programs of public frameworks: their command line as the configuration that they run with."""

from __future__ import annotations

import posixpath
import re

from analyzers.source.files import normal
from analyzers.source.knowledge.frameworks import Framework, KnownCommand, known_command
from analyzers.source.launch.words import Word
from analyzers.source.library.configs import (
    as_value,
    config_value,
    merge_into,
    override_value,
    readable,
    set_path,
)
from analyzers.source.library.hydra import compose
from analyzers.source.program.values import Const, Map, Origin, Seq, Unknown, Val
from analyzers.source.reading import Reading, as_text


def command_configuration(reading: Reading) -> tuple[Framework, KnownCommand, Map] | None:
    """The framework's program that the launch starts, with what it is told; None where it is none of those known."""
    launch = reading.launch
    found = known_command(launch.program, [word.text for word in launch.arguments])
    if found is None:
        return None
    framework, command, used = found
    words = list(launch.arguments)[used:]
    given = _READERS[command.words](reading, command, words)
    config = Map({}, Origin("launch", 1), attr=True)
    if not given.open:  # a word that is not known may set anything
        defaults = as_value(command.defaults, Origin("launch", 1, "default"), attr=True)
        assert isinstance(defaults, Map)
        merge_into(config, defaults)
    merge_into(config, given)
    return framework, command, config


def _value(text: str, word: Word) -> Val:
    origin = Origin(word.file, word.line, "override")
    return override_value(text, origin) if word.known else Unknown("launch", origin)


def _options(reading: Reading, command: KnownCommand, words: list[Word]) -> Map:
    """``--name value``, ``--flag``, ``--list a b``, ``-s value``, and words by their position."""
    result = Map({}, Origin("launch", 1), attr=True)
    positionals: list[Val] = []
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        pair = re.fullmatch(r"([A-Za-z_][\w.]*)=(.*)", word.text, re.DOTALL)
        if pair:
            set_path(result, pair[1].split("."), _value(pair[2], word))
            continue
        if not word.text.startswith("-") or len(word.text) < 2:
            positionals.append(_value(word.text, word))
            result.open = result.open or not word.known
            continue
        written, equals, value = word.text.partition("=")
        name = command.short.get(written, written.lstrip("-")).replace("-", "_")
        if equals:
            set_path(result, name.split("."), _value(value, word))
        elif name in command.flags:
            result.items[name] = Const(True, Origin(word.file, word.line, "override"))
        elif name in command.lists:
            taken: list[Val] = []
            while i < len(words) and not words[i].text.startswith("--"):
                taken.append(_value(words[i].text, words[i]))
                i += 1
            result.items[name] = Seq(taken, "list", Origin(word.file, word.line))
        elif i < len(words) and not words[i].text.startswith("--"):
            set_path(result, name.split("."), _value(words[i].text, words[i]))
            i += 1
        else:
            result.items[name] = Const(True, Origin(word.file, word.line, "override"))
    for name, given in zip(command.positionals, positionals, strict=False):
        result.items[name] = given
    return _under_file(reading, command, result)


def _pairs(reading: Reading, command: KnownCommand, words: list[Word]) -> Map:
    """``name=value``; what is no pair stands under ``words``."""
    result = Map({}, Origin("launch", 1), attr=True)
    bare: list[Val] = []
    for word in words:
        name, equals, value = word.text.lstrip("-").partition("=")
        if equals:
            set_path(result, name.lstrip("+").split("."), _value(value, word))
        else:
            bare.append(_value(word.text, word))
            result.open = result.open or not word.known
    result.items["words"] = Seq(bare, "list", Origin("launch", 1))
    return _under_file(reading, command, result)


def _under_file(reading: Reading, command: KnownCommand, given: Map) -> Map:
    """What is given, over the configuration file that is named; one that can not be read leaves all else open."""
    written = given.items.get(command.config_option) if command.config_option else None
    if written is None:
        return given
    if isinstance(written, Seq):  # the first word that is no pair
        if not written.items:
            return given
        written = written.items[0]
    text = as_text(written) or ""
    named = (text, *(f"{folder}/{text}.yaml" for folder in command.config_folders))
    path = next((p for name in named if text and (p := readable(reading.machine, name)) is not None), None)
    loaded = config_value(reading.machine, path, attr=True) if path is not None else None
    if not isinstance(loaded, Map):
        given.open = True
        return given
    merge_into(loaded, given)
    return loaded


def _hydra(reading: Reading, command: KnownCommand, words: list[Word]) -> Map:
    """A Hydra program: ``--config-dir``, ``--config-name`` and overrides."""
    folder, name = "", ""
    values: list[Val] = []
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        option, equals, value = word.text.partition("=")
        if option in ("--config-dir", "-cd", "--config-path", "-cp", "--config-name", "-cn"):
            if not equals and i < len(words):
                value, i = words[i].text, i + 1
            if option in ("--config-name", "-cn"):
                name = value
            else:
                folder = value
            continue
        origin = Origin(word.file, word.line, "override")
        values.append(Const(word.text, origin) if word.known else Unknown("launch", origin))
    # Both a sweep (-m) and a single run read the same files; what a sweep varies is left open by the composition.
    place = normal(posixpath.join(reading.launch.cwd, folder))
    found = any(
        reading.machine.tree.is_file(normal(posixpath.join(place, name + ending))) for ending in ("", ".yaml", ".yml")
    )
    result = compose(reading.machine, place, name, values) if name else Map({}, Origin("launch", 1), attr=True)
    result.open = result.open or not found or any(isinstance(v, Unknown) for v in values)
    return result


_READERS = {"options": _options, "pairs": _pairs, "hydra": _hydra}
