"""What `schedmate signatures` prints, for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedmate.console import out, safe

if TYPE_CHECKING:
    from schedmate.signatures import Entry, Measured, Trial


def show_test(tested: int, faults: dict[str, list[str]], trial: Trial | None, bad: list[str]) -> None:
    """The outcome of `test`."""
    screen = out()
    for name, found in faults.items():
        screen.print(f"[red]{safe(name)}[/]: {safe('; '.join(found))}", soft_wrap=True)
    screen.print(f"{tested:,} signatures on their own samples: {'all hold' if not faults else f'{len(faults)} fail'}")
    if trial is None:
        return
    fired = sum(1 for measured in trial.by_id.values() if measured.logs)
    screen.print(f"{trial.logs:,} logs, {trial.unreadable} of them unreadable: {fired:,} signatures fit a line there")
    for name in bad:
        screen.print(f"[yellow]{safe(name)}[/]: {_inwords_of(trial.by_id[name])}", soft_wrap=True)


def show_review(entry: Entry, trial: Trial | None, against: list[str]) -> None:
    """All about one signature."""
    from prompts.redaction import redact

    screen, signature = out(), entry.signature
    screen.print(f"[bold]{safe(signature.id)}[/] ({entry.state}): {safe(signature.says)}", soft_wrap=True)
    screen.print(f"  {signature.role}, {signature.category} / {safe(signature.subcategory)}, {signature.action}")
    screen.print(f"  pattern: {safe(signature.pattern)}", soft_wrap=True)
    for label, lines in (("fits", signature.match), ("does not fit", signature.reject)):
        for line in lines:
            screen.print(f"  {label}: {safe(redact(line), 300)}", soft_wrap=True)
    for label, value in words_of(entry.about).items():
        screen.print(f"  {safe(label)}: {safe(value, 300)}", soft_wrap=True)
    if trial is not None:
        measured = trial.by_id[signature.id]
        screen.print(f"On {trial.logs:,} logs: {_inwords_of(measured)}")
        for fitted in measured.lines:
            screen.print(f"  {safe(fitted.file)}:{fitted.line}  {safe(redact(fitted.text), 300)}", soft_wrap=True)
    what = "; ".join(against)
    screen.print(f"[red]against it:[/] {safe(what)}" if against else "[green]it can be promoted[/]", soft_wrap=True)


def _inwords_of(measured: Measured) -> str:
    return (
        f"a line of {measured.logs} fits; of the verdicts that it decides {measured.right} are right, {measured.wrong} "
        f"wrong, {measured.healthy} of healthy jobs, {measured.open} open"
    )


def row_of(entry: Entry) -> dict[str, Any]:
    """A row of `list`."""
    signature = entry.signature
    measured = entry.about.get("measured")
    numbers = measured if isinstance(measured, dict) else {}
    counts = [numbers.get(name) for name in ("right", "wrong", "healthy")]
    known = sum(count for count in counts if isinstance(count, int))
    right = counts[0] if isinstance(counts[0], int) else 0
    refused = entry.about.get("refused")
    return {
        "id": signature.id, "family": signature.family, "role": signature.role, "category": signature.category,
        "subcategory": signature.subcategory, "action": signature.action, "state": entry.state,
        "precision": right / known if known else None, "known_logs": known,
        "refused": "; ".join(map(str, refused)) if isinstance(refused, list) else "",
    }  # fmt: skip


def words_of(about: Any) -> dict[str, str]:
    """What is written down about a signature, without figures."""
    return {str(name): str(value) for name, value in about.items() if name not in ("measured", "refused")}


def numbers_of(measured: Measured) -> dict[str, int]:
    """The counts of a trial."""
    return {name: getattr(measured, name) for name in ("logs", "right", "wrong", "healthy", "open")}


def trial_of(trial: Trial) -> dict[str, Any]:
    """A trial as JSON, quoted lines without secrets."""
    from prompts.redaction import redact

    rows = [
        {
            "id": name, **numbers_of(measured), "precision": measured.precision,
            "lines": [{"file": e.file, "line": e.line, "text": redact(e.text)} for e in measured.lines],
        }
        for name, measured in trial.by_id.items()
        if measured.logs
    ]  # fmt: skip
    return {"logs": trial.logs, "unreadable": trial.unreadable, "signatures": rows}
