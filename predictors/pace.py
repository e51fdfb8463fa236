"""How much work a job's source says it is, how fast such work went lately, and what whole runs of it took.

Physics alone knows neither this cluster nor this program: published utilisations are off by factors. What does not
change much is the *pace*: how long jobs took over what physics said, for the same work of the same user, for the user,
for everyone. A job's duration is then its own work (its own steps, epochs, batch) at the pace that was seen.

Only whole runs are learned from here, those that completed or of which no one says how they ended: what a run took that
broke off tells nothing of how much work there was.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

from analyzers.history.text import script, stem
from analyzers.types import Fact, JobRecord, SourceFacts, Submission
from predictors.prior import physics_s
from predictors.workload import Workload, number, workload

#: Of each group so many paces, the newest, are kept; fewer where one program is told apart from others.
_OF_ONE, _OF_ALL, _WHOLE_RUNS = 9, 200, 7
#: What a fact that a record has kept counts as: records keep none that was not sure.
_KEPT_CONFIDENCE = 1.0

EXPERTS = (
    "pace of this work", "pace of the user", "pace of everyone", "whole runs of this name", "whole runs of this code",
    "whole runs of this script",
)  # fmt: skip
#: Those that go by the job's own amount of work, or by runs of the very same code and settings.
BY_WORK = ("pace of this work", "pace of the user", "pace of everyone", "whole runs of this code")


@dataclass(frozen=True, slots=True)
class Work:
    """``amount``: the logarithm of the seconds that physics says, or of the epochs where it can not (see ``unit``).

    Amounts of different units can not be compared, nor those of a model whose size is not known with others.
    """

    amount: float
    unit: str
    size: Workload


def facts_of(record: JobRecord) -> SourceFacts:
    """The facts that a record has kept, as they were read."""
    known = {name: Fact(value, _KEPT_CONFIDENCE) for name, value in record.facts.items()}
    return SourceFacts(known, fingerprint=record.fingerprint or "")


def work_of(record: JobRecord) -> Work | None:
    """The work that a job is; None where its facts do not say."""
    if not record.facts:
        return None
    facts = facts_of(record)
    asked = Submission(record.command or "", gpus=record.gpus or None, gpu_type=record.gpu_type)
    size = workload(asked, facts)
    seconds = physics_s(size, record.gpu_type, facts)
    if seconds is not None:
        return Work(math.log(seconds), "operations" if size.parameters else "steps", size)
    epochs = number(facts, "epochs")
    return Work(math.log(epochs), "epochs", size) if epochs is not None else None


class Paces:
    """``guesses(record)`` at submission, ``observe(record)`` when it has ended: logarithms of seconds."""

    def __init__(self) -> None:
        self._paces: dict[Hashable, deque[float]] = {}
        self._runs: dict[Hashable, deque[float]] = {}
        self._amounts: dict[Hashable, deque[float]] = {}

    def guesses(self, record: JobRecord, work: Work | None) -> list[float | None]:
        """In the order of `EXPERTS`; None where there is nothing to go by."""
        found: list[float | None] = []
        for key in _pace_keys(record, work):
            seen = self._paces.get(key) if key is not None else None
            found.append(work.amount + _median(seen) if work is not None and seen else None)
        if found[-1] is None and work is not None and work.unit != "epochs":
            found[-1] = work.amount  # physics alone, before anything was seen
        for key in _run_keys(record):
            seen = self._runs.get(key) if key is not None else None
            found.append(_median(seen) if seen else None)
        return found

    def novelty(self, record: JobRecord, work: Work | None) -> float:
        """How far the amount of work is from that of the user's last runs of it, on the log scale; 0: not known."""
        seen = self._amounts.get(_pace_keys(record, work)[0])
        return abs(work.amount - _median(seen)) if work is not None and seen else 0.0

    def observe(self, record: JobRecord, work: Work | None) -> None:
        """Learn from a job that has ended; one that broke off is passed over."""
        if record.outcome not in ("completed", None):
            return
        run = math.log(max(1.0, record.duration_s or 0.0))
        keys = _pace_keys(record, work)
        if keys[0] is not None and work is not None:
            self._amounts.setdefault(keys[0], deque(maxlen=_OF_ONE)).append(work.amount)
        for key in keys:
            if key is not None and work is not None:
                kept = _OF_ALL if key is keys[-1] else _OF_ONE
                self._paces.setdefault(key, deque(maxlen=kept)).append(run - work.amount)
        for key in _run_keys(record):
            if key is not None:
                self._runs.setdefault(key, deque(maxlen=_WHOLE_RUNS)).append(run)


def _pace_keys(record: JobRecord, work: Work | None) -> tuple[Hashable | None, ...]:
    if work is None:
        return (None, None, None)
    name = stem(record.name) if record.name else ""
    what = name or (script(record.command) if record.command else "")
    user = record.user
    return (
        ("work", user, what, work.unit) if user and what else None,
        ("user", user, work.unit) if user else None,
        ("all", work.unit, str(record.facts.get("framework"))),
    )


def _run_keys(record: JobRecord) -> tuple[Hashable | None, ...]:
    path = script(record.command) if record.command else ""
    name = stem(record.name) if record.name else ""
    return (
        ("name", record.user, name, record.gpus) if record.user and name else None,
        ("code", record.fingerprint) if record.fingerprint else None,
        ("script", record.user, path, record.gpus) if record.user and path else None,
    )


def _median(values: deque[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else 0.5 * (ordered[half - 1] + ordered[half])
