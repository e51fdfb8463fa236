"""Abstract values: what an expression is known to be, and where that is written."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyzers.types import How

if TYPE_CHECKING:
    from analyzers.source.program.events import Call
    from analyzers.source.program.native import Handler

Scalar = str | int | float | bool | bytes | None


#: Values that one which is not known may be said to have.
_OPTIONS_MAX = 8
#: Items of one sequence that are followed.
SEQUENCE_MAX = 10_000
#: Characters of a number that is written as text; Python itself refuses to convert thousands.
DIGITS_MAX = 40


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value is written; ``file`` is ``launch`` for the command line."""

    file: str = ""
    line: int = 0
    how: How = "literal"


@dataclass(slots=True, eq=False)
class Const:
    """A known scalar. ``assumed``: it rests on something likely but unproved, such as a GPU being there."""

    value: Scalar
    origin: Origin = Origin()
    assumed: bool = False


@dataclass(slots=True, eq=False)
class Scaled:
    """``coefficient`` x (number of data-parallel devices) ** ``power``, the number being known only to the machine."""

    coefficient: float
    power: int
    origin: Origin = Origin()


@dataclass(slots=True, eq=False)
class Seq:
    """A list, tuple or set. ``open``: there may be more items than are known."""

    items: list[Val]
    kind: str = "list"
    origin: Origin = Origin()
    open: bool = False


@dataclass(slots=True, eq=False)
class Map:
    """A dict or a namespace (``attr``: items are attributes too). ``reads`` counts the keys that were looked up."""

    items: dict[Any, Val]
    origin: Origin = Origin()
    attr: bool = False
    open: bool = False
    label: str = ""
    reads: set[Any] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Unknown:
    """Not known. ``options`` are values it may have; ``detail`` tells how it came about (a comparison, a modulus)."""

    why: str = ""
    origin: Origin = Origin()
    options: tuple[Val, ...] = ()
    detail: tuple[object, ...] = ()


@dataclass(slots=True, eq=False)
class Ext:
    """Something of a library that is not in the tree, by its dotted path."""

    path: str
    origin: Origin = Origin()


@dataclass(slots=True, eq=False)
class Obj:
    """An instance: of a class in the tree, or whatever a library call returned (then ``call`` is that call)."""

    cls: ClassVal | Ext
    attrs: dict[str, Val] = field(default_factory=dict)
    origin: Origin = Origin()
    call: Call | None = None


@dataclass(slots=True, eq=False)
class Bound:
    """A method of a library object or of an unknown value."""

    owner: Val
    name: str
    origin: Origin = Origin()


@dataclass(slots=True, eq=False)
class Func:
    """A function of the tree with the frame it closes over, bound to ``self_`` where it is a method."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: Frame
    name: str
    self_: Val | None = None
    owner: ClassVal | None = None
    origin: Origin = Origin()
    decorators: tuple[Val, ...] = ()


@dataclass(slots=True, eq=False)
class ClassVal:
    """A class of the tree."""

    name: str
    bases: list[Val]
    attrs: dict[str, Val]
    annotations: dict[str, ast.expr] = field(default_factory=dict)
    origin: Origin = Origin()
    dataclass: bool = False


@dataclass(slots=True, eq=False)
class Module:
    """A module of the tree with its names; ``stars`` are libraries it imported everything from."""

    name: str
    path: str
    names: dict[str, Val] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    lines: list[int] | None = None
    is_package: bool = False
    origin: Origin = Origin()


@dataclass(slots=True, eq=False)
class Native:
    """A function that the reader models itself."""

    name: str
    handler: Handler
    origin: Origin = Origin()


@dataclass(slots=True, eq=False)
class Partial:
    """``functools.partial``."""

    func: Val
    args: list[Val]
    kwargs: dict[str, Val]
    origin: Origin = Origin()


@dataclass(slots=True, eq=False)
class Range:
    """``range(start, stop, step)``."""

    start: Val
    stop: Val
    step: Val
    origin: Origin = Origin()


@dataclass(slots=True, eq=False)
class File:
    """An open file of the tree; ``text`` is None where it could not be read."""

    path: str
    text: str | None
    origin: Origin = Origin()


Val = (
    Const
    | Scaled
    | Seq
    | Map
    | Unknown
    | Ext
    | Obj
    | Bound
    | Func
    | ClassVal
    | Module
    | Native
    | Partial
    | Range
    | File
)


@dataclass(slots=True, eq=False)
class Frame:
    """Names of one function call or module body.

    ``yielded`` is what a generator gave; ``yields_more``: some of it in a loop or under an undecided condition, which
    ``depth`` (loops and guards around the call) tells.
    """

    module: Module
    names: dict[str, Val]
    parent: Frame | None = None
    function: str = ""
    global_names: set[str] = field(default_factory=set)
    self_: Val | None = None
    owner: ClassVal | None = None
    returned: list[Val] = field(default_factory=list)
    yielded: list[Val] = field(default_factory=list)
    yields_more: bool = False
    depth: tuple[int, int] = (0, 0)


NONE = Const(None)
#: Stands among the keywords of a call for those that ``**mapping`` gives and nobody has seen.
UNSEEN = "**"


def truth(value: Val) -> bool | None:
    """Whether a value is true, or None where that is not known."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Seq):
        return None if value.open else bool(value.items)  # what a condition put into a list may not be in it
    if isinstance(value, Map):
        return True if value.items or value.attr else (None if value.open else False)
    if isinstance(value, Scaled):
        return value.coefficient != 0
    if isinstance(value, Unknown | Bound | File):
        return None
    if isinstance(value, Range):
        return None
    if isinstance(value, Obj):
        # What a library call returned may be anything (is_available()); an object with a class is true.
        return True if isinstance(value.cls, ClassVal) or value.cls.path.rpartition(".")[2][:1].isupper() else None
    return None if isinstance(value, Ext) else True


def number(value: Val | None) -> float | int | None:
    """A value as a number (bools are not numbers here), or None."""
    if isinstance(value, Const) and isinstance(value.value, int | float) and not isinstance(value.value, bool):
        return value.value
    if isinstance(value, Scaled) and value.power == 0:
        return value.coefficient
    return None


def string(value: Val | None) -> str | None:
    """A value as a string, or None."""
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def same(a: Val, b: Val) -> bool:
    """Whether two values are known to be equal, without looking deep."""
    if a is b:
        return True
    if isinstance(a, Const) and isinstance(b, Const):
        return type(a.value) is type(b.value) and a.value == b.value
    if isinstance(a, Ext) and isinstance(b, Ext):
        return a.path == b.path
    if isinstance(a, Scaled) and isinstance(b, Scaled):
        return a.coefficient == b.coefficient and a.power == b.power
    return False


def merged(values: list[Val], origin: Origin) -> Val:
    """One value that stands for any of ``values``."""
    kept: list[Val] = []
    for value in values:
        for option in value.options if isinstance(value, Unknown) and value.options else (value,):
            if not any(same(option, k) for k in kept):
                kept.append(option)
        if len(kept) > _OPTIONS_MAX:
            break  # more are not told apart, and comparing all with all takes time that grows with their square
    if len(kept) == 1:
        return kept[0]
    return Unknown("depends on a condition", origin, tuple(kept[:_OPTIONS_MAX]))
