"""Every route, in this process: contracts, storage, reports, and every kind of error as problem+json."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from prompts.errors import UserError
from schedmate.config import Settings, load_settings
from schedmate.service.app import create_app

TRAIN = "import torch\nBATCH = 32\nfor epoch in range(3):\n    pass\n"


def upload(client: TestClient, name: str, content: str | bytes, **fields: str) -> Any:
    return client.post("/v1/diagnose", files=[("files", (name, content))], data=fields)


def test_health(client: TestClient) -> None:
    answer = client.get("/healthz")
    assert answer.status_code == 200 and answer.json()["status"] == "ok"


def test_the_description_names_every_route_and_contract(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {
        "/healthz", "/v1/predict", "/v1/hints", "/v1/diagnose", "/v1/diagnoses/{number}", "/v1/reports/root-causes",
    }  # fmt: skip
    diagnose = described["paths"]["/v1/diagnose"]["post"]["responses"]
    assert "category" in diagnose["201"]["content"]["application/json"]["schema"]["properties"]
    assert "application/problem+json" in diagnose["4XX"]["content"]
    assert client.get("/docs").status_code == 404, "its page would load scripts from elsewhere"


def test_predict_and_hints_agree_and_fit_their_contracts(client: TestClient, contract: Callable[..., None]) -> None:
    body = {"command": "python train.py", "files": {"train.py": TRAIN}, "gpus": 4, "user": "bo", "limit_s": 3600}
    prediction = client.post("/v1/predict", json=body)
    assert prediction.status_code == 200, prediction.text
    contract("predict", prediction.json())
    assert prediction.json()["duration_s"]["p99"] <= 3600
    hints = client.post("/v1/hints", json=body).json()
    contract("hints", hints)
    assert hints["expected_s"] == prediction.json()["duration_s"]["p50"]
    assert client.post("/v1/predict", json={"command": "sleep 1"}).status_code == 200


def test_predict_is_the_same_as_on_the_command_line(
    client: TestClient, schedmate: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text(TRAIN)
    ran = schedmate("predict", work, "--command", "python train.py", "--gpus", "2", "--json")
    answer = client.post("/v1/predict", json={"command": "python train.py", "files": {"train.py": TRAIN}, "gpus": 2})
    assert answer.json() == json.loads(ran.stdout)


def test_diagnose_is_the_same_as_on_the_command_line_and_is_kept(
    client: TestClient,
    logs: dict[str, str],
    contract: Callable[..., None],
    schedmate: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    (tmp_path / "job.log").write_text(logs["oom"])
    ran = schedmate("diagnose", tmp_path / "job.log", "--json")
    answer = upload(client, "job.log", logs["oom"], user="bo", tenant="vision", job="17")
    assert answer.status_code == 201, answer.text
    contract("diagnose", answer.json())
    assert answer.json() == json.loads(ran.stdout)
    assert answer.json()["category"] == "resource-request"
    kept = client.get(answer.headers["location"]).json()
    contract("stored_diagnosis", kept)
    assert kept["diagnosis"] == answer.json()
    assert (kept["user"], kept["tenant"], kept["job"]) == ("bo", "vision", "17")
    assert abs(kept["created_s"] - time.time()) < 60


def tarred(files: dict[str, str], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def zipped(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def test_several_files_and_archives_are_one_case(client: TestClient, logs: dict[str, str]) -> None:
    files = {f"rank_{rank}.log": f"[rank{rank}]: step 1 loss 2.0\n" for rank in range(4)}
    files["rank_2.log"] += logs["oom"].replace("rank0", "rank2")
    inside = {f"case/{name}": text for name, text in files.items()}
    several = client.post("/v1/diagnose", files=[("files", (name, text)) for name, text in files.items()]).json()
    assert several["culprit_ranks"] == [2]
    assert several["evidence"][0]["file"] == "rank_2.log"
    for name, content in (
        ("case.tar.gz", tarred(inside)),
        ("case.tgz", tarred(inside)),
        ("case.tar", tarred(inside, "w")),
        ("case.zip", zipped(inside)),
        ("flat.zip", zipped(files)),
    ):
        assert upload(client, name, content).json() == several, name


def test_secrets_are_not_kept(client: TestClient, settings: Settings) -> None:
    hidden = "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3h"
    text = f"Traceback (most recent call last):\n  File 'a.py', line 1\nValueError: login with token {hidden} failed\n"
    answer = upload(client, "job.log", text)
    assert hidden not in answer.text
    for path in Path(settings.text("data.dir")).rglob("*"):
        if path.is_file():
            assert hidden.encode() not in path.read_bytes()


def test_reports(client: TestClient, logs: dict[str, str], contract: Callable[..., None]) -> None:
    before = time.time()
    empty = client.get("/v1/reports/root-causes").json()
    contract("root_causes", empty)
    assert empty["total"] == 0 and empty["groups"] == [] and empty["retryable_share"] is None
    for number in range(3):
        upload(client, "job.log", logs["oom"].replace("79.11", f"{70 + number}.11"), user="bo", tenant="vision")
    upload(client, "job.log", logs["no_space"], user="al", tenant="text")
    for group_by, expected in {
        "category": {"resource-request": 3, "storage": 1},
        "user": {"bo": 3, "al": 1},
        "tenant": {"vision": 3, "text": 1},
        "node": {None: 4},
    }.items():
        report = client.get("/v1/reports/root-causes", params={"group_by": group_by}).json()
        contract("root_causes", report)
        assert report["total"] == 4
        assert {group["key"]: group["count"] for group in report["groups"]} == expected, group_by
    first = client.get("/v1/reports/root-causes").json()["groups"][0]
    assert first["share"] == 0.75
    assert first["evidence"][0]["count"] == 3, "lines that differ in numbers only count as one"
    assert client.get(f"/v1/diagnoses/{first['evidence'][0]['diagnosis']}").status_code == 200
    assert client.get("/v1/reports/root-causes", params={"user": "al"}).json()["total"] == 1
    assert client.get("/v1/reports/root-causes", params={"until": before}).json()["total"] == 0
    assert client.get("/v1/reports/root-causes", params={"since": "2020-01-01T00:00:00"}).json()["total"] == 4
    assert len(client.get("/v1/reports/root-causes", params={"limit": 1}).json()["groups"]) == 1


def test_reports_by_node(client: TestClient) -> None:
    lines = "".join(
        f"Jun 14 03:20:4{n} sable-0{n} kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
        for n in (7, 8)
    )
    for number in (7, 8, 8):
        line = lines.splitlines(keepends=True)[number - 7]
        files = [("files", (f"dmesg_sable-0{number}.txt", line)), ("files", ("rank_0.log", "step 1 loss 2\n"))]
        assert client.post("/v1/diagnose", files=files).json()["culprit_nodes"] == [f"sable-0{number}"]
    report = client.get("/v1/reports/root-causes", params={"group_by": "node"}).json()
    assert [(g["key"], g["count"], g["nodes"]) for g in report["groups"]] == [
        ("sable-08", 2, {"sable-08": 2}),
        ("sable-07", 1, {"sable-07": 1}),
    ]


PROBLEMS: dict[str, tuple[int, Callable[[TestClient], Any]]] = {
    "no such route": (404, lambda c: c.get("/v2/nothing")),
    "wrong method": (405, lambda c: c.get("/v1/predict")),
    "no such diagnosis": (404, lambda c: c.get("/v1/diagnoses/nothing")),
    "no body": (422, lambda c: c.post("/v1/predict")),
    "not JSON": (422, lambda c: c.post("/v1/predict", content=b"{", headers={"content-type": "application/json"})),
    "not UTF-8": (400, lambda c: c.post("/v1/predict", content=b"\xff", headers={"content-type": "application/json"})),
    "wrong type": (422, lambda c: c.post("/v1/predict", json={"command": "x", "gpus": "many"})),
    "no GPUs": (422, lambda c: c.post("/v1/predict", json={"command": "x", "gpus": 0})),
    "infinite": (422, lambda c: c.post("/v1/predict", content='{"command": "x", "limit_s": Infinity}')),
    "unknown field": (422, lambda c: c.post("/v1/predict", json={"command": "x", "gpu": 1})),
    "server path": (422, lambda c: c.post("/v1/predict", json={"command": "x", "workdir": "/etc"})),
    "traversal": (422, lambda c: c.post("/v1/predict", json={"command": "x", "files": {"../../x.py": ""}})),
    "absolute": (422, lambda c: c.post("/v1/hints", json={"command": "x", "files": {"/srv/x.py": ""}})),
    "file and folder": (422, lambda c: c.post("/v1/hints", json={"command": "x", "files": {"a": "", "a/b": ""}})),
    "no file": (422, lambda c: c.post("/v1/diagnose", data={"user": "x"})),
    "empty file": (422, lambda c: upload(c, "job.log", b"")),
    "binary file": (422, lambda c: upload(c, "job.log", bytes(range(256)) * 50)),
    "not an archive": (422, lambda c: upload(c, "case.tar.gz", b"hello")),
    "cut archive": (422, lambda c: upload(c, "case.tar.gz", tarred({"a.log": "x" * 50000})[:60])),
    "not a zip": (422, lambda c: upload(c, "case.zip", b"PK\x03\x04 but no")),
    "empty archive": (422, lambda c: upload(c, "case.tar.gz", tarred({}))),
    "tar traversal": (422, lambda c: upload(c, "case.tar.gz", tarred({"../evil.log": "x"}))),
    "zip traversal": (422, lambda c: upload(c, "case.zip", zipped({"a/../../evil.log": "x"}))),
    "zip absolute": (422, lambda c: upload(c, "case.zip", zipped({"/evil.log": "x"}))),
    "too large": (413, lambda c: upload(c, "job.log", b"x" * (2 << 20))),
    "too large JSON": (413, lambda c: c.post("/v1/predict", json={"command": "x", "files": {"a": "x" * (2 << 20)}})),
    "bomb": (413, lambda c: upload(c, "case.tar.gz", tarred({"a.log": "a\n" * (6 << 20)}))),
    "zip bomb": (413, lambda c: upload(c, "case.zip", zipped({"a.log": "a\n" * (6 << 20)}))),
    "foreign page": (403, lambda c: c.post("/v1/diagnose", headers={"origin": "https://evil.example"})),
    "sandboxed page": (403, lambda c: c.post("/v1/diagnose", headers={"origin": "null"})),
    "rebound name": (421, lambda c: c.get("/healthz", headers={"host": "evil.example"})),
    "bad group": (422, lambda c: c.get("/v1/reports/root-causes?group_by=password")),
    "bad time": (422, lambda c: c.get("/v1/reports/root-causes?since=yesterday")),
    "long field": (422, lambda c: upload(c, "job.log", b"x\n", user="u" * 300)),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_error_is_a_problem(client: TestClient, contract: Callable[..., None], name: str) -> None:
    status, ask = PROBLEMS[name]
    answer = ask(client)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    contract("problem", answer.json())
    assert answer.json()["status"] == status
    assert "Traceback" not in answer.text and "/tmp/" not in answer.text
    assert client.get("/healthz", headers={"host": "127.0.0.1"}).status_code == 200


def test_a_stream_without_a_length_is_cut_off_too(client: TestClient, contract: Callable[..., None]) -> None:
    def chunks() -> Any:
        yield b'--b\r\ncontent-disposition: form-data; name="files"; filename="a.log"\r\n\r\n'
        for _ in range(40):
            yield b"x" * 65536

    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = client.post("/v1/diagnose", content=chunks(), headers=headers)
    assert answer.status_code == 413, answer.text
    contract("problem", answer.json())


def test_links_and_devices_are_left_out_and_said(client: TestClient, logs: dict[str, str]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, kind, target in (
            ("c/passwd.log", tarfile.SYMTYPE, "/etc/passwd"),
            ("c/hard.log", tarfile.LNKTYPE, "c/rank_0.log"),
            ("c/fifo.log", tarfile.FIFOTYPE, ""),
            ("c/dev.log", tarfile.CHRTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
        info = tarfile.TarInfo("c/rank_0.log")
        info.size = len(logs["oom"])
        archive.addfile(info, io.BytesIO(logs["oom"].encode()))
    answer = upload(client, "case.tar.gz", buffer.getvalue())
    assert answer.status_code == 201, answer.text
    assert "4 links, devices" in " ".join(answer.json()["warnings"])
    assert "root:" not in answer.text


def test_a_header_that_claims_gigabytes_is_refused_without_reading_them(client: TestClient) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo("x")
        info.type, info.size = tarfile.GNUTYPE_LONGNAME, 8 << 30
        archive.fileobj.write(info.tobuf(tarfile.GNU_FORMAT))  # type: ignore[union-attr]
    start = time.monotonic()
    assert upload(client, "case.tar", buffer.getvalue()).status_code == 413
    assert time.monotonic() - start < 5


def test_an_error_of_ours_tells_nothing(settings: Settings, contract: Callable[..., None]) -> None:
    app = create_app(settings)

    @app.get("/broken")
    async def broken() -> None:
        raise ZeroDivisionError("secret detail")

    with TestClient(app, base_url="http://localhost") as client:
        answer = client.get("/broken")
    assert answer.status_code == 500
    contract("problem", answer.json())
    assert "secret detail" not in answer.text and answer.json()["instance"].startswith("urn:uuid:")


def test_a_lost_database_is_a_problem_and_unhealthy(settings: Settings, logs: dict[str, str]) -> None:
    app = create_app(settings)
    with TestClient(app, base_url="http://localhost") as client:
        database = Path(settings.text("data.dir")) / "service.sqlite"
        for path in database.parent.glob("service.sqlite*"):
            path.unlink()
        database.mkdir()
        app_answer = upload(client, "job.log", logs["oom"])
        assert app_answer.status_code in (201, 500)
        assert "Traceback" not in app_answer.text


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////proc/nowhere/x.sqlite", "oracle://x", "mysql://a:b@c/d"])
def test_a_database_that_can_not_be_opened_is_one_line(tmp_path: Path, url: str) -> None:
    settings = load_settings({"SCHEDMATE_DATA_DIR": str(tmp_path), "SCHEDMATE_SERVICE_DATABASE": url})
    with pytest.raises(UserError, match=r"service\.database"):
        create_app(settings)


def test_a_full_disk_is_said_to_be_one(client: TestClient, contract: Callable[[str, Any], None]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("a.log")
        member.size = 100_000
        archive.addfile(member, io.BytesIO(b"x" * member.size))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, content in (("a.log", b"x" * 100_000), ("a.tar.gz", packed.getvalue())):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            answer = client.post("/v1/diagnose", files={"files": (name, content)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert answer.status_code == 507
        contract("problem", answer.json())
