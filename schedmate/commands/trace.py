"""`schedmate trace`: what is in a trace, and traces in other forms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.commands.trace_flags import Columns, Delimiter, Format, TimeUnit, Timezone, TraceFile
from schedmate.console import err, out, print_json, progress, safe

if TYPE_CHECKING:
    from analyzers.types import JobRecord
    from schedmate.ports import TraceNotes
    from schedmate.trace_summary import Collected

app = typer.Typer(no_args_is_help=True, help="Look into job traces and convert them.")
_ANOTHER_PAGE = "name another file with --out"
_ANOTHER_OUT = "write to another file with --out"
#: Endings that pack what is written; those of `writer_for`.
_PACKED = (".gz", ".xz", ".zst", ".zstd")
_Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@app.callback()
def _trace() -> None:
    """Look into job traces and convert them."""


@app.command()
def describe(
    trace: TraceFile,
    page: Annotated[
        Path | None, typer.Option("--out", help="Write a page with pictures, one HTML file.", metavar="FILE")
    ] = None,
    format_: Format = None,
    column: Columns = None,
    time_unit: TimeUnit = "",
    delimiter: Delimiter = "",
    timezone: Timezone = "",
    json_: _Json = False,
) -> None:
    """Say what is in a trace, what is missing in it, and which policies and predictions that rules out.

    Example: schedmate trace describe jobs.sacct --timezone Europe/Berlin --out jobs.html
    """
    from schedmate.commands.trace_words import print_summary
    from schedmate.durations import zone_named
    from schedmate.files import check_output, refuse_inputs, write_whole
    from schedmate.repeats import jobs_once
    from schedmate.trace_summary import collect, summarise
    from schedmate.traces import format_name_of, open_trace, told_skips, trace_options

    options = trace_options(column or [], time_unit, delimiter, timezone)
    name = format_ or format_name_of(trace)

    def collected(records: Iterator[JobRecord], notes: TraceNotes) -> Collected:
        if page is not None:
            check_output(page, _ANOTHER_PAGE)
            refuse_inputs(page, [trace, *notes.beside], _ANOTHER_PAGE)
        with progress("reading", None) as advance:
            return collect(records, advance)

    jobs, notes = jobs_once(partial(open_trace, trace, name, options), collected)
    read_as = timezone or str(notes.header.get("timezone") or notes.local_zone or "UTC")
    zone = zone_named(read_as.removesuffix(" (assumed)"))
    summary: dict[str, Any] = {"file": str(trace), "format": name, **summarise(jobs, notes)}
    if page is not None:
        from schedmate.trace_summary.page import page as drawn
        from schedmate.trace_summary.summary import unix_begin_s

        write_whole(page, drawn(jobs, summary, unix_begin_s(jobs, notes), zone), _ANOTHER_PAGE)
    summary["page"] = None if page is None else str(page)
    if json_:
        print_json(summary)
        return
    for line in told_skips(trace, notes):
        err().print(safe(line), soft_wrap=True)
    print_summary(summary, zone)


@app.command()
def convert(
    trace: TraceFile,
    target: Annotated[Path, typer.Option("--out", help="The new file; .gz, .xz or .zst packs it.", metavar="FILE")],
    to: Annotated[
        str, typer.Option("--to", help="csv (the common form, keeps everything) or swf.", metavar="NAME")
    ] = "",
    begin: Annotated[str, typer.Option("--from", help="Only jobs submitted since then.", metavar="TIME")] = "",
    end: Annotated[str, typer.Option("--until", help="Only jobs submitted before.", metavar="TIME")] = "",
    format_: Format = None,
    column: Columns = None,
    time_unit: TimeUnit = "",
    delimiter: Delimiter = "",
    timezone: Timezone = "",
    json_: _Json = False,
) -> None:
    """Write a trace in another form, and say what that form could not take.

    Times of --from and --until are dates (in --timezone, else UTC), or seconds on the trace's own clock.

    Example: schedmate trace convert jobs.sacct --out jobs.csv
    """
    from schedmate.commands.replay_flags import ends_before_it_begins
    from schedmate.durations import parse_moment, zone_named
    from schedmate.files import check_output, refuse_inputs
    from schedmate.repeats import jobs_once
    from schedmate.trace_files import writer_for
    from schedmate.traces import open_trace, told_skips, trace_options, writer_named

    writer = writer_named(to or _form_of(target))
    check_output(target, _ANOTHER_OUT)
    options = trace_options(column or [], time_unit, delimiter, timezone)
    zone = zone_named(timezone or "UTC")
    first_s = parse_moment(begin, "--from", zone) if begin else float("-inf")
    last_s = parse_moment(end, "--until", zone) if end else float("inf")
    if begin and end and last_s <= first_s:
        raise ends_before_it_begins(begin, end)

    def written(records: Iterator[JobRecord], notes: TraceNotes) -> tuple[int, Mapping[str, int]]:
        refuse_inputs(target, [trace, *notes.beside], _ANOTHER_OUT)
        with writer_for(target) as stream:
            return writer.write(_submitted(records, first_s, last_s, notes, timezone), stream, notes)

    (count, lost), notes = jobs_once(partial(open_trace, trace, format_, options), written)
    if json_:
        print_json(
            {
                "file": str(trace),
                "out": str(target),
                "to": writer.name,
                "rows": notes.rows,
                "rows_skipped": notes.skipped,
                "remarks": notes.remarks,
                "written": count,
                "lost": lost,
            }
        )
        return
    for line in told_skips(trace, notes):
        err().print(safe(line), soft_wrap=True)
    out().print(f"{count:,} jobs written to {safe(str(target))} as {writer.name}")
    for what, jobs in lost.items():
        out().print(f"  lost of {jobs:,} jobs: {safe(what)}")


def _form_of(target: Path) -> str:
    """The writer that a file's ending stands for; the common form where it has none."""
    from schedmate.ports import TRACE_WRITERS, registered

    plain = target.with_suffix("") if target.suffix in _PACKED else target
    ending = plain.suffix.removeprefix(".").lower()
    known = sorted(registered(TRACE_WRITERS))
    if not ending or ending in known:
        return ending or "csv"
    raise UserError(f"{target}: .{ending} says no form to write ({', '.join(known)})", "say which with --to")


