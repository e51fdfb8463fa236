"""Flags that say what a replay plays beside the jobs: docs/simulator.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prompts.errors import UserError

if TYPE_CHECKING:
    from datetime import tzinfo

    from analyzers.types import JobRecord
    from schedmate.simulator.warm_start import WarmStart

_PANEL = "What is played beside the jobs (docs/simulator.md)"

Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        help="Running jobs may be evicted, under every policy, and save their state so often, or never. srtf, srsf and "
        "tiresias, which live by it, have 10m unless said otherwise.",
        metavar="TIME|never",
        rich_help_panel=_PANEL,
    ),
]
Restart = Annotated[
    str | None,
    typer.Option(
        "--restart",
        help="How long an evicted job takes to start again before it works (default: 2m).",
        metavar="TIME",
        rich_help_panel=_PANEL,
    ),
]
Classes = Annotated[
    bool,
    typer.Option(
        "--size-classes",
        help="Jobs have a priority class by the GPU time that they are expected to take, small ones a higher one, "
        "under core, conservative and saf. With --checkpoint core then evicts large jobs for small ones.",
        rich_help_panel=_PANEL,
    ),
]
Cancellations = Annotated[
    bool,
    typer.Option(
        "--cancellations",
        help="Submit jobs that were cancelled before they ran, and cancel them when they were.",
        rich_help_panel=_PANEL,
    ),
]
FailureShare = Annotated[
    str | None,
    typer.Option(
        "--failures",
        help="Jobs fail and start again: as often as the trace says, or this share of all runs.",
        metavar="trace|SHARE",
        rich_help_panel=_PANEL,
    ),
]
FaultFile = Annotated[
    Path | None,
    typer.Option(
        "--faults",
        help="Nodes and GPUs break and are repaired: CSV or YAML of events, or how often.",
        metavar="FILE",
        rich_help_panel=_PANEL,
    ),
]
Requeues = Annotated[
    int | None,
    typer.Option(
        "--requeues",
        min=0,
        help="So often a job that lost its GPUs to faults is put back into the queue without having saved anything in "
        "between; then it counts as failed (default: 5, as Slurm's max_batch_requeue).",
        metavar="N",
        rich_help_panel=_PANEL,
    ),
]
SlowdownFile = Annotated[
    str | None,
    typer.Option(
        "--slowdown",
        help="Badly placed jobs take longer: usual, or a YAML file of how much.",
        metavar="usual|FILE",
        rich_help_panel=_PANEL,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        help="Of what --failures and wrong --estimates draw.",
        metavar="N",
        rich_help_panel=_PANEL,
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Begin here, with what ran and waited by the trace: time after the first submission, or a date (in "
        "--timezone, else UTC).",
        metavar="TIME",
        rich_help_panel=_PANEL,
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", help="Play no job submitted from here on.", metavar="TIME", rich_help_panel=_PANEL),
]


def stretch(
    jobs: Sequence[JobRecord], from_: str | None, until: str | None, epoch_s: float | None, timezone: str = ""
) -> tuple[WarmStart | None, Sequence[JobRecord]]:
    """What ran at the beginning of a stretch, and the jobs of it; all of them if no stretch was asked for.

    Jobs that were held count as submitted when eligible. ``epoch_s`` is the Unix time of second 0 of the trace,
    ``timezone`` (UTC if empty) that of dates. Raises `UserError`.
    """
    from schedmate.durations import zone_named
    from schedmate.simulator.warm_start import warm_start, when_eligible

    if (from_ is None and until is None) or not jobs:
        return None, sorted(map(when_eligible, jobs), key=lambda job: job.submit_s)
    first_s, zone = jobs[0].submit_s, zone_named(timezone or "UTC")
    begin_s = first_s if from_ is None else _moment_s(from_, "--from", first_s, epoch_s, zone)
    end_s = jobs[-1].submit_s + 1.0 if until is None else _moment_s(until, "--until", first_s, epoch_s, zone)
    if from_ is not None and until is not None and end_s <= begin_s:
        raise ends_before_it_begins(from_, until)
    warm, played = warm_start(jobs, begin_s, end_s)
    arrives = any(warm.begin_s <= job.submit_s < warm.end_s for job in jobs)
    if not arrives and all(job.duration_s is None for job in played):
        raise nothing_submitted(first_s, jobs[-1].submit_s, epoch_s, timezone)
    return warm, played


def ends_before_it_begins(from_: str, until: str) -> UserError:
    """What to say of such a stretch."""
    return UserError(f"--until {until} is not after --from {from_}", "give a later --until or an earlier --from")


def nothing_submitted(first_s: float, last_s: float, epoch_s: float | None, timezone: str) -> UserError:
    """What to say of a stretch without a job; from when to when there are some, on the clock of the trace."""
    from datetime import datetime

    from schedmate.durations import zone_named

    if epoch_s is None:
        span = f"second {first_s:.0f} to {last_s:.0f} of its clock"
    else:
        zone = zone_named(timezone or "UTC")
        days = (datetime.fromtimestamp(epoch_s + at_s, zone) for at_s in (first_s, last_s))
        span = f"{' to '.join(f'{day:%Y-%m-%dT%H:%M:%S}' for day in days)} ({timezone or 'UTC'})"
    return UserError(
        "nothing was submitted in that stretch", f"the trace has submissions from {span}: see --from and --until"
    )


def _moment_s(text: str, flag: str, first_s: float, epoch_s: float | None, zone: tzinfo) -> float:
    """On the clock of the trace."""
    from schedmate.durations import parse_duration, parse_moment

    if text.count("-") < 2:
        return first_s + parse_duration(text, flag, zero=True)
    if epoch_s is None:
        raise UserError(
            f"{flag} {text}: the trace has a clock of its own", "give a time after its first job, such as 2d"
        )
    return parse_moment(text, flag, zone) - epoch_s
