"""`schedmate diagnose`: the verdict first, then the line that tells it, what was put aside and why, what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.console import err, out, plain, print_json, safe

if TYPE_CHECKING:
    from rich.console import Console

    from analyzers.types import Diagnosis, Echo, LogEvidence

_SHOWN_ECHOES = 4
_ECHO_COLUMNS = 160
_FIELDS = (
    "category", "subcategory", "confidence", "culprit_ranks", "culprit_nodes", "node_proof", "evidence", "echoes",
    "retryable", "action", "summary", "explanation", "warnings",
)  # fmt: skip


def diagnose(
    path: Annotated[Path, typer.Argument(help="A log file, or a folder with all files of one job.", metavar="PATH")],
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Show every line that was put aside.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown on stdout, for a ticket.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page with a picture, one HTML file.", metavar="FILE")
    ] = None,
) -> None:
    """Say why a job failed: which rank and node, the line that tells it, and what to do.

    Exit code: 0 the job is healthy, 1 a failure was found (or the cause stays unknown), 2 nothing could be read or
    written.

    Example: schedmate diagnose slurm-4711.out
    """
    from analyzers.failures import investigate
    from schedmate.config import load_settings
    from schedmate.refine import refine_diagnosis

    if json_ and markdown:
        raise UserError("--json and --markdown: one of the two", "call it twice")
    static, moments = investigate(path)
    found = refine_diagnosis(static, path, load_settings())
    if html is not None:
        from schedmate.diagnosis_report import page
        from schedmate.files import write_whole

        write_whole(html, page(found, moments, path), "name another file with --html")
    if markdown:
        from schedmate.diagnosis_report import markdown as as_markdown

        typer.echo(as_markdown(found, path.resolve().name), nl=False)
    elif json_:
        print_json(as_json(found))
    else:
        _show(found, [(echo, 0) for echo in found.echoes] if all_ else _folded(found.echoes)[:_SHOWN_ECHOES])
    raise typer.Exit(0 if found.category == "none" else 1)


def as_json(found: Diagnosis) -> dict[str, Any]:
    """The JSON contract (schemas/diagnose.schema.json), secrets in quoted lines taken out."""
    from prompts.redaction import redact_tree

    whole = plain(found)
    redacted: dict[str, Any] = redact_tree({name: whole[name] for name in _FIELDS})
    return redacted


def _show(found: Diagnosis, echoes: list[tuple[Echo, int]]) -> None:
    from analyzers.failures.wording import look_like_a_cause

    screen = out()
    for warning in found.warnings:
        err().print(f"[yellow]warning:[/] {_quoted(warning)}")
    colour = {"none": "green", "unknown": "yellow"}.get(found.category, "red")
    _line(screen, f"{_verdict(found, colour)}   confidence {found.confidence:.2f}")
    _line(screen, f"[bold]{_quoted(found.summary)}[/]")
    for label, values in (("ranks", found.culprit_ranks), ("nodes", found.culprit_nodes)):
        if values:
            _line(screen, f"  {label}: {safe(', '.join(map(str, values)))}")
    if found.evidence:
        _evidence(screen, found.evidence, colour)
    if found.echoes:
        _line(screen, f"Put aside: {look_like_a_cause(len(found.echoes))}")
        for echo, more in echoes:
            _line(screen, f"  [dim]{_quoted(echo.file)}:{echo.line}  {_quoted(echo.text, _ECHO_COLUMNS)}[/]")
            _line(
                screen, f"    [italic]{_quoted(echo.why)}[/]" + (f" [dim](and {more} more like it)[/]" if more else "")
            )
        left = len(found.echoes) - sum(1 + more for _, more in echoes)
        hidden = f"{left} more; " if left else ""
        if left or any(more for _, more in echoes):
            _line(screen, f"  [dim]... {hidden}--all shows every line[/]")
    retry = {True: "running it again may help", False: "running it again unchanged will not help", None: ""}
    _line(
        screen,
        f"[bold]Do:[/] {safe(found.action)}" + (f" ({retry[found.retryable]})" if retry[found.retryable] else ""),
    )
    _line(screen, _quoted(found.explanation))


def _verdict(found: Diagnosis, colour: str) -> str:
    if found.category == "none":
        return f"[bold {colour}]healthy[/]"
    return f"[bold {colour}]{found.category}[/] / {safe(found.subcategory)}"


def _evidence(screen: Console, lines: tuple[LogEvidence, ...], colour: str) -> None:
    """The quoted lines: in a box on a terminal, else one a line, so that they can be searched and copied."""
    quoted = [f"[dim]{_quoted(e.file)}:{e.line}[/]  {_quoted(e.text)}" for e in lines]
    first, *rest = quoted
    if screen.is_terminal:
        from rich.panel import Panel

        screen.print(Panel("\n".join([f"[bold]{first}[/]", *rest]), title="evidence", title_align="left", style=colour))
        return
    _line(screen, "Evidence:")
    for text in quoted:
        _line(screen, f"  {text}")


def _line(screen: Console, text: str) -> None:
    """One line; only a terminal wraps it."""
    screen.print(text, soft_wrap=not screen.is_terminal)


def _quoted(text: str, most_columns: int | None = None) -> str:
    """Untrusted text without secrets and control characters, shortened visibly."""
    from prompts.redaction import redact

    clean = redact(text)
    if most_columns is not None and len(clean) > most_columns:
        clean = clean[: most_columns - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
    return safe(clean)


def _folded(echoes: tuple[Echo, ...]) -> list[tuple[Echo, int]]:
    """Lines of one file that differ only in their numbers as one, with how many more there are."""
    groups: dict[tuple[str, str], list[Echo]] = {}
    for echo in echoes:
        groups.setdefault((echo.file, re.sub(r"\d+", "#", echo.text)), []).append(echo)
    return [(group[0], len(group) - 1) for group in groups.values()]


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(diagnose)
