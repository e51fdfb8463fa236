"""The tracebacks that are being read, of many interleaved processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzers.failures.events import Event
from analyzers.failures.tracebacks import Raised, Traceback
from analyzers.logs.prefix import Prefix
from analyzers.types import LogEvidence

GENERIC_PRIORITY = 20


@dataclass(slots=True)
class Stacks:
    """Open tracebacks by rank, each with the events that it held so far."""

    open: dict[int | None, tuple[Traceback, list[Event]]] = field(default_factory=dict)

    def feed(self, rank: int | None, prefix: Prefix, here: LogEvidence, begins: bool) -> tuple[Raised | None, bool]:
        """Feed the open traceback of this process, or open one. Returns the exception that this line ends with, and
        whether the line is part of the stack."""
        trace = self.open.get(rank)
        if begins and (trace is None or not trace[0].raised):
            self.open[rank] = (Traceback(), [])
            return None, False
        if trace is None:
            return None, False
        reader, _ = trace
        seen = len(reader.raised)
        before_rest = here.text[: len(here.text) - len(prefix.rest)]
        indentation = before_rest[len(before_rest.rstrip(" \t")) :]
        in_stack = reader.feed(indentation + prefix.rest, here)
        if reader.done:
            self._close(rank)
            if begins:
                self.open[rank] = (Traceback(), [])
        return (reader.raised[-1] if len(reader.raised) > seen else None), in_stack

    def hold(self, rank: int | None, event: Event) -> None:
        """An event that ends an open traceback."""
        trace = self.open.get(rank)
        if trace is not None and event.fatal:
            trace[1].append(event)

    def close_all(self) -> None:
        """The file is over."""
        for rank in list(self.open):
            self._close(rank)

    def _close(self, rank: int | None) -> None:
        """A traceback is over: of a chain of exceptions the most telling one stays, the others are put aside."""
        reader, events = self.open.pop(rank)
        if len(events) < 2:
            return
        direct = any(raised.direct_cause_of_next for raised in reader.raised)
        telling = any(event.signature.priority > GENERIC_PRIORITY for event in events)
        ordered = events if direct or telling else events[::-1]
        best = max(ordered, key=lambda e: (e.signature.priority > GENERIC_PRIORITY, e.weight))
        for event in events:
            if event is not best and not event.dismissed:
                event.dismissed = "it belongs to the same chain of exceptions as the line that is quoted"
                event.explained_by = best
