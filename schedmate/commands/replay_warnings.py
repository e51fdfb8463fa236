"""What `schedmate simulate` warns of, in words: what of a trace is not replayed as it stands, and who knew what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.knowledge import is_wrong, uses_estimates
from schedmate.ports import TraceNotes
from schedmate.simulator import Result, policy_named
from schedmate.simulator.limits import Cut
from schedmate.simulator.replay import TOO_LARGE
from schedmate.simulator.warm_start import WarmStart
from schedmate.trace_warnings import of_zone
from schedmate.traces import told_skips

NO_GPUS_HINT = (
    "Slurm's accounting has GPUs with AccountingStorageTRES=gres/gpu in slurm.conf, for jobs started since; in "
    "a CSV --column gpus=HEADER says where they stand"
)


def of_trace(
    path: Path,
    notes: TraceNotes,
    jobs: Sequence[JobRecord],
    estimates: str,
    needing: Sequence[str],
    timezone: str = "",
) -> list[str]:
    """Rows left out or odd, and jobs of which nothing is known. Raises `UserError` where the policies ``needing`` what
    is not there at all could not be replayed."""
    warnings = [*told_skips(path, notes), *of_zone(notes, timezone)]
    without = sum(1 for job in jobs if job.requested_s is None) if estimates == "requested" else 0
    if without == len(jobs) and needing:
        raise UserError(
            f"{path}: has no requested times, which {' and '.join(needing)} need",
            "use --estimates perfect or predicted",
        )
    if without:
        warnings.append(f"{without} of {len(jobs)} jobs have no requested time: nothing is assumed of their runtime")
    return warnings


def of_jobs(held: int, typed: int, unended: int, cut: Cut, warm: WarmStart | None) -> list[str]:
    """Jobs that are replayed otherwise than they stand in the trace: so many were held, name a GPU type,
    still ran when it was written, and ran for longer than they had asked."""
    found = []
    if cut.jobs:
        found.append(
            f"{cut.jobs} jobs ran for longer than they had asked: each is ended at its requested time, which takes "
            f"{100 * cut.share:.2g} % of all GPU time out of the replay"
        )
    if unended:
        found.append(
            f"{unended} jobs still ran when the trace was written: played, and counted as recorded, as far as they had "
            "got"
        )
    if held:
        found.append(f"{held} jobs were held in the trace, and count as submitted when only the queue kept them")
    if typed:
        found.append(
            f"{typed} jobs of the trace name a GPU type, which is not minded: --nodes says nothing of types "
            "(--cluster FILE does)"
        )
    if warm is not None:
        found.append(f"begins with {len(warm.running)} jobs that ran then by the trace, which are in no figure")
        if warm.unknown:
            found.append(f"{warm.unknown} jobs left out: the trace does not say whether they ran or waited then")
    return found


def nothing_played(path: Path, jobs: Sequence[JobRecord], skipped: Mapping[str, int]) -> UserError:
    """What to say where a policy could play no job at all."""
    if all(job.gpus < 1 for job in jobs):
        return UserError(f"{path}: no job of it asks for a GPU", NO_GPUS_HINT)
    why = next(iter(skipped), "no job")
    hint = "see --nodes" if TOO_LARGE in skipped else "see schedmate trace describe"
    return UserError(f"{path}: no job of it can be replayed on this cluster ({why})", hint)


def of_knowledge(estimates: str, names: Sequence[str]) -> list[str]:
    """What these policies were told of runtimes that nobody knows."""
    if is_wrong(estimates):
        return ["what policies were told of runtimes was wrong on purpose"]
    if estimates == "perfect" and (told := [name for name in names if uses_estimates(policy_named(name))]):
        return [
            f"{' and '.join(told)} knew the true runtimes, which no scheduler does: "
            "--estimates requested or predicted shows what could have been had"
        ]
    return []


def of_tenants(result: Result, jobs: int, cluster: Path | None) -> list[str]:
    """Jobs of tenants that the cluster file does not have."""
    if not result.unknown_tenants:
        return []
    first = next(iter(result.unknown_tenants))
    return [
        f"{sum(result.unknown_tenants.values())} of {jobs} jobs name a tenant that {cluster} does not have "
        f"(such as {first!r}): they are nobody's"
    ]


def left_out(summaries: Mapping[str, Mapping[str, Any]], jobs: int) -> list[str]:
    """Jobs without figures by reason; which policies it concerns, where that is not all of them alike."""
    found = []
    for why in dict.fromkeys(why for summary in summaries.values() for why in summary["skipped"]):
        counts = {name: summary["skipped"].get(why, 0) for name, summary in summaries.items()}
        if len(set(counts.values())) == 1:
            found.append(f"{next(iter(counts.values()))} of {jobs} jobs left out: {why}")
        else:
            told = ", ".join(f"{count} under {name}" for name, count in counts.items() if count)
            found.append(f"{told} of {jobs} jobs left out: {why}")
    return found
