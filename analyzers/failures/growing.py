"""One file of a job that is being written: read once, in blocks, with what it tells as of now whenever it is asked.

Whole blocks are read for good. What came after the last one is kept, and read by a copy of the reader where somebody
asks, since what a line means may depend on the lines after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import BinaryIO

from analyzers.failures.block import Block
from analyzers.failures.parts import Part
from analyzers.failures.reading import FileReader
from analyzers.logs.companions import LogFile
from analyzers.logs.intake import CHUNK_BYTES, HEAD_BYTES, KEPT_BYTES, Cutter
from analyzers.logs.packed import is_packed
from analyzers.logs.plain import Plain

#: A file's first bytes tell what it is; from so many on they tell it for good.
SURE_BYTES = 2 * HEAD_BYTES
#: So much before the end of what was read, and at the beginning, must still stand there; else it is another file.
_MARK_BYTES = 64
#: More than this, come at once, is not looked at for trouble but taken for it.
_MOST_FRESH_BYTES = 4 * CHUNK_BYTES
LEAST_BLOCK_BYTES = 16 * 1024

MakeReader = Callable[[LogFile], FileReader]


class Growing:
    """``changed``: something was added since `part` was made; ``in_trouble``: some line may be a failure's; ``fresh``:
    lines not yet looked at for that; ``examined_bytes``: how long it was when its beginning was last looked at;
    ``block_bytes``: how much is read for good at a time, and kept of what came after it."""

    def __init__(self, file: LogFile, make: MakeReader) -> None:
        self.file, self._make, self.block_bytes = file, make, CHUNK_BYTES
        self.examined_bytes = -1
        self.in_trouble = file.kind in ("scheduler", "recorder")
        self.modified_s = 0.0
        self._part: Part | None = None
        self._anew()
        self._identity = (0, 0)

    def _anew(self) -> None:
        self.size = 0
        self.changed, self.is_packed = True, False
        self._head, self._tail = b"", b""
        self._reader: FileReader | None = None
        self._plain, self._cutter = Plain(), Cutter()
        self._pending = bytearray()
        self._fresh_at = 0
        self.fresh = b""

    def becomes(self, file: LogFile) -> None:
        """By what it says now it is something else."""
        if file == self.file:
            return
        if self._reader is not None or "recorder" in (file.kind, self.file.kind):
            self._anew()
        self.file, self.changed = file, True
        self.in_trouble = self.in_trouble or file.kind in ("scheduler", "recorder")

    @property
    def is_settled(self) -> bool:
        """Whether another look at its beginning would tell nothing new."""
        return self.examined_bytes == self.size or self.examined_bytes >= SURE_BYTES

    @property
    def kept_bytes(self) -> int:
        """What came after the last block that was read for good."""
        return len(self._pending)

    def poll(self) -> bool:
        """Read what was added; whether anything was. Raises `OSError` where it can not be read now."""
        status = os.stat(self.file.path)  # noqa: PTH116 - of a thousand files several times a second
        identity = (status.st_ino, status.st_mtime_ns)
        if identity == self._identity and status.st_size == self.size:
            return False
        self.modified_s = status.st_mtime
        with open(self.file.path, "rb", buffering=0) as stream:  # noqa: PTH123
            if status.st_ino != self._identity[0] or status.st_size < self.size or not self._is_same(stream):
                self._anew()
                self.examined_bytes = -1
            self._identity = identity
            return self._read(stream, status.st_size)

    def _is_same(self, stream: BinaryIO) -> bool:
        number = stream.fileno()
        head = os.pread(number, len(self._head), 0)
        return head == self._head and os.pread(number, len(self._tail), self.size - len(self._tail)) == self._tail

    def _read(self, stream: BinaryIO, until: int) -> bool:
        began = self.size
        stream.seek(self.size)
        while self.size < until:
            data = stream.read(min(CHUNK_BYTES, until - self.size))
            if not data:
                break
            if not self.size:
                self.is_packed = is_packed(data)
            self.size += len(data)
            if len(self._head) < _MARK_BYTES:
                self._head = (self._head + data)[:_MARK_BYTES]
            self._tail = (self._tail + data[-_MARK_BYTES:])[-_MARK_BYTES:]
            if not self.is_packed and self.file.kind != "recorder":
                self._take(data)
        self.changed = self.changed or self.size != began
        return self.size != began

    def _take(self, data: bytes) -> None:
        self._pending += data
        self._freshen()
        size = self.block_bytes
        while len(self._pending) > size and self.size > SURE_BYTES:
            block = self._cutter.push(self._plain.text(bytes(self._pending[:size])))
            del self._pending[:size]
            self._fresh_at = max(0, self._fresh_at - size)
            if self._reader is None:
                self._reader = self._make(self.file)
            if block is not None:
                self._reader.take(Block(*block), False)

    def _freshen(self) -> None:
        """Put aside, for a look, the lines that came and the last one, which may have no end yet."""
        begin = max(self._fresh_at, len(self._pending) - CHUNK_BYTES - KEPT_BYTES)
        if not self.in_trouble:
            self.fresh += bytes(self._pending[begin:]).translate(None, b"\0")
            if len(self.fresh) > _MOST_FRESH_BYTES:
                self.fresh, self.in_trouble = b"", True
        end = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r")) + 1
        self._fresh_at = max(end, len(self._pending) - KEPT_BYTES)

    def part(self) -> Part:
        """What it tells as of now."""
        if self._part is None or self.changed:
            self._part, self.changed = self._read_on(), False
        return self._part

    def stale_part(self) -> Part:
        """What it told when it was last asked."""
        return self.part() if self._part is None else self._part

    def _read_on(self) -> Part:
        if self.is_packed:
            return self._make(self.file).read()
        reader = deepcopy(self._reader) if self._reader is not None else self._make(self.file)
        return reader.finish(self._left())

    def _left(self) -> Iterator[Block]:
        plain, cutter = deepcopy(self._plain), deepcopy(self._cutter)
        block = cutter.push(plain.text(bytes(self._pending))) if self._pending else None
        for found in (block, cutter.rest()):
            if found is not None:
                yield Block(*found)
