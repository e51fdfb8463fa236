"""`schedmate analyze`: what a job's source and launch command say about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.console import out, print_json, safe
from schedmate.workdir import work_folder

if TYPE_CHECKING:
    from analyzers.types import Fact, SourceFacts


def analyze(
    workdir: Annotated[Path, typer.Argument(help="The job's work dir (or a script in it).")],
    command: Annotated[str, typer.Option("--command", "-c", help="The command that starts the job.", metavar="LAUNCH")],
    gpus: Annotated[int | None, typer.Option("--gpus", min=0, help="GPUs requested for the job.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", min=1, help="Nodes requested for the job.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Whose job it is (source.off_users).", metavar="U")] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="As for --user (source.off_tenants).", metavar="X")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Read a job's source and launch command; nothing is run.

    Example: schedmate analyze . --command "torchrun --nproc_per_node 4 train.py --epochs 3"
    """
    from analyzers.types import Submission
    from schedmate.source import read_source

    folder = work_folder(workdir)
    if not command.strip():
        raise UserError("the launch command is empty", 'pass it as --command "python train.py"')
    facts = read_source(Submission(command, folder, user=user, tenant=tenant, gpus=gpus, nodes=nodes))
    if json_:
        print_json(as_json(facts))
        return
    _show(facts)


def as_json(facts: SourceFacts) -> dict[str, Any]:
    """The JSON object of `schedmate analyze` (docs/json/analyze.md)."""
    return {
        "facts": {name: _fact(fact) for name, fact in facts.facts.items()},
        "warnings": list(facts.warnings),
        "fingerprint": facts.fingerprint,
        "source": {"state": facts.source.state, "why": facts.source.why},
    }


def _fact(fact: Fact) -> dict[str, Any]:
    evidence = [{"file": e.file, "line": e.line} for e in fact.evidence]
    return {"value": fact.value, "confidence": fact.confidence, "evidence": evidence, "how": fact.how}


def _show(facts: SourceFacts) -> None:
    from rich.table import Table

    table = Table("fact", "value", "sure", "found", "where", box=None, header_style="bold")
    for name, fact in facts.facts.items():
        where = ", ".join(f"{e.file}:{e.line}" if e.file != "launch" else "launch command" for e in fact.evidence[:3])
        value = ", ".join(map(str, fact.value)) if isinstance(fact.value, list) else str(fact.value)
        table.add_row(name, safe(value, 60), f"{fact.confidence:.0%}", fact.how.replace("_", " "), safe(where, 80))
    console = out()
    if facts.facts:
        console.print(table)
    else:
        read = "launch command" if facts.source.state == "off" else "source and the launch command"
        console.print(f"Nothing is evident from the {read}.")
    for warning in facts.warnings:
        console.print(f"[yellow]note:[/yellow] {safe(warning)}")


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(analyze)
