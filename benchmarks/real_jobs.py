"""Small real training and preprocessing runs on this machine's CPUs: what was predicted of each, and what it took.

    python -m benchmarks.real_jobs [--runs 72] [--seed 1] [--keep FILE] [--clock wall] [--first 20] [--only PROJECT]

The programs are those of benchmarks/data/real_jobs: PyTorch and scikit-learn, pandas and numpy, set up by argparse, a
configuration file, or the environment. Four users submit them one after the other with settings of their sweeps; some
have a typing error or ask for more memory than there is and end early, some stop when nothing gets better. Each runs
alone with one thread. Before it runs it is predicted by the ordinary pipeline without a language model, once with its
source tree and launch command (*source*) and once by user, name and limit alone (*metadata*); either learns from
exactly the runs before. Programs that need PyTorch are left out, and named, where it can not be imported.

``--keep FILE`` keeps what was measured, one JSON object a line; what is there already is not run again, so that a run
that was stopped goes on, and predictions can be tried anew without running anything. ``--clock cpu`` takes user and
system time for the duration: on a machine that others use, too, wall time is mostly theirs.

Of the runs after the first 20: *error* is the median of max(told, actual) / min(told, actual) of the 50 % quantile,
*inside* the share that took between its 10 and 90 % quantiles; the same of peak host memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Literal

from analyzers.history import MemoryHistoryStore
from analyzers.types import SourceFacts, Submission
from benchmarks.real_runs import DATA, USES_TORCH, Ask, Measured, asks, run
from predictors.types import Prediction
from prompts.errors import UserError
from schedmate.pipeline import Pipeline

CLOCKS = ("wall", "cpu")
WAYS = ("source", "metadata")

#: Between two runs.
_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """One run, and what was predicted of it, by `WAYS`. ``last_two_s``: the mean of the user's last two runs."""

    ask: Ask
    actual_s: float
    measured: Measured
    told: Mapping[str, Prediction]
    last_two_s: float | None


def walk(wanted: Sequence[Ask], measure: Callable[[Ask], Measured], clock: str) -> Iterator[Row]:
    """Each run in order: predicted, run, remembered. What is predicted rests on the runs before alone."""
    pipelines = {way: Pipeline(MemoryHistoryStore()) for way in WAYS}
    facts: dict[tuple[str, str], SourceFacts] = {}
    lasts: dict[str, list[float]] = {}
    now_s = 0.0
    for ask in wanted:
        submissions = {
            "source": Submission(
                ask.command,
                DATA / ask.project,
                ask.user,
                None,
                ask.name,
                limit_s=ask.limit_s,
                submit_s=now_s,
                env=ask.env,
            ),
            "metadata": Submission("", None, ask.user, None, ask.name, limit_s=ask.limit_s, submit_s=now_s),
        }
        key = ask.project, ask.words
        if key not in facts:
            facts[key] = pipelines["source"].facts(submissions["source"])
        known = {"source": facts[key], "metadata": SourceFacts()}
        told = {way: pipelines[way].predict(submissions[way], known[way]) for way in WAYS}
        found = measure(ask)
        actual_s = found.wall_s if clock == "wall" else found.cpu_s
        last = lasts.setdefault(ask.user, [])
        yield Row(ask, actual_s, found, told, fmean(last[-2:]) if last else None)
        last.append(actual_s)
        for way in WAYS:
            pipelines[way].record_outcome(
                ask.job_id,
                submissions[way],
                known[way],
                start_s=now_s,
                duration_s=actual_s,
                outcome=found.outcome,
                peak_host_memory_mib=found.peak_rss_mib,
            )
        now_s += actual_s + _PAUSE_S


def kept(
    path: Path | None, wanted: Sequence[Ask], *, of_others: Literal["refuse", "skip"] = "refuse"
) -> dict[str, Measured]:
    """What an earlier run of this program measured of these, by job. A last line that was cut is left out. `UserError`
    where the file is not of this program, or, unless these are skipped, of other runs."""
    if path is None or not path.exists():
        return {}
    commands = {ask.job_id: ask.words for ask in wanted}
    found: dict[str, Measured] = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            fields = json.loads(line)
            command, measured = fields.pop("command"), Measured(**fields)
        except (ValueError, TypeError, KeyError, AttributeError):
            if number == len(lines):
                break
            raise UserError(f"{path}:{number}: not a run that this program measured", "give another --keep") from None
        if commands.get(measured.job_id, command) != command:
            if of_others == "skip":
                continue
            raise UserError(f"{path}:{number}: {measured.job_id} is another run", "give the --seed it was made with")
        found[measured.job_id] = measured
    return found


class Measuring:
    """Runs what has not been measured yet, and keeps it."""

    def __init__(self, path: Path | None, wanted: Sequence[Ask]) -> None:
        self._path, self._known = path, kept(path, wanted)
        if path is not None and path.exists():
            text = path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            if whole != text:  # a line that was cut when an earlier run was stopped
                path.write_text(whole, encoding="utf-8")

    def __call__(self, ask: Ask) -> Measured:
        """What the run took."""
        if ask.job_id not in self._known:
            found = self._known[ask.job_id] = run(ask)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as out:
                    out.write(_line(found, ask.words))
        return self._known[ask.job_id]


