"""Bad input of every kind, to every command that reads a file: one clear line and exit 2, or counted and skipped."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LAUNCHER = Path(sys.executable).parent / "schedmate"
HEADER = "job_id,submit,duration,gpus\n"


def many_rows() -> bytes:
    return (HEADER + "".join(f"{i},{i * 10},{i * 37 % 999 + 1},1\n" for i in range(5000))).encode()


def make(path: Path, kind: str) -> Path:
    """Put input of the named kind at ``path``."""
    if kind == "directory":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 64)
    elif kind == "empty":
        path.touch()
    elif kind == "empty gzip":
        path.write_bytes(gzip.compress(b""))
    elif kind == "truncated gzip":
        whole = gzip.compress(many_rows())
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "broken gzip":
        path.write_bytes(b"\x1f\x8b\x08\x00" + b"\x55" * 400)
    elif kind == "wrong columns":
        path.write_text("alpha,beta\n1,2\n3,4\n")
    elif kind == "unreadable":
        path.write_text(HEADER + "1,0,5,1\n")
        path.chmod(0)
    else:
        assert kind == "missing"
    return path


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "simulate": lambda path: ["simulate", str(path), "--nodes", "4", "--policy", "fifo"],
    "history import": lambda path: ["history", "import", str(path)],
    "predict": lambda path: ["predict", ".", "--command", "python x.py", "--history", str(path)],
    "predict in": lambda path: ["predict", str(path), "--command", "python x.py"],
    "diagnose": lambda path: ["diagnose", str(path)],
    "progress": lambda path: ["progress", str(path)],
    "batch": lambda path: ["batch", "diagnose", str(path), "--out", "out.jsonl"],
    "analyze": lambda path: ["analyze", str(path), "--command", "python x.py"],
    "cluster file": lambda path: ["simulate", "good.csv", "--cluster", str(path), "--policy", "fifo"],
    "config file": lambda path: ["--config", str(path), "config", "show"],
}
KINDS = (
    *("missing", "directory", "binary", "empty", "empty gzip", "truncated gzip", "broken gzip"),
    *("wrong columns", "unreadable"),
)
TEXT_IS_FINE = {"diagnose", "progress"}  # any text is a log
#: What is no error: an empty work dir can be analysed, and half of a log still tells something.
ALLOWED = {
    ("analyze", "directory"),
    ("predict in", "directory"),
    ("config file", "empty"),
    *((command, kind) for command in TEXT_IS_FINE for kind in ("wrong columns", "truncated gzip")),
}


def run(words: list[str], cwd: Path, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SCHEDMATE_DATA_DIR": str(cwd / "data")}
    return subprocess.run(
        [*prefix, str(LAUNCHER), *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60
    )


def without_root_powers() -> tuple[str, ...]:
    """A prefix under which file permissions count even for root."""
    if os.geteuid() != 0:
        return ()
    if not shutil.which("setpriv"):
        pytest.skip("running as root without setpriv: permissions can not be tried")
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, command: str, kind: str) -> None:
    (tmp_path / "good.csv").write_text(HEADER + "1,0,5,1\n")
    path = make(tmp_path / "input", kind)
    done = run(COMMANDS[command](path), tmp_path, without_root_powers() if kind == "unreadable" else ())
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    if (command, kind) in ALLOWED:
        assert done.returncode in (0, 1), done.stderr
        return
    assert done.returncode == 2, (done.returncode, done.stdout[-500:], done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("schedmate: "), done.stderr
    assert str(path.name) in lines[0] or "input" in lines[0]
    assert done.stdout == ""


BAD_ROWS = {
    "negative duration": "2,1,-5,1\n",
    "NaN duration": "2,1,nan,1\n",
    "infinite duration": "2,1,inf,1\n",
    "NaN submit": "2,nan,5,1\n",
    "words": "2,one,five,1\n",
    "no GPUs": "2,1,5,0\n",
    "half a GPU": "2,1,5,x\n",
    "short row": "2,1\n",
    "long row": "2,1,5,1,9,9,9,9\n",
    "NUL": "2,1,\x00,1\n",
    "huge number": "2,1,1e400,1\n",
}


@pytest.mark.parametrize("kind", BAD_ROWS)
@pytest.mark.parametrize("command", ["simulate", "history import"])
def test_one_bad_row_is_counted_and_the_rest_counts(tmp_path: Path, command: str, kind: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "1,0,5,1\n" + BAD_ROWS[kind] + "3,2,7,2\n")
    done = run([*COMMANDS[command](path), "--json"], tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    if kind == "long row":  # extra cells do not make a row unreadable
        return
    if command == "simulate":
        assert sum(answer["rows_skipped"].values()) == 1 and answer["warnings"]
        assert all(policy["jobs"] == 2 for policy in answer["policies"].values())
    else:
        assert sum(answer["skipped"].values()) == 1 and answer["added"] == 2


def test_all_rows_bad_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "".join(BAD_ROWS[kind] for kind in ("negative duration", "words", "no GPUs")))
    done = run(COMMANDS["simulate"](path), tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_job_larger_than_the_cluster_is_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "1,0,5,1\n2,1,5,33\n3,2,5,32\n")
    done = run(["simulate", str(path), "--nodes", "4", "--policy", "fifo,easy", "--json"], tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert any("larger than the cluster" in warning for warning in answer["warnings"])
    for policy in answer["policies"].values():
        assert policy["jobs"] == 2 and sum(policy["skipped"].values()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "good.csv", "--nodes", "0", "--policy", "fifo"],
        ["simulate", "good.csv", "--nodes", "-3", "--policy", "fifo"],
        ["simulate", "good.csv", "--nodes", "4", "--gpus-per-node", "0", "--policy", "fifo"],
        ["simulate", "good.csv", "--nodes", "4", "--policy", "nope"],
        ["simulate", "good.csv", "--policy", "fifo"],
        ["predict", ".", "--command", "python x.py", "--gpus", "-1"],
        ["predict", ".", "--command", "python x.py", "--limit", "soon"],
        ["progress", "good.csv", "--now", "yesterday-ish"],
        ["history", "import", "good.csv", "--format", "nope"],
        ["batch", "diagnose", "folder", "--workers", "-1"],
        ["--set", "service.port=x", "config", "show"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_bad_options_are_usage_errors(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "good.csv").write_text(HEADER + "1,0,5,1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.log").write_text("hello\n")
    done = run(words, tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
