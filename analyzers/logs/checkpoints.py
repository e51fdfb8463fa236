"""The last checkpoint that a run can safely go on from.

What was only begun is safe once the log says that it is written or training goes on after it (of what is written in
the background, only the former counts); an error in between, or a later save to the same place, takes it back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from analyzers.logs.clock import DATED_FROM
from analyzers.logs.saving import Save
from analyzers.logs.series import Record
from analyzers.types import Checkpoint

#: So many are kept of each process, the latest ones.
_KEPT = 8


@dataclass(slots=True)
class Saved:
    """A checkpoint and the line that tells of it; ``reached`` is the training record before it."""

    save: Save
    line: Record
    reached: Record | None

    def told(self) -> Checkpoint:
        """With the step and epoch of the record before it where the line names neither."""
        step, epoch = self.save.step, self.save.epoch
        if step is None and epoch is None and self.reached is not None:
            step, epoch = self.reached.step, self.reached.epoch
        time = self.line.time if self.line.time is not None and self.line.time > DATED_FROM else None
        when = datetime.fromtimestamp(time, UTC).replace(tzinfo=None) if time is not None else None
        return Checkpoint(self.save.path, step, epoch, when, self.line.evidence())

    def is_same(self, other: Saved) -> bool:
        """Whether both are parts of one checkpoint, as the ranks of a job write them."""
        mine, theirs = self.told(), other.told()
        if None not in (mine.step, theirs.step):
            return mine.step == theirs.step
        if None not in (mine.epoch, theirs.epoch):
            return mine.epoch == theirs.epoch
        return mine.path is not None and mine.path == theirs.path


@dataclass(slots=True)
class SaveWatch:
    """Follows one process's checkpoints, line by line."""

    pending: Saved | None = None
    safe: deque[Saved] = field(default_factory=lambda: deque(maxlen=_KEPT))
    broken: deque[Saved] = field(default_factory=lambda: deque(maxlen=_KEPT))
    is_async: bool = False

    def line(self, save: Save, line: Record, reached: Record | None) -> None:
        """Take a line about a checkpoint; ``reached`` is the latest training record."""
        here = Saved(save, line, reached)
        if save.says == "async":
            self.is_async = True
        elif save.says in ("begun", "loaded"):
            self._begin(here)
        elif save.says == "done" or (save.says == "staged" and not self.is_async):
            self._complete(here)
        elif save.says == "failed":
            self.failed(here)
        elif save.says == "removed":
            self.safe = deque((one for one in self.safe if one.save.path != save.path), maxlen=_KEPT)

    def _begin(self, here: Saved) -> None:
        before = self.pending
        self._overwrite(here.save)
        if before is not None and before.is_same(here):  # its files one by one
            before.save = before.save._replace(path=before.save.path or here.save.path)
            return
        if before is not None:
            self.broken.append(before)
        self.pending = here

    def _overwrite(self, save: Save) -> None:
        if save.in_place:
            self.safe = deque((one for one in self.safe if one.save.path != save.path), maxlen=_KEPT)

    def _complete(self, here: Saved) -> None:
        begun = self.pending
        if begun is not None and begun.save.says == "begun" and (here.save.path is None or here.is_same(begun)):
            known = here.save
            here.save = known._replace(
                path=known.path or begun.save.path,
                step=known.step if known.step is not None else begun.save.step,
                epoch=known.epoch if known.epoch is not None else begun.save.epoch,
            )
            here.reached = begun.reached
        self.pending = None
        self._overwrite(here.save)
        self.safe.append(here)
        self.broken = deque((one for one in self.broken if not one.is_same(here)), maxlen=_KEPT)

    def failed(self, here: Saved) -> None:
        """An error: what is being written is lost, and so is what an error names."""
        if self.pending is not None:
            self.broken.append(self.pending)
            self.pending = None
        elif here.save.path is not None or here.save.step is not None:
            self.broken.append(here)

    def trained(self, record: Record | None) -> None:
        """Training goes on (with that record), or has ended well: what was begun in the foreground is complete."""
        begun = self.pending
        if begun is None or begun.save.is_async or (record is not None and not _goes_on(begun, record)):
            return
        self.pending = None
        self.safe.append(begun)


def _goes_on(begun: Saved, record: Record) -> bool:
    reached = begun.reached
    return record.order > begun.line.order and (
        reached is None or record.step != reached.step or record.epoch != reached.epoch
    )


def restart_points(watches: Iterable[SaveWatch]) -> tuple[Checkpoint | None, Checkpoint | None]:
    """The latest checkpoint that all processes wrote completely, and a later one that is not known to be so."""
    known = list(watches)
    unsure = {id(watch): [*watch.broken, *([watch.pending] if watch.pending else [])] for watch in known}
    whole = [
        one
        for watch in known
        for one in watch.safe
        if not any(part.is_same(one) for other in known if other is not watch for part in unsure[id(other)])
    ]
    best = max(whole, key=lambda one: one.line.order, default=None)
    partial = [one for some in unsure.values() for one in some if one.save.says != "loaded"]
    last = max(
        (one for one in partial if best is None or _is_later(one, best)), key=lambda one: one.line.order, default=None
    )
    return best.told() if best is not None else None, last.told() if last is not None else None


def _is_later(one: Saved, best: Saved) -> bool:
    """Whether it was written after ``best``; files of a folder are read one after the other, so their steps tell."""
    if one.line.file == best.line.file:
        return one.line.order > best.line.order
    mine, theirs = one.told().step, best.told().step
    return mine is None or theirs is None or mine > theirs
