"""The application: `create_app(settings)`.

Nothing here decides anything: a route takes a request apart, hands it to the same functions that the command line
uses, in a worker process, and sends what comes back in the same JSON contracts.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import anyio
import anyio.to_thread
from fastapi import FastAPI, File, Form, Query, UploadFile
from fastapi.responses import Response

from prompts.errors import UserError
from prompts.redaction import redact, redact_tree
from schedmate.config import Settings
from schedmate.service.bodies import SubmissionBody
from schedmate.service.crew import Crew
from schedmate.service.guard import Guard
from schedmate.service.problems import Json, Problem, add_handlers
from schedmate.service.reach import LOOPBACK_NAMES, is_loopback
from schedmate.service.reports import GroupBy, Window, root_causes
from schedmate.service.store import Store
from schedmate.service.uploads import UNPACKED_PER_UPLOAD, Inbox, is_archive
from schedmate.service.work import Task

T = TypeVar("T")

_MOST_WAITING = 64
_MOST_WORKERS = 8
_MIB = 1 << 20
_SCHEMAS = Path(__file__).resolve().parent.parent / "schemas"


class Desk:
    """What the routes share: settings, store, workers. Its methods block; `run` calls them off the event loop."""

    def __init__(self, settings: Settings) -> None:
        workers = min(_MOST_WORKERS, max(2, len(os.sched_getaffinity(0))))
        self.settings = settings
        self.upload_limit_bytes = settings.integer("service.max_upload_mib") * _MIB
        self.store = Store(settings.text("service.database"))
        self.crew = Crew(settings, workers)
        self._threads = anyio.CapacityLimiter(4 * workers)  # they mostly wait for the workers

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run a blocking function on a thread. Raises `Problem` 503 when too much is waiting already."""
        if self._threads.statistics().tasks_waiting >= _MOST_WAITING:
            raise Problem(503, "too many requests are waiting", "try again later", {"Retry-After": "5"})
        return await anyio.to_thread.run_sync(partial(function, *args), limiter=self._threads)

    def foresee(self, kind: Literal["predict", "hints"], body: SubmissionBody) -> Any:
        """The prediction in the CLI's JSON contract, or the hints made of it."""
        with body.submission(self.upload_limit_bytes) as submission:
            return self.crew.run(Task(kind, submission=submission))

    def diagnose(
        self, files: list[UploadFile], user: str | None, tenant: str | None, job: str | None
    ) -> tuple[str, Any]:
        """(id, diagnosis in the CLI's JSON contract), kept and redacted."""
        with tempfile.TemporaryDirectory(prefix="schedmate-") as folder:
            inbox = Inbox(Path(folder), self.upload_limit_bytes * UNPACKED_PER_UPLOAD)
            for file in files:
                name = file.filename or "upload.log"
                (inbox.unpack if is_archive(name) else inbox.take)(name, file.file)
            path = _what_to_diagnose(inbox, unpacked=any(is_archive(file.filename or "") for file in files))
            try:
                document = redact_tree(self.crew.run(Task("diagnose", path=path)))
            except UserError as error:
                raise Problem(422, _as_sent(error.what, inbox), error.hint) from None
        document["warnings"] = [_as_sent(note, inbox) for note in (*document["warnings"], *inbox.notes)]
        number = self.store.add(document, created_s=time.time(), user=user, tenant=tenant, job=job)
        return number, document

    def close(self) -> None:
        """Let go of workers and database."""
        self.crew.close()
        self.store.close()


def _as_sent(text: str, inbox: Inbox) -> str:
    """Words about files as the sender knows them: without the temporary folder."""
    folder = str(inbox.folder)
    return redact(text.replace(f"{folder}/", "").replace(folder, "the upload"))


def _what_to_diagnose(inbox: Inbox, unpacked: bool) -> Path:
    """The file where one was sent, else the folder; an archive's only folder is the folder that was packed."""
    if not inbox.files:
        raise Problem(422, "no file to diagnose was sent", "send one or several as multipart field 'files'")
    if len(inbox.files) == 1 and not unpacked:
        return inbox.files[0]
    entries = list(inbox.folder.iterdir())
    return entries[0] if unpacked and len(entries) == 1 and entries[0].is_dir() else inbox.folder


