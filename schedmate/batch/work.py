"""The work on one case, run in a worker process."""

from __future__ import annotations

import time
from typing import Any

from prompts.errors import UserError
from prompts.redaction import redact, redact_tree
from schedmate.batch.cases import Case, content_digest
from schedmate.config import Settings
from schedmate.console import plain

Row = dict[str, Any]

_LONGEST_MESSAGE_CHARS = 500


def diagnose_case(case: Case, settings: Settings) -> Row:
    """One row of results: the diagnosis, or why there is none. Secrets are taken out."""
    from schedmate.diagnosing import diagnosed

    start = time.perf_counter()
    digest = ""
    try:
        digest = content_digest(case)
        diagnosis = diagnosed(case.path, settings)
    except (UserError, OSError) as error:
        reason = error.what if isinstance(error, UserError) else f"{error.strerror or error}"
        return failed_row(case, "unreadable", reason, time.perf_counter() - start, digest)
    return {
        "case": case.name,
        "kind": case.kind,
        "sha256": digest,
        "status": "diagnosed",
        "error": None,
        "seconds": round(time.perf_counter() - start, 3),
        "diagnosis": redact_tree(plain(diagnosis)),
    }


def failed_row(case: Case, kind: str, message: str, seconds: float, digest: str = "") -> Row:
    """The row of a case that was not diagnosed: unreadable, error, crashed or timeout."""
    return {
        "case": case.name,
        "kind": case.kind,
        "sha256": digest,
        "status": "failed",
        "error": {"kind": kind, "message": redact(" ".join(message.split()))[:_LONGEST_MESSAGE_CHARS]},
        "seconds": round(seconds, 3),
        "diagnosis": None,
    }
