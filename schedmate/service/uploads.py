"""Uploaded files and archives written to a folder of our own: no path leads out of it, nothing but plain files."""

from __future__ import annotations

import gzip
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from schedmate.service.problems import Problem, is_disk_full

MAX_FILES = 20_000
MAX_DEPTH = 12
#: An archive may unpack to this many times the upload limit; text packs well, bombs pack better.
UNPACKED_PER_UPLOAD = 8

_CHUNK_BYTES = 1 << 20
_LARGEST_READ_BYTES = 64 << 20
_LARGEST_DIRECTORY_BYTES = 16 << 20
_LONGEST_NAME_BYTES = 200
_TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
_ZIP_END = struct.Struct("<4s4H2LH")


@dataclass(slots=True)
class Inbox:
    """Takes files in under ``folder`` until ``limit_bytes`` are written; ``notes`` says what was left out."""

    folder: Path
    limit_bytes: int
    written_bytes: int = 0
    files: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, name: str, stream: BinaryIO) -> None:
        """Write one plain file. Raises `Problem` for a name that leads out, or too much."""
        path = self.folder / safe_name(name)
        if len(self.files) >= MAX_FILES:
            raise Problem(413, f"more than {MAX_FILES} files", "send fewer")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                while chunk := stream.read(_CHUNK_BYTES):
                    self.written_bytes += len(chunk)
                    if self.written_bytes > self.limit_bytes:
                        raise Problem(413, f"more than {self.limit_bytes >> 20} MiB when unpacked", "send less")
                    out.write(chunk)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise Problem(422, f"{name[:200]!r} is both a file and a folder", "rename one of them") from None
        self.files.append(path)

    def unpack(self, name: str, stream: BinaryIO) -> None:
        """Write the plain files of an archive; links and devices are left out."""
        try:
            members = _zip_members(stream) if name.lower().endswith(".zip") else _tar_members(stream, self.limit_bytes)
            left_out = 0
            for member, content in members:
                if content is None:
                    left_out += 1
                else:
                    self.take(member, content)
        except (
            tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError,
            RuntimeError, ValueError, struct.error,
        ) as error:  # fmt: skip
            if is_disk_full(error):
                raise
            raise Problem(
                422, f"{name[:200]!r} is not a readable archive ({type(error).__name__})", "send .tar.gz or .zip"
            ) from None
        if left_out:
            self.notes.append(f"{name}: {left_out} links, devices or other special files left out")


def is_archive(name: str) -> bool:
    """Whether a file name is that of an archive that is unpacked."""
    return name.lower().endswith((*_TAR_ENDINGS, ".zip"))


def safe_name(name: str) -> Path:
    """A relative path of harmless parts. Raises `Problem` when the name leads elsewhere or can not be one."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    bad = not parts or ".." in parts or name.startswith(("/", "\\")) or (len(name) > 1 and name[1] == ":")
    if bad or len(parts) > MAX_DEPTH or any(not c.isprintable() for c in name):
        raise Problem(422, f"file name {name[:200]!r} is not a plain relative path", "rename the file")
    if any(len(part.encode("utf-8", "replace")) > _LONGEST_NAME_BYTES for part in parts):
        raise Problem(422, f"file name {name[:60]!r}... is too long", "rename the file")
    return Path(*parts)


def write_files(files: Mapping[str, str], folder: Path, limit_bytes: int) -> None:
    """Write files that came as text. Raises `Problem` like `Inbox.take`."""
    import io

    inbox = Inbox(folder, limit_bytes)
    for name, text in files.items():
        inbox.take(name, io.BytesIO(text.encode("utf-8", "replace")))


def _tar_members(stream: BinaryIO, limit_bytes: int) -> Iterator[tuple[str, BinaryIO | None]]:
    head = stream.read(2)
    stream.seek(0)
    source: Any = gzip.GzipFile(fileobj=stream, mode="rb") if head == b"\x1f\x8b" else stream
    bounded: Any = _Bounded(source, limit_bytes)
    with tarfile.open(fileobj=bounded, mode="r:") as archive:
        count = 0
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # it would keep every header
            count += 1
            if count > MAX_FILES * 2:
                raise Problem(413, f"more than {MAX_FILES * 2} entries in the archive", "send fewer")
            if member.isdir():
                continue
            yield member.name, archive.extractfile(member) if member.isreg() else None  # type: ignore[misc]


def _zip_members(stream: BinaryIO) -> Iterator[tuple[str, BinaryIO | None]]:
    _check_zip_directory(stream)
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                yield member.filename, None
                continue
            with archive.open(member) as content:
                yield member.filename, content  # type: ignore[misc]


def _check_zip_directory(stream: BinaryIO) -> None:
    """Refuse a zip whose directory alone would fill the memory, before `zipfile` reads it whole."""
    stream.seek(0, 2)
    size = stream.tell()
    stream.seek(max(0, size - _ZIP_END.size - 0xFFFF - 20))
    tail = stream.read()
    stream.seek(0)
    position = len(tail) - _ZIP_END.size
    if not (tail[position : position + 4] == b"PK\x05\x06" and tail.endswith(b"\0\0")):
        position = tail.rfind(b"PK\x05\x06")
    if position < 0 or len(tail) - position < _ZIP_END.size:
        raise zipfile.BadZipFile
    directory_bytes = _ZIP_END.unpack_from(tail, position)[5]
    if directory_bytes > _LARGEST_DIRECTORY_BYTES or tail[max(0, position - 20) : position].startswith(b"PK\x06\x07"):
        raise Problem(413, "the zip archive lists too many files", "send a .tar.gz, or fewer files")


class _Bounded:
    """A file of which only so much can be read or passed over, and never much at once (`tarfile` trusts headers)."""

    def __init__(self, stream: BinaryIO, limit_bytes: int) -> None:
        self._stream = stream
        self._limit_bytes = limit_bytes

    def read(self, size: int = -1) -> bytes:
        """Like a file's read."""
        if size < 0 or size > _LARGEST_READ_BYTES:
            raise Problem(413, "an entry of the archive claims to be too large", "send less")
        self._check(self._stream.tell() + size)
        return self._stream.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        """Like a file's seek, from the start only."""
        self._check(position)
        return self._stream.seek(position, whence)

    def tell(self) -> int:
        """Like a file's tell."""
        return self._stream.tell()

    def _check(self, position: int) -> None:
        if position > self._limit_bytes + _LARGEST_READ_BYTES:
            raise Problem(413, f"more than {self._limit_bytes >> 20} MiB when unpacked", "send less")
