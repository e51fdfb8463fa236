"""How jobs ended, in one SQLite file: several epilogs write at once, one of them may be killed at any moment, and a
diagnosis asks for a handful among a million.

An attempt of a job is known by the user, the job's id and its number: ids are a cluster's own, and two users may give
one name to their jobs. Where one of two records of an id does not say whose it is, both are taken for the same job.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

from analyzers.types import Category, FailureRecord
from prompts.errors import UserError
from prompts.redaction import redact

#: More are not kept; where there are more, the oldest tenth goes.
MOST_RECORDS = 1_000_000
MOST_NODES = 4096
_SHARE_DROPPED = 10
_LONGEST_TEXT_CHARS = 300
_PATIENCE_S = 20.0
#: A time further from 1970 is none: there is no date for it.
_FURTHEST_S = 10_000 * 366 * 86_400.0
_CATEGORIES = frozenset(get_args(Category))
_FIRST_COLUMNS = (
    "job_id", "attempt", "at_s", "category", "subcategory", "user", "work", "failure", "own_code", "nodes",
    "nodes_told", "culprits", "data", "retryable",
)  # fmt: skip
#: What stores of older versions lack; rows of theirs have NULL there.
_LATER_COLUMNS = ("node_fault", "accused")
_COLUMNS = (*_FIRST_COLUMNS, *_LATER_COLUMNS)
_JOB_ID, _ATTEMPT, _USER = (_COLUMNS.index(name) for name in ("job_id", "attempt", "user"))
_KEY = "job_id, attempt, user"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS ended (
    number INTEGER PRIMARY KEY, {", ".join(_COLUMNS)}, UNIQUE ({_KEY}));
CREATE INDEX IF NOT EXISTS ended_at ON ended (at_s);
CREATE INDEX IF NOT EXISTS ended_failure ON ended (failure, at_s) WHERE failure != '';
CREATE INDEX IF NOT EXISTS ended_data ON ended (data, at_s) WHERE data != ''
"""
_ADD = (
    f"INSERT INTO ended ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "
    f"ON CONFLICT ({_KEY}) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in _KEY.split(", "))
    + " WHERE excluded.failure != '' OR ended.failure = ''"
)
_CLAIM = (
    "UPDATE ended SET user = ? WHERE job_id = ? AND attempt = ? AND user = '' AND NOT EXISTS "
    "(SELECT 1 FROM ended WHERE job_id = ? AND attempt = ? AND user = ?)"
)
#: A store from before the user was part of the key.
_IS_OLD = "SELECT 1 FROM sqlite_master WHERE name = 'ended' AND replace(sql, ' ', '') LIKE '%UNIQUE(job_id,attempt))%'"
_MAKE_ROOM = """
DROP INDEX IF EXISTS ended_at; DROP INDEX IF EXISTS ended_failure; DROP INDEX IF EXISTS ended_data;
ALTER TABLE ended RENAME TO ended_before
"""
_MOVE = f"""
INSERT INTO ended (number, {", ".join(_FIRST_COLUMNS)}) SELECT number, {", ".join(_FIRST_COLUMNS)} FROM ended_before;
DROP TABLE ended_before
"""
_HAS = "SELECT name FROM pragma_table_info('ended')"


