"""Every error as problem+json (RFC 9457): what was wrong, where, what to do; never a traceback."""

from __future__ import annotations

import errno
import http
import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from prompts.errors import UserError
from prompts.redaction import redact

log = logging.getLogger("schedmate.service")

MEDIA_TYPE = "application/problem+json"
_LONGEST_DETAIL_CHARS = 1000
_MOST_ERRORS = 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Problem(HTTPException):
    """An error to answer with. ``hint`` says what to do about it; ``headers`` go out with it."""

    def __init__(self, status: int, detail: str, hint: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.hint = hint


class Json(Response):
    """JSON in pure ASCII, so that even text which is no valid Unicode (bytes of a log) goes out."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The content as JSON; NaN has been made null by `schedmate.console.plain`."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def problem_response(
    status: int,
    detail: str,
    hint: str = "",
    errors: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] | None = None,
    instance: str | None = None,
) -> Json:
    """The answer for one error."""
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": redact(detail)[:_LONGEST_DETAIL_CHARS],
    }
    if hint:
        document["hint"] = hint
    if errors:
        document["errors"] = list(errors)
    if instance:
        document["instance"] = instance
    return Json(document, status, headers=headers, media_type=MEDIA_TYPE)


def unexpected(error: Exception) -> Json:
    """The answer for an error of ours: an id that also stands in the server's log, and nothing else."""
    if is_disk_full(error):
        log.error("the disk is full: %s", redact(str(error)))
        return problem_response(507, "the service has no room left on its disk", "ask its operator to make room")
    number = uuid.uuid4().hex
    log.error("request failed, id %s: %s: %s", number, type(error).__name__, redact(str(error)))
    log.debug("traceback of %s", number, exc_info=error)
    return problem_response(
        500, "an internal error; its id stands in the server's log", "report it", instance=f"urn:uuid:{number}"
    )


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or what it was raised from, says that the disk, a quota or a limit on files is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if "database or disk is full" in str(error):  # how SQLite puts it
            return True
        error = error.__cause__
    return False


def add_handlers(app: FastAPI) -> None:
    """Have the application answer every kind of error with a problem."""

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> Response:
        hint = error.hint if isinstance(error, Problem) else ""
        return problem_response(error.status_code, str(error.detail), hint, headers=error.headers)

    @app.exception_handler(UserError)
    async def _user(_: Request, error: UserError) -> Response:
        return problem_response(422, error.what, error.hint)

    @app.exception_handler(RequestValidationError)
    async def _validation(_: Request, error: RequestValidationError) -> Response:
        errors = [
            {"where": ".".join(str(part) for part in item["loc"])[:200], "what": redact(str(item["msg"]))[:300]}
            for item in error.errors()[:_MOST_ERRORS]
        ]
        return problem_response(422, "the request does not fit its schema", "see /openapi.json", errors)
