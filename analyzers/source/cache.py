"""Readings kept on disk by content: a job that was read before, wherever its work dir lies, costs a look at its files.

An entry holds the answer and every look at the work dir that led to it (which files there are, a digest of those that
were read). It counts only while each look gives the same again, contents compared byte for byte through their digest:
an edited import, a changed configuration, a new file that shadows another, all make it void. Names and digests are
kept, no source. The format is JSON, checked as it is read: what somebody else wrote into the folder runs nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import yaml

from analyzers.source.files import Seen, Tree, digest
from analyzers.types import (
    FACT_NAMES,
    REQUEST_NAMES,
    Fact,
    How,
    JsonValue,
    SourceEvidence,
    SourceFacts,
    SourceReading,
    SourceState,
    Submission,
)
from prompts.ownership import only_ours
from prompts.redaction import redact

DEFAULT_BYTES_MAX = 64 << 20
#: An entry above this is not kept: looking through it would cost as much as reading the job again.
_ENTRY_BYTES_MAX = 256 << 10
#: Readings kept under one key: work dirs that differ although command and first file are the same.
_READINGS_MAX = 4
#: The folder's size is looked at when an entry is written whose name begins so: about one of sixteen, in whatever
#: process, as most live for a single write. So many it may grow over its limit meanwhile.
_SWEPT_AFTER = "0"
_LEFTOVER_AGE_S = 3600.0
_SUFFIX = ".reading.json"


class ReadingCache:
    """A folder of readings, at most about ``limit_bytes`` large. Any number of processes may share it.

    Nothing here raises for what lies in the folder, a full disk or a missing permission: then jobs are read anew.
    """

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_BYTES_MAX) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes

    def find(self, submission: Submission) -> SourceFacts | None:
        """The reading of this submission's content, where it is known."""
        if not only_ours(self._folder):
            return None
        path = self._path(submission)
        entry = _load(path)
        for reading in entry:
            if _holds(reading, submission):
                try:
                    facts = _facts_from(reading["answer"])
                except (KeyError, TypeError, ValueError, AttributeError):
                    continue
                with contextlib.suppress(OSError):
                    os.utime(path)
                return facts
        return None

    def keep(self, submission: Submission, tree: Tree, facts: SourceFacts) -> None:
        """Remember a reading with the looks at ``tree`` that led to it."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not only_ours(self._folder):
                return
            path = self._path(submission)
            names = "\n".join(str(part) for look in tree.seen for part in look[1:])
            if redact(names) != names:
                return  # the name of a file is a secret
            new = {"seen": [list(look) for look in tree.seen], "answer": _plain(facts)}
            if _facts_from(json.loads(json.dumps(new["answer"]))) != facts:
                return  # something in it that this format does not hold: rather read anew than change it
            entry = [new, *(r for r in _load(path) if r.get("seen") != new["seen"])][:_READINGS_MAX]
            while len(data := _packed(entry)) > _ENTRY_BYTES_MAX and entry:
                entry.pop()
            if entry:
                self._write(path, data)
                if path.name.startswith(_SWEPT_AFTER):
                    self._sweep()
        except (OSError, ValueError, TypeError):
            return

    def clear(self) -> None:
        """Remove every entry."""
        for path, _, _ in self._entries():
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - there are tens of thousands of names

    def _path(self, submission: Submission) -> Path:
        return self._folder / f"{_key(submission)}{_SUFFIX}"

    def _write(self, path: Path, data: bytes) -> None:
        handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise

    def _entries(self) -> Iterator[tuple[str, float, int]]:
        """Every file of ours with its age and size in bytes."""
        now = time.time()
        try:
            with os.scandir(self._folder) as listing:
                for entry in listing:
                    if entry.name.endswith((_SUFFIX, ".tmp")):
                        with contextlib.suppress(OSError):  # another process has just removed it: the others count
                            status = entry.stat(follow_symlinks=False)
                            yield entry.path, now - status.st_mtime, status.st_size
        except OSError:
            return

    def _sweep(self) -> None:
        """Drop what was left half written, and the least recently used entries above the limit."""
        total = 0
        for path, age_s, size in sorted(self._entries(), key=lambda e: e[1]):
            half_written = path.endswith(".tmp")
            total += size
            if age_s > _LEFTOVER_AGE_S if half_written else total > self._limit_bytes * 0.9:
                with contextlib.suppress(OSError):
                    os.unlink(path)  # noqa: PTH108 - as above
                    total -= size


def _key(submission: Submission) -> str:
    """What a reading starts from: the reader itself, the submission, and the first file that the command names."""
    asked: dict[str, Any] = {
        "reader": reader_version(),
        "command": submission.command,
        "env": sorted(submission.env.items()),
        "asked": [submission.name, submission.gpus, submission.gpu_type, submission.nodes, submission.limit_s],
        "first": _first_file(submission),
    }
    return hashlib.blake2b(json.dumps(asked).encode("ascii"), digest_size=20).hexdigest()


def _first_file(submission: Submission) -> str | None:
    """The digest of the first file named in the command; it is the one that the reading opens first as well."""
    tree = Tree(submission.workdir)
    for word in submission.command[:20_000].split()[:200]:
        if tree.is_file(word):
            return _digest_of(tree, word)
    return None


def _digest_of(tree: Tree, path: str) -> str | None:
    answer = tree.look_again(("read", path, None))[2]
    return answer if isinstance(answer, str) else None


def _holds(reading: Mapping[str, Any], submission: Submission) -> bool:
    """Whether every look at the work dir gives again what it gave when this was read."""
    seen = reading.get("seen")
    if not isinstance(seen, list):
        return False
    tree = Tree(submission.workdir)
    for look in seen:
        if not (isinstance(look, list) and len(look) == 3 and isinstance(look[0], str) and isinstance(look[1], str)):
            return False
        expected: Seen = (look[0], look[1], look[2])
        if tree.look_again(expected) != expected:
            return False
    return not tree.deadline.cut


def _packed(entry: list[dict[str, Any]]) -> bytes:
    body = json.dumps(entry, separators=(",", ":")).encode("ascii")
    return digest(body).encode() + b"\n" + body


def _load(path: Path) -> list[dict[str, Any]]:
    """The readings in a file; none where it is not there, not ours, cut short or altered."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                return []
            data = file.read(_ENTRY_BYTES_MAX + 1)
        checksum, _, body = data.partition(b"\n")
        if len(data) > _ENTRY_BYTES_MAX or checksum.decode("ascii") != digest(body):
            return []
        entry = json.loads(body)
    except (OSError, ValueError, RecursionError):
        return []
    return [reading for reading in entry if isinstance(reading, dict)] if isinstance(entry, list) else []


