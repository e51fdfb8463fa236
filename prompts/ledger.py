"""What was spent on a model, by day (UTC), model and template, shared by all processes of this machine.

SQLite, because several processes write at once and a limit must hold for all of them together.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prompts.endpoint import Tokens
from prompts.errors import UserError

#: What is set aside for a request whose process died is free again after so long.
_HELD_S = 900.0
_PATIENCE_S = 2.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (
    day TEXT, model TEXT, template TEXT, asked INTEGER, accepted INTEGER,
    tokens_sent INTEGER, tokens_received INTEGER, cost REAL, seconds REAL, PRIMARY KEY (day, model, template));
CREATE TABLE IF NOT EXISTS held (id INTEGER PRIMARY KEY, day TEXT, tokens INTEGER, cost REAL, until_s REAL);
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """A row of the ledger. ``asked`` counts questions that went to the endpoint and ``accepted`` those whose answer was
    used; ``cost`` is in the currency of the configured prices."""

    day: str
    model: str
    template: str
    asked: int
    accepted: int
    tokens: Tokens
    cost: float
    seconds: float


class Ledger:
    """The file. Raises `UserError` where it can not be read or written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def hold(
        self, tokens: int, cost: float, tokens_per_day: int, cost_per_day: float, within_s: float = _PATIENCE_S
    ) -> int | None:
        """Set so much aside for a request; None where the limits of the day (0: none) do not leave it."""
        day = today()
        with self._open(within_s) as db:
            db.execute("DELETE FROM held WHERE until_s < ? OR day != ?", (time.time(), day))
            used = db.execute(
                "SELECT TOTAL(t), TOTAL(c) FROM (SELECT tokens_sent + tokens_received AS t, cost AS c FROM spent "
                "WHERE day = ? UNION ALL SELECT tokens, cost FROM held WHERE day = ?)",
                (day, day),
            ).fetchone()
            if tokens_per_day and used[0] + tokens > tokens_per_day:
                return None
            if cost_per_day and used[1] + cost > cost_per_day:
                return None
            return db.execute(
                "INSERT INTO held (day, tokens, cost, until_s) VALUES (?, ?, ?, ?)",
                (day, tokens, cost, time.time() + _HELD_S),
            ).lastrowid

    def settle(self, held: int | None, row: Spent, within_s: float = _PATIENCE_S) -> None:
        """Add what was really spent, in the place of what was set aside."""
        with self._open(within_s) as db:
            if held is not None:
                db.execute("DELETE FROM held WHERE id = ?", (held,))
            db.execute(
                "INSERT INTO spent VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (day, model, template) DO UPDATE "
                "SET asked = asked + excluded.asked, accepted = accepted + excluded.accepted, "
                "tokens_sent = tokens_sent + excluded.tokens_sent, "
                "tokens_received = tokens_received + excluded.tokens_received, cost = cost + excluded.cost, "
                "seconds = seconds + excluded.seconds",
                (
                    row.day, row.model, row.template, row.asked, row.accepted,
                    row.tokens.sent, row.tokens.received, row.cost, row.seconds,
                ),
            )  # fmt: skip

    def rows(self, since_day: str = "") -> list[Spent]:
        """All rows from a day (2026-03-01) on, in order of days."""
        with self._open() as db:
            found = db.execute(
                "SELECT day, model, template, asked, accepted, tokens_sent, tokens_received, cost, seconds "
                "FROM spent WHERE day >= ? ORDER BY day, model, template",
                (since_day,),
            ).fetchall()
        return [_spent(row) for row in found]

    @contextmanager
    def _open(self, within_s: float = _PATIENCE_S) -> Iterator[sqlite3.Connection]:
        """A connection with the write lock held, so that what was read still holds when it is written."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(
                sqlite3.connect(self._path, timeout=max(0.0, min(within_s, _PATIENCE_S)), isolation_level=None)
            ) as db:
                db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                yield db
                db.execute("COMMIT")
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            raise UserError(
                f"{self._path}: what models cost can not be written down ({error})",
                "make the file writable, move it away if it is broken, or set llm.ledger to another one",
            ) from None


def _spent(row: tuple[Any, ...]) -> Spent:
    """A row as it is read; SQLite keeps text in a column of numbers where somebody else wrote it there."""
    day, model, template = (str(each) for each in row[:3])
    asked, accepted, sent, received = (each if isinstance(each, int) else 0 for each in row[3:7])
    cost, seconds = (float(each) if isinstance(each, int | float) else 0.0 for each in row[7:])
    return Spent(day, model, template, asked, accepted, Tokens(sent, received), cost, seconds)


def today() -> str:
    """The day that spending is counted for."""
    return datetime.now(UTC).strftime("%Y-%m-%d")
