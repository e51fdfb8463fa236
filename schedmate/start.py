"""The first code that runs: checks that every room is our own, then hands over to the command line.

The rooms have generic names (`prompts`, `analyzers`, ...). If one of them were found somewhere else than beside
this file, SchedMate would run somebody else's code; it refuses instead. Standard library only.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

ROOMS = ("prompts", "analyzers", "predictors", "schedmate", "integrations")


def foreign_rooms() -> list[str]:
    """Rooms that would be imported from elsewhere than this installation, as ``name (where)``."""
    home = Path(__file__).resolve().parent.parent
    foreign = []
    for room in ROOMS:
        spec = importlib.util.find_spec(room)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None or origin.parent != home / room:
            foreign.append(f"{room} ({origin.parent if origin else 'not found'})")
    return foreign


def _open_streams() -> None:
    """Where we were started with a standard stream closed, put the null device there: else the next file that is
    opened takes its number, and what is printed would go into that file."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for good


def main() -> None:
    """Entry of the `schedmate` launcher."""
    _open_streams()
    foreign = foreign_rooms()
    if foreign:
        print(  # noqa: T201
            f"schedmate: refusing to start: {', '.join(foreign)} is not part of this installation; "
            "install SchedMate in a virtual environment of its own (pipx install schedmate)",
            file=sys.stderr,
        )
        raise SystemExit(2)
    from schedmate.cli import run

    run()
