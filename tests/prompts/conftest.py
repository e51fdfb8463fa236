"""A scripted OpenAI-compatible endpoint: real HTTP on loopback, answers by script, every received byte kept."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Step:
    """One scripted response. ``body`` a dict (sent as JSON), text or bytes; ``drip_s`` seconds between its bytes."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    drip_s: float = 0.0
    hang_up: bool = False


def says(content: Any, *, finish: str = "stop", refusal: str | None = None) -> Step:
    """A chat completion with this content (None, text, or an object that is sent as JSON text)."""
    text = content if content is None or isinstance(content, str) else json.dumps(content)
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return Step(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "finish_reason": finish, "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


def fails(status: int, message: str = "no", **headers: str) -> Step:
    """An error as such endpoints report it."""
    return Step({"error": {"message": message, "type": "error", "code": None}}, status, headers)


class Scripted:
    """The server. ``script`` is used up request by request (the last step repeats); ``requests`` are the bodies."""

    def __init__(self) -> None:
        self.script: list[Step | Callable[[dict[str, Any]], Step]] = []
        self.requests: list[dict[str, Any]] = []
        self.received = b""
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                with outer.lock:
                    outer.received += str(self.headers).encode() + raw
                    body = json.loads(raw)
                    outer.requests.append(body)
                    step = outer.script.pop(0) if len(outer.script) > 1 else outer.script[0]
                step = step(body) if callable(step) else step
                time.sleep(step.wait_s)
                if step.hang_up:
                    self.close_connection = True
                    return
                payload = step.body if isinstance(step.body, bytes) else (
                    step.body.encode() if isinstance(step.body, str) else json.dumps(step.body).encode()
                )  # fmt: skip
                try:
                    self.send_response(step.status)
                    for name, value in {"content-type": "application/json", **step.headers}.items():
                        self.send_header(name.replace("_", "-"), value)
                    self.send_header("content-length", str(len(payload)))
                    self.end_headers()
                    if not step.drip_s:
                        self.wfile.write(payload)
                    else:
                        for position in range(len(payload)):
                            self.wfile.write(payload[position : position + 1])
                            self.wfile.flush()
                            time.sleep(step.drip_s)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def rungs(self) -> list[str]:
        """What each request asked for: json_schema, json_object or none."""
        return [r.get("response_format", {}).get("type", "none") for r in self.requests]

    def close(self) -> None:
        """Stop serving."""
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A fresh scripted endpoint."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    server = Scripted()
    yield server
    server.close()


@pytest.fixture
def steps(scripted: Scripted) -> Any:
    """What a script is made of (this module: `says`, `fails`, `Step`)."""
    return sys.modules[type(scripted).__module__]
