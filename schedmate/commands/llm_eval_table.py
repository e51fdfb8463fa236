"""What `schedmate llm eval` tells people: a table a set, one of the ways of asking, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedmate.console import err, out, safe

_CHANGES = (
    ("added right", "added_right"),
    ("added wrong", "added_wrong"),
    ("mended", "mended"),
    ("broken", "broken"),
    ("can not be judged", "added_unjudged"),
)


def show(result: Mapping[str, Any]) -> None:
    """Print a result (docs/json/llm-eval.md)."""
    if result["synthetic"]:
        err().print(
            "These cases are synthetic, and the readers know nearly all of them: they show harm and cost, hardly gain. "
            "Label your own (docs/language-model.md).",
            soft_wrap=True,
        )
    if result["blind"]:
        err().print("Logs are read as if no rule knew their cause.", soft_wrap=True)
    for kind, title in (("jobs", "Jobs"), ("logs", "Logs")):
        if result[kind] is not None:
            _set(title, result[kind])
    if result["questions"]["asked"]:
        _rungs(result["questions"])
    for entry in result["rejected"]:
        out().print(f"not used {entry['count']} times: {safe(entry['why'])}", soft_wrap=True)
    out().print(f"[bold]{safe(result['says'])}[/]", soft_wrap=True)


def _set(title: str, found: Mapping[str, Any]) -> None:
    from rich.table import Table

    for why, count in found["skipped"].items():
        err().print(f"[yellow]warning:[/] {count} labels {safe(why)} were skipped", soft_wrap=True)
    if found["unreadable"]:
        err().print(f"[yellow]warning:[/] {found['unreadable']} cases could not be read and count as not said")
    asked = found["total"]["changes"] is not None
    took = f"{found['seconds_without']:.1f} s" + (f" without, {found['seconds_with']:.1f} s with" if asked else "")
    out().print(f"{title}: {found['cases']}, judged by {found['judged_by']}; {took}", soft_wrap=True)
    if not found["cases"]:
        return
    table = Table("", box=None, header_style="bold")
    heads = ["labelled", "precision", "recall", *(["precision with", "recall with"] if asked else [])]
    for head in (*heads, *(name for name, _ in _CHANGES if asked)):
        table.add_column(head, justify="right")
    shown = [line for line in found["by_name"] if not asked or any(line["changes"].values())]
    for line in shown:
        table.add_row(*_cells(line["name"], line, asked=asked))
    if title == "Jobs" or not shown:
        table.add_row(*_cells(found["judged_by"], found["total"], asked=asked), style="bold")
    out().print(table)
    if len(shown) < len(found["by_name"]):
        out().print(
            f"the other {len(found['by_name']) - len(shown)} are as they are without the model (--json has them)"
        )
    blamed = f"innocent ranks or nodes blamed: {found['blamed_without']}"
    if title == "Logs":
        out().print(blamed + (f" without, {found['blamed_with']} with" if asked else ""))


def _cells(name: str, line: Mapping[str, Any], *, asked: bool) -> list[str]:
    cells = [safe(name), str(line["wanted"])]
    for each in (line["without"], line["with_model"]):
        if each is not None:
            cells += [percent(each["precision"]), percent(each["recall"])]
    return cells + ([str(line["changes"][key]) for _, key in _CHANGES] if asked else [])


def _rungs(questions: Mapping[str, Any]) -> None:
    from rich.table import Table

    table = Table("asked by", box=None, header_style="bold")
    for head in ("requests", "accepted", "seconds", "tokens sent", "received"):
        table.add_column(head, justify="right")
    for row in questions["by_rung"]:
        if row["requests"]:
            numbers = (row["requests"], row["accepted"])
            tokens = (row["tokens_sent"], row["tokens_received"])
            table.add_row(row["rung"], *map(str, numbers), f"{row['seconds']:.1f}", *(f"{count:,}" for count in tokens))
    out().print(table)


def percent(share: float | None) -> str:
    """A share in per cent, or that there is none."""
    return "n/a" if share is None else f"{100 * share:.1f} %"
