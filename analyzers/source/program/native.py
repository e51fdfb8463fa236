"""The signature of functions that the reader models itself, and the table they are registered in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.source.program.values import Const, Origin, Unknown, Val

if TYPE_CHECKING:
    from analyzers.source.program.machine import Machine


@dataclass(slots=True)
class Arguments:
    """What a modelled function is called with; ``owner`` is the object whose method it is."""

    machine: Machine
    args: list[Val]
    kwargs: dict[str, Val]
    origin: Origin
    path: str = ""
    owner: Val | None = None

    def get(self, position: int | None, *names: str) -> Val | None:
        """An argument by keyword, else by position."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.args[position] if position is not None and position < len(self.args) else None

    def text(self, position: int | None, *names: str) -> str | None:
        """A string argument, or None."""
        value = self.get(position, *names)
        return value.value if isinstance(value, Const) and isinstance(value.value, str) else None

    def unknown(self, why: str = "") -> Unknown:
        """An unknown result."""
        return Unknown(why or self.path, self.origin)


Handler = Callable[[Arguments], "Val | None"]

#: Modelled functions by dotted path. A handler returns None to let the call be recorded as any other.
HANDLERS: dict[str, Handler] = {}


def models(*paths: str) -> Callable[[Handler], Handler]:
    """Register a function as the model of library functions."""

    def register(handler: Handler) -> Handler:
        for path in paths:
            HANDLERS[path] = handler
        return handler

    return register
