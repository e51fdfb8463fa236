"""What in a folder is one job's log: a file by itself, or a folder that holds the files of several ranks or nodes.

The rule, by names alone (nothing is opened here):

- A folder is **one case**, with everything below it, when at least half of the log files directly in it are named as
  the files of a rank or a node or as a companion of them (``rank_3.log``, ``node_a07_torchrun.log``, ``dmesg_a07.txt``,
  ``sacct.txt``, ``k8s_events.txt``), or when it has subfolders ``attempt_N`` as torchrun writes them.
- Every other file that may be a log is a case of its own; other subfolders are searched the same way.

Left out and counted by reason: hidden files, links that leave the folder, source code, weights, tables and documents.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from analyzers.logs.companions import describe, is_no_log, sort_key
from prompts.errors import UserError

_HASH_CHUNK_BYTES = 1 << 20
_MAX_DEPTH = 32
_ATTEMPT = re.compile(r"attempt_\d+")
#: Text that is no log. Inside a case folder the log reader decides for itself (events come as JSON there).
_DOCUMENTS = frozenset(
    f".{ending}"
    for group in (
        ("json", "jsonl", "csv", "tsv", "yaml", "yml", "md", "rst", "toml", "html", "xml", "css", "js"),
        ("sh", "ini", "cfg", "conf", "lock", "parquet"),
    )
    for ending in group
)
_LEGAL = re.compile(r"(?i)(?:licen[cs]e|readme|notice|copying|authors|changelog|makefile|dockerfile)(?:\.[a-z]{1,4})?")


@dataclass(frozen=True, slots=True)
class Case:
    """One job's log. ``name`` is its path relative to the folder that was asked for."""

    path: Path
    name: str
    kind: Literal["file", "folder"]


@dataclass(slots=True)
class Found:
    """All cases in natural order, and what was left out, counted by reason."""

    cases: list[Case] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def find_cases(root: Path) -> Found:
    """Every case under ``root``.

    Raises `UserError` when ``root`` is no readable folder or holds no case.
    """
    if not root.exists():
        raise UserError(f"{root}: no such folder", "check the path")
    if not root.is_dir():
        raise UserError(f"{root}: is a file", "use `schedmate diagnose` for one log, or name a folder")
    found = Found()
    try:
        next(os.scandir(root), None)
    except OSError as error:
        raise UserError(f"{root}: cannot be read ({error.strerror})", "check its permissions") from None
    _search(root, root.resolve(), "", 0, found)
    if not found.cases:
        reasons = ", ".join(f"{count} {reason}" for reason, count in found.left_out.items())
        raise UserError(f"{root}: no log files in it{f' ({reasons})' if reasons else ''}", "name a folder of logs")
    found.cases.sort(key=lambda case: sort_key(case.name))
    return found


def _search(folder: Path, root: Path, prefix: str, depth: int, found: Found) -> None:
    files: list[os.DirEntry[str]] = []
    folders: list[os.DirEntry[str]] = []
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        found.left_out["unreadable folder"] += 1
        return
    for entry in entries:
        reason = _why_left_out(entry, root)
        if reason:
            found.left_out[reason] += 1
        elif entry.is_dir():
            folders.append(entry)
        else:
            files.append(entry)
    if _is_one_case(files, folders):
        found.cases.append(Case(folder, prefix.rstrip("/") or ".", "folder"))
        return
    for entry in files:
        if Path(entry.name).suffix.lower() in _DOCUMENTS or _LEGAL.fullmatch(entry.name):
            found.left_out["not a log by its name"] += 1
        else:
            found.cases.append(Case(Path(entry.path), prefix + entry.name, "file"))
    for entry in folders:
        if depth < _MAX_DEPTH:
            _search(Path(entry.path), root, f"{prefix}{entry.name}/", depth + 1, found)
        else:
            found.left_out["nested too deep"] += 1


def _why_left_out(entry: os.DirEntry[str], root: Path) -> str:
    if entry.name.startswith("."):
        return "hidden"
    try:
        if entry.is_symlink():
            target = Path(entry.path).resolve(strict=True)
            if target.is_dir() or not target.is_relative_to(root):
                return "link"
        if entry.is_dir():
            return ""
        if not entry.is_file():
            return "not a regular file"
    except (OSError, RuntimeError):
        return "link"
    return "not a log by its name" if is_no_log(entry.name) else ""


def _is_one_case(files: list[os.DirEntry[str]], folders: list[os.DirEntry[str]]) -> bool:
    if any(_ATTEMPT.fullmatch(folder.name) for folder in folders):
        return True
    members = sum(1 for file in files if describe(Path(file.path), file.name, "").kind != "job")
    return members > 0 and 2 * members >= len(files)


def content_digest(case: Case) -> str:
    """SHA-256 over the names and bytes of the case's files; of a single file, over its bytes alone."""
    if case.kind == "file":
        return _file_digest(case.path)
    whole = hashlib.sha256()
    for file in sorted(_files(case.path)):
        whole.update(f"{file.relative_to(case.path).as_posix()}\0{_file_digest(file)}\n".encode("utf-8", "replace"))
    return whole.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders.sort()
        yield from (path for name in names if (path := Path(here) / name).is_file())


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