def _plain(facts: SourceFacts) -> dict[str, Any]:
    return {
        "facts": {name: _plain_fact(fact) for name, fact in facts.facts.items()},
        "request": {name: _plain_fact(fact) for name, fact in facts.request.items()},
        "warnings": list(facts.warnings),
        "fingerprint": facts.fingerprint,
        "source": [facts.source.state, facts.source.why],
        "summary": facts.summary,
    }


def _plain_fact(fact: Fact) -> list[Any]:
    return [fact.value, fact.confidence, [[e.file, e.line] for e in fact.evidence], fact.how]


def _facts_from(answer: Mapping[str, Any]) -> SourceFacts:
    """An answer as it was kept. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
    facts, request = answer["facts"], answer["request"]
    state, why = answer["source"]
    _require(set(facts) <= set(FACT_NAMES) and set(request) <= set(REQUEST_NAMES) and state in get_args(SourceState))
    _require(
        all(isinstance(text, str) for text in (why, answer["fingerprint"], answer["summary"], *answer["warnings"]))
    )
    return SourceFacts(
        {name: _fact(row) for name, row in facts.items()},
        tuple(answer["warnings"]),
        answer["fingerprint"],
        {name: _fact(row) for name, row in request.items()},
        SourceReading(state, why),
        answer["summary"],
    )


def _fact(row: list[Any]) -> Fact:
    value, confidence, evidence, how = row
    _require(how in get_args(How) and isinstance(confidence, int | float) and 0 <= confidence <= 1)
    _require(all(isinstance(file, str) and isinstance(line, int) for file, line in evidence))
    kept: JsonValue = value
    return Fact(kept, confidence, tuple(SourceEvidence(file, line) for file, line in evidence), how)


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("not an entry")


@lru_cache(maxsize=1)
def reader_version() -> str:
    """A digest of everything that an answer depends on besides the job: this package's code and data, Python, YAML."""
    hasher = hashlib.blake2b(f"{sys.version} {yaml.__version__}".encode(), digest_size=16)
    package = Path(__file__).parent
    files = [package.parent / "types.py", *sorted(p for p in package.rglob("*") if p.suffix not in (".pyc", ""))]
    for path in files:
        if path.is_file():
            hasher.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return hasher.hexdigest()
