"""What to tell of a trace before it is replayed, whoever replays it: whose clock it is read by, and how large its own
cluster was."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.types import JobRecord
from schedmate.ports import TraceNotes
from schedmate.simulator.warm_start import WarmStart

#: Recorded ends are a little late where a job was started again: so much above the cluster's size is no sign.
_LARGER = 1.1


def of_zone(notes: TraceNotes, timezone: str) -> list[str]:
    """That times without a zone were read as somebody's, where nobody said whose."""
    if not notes.local_zone or timezone:
        return []
    return [f"times without a zone were read as {notes.local_zone} (assumed): --timezone says otherwise"]


def of_size(jobs: Sequence[JobRecord], warm: WarmStart | None, gpus: int) -> list[str]:
    """That the trace's own cluster was larger than the one of ``gpus`` that is replayed, where it was."""
    from schedmate.trace_summary import collect
    from schedmate.trace_summary.load import load_of

    load = load_of(collect([*(each.record for each in warm.running), *jobs] if warm is not None else jobs))
    if load is None or not load.recorded or load.peak <= _LARGER * gpus:
        return []
    return [f"the trace held up to {load.peak:,.0f} GPUs at once, the cluster has {gpus:,}: the queue grows for that"]
