"""`schedmate failures`: what the ends of many jobs say about nodes and about jobs that keep failing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.console import err, out, plain, print_json, safe

if TYPE_CHECKING:
    from analyzers.failures.past import FileFailureStore, NodeStanding
    from analyzers.types import FailureRecord

app = typer.Typer(no_args_is_help=True, help="Nodes that end jobs, and jobs that keep failing, from many diagnoses.")
_Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
_Days = Annotated[float, typer.Option("--days", min=0.01, max=3650, help="So many days before the latest end.")]
_DAY_S = 86_400.0
_SHOWN = 20


@app.callback()
def _failures() -> None:
    """Nodes that end jobs, and jobs that keep failing, from many diagnoses."""


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="sacct or scontrol output of many jobs.", metavar="FILE")],
    json_: _Json = False,
) -> None:
    """Add how jobs ended and where they ran from the scheduler's accounting; diagnoses that are kept already stay.

    Example: sacct -aXP -S now-30days -o JobID,JobName,User,State,Start,End,NodeList > jobs.txt; schedmate failures
    import jobs.txt
    """
    from analyzers.failures.accounting import read_rows
    from analyzers.failures.past import records_of_rows
    from analyzers.logs.companions import LogFile
    from analyzers.logs.intake import read_lines

    source = LogFile(file, file.name, "scheduler")
    if not file.is_file():
        raise UserError(f"{file}: no such file", "give a file with the output of sacct")
    rows = read_rows(source, [line.text for line in read_lines(source)])
    if not rows:
        raise UserError(f"{file}: no row of a job in it", "sacct -aXP -o JobID,JobName,User,State,Start,End,NodeList")
    store = _store()
    records = list(records_of_rows(rows))
    before = len(store)
    store.add(records)
    answer = {
        "store": str(store.path), "file": str(file), "rows": len(rows), "used": len(records),
        "added": len(store) - before, "total": len(store),
    }  # fmt: skip
    if json_:
        print_json(answer)
        return
    left = len(rows) - len(records)
    if left:
        err().print(f"{left:,} rows left out: not ended yet, or without nodes (column NodeList)")
    out().print(f"{answer['added']:,} ends of jobs added; {answer['total']:,} in {safe(str(store.path))}")


@app.command("list")
def list_(
    user: Annotated[str, typer.Option("--user", help="Only this user's jobs.")] = "",
    node: Annotated[str, typer.Option("--node", help="Only jobs that ran on this node.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, the latest first.")] = _SHOWN,
    days: _Days = 30.0,
    json_: _Json = False,
) -> None:
    """List the latest failures.

    Example: schedmate failures list --node gpu017
    """
    store = _store()
    found = [
        record
        for record in store.since(_since(store, days))
        if record.category != "none" and (not user or record.user == user) and (not node or node in record.nodes)
    ]
    latest = found[::-1][:limit]
    if json_:
        print_json({"store": str(store.path), "total": len(found), "failures": [_as_json(each) for each in latest]})
        return
    from rich.table import Table

    table = Table("ended", "job", "user", "what", "category", "nodes", box=None, header_style="bold")
    for each in latest:
        nodes = " ".join(each.nodes[:4]) + (f" and {len(each.nodes) - 4} more" if len(each.nodes) > 4 else "")
        what = f"{each.category} / {each.subcategory}"
        table.add_row(_when(each.at_s), safe(each.job_id, 40), safe(each.user, 30), safe(each.work, 40), safe(what),
                      safe(nodes, 120))  # fmt: skip
    out().print(table if latest else "no failures")


@app.command()
def nodes(
    days: _Days = 30.0,
    total: Annotated[int, typer.Option("--total", min=0, help="Nodes of the cluster, where some never ran a job.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many nodes, the worst first.")] = _SHOWN,
    json_: _Json = False,
) -> None:
    """Rank nodes by how strongly their jobs' ends speak against them, and name those beyond chance.

    Exit code: 0 no node is named, 1 some are.

    Example: schedmate failures nodes --days 14
    """
    from analyzers.failures.past import ALPHA, rank_nodes

    store = _store()
    ranked = rank_nodes(store.since(_since(store, days)), nodes_total=total)
    named = [each.node for each in ranked if each.named]
    if json_:
        print_json(
            {"store": str(store.path), "days": days, "false_name_chance": ALPHA, "named": named,
             "nodes": [_standing(each) for each in ranked[:limit]]}
        )  # fmt: skip
    else:
        _show_nodes(ranked[:limit], named, days)
    raise typer.Exit(1 if named else 0)


@app.command()
def repeats(
    days: _Days = 30.0,
    times: Annotated[int, typer.Option("--times", min=2, help="From so many failures in the same way on.")] = 3,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, the most often first.")] = _SHOWN,
    json_: _Json = False,
) -> None:
    """Jobs that failed the same way again and again, where running them again does not help.

    Exit code: 0 there are none, 1 there are some.

    Example: schedmate failures repeats --times 5
    """
    from analyzers.failures.past import repeat_offenders

    store = _store()
    found = repeat_offenders(store.since(_since(store, days)), times)
    if json_:
        print_json({"store": str(store.path), "days": days, "total": len(found), "repeats": found[:limit]})
    elif not found:
        out().print("nothing failed the same way so often")
    else:
        from rich.table import Table

        table = Table("times", "user", "what", "category", "nodes", "latest jobs", box=None, header_style="bold")
        for each in found[:limit]:
            table.add_row(str(each.times), safe(each.user, 30), safe(each.work, 40),
                          safe(f"{each.category} / {each.subcategory}"), str(each.nodes),
                          safe(" ".join(each.jobs), 120))  # fmt: skip
        out().print(table)
        out().print("Do not run these again unchanged.")
    raise typer.Exit(1 if found else 0)


def _show_nodes(ranked: tuple[NodeStanding, ...], named: list[str], days: float) -> None:
    screen = out()
    if not ranked:
        screen.print("no node has had failures that may be its fault")
        return
    from rich.table import Table

    table = Table("node", "", "failures", "told", "in log", "users", "starts", "expected", "ends", "evidence", box=None,
                  header_style="bold")  # fmt: skip
    for each in ranked:
        low, mean, high = each.ends_share
        beside = f"or {' '.join(each.beside)}" if each.beside else ""
        table.add_row(
            safe(each.node, 60), "[red]bad[/]" if each.named else safe(beside, 80), str(each.failures),
            str(each.proven), str(each.by_log), str(each.users), str(each.starts), f"{each.expected:.1f}",
            f"{mean:.0%} ({low:.0%}-{high:.0%})", f"{each.evidence:.1f} of {each.needed:.1f}",
        )  # fmt: skip
    screen.print(table)
    screen.print(
        "failures: that may be the node's fault; told: by kernel or scheduler; in log: only by the job's own log; "
        "expected: of a good node; ends: share of its jobs that it ends; evidence: powers of ten",
        soft_wrap=True,
    )
    what = f"Take out of service and check: {' '.join(named)}" if named else "No node stands out beyond chance"
    screen.print(f"[bold]{safe(what)}[/] (last {days:g} days)", soft_wrap=True)


def _standing(each: NodeStanding) -> dict[str, Any]:
    low, mean, high = each.ends_share
    row: dict[str, Any] = plain(each)
    return row | {"ends_share": {"low": low, "mean": mean, "high": high}}


def _as_json(record: FailureRecord) -> dict[str, Any]:
    row: dict[str, Any] = plain(record)
    return row


def _store() -> FileFailureStore:
    from analyzers.failures.past import FileFailureStore
    from schedmate.config import load_settings

    return FileFailureStore(load_settings().path("failures.store"))


def _since(store: FileFailureStore, days: float) -> float:
    """So many days before the latest end: a store that was filled once can be asked years later."""
    latest = store.latest_s()
    return -1e18 if latest is None else latest - days * _DAY_S


def _when(at_s: float) -> str:
    try:
        return datetime.fromtimestamp(at_s).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{at_s:g}"


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.add_typer(app, name="failures")
