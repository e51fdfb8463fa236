"""The two stores the analysers need, as ports: file-backed here, on SQL in the service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from analyzers.types import JobRecord, Submission


@runtime_checkable
class HistoryStore(Protocol):
    """Ended jobs, and the search for those most like a new one."""

    def add(self, records: Iterable[JobRecord]) -> int:
        """Add records; one with a known ``job_id`` replaces the old. Returns how many were taken."""
        ...

    def records(self) -> Iterator[JobRecord]:
        """All records, in order of submission."""
        ...

    def __len__(self) -> int: ...

    def similar(
        self, submission: Submission, fingerprint: str = "", *, k: int = 20, before_s: float | None = None
    ) -> list[tuple[JobRecord, float]]:
        """The ``k`` nearest ended jobs with their similarity in 0..1, nearest first.

        ``before_s`` keeps only jobs that had ended by that time, so that a replay never sees the future.
        """
        ...


@runtime_checkable
class SignatureStore(Protocol):
    """Failure signatures, as the text of their data files."""

    def families(self) -> Iterator[tuple[str, str]]:
        """Pairs of (family name, YAML text)."""
        ...
