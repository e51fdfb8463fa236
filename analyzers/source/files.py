"""Reading a job's work dir: regular files inside it only, within limits, never blocking."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: A source file above this is not read: parsing it would take longer than a submission may wait.
FILE_BYTES_MAX = 1_000_000
#: All files of one job together.
TOTAL_BYTES_MAX = 4_000_000
FILES_MAX = 400


@dataclass(slots=True)
class Tree:
    """A work dir opened for reading. Paths are POSIX-style and relative to ``root``.

    ``overlay`` holds files that a launch script would write before it starts the program (here-documents).
    Symbolic links are followed only while they stay inside the tree; FIFOs and devices are never opened.
    """

    root: Path | None
    warnings: list[str] = field(default_factory=list)
    overlay: dict[str, str] = field(default_factory=dict)
    scripts_followed: int = 0
    _texts: dict[str, str | None] = field(default_factory=dict)
    _kinds: dict[str, bool] = field(default_factory=dict)
    _real_root: str = ""
    _bytes_read: int = 0
    _files_read: int = 0

    def __post_init__(self) -> None:
        if self.root is not None:
            self._real_root = os.path.realpath(self.root)

    def warn(self, text: str) -> None:
        """Remember a warning once."""
        shown = text if len(text) <= 300 else f"{text[:150]} ... {text[-120:]}"
        if shown not in self.warnings and len(self.warnings) < 50:
            self.warnings.append(shown)

    def is_file(self, path: str) -> bool:
        """Whether ``path`` names a regular file inside the tree."""
        if path in self.overlay:
            return True
        if path not in self._kinds:
            self._kinds[path] = self._locate(path, stat.S_ISREG) is not None
        return self._kinds[path]

    def is_dir(self, path: str) -> bool:
        """Whether ``path`` names a folder inside the tree."""
        key = f"{path}/"
        if key not in self._kinds:
            self._kinds[key] = self._locate(path, stat.S_ISDIR) is not None
        return self._kinds[key]

    def read(self, path: str) -> str | None:
        """The text of a file, or None (with a warning) where it can not or must not be read."""
        path = normal(path)
        if path in self.overlay:
            return self.overlay[path]
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def find(self, name: str, folder_limit: int = 400) -> list[str]:
        """Files called ``name`` anywhere in the tree (bounded walk), nearest to the root first."""
        if self.root is None:
            return []
        found: list[str] = []
        waiting = [""]
        seen = 0
        while waiting and seen < folder_limit and len(found) < 8:
            folder = waiting.pop(0)
            seen += 1
            try:
                with os.scandir(f"{self._real_root}/{folder}") as entries:
                    listed = sorted(((e.name, e.is_dir(follow_symlinks=False)) for e in entries), key=lambda e: e[0])
            except (OSError, ValueError):
                continue
            for entry, is_folder in listed[:2000]:
                path = f"{folder}/{entry}" if folder else entry
                if is_folder and not entry.startswith("."):
                    waiting.append(path)
                elif entry == name and self.is_file(path):
                    found.append(path)
        return found

    def _locate(self, path: str, wanted: Callable[[int], bool]) -> str | None:
        if self.root is None or "\0" in path or len(path) > 4000:
            return None
        try:
            real = os.path.realpath(f"{self._real_root}/{normal(path)}")
            if real != self._real_root and not real.startswith(self._real_root.rstrip("/") + "/"):
                return None
            mode = Path(real).stat().st_mode
        except (OSError, ValueError):
            return None
        return real if wanted(mode) else None

    def _read(self, path: str) -> str | None:
        real = self._locate(path, stat.S_ISREG)
        if real is None:
            return None
        if self._files_read >= FILES_MAX or self._bytes_read >= TOTAL_BYTES_MAX:
            self.warn("the work dir holds more source than is read for one job; the rest was left out")
            return None
        try:
            # O_NONBLOCK: should the path have become a FIFO since it was looked at, the open must not hang.
            handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return None
                if status.st_size > FILE_BYTES_MAX:
                    self.warn(f"{path}: {status.st_size} bytes, too large to read")
                    return None
                data = file.read(FILE_BYTES_MAX + 1)[:FILE_BYTES_MAX]
        except OSError as error:
            self.warn(f"{path}: can not be read ({error.strerror})")
            return None
        self._files_read += 1
        self._bytes_read += len(data)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return data.decode("latin-1")


def normal(path: str) -> str:
    """A path relative to the tree with ``.`` and ``..`` resolved; one that climbs out keeps its ``..``."""
    path = posixpath.normpath(path)
    return "" if path == "." else path
