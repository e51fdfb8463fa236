"""A history that lives in memory: for replays, tests, and a trace given in place of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analyzers.history.codec import BadRecordError, check_numbers
from analyzers.history.index import HistoryIndex
from analyzers.types import JobRecord, Submission
from prompts.errors import UserError


class MemoryHistoryStore:
    """Implements `analyzers.ports.HistoryStore` without a file."""

    def __init__(self, records: Iterable[JobRecord] = ()) -> None:
        self._index = HistoryIndex()
        self.add(records)

    def add(self, records: Iterable[JobRecord]) -> int:
        """Add records; one with a known ``job_id`` replaces the old. Returns how many were taken.

        All or none: a number that is not finite, too large to reckon with or below 0 where none can be raises
        `UserError`, as it does where a history is kept in a file.
        """
        taken = list(records)
        for record in taken:
            try:
                check_numbers(record)
            except BadRecordError as error:
                raise UserError(f"job {record.job_id!r} can not be stored: {error}", "correct the record") from None
        for record in taken:
            self._index.add(record)
        return len(taken)

    def records(self) -> Iterator[JobRecord]:
        """All records, in order of submission."""
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def similar(
        self, submission: Submission, fingerprint: str = "", *, k: int = 20, before_s: float | None = None
    ) -> list[tuple[JobRecord, float]]:
        """The ``k`` nearest ended jobs with their similarity in 0..1, nearest first."""
        return self._index.similar(submission, fingerprint, k=k, before_s=before_s)

    def news(self, seen: tuple[object, int] | None) -> tuple[tuple[object, int], list[JobRecord]]:
        """As `analyzers.ports.HistoryStore.news`."""
        count, records = self._index.news(seen[1] if seen is not None else 0)
        return (self._index, count), records
