"""The journal: every event as a line of JSON, appended before it takes effect, and read back after a crash.

The first line tells the format's version and what the scheduler was made of; then comes one event a line. A line is
either whole or not there: what a crash left of the last one is dropped when the journal is opened again, which is
logged in one line, and nothing was decided by it. Anything else that does not fit is refused with the number of its
line.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedmate.scheduler.cluster_types import ClusterSpec
from schedmate.scheduler.codec import from_json, to_json
from schedmate.scheduler.events import KINDS, Effect, Event
from schedmate.scheduler.policies import Policy
from schedmate.scheduler.scheduler import Scheduler
from schedmate.scheduler.tenants import Tenant

VERSION = 1

_log = logging.getLogger(__name__)

_NAMES = {kind: name for name, kind in KINDS.items()}


class JournalError(ValueError):
    """A journal that can not be read; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a scheduler is made of."""

    cluster: ClusterSpec
    policy: Policy
    tenants: tuple[Tenant, ...] = ()

    def scheduler(self) -> Scheduler:
        """A new one."""
        return Scheduler(self.cluster, self.policy, self.tenants)


def line_of(event: Event) -> str:
    """An event as one line, without its end. ``TypeError`` for values that can not be written."""
    return json.dumps({"event": _NAMES[type(event)], **to_json(event)}, separators=(",", ":"), allow_nan=False)


def event_of(line: str, where: str = "line") -> Event:
    """The event of a line. Raises `JournalError`."""
    given = _object(line, where)
    kind = KINDS.get(str(given.pop("event", "")))
    if kind is None:
        raise JournalError(f"{where}: no event that is known; there are {', '.join(KINDS)}")
    try:
        event: Event = from_json(kind, given, where)
    except ValueError as error:
        raise JournalError(str(error)) from None
    except RecursionError:
        raise JournalError(f"{where}: nested too deeply") from None
    return event


class Journal:
    """A file that is open for appending. ``events`` are those that it held when it was opened.

    ``sync``: each line is on the disk, not only with the operating system, before `write` returns; a machine may then
    lose its power as well. Raises `JournalError` for a file that is no journal, one of another scheduler, or one that
    is open elsewhere.
    """

    def __init__(self, path: Path, header: Header, sync: bool = False) -> None:
        self.path, self.header, self._sync = path, header, sync
        self.events: tuple[Event, ...] = ()
        self._file = path.open("ab+", buffering=0)
        try:
            self._lock()
            self._open()
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        """Two schedulers that write to one journal would both be wrong. The lock goes with the process."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(f"{self.path}: another scheduler has it open") from None

    def _open(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        found = read(data, str(self.path))
        if found is None:
            self._tell_of_a_cut(len(data), 0)
            self._file.truncate(0)
            self._file.seek(0)
            self._append(_header_line(self.header))
            return
        header, self.events, size = found
        if header != self.header:
            raise JournalError(f"{self.path}: the journal of another cluster, policy or tenant tree")
        self._tell_of_a_cut(len(data) - size, len(self.events))
        self._file.truncate(size)
        self._file.seek(size)

    def _tell_of_a_cut(self, dropped: int, whole: int) -> None:
        if dropped:
            _log.warning(
                "%s: its last line was cut, %d bytes are dropped; %d events are whole", self.path, dropped, whole
            )

    def write(self, event: Event) -> None:
        """Append an event; when this returns it will not be forgotten."""
        self._append(line_of(event))

    def _append(self, line: str) -> None:
        size, data = self._file.tell(), line.encode("utf-8") + b"\n"
        try:
            written = self._file.write(data)
            if written != len(data):  # a disk that is full takes a part of it, and says nothing
                raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written", str(self.path))
            if self._sync:
                os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(size)  # what came out of it is not an event
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Journaled:
    """A scheduler with its journal: every event is written down, then applied.

    Made with a journal that holds events it first lives through them again. An event that the scheduler refuses
    (a job that no pool could hold, an end of a job that is not there) stays in the journal and is refused again.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.scheduler = journal.header.scheduler()
        for _ in replay(self.scheduler, journal.events):
            pass

    def apply(self, event: Event) -> Effect:
        """Let something happen. Raises what `Scheduler.apply` raises, and ``OSError`` if it can not be written down:
        then it has not happened."""
        self.journal.write(event)
        return self.scheduler.apply(event)


def replay(scheduler: Scheduler, events: Iterable[Event]) -> Iterator[Effect | None]:
    """Live through events; what each led to, None where it is refused."""
    for event in events:
        try:
            yield scheduler.apply(event)
        except ValueError:
            yield None


def read(data: bytes, name: str) -> tuple[Header, tuple[Event, ...], int] | None:
    """The header, the events and how many bytes of ``data`` hold them; None if not even the header is whole. Raises
    `JournalError` for a line that is whole and does not fit."""
    whole = data.rfind(b"\n") + 1
    try:
        lines: Sequence[str] = data[:whole].decode("utf-8").split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise JournalError(f"{name}: not text at byte {error.start}") from None
    if not lines:
        if data and not _header_begins(data):
            raise JournalError(f"{name}: not a journal")
        return None
    events = tuple(event_of(line, f"{name}, line {number}") for number, line in enumerate(lines[1:], start=2))
    return _header(lines[0], f"{name}, line 1"), events, whole


def _header_line(header: Header) -> str:
    return json.dumps({"journal": VERSION, **to_json(header)}, separators=(",", ":"), allow_nan=False)


def _header_begins(data: bytes) -> bool:
    begin = b'{"journal":'
    return begin.startswith(data[: len(begin)]) or data.startswith(begin)


def _header(line: str, where: str) -> Header:
    given = _object(line, where)
    version = given.pop("journal", None)
    if version is None:
        raise JournalError(f"{where}: not a journal")
    if version != VERSION:
        raise JournalError(f"{where}: a journal of version {version}, this reads version {VERSION}")
    try:
        header: Header = from_json(Header, given, where)
    except ValueError as error:
        raise JournalError(str(error)) from None
    except RecursionError:
        raise JournalError(f"{where}: nested too deeply") from None
    return header


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise JournalError(f"{where}: not JSON ({error})") from None
    if not isinstance(given, dict):
        raise JournalError(f"{where}: not an object")
    return given