def create_app(settings: Settings) -> FastAPI:
    """The service for these settings. Raises `UserError` when its database can not be opened."""
    desk = Desk(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(
        title="SchedMate",
        version=version("schedmate"),
        description="Predictions, hints and diagnoses of GPU jobs.",
        docs_url=None,  # the usual pages load scripts from a content delivery network
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=Json,
        responses={"4XX": _problem(), "5XX": _problem()},
    )
    app.add_middleware(Guard, max_body_mib=settings.integer("service.max_upload_mib"), hosts=_hosts(settings))
    add_handlers(app)
    _add_routes(app, desk)
    return app


def _add_routes(app: FastAPI, desk: Desk) -> None:
    @app.get("/healthz", summary="Whether the service works", response_class=Json)
    async def healthz() -> Response:
        alive = await anyio.to_thread.run_sync(desk.store.is_alive)
        return Json(
            {"status": "ok" if alive else "database unavailable", "version": app.version}, 200 if alive else 503
        )

    @app.post("/v1/predict", summary="Duration, outcome and resources", responses=_contract("predict"))
    async def predict(body: SubmissionBody) -> Response:
        return Json(await desk.run(desk.foresee, "predict", body))

    @app.post("/v1/hints", summary="What a scheduler is told about a job", responses=_contract("hints"))
    async def hints(body: SubmissionBody) -> Response:
        return Json(await desk.run(desk.foresee, "hints", body))

    @app.post("/v1/diagnose", status_code=201, summary="Why a job failed", responses=_contract("diagnose", 201))
    async def diagnose(
        files: Annotated[list[UploadFile], File(description="Logs, or one .tar.gz or .zip of them.")],
        user: Annotated[str | None, Form(max_length=200)] = None,
        tenant: Annotated[str | None, Form(max_length=200)] = None,
        job: Annotated[str | None, Form(max_length=200)] = None,
    ) -> Response:
        number, document = await desk.run(desk.diagnose, files, user, tenant, job)
        return Json(document, 201, headers={"Location": f"/v1/diagnoses/{number}"})

    @app.get("/v1/diagnoses/{number}", summary="A diagnosis made before", responses=_contract("stored_diagnosis"))
    async def stored(number: str) -> Response:
        found = await desk.run(desk.store.get, number)
        if found is None:
            raise Problem(404, "no diagnosis with that id", "the Location header of /v1/diagnose has it")
        return Json(found)

    @app.get("/v1/reports/root-causes", summary="Causes over many jobs", responses=_contract("root_causes"))
    async def report(
        group_by: GroupBy = "category",
        since: Annotated[datetime | None, Query(description="ISO 8601 or seconds since 1970.")] = None,
        until: Annotated[datetime | None, Query(description="ISO 8601 or seconds since 1970; excluded.")] = None,
        tenant: Annotated[str | None, Query(max_length=200)] = None,
        user: Annotated[str | None, Query(max_length=200)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Response:
        window = Window(_seconds(since), _seconds(until), tenant, user)
        return Json(await desk.run(root_causes, desk.store, group_by, window, limit))


def _seconds(moment: datetime | None) -> float | None:
    """Seconds since 1970; a time without a zone is taken as UTC."""
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _hosts(settings: Settings) -> frozenset[str]:
    """The host names the service answers to: any, once it was told to listen beyond this machine."""
    host = settings.text("service.host").lower().strip("[]")
    return LOOPBACK_NAMES | {host} if is_loopback(host) else frozenset()


def _contract(name: str, status: int = 200) -> dict[int | str, dict[str, Any]]:
    schema = json.loads((_SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return {status: {"content": {"application/json": {"schema": schema}}}}


def _problem() -> dict[str, Any]:
    schema = json.loads((_SCHEMAS / "problem.schema.json").read_text(encoding="utf-8"))
    return {"description": "What was wrong (RFC 9457)", "content": {"application/problem+json": {"schema": schema}}}
