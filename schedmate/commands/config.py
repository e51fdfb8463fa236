"""`schedmate config show`: every setting with the place it came from."""

from __future__ import annotations

from typing import Annotated

import typer

from schedmate.config import load_settings
from schedmate.console import err, out, print_json, safe

app = typer.Typer(no_args_is_help=True, help="Show the configuration.")


@app.callback()
def _config() -> None:
    """Show the configuration."""


@app.command()
def show(json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False) -> None:
    """Show every setting, its value and where the value came from.

    service.port, for example, is set by "[service] port = 9000" in a TOML file (--config FILE, or
    ~/.config/schedmate/config.toml), over it by SCHEDMATE_SERVICE_PORT=9000, and over that by --set service.port=9000.

    Example: schedmate --set service.port=9000 config show
    """
    from prompts.redaction import redact

    settings = load_settings()
    for warning in settings.warnings:
        err().print(f"warning: {safe(warning)}", soft_wrap=True)
    rows = [
        {
            "name": s.key.name,
            "value": ("set" if s.value else "")
            if s.key.secret
            else redact(s.value)
            if isinstance(s.value, str)
            else s.value,
            "source": s.source,
            "help": s.key.help,
        }
        for s in settings.by_name.values()
    ]
    if json_:
        print_json({"settings": rows})
        return
    from rich.table import Table

    table = Table("setting", "value", "from", "meaning", box=None, header_style="bold")
    for row in rows:
        table.add_row(*(safe(str(row[column])) for column in ("name", "value", "source", "help")))
    out().print(table)


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.add_typer(app, name="config")
