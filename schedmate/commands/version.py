"""`schedmate version`."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from schedmate.console import print_json


def version(
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Print the version.

    Example: schedmate version
    """
    number = installed_version("schedmate")
    if json_:
        print_json({"version": number})
    else:
        typer.echo(f"schedmate {number}")


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(version)
