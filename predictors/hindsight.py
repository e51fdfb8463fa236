"""What would have been said of a job when it was submitted, found when its end becomes known.

A history tells of a job when it has ended. By then others of its batch have ended too, and who asks now knows more than
whoever asked at its submission did: how far off that is, is far less than how far off what was told is. So experts and
site are kept as they were after every end, and each job is asked about as of its own submission. What is learned then
is a matter of what is recorded alone, whenever anyone asks.
"""

from __future__ import annotations

from bisect import bisect_right

from analyzers.types import JobRecord
from predictors.online import OnlineDurationPredictor, Opinion
from predictors.site_durations import SiteDurations


class Hindsight:
    """``ended(...)`` in order of the ends, then ``at(moment_s)``; for some hundred jobs."""

    def __init__(self) -> None:
        self._ends_s: list[float] = []
        self._learned: list[tuple[JobRecord, Opinion]] = []
        self._sites = [SiteDurations()]
        self._experts = OnlineDurationPredictor()
        self._experts_know = 0
        self._site: tuple[int, SiteDurations] = 0, SiteDurations()

    def ended(self, record: JobRecord, at_s: float, opinion: Opinion, site: SiteDurations) -> None:
        """A job has ended, of which ``opinion`` was held at its submission; ``site``: what has learned from it."""
        self._ends_s.append(at_s)
        self._learned.append((record, opinion))
        self._sites.append(site.copy())

    def at(self, moment_s: float) -> tuple[OnlineDurationPredictor, SiteDurations]:
        """Both as they were when all that had ended by that moment was known, and nothing else; to be asked only, and
        until they are asked for again."""
        known = bisect_right(self._ends_s, moment_s)
        if known < self._experts_know:
            self._experts, self._experts_know = OnlineDurationPredictor(), 0
        for record, opinion in self._learned[self._experts_know : known]:
            self._experts.keep(record.job_id, opinion)
            self._experts.observe(record)
        self._experts_know = known
        if self._site[0] != known:
            self._site = known, self._sites[known].copy()
        return self._experts, self._site[1]
