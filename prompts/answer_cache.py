"""Answers that were accepted before, by the content of the question: the same question costs nothing twice.

Only accepted answers are kept, as JSON that is validated and checked again when it is used; nothing in a file is
trusted. Files that are broken or of another form count as not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from prompts.answers import schema_of
from prompts.templates import Message, Template

A = TypeVar("A", bound=BaseModel)

_LARGEST_BYTES = 1 << 20
#: After a clean-up so much of the allowed size is used, so that not every new answer makes another one.
_CLEANED_TO = 0.8


class AnswerCache:
    """A folder of at most ``most_bytes``; the answers that were used longest ago go first."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most_bytes = folder, most_bytes

    def get(self, key: str, answer: type[A]) -> A | None:
        """The answer to the question of that key, if there is one of the right form."""
        path = self._path(key)
        try:
            if path.stat().st_size > _LARGEST_BYTES:
                return None
            found = answer.model_validate_json(path.read_bytes())
            os.utime(path)
        except (OSError, ValidationError, ValueError, RecursionError):
            return None
        return found

    def put(self, key: str, value: BaseModel) -> None:
        """Keep an answer; where that is not possible it is asked again next time."""
        path = self._path(key)
        temporary = path.with_name(f".{key[:16]}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(value.model_dump_json(), encoding="utf-8")
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return
        self._clean()

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _clean(self) -> None:
        files = []
        for path in self._folder.glob("??/*"):
            try:
                found = path.stat()
            except OSError:  # somebody else cleaned up
                continue
            files.append((found.st_mtime, found.st_size, path))
        size = sum(each[1] for each in files)
        if size <= self._most_bytes:
            return
        for _, bytes_, path in sorted(files):
            if size <= _CLEANED_TO * self._most_bytes:
                break
            with suppress(OSError):
                path.unlink(missing_ok=True)
            size -= bytes_


def key_of(model: str, base_url: str, template: Template, answer: type[BaseModel], messages: Sequence[Message]) -> str:
    """A digest of everything that an answer depends on; ``messages`` are as they would be sent, without secrets."""
    parts = [model, base_url, template.title, json.dumps(schema_of(answer), sort_keys=True)]
    parts += [part for message in messages for part in (message.role, message.content)]
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "replace")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
