"""`schedmate signatures propose`: what a language model makes of a log that no rule knows, as a candidate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from prompts.errors import UserError
from schedmate.console import out, print_json, safe


def propose(
    path: Annotated[Path, typer.Argument(help="A log file, or a folder with all files of one job.", metavar="PATH")],
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Ask the configured language model for a signature of a failure that the rules leave open.

    It becomes a candidate, which does nothing until it is promoted. Exit code: 0 there is a new candidate, 1 none.

    Example: schedmate signatures propose slurm-4711.out
    """
    from analyzers.failures import diagnose
    from schedmate.config import load_settings
    from schedmate.language_model import gateway_for
    from schedmate.refine import needs_refining, refine_diagnosis
    from schedmate.signatures import SignatureFolder
    from schedmate.signatures.folder import shipped_signatures
    from schedmate.signatures.proposing import proposed

    settings = load_settings()
    if settings.text("llm.provider") == "none":
        raise UserError("no language model is configured", "set llm.provider and llm.model, see docs/language-model.md")
    static = diagnose(path)
    name, why = "", ""
    if not needs_refining(static):
        why = f"the rules know it: {static.category}"
    else:
        found = refine_diagnosis(static, path, settings)
        if found.category == "unknown" or found == static or found.warnings != static.warnings:
            why = found.warnings[-1] if found.warnings else "the model leaves the cause open"
        else:
            row, why = proposed(found, gateway_for(settings))
            if row is not None:
                about = {"proposed_by": f"language model {why}", "at": time.strftime("%Y-%m-%d"), "log": path.name}
                folder = SignatureFolder(settings.path("signatures.dir"))
                try:
                    name, why = folder.add(row, about, shipped_signatures()).signature.id, ""
                except UserError as error:
                    why = error.what
    if json_:
        print_json({"id": name or None, "why_not": why})
    elif name:
        out().print(f"candidate {safe(name)}; see `schedmate signatures review {safe(name)} --corpus DIR`")
    else:
        out().print(f"no candidate: {safe(why)}", soft_wrap=True)
    raise typer.Exit(0 if name else 1)
