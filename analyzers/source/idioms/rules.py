"""The rules by which a framework's description reads a configuration: paths, conditions, texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from operator import add, mul, truediv
from typing import Any

from analyzers.source.program.attributes import class_attribute
from analyzers.source.program.events import Call
from analyzers.source.program.values import ClassVal, Const, Ext, Func, Map, Obj, Origin, Scaled, Seq, Unknown, Val
from analyzers.source.reading import class_name
from analyzers.types import JsonValue

SURE = 0.88
#: What a rule may do with the number under its key and those under others.
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {"times": mul, "over": truediv, "plus": add}


class UndecidedError(Exception):
    """Something that a rule asks for can not be known."""


def first_that_holds(
    alternatives: list[dict[str, Any]], config: Map, call: Call | None, origin: Origin
) -> tuple[JsonValue, Origin, float] | None:
    """What the first alternative that holds says, where, and how sure. Raises `UndecidedError`."""
    for alternative in alternatives:
        place = _holds(alternative.get("when", {}), config, call, origin)
        if place is None:
            continue
        if alternative.get("open"):
            raise UndecidedError
        sure = float(alternative.get("sure", SURE))
        if "key" in alternative:
            keys = alternative["key"] if isinstance(alternative["key"], list) else [alternative["key"]]
            for key in keys:
                held = value_at(config, key)
                found = _counted(held) if alternative.get("count") else _plain(held)
                if found is None or (alternative.get("positive") and not _positive(found[0])):
                    continue
                value: JsonValue = found[0]
                if "match" in alternative:
                    value = _matched(alternative["match"], value)
                if "map" in alternative:
                    value = _mapped(alternative["map"], value)
                if value is None:
                    continue
                for name, combine in _ARITHMETIC.items():
                    if name in alternative:
                        value = _combined(value, combine, alternative[name], config)
                return value, _place(found[1], origin), sure
        elif "text" in alternative:
            text, place = _text(alternative["text"], config)
            if text:
                return text, _place(place, origin), sure
        elif "value" in alternative:
            return alternative["value"], place, sure
    return None


def _place(place: Origin, call: Origin) -> Origin:
    """Where a value is written; a default is not, and stands for the call that leaves it."""
    return place if place.file else replace(call, how=place.how)


def _combined(
    value: JsonValue, combine: Callable[[float, float], float], keys: str | int | list[str | int], config: Map
) -> JsonValue:
    for key in keys if isinstance(keys, list) else [keys]:
        other = key if isinstance(key, int) else (_plain(value_at(config, key)) or (None,))[0]
        if not isinstance(value, int | float) or not isinstance(other, int | float):
            raise UndecidedError
        try:
            value = combine(value, other)
        except ArithmeticError as error:
            raise UndecidedError from error
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _matched(pattern: str, value: JsonValue) -> JsonValue:
    """The part of a text that is the first group: a number (``10ep``), or a text."""
    found = re.search(pattern, str(value))
    if found is None:
        return None
    try:
        number = float(found.group(1))
    except ValueError:
        return found.group(1)
    return int(number) if number.is_integer() else number


def _counted(value: Val | None) -> tuple[JsonValue, Origin] | None:
    """How many a list has, or a text with commas."""
    if isinstance(value, Seq) and not value.open:
        return len(value.items), value.origin
    found = _plain(value)
    return (str(found[0]).strip(" ,[]").count(",") + 1, found[1]) if found is not None else None


def _positive(value: JsonValue) -> bool:
    return isinstance(value, int | float) and value > 0


def _mapped(table: dict[str, JsonValue], value: JsonValue) -> JsonValue:
    text = str(value).lower()
    for raw, result in table.items():
        mark = str(raw).lower()
        if text == mark or (mark.startswith("~") and re.search(mark[1:], text)):
            return result
    return None


def _holds(conditions: dict[str, Any], config: Map, call: Call | None, origin: Origin) -> Origin | None:
    """Where the first condition is met (``origin`` where that is written nowhere), if all are; else None."""
    met: Origin | None = None
    for key, wanted in conditions.items():
        if key == "overrides":  # methods that the job's own class would have to replace
            if any(_replaces(call, name) for name in wanted):
                return None
            continue
        options = wanted if isinstance(wanted, list) else [wanted]
        values = value_at(config, key)
        if "present" in options and values is not None:
            continue
        parts = values.items if isinstance(values, Seq) and "[" in key else [values]
        plain = [found for part in parts if (found := _plain(part)) is not None]
        if not any(_fits([value for value, _ in plain], option) for option in options):
            return None
        met = met or next((place for _, place in plain if place.file), None)
    return met or origin


def _fits(values: list[JsonValue], option: object) -> bool:
    if option == "set":
        return bool(values)
    if option == "unset":
        return not values
    if option == "positive":
        return any(_positive(v) for v in values)
    if option == "falsy":
        return not any(values)
    if option == "truthy":
        return any(values)
    text = str(option).lower()
    if text.startswith("~"):
        return any(re.search(text[1:], str(v).lower()) for v in values)
    return any(str(v).lower() == text for v in values)


def _replaces(call: Call | None, name: str) -> bool:
    receiver = call.receiver if call is not None else None
    cls = receiver.cls if isinstance(receiver, Obj) else receiver
    return isinstance(cls, ClassVal) and class_attribute(cls, name) is not None


def _text(template: str, config: Map) -> tuple[str, Origin]:
    place = Origin()
    missing = False

    def put(match: re.Match[str]) -> str:
        nonlocal place, missing
        for key in match.group(1).rstrip("?").split("|"):
            found = _plain(value_at(config, key))
            if found is not None:
                place = place if place.file else found[1]
                return str(found[0])
        missing = missing or not match.group(1).endswith("?")
        return ""

    text = re.sub(r"\{([^}]*)\}", put, template).strip()
    return ("" if missing else text), place


def value_at(config: Val, path: str) -> Val | None:
    """What stands under a path such as ``a.b[type=X].c`` or ``hooks[].type``; None where there is nothing.

    Raises `UndecidedError` where it can not be known.
    """
    value: Val | None = config
    is_open = False
    for part in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        if value is None or (isinstance(value, Const) and value.value is None):
            return None
        is_open = is_open or (isinstance(value, Map) and value.open)
        if part.startswith("["):
            value = _among(value, part[1:-1])
        elif isinstance(value, Seq) and not part.isdigit():
            inner = [i.items.get(part) for i in value.items if isinstance(i, Map)]
            value = Seq([v for v in inner if v is not None], "list", value.origin, value.open)
        else:
            value = _member(value, part)
            if value is None and is_open:
                raise UndecidedError
    if isinstance(value, Unknown):
        raise UndecidedError
    return value


def _member(value: Val, name: str) -> Val | None:
    if isinstance(value, Map):
        found = value.items.get(name)
        if found is None and name.isdigit():
            found = value.items.get(int(name))
        return found
    if isinstance(value, Seq) and name.isdigit():
        return value.items[int(name)] if int(name) < len(value.items) else None
    if isinstance(value, Obj) and value.call is not None:
        return value.call.argument(int(name) if name.isdigit() else None, name)
    if isinstance(value, Unknown):
        raise UndecidedError
    return None


def _among(value: Val, wanted: str) -> Val | None:
    """``[]``: all of a list; ``[key=text]``: the first of its nodes of which this is true."""
    if isinstance(value, Unknown) or (isinstance(value, Seq) and value.open):
        raise UndecidedError
    if not isinstance(value, Seq):
        return None
    if not wanted:
        return value
    key, _, text = wanted.partition("=")
    for item in value.items:
        if isinstance(item, Map):
            found = _plain(item.items.get(key))
            if found is not None and re.fullmatch(text, str(found[0])):
                return item
    return None


def _plain(value: Val | None) -> tuple[JsonValue, Origin] | None:
    """A value as JSON with its place: classes and their instances by name, a list by its first item.

    Raises `UndecidedError` for what a function gave back.
    """
    if isinstance(value, Const):
        if isinstance(value.value, str) and "${" in value.value:
            raise UndecidedError  # stands for something else
        return None if value.value is None or isinstance(value.value, bytes) else (value.value, value.origin)
    if isinstance(value, Ext):
        return value.path.rpartition(".")[2], value.origin
    if isinstance(value, ClassVal | Func):
        return value.name, value.origin
    if isinstance(value, Seq):
        return _plain(value.items[0]) if value.items else None
    if isinstance(value, Obj):
        name = class_name(value) or ""
        if not name[:1].isupper():
            raise UndecidedError
        return name, value.origin
    if isinstance(value, Map):
        return (True, value.origin) if value.items else None
    if isinstance(value, Unknown | Scaled):
        raise UndecidedError
    return None
