"""The run over all cases: what is done already, the engine, the rows, the summary."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from prompts.errors import UserError
from schedmate.batch.cases import Case, Found, content_digest
from schedmate.batch.results import Results, read_rows, write_parquet
from schedmate.batch.work import Row, diagnose_case, failed_row
from schedmate.config import Settings
from schedmate.files import check_output
from schedmate.ports import Engine, ItemFailed

#: Failures that are the machine's or ours and not the file's: the run says so in its exit code.
_TROUBLE = ("error", "crashed", "timeout")


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. ``timeout_s`` bounds each case; ``fresh`` starts over instead of going on."""

    out: Path
    parquet: Path | None
    workers: int
    timeout_s: float
    fresh: bool


@dataclass(slots=True)
class Summary:
    """What came of a run; the JSON contract of ``schedmate batch diagnose --json``."""

    cases: int
    diagnosed: int = 0
    failed: int = 0
    already_done: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    by_category: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    out: str = ""
    parquet: str | None = None

    @property
    def in_trouble(self) -> bool:
        """Whether a case came to nothing for another reason than that its file can not be read."""
        return any(self.failures.get(kind) for kind in _TROUBLE)


def run_batch(
    found: Found, options: Options, settings: Settings, engine: Engine, advance: Callable[[int], None]
) -> Summary:
    """Diagnose every case that has no row for its present content yet, and sum up over all.

    Interrupting it loses at most the cases being worked on; running it again goes on from there. Failed cases are
    tried again. Rows of cases that are not in the folder any more are kept.
    """
    start = time.perf_counter()
    if options.parquet is not None:
        _check_parquet(options.parquet, options.out)
    with Results(options.out) as results:
        here = {case.name: case for case in found.cases}
        done = results.keep((lambda row: False) if options.fresh else partial(_stands, here))
        waiting = [case for case in found.cases if case.name not in done]
        advance(len(found.cases) - len(waiting))
        work = partial(diagnose_case, settings=settings)
        running = engine.map(work, waiting, workers=options.workers, timeout_s=options.timeout_s)
        with closing(_closable(running)) as pairs:
            for case, outcome in pairs:
                if isinstance(outcome, ItemFailed):
                    outcome = failed_row(case, outcome.kind, outcome.message, 0.0)
                results.add(outcome)
                advance(1)
        if options.parquet is not None:
            write_parquet(results.rows(), options.parquet)
    summary = _summed_up(found, read_rows(options.out))
    summary.already_done = len(found.cases) - len(waiting)
    summary.seconds = round(time.perf_counter() - start, 3)
    summary.out = str(options.out)
    summary.parquet = str(options.parquet) if options.parquet else None
    return summary


def _check_parquet(path: Path, out: Path) -> None:
    """Find out before the work what would stop its last step."""
    check_output(path, "name another file with --parquet")
    if os.path.realpath(path) == os.path.realpath(out):
        raise UserError(f"{path}: both --out and --parquet", "name two files")


def _closable(pairs: Iterator[Any]) -> Any:
    """An iterator that can be closed, whatever the engine returned."""
    if hasattr(pairs, "close"):
        return pairs
    return (pair for pair in pairs)


def _stands(here: dict[str, Case], row: Row) -> bool:
    """Whether a row of an earlier run still stands: its case has the same content as then, or is not here."""
    case = here.get(row["case"])
    return case is None or (_succeeded(row) and _same(case, row))


def _succeeded(row: Row) -> bool:
    return row["status"] == "diagnosed" and isinstance(row.get("diagnosis"), dict)


def _same(case: Case, row: Row) -> bool:
    try:
        return row.get("sha256") == content_digest(case)
    except OSError:
        return False


def _summed_up(found: Found, rows: Iterable[Row]) -> Summary:
    summary = Summary(cases=len(found.cases), left_out=dict(sorted(found.left_out.items())))
    here = {case.name for case in found.cases}
    failures: Counter[str] = Counter()
    for row in rows:
        if row["case"] not in here:
            continue
        if not _succeeded(row):
            failures[(row.get("error") or {}).get("kind") or "error"] += 1
            continue
        summary.diagnosed += 1
        diagnosis = row["diagnosis"]
        entry = summary.by_category.setdefault(
            str(diagnosis.get("category")), {"count": 0, "retryable": 0, "subcategories": {}}
        )
        entry["count"] += 1
        entry["retryable"] += diagnosis.get("retryable") is True
        subcategory = str(diagnosis.get("subcategory") or "unspecified")
        entry["subcategories"][subcategory] = entry["subcategories"].get(subcategory, 0) + 1
    summary.failures = dict(sorted(failures.items()))
    summary.failed = sum(failures.values())
    summary.by_category = dict(sorted(summary.by_category.items(), key=lambda item: (-item[1]["count"], item[0])))
    return summary
