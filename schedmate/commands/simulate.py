"""`schedmate simulate`."""

from __future__ import annotations

import typer


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
