"""What the application asks of the outside world. Integrations implement these; entry points connect them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO, TypeVar, runtime_checkable

from analyzers.types import JobRecord
from prompts.errors import UserError

TRACE_FORMATS = "schedmate.trace_formats"
TRACE_WRITERS = "schedmate.trace_writers"
CLUSTER_BACKENDS = "schedmate.cluster_backends"
ENGINES = "schedmate.engines"
CLI = "schedmate.cli"


@dataclass(slots=True)
class TraceNotes:
    """What a reader has to say beside the rows: skipped rows by reason, the first few in words, header facts.

    ``remarks`` counts, by what was odd, rows that were used all the same. ``epoch_s`` is the Unix time of second 0 of
    the trace's clock where that is known (0 for a trace that has dates), None for a clock of its own. ``local_zone`` is
    the zone in which local times were read, None where every time states its own or is a number. ``beside`` are files
    that are read beside the named one.
    """

    rows: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    header: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, int] = field(default_factory=dict)
    epoch_s: float | None = None
    local_zone: str | None = None
    beside: list[Path] = field(default_factory=list)

    def skip(self, reason: str, where: str) -> None:
        """Count a row that was left out, keeping the first five in words."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1
        if len(self.examples) < 5:
            self.examples.append(f"{where}: {reason}")

    def remark(self, what: str, count: int = 1) -> None:
        """Count something odd about a row that is used all the same."""
        self.remarks[what] = self.remarks.get(what, 0) + count


@runtime_checkable
class TraceFormat(Protocol):
    """Reads one file format into job records."""

    name: str

    def matches(self, path: Path, head: bytes) -> bool:
        """Whether this looks like the format, from the name and the first (decompressed) bytes."""
        ...

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield the jobs in the file's order; count bad rows in ``notes``; raise `UserError` for a bad file."""
        ...


@runtime_checkable
class TraceWriter(Protocol):
    """Writes job records in one file format."""

    name: str

    def write(self, records: Iterable[JobRecord], stream: TextIO, notes: TraceNotes) -> tuple[int, Mapping[str, int]]:
        """Write all records. Returns how many were written and, by what was lost, how many jobs lost it.

        ``notes`` are those of the reader that ``records`` come from, for header facts.
        """
        ...


@runtime_checkable
class ClusterBackend(Protocol):
    """A live cluster: what it holds and how to act on it. Implemented by later integrations."""

    name: str

    def describe(self) -> Mapping[str, Any]:
        """Nodes, running and pending jobs as plain data."""
        ...


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ItemFailed:
    """Why one piece of work came to nothing: its function raised, its process died, or it took too long."""

    kind: Literal["error", "crashed", "timeout"]
    message: str


@runtime_checkable
class Engine(Protocol):
    """Runs many independent pieces of work: local processes here, a distributed engine later."""

    name: str

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, workers: int, timeout_s: float
    ) -> Iterator[tuple[T, R | ItemFailed]]:
        """Yield (item, result) as they finish, in any order; an item that fails costs only itself.

        ``function`` and the items must be picklable; ``timeout_s`` bounds each item. Closing the iterator stops
        the work.
        """
        ...


def registered(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name."""
    return {point.name: point for point in entry_points(group=group)}


def load(group: str, name: str) -> Any:
    """Load one registered thing, or say which names there are."""
    points = registered(group)
    if name not in points:
        raise UserError(
            f"no {group.rpartition('.')[2]} named {name!r}", f"known: {', '.join(sorted(points)) or 'none'}"
        )
    return points[name].load()
