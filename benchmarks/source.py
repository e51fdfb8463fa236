"""How long reading a job's source takes, cold and when the content is known, and how much memory.

LABELS is a JSON-lines file with one job a line: ``id``, ``repo`` (``owner/name``), ``workdir`` and ``launch``; TREES
holds each repository's tree in a folder ``owner+name``. One process reads every job: first with empty caches
(the slower columns: what a first submission costs), then again with what the first reading left in the cache folder.

Example: python -m benchmarks.source ../shared/data/source_facts/labels.jsonl /data/trees
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzers.source import analyze
from analyzers.source.cache import ReadingCache
from analyzers.source.program.parsing import forget_parsed
from analyzers.types import SourceFacts, Submission

#: What the reader promises for usual jobs, in ms and MiB.
COLD_MEDIAN_MS, COLD_P95_MS, WARM_MS, PEAK_MIB = 100.0, 500.0, 20.0, 500.0


@dataclass(frozen=True, slots=True)
class Job:
    """One line of the labels."""

    name: str
    submission: Submission


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall and processor time of one reading in ms, the best of the repeats."""

    wall_ms: float
    cpu_ms: float


def read_jobs(labels: Path, trees: Path) -> list[Job]:
    """The jobs whose tree is there; the others are told on stderr."""
    jobs = []
    for line in labels.read_text(encoding="utf-8").splitlines():
        if not line.strip():
            continue
        row = json.loads(line)
        folder = trees / row["repo"].replace("/", "+") / (row.get("workdir") or ".")
        if folder.is_dir():
            jobs.append(Job(row["id"], Submission(row["launch"], folder)))
        else:
            print(f"{row['id']}: no folder {folder}", file=sys.stderr)
    return jobs


def timed(action: Callable[[], SourceFacts], before: Callable[[], None], repeats: int) -> Timing:
    """The best of ``repeats`` runs of ``action``, each after ``before`` (which is not timed)."""
    wall, cpu = [], []
    for _ in range(repeats):
        before()
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        action()
        wall.append(1e3 * (time.perf_counter() - wall_start))
        cpu.append(1e3 * (time.process_time() - cpu_start))
    return Timing(min(wall), min(cpu))


def measure(jobs: Sequence[Job], repeats: int) -> list[tuple[Job, Timing, Timing]]:
    """Each job's reading with empty caches, and again with its content known."""
    measured = []
    with tempfile.TemporaryDirectory(prefix="schedmate-bench-") as folder:
        cache = ReadingCache(Path(folder), limit_bytes=1 << 30)

        def emptied() -> None:
            forget_parsed()
            cache.clear()

        for job in jobs:

            def read(submission: Submission = job.submission) -> SourceFacts:
                return analyze(submission, cache)

            cold = timed(read, emptied, repeats)
            measured.append((job, cold, timed(read, lambda: None, repeats)))
    return measured


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def peak_mib() -> float:
    """The process's highest resident memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; exit 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("trees", type=Path)
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many runs counts (default 3)")
    parser.add_argument("--jobs", action="store_true", help="a line for every job as well")
    arguments = parser.parse_args(argv)
    jobs = read_jobs(arguments.labels, arguments.trees)
    if not jobs:
        print("no job of these labels has its tree there", file=sys.stderr)
        return 2
    analyze(jobs[0].submission)  # modules are loaded once for the life of a service
    base_mib = peak_mib()
    measured = measure(jobs, max(1, arguments.repeats))
    if arguments.jobs:
        print(f"{'job':44} {'cold ms':>9} {'cpu ms':>9} {'known ms':>9}")
        for job, cold, warm in sorted(measured, key=lambda row: -row[1].wall_ms):
            print(f"{job.name[:44]:44} {cold.wall_ms:9.1f} {cold.cpu_ms:9.1f} {warm.wall_ms:9.1f}")
    print(f"{len(measured)} jobs, best of {arguments.repeats}")
    print(f"{'ms':24} {'median':>9} {'p95':>9} {'max':>9}")
    columns = {
        "cold": [cold.wall_ms for _, cold, _ in measured],
        "cold, processor time": [cold.cpu_ms for _, cold, _ in measured],
        "content known": [warm.wall_ms for _, _, warm in measured],
    }
    for title, values in columns.items():
        print(f"{title:24} {quantile(values, 0.5):9.1f} {quantile(values, 0.95):9.1f} {max(values):9.1f}")
    print(f"peak memory {peak_mib():.0f} MiB ({base_mib:.0f} MiB before the jobs)")
    held = (
        quantile(columns["cold"], 0.5) < COLD_MEDIAN_MS
        and quantile(columns["cold"], 0.95) < COLD_P95_MS
        and max(columns["content known"]) < WARM_MS
        and peak_mib() < PEAK_MIB
    )
    print(
        f"median < {COLD_MEDIAN_MS:g}, p95 < {COLD_P95_MS:g}, known < {WARM_MS:g} ms, memory < {PEAK_MIB:g} MiB: {held}"
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
