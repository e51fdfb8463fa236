"""Opens compressed files (gzip, bzip2, xz, zstd) as streams of what is in them, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import zstandard

_GZIP, _BZIP2, _XZ, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"

#: What reading a cut-off or damaged file raises.
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)

#: So little is unpacked at a time that what comes out stays small (a block of 128 KiB may be packed into 4 bytes).
_ZSTD_PIECE_BYTES = 512
#: A file that needs a larger window to be unpacked (zstd --long=28 and above) is refused.
_ZSTD_WINDOW_BYTES = 128 * 1024 * 1024


class Unpacked(Protocol):
    """What `open_unpacked` returns: read piece by piece, closed by ``with``."""

    def read1(self, size: int, /) -> bytes:
        """The next bytes, at most ``size``; none at the end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...


def is_packed(beginning: bytes) -> bool:
    """Whether a file that begins so is compressed."""
    return beginning.startswith((_GZIP, b"BZ", b"\xfd7", _ZSTD[:2]))


def open_unpacked(path: Path) -> Unpacked:
    """Open a file for reading what is in it. Reading raises one of `DAMAGED` where it is cut off or broken.

    Raises `OSError`.
    """
    with path.open("rb") as raw:
        magic = raw.read(6)
    if magic.startswith(_GZIP):
        return gzip.open(path, "rb")
    if magic.startswith(_BZIP2):
        return bz2.open(path, "rb")
    if magic.startswith(_XZ):
        return lzma.open(path, "rb")
    if magic.startswith(_ZSTD):
        return _Zstd(path.open("rb"))
    return path.open("rb")


class _Zstd:
    """A zstd file of any number of frames."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        self._frame = self._unpacker.decompressobj()
        self._ready = bytearray()
        self._in_frame = False

    def read1(self, size: int, /) -> bytes:
        """The next bytes, at most ``size``; none at the end."""
        while len(self._ready) < size:
            piece = self._raw.read(_ZSTD_PIECE_BYTES)
            if not piece:
                if self._in_frame and not self._ready:
                    raise EOFError("the last frame has no end")
                break
            while piece:
                self._ready += self._frame.decompress(piece)
                self._in_frame = not self._frame.eof
                piece = b"" if self._in_frame else self._frame.unused_data
                if not self._in_frame:
                    self._frame = self._unpacker.decompressobj()
        found = bytes(self._ready[:size])
        del self._ready[:size]
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()
