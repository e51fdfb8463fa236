"""`schedmate llm eval`: whether the configured language model is worth it, on labelled jobs and logs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.console import err, print_json, progress

if TYPE_CHECKING:
    from schedmate.config import Settings
    from schedmate.evaluation.cases import Cases
    from schedmate.evaluation.kept import KeptRows
    from schedmate.evaluation.run import Row

_BAD = ("no_answer", "harms")


def evaluate(
    jobs: Annotated[
        Path | None, typer.Option("--jobs", help="Labelled jobs, JSON lines.", metavar="LABELS.jsonl")
    ] = None,
    trees: Annotated[Path | None, typer.Option("--trees", help="Folder of their source trees.", metavar="DIR")] = None,
    logs: Annotated[
        Path | None, typer.Option("--logs", help="Labelled logs, JSON lines.", metavar="CASES.jsonl")
    ] = None,
    log_files: Annotated[
        Path | None, typer.Option("--log-files", help="Folder of the logs that labels name.", metavar="DIR")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="No more than so many jobs, and logs.", min=1, max=100_000)] = None,
    blind: Annotated[
        bool, typer.Option("--blind", help="Logs as if no rule knew their cause: what the model does on news.")
    ] = False,
    kept: Annotated[
        Path | None,
        typer.Option("--out", help="Keep each case here as it is done; a second run goes on.", metavar="FILE"),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Read labelled jobs and logs without the configured model and with it: what it adds, breaks, costs and takes.

    The model is only asked about logs that the rules are unsure of; --blind asks it about all that failed. Without
    --jobs and --logs a small synthetic set is used, of which the readers know nearly all. Exit code 1: the model does
    harm, or no answer of it could be used.

    Example: schedmate --set llm.provider=openai --set llm.model=M llm eval --jobs LABELS.jsonl --trees DIR
    """
    from schedmate.config import load_settings
    from schedmate.evaluation.kept import KeptRows
    from schedmate.files import refuse_inputs

    _refuse_halves(jobs, trees, logs, log_files)
    settings = load_settings()
    if kept is not None:
        refuse_inputs(kept, [each for each in (jobs, logs) if each is not None], "choose another file with --out")
    with tempfile.TemporaryDirectory(prefix="schedmate-eval-") as scratch:
        sets = _sets(jobs, trees, logs, log_files, limit, Path(scratch))
        rows = None if kept is None else KeptRows(kept)
        try:
            result, interrupted = _run(sets, settings, rows, blind=blind)
        finally:
            if rows is not None:
                rows.close()
    result |= {"synthetic": jobs is None and logs is None, "blind": blind}
    _tell(result, json_=json_)
    if interrupted:
        err().print("interrupted" + ("" if kept is None else "; run the same command again to go on"))
        raise KeyboardInterrupt
    if result["verdict"] in _BAD:
        raise typer.Exit(1)


def _refuse_halves(jobs: Path | None, trees: Path | None, logs: Path | None, log_files: Path | None) -> None:
    if (jobs is None) != (trees is None):
        raise UserError(
            "--jobs and --trees belong together", "give the labels with --jobs and their trees with --trees"
        )
    if log_files is not None and logs is None:
        raise UserError("--log-files without --logs", "give the labels with --logs")


def _sets(
    jobs: Path | None, trees: Path | None, logs: Path | None, log_files: Path | None, limit: int | None, scratch: Path
) -> dict[str, Cases]:
    from schedmate.evaluation.cases import job_cases, log_cases
    from schedmate.evaluation.synthetic import synthetic_cases

    if jobs is None and logs is None:
        return dict(zip(("jobs", "logs"), synthetic_cases(scratch, limit), strict=True))
    found = {}
    if jobs is not None and trees is not None:
        found["jobs"] = job_cases(jobs, trees, limit)
    if logs is not None:
        found["logs"] = log_cases(logs, log_files, limit)
    return found


def _run(
    sets: Mapping[str, Cases], settings: Settings, kept: KeptRows | None, *, blind: bool
) -> tuple[dict[str, Any], bool]:
    """(The result, whether it was interrupted and so is one of the cases that were done)."""
    from prompts.redaction import redact
    from schedmate.evaluation.report import Prices
    from schedmate.evaluation.verdict import result_of

    asked = settings.text("llm.provider") != "none"
    rows: dict[str, list[Row]] = {kind: [] for kind in sets}
    total = sum(len(each.cases) for each in sets.values())
    interrupted = False
    with progress("evaluating", total) as advance:
        try:
            for kind, found in sets.items():
                _read(found, settings, kept, rows[kind], advance, blind=blind and kind == "logs")
        except KeyboardInterrupt:
            interrupted = True
    prices = Prices(
        settings.number("llm.price_sent"), settings.number("llm.price_received"), settings.number("llm.wait_s")
    )
    skipped = {kind: dict(found.skipped) for kind, found in sets.items()}
    result = {
        "provider": settings.text("llm.provider"),
        "model": redact(settings.text("llm.model")) if asked else None,
        "base_url": redact(settings.text("llm.base_url")) if asked else None,
        "cases": total,
        "done": sum(len(each) for each in rows.values()),
        **result_of(rows, skipped, prices, asked=asked),
    }
    return result, interrupted


def _read(
    found: Cases,
    settings: Settings,
    kept: KeptRows | None,
    rows: list[Row],
    advance: Callable[[int], None],
    *,
    blind: bool,
) -> None:
    """Fill ``rows`` with what is kept, then with what is read now; what was read stays in it when interrupted."""
    from schedmate.evaluation.run import key_of, rows_of
    from schedmate.language_model import gateway_for

    gateway = None if settings.text("llm.provider") == "none" else gateway_for(settings)
    model = _identity(settings) + (" blind" if blind else "")
    keys = [key_of(case, model) for case in found.cases]
    done = {} if kept is None else kept.done(keys)
    rows += done.values()
    advance(len(done))
    left = [case for case, key in zip(found.cases, keys, strict=True) if key not in done]
    for row in rows_of(left, settings, gateway, model, blind=blind):
        if kept is not None:
            kept.add(row)
        rows.append(row)
        advance(1)


def _identity(settings: Settings) -> str:
    """What must be the same for a row that was kept to stand for one that would be read now."""
    from importlib.metadata import version

    if settings.text("llm.provider") == "none":
        return f"none {version('schedmate')}"
    from prompts.templates import load_template

    asked = [repr(load_template(name)) for name in ("read_source", "explore_source", "refine_diagnosis")]
    names = ("llm.provider", "llm.model", "llm.base_url")
    limits = [settings.number("llm.timeout_s"), *map(settings.integer, ("llm.tokens_per_call", "llm.looks"))]
    return " ".join([*(settings.text(name) for name in names), *map(str, limits), *asked, version("schedmate")])


def _tell(result: dict[str, Any], *, json_: bool) -> None:
    if json_:
        print_json(result)
        return
    from schedmate.commands.llm_eval_table import show

    show(result)


def register(llm: typer.Typer) -> None:
    """Add this command to the group `llm`."""
    llm.command("eval")(evaluate)
