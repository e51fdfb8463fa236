"""Answers that were accepted before, by the content of the question: the same question costs nothing twice.

Only accepted answers are kept, as JSON that is validated and checked again when it is used. Files that are broken or
of another form count as not there, and so does a folder that somebody else can write to: an answer that was planted
there would pass as the model's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from prompts.answers import schema_of
from prompts.ownership import only_ours
from prompts.templates import Message, Template

A = TypeVar("A", bound=BaseModel)

_LARGEST_BYTES = 1 << 20
#: The names of our files, whole or half written: nothing else that lies in the folder is touched.
_OURS = re.compile(r"[0-9a-f]{64}\.json|\.[0-9a-f]{16}\.[0-9]+\.[0-9a-f]{8}\.tmp")
_SUBFOLDER = re.compile(r"[0-9a-f]{2}")
#: After a clean-up so much of the allowed size is used, so that not every new answer makes another one.
_CLEANED_TO = 0.8


class AnswerCache:
    """A folder of at most ``most_bytes``; the answers that were used longest ago go first."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most_bytes = folder, most_bytes

    def get(self, key: str, answer: type[A]) -> A | None:
        """The answer to the question of that key, if there is one of the right form."""
        path = self._path(key)
        if not (only_ours(self._folder) and only_ours(path.parent)):
            return None
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    return None
                raw = file.read(_LARGEST_BYTES + 1)
            if len(raw) > _LARGEST_BYTES:
                return None
            found = answer.model_validate_json(raw)
            os.utime(path)
        except (OSError, ValidationError, ValueError, RecursionError):
            return None
        return found

    def put(self, key: str, value: BaseModel) -> None:
        """Keep an answer; where that is not possible it is asked again next time."""
        path = self._path(key)
        temporary = path.with_name(f".{key[:16]}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not (only_ours(self._folder) and only_ours(path.parent)):
                return
            temporary.write_bytes(value.model_dump_json().encode("utf-8"))
            temporary.replace(path)
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                temporary.unlink(missing_ok=True)
            return
        self._clean()

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _clean(self) -> None:
        files = [found for folder in _entries(self._folder, _SUBFOLDER) for found in self._files(Path(folder.path))]
        size = sum(each[1] for each in files)
        if size <= self._most_bytes:
            return
        for _, bytes_, path in sorted(files):
            if size <= _CLEANED_TO * self._most_bytes:
                break
            with suppress(OSError):
                path.unlink(missing_ok=True)
            size -= bytes_

    @staticmethod
    def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
        """(Age, bytes, path) of what lies there and is ours."""
        for entry in _entries(folder, _OURS):
            with suppress(OSError):  # somebody else cleaned up
                status = entry.stat(follow_symlinks=False)
                yield status.st_mtime, status.st_size, Path(entry.path)


def _entries(folder: Path, names: re.Pattern[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return [entry for entry in listing if names.fullmatch(entry.name) and not entry.is_symlink()]
    except (OSError, ValueError):
        return []


def key_of(model: str, base_url: str, template: Template, answer: type[BaseModel], messages: Sequence[Message]) -> str:
    """A digest of everything that an answer depends on; ``messages`` are as they would be sent, without secrets."""
    parts = [model, base_url, template.title, json.dumps(schema_of(answer), sort_keys=True)]
    parts += [part for message in messages for part in (message.role, message.content)]
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "replace")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
