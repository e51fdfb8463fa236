"""Reading every case without the model and with it, one after the other, and what came of each as a row."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

from analyzers.failures import diagnose
from analyzers.types import Diagnosis, Submission
from prompts.errors import UserError
from prompts.gateway import Gateway
from prompts.redaction import redact, redact_tree
from schedmate.config import Settings
from schedmate.evaluation.cases import Case
from schedmate.evaluation.jobs import State, said_in, state_of
from schedmate.evaluation.logs import judge_log
from schedmate.evaluation.recorder import QuestionRow, Recorder
from schedmate.refine import refine_diagnosis
from schedmate.source import read_source, sharpened

_TOLD = "language model: "
_UNREAD = Diagnosis("unknown", "", 0.0)
#: What the rules say of a failure that none of them knows.
_BLIND = Diagnosis("unknown", "no-cause-found", 0.2, summary="The job failed, and no line is known to say why.")


class Item(TypedDict):
    """One fact or measure of a case: whether the label wants it said, and what was said of it either time."""

    name: str
    wanted: bool
    without: State
    with_model: State


class Row(TypedDict):
    """One case. ``notes`` is what the combination of the readings told of the model; ``blamed_*``: an innocent rank or
    node was named; ``error``: the case itself could not be read."""

    key: str
    kind: str
    id: str
    items: list[Item]
    blamed_without: bool
    blamed_with: bool
    questions: list[QuestionRow]
    notes: list[str]
    error: str
    seconds_without: float
    seconds_with: float


def key_of(case: Case, model: str) -> str:
    """What a kept row holds for: this label and this model (in words that tell one configuration from another)."""
    words = json.dumps([case.kind, case.label, model], sort_keys=True)
    return hashlib.sha256(words.encode("utf-8", "backslashreplace")).hexdigest()[:24]


def rows_of(
    cases: Sequence[Case], settings: Settings, gateway: Gateway | None, model: str, *, blind: bool = False
) -> Iterator[Row]:
    """Read one case after the other; ``gateway`` None leaves the second reading out, ``blind`` the rules that find the
    causes in logs (whether a job failed at all is still theirs to say).

    Raises nothing for what a case holds or an endpoint does.
    """
    recorder = None if gateway is None else Recorder(gateway)
    for case in cases:
        key = key_of(case, model)
        if case.kind == "jobs":
            yield _job(case, settings, recorder, key)
        else:
            yield _log(case, settings, recorder, key, blind=blind)


def _job(case: Case, settings: Settings, recorder: Recorder | None, key: str) -> Row:
    label = case.label
    submission = Submission(label["launch"], case.path)
    start = time.monotonic()
    first = read_source(submission, settings)
    middle = time.monotonic()
    second = first if recorder is None else sharpened(first, submission, settings, gateway=recorder)
    end = time.monotonic()
    before, after = said_in(first), said_in(second)
    names = dict.fromkeys((*label["expected"], *(name for name in after if after[name] != before.get(name))))
    items: list[Item] = [
        {
            "name": name,
            "wanted": label["expected"].get(name) is not None,
            "without": state_of(label, name, before.get(name)),
            "with_model": state_of(label, name, after.get(name)),
        }
        for name in names
    ]
    row = _row(case, key, items, middle - start, end - middle)
    return _asked(row, recorder, first.warnings, second.warnings)


def _log(case: Case, settings: Settings, recorder: Recorder | None, key: str, *, blind: bool) -> Row:
    with tempfile.TemporaryDirectory(prefix="schedmate-eval-") as scratch:
        path = case.path
        if path is None:
            path = Path(scratch) / "job.log"
            path.write_text(case.text, encoding="utf-8", errors="backslashreplace")
        start = time.monotonic()
        error = ""
        try:
            first = diagnose(path)
        except UserError as problem:
            first, error = _UNREAD, problem.what
        if blind and first.category != "none" and not error:
            first = _BLIND
        middle = time.monotonic()
        second = first
        if recorder is not None and not error:
            second = refine_diagnosis(first, path, settings, gateway=recorder)
        end = time.monotonic()
    before, after = judge_log(case.label, first), judge_log(case.label, second)
    items: list[Item] = [
        {"name": name, "wanted": wanted, "without": state, "with_model": after.measures[name][1]}
        for name, (wanted, state) in before.measures.items()
    ]
    row = _row(case, key, items, middle - start, end - middle)
    row["blamed_without"], row["blamed_with"], row["error"] = before.blamed, after.blamed, redact(error)
    return _asked(row, recorder, first.warnings, second.warnings)


def _row(case: Case, key: str, items: list[Item], without_s: float, with_s: float) -> Row:
    return {
        "key": key,
        "kind": case.kind,
        "id": case.name,
        "items": items,
        "blamed_without": False,
        "blamed_with": False,
        "questions": [],
        "notes": [],
        "error": "",
        "seconds_without": round(without_s, 4),
        "seconds_with": round(without_s + with_s, 4),
    }


def _asked(row: Row, recorder: Recorder | None, before: Sequence[str], after: Sequence[str]) -> Row:
    told = [note.removeprefix(_TOLD) for note in after if note not in before and note.startswith(_TOLD)]
    questions: Any = redact_tree([] if recorder is None else recorder.taken())
    row["questions"], row["notes"] = questions, [redact(note) for note in told]
    return row


def was_asked(row: Row) -> bool:
    """Whether every question of a row went out: what an endpoint that was left alone, or a budget, kept from being
    asked is worth asking later."""
    return all(question["failure"] != "not_asked" for question in row["questions"])