def _submitted(
    records: Iterator[JobRecord], first_s: float, last_s: float, notes: TraceNotes, timezone: str
) -> Iterator[JobRecord]:
    """Those submitted from ``first_s`` on and before ``last_s``; `UserError` where there are none."""
    from schedmate.commands.replay_flags import nothing_submitted

    found, earliest_s, latest_s = False, math.inf, -math.inf
    for record in records:
        earliest_s, latest_s = min(earliest_s, record.submit_s), max(latest_s, record.submit_s)
        if first_s <= record.submit_s < last_s:
            found = True
            yield record
    if not found:
        raise nothing_submitted(earliest_s, latest_s, notes.epoch_s, timezone)


@app.command()
def formats(json_: _Json = False) -> None:
    """List the formats that are read and written.

    Example: schedmate trace formats
    """
    from schedmate.ports import TRACE_FORMATS, TRACE_WRITERS, load, registered
    from schedmate.traces import format_names

    read = {name: _about(load(TRACE_FORMATS, name)) for name in format_names()}
    write = sorted(registered(TRACE_WRITERS))
    if json_:
        print_json({"read": read, "write": write})
        return
    for name, words in read.items():
        out().print(f"{name:12} {safe(words)}")
    out().print(f"written: {', '.join(write)}")


def _about(reader: Any) -> str:
    """The first sentence of the module that a reader stands in."""
    import sys

    return (sys.modules[reader.__module__].__doc__ or "").split("\n\n")[0].replace("\n", " ").replace("``", "")


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.add_typer(app, name="trace")
