"""`schedmate history`: the record of ended jobs that predictions learn from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.commands.trace_flags import Columns, Delimiter, Format, TimeUnit, Timezone
from schedmate.console import err, out, print_json, progress, safe, visible
from schedmate.durations import parse_moment, short_duration

if TYPE_CHECKING:
    from analyzers.history import FileHistoryStore
    from analyzers.types import JobRecord

app = typer.Typer(no_args_is_help=True, help="The record of ended jobs that predictions learn from.")
_Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
_User = Annotated[str | None, typer.Option("--user", help="Only this user's jobs.")]
_BATCH = 1_000
_BUSIEST_USERS = 10


@app.callback()
def _history() -> None:
    """The record of ended jobs that predictions learn from."""


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A trace: CSV, SWF, an sacct dump or another.", metavar="FILE")],
    format_name: Format = None,
    column: Columns = None,
    time_unit: TimeUnit = "",
    delimiter: Delimiter = "",
    timezone: Timezone = "",
    prefix: Annotated[
        str, typer.Option("--prefix", help="Put before each job id, to tell clusters with the same ids apart.")
    ] = "",
    json_: _Json = False,
) -> None:
    """Add the ended jobs of a trace to the local history; a job id that is known already is replaced.

    Example: schedmate history import jobs.csv --column gpus=num_workers
    """
    from schedmate.repeats import jobs_once
    from schedmate.traces import open_trace, told_skips, trace_options

    opened = partial(open_trace, file, format_name, trace_options(column or [], time_unit, delimiter, timezone))
    store = _store()
    # Taken whole before anything is written, so that a damaged file adds nothing.
    read, notes = jobs_once(opened, lambda records, _: list(_counted(records, prefix)))
    # Not by the length before and after: another import may run at the same time.
    added = len({record.job_id for record in read} - {record.job_id for record in store.records()})
    taken = store.add(read)
    total = len(store)
    for line in [*told_skips(file, notes), *store.warnings]:
        err().print(safe(line), soft_wrap=True)
    if json_:
        print_json(
            {
                "file": str(file),
                "store": str(store.path),
                "rows": notes.rows,
                "added": added,
                "replaced": taken - added,
                "skipped": notes.skipped,
                "skipped_examples": notes.examples,
                "total": total,
            }
        )
        return
    replaced = f", {taken - added:,} replaced" if taken > added else ""
    out().print(f"{added:,} jobs added{replaced}; {total:,} in {safe(str(store.path))}")


@app.command("list")
def list_(
    user: _User = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many jobs, the latest first.")] = 20,
    json_: _Json = False,
) -> None:
    """List the latest jobs.

    Example: schedmate history list --user bo --limit 5
    """
    store = _store()
    records = _of_user(store, user)
    latest = records[::-1][:limit]
    _warn(store)
    if json_:
        print_json({"store": str(store.path), "total": len(records), "jobs": latest})
        return
    from rich.table import Table

    table = Table("job", "user", "name", "gpus", "ran", "asked for", "ended", box=None, header_style="bold")
    for record in latest:
        table.add_row(
            safe(record.job_id, 40),
            safe(record.user or "-", 30),
            safe(record.name or "-", 40),
            str(record.gpus),
            "-" if record.duration_s is None else short_duration(record.duration_s),
            "-" if record.requested_s is None else short_duration(record.requested_s),
            record.outcome or "-",
        )
    out().print(table if latest else _nothing(user))


@app.command()
def show(user: _User = None, json_: _Json = False) -> None:
    """Summarise the history: how many jobs, how long they ran, how they ended, whose they were.

    Example: schedmate history show
    """
    store = _store()
    summary = _summary(_of_user(store, user))
    _warn(store)
    if json_:
        print_json({"store": str(store.path), **summary})
        return
    console = out()
    if not summary["jobs"]:
        console.print(_nothing(user))
        return
    ran = summary["duration_s"]
    console.print(f"{summary['jobs']:,} jobs of {summary['users']:,} users in {safe(str(store.path))}")
    if ran:
        console.print(f"half ran at most {short_duration(ran['p50'])}, 90 % at most {short_duration(ran['p90'])}")
    console.print("ended: " + ", ".join(f"{name} {count:,}" for name, count in summary["outcomes"].items()))
    for name, count in summary["busiest_users"].items():
        console.print(f"  {safe(name, 40)}: {count:,} jobs")


@app.command()
def remove(
    prefix: Annotated[str | None, typer.Option("--prefix", help="Only job ids that begin so.")] = None,
    before: Annotated[
        str | None, typer.Option("--before", help="Only jobs submitted before: 2026-10-05 or seconds.", metavar="TIME")
    ] = None,
    user: _User = None,
    all_: Annotated[bool, typer.Option("--all", help="Every job.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json_: _Json = False,
) -> None:
    """Take jobs out of the history; with several options, those that all of them hold for.

    Example: schedmate history remove --prefix test- --yes
    """
    store = _store()
    chosen = _chosen(prefix, before, user, all_)
    found = sum(1 for record in store.records() if chosen(record))
    _warn(store)
    # With --all the file is emptied even where no line of it can be read.
    if (found or all_) and not yes:
        _ask(f"Take {found:,} of {len(store):,} jobs out of {store.path}?")
    removed = store.clear() if all_ else store.remove(chosen) if found else 0
    if json_:
        print_json({"store": str(store.path), "removed": removed, "total": len(store)})
    else:
        out().print(f"{removed:,} jobs removed; {len(store):,} left in {safe(str(store.path))}")


def _chosen(prefix: str | None, before: str | None, user: str | None, all_: bool) -> Callable[[JobRecord], bool]:
    """Whether a job is one of those asked for; `UserError` where nothing, or everything and something, is asked for."""
    some = prefix is not None or before is not None or user is not None
    if some == all_:
        what = "both --all and a choice" if all_ else "nothing says which jobs"
        raise UserError(f"history remove: {what}", "give --prefix, --before or --user, or --all alone")
    before_s = parse_moment(before, "--before") if before is not None else None

    def chosen(record: JobRecord) -> bool:
        return (
            (prefix is None or record.job_id.startswith(prefix))
            and (user is None or record.user == user)
            and (before_s is None or record.submit_s < before_s)
        )

    return chosen


def _ask(question: str) -> None:
    """Ask on a terminal, end with 1 on a no; `UserError` where nobody is there to answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError("history remove: nobody to ask", "add --yes to remove without being asked")
    if not typer.confirm(visible(question), err=True):
        raise typer.Exit(1)


