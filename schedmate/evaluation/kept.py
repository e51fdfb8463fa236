"""Rows on disk, one a line, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from prompts.errors import UserError
from schedmate.evaluation.run import Row, was_asked
from schedmate.files import check_output

_HINT = "choose another file with --out"
_KEYS = frozenset(Row.__annotations__)


class KeptRows:
    """A file of rows that only grows. Rows of other models and labels in it are left alone.

    Raises `UserError` for a file that holds something else, or can not be written.
    """

    def __init__(self, path: Path) -> None:
        check_output(path, _HINT)
        self._path = path
        self._rows: dict[str, Row] = {}
        self._stream: IO[bytes] | None = None
        cut = self._read()
        try:
            self._stream = path.open("ab")
            if cut:
                os.truncate(path, cut - 1)
        except OSError as error:
            raise UserError(f"{path}: can not be written ({error.strerror or error})", _HINT) from None

    def done(self, keys: Iterable[str]) -> dict[str, Row]:
        """The rows with these keys of which all was asked."""
        return {key: self._rows[key] for key in keys if key in self._rows and was_asked(self._rows[key])}

    def add(self, row: Row) -> None:
        """Write a row such that it is there whatever happens next."""
        assert self._stream is not None
        try:
            self._stream.write(json.dumps(row).encode() + b"\n")
            self._stream.flush()
        except OSError as error:
            raise UserError(f"{self._path}: can not be written ({error.strerror or error})", _HINT) from None

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()

    def _read(self) -> int:
        """Read what is there; returns one more than where a line begins that was cut, 0 where none was."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise UserError(f"{self._path}: can not be read ({error.strerror or error})", _HINT) from None
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            row = _row(line)
            if row is None:
                raise UserError(f"{self._path}: is not what `schedmate llm eval` wrote", _HINT)
            self._rows[row["key"]] = row
        rest = data[whole:]
        if rest and not rest.startswith(b'{"key": "'[: len(rest)]):
            raise UserError(f"{self._path}: is not what `schedmate llm eval` wrote", _HINT)
        return whole + 1 if rest else 0


def _row(line: bytes) -> Row | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not found.keys() >= _KEYS:
        return None
    row: Row = found  # type: ignore[assignment]
    return row
