"""Applies events to a scheduler, see `events`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from schedmate.scheduler import events as e

if TYPE_CHECKING:
    from schedmate.scheduler.scheduler import Scheduler


class Book:
    """Which job of which name is in which slot, and how late it is."""

    __slots__ = ("_scheduler", "_slots", "last_s")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._slots: dict[str, int] = {}
        self.last_s = -math.inf
        self._read()

    def _read(self) -> None:
        jobs = self._scheduler.state.table.jobs
        self._slots = {job.job_id: slot for slot, job in enumerate(jobs) if job is not None}

    def find(self, name: str) -> int | None:
        """The slot of a job that is present."""
        slot, jobs = self._slots.get(name), self._scheduler.state.table.jobs
        if slot is not None and ((job := jobs[slot]) is None or job.job_id != name):
            self._read()  # somebody ended it without an event
            slot = self._slots.get(name)
        return slot

    def slot(self, name: str) -> int:
        """The same; ``ValueError`` if there is none."""
        slot = self.find(name)
        if slot is None:
            raise ValueError(f"there is no job {name}")
        return slot

    def enter(self, name: str, slot: int) -> None:
        """A job has come."""
        self._slots[name] = slot

    def leave(self, name: str) -> None:
        """It has gone."""
        del self._slots[name]


def apply(scheduler: Scheduler, book: Book, event: e.Event) -> e.Effect:
    """Let it happen; what it led to. ``ValueError`` for what can not be: then nothing has changed."""
    if not book.last_s <= event.at_s < math.inf:
        raise ValueError(f"an event at {event.at_s} s after one at {book.last_s} s")
    effect = _happen(scheduler, book, event)
    book.last_s = event.at_s
    return effect


def _happen(scheduler: Scheduler, book: Book, event: e.Event) -> e.Effect:
    now = event.at_s
    match event:
        case e.CycleRan():
            started = scheduler.cycle(now)
            names = _namer(scheduler)
            return e.Effect(
                names(started), names(scheduler.evicted), names(scheduler.resized), names(scheduler.migrated)
            )
        case e.Submitted(job=job):
            if book.find(job.job_id) is not None:
                raise ValueError(f"there is a job {job.job_id} already")
            book.enter(job.job_id, scheduler.submit(job))
        case e.Ended(job=name):
            scheduler.end(book.slot(name), now)
            book.leave(name)
        case e.Withdrawn(job=name):
            scheduler.withdraw(book.slot(name))
            book.leave(name)
        case e.Evicted(job=name):
            scheduler.evict(book.slot(name), now)
            return e.Effect(evicted=(name,))
        case e.HintsChanged(job=name, hints=hints):
            scheduler.update_hints(book.slot(name), hints, now)
        case e.TenantsChanged(tenants=tenants):
            scheduler.set_tenants(tenants, now)
        case e.NodeChanged(pool=pool, node=node, health=health):
            return _struck(scheduler, scheduler.set_node_health(pool, node, health, now))
        case e.DeviceChanged(pool=pool, node=node, device=device, healthy=healthy):
            return _struck(scheduler, scheduler.set_device_health(pool, node, device, healthy, now))
        case e.NodeSuspected(pool=pool, node=node, weight=weight):
            scheduler.suspect(pool, node, now, weight)
    return e.Effect()


def _struck(scheduler: Scheduler, lost: list[int]) -> e.Effect:
    names = _namer(scheduler)
    return e.Effect(evicted=names(lost), resized=names(scheduler.repaired))


def _namer(scheduler: Scheduler) -> Callable[[Iterable[int]], tuple[str, ...]]:
    jobs = scheduler.state.table.jobs
    return lambda slots: tuple(job.job_id for slot in slots if (job := jobs[slot]) is not None)
