"""`schedmate analyze`: what a job's source and launch command say about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.console import out, print_json, safe
from schedmate.durations import short_duration
from schedmate.workdir import work_folder

if TYPE_CHECKING:
    from rich.console import Console

    from analyzers.source.workload import Derived, Workload
    from analyzers.types import Fact, SourceFacts


def analyze(
    workdir: Annotated[Path, typer.Argument(help="The job's work dir.")],
    command: Annotated[str, typer.Option("--command", "-c", help="The command that starts the job.", metavar="LAUNCH")],
    gpus: Annotated[int | None, typer.Option("--gpus", min=0, help="GPUs requested for the job.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", min=1, help="Nodes requested for the job.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Whose job it is (source.off_users).", metavar="U")] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="As for --user (source.off_tenants).", metavar="X")
    ] = None,
    gpu_type: Annotated[
        str | None, typer.Option("--gpu-type", help="GPU type the job will run on, such as a100-80gb.", metavar="TYPE")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Read a job's source and launch command; nothing is run.

    Example: schedmate analyze . --command "torchrun --nproc_per_node 4 train.py --epochs 3"
    """
    from analyzers.source.workload import workload
    from analyzers.types import Submission
    from schedmate.source import read_source, sharpened

    folder = work_folder(workdir)
    if not command.strip():
        raise UserError("the launch command is empty", 'pass it as --command "python train.py"')
    submission = Submission(command, folder, user=user, tenant=tenant, gpus=gpus, nodes=nodes)
    facts = sharpened(read_source(submission), submission, summary=True)
    facts = replace(facts, warnings=(*facts.warnings, *_contradictions(facts, gpus, nodes, gpu_type)))
    derived = workload(facts, gpu_type, gpus)
    if json_:
        print_json(as_json(facts, derived))
        return
    _show(facts, derived)


def _contradictions(facts: SourceFacts, gpus: int | None, nodes: int | None, gpu_type: str | None) -> list[str]:
    """What was given on the command line and is otherwise in the job, or is not known."""
    from analyzers.source.knowledge import gpus as types

    found = []
    for name, given in (("num_gpus", gpus), ("num_nodes", nodes)):
        read = facts.value(name)
        if given is not None and read is not None and read != given:
            found.append(f"{given} {name.removeprefix('num_')} were given, the job itself uses {read}")
    if gpu_type is not None and types.gpu_type(gpu_type) is None:
        known = ", ".join(sorted(each.name for each in types.gpus()))
        found.append(f"GPU type {gpu_type} is not known: no times follow (known: {known})")
    return found


def as_json(facts: SourceFacts, derived: Workload) -> dict[str, Any]:
    """The JSON object of `schedmate analyze` (docs/json/analyze.md)."""
    return {
        "facts": {name: _fact(fact) for name, fact in facts.facts.items()},
        "derived": dict(derived.derived),
        "warnings": list(facts.warnings),
        "fingerprint": facts.fingerprint,
        "source": {"state": facts.source.state, "why": facts.source.why},
        "summary": facts.summary,
    }


def _fact(fact: Fact) -> dict[str, Any]:
    evidence = [{"file": e.file, "line": e.line} for e in fact.evidence]
    return {"value": fact.value, "confidence": fact.confidence, "evidence": evidence, "how": fact.how}


def _show(facts: SourceFacts, derived: Workload) -> None:
    from rich.table import Table

    table = Table("fact", "value", "sure", "found", "where", box=None, header_style="bold")
    for name, fact in facts.facts.items():
        where = ", ".join(f"{e.file}:{e.line}" if e.file != "launch" else "launch command" for e in fact.evidence[:3])
        table.add_row(
            name, safe(_words(fact), 60), f"{fact.confidence:.0%}", fact.how.replace("_", " "), safe(where, 80)
        )
    console = out()
    if facts.summary:
        console.print(f"[italic]{safe(facts.summary, 500)}[/italic] (said by the language model)\n", highlight=False)
    if facts.facts:
        console.print(table)
    else:
        read = "launch command" if facts.source.state == "off" else "source and the launch command"
        console.print(f"Nothing is evident from the {read}.")
    if derived.derived:
        _show_derived(derived, console)
    for warning in facts.warnings:
        console.print(f"[yellow]note:[/yellow] {safe(warning)}")


def _words(fact: Fact) -> str:
    """A fact's value on one line."""
    if isinstance(fact.value, list):
        return ", ".join(map(str, fact.value))
    if isinstance(fact.value, dict):
        return ", ".join(f"{name} {value}" for name, value in fact.value.items())
    return str(fact.value)


def _show_derived(derived: Workload, console: Console) -> None:
    from rich.table import Table

    table = Table("derived", "value", "between", "how it follows", box=None, header_style="bold")
    for name, each in derived.derived.items():
        between = "" if each.low == each.high else f"{_amount(each, each.low)} and {_amount(each, each.high)}"
        table.add_row(name, _amount(each, each.value), between, safe(each.how, 200))
    console.print(table)


def _amount(each: Derived, value: float) -> str:
    """A derived quantity as people say it: seconds as a duration, large numbers with three digits."""
    if each.unit == "seconds":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s" if value < 60 else short_duration(value)
    return f"{value:,.0f}" if value < 1e6 else f"{value:.3g}"


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(analyze)
