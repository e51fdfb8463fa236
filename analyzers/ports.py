"""The stores that the analysers need, as ports: file-backed here, on SQL in the service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from analyzers.types import FailureRecord, JobRecord, Submission


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

    def news(self, seen: tuple[object, int] | None) -> tuple[tuple[object, int], list[JobRecord]]:
        """What was added since the mark ``seen`` was given out (None: everything), and the new mark; a record that was
        there is not added by being told again.

        The first part of a mark is another object once jobs were taken out: then everything counts as new.
        """
        ...


@runtime_checkable
class SignatureStore(Protocol):
    """Failure signatures, as the text of their data files."""

    def families(self) -> Iterator[tuple[str, str]]:
        """Pairs of (family name, YAML text)."""
        ...


@runtime_checkable
class FailureStore(Protocol):
    """How attempts of jobs ended, the good ends among them: without those no rate can be known."""

    def add(self, records: Iterable[FailureRecord]) -> int:
        """Add records; one of a known job (id and, as far as both tell it, user) and attempt takes the old one's
        place, unless only the old one was diagnosed. Returns how many were taken."""
        ...

    def same_failure(self, failure: str, *, limit: int) -> list[FailureRecord]:
        """The latest records with that fingerprint, latest first."""
        ...

    def same_data(self, data: str, *, limit: int) -> list[FailureRecord]:
        """The latest records that stumbled over that file, latest first."""
        ...

    def since(self, at_s: float) -> Iterator[FailureRecord]:
        """All that ended at that time or later, in order of time."""
        ...

    def latest_s(self) -> float | None:
        """When the last one ended; None where there is none."""
        ...

    def __len__(self) -> int: ...
