"""The service in this process (`client`) and as a real process on a free port (`served`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient

from schedmate.config import Settings, load_settings
from schedmate.service.app import create_app

SCHEMAS = Path(__file__).resolve().parents[3] / "schedmate" / "schemas"

OOM = (
    "[rank0]: step 10/100 loss 2.1\n"
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "79.11 GiB of which 1.20 GiB is free.\n"
)
NO_SPACE = "step 5 loss 1.0\nOSError: [Errno 28] No space left on device: '/scratch/ckpt/step_5.pt'\n"


def fits(name: str, document: Any) -> None:
    """Assert that a document fits the schema file ``name``."""
    jsonschema.validate(document, json.loads((SCHEMAS / f"{name}.schema.json").read_text()))


@pytest.fixture
def contract() -> Callable[[str, Any], None]:
    return fits


@pytest.fixture
def logs() -> dict[str, str]:
    return {"oom": OOM, "no_space": NO_SPACE}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings({"SCHEDMATE_DATA_DIR": str(tmp_path / "data"), "SCHEDMATE_SERVICE_MAX_UPLOAD_MIB": "1"})


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8765") as client:
        yield client


class Served:
    """A server process and its URL; ``start`` again after a kill to go on with the same data."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self, *words: str) -> str:
        launcher = Path(sys.executable).parent / "schedmate"
        self.process = subprocess.Popen(
            [str(launcher), "serve", "--port", "0", "--json", *words],
            env={**os.environ, "SCHEDMATE_DATA_DIR": str(self._data)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.url = json.loads(line)["url"]
        return self.url

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path / "served")
    yield server
    server.stop()
