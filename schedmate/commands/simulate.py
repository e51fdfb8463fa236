"""`schedmate simulate`: replay a trace under one or more policies."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.commands.replay_flags import (
    Cancellations,
    Checkpoint,
    Classes,
    FailureShare,
    FaultFile,
    From,
    Requeues,
    Restart,
    Seed,
    SlowdownFile,
    Until,
    stretch,
)
from schedmate.commands.trace_flags import Delimiter, Format, TimeUnit, Timezone
from schedmate.console import err, out, print_json, progress, safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analyzers.types import JobRecord
    from schedmate.ports import TraceNotes
    from schedmate.scheduler import ClusterSpec, Tenant


def simulate(
    trace: Annotated[Path, typer.Argument(help="Trace of jobs: CSV, SWF, an sacct dump or another.", metavar="TRACE")],
    nodes: Annotated[int | None, typer.Option("--nodes", help="Number of equal nodes.", metavar="N")] = None,
    gpus_per_node: Annotated[int, typer.Option("--gpus-per-node", help="GPUs of each node.", metavar="G")] = 8,
    cluster: Annotated[
        Path | None, typer.Option("--cluster", help="YAML file of pools, instead of --nodes.", metavar="FILE")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help="One or more, with commas, of fifo, best-effort, sjf, easy, conservative, saf, qssf, multifactor, "
            "srtf, srsf, tiresias, kant, patient, core; as NAME+gate, hints of those only are used who have proved to "
            "be worth it.",
            metavar="P[,P...]",
        ),
    ] = "fifo",
    estimates: Annotated[
        str,
        typer.Option(
            "--estimates",
            help="What policies know of runtimes: the user's requested times, the truth (perfect), a prediction "
            "from the jobs that have ended by then, or what is wrong in a way that has a name: the truth with noise "
            "(noisy, noisy:SIGMA), the same of all jobs (constant, one-minute), the opposite of the truth (reversed), "
            "one owner who lies (one-lies), all that misleads (hostile).",
            metavar="requested|perfect|predicted|noisy|constant|one-minute|reversed|one-lies|hostile",
        ),
    ] = "perfect",
    format_: Format = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            help="Where a CSV has something, for example gpus=num_gpu; repeat for more. NAME is one of job_id, submit, "
            "duration, gpus, user, tenant, name, requested, outcome and others: docs/traces.md.",
            metavar="NAME=HEADER",
        ),
    ] = None,
    time_unit: TimeUnit = "",
    delimiter: Delimiter = "",
    timezone: Timezone = "",
    checkpoint: Checkpoint = None,
    restart: Restart = None,
    size_classes: Classes = False,
    cancellations: Cancellations = False,
    failures: FailureShare = None,
    faults: FaultFile = None,
    requeues: Requeues = None,
    slowdown: SlowdownFile = None,
    seed: Seed = 1,
    from_: From = None,
    until: Until = None,
    shakes: Annotated[
        int | None,
        typer.Option(
            "--shakes",
            min=0,
            max=1000,
            help="Replay so many times more with submit times moved by up to 30 s, to tell differences from chance "
            "(default: 10 with --report, else none).",
            metavar="N",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a report with pictures, one HTML file.", metavar="FILE")
    ] = None,
    detailed: Annotated[
        bool, typer.Option("--detail", help="Put what pictures are drawn from into the JSON, for compare --report.")
    ] = False,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="The jobs were generated: say so wherever they are shown.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Replay a trace of jobs on a cluster and compare policies.

    fifo and sjf have a strict head; best-effort skips what does not fit; easy gives the blocked head a reservation
    and backfills; easy-predicted-sjbf does so by predictions and shortest first; conservative reserves for
    everybody; saf takes the smallest GPU time first; qssf does so by predictions, with a strict head; multifactor
    goes by age, size and fair share of users as Slurm does; srtf, srsf and tiresias evict running jobs for those
    with less time or GPU time to go, or with less GPU time had; kant is SchedMate's own core, in the style of the
    paper of that name; patient takes small jobs first and bounds how long large ones wait; core does so inside
    priority classes and tenants, and preempts. What each knows: docs/metrics.md. What a CSV may call its columns:
    docs/traces.md.

    Example: schedmate simulate jobs.csv --nodes 72 --policy fifo,easy,kant --estimates requested
    """
    from schedmate.commands.replay_table import print_table
    from schedmate.commands.replay_warnings import (
        left_out,
        nothing_played,
        of_jobs,
        of_knowledge,
        of_tenants,
        of_trace,
    )
    from schedmate.comparison.collect import replays
    from schedmate.comparison.runs import check_number
    from schedmate.files import check_output, refuse_inputs
    from schedmate.knowledge import check_estimates, estimates_named, lacks_users
    from schedmate.simulator import policy_named
    from schedmate.simulator.asked import conditions_of
    from schedmate.simulator.identity import jobs_key
    from schedmate.simulator.limits import cut_at_limits
    from schedmate.simulator.recorded import as_recorded
    from schedmate.simulator.still_running import as_far_as_it_got
    from schedmate.simulator.warm_start import when_eligible
    from schedmate.trace_warnings import of_size
    from schedmate.traces import trace_options

    around = conditions_of(
        checkpoint=checkpoint,
        restart=restart,
        size_classes=size_classes,
        cancellations=cancellations,
        failures=failures,
        faults=faults,
        requeues=requeues,
        slowdown=None if slowdown is None else Path(slowdown),
        seed=seed,
    )
    spec, tenants = _cluster(nodes, gpus_per_node, cluster)
    names = _policies(policy)
    if report is not None:
        check_number(len(names))
        another = "name another file with --report"
        check_output(report, another)
        beside = [file for file in (trace, cluster, faults, slowdown) if file is not None]
        refuse_inputs(report, [Path(file) for file in beside], another)
    needing = [policy_named(name).name for name in names if policy_named(name).needs_estimates]
    check_estimates(estimates)
    jobs, notes = _read(trace, format_, trace_options(column or [], time_unit, delimiter, timezone))
    if report is not None:
        refuse_inputs(report, notes.beside, "name another file with --report")
    held = sum(job is not own for job, own in zip(map(when_eligible, jobs), jobs, strict=True))
    typed = 0
    if cluster is None:
        jobs, typed = _of_any_type(jobs)
    warm, played = stretch(jobs, from_, until, notes.epoch_s, timezone)
    jobs, around = list(map(as_far_as_it_got, played)), replace(around, warm=warm)
    unended = sum(job is not own for job, own in zip(jobs, played, strict=True))
    if of_users := [name for name in names if lacks_users(policy_named(name), jobs)]:
        raise UserError(
            f"{trace}: does not say whose its jobs are, which {' and '.join(of_users)} need",
            "map a column with --column user=HEADER, or leave them out",
        )
    warnings = [
        *of_trace(trace, notes, jobs, estimates, needing, timezone),
        *of_jobs(held, typed, unended, cut_at_limits(jobs), warm),
        *of_size(jobs, warm, spec.gpus),
        *of_knowledge(estimates, names),
    ]
    summaries: dict[str, dict[str, Any]] = {}
    with_figures = set[str]()
    seeds = range(1, 1 + (shakes if shakes is not None else 10 if report is not None else 0))
    with progress("replaying", len(jobs) * len(names) * (1 + len(seeds))) as advance:
        for name in names:
            result, summary = replays(
                jobs,
                spec,
                name,
                lambda: estimates_named(estimates, jobs, seed),
                tenants=tenants,
                conditions=around,
                seeds=seeds,
                detailed=detailed or report is not None,
                advance=advance,
            )
            if not result.job_ids:
                raise nothing_played(trace, jobs, result.skipped)
            summaries[name] = summary
            with_figures.update(result.job_ids)
    warnings += [*left_out(summaries, len(jobs)), *of_tenants(result, len(jobs), cluster)]
    recorded = as_recorded(jobs, with_figures, spec.gpus)
    document = _document(trace, notes, spec, estimates, warnings, summaries)
    document |= {"recorded": recorded, "jobs_key": jobs_key(jobs), "clock": _clock(notes, timezone)}
    if synthetic:
        document["synthetic"] = True
    if report is not None:
        from schedmate.comparison.write import write_report

        write_report([(trace.name, document)], report)
    if json_:
        print_json(document)
        return
    for warning in warnings:
        err().print(f"[yellow]warning:[/] {safe(warning)}", soft_wrap=True)
    print_table(trace, spec, estimates, summaries, recorded)
    if report is not None:
        out().print(f"\nReport: {safe(str(report.resolve()))}", soft_wrap=True)