@app.command()
def path(json_: _Json = False) -> None:
    """Print where the history is kept.

    Example: schedmate history path
    """
    where = _store().path
    if json_:
        print_json({"store": str(where), "exists": where.exists()})
    else:
        typer.echo(visible(str(where)))


def _store() -> FileHistoryStore:
    from analyzers.history import FileHistoryStore
    from schedmate.config import load_settings

    return FileHistoryStore(load_settings().path("history.store"))


def _counted(records: Iterator[JobRecord], prefix: str) -> Iterator[JobRecord]:
    from dataclasses import replace

    with progress("reading", None) as advance:
        for number, record in enumerate(records, start=1):
            if number % _BATCH == 0:
                advance(_BATCH)
            yield replace(record, job_id=prefix + record.job_id) if prefix else record


def _of_user(store: FileHistoryStore, user: str | None) -> list[JobRecord]:
    return [record for record in store.records() if user is None or record.user == user]


def _warn(store: FileHistoryStore) -> None:
    for warning in store.warnings:
        err().print(f"warning: {safe(warning)}", soft_wrap=True)


def _nothing(user: str | None) -> str:
    return f"no jobs of {safe(user)}" if user else "no jobs yet; add some with `schedmate history import TRACE`"


def _summary(records: list[JobRecord]) -> dict[str, Any]:
    from collections import Counter

    durations = sorted(record.duration_s for record in records if record.duration_s is not None)
    users = Counter(record.user for record in records if record.user is not None)
    quantiles = {
        f"p{percent}": durations[min(len(durations) - 1, percent * len(durations) // 100)]
        for percent in (10, 50, 90, 99)
        if durations
    }
    return {
        "jobs": len(records),
        "users": len(users),
        "duration_s": quantiles or None,
        "outcomes": dict(Counter(record.outcome or "not recorded" for record in records).most_common()),
        "busiest_users": dict(users.most_common(_BUSIEST_USERS)),
    }


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.add_typer(app, name="history")
