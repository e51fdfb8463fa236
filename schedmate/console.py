"""What every command shares: one JSON object on stdout, words and progress on stderr, errors on one line."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def plain(value: Any) -> Any:
    """Dataclasses, tuples, paths and non-finite numbers as plain JSON values (NaN and infinities become null)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if hasattr(value, "item") and not isinstance(value, str | bytes):  # numpy scalars
        return plain(value.item())
    return value


#: What JSON may hold as it is but a terminal obeys: C1 controls, and marks that turn or hide text.
_STEERING = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def print_json(value: Any) -> None:
    """Print one JSON object on stdout and nothing else."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    text = _STEERING.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.flush()


#: Columns of what is not shown on a terminal: a reader who greps or copies wants a line to stay a line.
_UNWRAPPED_COLUMNS = 1000


def out() -> Console:
    """The console for results; in a pipe or a file nothing is wrapped or shortened, unless COLUMNS says how wide."""
    from rich.console import Console

    wrapped = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return Console(soft_wrap=False, highlight=False, width=None if wrapped else _UNWRAPPED_COLUMNS)


def err() -> Console:
    """The console for everything that is not the result."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def safe(text: str, limit: int = 4000) -> str:
    """Untrusted text made fit for a terminal: control characters shown as escapes, markup brackets escaped."""
    from rich.markup import escape

    return escape(visible(text[:limit]))


def visible(text: str) -> str:
    """Text with control characters, and what else could steer a terminal, shown as escapes."""
    return "".join(c if c == "\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, silent when stderr is not a terminal. Yields ``advance(n)``."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err(), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda n: bar.update(task, advance=n)
