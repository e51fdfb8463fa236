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

    from analyzers.failures.events import Scan
    from analyzers.failures.topology import Topology
    from analyzers.types import Diagnosis, Echo, LogEvidence
    from schedmate.commands.diagnose_follow import Contract, Why
    from schedmate.config import Settings
    from schedmate.remembering import Remembering

_EVERY_S = 2.0
_SHOWN_ECHOES = 4
_ECHO_COLUMNS = 160
_FIELDS = (
    "category", "subcategory", "confidence", "culprit_ranks", "culprit_nodes", "node_proof", "evidence", "echoes",
    "retryable", "action", "summary", "explanation", "warnings", "past", "plan",
)  # fmt: skip


def diagnose(
    path: Annotated[Path, typer.Argument(help="A log file, or a folder with all files of one job.", metavar="PATH")],
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Show every line that was put aside.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown on stdout, for a ticket.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page with a picture, one HTML file.", metavar="FILE")
    ] = None,
    past: Annotated[bool, typer.Option("--past", help="Compare with earlier failures (see `failures`).")] = False,
    remember: Annotated[bool, typer.Option("--remember", help="Compare, and keep this one for later ones.")] = False,
    job: Annotated[str, typer.Option("--job", help="The job's id, where no file says it.")] = "",
    attempt: Annotated[int, typer.Option("--attempt", help="Which run of that job, from 0.", min=0, max=1_000_000)] = 0,
    user: Annotated[str, typer.Option("--user", help="Whose job it is.")] = "",
    name: Annotated[str, typer.Option("--name", help="The job's name.")] = "",
    nodes: Annotated[str, typer.Option("--nodes", help="Where it ran, as Slurm lists it: n[01-04],n9.")] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Tell failures while the logs are written, then the verdict.")
    ] = False,
    every: Annotated[
        float | None, typer.Option(help="With --follow: seconds between two looks (2).", min=0.2, max=3600)
    ] = None,
    for_: Annotated[
        float | None,
        typer.Option("--for", help="With --follow: stop after so many seconds.", min=0, show_default=False),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(help="With --follow: stop when nothing was written for so long.", min=0, show_default=False),
    ] = None,
) -> None:
    """Say why a job failed: which rank and node, the line that tells it, and what to do.

    Exit code: 0 the job is healthy, 1 a failure was found (or the cause stays unknown), 2 nothing could be read or
    written.

    With --follow, a failure is told once it has stood for 10 s (60 s where no line decides), and what comes of it; the
    verdict follows when the job has ended, --for or --idle is over, or at Ctrl-C.

    Example: schedmate diagnose slurm-4711.out
    """
    from analyzers.failures import moments
    from schedmate.config import load_settings
    from schedmate.recovery import with_plan
    from schedmate.refine import refine_diagnosis

    if json_ and markdown:
        raise UserError("--json and --markdown: one of the two", "call it twice")
    if not follow and (for_ is not None or idle is not None or every is not None):
        raise UserError("--every, --for and --idle go with --follow", "add --follow, or leave them out")
    if html is not None:
        _check_page(html)
    settings = load_settings()
    why: Why | None = None
    last: Diagnosis | None = None
    if follow:
        if markdown:
            raise UserError("--markdown does not go with --follow", "call it again when the job has ended")
        why, last = _followed(path, settings, every or _EVERY_S, for_, idle, as_json if json_ else None)
    try:
        static, scan, topology = _examine(path, settings)
    except UserError as error:
        if why is None or last is None:
            raise
        err().print(f"[yellow]warning:[/] {quoted(error.what)}; this was the verdict before", soft_wrap=True)
        _tell_last(last, why, as_json(last) if json_ else None)
        raise typer.Exit(0 if last.category == "none" else 1) from None
    found = refine_diagnosis(static, path, settings)
    if past or remember:
        from analyzers.failures.past import Told
        from schedmate.remembering import Remembering

        told = Told(job_id=job, attempt=attempt, user=user, name=name, nodes=_node_list(nodes))
        found = _beside_earlier(Remembering(settings, found, scan, topology, told, path), found, remember)
    found = with_plan(found, scan, topology, path)
    if markdown:
        from schedmate.diagnosis_report import markdown as as_markdown

        typer.echo(as_markdown(found, path.resolve().name), nl=False)
    elif json_ and why is not None:
        from schedmate.commands.diagnose_follow import print_event

        print_event("end", why, as_json(found))
    elif json_:
        print_json(as_json(found))
    else:
        _show(found, [(echo, 0) for echo in found.echoes] if all_ else _folded(found.echoes)[:_SHOWN_ECHOES])
    if html is not None:
        from schedmate.diagnosis_report import page
        from schedmate.files import write_whole

        write_whole(html, page(found, moments(scan, topology, static), path), "name another file with --html")
    raise typer.Exit(0 if found.category == "none" else 1)


def _tell_last(last: Diagnosis, why: Why, contract: dict[str, Any] | None) -> None:
    """The verdict that stood when the logs were lost."""
    if contract is None:
        _show(last, _folded(last.echoes)[:_SHOWN_ECHOES])
        return
    from schedmate.commands.diagnose_follow import print_event

    print_event("end", why, contract)


def _check_page(path: Path) -> None:
    """Refuse a page that can not be written before anything is read."""
    from schedmate.files import check_output

    check_output(path, "name another file with --html")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.absolute().parent}", "make it, or name another with --html")


