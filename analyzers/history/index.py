"""Finds the past jobs worth comparing without looking at all of them.

Every ended job is filed under a few keys (code, user, name, script, words, request). A search takes the most recent
jobs of each key that the submission has, and ranks those by `similarity`: its cost does not grow with the history.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Hashable, Iterator
from itertools import islice

from analyzers.history.similarity import Query, similarity
from analyzers.history.text import script, stem, words
from analyzers.types import JobRecord, Submission

#: How many of the most recent jobs are compared, by kind of key.
_TAKE = {"code": 200, "user": 200, "user+name": 200, "user+request": 100, "name": 150, "script": 150, "word": 60,
         "request": 100, "all": 50}  # fmt: skip
#: Of a name's or command's words only the rarest are looked up: the frequent ones tell nothing.
_WORDS_LOOKED_UP = 5
_WORDS_FILED = 12
#: Up to this many new jobs are put in their place one by one.
_FEW = 500
_Key = tuple[Hashable, ...]


def end_s(record: JobRecord) -> float:
    """When the job ended; where its start is not recorded, the earliest it can have (started when submitted)."""
    return (record.submit_s if record.start_s is None else record.start_s) + (record.duration_s or 0.0)


class HistoryIndex:
    """Ended jobs in memory, searchable. A record with a known ``job_id`` replaces the old one; the same is no news."""

    def __init__(self) -> None:
        self._records: list[JobRecord | None] = []
        self._row_of: dict[str, int] = {}
        self._filed: dict[_Key, list[tuple[float, int]]] = {}
        self._unsorted: set[_Key] = set()
        self._waiting: list[int] = []

    def __len__(self) -> int:
        return len(self._row_of)

    def __iter__(self) -> Iterator[JobRecord]:
        """All records in order of submission."""
        return iter(sorted((r for r in self._records if r is not None), key=lambda r: (r.submit_s, r.job_id)))

    def add(self, record: JobRecord) -> None:
        """Take one record; it is filed at the next search, so that reading a history costs no more than reading it."""
        old = self._row_of.get(record.job_id)
        if old is not None:
            if self._records[old] == record:
                return
            self._records[old] = None
        row = len(self._records)
        self._records.append(record)
        self._row_of[record.job_id] = row
        if record.duration_s is not None:
            self._waiting.append(row)

    def news(self, seen: int) -> tuple[int, list[JobRecord]]:
        """What was added after the first ``seen`` additions, in that order and without what was replaced since; and the
        number of additions to ask with the next time."""
        added = self._records[seen:]  # before they are counted: another thread may add more meanwhile
        return seen + len(added), [record for record in added if record is not None]

    def _file_waiting(self) -> None:
        """File what was added since the last search: one by one in place, or many at once and then sorted."""
        waiting, self._waiting = self._waiting, []
        in_place = len(waiting) <= _FEW
        for row in waiting:
            record = self._records[row]
            if record is None:
                continue
            entry = (end_s(record), row)
            for key in _keys(
                record.fingerprint, record.user, record.name, record.command, record.gpus, record.requested_s
            ):
                filed = self._filed.setdefault(key, [])
                if not filed or filed[-1] <= entry:
                    filed.append(entry)
                elif in_place and key not in self._unsorted:
                    insort(filed, entry)
                else:
                    filed.append(entry)
                    self._unsorted.add(key)
        for key in self._unsorted:  # now, so that of all searches after a long history is read only the first is slow
            self._filed[key].sort()
        self._unsorted.clear()

    def similar(
        self, submission: Submission, fingerprint: str = "", *, k: int = 20, before_s: float | None = None
    ) -> list[tuple[JobRecord, float]]:
        """As `analyzers.ports.HistoryStore.similar`."""
        self._file_waiting()
        query = Query(submission, fingerprint, before_s if before_s is not None else submission.submit_s)
        scored: list[tuple[float, float, int]] = []
        for row, ended_s in self._candidates(submission, fingerprint, before_s).items():
            record = self._records[row]
            if record is not None:
                scored.append((similarity(query, record, ended_s), ended_s, row))
        best = heapq.nlargest(k, scored)
        return [(record, score) for score, _, row in best if (record := self._records[row]) is not None and score > 0]

    def _candidates(self, submission: Submission, fingerprint: str, before_s: float | None) -> dict[int, float]:
        found: dict[int, float] = {}
        keys = list(
            _keys(
                fingerprint or None,
                submission.user,
                submission.name,
                submission.command or None,
                submission.gpus or 0,
                submission.limit_s,
            )
        )
        by_rarity = sorted((k for k in keys if k[0] == "word"), key=lambda k: len(self._filed.get(k, ())))
        for key in [k for k in keys if k[0] != "word"] + [k for k in by_rarity if k in self._filed][:_WORDS_LOOKED_UP]:
            for ended_s, row in self._latest(key, _TAKE[str(key[0])], before_s):
                found[row] = ended_s
        return found

    def _latest(self, key: _Key, count: int, before_s: float | None) -> Iterator[tuple[float, int]]:
        filed = self._filed.get(key)
        if not filed:
            return iter(())
        stop = len(filed) if before_s is None else bisect_right(filed, (before_s, len(self._records)))
        alive = (filed[i] for i in range(stop - 1, -1, -1) if self._records[filed[i][1]] is not None)
        return islice(alive, count)


def _keys(
    fingerprint: str | None, user: str | None, name: str | None, command: str | None, gpus: int, limit_s: float | None
) -> Iterator[_Key]:
    yield ("all",)
    yield ("request", gpus, limit_s)
    if fingerprint:
        yield ("code", fingerprint)
    name_stem = stem(name) if name else ""
    if user:
        yield ("user", user)
        yield ("user+request", user, gpus, limit_s)
        if name_stem:
            yield ("user+name", user, name_stem)
    if name_stem:
        yield ("name", name_stem)
    if command and script(command):
        yield ("script", script(command))
    telling = (words(name) if name else frozenset()) | (words(command) if command else frozenset())
    for word in sorted(telling, key=lambda w: (-len(w), w))[:_WORDS_FILED]:
        yield ("word", word)
