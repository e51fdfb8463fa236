"""`schedmate progress`: how far a job is, read from its log."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.console import err, out, print_json, safe

if TYPE_CHECKING:
    from analyzers.logs.follow import Followed
    from analyzers.types import Checkpoint, Progress, Quiet

_ANOMALIES = {
    "stall": "stalled: no progress for much longer than usual",
    "divergence": "diverged: the loss is not finite or far above its level, and stays so",
    "slowdown": "slowed down: steps take persistently longer than before",
    "straggler": "one rank lags behind the others",
    "loss_spike": "the loss has just jumped",
}
_QUIETS = {
    "eval": "an evaluation may be running",
    "save": "a checkpoint may be being saved",
    "compile": "it may be compiling",
    "epoch": "the first epoch has ended, and what comes between epochs may be running",
    "pause": "a pause may be due here",
    "uneven": "gaps have been uneven",
}
_ENDS = {
    "completed": "completed: the log says that the run is done",
    "failed": "failed: the log ends with an error",
    "cancelled": "cancelled: the log ends with it",
    "timeout": "stopped at its time limit",
}
_NO_LOG_ENDINGS = (".py", ".sh", ".ipynb", ".yaml", ".yml", ".toml", ".cpp", ".cu")
_MISSING = {"counter": "counter", "time": "time stamp"}


def progress(
    log: Annotated[
        Path, typer.Argument(help="A log file, a folder of one job's logs, or - for stdin.", show_default=False)
    ],
    now: Annotated[
        str | None,
        typer.Option(help="The present time (now, ISO 8601 or Unix seconds), to tell a stalled job.", metavar="TIME"),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep reading; each file of a folder is a log of its own.")
    ] = False,
    every: Annotated[float, typer.Option(help="With --follow: seconds between two looks.", min=0.2, max=3600)] = 2.0,
    for_: Annotated[
        float | None,
        typer.Option("--for", help="With --follow: stop after so many seconds.", min=0, show_default=False),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the configured language model where nothing is understood to count.")
    ] = False,
) -> None:
    """Show step, pace, loss, time left and trouble of a running job. Exits with 1 when it is in trouble or has failed.

    Example: schedmate progress slurm-4711.out --now 2025-09-12T09:10:00
    """
    from analyzers.logs import read_progress, read_progress_from

    is_stdin = str(log) == "-"
    if ask and (is_stdin or follow):
        raise UserError("--ask needs a file or folder, without --follow", "ask once; what is learned is kept")
    if follow:
        from schedmate.commands.progress_follow import follow as keep_following

        if now is not None:
            raise UserError("--now does not go with --follow", "leave it out: the present is the clock's")
        if is_stdin:
            raise UserError("--follow needs a file or a folder", "write the output to a file and follow that")
        raise typer.Exit(keep_following(log, every, for_, _followed if json_ else None))
    warnings: list[str] = []
    if is_stdin:
        found = read_progress_from(sys.stdin.buffer, now=_time(now))
    else:
        found = read_progress(log, now=_time(now), warn=warnings.append)
        if "counter" in found.not_understood:
            found = _learned(found, log, _time(now), warnings.append, ask=ask)
    if json_:
        print_json(_contract(found, warnings))
    else:
        _show(found, log, timed=now is not None)
        for warning in warnings:
            err().print(f"[yellow]warning:[/] {safe(warning)}")
    raise typer.Exit(1 if found.anomaly or found.ended not in (None, "completed") else 0)


def _learned(found: Progress, log: Path, now: datetime | None, warn: Callable[[str], None], *, ask: bool) -> Progress:
    from schedmate.config import load_settings
    from schedmate.unknown_format import with_learned

    return with_learned(found, log, now, warn, settings=load_settings() if ask else None)


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    if text.strip().lower() == "now":
        return datetime.now().astimezone()
    try:
        try:
            time = datetime.fromisoformat(text.strip())
        except ValueError:
            time = datetime.fromtimestamp(float(text), UTC)
        time.astimezone(UTC)  # no date that only its own zone can hold
        return time
    except (ValueError, OverflowError, OSError):
        hint = "write it as now, 2025-09-12T09:10:00 or in Unix seconds"
        raise UserError(f"--now {text}: not a time", hint) from None


def _followed(one: Followed) -> dict[str, Any]:
    return _contract(one.progress, [])


def _contract(found: Progress, warnings: list[str]) -> dict[str, Any]:
    """The JSON object of docs/json/progress.md."""
    return {
        "current_step": found.current_step,
        "total_steps": found.total_steps,
        "current_epoch": tidy(found.current_epoch),
        "total_epochs": found.total_epochs,
        "seconds_per_step": found.seconds_per_step,
        "last_loss": found.last_loss,
        "eta_seconds": found.eta_seconds,
        "eta_low_seconds": found.eta_range[0] if found.eta_range else None,
        "eta_high_seconds": found.eta_range[1] if found.eta_range else None,
        "anomaly": found.anomaly,
        "evidence": found.evidence,
        "format": found.format,
        "ended": found.ended,
        "not_understood": found.not_understood,
        "checkpoint": _checkpoint(found.checkpoint),
        "unsafe_checkpoint": _checkpoint(found.unsafe_checkpoint),
        "metrics": dict(found.metrics),
        "quiet": found.quiet,
        "warnings": warnings,
    }


def _checkpoint(known: Checkpoint | None) -> dict[str, Any] | None:
    if known is None:
        return None
    return {
        "path": known.path,
        "step": known.step,
        "epoch": tidy(known.epoch),
        "time": known.time.isoformat() if known.time is not None else None,
        "evidence": known.evidence,
    }


def tidy(number: float | None) -> float | int | None:
    """A whole number without its fraction."""
    return int(number) if number is not None and number == int(number) else number


def _show(found: Progress, log: Path, *, timed: bool) -> None:
    from rich.table import Table

    if found.format is None:
        out().print(f"No progress found in {safe(str(log))}: {_looked_for(log)}.")
        if found.ended is None and found.anomaly is None:
            out().print("Whether the job is in trouble can not be told from it.")
            return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    table.add_row("step", of(found.current_step, found.total_steps))
    table.add_row("epoch", of(tidy(found.current_epoch), found.total_epochs))
    table.add_row("pace", "-" if found.seconds_per_step is None else f"{found.seconds_per_step:.4g} s per step")
    table.add_row("loss", "-" if found.last_loss is None else str(found.last_loss))
    between = f" ({' to '.join(map(clock, found.eta_range))})" if found.eta_range else ""
    table.add_row("time left", "-" if found.eta_seconds is None else clock(found.eta_seconds) + between)
    for name, value in found.metrics:
        table.add_row(name.replace("_per_second", "/s").replace("_per_gpu", "/gpu").replace("_", " "), _short(value))
    for name, known in (("checkpoint", found.checkpoint), ("unsafe", found.unsafe_checkpoint)):
        if known is not None:
            table.add_row(name, _where(known) + (" (failed, or not known to be complete)" if name == "unsafe" else ""))
    if found.ended is not None:
        table.add_row("ended", _ENDS[found.ended] if found.ended == "completed" else f"[red]{_ENDS[found.ended]}[/]")
    if found.anomaly:
        table.add_row("trouble", f"[red]{_ANOMALIES[found.anomaly]}[/]")
    elif found.ended in (None, "completed"):
        table.add_row("trouble", _no_trouble(found, timed=timed))
    if found.quiet is not None:
        table.add_row("quiet", _quiet(found.quiet))
    for line in found.evidence:
        table.add_row("", f"[dim]{safe(line.file)}:{line.line}[/] {safe(line.text.strip(), 160)}")
    out().print(table)


def _quiet(found: Quiet) -> str:
    """How long nothing has come, what that may be, and when it is a stall."""
    since = f"{clock(found.seconds)} since the last record (usual gap {clock(found.usual_gap_s)})"
    if found.seconds > found.stall_after_s:
        return since
    why = "" if found.may_be is None else f"{_QUIETS[found.may_be]}; "
    return f"{since}: {why}a stall after {clock(found.stall_after_s)}"


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.6g}"


def _where(known: Checkpoint) -> str:
    """Which checkpoint, in words."""
    of_step = f"step {known.step}" if known.step is not None else f"epoch {tidy(known.epoch)}"
    parts = [of_step] if known.step is not None or known.epoch is not None else []
    parts += [f"{known.time:%Y-%m-%d %H:%M:%S}"] if known.time is not None else []
    parts += [safe(known.path, 120)] if known.path is not None else []
    return ", ".join(parts) or f"[dim]{safe(known.evidence.file)}:{known.evidence.line}[/]"


def _looked_for(log: Path) -> str:
    """What would have been progress, for a log that has none."""
    sought = "no step, iteration, epoch, 'N of M', 'N/M', 'k=N' or 'N%' that grows over at least 5 lines, and no loss"

    return f"it looks like source code, not a log; {sought}" if log.suffix in _NO_LOG_ENDINGS else sought


def _no_trouble(found: Progress, *, timed: bool) -> str:
    missing = " and no ".join(_MISSING[name] for name in found.not_understood)
    if "counter" in found.not_understood:
        return f"cannot tell (no {missing} understood)"
    if found.ended is None and missing:
        return f"none seen, but cannot tell a stall (no {missing} understood)"
    return "none seen" if timed or found.ended else "none seen (a stall shows with --now)"


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    try:
        return str(timedelta(seconds=round(seconds)))
    except OverflowError:
        return "longer than a calendar reaches"


def of(now: float | int | None, total: int | None) -> str:
    """What is done of how much, each a dash where it is not known."""
    if now is None:
        return "-" if total is None else f"- of {total}"
    return f"{now}" if total is None else f"{now} of {total}"


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(progress)
