"""`schedmate predict`: how long, how much and how risky, before a job runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prompts.errors import UserError
from schedmate.console import err, out, print_json, safe
from schedmate.durations import parse_duration, short_duration
from schedmate.workdir import work_folder

if TYPE_CHECKING:
    from analyzers.ports import HistoryStore
    from predictors.remaining import Running
    from predictors.types import Assumed, Fit, Interval, Prediction


def predict(
    workdir: Annotated[Path, typer.Argument(help="The job's folder; only read.", metavar="WORKDIR")],
    command: Annotated[str, typer.Option("--command", help="The launch command.", metavar="LAUNCH")],
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", min=1, max=1_000_000, help="GPUs asked for (default: what the launch asks for)."),
    ] = None,
    gpu_type: Annotated[str | None, typer.Option("--gpu-type", help="For example A100.", metavar="T")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="U")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="X")] = None,
    name: Annotated[str | None, typer.Option("--name", help="The job's name; finds past jobs of that name.")] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit", help="Hard time limit: seconds, 1h30m or HH:MM:SS (default: as launched).", metavar="S"
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", help="A history store or a trace file (default: history.store).", metavar="FILE"),
    ] = None,
    running_for: Annotated[
        str | None,
        typer.Option("--running-for", help="It has run for so long: how long it still will.", metavar="S"),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", help="With --running-for: its log, which tells how far it is.", metavar="FILE"),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Predict duration, outcome and resources of a job from its code and the history of jobs like it.

    What no option says is taken from the launch: options of sbatch or srun, then #SBATCH lines of the script.

    Example: schedmate predict ./train --command "bash run.sh" --gpus 1 --gpu-type A100 --limit 4h --user bo
    """
    from analyzers.types import Submission
    from schedmate.config import load_settings
    from schedmate.pipeline import Pipeline

    submission = Submission(
        command=command,
        workdir=work_folder(workdir),
        user=user,
        tenant=tenant,
        name=name,
        gpus=gpus,
        gpu_type=gpu_type,
        limit_s=parse_duration(limit, "--limit") if limit else None,
    )
    store = _history(history)
    settings = load_settings()
    pipeline = Pipeline(store, settings, model_within_s=settings.number("llm.wait_s"))
    prediction = pipeline.predict(submission, running=_running(running_for, log))
    for warning in [*prediction.warnings, *getattr(store, "warnings", [])]:
        err().print(f"warning: {safe(warning)}", soft_wrap=True)
    if json_:
        print_json(prediction)
    else:
        _show(prediction, named=submission.name is not None)


def _running(running_for: str | None, log: Path | None) -> Running | None:
    """What is known of a running job: how long it has run, and what its log says is left."""
    from predictors.remaining import Running

    if running_for is None:
        if log is not None:
            raise UserError("--log without --running-for", "say how long the job has run, for example --running-for 2h")
        return None
    elapsed_s = parse_duration(running_for, "--running-for")
    if log is None:
        return Running(elapsed_s)
    from analyzers.logs import read_progress

    found = read_progress(log)
    if found.eta_seconds is None:
        err().print(f"warning: {safe(str(log))}: nothing in it says how far the job is", soft_wrap=True)
    return Running(elapsed_s, found.eta_seconds, found.eta_range)


def _history(path: Path | None) -> HistoryStore:
    from schedmate.pipeline import local_history, open_history
    from schedmate.traces import told_skips

    if path is None:
        return local_history()
    store, notes = open_history(path)
    for line in told_skips(path, notes) if notes else []:
        err().print(safe(line), soft_wrap=True)
    return store


