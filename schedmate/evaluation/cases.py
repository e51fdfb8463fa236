"""Labelled jobs and logs: an operator's own from files, or synthetic ones."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from analyzers.types import Action, Category
from prompts.errors import UserError
from schedmate.evaluation.logs import category_of, listed

Kind = Literal["jobs", "logs"]
_HINT = "docs/language-model.md describes labelled sets"
_LONGEST_LINE_BYTES = 8 << 20
_MOST_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled job (``path`` is its work dir) or failed job's log (``path`` a file or folder; or ``text``)."""

    kind: Kind
    label: Mapping[str, Any]
    path: Path | None = None
    text: str = ""

    @property
    def name(self) -> str:
        """The label's id."""
        return str(self.label["id"])


@dataclass(slots=True)
class Cases:
    """The cases of a set, and why how many rows of it are none."""

    cases: list[Case] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def job_cases(labels: Path, trees: Path, limit: int | None = None) -> Cases:
    """The jobs of a label file whose trees are there. Raises `UserError` where no file or no folder is."""
    if not trees.is_dir():
        raise UserError(f"{trees}: is not a folder", "name the folder of the source trees with --trees")

    def case(row: Mapping[str, Any]) -> Case | str:
        problem = _job_problem(row)
        if problem:
            return problem
        # as benchmarks keep them, or simply where they lie
        for repo in (row["repo"].replace("/", "+"), row["repo"]):
            folder = _inside(trees, repo, row.get("workdir") or ".")
            if folder is not None and folder.is_dir():
                return Case("jobs", row, folder)
        return "without a source tree"

    return _cases(labels, case, limit)


def log_cases(labels: Path, files: Path | None, limit: int | None = None) -> Cases:
    """The logs of a label file. Raises `UserError` where there is no such file or folder."""
    if files is not None and not files.is_dir():
        raise UserError(f"{files}: is not a folder", "name the folder of the log files with --log-files")

    def case(row: Mapping[str, Any]) -> Case | str:
        problem = _log_problem(row)
        if problem:
            return problem
        if isinstance(row.get("log"), str):
            return Case("logs", row, text=row["log"])
        path = None if files is None else _log_path(files, [str(name) for name in listed(row["files"])])
        return Case("logs", row, path) if path is not None else "without its log files"

    return _cases(labels, case, limit)


def _cases(labels: Path, case: Callable[[Mapping[str, Any]], Case | str], limit: int | None) -> Cases:
    found, seen = Cases(), set[str]()
    for row in _rows(labels):
        if limit is not None and len(found.cases) >= limit:
            break
        made = "not a label" if row is None else case(row)
        if isinstance(made, Case) and made.name in seen:
            made = "with an id that was there before"
        if isinstance(made, Case):
            seen.add(made.name)
            found.cases.append(made)
        else:
            found.skipped[made] += 1
    return found


def _rows(path: Path) -> Iterator[dict[str, Any] | None]:
    """The objects of a JSON-lines file, None for a line that is none."""
    try:
        if not path.is_file():
            raise UserError(f"{path}: is not a file", _HINT)
        with path.open("rb") as stream:
            for _ in range(_MOST_ROWS):
                line = stream.readline(_LONGEST_LINE_BYTES)
                if not line:
                    return
                if line.strip():
                    yield _object(line)
    except OSError as error:
        raise UserError(f"{path}: can not be read ({error.strerror or error})", _HINT) from None
    raise UserError(f"{path}: has more than {_MOST_ROWS:,} lines", "split it")


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _job_problem(row: Mapping[str, Any]) -> str:
    """Why a row is no label of a job, empty where it is one."""
    if not all(isinstance(row.get(name), str) and row[name] for name in ("id", "repo", "launch")):
        return "without id, repo or launch"
    if not isinstance(row.get("workdir") or ".", str):
        return "with a workdir that is no text"
    tables = (row.get("expected"), row.get("accept", {}), row.get("wrong_values", {}))
    if not all(isinstance(table, dict) for table in tables) or not isinstance(row.get("must_not_guess", []), list):
        return "without what is expected"
    if not all(isinstance(values, list) for values in row.get("accept", {}).values()):
        return "with other accepted values that are no list"
    return ""


def _log_problem(row: Mapping[str, Any]) -> str:
    """Why a row is no label of a log, empty where it is one."""
    if not isinstance(row.get("id"), str) or not row["id"]:
        return "without id"
    if category_of(row) not in get_args(Category):
        return "without a known category"
    if row.get("action") and row["action"] not in get_args(Action):
        return "with an unknown action"
    if row.get("retryable") not in (None, True, False):
        return "with retryable that is neither true, false nor null"
    if not isinstance(row.get("log"), str) and not listed(row.get("files")):
        return "with neither log nor files"
    others = [each for name in ("alt_categories", "alt_actions") for each in listed(row.get(name))]
    return "" if all(isinstance(each, str) for each in others) else "with other answers that are no texts"


def _log_path(root: Path, names: list[str]) -> Path | None:
    """A single file, or the folder that holds all of several."""
    paths = [_inside(root, name) for name in names]
    if any(path is None for path in paths):
        return None
    if len(paths) == 1:
        return paths[0]
    top = Path(os.path.commonpath([path.parent for path in paths if path is not None]))
    return top if top != root.resolve() else None


def _inside(root: Path, *parts: str) -> Path | None:
    """A path below ``root`` (which may be a link to wherever it lies), None where there is none or it leads out."""
    named = Path(*parts)
    if named.is_absolute() or ".." in named.parts:
        return None
    path = root.resolve() / named
    try:
        return path if path.exists() else None
    except (OSError, ValueError):  # no name that a file can have
        return None
