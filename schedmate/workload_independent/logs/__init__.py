"""What jobs print, in the formats of what they are written with, cut where they were killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedmate.workload.types import FailureTruth, Generated, LogFile
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.logs.failures import ending_of
from schedmate.workload_independent.logs.formats import FORMATS
from schedmate.workload_independent.logs.noise import with_noise
from schedmate.workload_independent.logs.scene import Ending
from schedmate.workload_independent.logs.view import View, view_of
from schedmate.workload_independent.settings import Draft

__all__ = ["logs_of"]


def logs_of(
    job: Generated[Draft], start_s: float, nodes: tuple[str, ...], draw: Draw
) -> tuple[list[LogFile], FailureTruth | None]:
    """The log files of a job and the cause of its bad end, None for one that was well or was cancelled."""
    view = view_of(job, start_s, draw)
    ending = ending_of(job, start_s, nodes, draw)
    name = f"slurm-{job.ask.job_id}.out" if "sbatch" in job.ask.command else f"{job.recipe.project.name}.log"
    files = [LogFile(name, _main(view, job, ending))]
    files += [LogFile(other, iter([text])) for other, text in ending.beside.items()]
    return files, ending.truth


def _main(view: View, job: Generated[Draft], ending: Ending) -> Iterator[str]:
    if job.ask.job_id and "sbatch" in job.ask.command:
        yield (
            f"GPU 0: NVIDIA {job.ask.gpu_type.replace('-', '-SXM4-')} (UUID: "
            f"GPU-{int(view.draw.between(1e7, 9e7)):x})\n"
        )
    shown = replace(view, records=(), ended_well=False) if ending.before_training else view
    yield from with_noise(FORMATS[job.recipe.program.log](shown), job.recipe.project, view.draw)
    yield ending.tail