class FileFailureStore:
    """Implements `analyzers.ports.FailureStore` on a file, which need not exist yet.

    A write is whole or not there at all, whoever is killed. Raises `UserError` where the file can not be used.
    """

    def __init__(self, path: Path, most_records: int = MOST_RECORDS) -> None:
        self.path = path
        self.most_records = most_records

    def add(self, records: Iterable[FailureRecord]) -> int:
        """Add records, all or none; see `analyzers.ports.FailureStore.add`."""
        rows = [_row(record) for record in records]
        if not rows:
            return 0
        with self._told(), self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            is_old = db.execute(_IS_OLD).fetchone() is not None
            for script in (_MAKE_ROOM, _SCHEMA, _MOVE) if is_old else (_SCHEMA,):
                for statement in script.split(";"):
                    db.execute(statement)
            for name in _lacking(db):
                db.execute(f"ALTER TABLE ended ADD COLUMN {name}")
            for row in rows:
                db.execute(_ADD, _with_known_user(db, row))
            self._bound(db)
            db.execute("COMMIT")
        return len(rows)

    def same_failure(self, failure: str, *, limit: int) -> list[FailureRecord]:
        """The latest records with that fingerprint, latest first."""
        return self._latest("failure", failure, limit)

    def same_data(self, data: str, *, limit: int) -> list[FailureRecord]:
        """The latest records that stumbled over that file, latest first."""
        return self._latest("data", data, limit)

    def since(self, at_s: float) -> Iterator[FailureRecord]:
        """All that ended at that time or later, in order of time."""
        yield from self._rows("WHERE at_s >= ? ORDER BY at_s, number", (at_s,))

    def latest_s(self) -> float | None:
        """When the last one ended; None where there is none."""
        found = next(self._raw("MAX(at_s)", "WHERE at_s BETWEEN ? AND ?", (-_FURTHEST_S, _FURTHEST_S)), (None,))[0]
        return float(found) if isinstance(found, int | float) else None

    def __len__(self) -> int:
        return int(next(self._raw("COUNT(*)"), (0,))[0])

    def _latest(self, column: str, value: str, limit: int) -> list[FailureRecord]:
        if not value:
            return []
        which = f"WHERE {column} = ? AND {column} != '' ORDER BY at_s DESC, number DESC LIMIT ?"
        return list(self._rows(which, (value, limit)))

    def _rows(self, which: str, values: tuple[Any, ...]) -> Iterator[FailureRecord]:
        for row in self._raw(None, which, values):
            record = _record(row)
            if record is not None:
                yield record

    def _raw(self, what: str | None, which: str = "", values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Rows of ``what``, or of all columns; a store of an older version is not changed by being read."""
        with self._told():
            if not self.path.exists():
                return
        with self._told(), self._open() as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'ended'").fetchone():
                return
            lacking = _lacking(db)
            columns = ", ".join(f"NULL AS {name}" if name in lacking else name for name in _COLUMNS)
            yield from db.execute(f"SELECT {what or columns} FROM ended {which}", values)

    def _bound(self, db: sqlite3.Connection) -> None:
        count = db.execute("SELECT COUNT(*) FROM ended").fetchone()[0]
        if count > self.most_records:
            gone = count - self.most_records + self.most_records // _SHARE_DROPPED
            db.execute("DELETE FROM ended WHERE number IN (SELECT number FROM ended ORDER BY at_s LIMIT ?)", (gone,))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=_PATIENCE_S, isolation_level=None)) as db:
            yield db

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError) as error:
            raise UserError(
                f"{self.path}: what is known of earlier failures can not be used ({error})",
                "make the file readable and writable, move it away if it is broken, or set failures.store to another",
            ) from None


def _lacking(db: sqlite3.Connection) -> list[str]:
    has = {name for (name,) in db.execute(_HAS)}
    return [name for name in _LATER_COLUMNS if name not in has]


def _row(record: FailureRecord) -> tuple[Any, ...]:
    """A record as it is kept: bounded, without secrets. Raises `UserError` for one that makes no sense."""
    if not abs(record.at_s) <= _FURTHEST_S or record.category not in _CATEGORIES or not record.job_id:
        raise UserError(f"job {record.job_id!r} can not be remembered", "it needs a number, a time and a category")
    texts = (record.subcategory, record.user, record.work, record.failure)
    subcategory, user, work, failure = (_short(text) for text in texts)
    return (
        _short(record.job_id), record.attempt, record.at_s, record.category, subcategory, user, work, failure,
        int(record.own_code), _joined(record.nodes), int(record.nodes_told), _joined(record.culprits),
        _short(redact(record.data)) if record.data else "", None if record.retryable is None else int(record.retryable),
        int(record.node_fault), _joined(record.accused),
    )  # fmt: skip


def _with_known_user(db: sqlite3.Connection, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with the user that another record of its job tells, where exactly one does; or, where it tells the user
    itself, that of a record without one is filled in."""
    job_id, attempt, user = row[_JOB_ID], row[_ATTEMPT], row[_USER]
    if user:
        db.execute(_CLAIM, (user, job_id, attempt, job_id, attempt, user))
        return row
    asked = "SELECT user FROM ended WHERE job_id = ? AND attempt = ? AND user != '' LIMIT 2"
    known = db.execute(asked, (job_id, attempt)).fetchall()
    return row if len(known) != 1 else (*row[:_USER], known[0][0], *row[_USER + 1 :])


def _record(row: tuple[Any, ...]) -> FailureRecord | None:
    """A row as a record; None for one that somebody else wrote into the file."""
    (job_id, attempt, at_s, category, subcategory, user, work, failure, own, nodes, told, culprits, data, retry,
     node_fault, accused) = row  # fmt: skip
    accused = "" if accused is None else accused
    texts = (job_id, subcategory, user, work, failure, nodes, culprits, data, accused)
    if category not in _CATEGORIES or not isinstance(at_s, int | float) or not isinstance(attempt, int):
        return None
    if not abs(at_s) <= _FURTHEST_S:
        return None
    if not all(isinstance(text, str) for text in texts):
        return None
    return FailureRecord(
        job_id, at_s, category, subcategory, attempt, user, work, failure, bool(own), tuple(nodes.split()), bool(told),
        tuple(culprits.split()), data, None if retry is None else bool(retry), bool(node_fault),
        tuple(accused.split()),
    )  # fmt: skip


def _short(text: str) -> str:
    return text[:_LONGEST_TEXT_CHARS].encode("utf-8", "replace").decode()


def _joined(nodes: tuple[str, ...]) -> str:
    """Names of nodes, a blank between two; what could be none (with blanks in it, or endless) is left out."""
    fit = (_short(node) for node in nodes[:MOST_NODES] if node and len(node) <= _LONGEST_TEXT_CHARS)
    return " ".join(node for node in fit if node.split() == [node])
