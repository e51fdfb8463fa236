"""Diagnoses kept in SQL. Committed before anybody is told, so that what was answered survives a kill.

The database only ever holds redacted text; the caller hands it over that way.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Engine,
    Float,
    ForeignKey,
    Index,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    select,
)  # fmt: skip
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError

from prompts.errors import UserError

_BUSY_TIMEOUT_MS = 30_000
_LONGEST_SHAPE_CHARS = 300
_DIGITS = re.compile(r"\d+")

metadata = MetaData()

diagnoses = Table(
    "diagnoses",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("created_s", Float, nullable=False, index=True),
    Column("user", String(200)),
    Column("tenant", String(200)),
    Column("job", String(200)),
    Column("category", String(64), nullable=False),
    Column("subcategory", String(200), nullable=False),
    Column("confidence", Float, nullable=False),
    Column("retryable", Boolean),
    Column("action", String(64), nullable=False),
    Column("evidence_text", Text),
    Column("evidence_shape", Text),
    Column("document", Text, nullable=False),
)
culprit_nodes = Table(
    "culprit_nodes",
    metadata,
    Column("diagnosis_id", String(32), ForeignKey("diagnoses.id", ondelete="CASCADE"), nullable=False),
    Column("node", String(255), nullable=False),
    Index("culprit_nodes_by_node", "node"),
    Index("culprit_nodes_by_diagnosis", "diagnosis_id"),
)


class Store:
    """The service's database. Safe to use from several threads.

    Raises `UserError` when the URL is none or the database can not be opened.
    """

    def __init__(self, url: str) -> None:
        self.engine = _open(url)

    def add(
        self, document: dict[str, Any], *, created_s: float, user: str | None, tenant: str | None, job: str | None
    ) -> str:
        """Keep one diagnosis (the JSON contract of ``diagnose``, redacted). Returns its id once it is durable."""
        number = uuid.uuid4().hex
        evidence = document["evidence"][0]["text"] if document["evidence"] else None
        row = {
            "id": number,
            "created_s": created_s,
            "user": user,
            "tenant": tenant,
            "job": job,
            **{name: document[name] for name in ("category", "confidence", "retryable", "action")},
            "subcategory": document["subcategory"] or "",
            "evidence_text": _storable(evidence),
            "evidence_shape": _storable(_shape(evidence)),
            "document": json.dumps(document, allow_nan=False),
        }
        nodes = [{"diagnosis_id": number, "node": _storable(node)} for node in document["culprit_nodes"]]
        with self._told(), self.engine.begin() as connection:
            connection.execute(diagnoses.insert(), row)
            if nodes:
                connection.execute(culprit_nodes.insert(), nodes)
        return number

    def get(self, number: str) -> dict[str, Any] | None:
        """One diagnosis with who and when, or None."""
        with self._told(), self.engine.connect() as connection:
            row = connection.execute(select(diagnoses).where(diagnoses.c.id == number)).mappings().first()
        if row is None:
            return None
        return {
            "id": row["id"],
            "created_s": row["created_s"],
            "user": row["user"],
            "tenant": row["tenant"],
            "job": row["job"],
            "diagnosis": json.loads(row["document"]),
        }

    def rows(self, statement: Any) -> Sequence[Any]:
        """The rows of a select."""
        with self._told(), self.engine.connect() as connection:
            return connection.execute(statement).all()

    def is_alive(self) -> bool:
        """Whether the database answers."""
        try:
            with self.engine.connect() as connection:
                connection.execute(select(1))
        except SQLAlchemyError:
            return False
        return True

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            raise RuntimeError(f"the database failed ({error.orig})") from error


def _open(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite" and parsed.database and parsed.database != ":memory:":
            Path(parsed.database).expanduser().parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed)
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare_sqlite)
        metadata.create_all(engine)
    except (ArgumentError, NoSuchModuleError, ImportError):
        raise UserError(
            "service.database: not a database URL that can be used here", "for example sqlite:///PATH"
        ) from None
    except (SQLAlchemyError, OSError) as error:
        reason = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
        raise UserError(
            f"service.database: can not be opened ({reason})", "check the path and its permissions"
        ) from None
    return engine


def _prepare_sqlite(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    # WAL lets readers go on while one writes; FULL syncs every commit to the disk before it is acknowledged
    for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={_BUSY_TIMEOUT_MS}", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _shape(text: str | None) -> str | None:
    """A line without its numbers, by which equal causes of different jobs are counted together."""
    return None if text is None else " ".join(_DIGITS.sub("#", text).split())[:_LONGEST_SHAPE_CHARS]


def _storable(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "replace").decode()