def _cluster(nodes: int | None, gpus_per_node: int, file: Path | None) -> tuple[ClusterSpec, tuple[Tenant, ...]]:
    from schedmate.simulator.cluster_file import read_cluster, read_tenants, uniform_cluster

    if file is not None and nodes is not None:
        raise UserError("both --nodes and --cluster were given", "give one of them")
    if file is not None:
        spec = read_cluster(file)
        return spec, read_tenants(file, spec)
    if nodes is None:
        raise UserError("how large is the cluster", "give --nodes N [--gpus-per-node G] or --cluster FILE")
    return uniform_cluster(nodes, gpus_per_node), ()


def _policies(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not names:
        raise UserError("--policy names no policy", "give for example --policy fifo,easy")
    return names


def _read(path: Path, format_name: str | None, options: Mapping[str, str]) -> tuple[list[JobRecord], TraceNotes]:
    """All jobs, each once, in order of submission; ties keep the order of the file."""
    from schedmate.repeats import jobs_once
    from schedmate.traces import open_trace

    opened = partial(open_trace, path, format_name, options)
    return jobs_once(opened, lambda records, _: sorted(records, key=lambda record: record.submit_s))


def _of_any_type(jobs: Sequence[JobRecord]) -> tuple[list[JobRecord], int]:
    """The jobs without their GPU type, and how many had one: equal nodes of unknown type take any."""
    freed = [job if job.gpu_type is None else replace(job, gpu_type=None) for job in jobs]
    return freed, sum(job.gpu_type is not None for job in jobs)


def _clock(notes: TraceNotes, timezone: str) -> dict[str, Any]:
    """What the seconds of the trace count from, and whose dates people read."""
    zone = timezone or str(notes.header.get("timezone", "UTC")).removesuffix(" (assumed)")
    return {"epoch_s": notes.epoch_s, "timezone": zone}


def _document(
    trace: Path,
    notes: TraceNotes,
    spec: ClusterSpec,
    estimates: str,
    warnings: list[str],
    summaries: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    return {
        "trace": str(trace),
        "rows": notes.rows,
        "rows_skipped": notes.skipped,
        "cluster": {
            "nodes": spec.nodes,
            "gpus": spec.gpus,
            "pools": [{"name": p.name, "nodes": p.nodes, "gpus_per_node": p.gpus_per_node} for p in spec.pools],
        },
        "estimates": estimates,
        "warnings": warnings,
        "policies": summaries,
    }


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(simulate)
