"""Request bodies."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from analyzers.types import Submission
from schedmate.service.uploads import write_files

_MOST_FILES = 5000


class SubmissionBody(BaseModel):
    """A job before it runs.

    Its source code comes along as ``files``. Paths on the server are not accepted: the service reads with its own
    rights, and nobody who can reach the port should be able to have files read that they may not read themselves.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra={
        "examples": [{"command": "python train.py --epochs 3", "files": {"train.py": "..."}, "gpus": 8, "user": "bo"}]
    })  # fmt: skip

    command: str = Field(min_length=1, max_length=100_000, description="The launch command.")
    files: dict[str, str] = Field(
        default_factory=dict, max_length=_MOST_FILES, description="Source files by their path in the work dir."
    )
    user: str | None = Field(default=None, max_length=200)
    tenant: str | None = Field(default=None, max_length=200)
    name: str | None = Field(default=None, max_length=500)
    gpus: int | None = Field(default=None, ge=1, le=1_000_000)
    gpu_type: str | None = Field(default=None, max_length=100)
    nodes: int | None = Field(default=None, ge=1, le=1_000_000)
    limit_s: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Hard time limit in seconds.")
    submit_s: float | None = Field(default=None, allow_inf_nan=False, description="Seconds since 1970.")
    env: dict[str, str] = Field(default_factory=dict, max_length=_MOST_FILES)

    @model_validator(mode="before")
    @classmethod
    def _no_server_paths(cls, data: Any) -> Any:
        if isinstance(data, dict) and "workdir" in data:
            raise ValueError("paths on the server are not read; send the files as 'files': {name: text}")
        return data

    @contextmanager
    def submission(self, limit_bytes: int) -> Iterator[Submission]:
        """The submission, its files in a work dir that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="schedmate-") as folder:
            workdir: Path | None = None
            if self.files:
                workdir = Path(folder)
                write_files(self.files, workdir, limit_bytes)
            fields = ("command", "user", "tenant", "name", "gpus", "gpu_type", "nodes", "limit_s", "submit_s", "env")
            yield Submission(workdir=workdir, **{field: getattr(self, field) for field in fields})
