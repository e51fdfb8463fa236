"""What the reader met on its walk: calls into libraries, loops, and the conditions they stood under."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from analyzers.source.program.values import Origin, Unknown, Val


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """An undecided condition that something stands under; ``negated`` in its else branch."""

    value: Unknown
    test: ast.expr | None
    negated: bool = False


@dataclass(slots=True, eq=False)
class Loop:
    """One loop as met. ``trip`` is how often it runs (None: no bound seen); ``breaks`` the guards of its breaks.

    ``limits`` are comparisons with a known number that keep a ``while`` going.
    """

    origin: Origin
    kind: str
    iterable: Val | None
    trip: Val | None
    breaks: list[tuple[Guard, ...]] = field(default_factory=list)
    function: str = ""
    limits: list[tuple[str, Val]] = field(default_factory=list)
    target: str = ""
    guard_depth: int = 0


@dataclass(slots=True, eq=False)
class Call:
    """A call into a library, or of something unknown (then ``path`` starts with ``?``).

    ``open``: it has keywords that nobody has seen (``**mapping``), so that what is not given may be given.
    ``callers`` are the functions it was made in, innermost first (for instances of the tree's classes only).
    """

    path: str
    args: list[Val]
    kwargs: dict[str, Val]
    origin: Origin
    guards: tuple[Guard, ...] = ()
    loops: tuple[Loop, ...] = ()
    receiver: Val | None = None
    result: Val | None = None
    function: str = ""
    contexts: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    open: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    def argument(self, position: int | None, *names: str) -> Val | None:
        """An argument by keyword, else by position."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.args[position] if position is not None and position < len(self.args) else None


@dataclass(slots=True)
class Record:
    """Everything one walk met."""

    calls: list[Call] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    imports: dict[str, Origin] = field(default_factory=dict)
    unresolved: set[str] = field(default_factory=set)
    settings: list[tuple[str, Val]] = field(default_factory=list)
    complete: bool = True

    def named(self, *names: str) -> list[Call]:
        """Calls whose last path part is one of ``names``."""
        return [call for call in self.calls if call.name in names]