def _followed(
    path: Path, settings: Settings, every_s: float, for_s: float | None, idle_s: float | None, contract: Contract | None
) -> tuple[Why, Diagnosis | None]:
    """Follow the logs until that is over. Why it is, and the last verdict that stood; it is then read as without it."""
    from schedmate.commands.diagnose_follow import follow, tell_end

    why, last = follow(path, settings, every_s, for_s, idle_s, contract)
    if contract is None:
        tell_end(why)
    return why, last


def _examine(path: Path, settings: Settings) -> tuple[Diagnosis, Scan, Topology]:
    """The verdict by the signatures that come with the program and those that an operator promoted."""
    from schedmate.signatures.use import examine_with_own

    found, scan, topology, warnings = examine_with_own(path, settings)
    for warning in warnings:
        err().print(f"[yellow]warning:[/] {quoted(warning)}", soft_wrap=True)
    return found, scan, topology


def _beside_earlier(earlier: Remembering, found: Diagnosis, remember: bool) -> Diagnosis:
    """The verdict in the light of earlier ones; a store that can not be used costs no verdict."""
    try:
        judged = earlier.compared()
        if not earlier.known:
            err().print(f"no earlier failures are known: {quoted(earlier.where_from)}", soft_wrap=True)
        if remember:
            err().print(f"kept: {quoted(earlier.keep())}", soft_wrap=True)
    except UserError as error:
        err().print(f"[yellow]warning:[/] {quoted(str(error))}", soft_wrap=True)
        return found
    return judged


def _node_list(written: str) -> tuple[str, ...]:
    from analyzers.failures.accounting import expand_nodes

    return expand_nodes("".join(written.split()))


def as_json(found: Diagnosis) -> dict[str, Any]:
    """The JSON contract (schemas/diagnose.schema.json), secrets in quoted lines taken out."""
    from prompts.redaction import redact_tree

    whole = plain(found)
    redacted: dict[str, Any] = redact_tree({name: whole[name] for name in _FIELDS})
    return redacted


def _show(found: Diagnosis, echoes: list[tuple[Echo, int]]) -> None:
    from analyzers.failures import cost_in_words
    from analyzers.failures.wording import look_like_a_cause

    screen = out()
    for warning in found.warnings:
        err().print(f"[yellow]warning:[/] {quoted(warning)}")
    colour = {"none": "green", "unknown": "yellow"}.get(found.category, "red")
    _line(screen, f"{_verdict(found, colour)}   confidence {found.confidence:.2f}")
    _line(screen, f"[bold]{quoted(found.summary)}[/]")
    for label, values in (("ranks", found.culprit_ranks), ("nodes", found.culprit_nodes)):
        if values:
            _line(screen, f"  {label}: {safe(', '.join(map(str, values)))}")
    if found.evidence:
        _evidence(screen, found.evidence, colour)
    if found.echoes:
        _line(screen, f"Put aside: {look_like_a_cause(len(found.echoes))}")
        for echo, more in echoes:
            _line(screen, f"  [dim]{quoted(echo.file)}:{echo.line}  {quoted(echo.text, _ECHO_COLUMNS)}[/]")
            _line(
                screen, f"    [italic]{quoted(echo.why)}[/]" + (f" [dim](and {more} more like it)[/]" if more else "")
            )
        left = len(found.echoes) - sum(1 + more for _, more in echoes)
        hidden = f"{left} more; " if left else ""
        if left or any(more for _, more in echoes):
            _line(screen, f"  [dim]... {hidden}--all shows every line[/]")
    for note in found.past:
        _line(screen, f"[bold]Before:[/] {quoted(note.says)}")
    retry = {True: "running it again may help", False: "running it again unchanged will not help", None: ""}
    _line(
        screen,
        f"[bold]Do:[/] {safe(found.action)}" + (f" ({retry[found.retryable]})" if retry[found.retryable] else ""),
    )
    _line(screen, quoted(found.explanation))
    if found.plan is not None:
        for number, step in enumerate(found.plan.steps, 1):
            _line(screen, f"  {number}. {quoted(step.says)}")
        if cost := cost_in_words(found.plan):
            _line(screen, f"  [dim]{quoted(cost)}[/]")


def _verdict(found: Diagnosis, colour: str) -> str:
    if found.category == "none":
        return f"[bold {colour}]healthy[/]"
    return f"[bold {colour}]{found.category}[/] / {safe(found.subcategory)}"


def _evidence(screen: Console, lines: tuple[LogEvidence, ...], colour: str) -> None:
    """The quoted lines: in a box on a terminal, else one a line, so that they can be searched and copied."""
    shown = [f"[dim]{quoted(e.file)}:{e.line}[/]  {quoted(e.text)}" for e in lines]
    first, *rest = shown
    if screen.is_terminal:
        from rich.panel import Panel

        screen.print(Panel("\n".join([f"[bold]{first}[/]", *rest]), title="evidence", title_align="left", style=colour))
        return
    _line(screen, "Evidence:")
    for text in shown:
        _line(screen, f"  {text}")


def _line(screen: Console, text: str) -> None:
    """One line; only a terminal wraps it."""
    screen.print(text, soft_wrap=not screen.is_terminal)


def quoted(text: str, most_columns: int | None = None) -> str:
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
