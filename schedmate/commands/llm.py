"""`schedmate llm`: what the configured language model can do, whether it is worth it, and what it has cost."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.commands import llm_eval
from schedmate.console import out, print_json, safe

app = typer.Typer(no_args_is_help=True, help="Look at the configured language model.")
_NONE_HINT = "set llm.provider, for example --set llm.provider=openai --set llm.base_url=URL --set llm.model=NAME"
_WORD = "backfill"

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@app.callback()
def _llm() -> None:
    """Look at the configured language model."""


@app.command()
def check(json_: Json = False) -> None:
    """Ask the configured model for a small answer in each of the ways that are known, and say which work.

    A schema is the best of them, then JSON mode, then a prompt that asks for JSON. One that works is enough. Exit code
    1 if none does.

    Example: schedmate --set llm.provider=openai --set llm.base_url=http://127.0.0.1:8000/v1 --set llm.model=M llm check
    """
    from prompts.answers import EndpointCheck
    from prompts.guard import guarded
    from prompts.ladder import RUNGS
    from prompts.redaction import redact
    from prompts.templates import load_template
    from schedmate.config import load_settings
    from schedmate.language_model import access_of

    access = access_of(load_settings())
    if access.provider == "none":
        raise UserError("no language model is configured: everything works without one", _NONE_HINT)
    ladder = guarded(access).ladder
    rows = []
    for rung in RUNGS:
        found = ladder.try_rung(rung, load_template("check_endpoint"), EndpointCheck, {"word": _WORD})
        reason = found.reason or ("" if found.value and found.value.word == _WORD else "the form fits, not the content")
        rows.append(
            {
                "rung": rung,
                "works": found.value is not None,
                "says": reason,
                "seconds": round(sum(each.seconds for each in found.attempts), 3),
                "tokens_sent": found.tokens[0],
                "tokens_received": found.tokens[1],
            }
        )
    works = any(row["works"] for row in rows)
    if json_:
        print_json({"model": ladder.model, "base_url": redact(access.base_url), "works": works, "rungs": rows})
    else:
        _show(ladder.model, rows)
    if not works:
        raise typer.Exit(1)


def _show(model: str, rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table("asked by", "works", "seconds", "tokens", "", box=None, header_style="bold")
    for row in rows:
        tokens = f"{row['tokens_sent']} + {row['tokens_received']}"
        table.add_row(row["rung"], "yes" if row["works"] else "no", f"{row['seconds']:.2f}", tokens, safe(row["says"]))
    out().print(safe(model), soft_wrap=True)
    out().print(table)


@app.command()
def usage(
    since: Annotated[str, typer.Option("--since", help="First day, in UTC.", metavar="YYYY-MM-DD")] = "",
    json_: Json = False,
) -> None:
    """What was asked of language models, by day: questions, tokens, and cost by llm.price_sent and llm.price_received.

    Example: schedmate llm usage --since 2026-03-01
    """
    from datetime import date

    from rich.table import Table

    from prompts.ledger import Ledger
    from schedmate.config import load_settings

    try:
        first = date.fromisoformat(since).isoformat() if since else ""
    except ValueError:
        raise UserError(f"--since {since[:40]}: not a day", "write it as 2026-03-01") from None
    path = load_settings().path("llm.ledger")
    rows = Ledger(path).rows(first) if path.exists() else []
    if json_:
        days = [
            {
                "day": row.day,
                "model": row.model,
                "template": row.template,
                "asked": row.asked,
                "accepted": row.accepted,
                "tokens_sent": row.tokens.sent,
                "tokens_received": row.tokens.received,
                "cost": row.cost,
                "seconds": row.seconds,
            }
            for row in rows
        ]
        print_json({"ledger": str(path), "rows": days})
        return
    if not rows:
        out().print("no language model was asked")
        return
    table = Table("day", "model", "for", box=None, header_style="bold")
    for head in ("asked", "accepted", "tokens sent", "received", "cost", "seconds"):
        table.add_column(head, justify="right")
    for row in rows:
        counts = (row.asked, row.accepted, row.tokens.sent, row.tokens.received)
        table.add_row(
            row.day,
            safe(row.model),
            safe(row.template),
            *(f"{n:,}" for n in counts),
            f"{row.cost:,.4f}",
            f"{row.seconds:,.1f}",
        )
    out().print(table)


def register(parent: typer.Typer) -> None:
    """Add these commands to the command line."""
    llm_eval.register(app)
    parent.add_typer(app, name="llm")
