"""Finished cells on disk: one file each, written at once or not at all, and known for torn when it is.

A kill at any moment, or a machine that loses power, costs the cells that were running. Two sweeps may share a folder:
the same cell always has the same content.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from prompts.errors import UserError
from schedmate.files import write_whole

GO_ON = "make room and run the same command again: it goes on from there"
_CELLS = "cells"


class CellStore:
    """The folder of a sweep. Raises `UserError` where it can not be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            (folder / _CELLS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror or error}", "name another folder with --out") from None

    def get(self, key: str) -> dict[str, Any] | None:
        """The cell of that key; None if there is none, or if it is not whole."""
        try:
            found = json.loads(self._path(key).read_bytes())
            text = json.dumps(found["cell"], sort_keys=True)
            whole = found["sha256"] == _digest(key, text)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        cell = found["cell"]
        return cell if whole and isinstance(cell, dict) else None

    def put(self, key: str, cell: dict[str, Any]) -> None:
        """Keep a finished cell."""
        text = json.dumps(cell, sort_keys=True, allow_nan=False)
        write_whole(self._path(key), f'{{"sha256": "{_digest(key, text)}", "cell": {text}}}\n', GO_ON)

    def _path(self, key: str) -> Path:
        return self.folder / _CELLS / f"{key}.json"


def _digest(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()
