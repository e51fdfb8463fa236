"""Between the gate and the jobs that are present: what was said of each, what of it is believed, how it turned out.

Judged is of every source the last that it said of a job before the job started, else the first that it said later.
What happens at one moment is taken in when the next cycle begins, in an order of its own, so that it does not matter in
which order equal events came. When the hints of somebody come to be used, or are not used any more, the waiting jobs
take their new place; running ones keep what was believed when they started.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from schedmate.scheduler.assumptions import unhinted_s
from schedmate.scheduler.changes import change_hints
from schedmate.scheduler.gate import Gate, Seen, Who
from schedmate.scheduler.state import State
from schedmate.scheduler.types import Hints, Job


@dataclass(slots=True)
class _Claim:
    """``hints`` are those that were last given; ``said_s``, by source, the ones that are judged."""

    owner: str
    tenant: str
    blind_s: float
    hints: Hints | None
    said_s: dict[str, float] = field(default_factory=dict)

    def who(self, source: str) -> Who:
        """Whose word that of a source counts as."""
        return Who(self.owner, source, self.tenant)


class Hearing:
    """What was said of the jobs that are present."""

    __slots__ = ("_by_owner", "_claims", "_state", "_used", "gate")

    def __init__(self, state: State) -> None:
        self._state = state
        self.gate = Gate()
        self._claims: dict[int, _Claim] = {}
        #: Slots of the jobs that something was said of, by owner, source and tenant.
        self._by_owner: dict[Who, dict[int, None]] = {}
        #: Of the same, whether their hints are used: by that the waiting ones of their jobs have their place.
        self._used: dict[Who, bool] = {}

    def believed(self, job: Job) -> Job:
        """The job with what is believed of the hints that came with it."""
        hints = job.hints
        if hints is None or hints.expected_s is None:
            return job
        found = self._believed(job, hints)
        return job if found is hints else replace(job, hints=found)

    def _believed(self, job: Job, hints: Hints) -> Hints:
        """The times as far as the gate lets them pass; what the owner's jobs usually last where it does not and there
        is no limit to go by. How much memory is wanted and how busy the GPUs will be gains nobody a place."""
        if hints.expected_s is None or hints.high_s is None:
            return hints
        who = Who(_owner(job), hints.source, _tenant(job))
        factor = self.gate.factor(who)
        if factor is None:
            usual_s = self.gate.usual_s(who) if job.limit_s is None else None
            expected_s, high_s = usual_s or (None, None)
            return replace(hints, expected_s=expected_s, high_s=high_s)
        if factor == 1.0:
            return hints
        return replace(hints, expected_s=factor * hints.expected_s, high_s=factor * hints.high_s)

    def enter(self, slot: int, job: Job) -> None:
        """A job was submitted, with these hints."""
        self._claims[slot] = _Claim(_owner(job), _tenant(job), unhinted_s(job), None)
        self._note(slot, job.hints)

    def changed(self, slot: int, hints: Hints | None) -> Hints | None:
        """There are other hints about a job; what is believed of them. ``ValueError`` if the slot holds no job."""
        job = self._state.table.present(slot)
        self._note(slot, hints)
        return hints if hints is None else self._believed(job, hints)

    def _note(self, slot: int, hints: Hints | None) -> None:
        claim, table = self._claims[slot], self._state.table
        claim.hints = hints
        if hints is None or hints.expected_s is None:
            return
        if hints.source not in claim.said_s or (table.shares[slot] is None and not table.evictions[slot]):
            limit_s = self._state.table.assumed[slot].limit_s
            claim.said_s[hints.source] = min(hints.expected_s, limit_s)
            who = claim.who(hints.source)
            if who not in self._by_owner:
                self._by_owner[who], self._used[who] = {}, self.gate.factor(who) is not None
            self._by_owner[who][slot] = None

    def told(self, slot: int, job: Job) -> Job:
        """The job with the hints that were last given."""
        claim = self._claims[slot]
        return job if job.hints is claim.hints else replace(job, hints=claim.hints)

    def words(self, slot: int) -> str:
        """For people: how the hints about a job are used; empty where there are none."""
        claim = self._claims[slot]
        if claim.hints is None or claim.hints.expected_s is None:
            return ""
        return self.gate.trust(claim.who(claim.hints.source)).words()

    def leave(self, slot: int) -> None:
        """The job was taken back before it ran to an end."""
        claim = self._claims.pop(slot)
        for source in claim.said_s:
            who = claim.who(source)
            slots = self._by_owner[who]
            del slots[slot]
            if not slots:
                del self._by_owner[who], self._used[who]

    def end(self, slot: int, now: float) -> None:
        """The running job ends now."""
        claim, table = self._claims[slot], self._state.table
        said_s = {claim.who(source): each_s for source, each_s in claim.said_s.items()}
        job, gpus = table.present(slot), table.demands[slot].gpus
        self.gate.end(job.job_id, said_s, claim.blind_s, gpus, self._ran_s(slot, now))
        self.leave(slot)

    def _ran_s(self, slot: int, now: float) -> float:
        table = self._state.table
        return table.done_s[slot] + table.work_s(slot, now)

    def settle(self, now: float) -> None:
        """A cycle begins: take in what has ended, and put waiting jobs where they belong by what is known now."""
        due = self.gate.take_in()
        if not due:
            return
        records = {who: self.gate.judged_by(who) for who in self._by_owner}
        judged: dict[Who, list[Who]] = {}
        for who, record in records.items():
            judged.setdefault(record, []).append(who)
        self.gate.look([(record, self._running(judged.get(record, ()), now)) for record in due])
        now_used = {record: self.gate.factor(record) is not None for record in judged}
        for who, slots in self._by_owner.items():
            used = now_used[records[who]]
            if used is not self._used[who]:
                self._used[who] = used
                self._put_in_place(slots, now)

    def _running(self, whose: Sequence[Who], now: float) -> Iterator[Seen]:
        """The running jobs of these."""
        table = self._state.table
        for who in whose:
            for slot in self._by_owner[who]:
                if table.shares[slot] is not None:
                    claim = self._claims[slot]
                    said_s, gpus = claim.said_s[who.source], table.demands[slot].gpus
                    yield Seen(said_s, claim.blind_s, gpus, self._ran_s(slot, now))

    def _put_in_place(self, slots: dict[int, None], now: float) -> None:
        for slot in slots:
            claim = self._claims[slot]
            if self._state.table.live[slot] is not None and claim.hints is not None:
                believed = self._believed(self._state.table.present(slot), claim.hints)
                change_hints(self._state, slot, believed, now)


def _owner(job: Job) -> str:
    return job.account or job.tenant or ""


def _tenant(job: Job) -> str:
    return job.tenant or job.hint_tenant or ""
