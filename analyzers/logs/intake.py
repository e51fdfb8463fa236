"""Reads log files of any size, compression and encoding as lines, in bounded memory.

`discover(path)` says what there is to read, `read_lines(file)` streams it. One bad file in a folder is a warning
(handed to ``warn``); a path that can not be read at all is a `UserError`.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from analyzers.logs.companions import LogFile, describe, is_no_log, recorder_dump, sort_key
from analyzers.logs.packed import DAMAGED, is_packed, open_unpacked
from analyzers.logs.plain import Plain
from prompts.errors import UserError

__all__ = ["Cutter", "LogFile", "LogLine", "discover", "read_blocks", "read_lines", "read_pieces", "stream_blocks"]

#: What is kept of one line or progress-bar segment; the rest of a longer one is passed over unread.
KEPT_BYTES = 64 * 1024
CHUNK_BYTES = 1024 * 1024
HEAD_BYTES = 32 * 1024
MAX_FILES = 20_000
MAX_DEPTH = 12

Warn = Callable[[str], None]


class LogLine(NamedTuple):
    """One line, or one segment of a progress bar drawn with carriage returns or backspaces.

    ``file`` is `LogFile.name`; ``number`` counts '\\n'-terminated lines of the (decompressed) file from 1, so the
    segments of a bar share it; ``text`` is without terminal escapes, NULs and the line's end.
    """

    file: str
    number: int
    text: str


_ANSI = re.compile(
    r"(?:\x1b|#033|\^\[)\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves; rsyslog and cat -v spell the escape out
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # window titles and links
    r"|\x1b[()][A-Z0-9]|\x1b[@-Z\\^_=>78]|\x1b"
)
_BREAK = re.compile(r"\r|\x08{2,}")
_SINGLE_BACKSPACE = re.compile(r"[^\x08]?\x08")
_OTHER_CONTROLS = bytes(c for c in range(1, 32) if c not in b"\t\n\r\b\f\v\x1b") + b"\x7f"
_ARCHIVES = {b"PK\x03\x04": "a zip archive", b"\x7fELF": "a program", b"\x89PNG": "a picture", b"SQLi": "a database"}


def _ignore(_: str) -> None:
    pass


def discover(path: Path, warn: Warn = _ignore, known: Mapping[Path, LogFile] = MappingProxyType({})) -> list[LogFile]:
    """The log files at ``path`` (one file, or a folder recursively), each with what it is, in natural order.

    Files that are ``known`` already, by their path, are not opened.

    Devices, FIFOs, sockets, links that leave the folder, hidden files, source code and binary files are left out;
    those that look as if they had been meant are named to ``warn``.

    Raises `UserError` when the path is missing, unreadable, binary, empty, or holds nothing to read.
    """
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise UserError(f"{path}: no such file or folder", "check the path") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({_reason(error)})", "check its permissions") from None
    if stat.S_ISDIR(mode):
        return _discover_folder(path, warn, known)
    if not stat.S_ISREG(mode):
        raise UserError(f"{path}: is a device, pipe or socket, not a file", "save the log to a file first")
    return [known.get(path) or _examine(path, path.name)]


def _discover_folder(folder: Path, warn: Warn, known: Mapping[Path, LogFile]) -> list[LogFile]:
    found: list[LogFile] = []
    first_problem = ""
    for name, path in sorted(_walk(folder, warn), key=lambda pair: sort_key(pair[0])):
        try:
            found.append(known.get(path) or _examine(path, name))
        except UserError as error:
            first_problem = first_problem or error.what
            warn(f"{error.what}: skipped")
    if not found:
        why = f" ({first_problem})" if first_problem else ""
        raise UserError(f"{folder}: nothing to read in this folder{why}", "name a folder that holds log files")
    return found


def _walk(folder: Path, warn: Warn) -> Iterator[tuple[str, Path]]:
    """Regular files under ``folder`` with their relative names; bounded in depth and number."""
    root = folder.resolve()
    waiting = [(folder, 0)]
    count = 0
    while waiting:
        here, depth = waiting.pop()
        try:
            entries = sorted(here.iterdir())
        except OSError as error:
            if here == folder:
                raise UserError(f"{folder}: cannot be read ({_reason(error)})", "check its permissions") from None
            warn(f"{here}: cannot be read ({_reason(error)}): skipped")
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                if entry.is_symlink() and not entry.resolve().is_relative_to(root):
                    warn(f"{entry}: a link that leaves the folder: skipped")
                    continue
                if entry.is_dir():
                    if depth < MAX_DEPTH and not entry.is_symlink():
                        waiting.append((entry, depth + 1))
                    continue
                if not entry.is_file() or is_no_log(entry.name):
                    continue
            except (OSError, RuntimeError) as error:
                warn(f"{entry}: cannot be read ({_reason(error)}): skipped")
                continue
            count += 1
            if count > MAX_FILES:
                warn(f"{folder}: more than {MAX_FILES} files; the rest is skipped")
                return
            yield entry.relative_to(folder).as_posix(), entry


def _examine(path: Path, name: str) -> LogFile:
    """Look at the beginning of one file; `UserError` when it can not be read as a log."""
    try:
        with path.open("rb") as raw:
            magic = raw.read(4)
        for start, kind in _ARCHIVES.items():
            if magic == start:
                raise UserError(f"{path}: is {kind}, not a log", "name a text file or a folder")
        head = _head(path)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({_reason(error)})", "check its permissions") from None
    if not head.strip():
        why = "the compressed file is damaged or empty" if is_packed(magic) else "the file is empty"
        raise UserError(f"{path}: nothing to read ({why})", "wait until the job has written something")
    if (dump := recorder_dump(path, name, head)) is not None:
        return dump
    if len(head.translate(None, _OTHER_CONTROLS)) < 0.95 * len(head) or head[257:262] == b"ustar":
        raise UserError(f"{path}: is binary, not a log", "name a text file or a folder")
    return describe(path, name, head.decode("utf-8", "replace"))


def _head(path: Path) -> bytes:
    head = b""
    for chunk in _chunks(path, _ignore, HEAD_BYTES):
        head += chunk.lstrip() if not head else chunk
        if len(head) >= HEAD_BYTES:
            break
    return head[:HEAD_BYTES]


def read_lines(file: LogFile, warn: Warn = _ignore) -> Iterator[LogLine]:
    """All lines of one file, in order. What breaks off (truncated gzip, I/O error) ends it with a warning."""
    name = file.name
    for first, block in read_blocks(file, warn):
        number = first
        for line in clean(block).split("\n"):
            if "\r" in line or "\b" in line:
                for text in segments(line):
                    yield LogLine(name, number, text[:KEPT_BYTES])
            else:
                yield LogLine(name, number, line[:KEPT_BYTES])
            number += 1


def count_lines(block: bytes, start: int, end: int) -> int:
    """How many lines end between two offsets."""
    return block.count(b"\n", start, end)


def clean(block: bytes) -> str:
    """A block of lines as text: decoded (UTF-8, else Latin-1 line by line), without terminal escapes."""
    if b"\r\n" in block:
        block = block.replace(b"\r\n", b"\n")
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError:
        text = "\n".join(_decode(line) for line in block.split(b"\n"))
    if "\x1b" in text or "#033[" in text or "^[[" in text:
        text = _ANSI.sub("", text)
    return text


def _decode(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def segments(line: str) -> list[str]:
    """What a line showed one after the other on a terminal: parts between carriage returns or runs of backspaces."""
    parts = [part for part in _BREAK.split(line) if part.strip("\b ")]
    return [_SINGLE_BACKSPACE.sub("", part) if "\b" in part else part for part in parts] or [""]


def read_blocks(file: LogFile, warn: Warn = _ignore) -> Iterator[tuple[int, bytes]]:
    """Blocks of about 1 MiB as (number of the first line, bytes), for scanning many lines at once; see `Cutter`."""
    yield from _cut(_chunks(file.path, warn))


def read_pieces(file: LogFile, warn: Warn = _ignore) -> Iterator[bytes]:
    """As `read_blocks` for one who counts the lines: the blocks, each with its end."""
    cutter = Cutter()
    for chunk in _chunks(file.path, warn):
        if piece := cutter.cut(chunk):
            yield piece
    if rest := cutter.rest():
        yield rest[1]


def stream_blocks(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """As `read_blocks`, from a pipe, which is not decompressed.

    Raises `UserError` when what comes is compressed.
    """
    plain = Plain()

    def chunks() -> Iterator[bytes]:
        is_first = True
        while chunk := stream.read(CHUNK_BYTES):
            if is_first and is_packed(chunk):
                raise UserError("what comes in is compressed", "unpack it first (zcat), or name the file")
            is_first = False
            yield plain.text(chunk)

    return _cut(chunks())


def _cut(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    cutter = Cutter()
    for chunk in chunks:
        found = cutter.push(chunk)
        if found is not None:
            yield found
    found = cutter.rest()
    if found is not None:
        yield found


class Cutter:
    """Cuts what is read into blocks of whole lines, each with the number of its first line.

    A block ends at a line's end (which is left off) or, inside an endless progress bar, at a carriage return or
    backspace. A stretch of more than `KEPT_BYTES` without any of them is cut, so memory stays bounded.
    """

    def __init__(self) -> None:
        self.number = 1
        self._carry, self._skipping = b"", False

    def push(self, chunk: bytes) -> tuple[int, bytes] | None:
        """Take what comes next; the whole lines that are there now."""
        block, first = self.cut(chunk), self.number
        if not block:
            return None
        self.number += count_lines(block, 0, len(block))
        return first, block.removesuffix(b"\n").removesuffix(b"\r")

    def cut(self, chunk: bytes) -> bytes:
        """As `push` for one who counts the lines: the block, with its end; empty where no line is whole yet."""
        if self._skipping:
            start = min((at for at in map(chunk.find, (b"\n", b"\r", b"\b")) if at >= 0), default=-1)
            if start < 0:
                return b""
            chunk, self._skipping = chunk[start:], False
        data = self._carry + chunk
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1), data.rfind(b"\b", 0, len(data) - 1)) + 1
        self._carry = data[cut:]
        if len(self._carry) > KEPT_BYTES:
            self._carry, self._skipping = self._carry[:KEPT_BYTES], True
        return data[:cut]

    def rest(self) -> tuple[int, bytes] | None:
        """What has no end yet."""
        return (self.number, self._carry.removesuffix(b"\r")) if self._carry else None


def _chunks(path: Path, warn: Warn, most_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The file decompressed and as `Plain` text, so many bytes of it at a time."""
    plain = Plain()
    try:
        with open_unpacked(path) as stream:
            while chunk := stream.read1(most_bytes):
                if text := plain.text(chunk):
                    yield text
    except DAMAGED:
        warn(f"{path}: the compressed file is cut off or damaged; read as far as it goes")
    except OSError as error:
        warn(f"{path}: reading broke off ({_reason(error)})")


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
