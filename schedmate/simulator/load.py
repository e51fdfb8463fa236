"""Other loads from the same trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analyzers.types import JobRecord


def at_load(records: Sequence[JobRecord], factor: float) -> list[JobRecord]:
    """The same jobs arriving ``factor`` times as fast: times between submissions shrink, runtimes do not."""
    if not records or factor == 1.0:
        return list(records)
    first_s = records[0].submit_s
    return [replace(record, submit_s=first_s + (record.submit_s - first_s) / factor) for record in records]
