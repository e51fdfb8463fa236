"""Data classes to JSON and back, strictly: what is written is what is declared, and nothing else is read.

Fields at their default are left out, so lines stay short and an older reader's files stay readable when a field is
added. Infinite numbers are written as the strings ``"inf"`` and ``"-inf"``; functions by their name in a register.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from schedmate.scheduler.demand import Demand
from schedmate.scheduler.policies import FUNCTIONS

_NUMBERS = {"inf": math.inf, "-inf": -math.inf}


def to_json(value: Any) -> Any:
    """A value of the scheduler's types as JSON. ``TypeError`` for what can not be written."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            raise TypeError("not a number can not be written")
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Demand):
        return {key: to_json(each) for key, each in value.asked().items()}
    if is_dataclass(value):
        return {f.name: to_json(mine) for f in fields(value) if (mine := getattr(value, f.name)) != _default(f)}
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    if isinstance(value, frozenset):
        return sorted(to_json(each) for each in value)
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    name = getattr(value, "__name__", "")
    if name in FUNCTIONS and FUNCTIONS[name] is value:
        return name
    raise TypeError(f"{value!r} can not be written as data")


def _default(field: Any) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def from_json(kind: Any, value: Any, where: str) -> Any:
    """A value of type ``kind`` from JSON. ``ValueError`` that names the place for anything that does not fit."""
    if is_dataclass(kind):
        return _data(kind, value, where)
    if kind is Demand:
        return _demand(value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        if not isinstance(value, str) or value not in kind.__members__:
            raise ValueError(f"{where}: {value!r} is none of {', '.join(kind.__members__)}")
        return kind[value]
    if kind in (bool, int, str, NoneType):
        if type(value) is not kind:
            raise ValueError(f"{where}: {value!r} is not {'nothing' if kind is NoneType else f'a {kind.__name__}'}")
        return value
    if kind is float:
        return _number(value, where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _any_of(inner, value, where)
    if origin is tuple:
        return _tuple(inner, value, where)
    if origin is frozenset:
        return frozenset(from_json(inner[0], each, where) for each in _list(value, where))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        given = _mapping(value, where)
        return MappingProxyType({key: from_json(inner[1], each, f"{where}: {key}") for key, each in given.items()})
    if origin is not None and issubclass(origin, Callable):  # type: ignore[arg-type]
        if not isinstance(value, str) or value not in FUNCTIONS:
            raise ValueError(f"{where}: {value!r} is none of {', '.join(FUNCTIONS)}")
        return FUNCTIONS[value]
    raise TypeError(f"{where}: nothing is known of {kind}")


@lru_cache(maxsize=256)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _data(kind: Any, value: Any, where: str) -> Any:
    given, hints = _mapping(value, where), _hints(kind)
    names = [field.name for field in fields(kind)]
    if unknown := sorted(set(given) - set(names)):
        raise ValueError(f"{where}: {kind.__name__} has no {unknown[0]!r}")
    found = {name: from_json(hints[name], given[name], f"{where}: {name}") for name in names if name in given}
    try:
        return kind(**found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _demand(value: Any, where: str) -> Demand:
    given, kinds = _mapping(value, where), Demand.asked_kinds()
    if unknown := sorted(set(given) - set(kinds)):
        raise ValueError(f"{where}: a demand has no {unknown[0]!r}")
    found = {key: from_json(kinds[key], each, f"{where}: {key}") for key, each in given.items()}
    try:
        return Demand.of(**found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _any_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    rest = [kind for kind in kinds if kind is not NoneType]
    for kind in rest[:-1]:
        try:
            return from_json(kind, value, where)
        except ValueError:
            continue
    return from_json(rest[-1], value, where)


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    given = _list(value, where)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(from_json(kinds[0], each, f"{where}, {i}") for i, each in enumerate(given))
    if len(given) != len(kinds):
        raise ValueError(f"{where}: {len(given)} values instead of {len(kinds)}")
    pairs = enumerate(zip(kinds, given, strict=True))
    return tuple(from_json(kind, each, f"{where}, {i}") for i, (kind, each) in pairs)


def _number(value: Any, where: str) -> float:
    if isinstance(value, str) and value in _NUMBERS:
        return _NUMBERS[value]
    # not math.isfinite: of a whole number that no float can hold it is no ValueError
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{where}: {value!r} is not a number")
    return value  # whole numbers stay what they were, so that what is written again is the same text


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where}: {value!r} is not a list")
    return value


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: {value!r} is not an object")
    return value
