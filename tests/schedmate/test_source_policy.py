"""Who decides whether source is read, and that commands and predictions tell it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from analyzers.history import MemoryHistoryStore
from analyzers.types import Submission
from schedmate.config import Settings, load_settings
from schedmate.pipeline import Pipeline
from schedmate.service.work import Task, perform
from schedmate.source import reading_cache, switched_off_by

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "torchrun --nproc_per_node 4 train.py --epochs 2"


def settings(tmp_path: Path, **values: str) -> Settings:
    environment = {f"SCHEDMATE_SOURCE_{name.upper()}": value for name, value in values.items()}
    (tmp_path / "empty.toml").touch()
    own = {"SCHEDMATE_DATA_DIR": str(tmp_path), "SCHEDMATE_CONFIG": str(tmp_path / "empty.toml")}
    return load_settings({**own, **environment})


@pytest.fixture
def job(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples" / "train", tmp_path / "job")
    return tmp_path / "job"


@pytest.mark.parametrize(
    ("tenants", "users", "submission", "off"),
    [
        ("", "", Submission("x", tenant="a", user="bo"), ""),
        ("a", "", Submission("x", tenant="a"), "policy source.off_tenants: a"),
        ("b, a ,c", "", Submission("x", tenant="a"), "policy source.off_tenants: a"),
        ("ab", "", Submission("x", tenant="a"), ""),
        ("a", "", Submission("x", user="a"), ""),
        ("a", "bo", Submission("x", tenant="z", user="bo"), "policy source.off_users: bo"),
        ("*", "", Submission("x"), "policy source.off_tenants: all"),
        ("", "*", Submission("x"), "policy source.off_users: all"),
        (",", " , ", Submission("x", tenant="", user=""), ""),
    ],
)
def test_policy(tmp_path: Path, tenants: str, users: str, submission: Submission, off: str) -> None:
    assert switched_off_by(submission, settings(tmp_path, off_tenants=tenants, off_users=users)) == off


def test_a_prediction_obeys_and_tells(tmp_path: Path, job: Path) -> None:
    asked = Submission(COMMAND, job, tenant="acme")
    off = Pipeline(MemoryHistoryStore(), settings(tmp_path, off_tenants="acme", cache_dir=str(tmp_path / "c")))
    full = Pipeline(MemoryHistoryStore(), settings(tmp_path, cache_mib="0"))
    assert full.predict(asked).source.state == "full"
    prediction = off.predict(asked)
    assert (prediction.source.state, prediction.source.why) == ("off", "policy source.off_tenants: acme")
    assert any("source code was not read" in warning for warning in prediction.warnings)
    assert not (tmp_path / "c").exists(), "nothing is kept of a job that is left alone"


def test_the_service_obeys(tmp_path: Path, job: Path) -> None:
    known = settings(tmp_path, off_users="bo", cache_mib="0")
    for user, state in (("bo", "off"), ("al", "full")):
        document = perform(Task("predict", submission=Submission(COMMAND, job, user=user)), known)
        assert document["source"]["state"] == state
        jsonschema.validate(document, json.loads((ROOT / "schedmate/schemas/predict.schema.json").read_text()))


def test_the_cache_is_where_and_as_large_as_it_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reading_cache(settings(tmp_path, cache_mib="0", cache_dir=str(tmp_path))) is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.expanduser", lambda self: (_ for _ in ()).throw(RuntimeError))
    assert reading_cache(settings(tmp_path)) is None


def test_commands_tell_it(job: Path, schedmate, tmp_path: Path) -> None:
    analyze = ("analyze", job, "--command", COMMAND)
    predict = ("predict", job, "--command", COMMAND, "--history", ROOT / "examples" / "trace.csv")
    full = json.loads(schedmate(*analyze, "--json").stdout)
    assert full["source"] == {"state": "full", "why": ""}
    assert list((tmp_path / "schedmate-readings").glob("*.json")), "the reading is kept"
    assert json.loads(schedmate(*analyze, "--json").stdout) == full

    (job / ".schedmateignore").write_text("*\n")
    off = json.loads(schedmate(*analyze, "--json").stdout)
    jsonschema.validate(off, json.loads((ROOT / "schedmate/schemas/analyze.schema.json").read_text()))
    assert off["source"] == {"state": "off", "why": ".schedmateignore"}
    assert off["facts"]["num_gpus"]["value"] == 4
    assert "optimizer" not in off["facts"]
    assert "source code was not read (.schedmateignore)" in schedmate(*analyze).stdout

    told = json.loads(schedmate(*predict, "--json").stdout)
    assert told["source"] == {"state": "off", "why": ".schedmateignore"}
    shown = schedmate(*predict)
    assert "not read (.schedmateignore)" in shown.stdout
    (job / ".schedmateignore").unlink()
    by_tenant = schedmate("--set", "source.off_tenants=acme", *analyze, "--tenant", "acme", "--json")
    assert json.loads(by_tenant.stdout)["source"]["why"] == "policy source.off_tenants: acme"
