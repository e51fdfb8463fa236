"""Databases of patterns for the compiled matcher (hyperscan), kept on disk from one run to the next.

Compiling some hundred patterns takes a second, loading them a millisecond. A kept database is machine code of a kind:
one that somebody else could have written is never loaded, whatever it holds. Anything that is wrong with the folder or
a file (read-only, foreign, cut off, of another version or processor) only means that it is compiled again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

_FORMAT = b"schedmate patterns 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_MOST_BYTES = 64 * 1024 * 1024
#: Databases of older versions that are left in the folder.
_MOST_KEPT = 8
_ENDING = ".hsdb"
#: What others must not be able to do.
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def database(expressions: Sequence[str], flags: Sequence[int], *, must: bool = True) -> Any | None:
    """A database that reports the index of each expression that fits; None where no compiled matcher is installed.

    ``must`` False: only one that was kept, None where it would have to be compiled. Raises `ValueError` for an
    expression that can not be compiled.
    """
    try:
        import hyperscan
    except ImportError:
        return None
    place = _folder()
    file = place / f"{_key(expressions, flags)}{_ENDING}" if place else None
    kept = load(file) if file is not None else None
    if kept is not None:
        with suppress(hyperscan.error):
            found = hyperscan.loadb(kept, hyperscan.HS_MODE_BLOCK)
            found.scratch = hyperscan.Scratch(found)
            return found
    if not must:
        return None
    made = hyperscan.Database()
    try:
        made.compile(
            expressions=[expression.encode() for expression in expressions],
            ids=list(range(len(expressions))),
            elements=len(expressions),
            flags=list(flags),
        )
    except hyperscan.error as error:
        raise ValueError(f"cannot compile the patterns: {error}") from None
    if file is not None:
        with suppress(hyperscan.error):
            store(file, hyperscan.dumpb(made))
    return made


def load(file: Path) -> bytes | None:
    """What was kept in a file, where nobody but this user can have written it and it is whole."""
    try:
        if not _is_private(file.parent.lstat(), stat.S_ISDIR):
            return None
        number = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as stream:
            status = os.fstat(number)
            if not _is_private(status, stat.S_ISREG) or status.st_size > _MOST_BYTES:
                return None
            content = stream.read(_MOST_BYTES)
    except OSError:
        return None
    begin = len(_FORMAT) + _DIGEST_BYTES
    digest, kept = content[len(_FORMAT) : begin], content[begin:]
    whole = content.startswith(_FORMAT) and hashlib.sha256(kept).digest() == digest
    return kept if whole else None


def store(file: Path, content: bytes) -> None:
    """Keep something for `load`; what can not be written is not kept."""
    waiting = ""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(file.parent.lstat(), stat.S_ISDIR):
            return
        number, waiting = tempfile.mkstemp(prefix=".new-", dir=file.parent)  # for this user alone
        with os.fdopen(number, "wb") as stream:
            stream.write(_FORMAT + hashlib.sha256(content).digest() + content)
        Path(waiting).replace(file)
        _forget_old(file.parent)
    except OSError:
        if waiting:
            with suppress(OSError):
                Path(waiting).unlink()


def _is_private(status: os.stat_result, kind: Any) -> bool:
    return bool(kind(status.st_mode)) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _forget_old(folder: Path) -> None:
    kept = sorted(folder.glob(f"*{_ENDING}"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in kept[_MOST_KEPT:]:
        file.unlink(missing_ok=True)


def _folder() -> Path | None:
    """Where databases are kept; None where the user has no home."""
    asked = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if asked.is_absolute():
        return asked / "schedmate" / "patterns"
    try:
        return Path.home() / ".cache" / "schedmate" / "patterns"
    except RuntimeError:
        return None


def _key(expressions: Sequence[str], flags: Sequence[int]) -> str:
    """Tells apart what differs in patterns, matcher, machine and processor."""
    parts = [version("hyperscan"), platform.machine(), platform.system(), _processor()]
    parts.extend(f"{flag} {expression}" for flag, expression in zip(flags, expressions, strict=True))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _processor() -> str:
    """What the processor can do: a database uses the instructions of the one that it was compiled on."""
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as stream:
            for line in stream:
                if line.startswith(("flags", "Features")):
                    return line
    except OSError:
        pass
    return platform.processor()
