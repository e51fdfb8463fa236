"""Single values of a cluster file: checked, in the core's units, and complained about with their place."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from prompts.errors import UserError

_SIZE_MIB = {"Mi": 1, "Gi": 1 << 10, "Ti": 1 << 20}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(Mi|Gi|Ti)")
_REPEATED = re.compile(r"(\d+)\s*[xX*]\s*(\d+)")
_MOST_MIB = 1 << 40
_LONGEST_SHOWN = 200
_MOST_BITS = 64


def shown(value: Any) -> str:
    """A value as an error shows it. Lists and mappings are only named: an alias may unfold them without end."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "out of range"
    plain = isinstance(value, str | int | float | None)
    return repr(value)[:_LONGEST_SHOWN] if plain else f"a {type(value).__name__}"


def mapping(where: str, value: Any, hint: str) -> Mapping[str, Any]:
    """A mapping with its keys as text."""
    if not isinstance(value, dict):
        raise UserError(f"{where} is not a mapping", hint)
    return {key if isinstance(key, str) else shown(key): each for key, each in value.items()}


def known(where: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Complain about the first unknown key."""
    names = list(allowed)
    for key in given:
        if key not in names:
            raise UserError(f"{where}: unknown key {shown(key)}", f"known: {', '.join(names)}")


def count(where: str, value: Any, most: int, least: int = 1) -> int:
    """A whole number; ``where`` ends in what it counts."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UserError(f"{where} is {shown(value)}", f"give a whole number from {least} to {most}")
    return value


def positive(where: str, value: Any) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UserError(f"{where} is {shown(value)}", "give a number above 0")
    return float(value)


def amount(where: str, value: Any) -> float:
    """A finite number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
        raise UserError(f"{where} is {shown(value)}", "give a number of GPUs, 0 or more")
    return float(value)


def yes_no(where: str, value: Any) -> bool:
    """``true`` or ``false``."""
    if not isinstance(value, bool):
        raise UserError(f"{where} is {shown(value)}", "write true or false")
    return value


def milli(where: str, value: Any) -> int:
    """Thousandths of a number of units: ``0.5`` is 500."""
    amount = positive(where, value)
    if amount > 1e9:
        raise UserError(f"{where} is {shown(value)}", "give a number below a thousand million")
    return max(1, round(amount * 1000))


def mib(where: str, value: Any) -> int:
    """``64Gi``, ``1.5Ti``, ``512Mi`` or a whole number of MiB."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    found = round(float(match[1]) * _SIZE_MIB[match[2]]) if match else value
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _MOST_MIB:
        raise UserError(f"{where} is {shown(value)}", "write for example 80Gi, 512Mi or a number of MiB")
    return found


def word(where: str, value: Any) -> str:
    """A single name."""
    name = value if isinstance(value, str) else shown(value)
    if isinstance(value, dict | list) or value is None or not name.strip():
        raise UserError(f"{where} is {shown(value)}", "give a name")
    return name


def words(where: str, value: Any) -> frozenset[str]:
    """``[a, b]`` or one name."""
    return frozenset(word(where, each) for each in (value if isinstance(value, list) else [value]))


def labels(where: str, value: Any) -> frozenset[tuple[str, str]]:
    """``{row: a, disk: nvme}``."""
    given = mapping(where, value, "write for example {row: a}")
    return frozenset((key, word(f"{where}: {key}", each)) for key, each in given.items())


def numbers(where: str, value: str, nodes: int) -> list[int]:
    """``3`` or ``0-3, 7``: numbers of nodes that there are."""
    found: list[int] = []
    for part in value.split(","):
        first, dash, last = (text.strip() for text in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first) > 9 or len(last) > 9:
            raise UserError(f"{where}: not numbers of nodes", "write for example `0-3, 7`")
        low, high = int(first), int(last or first)
        if low > high or high >= nodes:
            raise UserError(f"{where}: the pool has no nodes {part.strip()}", f"its nodes are 0 to {nodes - 1}")
        found.extend(range(low, high + 1))
    return found


def starts(where: str, sizes: list[Any], nodes: int) -> tuple[int, ...]:
    """``[12x32, 7]``, sizes of groups one after the other, as the number of the first node of each."""
    found, first = [], 0
    for size in sizes:
        match = _REPEATED.fullmatch(str(size).strip())
        times, length = (int(match[1]), int(match[2])) if match else (1, size)
        for _ in range(count(f"{where}: repetitions", times, nodes)):
            found.append(first)
            first += count(f"{where}: a size", length, nodes)
            if first > nodes:
                break
    if first != nodes:
        raise UserError(
            f"{where}: the sizes add up to {first}{'' if first < nodes else ' or more'}", f"there are {nodes} nodes"
        )
    return tuple(found)
