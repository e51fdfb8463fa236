"""Writing the report to where it was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedmate.comparison.page import page
from schedmate.comparison.runs import runs_of
from schedmate.console import plain
from schedmate.files import check_output, write_whole

_HINT = "name another file with --report"


def write_report(documents: Sequence[tuple[str, Mapping[str, Any]]], path: Path) -> None:
    """The page of all policies of the documents, (name, content) each. Raises `UserError` where it can not be written.

    Until it is whole, an older report in its place stays.
    """
    check_output(path, _HINT)
    write_whole(path, page(runs_of([(name, plain(document)) for name, document in documents])), _HINT)
