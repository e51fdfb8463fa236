"""A labelled set that costs nobody anything: jobs and failed jobs' logs of the product's own generators.

They say what is in their programs and logs because they wrote them. The readers know nearly all of it, so what a model
could add is small: such a set shows whether a model does harm and what it costs, hardly whether it helps.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from schedmate.evaluation.cases import Case, Cases
from schedmate.workload import SemanticGenerator, WorkloadSpec
from schedmate.workload.types import FailureTruth, Generated, Generator
from schedmate.workload_independent import IndependentGenerator

#: Cases of each kind unless told otherwise.
USUAL = 12
_SEED = 20_260
_SHORTEST_EVIDENCE_CHARS = 8
#: The generators name the library that drives the training, labels the one that computes.
_OTHER_WORDS = frozenset({"framework"})


def synthetic_cases(folder: Path, limit: int | None = None) -> tuple[Cases, Cases]:
    """(Jobs, logs), written below ``folder``: so many of each, by turns of either generator."""
    count = USUAL if limit is None else limit
    # enough jobs that so many distinct programs and failures are among them
    spec = WorkloadSpec(seed=_SEED, jobs=20 * count + 80, users=max(12, count))
    generators: tuple[Generator[Any], ...] = (SemanticGenerator(spec), IndependentGenerator(spec))
    jobs, logs = Cases(), Cases()
    for share, generator in zip((count - count // 2, count // 2), generators, strict=True):
        jobs.cases += islice(_jobs(generator, folder), share)
        logs.cases += islice(_logs(generator, folder), share)
    return jobs, logs


def _jobs(generator: Generator[Any], folder: Path) -> Iterator[Case]:
    seen = set[str]()
    for job in generator.jobs():
        if job.ask.tree in seen or not job.truth.facts:
            continue
        seen.add(job.ask.tree)
        name = f"{generator.name}-{job.ask.job_id}"
        label = {
            "id": name,
            "repo": name,
            "launch": job.ask.command,
            "expected": {fact: value for fact, value in job.truth.facts.items() if fact not in _OTHER_WORDS},
            "synthetic": True,
        }
        for path, text in generator.tree(job).items():
            _write(folder / "trees" / name / path, text)
        yield Case("jobs", label, folder / "trees" / name)


def _logs(generator: Generator[Any], folder: Path) -> Iterator[Case]:
    """Failures of every kind before a second of one."""
    again: list[Generated[Any]] = []
    seen = set[str]()
    for job in generator.jobs():
        if job.truth.failure is None:
            continue
        if job.truth.failure in seen:
            again.append(job)
            continue
        seen.add(job.truth.failure)
        yield from _log(generator, job, folder)
    for job in again:
        yield from _log(generator, job, folder)


def _log(generator: Generator[Any], job: Generated[Any], folder: Path) -> Iterator[Case]:
    nodes = tuple(f"node{number:03d}" for number in range(job.ask.nodes))
    files, truth = generator.logs(job, job.ask.submit_s, nodes)
    if truth is None:
        return
    name = f"{generator.name}-{job.ask.job_id}"
    root = folder / "logs" / name
    for file in files:
        _write(root / file.name, "".join(file.pieces))
    yield Case("logs", _log_label(name, [file.name for file in files], truth), root)


def _log_label(name: str, files: list[str], truth: FailureTruth) -> dict[str, Any]:
    return {
        "id": name,
        "files": files,
        "category": truth.category,
        "subcategory": truth.subcategory,
        "culprit_rank": list(truth.ranks) or None,
        "culprit_node": list(truth.nodes) or None,
        "evidence": [line for line in truth.lines if len(line) >= _SHORTEST_EVIDENCE_CHARS],
        "action": truth.actions[0] if truth.actions else None,
        "alt_actions": list(truth.actions[1:]),
        "synthetic": True,
    }


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
