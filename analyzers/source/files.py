"""Reading a job's work dir: regular files inside it only, within limits, never blocking."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from analyzers.source import directive
from analyzers.source.decoding import decoded
from analyzers.source.ignore import Ignored, ignored_in
from analyzers.source.limits import TOO_LONG, Deadline
from analyzers.source.project import project_of
from prompts.redaction import redact

#: A source file above this is not read: parsing it would take longer than a submission may wait.
FILE_BYTES_MAX = 1_000_000
#: All files of one job together.
TOTAL_BYTES_MAX = 4_000_000
FILES_MAX = 400
#: Entries looked at when a file is searched for by its name: of one folder, and of all together.
FOLDER_ENTRIES_MAX = 5_000
ENTRIES_MAX = 50_000
FOLDERS_MAX = 400
WARNINGS_MAX = 50

#: One look at the work dir and what was seen: (kind, path or name, answer). The answers decide what is looked at next.
Seen = tuple[str, str, "bool | str | list[str] | None"]


@dataclass(slots=True)
class Tree:
    """A work dir opened for reading. Paths are POSIX-style and relative to ``root``.

    ``overlay`` holds files that a launch script would write before it starts the program (here-documents).
    Symbolic links are followed only while they stay inside the project; FIFOs and devices are never opened, nor is what
    ``ignored`` names. ``above`` is the way up to the top of the project that the work dir lies in (``../..``; empty
    where it is the top): a program started in a folder of a package that was installed in place imports from there, and
    so far up a path may climb. ``scripts`` are the launch scripts that were met; with ``headers_only`` their leading
    comments are all that ``overlay`` holds of the work dir. ``seen`` is every look at the work dir with its answer, so
    that a later one can be compared.
    """

    root: Path | None
    warnings: list[str] = field(default_factory=list)
    overlay: dict[str, str] = field(default_factory=dict)
    scripts_followed: int = 0
    deadline: Deadline = field(default_factory=Deadline)
    seen: list[Seen] = field(default_factory=list)
    withheld: set[str] = field(default_factory=set)
    ignored: Ignored = field(default_factory=Ignored)
    off: bool = False
    headers_only: bool = False
    scripts: dict[str, str] = field(default_factory=dict)
    above: str = ""
    _texts: dict[str, str | None] = field(default_factory=dict)
    _kinds: dict[str, bool] = field(default_factory=dict)
    _names: dict[str, list[str]] | None = None
    _real_folders: dict[str, str] = field(default_factory=dict)
    _real_root: str = ""
    _project: str = ""
    _bytes_read: int = 0
    _files_read: int = 0

    def __post_init__(self) -> None:
        if self.root is not None:
            self._real_root = os.path.realpath(self.root)
            self._project = project_of(self._real_root)
            way = os.path.relpath(self._project, self._real_root)
            self.above = "" if way == "." else way
            self.seen.append(("project", "", self.above))
            self.ignored = ignored_in(self.root)
            if self.ignored.problem:
                self.warn(self.ignored.problem)
            self.seen.append(self._rules_look())
            if self.ignored.everything:
                self.root = None

    def warn(self, text: str) -> None:
        """Remember a warning once."""
        text = redact(text)  # before it is cut: half a secret would not be known for one
        shown = text if len(text) <= 300 else f"{text[:150]} ... {text[-120:]}"
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
        if shown in self.warnings or len(self.warnings) > WARNINGS_MAX:
            return
        self.warnings.append(shown if len(self.warnings) < WARNINGS_MAX else "more was left out than is listed here")

    def obey(self, text: str, file: str) -> None:
        """Raise `directive.SourceOffError` where a program or script says that source is not to be read."""
        if not self.off:
            directive.obey(text, file)

    def lacks(self, name: str, consequence: str) -> None:
        """Warn that a file which is started is not there, unless it was not to be looked for."""
        if not self.off:
            self.warn(f"{name} is not in the work dir; {consequence}")

    def is_file(self, path: str) -> bool:
        """Whether ``path`` names a regular file inside the project (one that is ignored included)."""
        if path in self.overlay:
            return True
        if path not in self._kinds:
            self._kinds[path] = self._locate(path, stat.S_ISREG) is not None
            self.seen.append(("file", path, self._kinds[path]))
        return self._kinds[path]

    def is_dir(self, path: str) -> bool:
        """Whether ``path`` names a folder inside the tree."""
        key = f"{path}/"
        if key not in self._kinds:
            self._kinds[key] = self._locate(path, stat.S_ISDIR) is not None
            self.seen.append(("dir", path, self._kinds[key]))
        return self._kinds[key]

    def read(self, path: str) -> str | None:
        """The text of a file, or None (with a warning) where it can not or must not be read."""
        path = normal(path)
        if path in self.overlay:
            return self.overlay[path]
        if path not in self._texts:
            data = self._read(path)
            self.seen.append(("read", path, None if data is None else digest(data)))
            self._texts[path] = None if data is None else self._decoded(data, path)
        return self._texts[path]

    def find(self, name: str) -> list[str]:
        """Files called ``name`` anywhere in the tree (bounded walk), nearest to the root first."""
        if self.root is None:
            return []
        if self._names is None:
            self._names = self._walked()
        found = [path for path in self._names.get(name, []) if self.is_file(path)][:8]
        self.seen.append(("find", name, list(found)))
        return found

    def texts(self) -> dict[str, str]:
        """Every text that was read so far, in that order; those of the overlay first."""
        return {**self.overlay, **{path: text for path, text in self._texts.items() if text is not None}}

    def listing(self) -> list[str]:
        """The files of the tree (bounded walk, what is ignored left out), folders nearest to the root first."""
        if self.root is None:
            return []
        if self._names is None:
            self._names = self._walked()
        paths = {path for found in self._names.values() for path in found if not self.ignored(path)}
        return sorted(paths, key=lambda path: (path.count("/"), path))

    def size_of(self, path: str) -> int | None:
        """Bytes of a regular file of the tree, None where it is not one."""
        real = self._locate(path, stat.S_ISREG)
        try:
            return None if real is None else Path(real).stat().st_size
        except OSError:
            return None

    def look_again(self, look: Seen) -> Seen:
        """The same look at this tree as it is now."""
        kind, path, _ = look
        if kind == "rules":
            return self._rules_look()
        if kind == "project":
            return kind, path, self.above
        if kind == "file":
            return kind, path, self.is_file(path)
        if kind == "dir":
            return kind, path, self.is_dir(path)
        if kind == "find":
            return kind, path, list(self.find(path))
        self.read(path)
        return next((seen for seen in reversed(self.seen) if seen[:2] == (kind, path)), (kind, path, None))

    def _rules_look(self) -> Seen:
        return "rules", "", digest(repr(self.ignored).encode("utf-8", "surrogatepass"))

    def _walked(self) -> dict[str, list[str]]:
        """Every file's name with its paths, folders nearest to the root first; says when that was not all."""
        names: dict[str, list[str]] = {}
        waiting = [""]
        folders = entries_seen = 0
        while waiting:
            if self.deadline.passed():
                self.warn(TOO_LONG)
                break
            if folders >= FOLDERS_MAX or entries_seen >= ENTRIES_MAX:
                self.warn("the work dir is too large to be searched whole; a file deep in it may have been overlooked")
                break
            folder = waiting.pop(0)
            folders += 1
            try:
                with os.scandir(f"{self._real_root}/{folder}") as listing:
                    listed = [(e.name, e.is_dir(follow_symlinks=False)) for e in islice(listing, FOLDER_ENTRIES_MAX)]
            except (OSError, ValueError):
                continue
            if len(listed) == FOLDER_ENTRIES_MAX:
                self.warn(f"{folder or 'the work dir'}: more than {FOLDER_ENTRIES_MAX} entries; some were passed over")
            entries_seen += len(listed)
            for entry, is_folder in sorted(listed):
                path = f"{folder}/{entry}" if folder else entry
                if not is_folder:
                    names.setdefault(entry, []).append(path)
                elif not entry.startswith(".") and not self.ignored(path, is_folder=True):
                    waiting.append(path)
        return names

    def _locate(self, path: str, wanted: Callable[[int], bool]) -> str | None:
        """The real path of what ``path`` names, where that lies in the project and is of the wanted kind."""
        if self.root is None or "\0" in path or len(path) > 4000:
            return None
        folder, _, name = normal(path).rpartition("/")
        try:
            # A folder is resolved once: most looks are for one of many names in it, and find none.
            if folder not in self._real_folders:
                self._real_folders[folder] = os.path.realpath(f"{self._real_root}/{folder}")
            real = f"{self._real_folders[folder]}/{name}"
            status = os.lstat(real)
            if stat.S_ISLNK(status.st_mode) or name in ("", ".."):
                real = os.path.realpath(real)
                status = Path(real).stat()
        except (OSError, ValueError):
            return None
        if real != self._project and not real.startswith(self._project.rstrip("/") + "/"):
            if wanted is stat.S_ISREG and not stat.S_ISDIR(status.st_mode):
                self.warn(f"{path}: lies outside the work dir and was not read")
            return None
        if wanted is stat.S_ISREG and not (wanted(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            self.warn(f"{path}: is no regular file and was not read")
        return real if wanted(status.st_mode) else None

    def _is_withheld(self, path: str, real: str) -> bool:
        """Whether a file is ignored, under the path it was asked for or under the one that a link leads to."""
        if self.ignored(path) or self.ignored(os.path.relpath(real, self._real_root)):
            self.withheld.add(path)
            return True
        return False

    def _read(self, path: str) -> bytes | None:
        real = self._locate(path, stat.S_ISREG)
        if real is None or self._is_withheld(path, real):
            if real is None and self._kinds.get(path):
                self.warn(f"{path}: vanished while the work dir was read")
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
        return data

    def _decoded(self, data: bytes, path: str) -> str | None:
        text = decoded(data)
        if text is None:
            self.warn(f"{path}: is not text")
        return text


def digest(data: bytes) -> str:
    """What stands for a content: equal only for equal bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def normal(path: str) -> str:
    """A path relative to the tree with ``.`` and ``..`` resolved; one that climbs out keeps its ``..``."""
    path = posixpath.normpath(path)
    return "" if path == "." else path
