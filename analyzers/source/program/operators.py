"""Operators on abstract values, with bounds on what is computed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from analyzers.source.program.values import (
    SEQUENCE_MAX,
    ClassVal,
    Const,
    Ext,
    Func,
    Map,
    Obj,
    Origin,
    Scaled,
    Seq,
    Unknown,
    Val,
    number,
    truth,
)

NUMBER_MAX = 1e30
#: Whole numbers of more bits are nothing that a job counts; Python does not even print them.
NUMBER_BITS_MAX = 128
TEXT_MAX = 10_000

_NUMERIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
}  # fmt: skip


def binary(op: ast.operator, left: Val, right: Val, origin: Origin) -> Val:
    """``left op right``."""
    if isinstance(left, Const) and isinstance(right, Const):
        return _constants(op, left, right, origin)
    if isinstance(left, Scaled) or isinstance(right, Scaled):
        return _scaled(op, left, right, origin)
    joins = isinstance(op, ast.Add) or (isinstance(op, ast.BitOr) and isinstance(left, Seq) and left.kind == "set")
    if joins and isinstance(left, Seq) and isinstance(right, Seq):
        if len(left.items) + len(right.items) > SEQUENCE_MAX:
            return Unknown("too long", origin)
        return Seq(left.items + right.items, left.kind, origin, left.open or right.open)
    if isinstance(op, ast.Mult) and isinstance(left, Seq) and isinstance(right, Const) and isinstance(right.value, int):
        if len(left.items) * max(right.value, 0) > SEQUENCE_MAX:
            return Unknown("too long", origin)
        return Seq(left.items * right.value, left.kind, origin, left.open)
    if isinstance(op, ast.BitOr) and isinstance(left, Map) and isinstance(right, Map):
        return Map({**left.items, **right.items}, origin, open=left.open or right.open)
    if isinstance(op, ast.Mod) and (isinstance(right, Const) or not isinstance(left, Const)):
        return Unknown("remainder", origin, detail=("mod", right, left))
    if isinstance(op, ast.Div) and isinstance(left, Obj) and isinstance(left.cls, Ext):
        numeric = left.cls.path.startswith(("numpy.", "math."))
        if not numeric:  # a path or a tensor: loss / accumulation stays the loss
            return left
    return Unknown("arithmetic", origin, detail=("arithmetic", left, right, type(op).__name__))


def _constants(op: ast.operator, left: Const, right: Const, origin: Origin) -> Val:
    a, b = left.value, right.value
    how = "override" if "override" in (left.origin.how, right.origin.how) else "computed"
    # A constant that was computed points at the operand that is least fixed: an override, else the left one.
    source = right.origin if right.origin.how == "override" and left.origin.how != "override" else left.origin
    place = Origin(
        source.file or origin.file, source.line or origin.line, "computed" if how == "computed" else "override"
    )
    assumed = left.assumed or right.assumed
    try:
        if isinstance(a, str) or isinstance(b, str) or isinstance(a, bytes) or isinstance(b, bytes):
            return _texts(op, a, b, place, assumed, origin)
        if a is None or b is None:
            return Unknown("arithmetic on None", origin)
        if isinstance(op, ast.Pow):
            if abs(b) > 64 or abs(a) > 1e6:
                return Unknown("power", origin)
            result: object = a**b
        else:
            if isinstance(op, ast.LShift) and not 0 <= b <= 62:
                return Unknown("shift", origin)
            result = _NUMERIC[type(op)](a, b)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, KeyError, MemoryError):
        return Unknown("arithmetic", origin)
    if isinstance(result, int | float) and abs(result) <= NUMBER_MAX:
        return Const(result, place, assumed)
    return Unknown("too large", origin)


def _texts(op: ast.operator, a: object, b: object, place: Origin, assumed: bool, origin: Origin) -> Val:
    if isinstance(op, ast.Add) and isinstance(a, str) and isinstance(b, str) and len(a) + len(b) <= TEXT_MAX:
        return Const(a + b, place, assumed)
    if isinstance(op, ast.Mod) and isinstance(a, str) and isinstance(b, str | int | float) and _plain_format(a):
        return Const((a % b)[:TEXT_MAX], place, assumed)
    if isinstance(op, ast.Div) and isinstance(a, str) and isinstance(b, str):
        return Const(f"{a}/{b}"[:TEXT_MAX], place, assumed)  # pathlib
    return Unknown("text", origin)


def _plain_format(text: str) -> bool:
    """One ``%s`` or ``%d`` without a width (a width could ask for any amount of memory)."""
    return text.count("%") == 1 and text.partition("%")[2][:1] in ("s", "d", "f", "i")


def _scaled(op: ast.operator, left: Val, right: Val, origin: Origin) -> Val:
    a = left if isinstance(left, Scaled) else (Scaled(float(v), 0) if (v := number(left)) is not None else None)
    b = right if isinstance(right, Scaled) else (Scaled(float(w), 0) if (w := number(right)) is not None else None)
    if a is not None and b is not None:
        if isinstance(op, ast.Mult):
            return simplified(a.coefficient * b.coefficient, a.power + b.power, origin)
        if isinstance(op, ast.Div | ast.FloorDiv) and b.coefficient:
            return simplified(a.coefficient / b.coefficient, a.power - b.power, origin)
    if isinstance(op, ast.Mod):
        return Unknown("remainder", origin, detail=("mod", right, left))
    return Unknown("depends on the number of devices", origin)


def simplified(coefficient: float, power: int, origin: Origin) -> Val:
    """A Scaled value, or the plain number once the device count has cancelled out."""
    if power == 0:
        value: int | float = int(coefficient) if coefficient == int(coefficient) else coefficient
        return Const(value, Origin(origin.file, origin.line, "computed"))
    return Scaled(coefficient, power, Origin(origin.file, origin.line, "computed"))


def unary(op: ast.unaryop, operand: Val, origin: Origin) -> Val:
    """``-x``, ``+x``, ``~x``."""
    if isinstance(operand, Const) and isinstance(operand.value, int | float):
        if isinstance(op, ast.USub):
            return Const(-operand.value, operand.origin, operand.assumed)
        if isinstance(op, ast.UAdd):
            return operand
    return Unknown("arithmetic", origin)


def negate(operand: Val, origin: Origin) -> Val:
    """``not x``."""
    known = truth(operand)
    if known is None:
        return Unknown("negated", origin, detail=("not", operand))
    return Const(not known, origin, isinstance(operand, Const) and operand.assumed)


def compare(op: ast.cmpop, left: Val, right: Val, origin: Origin) -> Val:
    """``left op right`` for one comparison."""
    answer = _identity(op, left, right)
    if answer is None and isinstance(op, ast.In | ast.NotIn):
        answer = _membership(left, right)
        if answer is not None and isinstance(op, ast.NotIn):
            answer = not answer
    if answer is None and isinstance(left, Const) and isinstance(right, Const):
        answer = _constants_compare(op, left.value, right.value)
    if answer is None:
        return Unknown("comparison", origin, detail=("compare", type(op).__name__, left, right))
    assumed = any(isinstance(v, Const) and v.assumed for v in (left, right))
    return Const(answer, origin, assumed)


def _identity(op: ast.cmpop, left: Val, right: Val) -> bool | None:
    if not isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        return None
    positive = isinstance(op, ast.Is | ast.Eq)
    for a, b in ((left, right), (right, left)):
        if isinstance(b, Const) and b.value is None and isinstance(a, Obj | Seq | Map | Func | ClassVal | Scaled):
            if isinstance(a, Obj) and truth(a) is None:
                return None
            return not positive
    if isinstance(left, Ext) and isinstance(right, Ext):
        return (left.path == right.path) == positive
    if left is right and isinstance(left, Obj | Func | ClassVal):
        return positive
    return None


def _membership(left: Val, right: Val) -> bool | None:
    if not isinstance(left, Const):
        return None
    if isinstance(right, Const) and isinstance(right.value, str) and isinstance(left.value, str):
        return left.value in right.value
    if isinstance(right, Map):
        return True if left.value in right.items else (None if right.open else False)
    if isinstance(right, Seq):
        values = [i.value for i in right.items if isinstance(i, Const)]
        if left.value in values:
            return True
        return False if len(values) == len(right.items) and not right.open else None
    return None


def _constants_compare(op: ast.cmpop, a: Any, b: Any) -> bool | None:
    try:
        if isinstance(op, ast.Eq | ast.Is):
            return bool(a == b)
        if isinstance(op, ast.NotEq | ast.IsNot):
            return bool(a != b)
        if isinstance(op, ast.Lt):
            return bool(a < b)
        if isinstance(op, ast.LtE):
            return bool(a <= b)
        if isinstance(op, ast.Gt):
            return bool(a > b)
        if isinstance(op, ast.GtE):
            return bool(a >= b)
    except TypeError:
        pass
    return None
