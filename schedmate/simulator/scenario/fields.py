"""Single values of a scenario file: checked, converted to the core's units, and complained about by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from prompts.errors import UserError
from schedmate.durations import parse_duration

T = TypeVar("T")
_SIZE_MIB = {"Mi": 1, "Gi": 1 << 10, "Ti": 1 << 20}


def mapping(where: str, value: Any) -> Mapping[str, Any]:
    """A mapping with text keys, possibly empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"{where} is not a mapping", "write `name: value` pairs")
    return {str(key): each for key, each in value.items()}


def sequence(where: str, value: Any) -> list[Any]:
    """A list; a single value stands for a list of one."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def known(where: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Complain about the first unknown key."""
    allowed = sorted(allowed)
    for key in given:
        if key not in allowed:
            raise UserError(f"{where}: unknown key {key!r}", f"known: {', '.join(allowed)}")


def seconds(where: str, value: Any) -> float:
    """``90``, ``"2h"``, ``1h30m``."""
    if isinstance(value, bool) or value is None:
        raise UserError(f"{where}: {value!r} is not a length of time", "write seconds, 1h30m or 2d")
    if isinstance(value, int | float):
        return float(value)
    return parse_duration(str(value), where)


def count(where: str, value: Any) -> int:
    """A whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UserError(f"{where}: {value!r} is not a whole number from 0", "")
    return value


def mib(where: str, value: Any) -> int:
    """``64Gi``, ``512Mi`` or a number of MiB."""
    text = str(value)
    if text[-2:] in _SIZE_MIB and text[:-2].isdigit():
        return int(text[:-2]) * _SIZE_MIB[text[-2:]]
    return count(where, value)


def milli(where: str, value: Any) -> int:
    """Thousandths of what is written as a number of units: ``0.5`` is 500."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise UserError(f"{where}: {value!r} is not an amount", "write for example 0.5")
    return round(value * 1000)


def yes_no(where: str, value: Any) -> bool:
    """``true`` or ``false``."""
    if not isinstance(value, bool):
        raise UserError(f"{where}: {value!r} is neither true nor false", "")
    return value


def text(where: str, value: Any) -> str:
    """A word."""
    if value is None or isinstance(value, dict | list):
        raise UserError(f"{where}: a word is expected", "")
    return str(value)


def numbers(where: str, value: Any) -> frozenset[int]:
    """``3``, ``[0, 2]`` or ``0-3, 7``."""
    found: set[int] = set()
    for part in value if isinstance(value, list) else str(value).split(","):
        first, _, last = str(part).strip().partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            raise UserError(f"{where}: {value!r} does not name numbers", "write for example 0-3, 7")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def converted(
    where: str, given: Mapping[str, Any], table: Mapping[str, tuple[str, Callable[[str, Any], Any]]]
) -> dict[str, Any]:
    """The values of ``given`` by the name and with the converter that ``table`` has for the key."""
    known(where, given, table)
    return {table[key][0]: table[key][1](f"{where}: {key}", value) for key, value in given.items()}


def named(where: str, value: Any, make: Callable[[str, Any], T]) -> dict[str, T]:
    """``[a, b]`` or ``{a: ..., b: ...}`` as a mapping from name to what ``make`` reads."""
    if isinstance(value, list):
        return {text(where, each): make(f"{where}: {each}", None) for each in value}
    return {name: make(f"{where}: {name}", each) for name, each in mapping(where, value).items()}
