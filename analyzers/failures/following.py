"""Why a job that is still being written about fails, as of now: `analyzers.failures.diagnose` without reading again.

The verdict at any moment is the one that `diagnose` would give on the files as they are. `glance` gives it at less
cost: only files that speak of trouble are brought up to date.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from analyzers.failures.diagnosis import conclude
from analyzers.failures.ended import has_ended
from analyzers.failures.events import Scan
from analyzers.failures.flight_recorder import Stuck, find_stuck, read_dumps
from analyzers.failures.growing import LEAST_BLOCK_BYTES, Growing
from analyzers.failures.hosts import known_hosts
from analyzers.failures.parts import Part
from analyzers.failures.reading import FileReader
from analyzers.failures.sampling import Share
from analyzers.failures.scan import Scanner, put_together
from analyzers.failures.topology import Topology
from analyzers.logs.companions import LogFile
from analyzers.logs.intake import CHUNK_BYTES, discover
from analyzers.types import Diagnosis
from prompts.errors import UserError

#: What is kept of all files together that is not read for good; the last blocks of each are kept beside it.
_KEPT_BYTES = 24 * 1024 * 1024
#: What was written is looked at for trouble when so much of it has come together.
_MOST_FRESH_BYTES = 2 * 1024 * 1024

Warn = Callable[[str], None]


class LiveDiagnosis:
    """The files at a path, which need not exist yet. Call `look` now and then, and `poll` again and again.

    ``nothing`` says why nothing can be read, where that is so.
    """

    def __init__(self, path: Path, scanner: Scanner, warn: Warn) -> None:
        self._path, self._scanner, self._warn = path, scanner, warn
        self._files: dict[Path, Growing] = {}
        self._known: frozenset[str] = frozenset()
        self._share = Share.of_each(1)
        self._warnings: list[str] = []
        self._stuck: tuple[tuple[tuple[Path, int], ...], Stuck | None] = ((), None)
        self.nothing: UserError | None = None
        self._concluded_from: tuple[Scan, Topology] | None = None

    def __len__(self) -> int:
        return len(self._files)

    @property
    def is_in_doubt(self) -> bool:
        """Whether a file in which some line may be a failure's has changed since the last verdict."""
        return any(file.changed and file.in_trouble for file in self._files.values())

    @property
    def kept_bytes(self) -> int:
        """What is kept of the files because it may still be understood otherwise."""
        return sum(file.kept_bytes for file in self._files.values())

    @property
    def modified_s(self) -> float:
        """When a file was last written, in seconds since 1970."""
        return max((file.modified_s for file in self._files.values()), default=0.0)

    def look(self) -> None:
        """See which files have come and gone, and what those are that had hardly begun."""
        warnings: list[str] = []
        settled = {path: file.file for path, file in self._files.items() if file.is_settled}
        for file in self._files.values():
            if not file.is_settled:
                file.examined_bytes = file.size
        try:
            found, self.nothing = discover(self._path, warnings.append, settled), None
        except UserError as error:
            found, self.nothing = [], error
        self._warnings = warnings
        self._share = Share.of_each(len(found))
        before, self._files = self._files, {}
        for log in found:
            growing = before.get(log.path) or Growing(log, self._reader)
            growing.becomes(log)
            growing.block_bytes = min(CHUNK_BYTES, max(LEAST_BLOCK_BYTES, _KEPT_BYTES // len(found)))
            self._files[log.path] = growing
        known = known_hosts([log for log in found if log.kind != "recorder"])
        if known != self._known:
            self._known = known
            for growing in self._files.values():
                growing.changed = True
        self.poll()

    def poll(self) -> bool:
        """Read what was added everywhere; whether anything was."""
        has_grown, fresh_bytes = False, 0
        for file in self._files.values():
            has_grown = self._grown(file) or has_grown
            fresh_bytes += len(file.fresh)
            if fresh_bytes > _MOST_FRESH_BYTES:
                self._look_at_fresh()
                fresh_bytes = 0
        self._look_at_fresh()
        return has_grown

    def _grown(self, file: Growing) -> bool:
        try:
            return file.poll()
        except FileNotFoundError:
            return False  # between the two halves of a rotation, or gone: the next look tells
        except OSError as error:
            self._warn(f"{file.file.path}: cannot be read now ({error.strerror or error})")
            return False

    def _look_at_fresh(self) -> None:
        asked = [file for file in self._files.values() if file.fresh]
        for at in self._scanner.troubled([file.fresh for file in asked]) if asked else ():
            asked[at].in_trouble = True
        for file in asked:
            file.fresh = b""
        for file in self._files.values():
            if file.is_packed and file.changed and not file.in_trouble:
                file.in_trouble = any(e.signature.role != "informational" for e in file.part().scan.events)
                file.changed = True

    def verdict(self) -> Diagnosis | None:
        """As `analyzers.failures.diagnose` on the files as far as they were read; None where there is none."""
        return self._concluded(Growing.part)

    def glance(self) -> Diagnosis | None:
        """As `verdict`, with files that speak of no trouble as they were when they were last asked."""
        return self._concluded(lambda file: file.part() if file.in_trouble else file.stale_part())

    def _concluded(self, tell: Callable[[Growing], Part]) -> Diagnosis | None:
        if not self._files:
            return None
        texts = [file for file in self._files.values() if file.file.kind != "recorder"]
        files = [file.file for file in texts]
        scan, topology = put_together(files, (tell(file).copied() for file in texts), self._known)
        warnings = list(self._warnings)
        scan.stuck = self._stuck_at(warnings)
        found = conclude(scan, topology, warnings)
        left = {e.file for e in scan.events if not e.dismissed and e.signature.role != "informational"}
        for file in self._files.values():
            if file.file.kind == "recorder":
                file.changed = False
            elif not file.changed:
                file.in_trouble = file.file.name in left or file.file.kind == "scheduler"
        self._concluded_from = (scan, topology)
        return found

    def has_ended(self) -> bool:
        """Whether, by what the last verdict rests on, the job is over."""
        return self._concluded_from is not None and has_ended(*self._concluded_from)

    def _stuck_at(self, warnings: list[str]) -> Stuck | None:
        dumps = [file for file in self._files.values() if file.file.kind == "recorder"]
        state = tuple((file.file.path, file.size) for file in dumps)
        if state != self._stuck[0]:
            self._stuck = (state, find_stuck(read_dumps((file.file for file in dumps), warnings.append)))
        return self._stuck[1]

    def _reader(self, file: LogFile) -> FileReader:
        return self._scanner.reader(file, self._known, self._share, self._warn)