def _show(prediction: Prediction, named: bool) -> None:
    from rich.table import Table

    console = out()
    duration, outcome = prediction.duration_s, prediction.outcome
    block = Table.grid(padding=(0, 2))
    block.add_row(
        "[bold]runs for[/bold]",
        f"[bold]{short_duration(duration.p50)}[/bold]  "
        f"(80 % between {short_duration(duration.p10)} and {short_duration(duration.p90)})",
    )
    block.add_row("", f"99 % at most {short_duration(duration.p99)}")
    if prediction.remaining_s is not None:
        left = prediction.remaining_s
        block.add_row(
            "[bold]still runs[/bold]",
            f"[bold]{short_duration(left.p50)}[/bold]  "
            f"(80 % between {short_duration(left.p10)} and {short_duration(left.p90)})",
        )
    block.add_row(
        "[bold]ends[/bold]",
        f"completed {outcome.completed:.0%}, failed {outcome.failed:.0%}, "
        f"cancelled {outcome.cancelled:.0%}, timeout {outcome.timeout:.0%}; "
        f"fails within 5 minutes {prediction.fails_early:.0%}",
    )
    block.add_row("[bold]GPU memory[/bold]", _gib(prediction.gpu_memory_mib) + " a GPU")
    if prediction.gpu_fit is not None:
        block.add_row("", safe(_fit(prediction.gpu_fit)))
        for remedy in prediction.gpu_fit.remedies:
            most = f", at most about {remedy.largest_batch:,} samples a GPU" if remedy.largest_batch else ""
            block.add_row("", safe(f"with {remedy.change}: {remedy.needed_mib / 1024:.1f} GiB{most}"))
    use = prediction.gpu_utilization
    block.add_row("[bold]GPU use[/bold]", f"{use.value:.0%}  (80 % between {use.low:.0%} and {use.high:.0%})")
    block.add_row("[bold]host memory[/bold]", _gib(prediction.host_memory_mib))
    if prediction.assumed:
        block.add_row("[bold]assumed[/bold]", safe(", ".join(_told(each) for each in prediction.assumed)))
    if prediction.source.state in ("off", "partial"):
        how = "not read" if prediction.source.state == "off" else "read in part"
        block.add_row("[bold]source[/bold]", f"{how} ({safe(prediction.source.why)})")
    console.print(block)
    console.print("\n[bold]why[/bold]")
    for reason in prediction.reasons:
        console.print(f"  - {safe(reason)}", soft_wrap=True)
    if prediction.similar_jobs:
        console.print("\n[bold]most similar jobs[/bold]")
        console.print(_similar(prediction))
        if not named and not any(each.name == "name" for each in prediction.assumed) and _have_names(prediction):
            console.print("[dim]hint: with --name, past jobs of the same name count most[/dim]")
    console.print(f"\n[dim]model {safe(prediction.model_version)}[/dim]")


def _similar(prediction: Prediction) -> object:
    from rich.table import Table

    table = Table("job", "alike", "user", "name", "gpus", "ran", "ended", box=None, header_style="dim")
    for job in prediction.similar_jobs:
        table.add_row(
            safe(job.job_id, 40),
            f"{job.similarity:.0%}",
            safe(job.user or "-", 30),
            safe(job.name or "-", 40),
            str(job.gpus),
            short_duration(job.duration_s),
            job.outcome or "-",
        )
    return table


def _have_names(prediction: Prediction) -> bool:
    return any(job.name for job in prediction.similar_jobs)


def _told(assumed: Assumed) -> str:
    """One assumption with its place: ``4 GPUs (launch.sh:3)``."""
    value = assumed.value
    what = f"{assumed.name.replace('_', ' ')} {value}"
    if isinstance(value, int | float):
        what = {
            "gpus": f"{value:g} GPU{'s' if value != 1 else ''}",
            "nodes": f"{value:g} node{'s' if value != 1 else ''}",
            "limit_s": f"limit {short_duration(value)}",
            "memory_mib": f"{value / 1024:,.4g} GiB of host memory",
        }.get(assumed.name, what)
    if assumed.file is None:
        return what
    return f"{what} (launch command)" if assumed.file == "launch" else f"{what} ({assumed.file}:{assumed.line})"


def _fit(fit: Fit) -> str:
    """Whether it fits, and the batch that would: ``does not fit (A100, 39.0 GiB): needs 61.2 GiB, ...``."""
    words = {"tight": "may not fit", "unlikely": "will hardly fit"}.get(fit.verdict, fit.verdict)
    told = f"{words} ({fit.gpu}, {fit.usable_mib / 1024:.1f} GiB)"
    if fit.verdict != "fits":
        value, low, high = (mib / 1024 for mib in (fit.needed_mib.value, fit.needed_mib.low, fit.needed_mib.high))
        told += f": needs {value:.1f} GiB, {low:.1f} to {high:.1f}"
    if fit.assumed_batch is not None:
        told += f"; {fit.assumed_batch} samples a GPU assumed"
    if fit.largest_batch == 0:
        return f"{told}; not one sample fits"
    return told if fit.largest_batch is None else f"{told}; at most about {fit.largest_batch:,} samples a GPU"


def _gib(interval: Interval) -> str:
    value, low, high = (mib / 1024 for mib in (interval.value, interval.low, interval.high))
    return f"{value:.1f} GiB  (80 % between {low:.1f} and {high:.1f})"


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(predict)