def _line(measured: Measured, command: str) -> str:
    return json.dumps({**asdict(measured), "command": command}) + "\n"


def factor(told: float, actual: float) -> float:
    """By what factor a positive number is off, at least 1."""
    told, actual = max(told, 1e-3), max(actual, 1e-3)
    return max(told / actual, actual / told)


@dataclass(frozen=True, slots=True)
class Summary:
    """Over some runs, see the module; ``inside`` None where there is no interval."""

    runs: int
    error: float
    inside: float | None


def durations(rows: Sequence[Row], way: str) -> Summary:
    """Of the runtime; ``way`` is one of `WAYS`, or ``last two``."""
    if way not in WAYS:
        known = [(row.last_two_s, row.actual_s) for row in rows if row.last_two_s is not None]
        return Summary(len(known), median(factor(*pair) for pair in known) if known else math.nan, None)
    told = [(row.told[way].duration_s, row.actual_s) for row in rows]
    inside = fmean(each.p10 <= actual_s <= each.p90 for each, actual_s in told)
    return Summary(len(rows), median(factor(each.p50, actual_s) for each, actual_s in told), inside)


def memory(rows: Sequence[Row], way: str) -> Summary:
    """Of the peak host memory."""
    told = [(row.told[way].host_memory_mib, row.measured.peak_rss_mib) for row in rows]
    inside = fmean(each.low <= actual <= each.high for each, actual in told)
    return Summary(len(rows), median(factor(each.value, actual) for each, actual in told), inside)


def line(row: Row) -> str:
    """One run for people."""
    by_source, bare = row.told["source"], row.told["metadata"]
    told = by_source.duration_s
    return (
        f"{row.ask.job_id:<5} {row.ask.user:<4} {row.measured.outcome:<9} {row.actual_s:>6.1f} "
        f"{told.p10:>7.1f} {told.p50:>7.1f} {told.p90:>8.1f} {bare.duration_s.p50:>9.1f} "
        f"{row.measured.peak_rss_mib:>7.0f} {by_source.host_memory_mib.value:>8.0f} {by_source.outcome.failed:>6.0%}  "
        f"{row.ask.project}: {row.ask.words}"
    )


def report(rows: Sequence[Row]) -> Iterator[str]:
    """The summaries, a line each."""
    kinds = {"all": rows, "completed": [row for row in rows if row.measured.outcome == "completed"]}
    yield f"{'runs':<16} {'told by':<10} {'n':>3} {'error':>7} {'inside':>7} {'memory error':>13} {'inside':>7}"
    for kind, some in kinds.items():
        for way in (*WAYS, "last two") if some else ():
            found = durations(some, way)
            cells = f"{kind:<16} {way:<10} {found.runs:>3} {found.error:>7.2f}"
            if found.inside is not None:
                held = memory(some, way)
                cells += f" {found.inside:>7.0%} {held.error:>13.2f} {held.inside:>7.0%}"
            yield cells
    for way in WAYS:
        failed = [row.told[way].outcome.failed for row in rows if row.measured.outcome == "failed"]
        others = [row.told[way].outcome.failed for row in rows if row.measured.outcome != "failed"]
        if failed and others:
            told, rest = fmean(failed), fmean(others)
            yield f"chance of failing, {way}: {told:.0%} of the {len(failed)} that did, {rest:.0%} of the others"


def runnable(runs: int, seed: int, projects: Sequence[str], keep: Path | None) -> list[Ask]:
    """The runs that there are; without those of programs that need PyTorch if it can not be imported, unless all of
    them have been measured. `UserError` if none is left."""
    wanted = asks(runs, seed, projects)
    if importlib.util.find_spec("torch") is not None:
        return wanted
    without = [name for name in projects if not USES_TORCH[name]]
    known = kept(keep, wanted, of_others="skip")
    if all(ask.job_id in known for ask in wanted if ask.project not in without):
        return wanted
    print(f"left out: {', '.join(n for n in projects if n not in without)} (PyTorch, of the extra `local`, is missing)")
    if not without:
        raise UserError("there is nothing to run", "pip install -e '.[local]'")
    return asks(runs, seed, without)


def main(words: Sequence[str] | None = None) -> None:
    """Run what is not measured yet and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=72)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="file of what was measured")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--first", type=int, default=20, help="so many runs are learned from before any counts")
    parser.add_argument("--only", action="append", choices=sorted(USES_TORCH), help="a project; repeat for more")
    asked = parser.parse_args(words)
    wanted = runnable(asked.runs, asked.seed, asked.only or list(USES_TORCH), asked.keep)
    print(
        f"{'run':<5} {'user':<4} {'ended':<9} {'s':>6} {'p10':>7} {'p50':>7} {'p90':>8} {'bare p50':>9} "
        f"{'MiB':>7} {'told':>8} {'fails':>6}"
    )
    rows = []
    for row in walk(wanted, Measuring(asked.keep, wanted), asked.clock):
        rows.append(row)
        print(line(row), flush=True)
    counted = rows[asked.first :]
    if counted:
        ended = {how: sum(row.measured.outcome == how for row in rows) for how in ("completed", "failed", "timeout")}
        print(f"\n{len(rows)} runs ({ended}), {asked.clock} time; after the first {asked.first}:")
        print("\n".join(report(counted)))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"real_jobs: {error}")
