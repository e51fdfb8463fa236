"""Bounds of a value that varies: what a schedule written out in arithmetic can reach."""

from __future__ import annotations

import math

from analyzers.source.program.values import Ext, Obj, Seq, Unknown, Val, number

Bounds = tuple[float, float]
ANYTHING: Bounds = (-math.inf, math.inf)
_DEPTH_MAX = 24
_CONSTANTS = {"math.pi": math.pi, "numpy.pi": math.pi, "math.e": math.e, "numpy.e": math.e}
#: Functions that go from their first argument to their second.
_BETWEEN = ("linspace", "geomspace")
_JOINED = ("concatenate", "hstack", "append", "array", "asarray", "stack", "cat", "list", "tuple")
_EXTREMES = ("maximum", "minimum", "max", "min", "clip")


def bounds(value: Val | None, depth: int = 0) -> Bounds:
    """The smallest and largest number that a value can be; infinite on a side that nothing bounds."""
    if value is None or depth > _DEPTH_MAX:
        return ANYTHING
    known = number(value)
    if known is not None:
        return (float(known), float(known))
    if isinstance(value, Ext):
        constant = _CONSTANTS.get(value.path)
        return ANYTHING if constant is None else (constant, constant)
    if isinstance(value, Seq):
        return ANYTHING if value.open else _hull([bounds(item, depth + 1) for item in value.items])
    if isinstance(value, Unknown):
        return _unknown(value, depth)
    if isinstance(value, Obj) and isinstance(value.cls, Ext):
        return _called(value, value.cls.path, depth)
    return ANYTHING


def _unknown(value: Unknown, depth: int) -> Bounds:
    detail = value.detail
    if detail[:1] == ("arithmetic",) and len(detail) == 4:
        left, right, operator = detail[1:]
        return _operation(str(operator), bounds(left, depth + 1), bounds(right, depth + 1))  # type: ignore[arg-type]
    return _hull([bounds(option, depth + 1) for option in value.options]) if value.options else ANYTHING


def _called(value: Obj, path: str, depth: int) -> Bounds:
    """What a numeric function gives; an item of an array lies within the array's bounds."""
    if path.endswith("[]"):
        path = path.removesuffix("[]")
    call = value.call
    if call is None or not path.startswith(("numpy.", "math.", "torch.", "jax.numpy.")):
        return ANYTHING
    name = path.rpartition(".")[2]
    if name in ("cos", "sin"):
        return (-1.0, 1.0)
    if name in _BETWEEN and len(call.args) >= 2:
        return _hull([bounds(argument, depth + 1) for argument in call.args[:2]])
    if name in ("minimum", "maximum", "clip") and len(call.args) >= 2:
        parts = [bounds(argument, depth + 1) for argument in call.args[:3]]
        if name == "clip":
            return (max(parts[0][0], parts[1][0]), min(parts[0][1], parts[-1][1])) if len(parts) == 3 else parts[0]
        pick = min if name == "minimum" else max
        return (pick(p[0] for p in parts), pick(p[1] for p in parts))
    if name in _JOINED:
        joined = call.args[0] if call.args else None
        if isinstance(joined, Seq):
            found = [bounds(item, depth + 1) for item in joined.items if not _empty(item)]
            return ANYTHING if joined.open else _hull(found)
        return bounds(joined, depth + 1)
    return ANYTHING


def _empty(value: Val) -> bool:
    first = value.call.args[0] if isinstance(value, Obj) and value.call is not None and value.call.args else value
    return isinstance(first, Seq) and not first.items and not first.open


def _hull(parts: list[Bounds]) -> Bounds:
    return (min(p[0] for p in parts), max(p[1] for p in parts)) if parts else ANYTHING


def _operation(operator: str, left: Bounds, right: Bounds) -> Bounds:
    if operator == "Add":
        return (left[0] + right[0], left[1] + right[1])
    if operator == "Sub":
        return (left[0] - right[1], left[1] - right[0])
    if operator == "Div" and right[0] == right[1] and right[0] not in (0.0, math.inf):
        operator, right = "Mult", (1 / right[0], 1 / right[0])
    if operator == "Mult":
        products = [_product(a, b) for a in left for b in right]
        return (min(products), max(products))
    return ANYTHING


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b
