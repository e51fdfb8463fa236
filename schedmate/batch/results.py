"""Results on disk: JSON Lines that survive being killed at any moment, and Parquet made from them at the end.

A row is appended with one write as soon as its case is done. What a kill leaves behind is at most a torn last line,
which the next run drops. The file is locked while a run writes to it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from prompts.errors import UserError
from schedmate.batch.work import Row
from schedmate.files import check_output, whole_file

_ROWS_PER_GROUP = 4096
_OURS = b'{"case":'
_WAIT = "wait for it or name another --out"
_OTHER_PARQUET = "name another file with --parquet"
_GO_ON = "make room and run the same command again: it goes on from there"


class Results:
    """The results file, open and locked. Use as a context manager.

    Raises `UserError` when the file can not be written, holds something else, or another run is writing to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))  # a link stays one: what it leads to is rewritten
        self._locked: list[IO[bytes]] = []

    def __enter__(self) -> Results:
        check_output(self.path, "name another file with --out")
        with _told(self.path, "name another file with --out"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab", buffering=0)
        self._lock(self._file)
        if not os.path.samestat(os.fstat(self._file.fileno()), self.path.stat()):
            self._release()  # replaced by another run between opening and locking
            raise UserError(f"{self.path}: another run is writing to it", _WAIT)
        with self.path.open("rb") as stream:
            head = stream.read(len(_OURS))
        if head and not _OURS.startswith(head):
            self._release()
            raise UserError(f"{self.path}: holds something else than results", "name another file with --out")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with _told(self.path, _GO_ON):
                os.fsync(self._file.fileno())
        except UserError:
            if error is None:
                raise
        finally:
            self._release()

    def rows(self) -> Iterator[Row]:
        """All whole rows, in the order they were written."""
        return read_rows(self.path)

    def keep(self, stands: Callable[[Row], bool]) -> set[str]:
        """Rewrite the file with the last row of each case, where it still stands; nothing torn or outdated stays.

        Returns the cases that were kept.
        """
        last = {row["case"]: (number, stands(row)) for number, row in _numbered_rows(self.path)}
        kept = {case: number for case, (number, good) in last.items() if good}
        numbers = set(kept.values())
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with _told(self.path, _GO_ON):
                fresh = temporary.open("ab", buffering=0)
                self._lock(fresh)  # before it takes the place of the old file: nobody else may get in between
                with self.path.open("rb") as stream:
                    for number, line in enumerate(stream):
                        if number in numbers:
                            _write_all(fresh, line)
                os.fsync(fresh.fileno())
                temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)
        self._file = fresh
        return set(kept)

    def add(self, row: Row) -> None:
        """Append one row, so that it survives this process being killed. Raises `UserError` when the disk is full."""
        with _told(self.path, _GO_ON):
            _write_all(self._file, _line(row))

    def _lock(self, file: IO[bytes]) -> None:
        self._locked.append(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._release()
            raise UserError(f"{self.path}: another run is writing to it", _WAIT) from None

    def _release(self) -> None:
        for file in self._locked:
            file.close()
        self._locked.clear()


def _write_all(file: FileIO, data: bytes) -> None:
    """All of it or, where the disk is full, nothing."""
    size = os.fstat(file.fileno()).st_size
    view = memoryview(data)
    try:
        while view:
            view = view[file.write(view) :]
    except OSError:
        os.ftruncate(file.fileno(), size)
        raise


@contextmanager
def _told(path: Path, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})", hint) from None


def _line(row: Row) -> bytes:
    # surrogates (undecodable bytes in file names) are escaped by ensure_ascii
    return json.dumps(row, ensure_ascii=True, allow_nan=False, separators=(", ", ": ")).encode() + b"\n"


def read_rows(path: Path) -> Iterator[Row]:
    """The whole rows of a results file; torn or foreign lines are passed over."""
    return (row for _, row in _numbered_rows(path))


def _numbered_rows(path: Path) -> Iterator[tuple[int, Row]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and isinstance(row.get("case"), str) and "status" in row:
                yield number, row


def write_parquet(rows: Iterator[Row], path: Path) -> int:
    """Write rows as Parquet, whole or not at all. Returns how many. Raises `UserError` when it can not be written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, number = pa.string(), pa.float64()
    line = pa.struct([("file", text), ("line", pa.int64()), ("text", text)])
    schema = pa.schema(
        [
            ("case", text), ("kind", text), ("sha256", text), ("status", text),
            ("error_kind", text), ("error_message", text), ("seconds", number),
            ("category", text), ("subcategory", text), ("confidence", number), ("retryable", pa.bool_()),
            ("action", text), ("culprit_ranks", pa.list_(pa.int64())), ("culprit_nodes", pa.list_(text)),
            ("summary", text), ("explanation", text), ("evidence", pa.list_(line)), ("warnings", pa.list_(text)),
        ]
    )  # fmt: skip
    count = 0
    with _told(path, _OTHER_PARQUET):
        path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, _OTHER_PARQUET) as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_table(pa.Table.from_pylist([_flat(row) for row in group], schema=schema))
            count += len(group)
    return count


def _groups(rows: Iterator[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        group.append(row)
        if len(group) == _ROWS_PER_GROUP:
            yield group
            group = []
    if group:
        yield group


def _flat(row: Row) -> dict[str, Any]:
    diagnosis = row.get("diagnosis") or {}
    error = row.get("error") or {}
    columns = (
        "category", "subcategory", "confidence", "retryable", "action",
        "culprit_ranks", "culprit_nodes", "summary", "explanation", "evidence", "warnings",
    )  # fmt: skip
    flat = {name: row.get(name) for name in ("case", "kind", "sha256", "status", "seconds")}
    flat |= {"error_kind": error.get("kind"), "error_message": error.get("message")}
    flat |= {name: diagnosis.get(name) for name in columns}
    return {key: _valid(value) for key, value in flat.items()}


def _valid(value: Any) -> Any:
    """The value with every text in it valid Unicode: file names and bytes of logs need not be."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_valid(item) for item in value]
    if isinstance(value, dict):
        return {key: _valid(item) for key, item in value.items()}
    return value
