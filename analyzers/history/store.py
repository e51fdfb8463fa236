"""The job history in one file: JSON lines, appended to; only taking jobs out writes it anew.

A process killed while writing leaves at most one torn last line; it is skipped and reported when read, and closed off
by the next writer. Writers take turns by an advisory lock; readers see whole lines only. What is written anew replaces
the file in one step, so that whoever is killed on the way leaves the old one.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from analyzers.history.codec import BadRecordError, decode, encode
from analyzers.history.index import HistoryIndex
from analyzers.types import JobRecord, Submission
from prompts.errors import UserError

_WARNINGS_KEPT = 5
_MAGIC = b"{"
_CHUNK_BYTES = 1 << 22
#: So many bytes before the place read to are compared: a new file may get the number of one that is gone.
_TAIL_BYTES = 256


class FileHistoryStore:
    """Implements `analyzers.ports.HistoryStore` on a JSON lines file, which need not exist yet.

    ``skipped`` counts lines that could not be read, ``warnings`` has the first few in words. What other processes
    append is seen at the next call. Raises `UserError` when the file can not be opened or is no history at all.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped = 0
        self.warnings: list[str] = []
        self._index = HistoryIndex()
        self._read_to = 0
        self._line = 0
        self._identity: tuple[int, int] | None = None
        self._status: tuple[int, int, int, int] | None = None
        self._tail = b""

    def add(self, records: Iterable[JobRecord]) -> int:
        """Append records in one write, synced to disk. Returns how many were taken.

        All or none: when the disk is full the file is put back as it was. A record that can not be stored (a number
        that is not finite, say) raises `UserError`.
        """
        added, lines = [], []
        for record in records:
            try:
                lines.append(encode(record).encode() + b"\n")
            except BadRecordError as error:
                raise UserError(f"job {record.job_id!r} can not be stored: {error}", "correct the record") from None
            added.append(record)
        if not lines:
            return 0
        self._append(b"".join(lines))
        self._refresh()
        return len(added)

    def remove(self, matches: Callable[[JobRecord], bool]) -> int:
        """Take out the jobs that ``matches`` holds for. Returns how many; lines that can not be read stay.

        The file is replaced in one step under the writers' lock: all of them go or, when the disk is full, none.
        """
        self._refresh()  # refuses a file that is no history
        with _told(self.path, "written"), _locked(self.path):
            lines = self.path.read_bytes().splitlines(keepends=True)
            by_line = [_decoded(line) for line in lines]
            latest = {record.job_id: record for record in by_line if record is not None}
            gone = {job_id for job_id, record in latest.items() if matches(record)}
            if gone:
                # Earlier records of the same job go too, or the job would come back as it was before.
                kept = (n for n, r in zip(lines, by_line, strict=True) if r is None or r.job_id not in gone)
                _replace(self.path, kept)
        self._refresh()
        return len(gone)

    def clear(self) -> int:
        """Empty the history, unreadable lines included. Returns how many jobs were in it."""
        with _told(self.path, "written"), _locked(self.path):
            latest = {r.job_id for line in self.path.read_bytes().splitlines() if (r := _decoded(line)) is not None}
            _replace(self.path, ())
        self._refresh()
        return len(latest)

    def records(self) -> Iterator[JobRecord]:
        """All records, in order of submission."""
        self._refresh()
        return iter(self._index)

    def __len__(self) -> int:
        self._refresh()
        return len(self._index)

    def similar(
        self, submission: Submission, fingerprint: str = "", *, k: int = 20, before_s: float | None = None
    ) -> list[tuple[JobRecord, float]]:
        """The ``k`` nearest ended jobs with their similarity in 0..1, nearest first."""
        self._refresh()
        return self._index.similar(submission, fingerprint, k=k, before_s=before_s)

    def news(self, seen: tuple[object, int] | None) -> tuple[tuple[object, int], list[JobRecord]]:
        """As `analyzers.ports.HistoryStore.news`; everything is news where the file was replaced."""
        self._refresh()
        known = seen[1] if seen is not None and seen[0] is self._index else 0
        count, records = self._index.news(known)
        return (self._index, count), records

    def _append(self, data: bytes) -> None:
        with _told(self.path, "written"), _locked(self.path) as handle:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                data = b"\n" + data  # someone died here: their torn line must not swallow our first
            try:
                _write_all(handle, data)
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, size)
                raise

    def _refresh(self) -> None:
        """Read what was appended since; start over when the file was replaced or cut."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._forget()
            return
        except OSError as error:
            raise _unusable(self.path, error, "read") from None
        _check_regular(self.path, found)
        if _status(found) == self._status:
            return
        with _told(self.path, "read"), self.path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH)
            status = _status(os.fstat(stream.fileno()))
            tail = os.pread(stream.fileno(), len(self._tail), self._read_to - len(self._tail))
            if status[:2] != self._identity or status[2] < self._read_to or tail != self._tail:
                self._forget()
                self._identity = status[:2]
            stream.seek(self._read_to)
            self._take(stream)
            start = max(0, self._read_to - _TAIL_BYTES)
            self._tail = os.pread(stream.fileno(), self._read_to - start, start)
            self._status = status

    def _forget(self) -> None:
        self._index = HistoryIndex()
        self._read_to = self._line = self.skipped = 0
        self.warnings = []
        self._identity = self._status = None
        self._tail = b""

    def _take(self, stream: BinaryIO) -> None:
        for line in stream:
            self._line += 1
            whole = line.endswith(b"\n")
            if line.strip():
                self._take_line(line, whole)
            if not whole:
                self._line -= 1  # the next writer ends this line, and then it is counted
            self._read_to += len(line)

    def _take_line(self, line: bytes, whole: bool) -> None:
        try:
            self._index.add(decode(line))
        except BadRecordError as error:
            if self._line == 1 and not line.lstrip().startswith(_MAGIC):
                raise UserError(
                    f"{self.path}: not a job history (JSON lines)", "a trace is read with `schedmate history import`"
                ) from None
            self.skipped += 1
            reason = str(error) if whole else "torn by a write that never finished"
            if len(self.warnings) < _WARNINGS_KEPT:
                self.warnings.append(f"{self.path}, line {self._line}: {reason}; skipped")


def _check_kind(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UserError(f"{path}: the history store is a device, pipe or socket", "set history.store to a file")


def _status(of: os.stat_result) -> tuple[int, int, int, int]:
    return (of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns)


def _decoded(line: bytes) -> JobRecord | None:
    try:
        return decode(line)
    except BadRecordError:
        return None


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file, made where it is missing, open for appending under the writers' lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        if path.exists():
            _check_regular(path, path.stat())  # to open a pipe would wait for its reader
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_at(path, handle):  # else it was replaced while we waited: what is written here would be lost
                yield handle
                return
        finally:
            os.close(handle)


def _check_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise UserError(f"{path}: the history store is a device, pipe or socket", "set history.store to a file")


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _replace(path: Path, lines: Iterable[bytes]) -> None:
    """Put a file of these lines in the place of ``path`` (of what it links to) in one step."""
    real = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as new:
            new.writelines(lines)
            new.flush()
            os.fchmod(new.fileno(), real.stat().st_mode & 0o777)
            os.fsync(new.fileno())
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view[:_CHUNK_BYTES]) :]


@contextmanager
def _told(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unusable(path, error, done) from None


def _unusable(path: Path, error: OSError, done: str) -> UserError:
    if isinstance(error, IsADirectoryError):
        return UserError(f"{path}: the history store is a folder", "set history.store to a file")
    return UserError(f"{path}: the history can not be {done}: {error.strerror or error}", "check history.store")
