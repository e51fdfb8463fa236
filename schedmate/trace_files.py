"""Trace files as text: packed or not (told by the first bytes, never by the name), in whatever Unicode encoding."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO, cast

from prompts.errors import UserError
from schedmate.files import whole_file
from schedmate.ports import TraceNotes

HEAD_BYTES = 16_384
CHUNK_CHARS = 1 << 20
_LONGEST_LINE_CHARS = 1 << 20
#: The outer buffer turns many small decompressions into few.
_BUFFER_BYTES = 1 << 18
_PACKED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
_OTHER_PACKERS = {b"PK\x03\x04": "zip", b"PAR1": "Parquet", b"7z\xbc\xaf\x27\x1c": "7z", b"\x89HDF": "HDF5"}
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
#: Above this share of undecodable or control characters a file is not text in any encoding we can guess.
_MAX_GARBAGE_SHARE = 0.1
_UNREADABLE = "\ufffd"


class _DamagedError(Exception):
    """What the unpacker found; ``early`` where the data simply stops."""

    def __init__(self, packer: str, early: bool) -> None:
        super().__init__(packer)
        self.packer, self.early = packer, early


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """The first ``size`` unpacked bytes of a text file; `UserError` for what is no readable text file."""
    try:
        with _open_binary(path) as stream:
            head = stream.read(size)
    except _DamagedError as error:
        raise _damaged(path, error) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if not head:
        raise UserError(f"{path}: the file is empty", "give a trace with at least one job")
    for magic, packer in _OTHER_PACKERS.items():
        if head.startswith(magic):
            raise UserError(f"{path}: this is {packer} data", "unpack or convert it to text (gzip, xz, zstd are read)")
    if _looks_binary(head):
        raise UserError(f"{path}: this is binary data, not a text trace", "give a text trace, plain or packed")
    return head


def head_text(head: bytes) -> str:
    """The beginning of a file as text, without a byte order mark."""
    return head.decode(_encoding(head), "replace").lstrip("\ufeff")


def lines(path: Path, notes: TraceNotes | None = None) -> Iterator[str]:
    """The lines of a text file, unpacked on the way, line ends kept as ``\\n``; `UserError` where it is damaged.

    Bytes that are no text become U+FFFD; with ``notes`` the lines that have any are counted there.
    """
    for line in _guarded(path, _bounded_lines):
        if notes is not None and _UNREADABLE in line:
            notes.remark("bytes that are no UTF-8 text were replaced")
        yield line


def chunks(path: Path) -> Iterator[str]:
    """The text of a file in pieces of about a million characters, for formats that do not come in lines."""
    return _guarded(path, _pieces)


@contextmanager
def writer_for(path: Path) -> Iterator[TextIO]:
    """A text stream into a file that is there once it is whole, packed as its name ends (.gz, .xz, .zst)."""
    with whole_file(path, "name another file with --out, or make room") as raw:
        packed = _packing(path, raw)
        text = io.TextIOWrapper(packed, encoding="utf-8", errors="replace", newline="")
        yield text
        text.flush()
        text.detach()
        if packed is not raw:
            packed.close()


def _packing(path: Path, raw: IO[bytes]) -> IO[bytes]:
    """What packs into a stream, which it leaves open."""
    if path.suffix == ".gz":
        # No name and no time inside: the same jobs make the same bytes.
        return cast(IO[bytes], gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0))
    if path.suffix == ".xz":
        return cast(IO[bytes], lzma.LZMAFile(raw, "wb"))
    if path.suffix in (".zst", ".zstd"):
        return cast(IO[bytes], _zstandard(path).ZstdCompressor().stream_writer(raw, closefd=False))
    return raw


def _guarded(path: Path, read: Callable[[io.TextIOWrapper], Iterator[str]]) -> Iterator[str]:
    number = 0
    encoding = _encoding(read_head(path))
    try:
        with (
            _open_binary(path) as stream,
            io.TextIOWrapper(stream, encoding=encoding, errors="replace") as text,
        ):
            for number, part in enumerate(read(text), start=1):  # noqa: B007 (told in the error below)
                yield part
    except _DamagedError as error:
        raise _damaged(path, error, number if read is _bounded_lines else None) from None
    except OSError as error:
        raise _unreadable(path, error, number) from None


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    """The lines, of an endless one only its beginning."""
    while line := text.readline(_LONGEST_LINE_CHARS):
        if len(line) == _LONGEST_LINE_CHARS and not line.endswith("\n"):
            while (rest := text.readline(_LONGEST_LINE_CHARS)) and not rest.endswith("\n"):
                pass
        yield line


def _pieces(text: io.TextIOWrapper) -> Iterator[str]:
    while piece := text.read(CHUNK_CHARS):
        yield piece


def _open_binary(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise UserError(f"{path}: is a folder", "give a trace file")
        if not path.exists():
            raise UserError(f"{path}: no such file", "check the path")
        if not path.is_file():
            raise UserError(f"{path}: not a regular file", "save it to a file first: a trace is read twice")
        raw = path.open("rb")
    except PermissionError:
        raise UserError(f"{path}: permission denied", "make it readable (chmod +r) or run as its owner") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: can not be opened: {reason}", "check the path") from None
    try:
        start = raw.peek(6)
    except OSError as error:
        raw.close()
        raise _unreadable(path, error) from None
    packer = next((name for magic, name in _PACKED.items() if start.startswith(magic)), None)
    if packer is None:
        return raw
    return io.BufferedReader(_Unpacked(raw, packer, path), _BUFFER_BYTES)


class _Unpacked(io.RawIOBase):
    """Unpacks a stream, several packed streams one after the other included; `_DamagedError` where it can not."""

    def __init__(self, raw: BinaryIO, packer: str, path: Path) -> None:
        super().__init__()
        self._raw, self._packer = raw, packer
        self._stream: Any = raw
        if packer == "gzip":
            self._stream = gzip.GzipFile(fileobj=raw)
        elif packer == "xz":
            self._stream = lzma.LZMAFile(raw)  # noqa: SIM115 (closed with this object)
        elif packer == "bzip2":
            self._stream = bz2.BZ2File(raw)
        else:
            self._stream = _ZstdStream(raw, _zstandard(path))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except EOFError:
            raise _DamagedError(self._packer, early=True) from None
        except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
            # bz2 and gzip tell damage as an OSError without a number; one with a number is the disk's.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise _DamagedError(self._packer, early=False) from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _ZstdStream:
    """Reads zstd frames; the package's own reader takes a file that stops inside a frame for a whole one."""

    def __init__(self, raw: BinaryIO, package: Any) -> None:
        self._raw, self._package = raw, package
        self._frame: Any = None
        self._ready = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        while self._at >= len(self._ready):
            data = self._raw.read(1 << 16) if self._frame is None or not self._frame.unused_data else b""
            if self._frame is not None and self._frame.eof:
                data = self._frame.unused_data + data
                self._frame = None
            if not data:
                if self._frame is not None:
                    raise EOFError
                return b""
            if self._frame is None:
                self._frame = self._package.ZstdDecompressor().decompressobj()
            try:
                self._ready, self._at = self._frame.decompress(data), 0
            except self._package.ZstdError as error:
                raise ValueError(str(error)) from None
        part = self._ready[self._at : self._at + size]
        self._at += len(part)
        return part


def _zstandard(path: Path) -> Any:
    try:
        import zstandard
    except ImportError:
        raise UserError(f"{path}: zstd needs the Python package zstandard", "install it or use gzip or xz") from None
    return zstandard


def _encoding(head: bytes) -> str:
    return next((encoding for mark, encoding in _BOMS.items() if head.startswith(mark)), "utf-8")


def _looks_binary(head: bytes) -> bool:
    text = head.decode(_encoding(head), "replace")
    garbage = sum(1 for c in text if c == _UNREADABLE or (c < " " and c not in "\t\r\n\f\v\x1b"))
    return garbage > _MAX_GARBAGE_SHARE * len(text)


def _unreadable(path: Path, error: OSError, line: int = 0) -> UserError:
    where = f" after line {line}" if line else ""
    return UserError(
        f"{path}: can not be read{where}: {error.strerror or error}", "check the disk, or copy the file and read that"
    )


def _damaged(path: Path, error: _DamagedError, line: int | None = None) -> UserError:
    where = f" after line {line}" if line else ""
    what = "ends early" if error.early else "is damaged"
    return UserError(f"{path}: its {error.packer} data {what}{where}", "copy or download the file again")
