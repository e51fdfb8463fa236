"""Run inside a hostile job folder, the command must not execute one line of what lies there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOMS = ("prompts", "analyzers", "predictors", "schedmate", "integrations")
SHADOWED = (
    *("sitecustomize", "usercustomize", "typing", "json", "re", "os", "random", "string", "tomllib", "dataclasses"),
    *("numpy", "pandas", "typer", "rich", "click", "yaml", "sklearn", "fastapi", "hyperscan", "matplotlib", "jinja2"),
    *("langchain", "langchain_openai", "openai", "pydantic", "sqlalchemy", "uvicorn", "pyarrow", "conftest", "setup"),
    *("train", "config", "code"),
)
LOG = "step 1/10 loss 2.0\nTraceback (most recent call last):\nRuntimeError: CUDA out of memory.\n"
TRACE = "job_id,submit,duration,gpus\n1,0,10,1\n2,1,10,2\n"

_SPREAD = {"mean": 5.0, "p50": 5.0, "p90": 9.0, "p99": 9.0, "max": 9.0}
_OF_A_POLICY = {
    "jobs": 2,
    "estimates": "perfect",
    "sor": 0.5,
    "sor_while_arriving": 0.5,
    "gfr": {"mean": 0.1},
    "jwtd_s": {},
    "makespan_s": 11.0,
    "jct_s": _SPREAD,
    "queueing_s": _SPREAD,
    "bounded_slowdown": _SPREAD,
}
SIMULATED = {
    "trace": "trace.csv",
    "cluster": {"nodes": 2, "gpus": 16},
    "estimates": "perfect",
    "policies": {"fifo": _OF_A_POLICY, "easy": _OF_A_POLICY},
}
COMMANDS: dict[str, list[str]] = {
    "help": ["--help"],
    "version": ["version", "--json"],
    "config": ["config", "show", "--json"],
    "llm": ["llm", "usage", "--json"],
    "analyze": ["analyze", ".", "--command", "python train.py", "--json"],
    "predict": ["predict", ".", "--command", "python train.py", "--history", "trace.csv", "--json"],
    "diagnose": ["diagnose", "job.log", "--json"],
    "progress": ["progress", "job.log", "--json"],
    "failures": ["failures", "list", "--json"],
    "signatures": ["signatures", "list", "--json"],
    "history import": ["history", "import", "trace.csv", "--json"],
    "history list": ["history", "list", "--json"],
    "trace": ["trace", "describe", "trace.csv", "--json"],
    "simulate": ["simulate", "trace.csv", "--nodes", "2", "--policy", "fifo,sjf,easy,kant", "--json"],
    "sweep": ["sweep", "sweep.yaml", "--out", "sweep-out", "--workers", "2", "--json"],
    "compare": ["compare", "simulated.json", "--report", "report.html", "--json"],
    "batch": [
        "batch",
        "diagnose",
        "logs",
        "--out",
        "out.jsonl",
        "--parquet",
        "out.parquet",
        "--workers",
        "2",
        "--json",
    ],
    "demo": ["demo", "--jobs", "30", "--out", "demo-out", "--json"],
    "workload": ["workload", "generate", "--jobs", "10", "--seed", "1", "--out", "workload-out", "--json"],
    "serve": ["serve", "--port", "0"],
    "train": ["train", "many.csv", "--out", "models", "--json"],
    "evaluate": ["evaluate", "many.csv", "--models", "no-models", "--json"],
}
#: Exit codes of those that do not end with 0 or 1.
CODES = {"serve": (0, 130, 143, -15), "evaluate": (2,)}
MANY = "job_id,submit,duration,gpus,user\n" + "".join(f"{n},{60 * n},{30 + n % 50},1,u{n % 3}\n" for n in range(500))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A job folder in which importing or executing anything leaves a mark."""
    folder = tmp_path / "job"
    folder.mkdir()
    mark = (
        f"open({str(tmp_path / 'executed')!r}, 'a').write(__file__ + chr(10))\nraise SystemExit('hostile code ran')\n"
    )
    for name in ROOMS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(mark)
        for module in ("errors", "types", "cli", "start", "config", "ports", "source", "traces"):
            (folder / name / f"{module}.py").write_text(mark)
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(mark)
    (folder / "matplotlibrc").write_text("backend: module://train\n")
    (folder / "pyvenv.cfg").write_text("home = /nonexistent\n")
    (folder / "python").write_text(f"#!/bin/sh\necho python >> {tmp_path / 'executed'}\n")
    (folder / "readlink").write_text(f"#!/bin/sh\necho readlink >> {tmp_path / 'executed'}\n")
    for name in ("python", "readlink"):
        (folder / name).chmod(0o755)
    (folder / "job.log").write_text(LOG)
    (folder / "sweep.yaml").write_text("{trace: trace.csv, nodes: 2, policies: [fifo, kant], shakes: 2}")
    (folder / "simulated.json").write_text(json.dumps(SIMULATED))
    (folder / "logs").mkdir()
    (folder / "logs" / "a.log").write_text(LOG)
    (folder / "trace.csv").write_text(TRACE)
    (folder / "many.csv").write_text(MANY)
    return folder


@pytest.mark.parametrize("pythonpath", [None, "here"], ids=["plain", "PYTHONPATH=here"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_subcommand_runs_code_of_the_folder(
    hostile: Path, tmp_path: Path, name: str, pythonpath: str | None
) -> None:
    launcher = Path(sys.executable).parent / "schedmate"
    environment = {**os.environ, "SCHEDMATE_DATA_DIR": str(tmp_path / "data"), "PATH": f".:{os.environ['PATH']}"}
    if pythonpath:
        environment["PYTHONPATH"] = str(hostile)
    process = subprocess.Popen(
        [launcher, *COMMANDS[name]],
        cwd=hostile,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, errors = process.communicate(timeout=8 if name == "serve" else 120)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, errors = process.communicate(timeout=20)
        assert name == "serve", f"{name} did not finish: {errors}"
    executed = tmp_path / "executed"
    assert not executed.exists(), executed.read_text()
    assert process.returncode in CODES.get(name, (0, 1)), errors
    assert "Traceback" not in errors
    assert (out or errors).strip()


def test_every_subcommand_is_tried_here(schedmate) -> None:
    listed = schedmate("--help").stdout
    shown = set(re.findall(r"^[│|]\s(\w+)\s", listed, flags=re.MULTILINE))
    assert shown == {words[0] for words in COMMANDS.values()} - {"--help"}


def test_a_room_from_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "predictors").mkdir()
    (tmp_path / "predictors" / "__init__.py").write_text("raise SystemExit('hostile code ran')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from schedmate.start import main; main()"
    done = subprocess.run([sys.executable, "-I", "-c", code, "version"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "refusing to start" in done.stderr and "predictors" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "hostile code ran" not in done.stderr


def test_there_is_no_python_dash_m(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "schedmate"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0


@pytest.mark.parametrize("via", ["symlink", "relative", "path"])
def test_the_launcher_finds_its_interpreter(tmp_path: Path, via: str) -> None:
    launcher = Path(sys.executable).parent / "schedmate"
    environment = dict(os.environ)
    if via == "symlink":
        (tmp_path / "schedmate").symlink_to(launcher)
        words = [str(tmp_path / "schedmate")]
    elif via == "relative":
        words = [os.path.relpath(launcher, tmp_path)]
    else:
        environment["PATH"] = f"{launcher.parent}:{environment['PATH']}"
        words = ["schedmate"]
    done = subprocess.run([*words, "version"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
