"""An endpoint that hangs, in every way in which one can: nobody waits for it longer than was said."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

#: Far above what is allowed, and what an endpoint here would take.
HANGS_S = 300.0
WAIT_S, TIMEOUT_S = 2.0, 3.0
ODD_LOG = "ERROR something odd happened\nexit code 1\n"
RETRY_LATER = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 3600\r\ncontent-length: 2\r\n\r\n{}"


def silent(connection: socket.socket, _: str) -> None:
    """Accepts, reads, and says nothing."""
    connection.recv(65536)
    time.sleep(HANGS_S)


def headers_only(connection: socket.socket, _: str) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n")
    time.sleep(HANGS_S)


def half_a_header(connection: socket.socket, _: str) -> None:
    connection.recv(65536)
    while True:
        connection.sendall(b"HTTP/1.1 200 OK\r\nx: "[:1])
        time.sleep(0.05)


def drip(connection: socket.socket, _: str) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50000\r\n\r\n{")
    while True:
        connection.sendall(b" ")
        time.sleep(0.05)


def chunks_without_end(connection: socket.socket, _: str) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1\r\n \r\n")
        time.sleep(0.05)


def later(connection: socket.socket, _: str) -> None:
    connection.recv(65536)
    connection.sendall(RETRY_LATER)


def redirects(connection: socket.socket, url: str) -> None:
    connection.recv(65536)
    answer = f"HTTP/1.1 307 Temporary Redirect\r\nlocation: {url}/chat/completions\r\ncontent-length: 0\r\n\r\n"
    connection.sendall(answer.encode())


WAYS: dict[str, Callable[[socket.socket, str], None] | None] = {
    "no accept": None, "silence": silent, "headers, then silence": headers_only, "half a header": half_a_header,
    "a body that drips": drip, "chunks without end": chunks_without_end, "429 with an hour": later,
    "redirects": redirects,
}  # fmt: skip
#: Tried with whole commands; all of them are with what the commands call.
TRIED = ("silence", "a body that drips", "429 with an hour")


class Hanging:
    """A listening socket whose connections are treated in one way."""

    def __init__(self, way: Callable[[socket.socket, str], None] | None) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(0 if way is None else 16)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        self.connections = 0
        self._full: list[socket.socket] = []
        if way is None:  # the queue of those who wait is full: nobody even gets a connection
            for _ in range(4):
                waiting = socket.socket()
                waiting.setblocking(False)
                waiting.connect_ex(self.socket.getsockname())
                self._full.append(waiting)
        else:
            threading.Thread(target=self._serve, args=(way,), daemon=True).start()

    def _serve(self, way: Callable[[socket.socket, str], None]) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._treat, args=(way, connection), daemon=True).start()

    def _treat(self, way: Callable[[socket.socket, str], None], connection: socket.socket) -> None:
        try:
            way(connection, self.url)
        except OSError:
            pass
        finally:
            connection.close()

    def close(self) -> None:
        for each in (*self._full, self.socket):
            each.close()


@pytest.fixture(params=WAYS)
def hanging(request: pytest.FixtureRequest) -> Iterator[Hanging]:
    server = Hanging(WAYS[request.param])
    yield server
    server.close()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text('import mystery\nmystery.Plan(net="HydroNet", data="RiverGauges").go()\n')
    return folder


def environment(url: str) -> dict[str, str]:
    return {
        "SCHEDMATE_LLM_PROVIDER": "openai",
        "SCHEDMATE_LLM_MODEL": "scripted",
        "SCHEDMATE_LLM_BASE_URL": url,
        "SCHEDMATE_LLM_WAIT_S": str(WAIT_S),
        "SCHEDMATE_LLM_TIMEOUT_S": str(TIMEOUT_S),
        "NO_PROXY": "127.0.0.1",
    }


def took(schedmate: Any, *words: Any, env: dict[str, str]) -> tuple[Any, float]:
    start = time.monotonic()
    done = schedmate(*words, env=env, timeout=HANGS_S)
    return done, time.monotonic() - start


@pytest.mark.parametrize("hanging", TRIED, indirect=True)
def test_commands_answer_without_the_model(schedmate: Any, job: Path, hanging: Hanging) -> None:
    command = ("--command", "python train.py")
    log = job.parent / "job.log"
    log.write_text(ODD_LOG)
    for words, told in (
        (("predict", job, *command, "--json"), "stderr"),
        (("analyze", job, *command, "--json"), "stdout"),
        (("diagnose", log, "--json"), "stdout"),
    ):
        done, seconds = took(schedmate, *words, env=environment(hanging.url))
        assert done.returncode == (1 if words[0] == "diagnose" else 0), done.stderr
        assert seconds < HANGS_S / 5, "it did not wait for the endpoint"
        assert json.loads(done.stdout)
        assert "language model: answer of scripted not used" in getattr(done, told), (words, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr


def test_the_deadline_is_the_one_that_was_set(hanging: Hanging, job: Path) -> None:
    """What comes on top of reading without a model is what was allowed: twice as much takes longer, and no more."""
    from analyzers.failures import diagnose
    from analyzers.types import Submission
    from schedmate.config import load_settings
    from schedmate.refine import refine_diagnosis
    from schedmate.source import read_source, sharpened

    known = load_settings({**environment(hanging.url), "SCHEDMATE_LLM_TIMEOUT_S": "30"})
    submission = Submission("python train.py", job)
    facts = read_source(submission, known)
    sharpened(facts, submission, known, within_s=0.1)  # LangChain's import is paid here
    for allowed_s in (0.3, 1.2):
        start = time.monotonic()
        found = sharpened(facts, submission, known, within_s=allowed_s)
        seconds = time.monotonic() - start
        assert found.facts == facts.facts and any("not used" in warning for warning in found.warnings)
        assert seconds < 10, "far below a question's own limit of 30 s"
    log = job / "job.log"
    log.write_text(ODD_LOG)
    start = time.monotonic()
    unsure = refine_diagnosis(diagnose(log), log, load_settings(environment(hanging.url)))
    assert any("not used" in warning for warning in unsure.warnings)
    assert time.monotonic() - start < HANGS_S / 10


def test_a_model_that_is_left_alone_is_told_as_well(scripted: Any, job: Path) -> None:
    from analyzers.types import Submission
    from schedmate.config import load_settings
    from schedmate.source import read_source, sharpened

    steps = sys.modules[type(scripted).__module__]
    scripted.script = [steps.fails(401)]
    known = load_settings({**environment(scripted.url), "SCHEDMATE_LLM_LOOKS": "0"})
    submission = Submission("python train.py", job)
    facts = read_source(submission, known)
    found = [sharpened(facts, submission, known) for _ in range(8)]
    assert len(scripted.requests) < 8 and "left alone" in found[-1].warnings[-1]
