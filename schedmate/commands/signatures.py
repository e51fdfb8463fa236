"""`schedmate signatures`: failure signatures, an operator's own among them, and whether they hold."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prompts.errors import UserError
from schedmate.commands.signatures_propose import propose
from schedmate.commands.signatures_shown import numbers_of, row_of, show_review, show_test, trial_of, words_of
from schedmate.console import err, out, print_json, progress, safe

if TYPE_CHECKING:
    from analyzers.failures import Signature
    from schedmate.signatures import Entry, SignatureFolder, Trial

app = typer.Typer(no_args_is_help=True, help="Failure signatures: those that come with the program and your own.")
_Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
_Corpus = Annotated[Path | None, typer.Option("--corpus", help="Folder of stored logs to try them on.", metavar="DIR")]
_Labels = Annotated[
    Path | None, typer.Option("--labels", help="Labels of those logs, JSON lines.", metavar="CASES.jsonl")
]
_Id = Annotated[str, typer.Argument(help="The id of a candidate or promoted signature.", metavar="ID")]


@app.callback()
def _signatures() -> None:
    """Failure signatures: those that come with the program and your own."""


@app.command("list")
def list_(
    family: Annotated[str, typer.Option("--family", help="Only this family.")] = "",
    state: Annotated[str, typer.Option("--state", help="Only shipped, candidate or promoted ones.")] = "",
    json_: _Json = False,
) -> None:
    """List signatures with family, role, category and state.

    Example: schedmate signatures list --state candidate
    """
    from schedmate.signatures.folder import Entry, shipped_signatures

    if state not in ("", "shipped", "candidate", "promoted"):
        raise UserError(f"--state {state}: no such state", "shipped, candidate or promoted")
    folder = _folder()
    entries = [*folder.entries(), *(Entry(each, "shipped") for each in shipped_signatures())]
    _warn(folder)
    shown = [
        row_of(each)
        for each in entries
        if (not family or each.signature.family == family) and (not state or each.state == state)
    ]
    if json_:
        print_json({"folder": str(folder.path), "signatures": shown})
        return
    from rich.table import Table

    table = Table("id", "family", "role", "category", "state", "precision", "refused", box=None, header_style="bold")
    for row in shown:
        precision = "-" if row["precision"] is None else f"{row['precision']:.0%} of {row['known_logs']}"
        table.add_row(*(safe(str(row[name])) for name in ("id", "family", "role", "category", "state")), precision,
                      safe(row["refused"], 120))  # fmt: skip
    out().print(table if shown else "none")


@app.command()
def test(
    ids: Annotated[list[str] | None, typer.Argument(help="Only these; all without.", metavar="ID")] = None,
    corpus: _Corpus = None,
    labels: _Labels = None,
    json_: _Json = False,
) -> None:
    """Run signatures against their own samples, and with --corpus against stored logs.

    Exit code: 0 all hold, 1 a sample is wrong, or a healthy log or one with another cause was taken.

    Example: schedmate signatures test --corpus /var/log/jobs
    """
    from analyzers.failures.proving import sample_faults
    from schedmate.signatures.folder import shipped_signatures

    folder, shipped = _folder(), shipped_signatures()
    entries = {entry.signature.id: entry for entry in folder.entries()}
    _warn(folder)
    own = [entry.signature for entry in entries.values()]
    every = {each.id: each for each in (*shipped, *own)}
    missing = [name for name in ids or () if name not in every]
    if missing:
        raise UserError(f"{missing[0]}: no signature has that id", "see `schedmate signatures list`")
    chosen = [every[name] for name in ids] if ids else list(every.values())
    faults = sample_faults(chosen, tuple(every.values()))
    trial = _try(folder, shipped, chosen, corpus, labels)
    for name, measured in trial.by_id.items() if trial is not None else ():
        if name in entries and measured.precision is not None:
            folder.note(entries[name], measured=numbers_of(measured))
    bad = sorted(name for name, m in (trial.by_id if trial is not None else {}).items() if m.wrong or m.healthy)
    if json_:
        print_json({"tested": len(chosen), "faults": faults, "corpus": None if trial is None else trial_of(trial)})
    else:
        show_test(len(chosen), faults, trial, bad)
    raise typer.Exit(1 if faults or bad else 0)


@app.command()
def add(
    file: Annotated[Path, typer.Argument(help="A YAML file as docs/adding-a-signature.md has it.", metavar="FILE")],
    json_: _Json = False,
) -> None:
    """Add signatures as candidates: they do nothing until they are promoted.

    Example: schedmate signatures add mine.yaml
    """
    import yaml

    from schedmate.files import read_small
    from schedmate.signatures.folder import rows_of, shipped_signatures
    from schedmate.yaml_once import TwiceError, load_once

    try:
        tree = load_once(read_small(file, "see docs/adding-a-signature.md"))
    except (yaml.YAMLError, RecursionError) as error:
        why = f" ({error.problem})" if isinstance(error, TwiceError) else ""
        raise UserError(f"{file}: not valid YAML{why}", "see docs/adding-a-signature.md") from None
    folder, shipped = _folder(), shipped_signatures()
    about = {"proposed_by": "operator", "at": _today()}
    added = [folder.add(row, about, shipped).signature.id for row in rows_of(tree, str(file))]
    if json_:
        print_json({"folder": str(folder.path), "added": added})
    else:
        out().print(f"candidates: {safe(' '.join(added))}; see `schedmate signatures review ID --corpus DIR`")


@app.command()
def review(name: _Id, corpus: _Corpus = None, labels: _Labels = None, json_: _Json = False) -> None:
    """Show a signature of yours: who proposed it, what it fits, what stands against promoting it.

    Exit code: 0 it can be promoted, 1 something stands against it.

    Example: schedmate signatures review nic-gone --corpus /var/log/jobs
    """
    from schedmate.signatures.folder import shipped_signatures

    folder, shipped = _folder(), shipped_signatures()
    entry = folder.find(name)
    trial = _try(folder, shipped, [entry.signature], corpus, labels)
    against = _against(entry, shipped, folder, trial)
    if json_:
        print_json(
            {**row_of(entry), "pattern": entry.signature.pattern, "says": entry.signature.says,
             "match": entry.signature.match, "reject": entry.signature.reject, "about": words_of(entry.about),
             "corpus": None if trial is None else trial_of(trial), "against": against}
        )  # fmt: skip
    else:
        show_review(entry, trial, against)
    raise typer.Exit(1 if against else 0)


@app.command()
def promote(
    name: _Id,
    corpus: _Corpus = None,
    labels: _Labels = None,
    word: Annotated[
        str, typer.Option("--word", help="Your reason, in the place of a measured precision.", metavar="WHY")
    ] = "",
    json_: _Json = False,
) -> None:
    """Let `diagnose` use a candidate: by its precision on a corpus, or on your word. Its samples must hold either way.

    Exit code: 0 promoted, 1 refused; the reason is kept.

    Example: schedmate signatures promote nic-gone --word "seen on three nodes, confirmed by the vendor"
    """
    from schedmate.signatures.folder import shipped_signatures

    folder, shipped = _folder(), shipped_signatures()
    entry = folder.find(name)
    if entry.state == "promoted":
        raise UserError(f"{name}: is promoted already", "take it out with `schedmate signatures remove`")
    trial = _try(folder, shipped, [entry.signature], corpus, labels)
    against = _against(entry, shipped, folder, trial, word=word)
    if against:
        folder.note(entry, refused=against, refused_at=_today())
    else:
        measured = {} if trial is None else {"measured": numbers_of(trial.by_id[name])}
        folder.promote(entry, promoted_at=_today(), **({"word": word} if word else {}), **measured)
    if json_:
        print_json({"id": name, "promoted": not against, "against": against})
    elif against:
        out().print(f"[red]refused:[/] {safe('; '.join(against))}", soft_wrap=True)
    else:
        out().print(f"{safe(name)} is used by `schedmate diagnose` from now on")
    raise typer.Exit(1 if against else 0)


@app.command()
def remove(name: _Id, json_: _Json = False) -> None:
    """Take out a candidate or a promoted signature.

    Example: schedmate signatures remove nic-gone
    """
    folder = _folder()
    folder.remove(folder.find(name))
    if json_:
        print_json({"id": name, "removed": True})
    else:
        out().print(f"{safe(name)} is gone")


def _against(
    entry: Entry, shipped: tuple[Signature, ...], folder: SignatureFolder, trial: Trial | None, word: str = ""
) -> list[str]:
    """What stands against a promotion, in words."""
    from analyzers.failures.proving import sample_faults

    own = [other.signature for other in folder.promoted() if other.signature.id != entry.signature.id]
    faults = sample_faults([entry.signature], (*shipped, *own, entry.signature))
    against = faults.get(entry.signature.id, [])
    if word:
        return against
    if trial is None:
        return [*against, "nothing was measured: give --corpus, or your word with --word"]
    why_not = trial.by_id[entry.signature.id].why_not()
    return [*against, why_not] if why_not else against


def _try(
    folder: SignatureFolder, shipped: tuple[Signature, ...], tried: list[Signature], corpus: Path | None,
    labels: Path | None,
) -> Trial | None:  # fmt: skip
    if corpus is None:
        if labels is not None:
            raise UserError("--labels without --corpus", "name the folder of the logs with --corpus")
        return None
    from schedmate.signatures import try_signatures

    known = {each.id for each in shipped}
    promoted = (entry.signature for entry in folder.promoted() if entry.signature.id not in known)
    active = (*shipped, *promoted)
    with progress("logs", None) as advance:
        return try_signatures(active, tried, corpus, labels, advance)


def _folder() -> SignatureFolder:
    from schedmate.config import load_settings
    from schedmate.signatures import SignatureFolder

    return SignatureFolder(load_settings().path("signatures.dir"))


def _warn(folder: SignatureFolder) -> None:
    for warning in folder.warnings:
        err().print(f"warning: {safe(warning)}", soft_wrap=True)


def _today() -> str:
    return time.strftime("%Y-%m-%d")


app.command()(propose)


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.add_typer(app, name="signatures")
