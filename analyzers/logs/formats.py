"""Known log formats: data files under known_formats/, each with its own samples (docs/adding-a-log-format.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, get_args

from analyzers.logs.fields import Role

#: Named groups that a format's ``line`` pattern may have, besides the roles.
EXTRA_GROUPS = frozenset({"rate_unit", "values", "desc", "last_epoch"})

#: What a line says about a checkpoint. part: a file of one, which alone tells nothing; staged: copied, and written too
#: where the log does not say that checkpoints are asynchronous ("async").
Says = Literal["begun", "part", "staged", "done", "failed", "removed", "loaded", "async"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One line (or drawn bar) of a format and what must be read from it."""

    line: str
    reads: Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """What one framework prints when it writes a checkpoint: a line that has ``contains`` and fits ``line`` (named
    groups ``path``, ``step``, ``epoch``).

    ``is_async``: what is begun is written while training goes on. ``in_place``: whether it overwrites an earlier one
    of the same path (None: a single file does, and what has no number).
    """

    says: Says
    contains: str
    line: re.Pattern[str]
    is_async: bool = False
    in_place: bool | None = None
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class LogFormat:
    """How one framework prints progress, where the general rules do not already say it.

    ``contains``: the line is of this format when all of these stand in it (and ``line`` matches, where given).
    ``line``: pattern with named groups; what it does not match is still searched for pairs.
    ``names``: names that mean something else here than in general, as name -> role.
    ``epoch_from``: the number of the first epoch as printed, where the format fixes it.
    ``bar``: bars with different totals are different series (training and evaluation look alike).
    ``general``: tried after all others.
    ``checkpoints``: how it tells of checkpoints; a format may have nothing else.
    """

    name: str
    contains: tuple[str, ...] = ()
    line: re.Pattern[str] | None = None
    names: Mapping[str, Role] = field(default_factory=dict)
    epoch_from: int | None = None
    bar: bool = False
    general: bool = False
    samples: tuple[Sample, ...] = ()
    not_progress: tuple[str, ...] = ()
    checkpoints: tuple[CheckpointLine, ...] = ()


@lru_cache(maxsize=1)
def known_formats() -> tuple[LogFormat, ...]:
    """All formats that tell of steps, the general ones last.

    Raises `ValueError` naming the file when one is malformed.
    """
    found = [known for known in _all_formats() if known.contains or known.line is not None]
    return tuple(sorted(found, key=lambda known: (known.general, known.name)))


@lru_cache(maxsize=1)
def checkpoint_lines() -> tuple[CheckpointLine, ...]:
    """What all formats print about checkpoints."""
    return tuple(line for known in _all_formats() for line in known.checkpoints)


@lru_cache(maxsize=1)
def _all_formats() -> tuple[LogFormat, ...]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = []
    for entry in files("analyzers.logs.known_formats").iterdir():
        if entry.name.endswith(".yaml"):
            found.append(parse_format(yaml.load(entry.read_text("utf-8"), Loader=loader), entry.name))
    return tuple(sorted(found, key=lambda known: known.name))


def parse_format(data: Any, where: str) -> LogFormat:
    """Check and compile one format's data. Raises `ValueError` saying what is wrong in ``where``."""
    if not isinstance(data, dict) or not data.get("name"):
        raise ValueError(f"{where}: a format needs a name")
    unknown = set(data) - {"name", "about", "contains", "line", "names", "epoch_from", "bar", "general"}
    unknown -= {"samples", "not_progress", "checkpoints"}
    if unknown:
        raise ValueError(f"{where}: unknown field {sorted(unknown)[0]}")
    roles = frozenset(get_args(Role))
    names = {str(name).lower(): role for role, some in (data.get("names") or {}).items() for name in some}
    pattern = None
    if data.get("line"):
        try:
            pattern = re.compile(data["line"])
        except re.error as error:
            raise ValueError(f"{where}: line: {error}") from None
    wrong = (set(names.values()) | set(pattern.groupindex if pattern else ())) - roles - EXTRA_GROUPS
    if wrong:
        raise ValueError(f"{where}: unknown role {sorted(wrong)[0]}")
    return LogFormat(
        name=data["name"],
        contains=tuple(data.get("contains") or ()),
        line=pattern,
        names=names,
        epoch_from=data.get("epoch_from"),
        bar=bool(data.get("bar")),
        general=bool(data.get("general")),
        samples=tuple(Sample(s["line"], s["reads"]) for s in data.get("samples") or ()),
        not_progress=tuple(data.get("not_progress") or ()),
        checkpoints=tuple(_checkpoint(one, where) for one in data.get("checkpoints") or ()),
    )


def _checkpoint(data: Any, where: str) -> CheckpointLine:
    known = {"says", "contains", "line", "async", "in_place", "samples"}
    if not isinstance(data, dict) or set(data) - known or not {"says", "contains", "line"} <= set(data):
        raise ValueError(f"{where}: checkpoints: each has says, contains, line, and may have async, in_place, samples")
    if data["says"] not in get_args(Says):
        raise ValueError(f"{where}: checkpoints: unknown word {data['says']}")
    try:
        line = re.compile(data["line"])
    except re.error as error:
        raise ValueError(f"{where}: checkpoints: {error}") from None
    wrong = set(line.groupindex) - {"path", "step", "epoch"}
    if wrong:
        raise ValueError(f"{where}: checkpoints: unknown group {sorted(wrong)[0]}")
    samples = tuple(Sample(s["line"], s.get("reads") or {}) for s in data.get("samples") or ())
    return CheckpointLine(data["says"], data["contains"], line, bool(data.get("async")), data.get("in_place"), samples)


def recognise(text: str, formats: tuple[LogFormat, ...]) -> tuple[LogFormat, re.Match[str] | None] | None:
    """The first format that fits the line, with its pattern's match."""
    for known in formats:
        for part in known.contains:
            if part not in text:
                break
        else:
            if known.line is None:
                return known, None
            found = known.line.search(text)
            if found is not None:
                return known, found
    return None
