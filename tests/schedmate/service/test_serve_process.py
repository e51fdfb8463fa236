"""The service as a real process: start, refuse, stop, answer under load, and survive being killed."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def http_client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=60, trust_env=False)


@pytest.mark.slow
def test_it_serves_and_ends_on_interrupt(served: Any, logs: dict[str, str]) -> None:
    with http_client(served.start()) as client:
        assert client.get("/healthz").json()["status"] == "ok"
        answer = client.post("/v1/diagnose", files={"files": ("job.log", logs["no_space"])})
        assert answer.status_code == 201 and answer.json()["category"] == "storage"
    served.process.send_signal(signal.SIGINT)
    _, said = served.process.communicate(timeout=20)
    assert served.process.returncode == 0
    assert "SchedMate listens on http://127.0.0.1:" in said and "Traceback" not in said


def test_a_port_in_use_is_one_line(schedmate: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = schedmate("serve", "--port", str(taken.getsockname()[1]))
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1 and "already in use" in ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "0.0.0.0"), "--allow-remote"),
        (("--host", "::"), "--allow-remote"),
        (("--host", "127.evil.example"), "--allow-remote"),
        (("--host", "192.0.2.1", "--allow-remote", "--port", "0"), "cannot listen"),
        (("--host", "no such host", "--allow-remote"), "not an address"),
        (("--port", "99999"), "65535"),
    ],
)
def test_addresses_that_will_not_do(schedmate: Run, words: tuple[str, ...], said: str) -> None:
    ran = schedmate("serve", *words)
    assert ran.returncode == 2
    assert said in ran.stderr and "Traceback" not in ran.stderr


@pytest.mark.slow
def test_health_answers_while_heavy_work_runs(served: Any) -> None:
    url = served.start()
    heavy = "".join(f"[rank{n % 8}]: step {n} loss {n / 7:.3f} lr 0.1\n" for n in range(2_000))
    slowest_s = 0.0
    with ThreadPoolExecutor(4) as pool, http_client(url) as client:
        jobs = [
            pool.submit(
                httpx.post, f"{url}/v1/diagnose", files={"files": ("a.log", heavy)}, timeout=120, trust_env=False
            )
            for _ in range(4)
        ]
        while not all(job.done() for job in jobs):
            start = time.monotonic()
            assert client.get("/healthz").status_code == 200
            slowest_s = max(slowest_s, time.monotonic() - start)
            time.sleep(0.02)
        assert {job.result().status_code for job in jobs} == {201}
    assert slowest_s < 5


@pytest.mark.slow
def test_it_survives_being_killed_in_the_middle_of_a_load(served: Any, logs: dict[str, str]) -> None:
    url = served.start()
    kept: list[str] = []
    stop = threading.Event()

    def load(number: int) -> None:
        with http_client(url) as client:
            while not stop.is_set():
                try:
                    answer = client.post(
                        "/v1/diagnose", files={"files": ("job.log", logs["oom"])}, data={"job": f"{number}"}
                    )
                except httpx.HTTPError:
                    return
                if answer.status_code == 201:
                    kept.append(answer.headers["location"])

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 30
    while len(kept) < 20 and time.monotonic() < deadline:
        time.sleep(0.02)
    served.process.kill()
    served.process.communicate()
    stop.set()
    for thread in threads:
        thread.join()
    assert len(kept) >= 20

    with http_client(served.start()) as client:
        for location in kept:
            assert client.get(location).status_code == 200, "what was answered is kept"
        total = client.get("/v1/reports/root-causes").json()["total"]
        assert len(kept) <= total <= len(kept) + 4, "at most the requests in flight were kept without an answer"
        assert client.post("/v1/diagnose", files={"files": ("job.log", logs["oom"])}).status_code == 201


def test_a_client_that_goes_away_harms_nobody(served: Any, logs: dict[str, str]) -> None:
    url = served.start()
    host, port = url.removeprefix("http://").split(":")
    for _ in range(3):
        connection = http.client.HTTPConnection(host, int(port))
        connection.putrequest("POST", "/v1/diagnose")
        connection.putheader("content-type", "multipart/form-data; boundary=b")
        connection.putheader("content-length", "100000")
        connection.endheaders()
        connection.send(b'--b\r\ncontent-disposition: form-data; name="files"; filename="a.log"\r\n\r\nhalf')
        connection.close()
    with http_client(url) as client:
        assert client.post("/v1/diagnose", files={"files": ("job.log", logs["oom"])}).status_code == 201
        assert client.get("/v1/reports/root-causes").json()["total"] == 1
