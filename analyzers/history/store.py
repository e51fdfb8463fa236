"""The job history in one file: JSON lines, only ever appended to.

A process killed while writing leaves at most one torn last line; it is skipped and reported when read, and closed off
by the next writer. Writers take turns by an advisory lock; readers see whole lines only.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
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

    def _append(self, data: bytes) -> None:
        with _told(self.path, "written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    data = b"\n" + data  # someone died here: their torn line must not swallow our first
                try:
                    _write_all(handle, data)
                    os.fsync(handle)
                except OSError:
                    os.ftruncate(handle, size)
                    raise
            finally:
                os.close(handle)

    def _refresh(self) -> None:
        """Read what was appended since; start over when the file was replaced or cut."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._forget()
            return
        except OSError as error:
            raise _unusable(self.path, error, "read") from None
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._read_to:
            self._forget()
            self._identity = identity
        if status.st_size > self._read_to:
            with _told(self.path, "read"), self.path.open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_SH)
                stream.seek(self._read_to)
                self._take(stream)

    def _forget(self) -> None:
        self._index = HistoryIndex()
        self._read_to = self._line = self.skipped = 0
        self.warnings = []
        self._identity = None

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
