"""`schedmate batch diagnose` on real files with real processes: results, going on, kills, hangs and bad input."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest

from integrations.local import LocalEngine
from prompts.errors import UserError
from schedmate.batch.cases import Case, find_cases
from schedmate.batch.results import Results, read_rows
from schedmate.batch.run import Options, run_batch
from schedmate.batch.work import failed_row
from schedmate.config import load_settings
from schedmate.ports import ItemFailed

Run = Callable[..., subprocess.CompletedProcess[str]]
SCHEMAS = Path(__file__).resolve().parents[2] / "schedmate" / "schemas"
OOM = (
    "step 1 loss 2.0\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB.\n"
)
NO_SPACE = "step 5 loss 1.0\nOSError: [Errno 28] No space left on device: '/scratch/ckpt/step_5.pt'\n"
SECRET = "hf_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3h"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    logs = tmp_path / "logs"
    case = logs / "multi"
    case.mkdir(parents=True)
    (logs / "oom.log").write_text(OOM)
    (logs / "disk.log").write_text(NO_SPACE)
    (logs / "secret.log").write_text(f"Traceback (most recent call last):\nValueError: token {SECRET} is no good\n")
    (logs / "binary.log").write_bytes(bytes(range(256)) * 40)
    (logs / "empty.log").write_bytes(b"")
    for rank in range(3):
        (case / f"rank_{rank}.log").write_text(f"[rank{rank}]: step 1\n" + (OOM if rank == 1 else ""))
    return logs


def rows_of(path: Path) -> dict[str, dict[str, Any]]:
    return {row["case"]: row for row in read_rows(path)}


def schema() -> dict[str, Any]:
    return json.loads((SCHEMAS / "batch.schema.json").read_text())


def test_rows_summary_and_parquet(schedmate: Run, folder: Path, tmp_path: Path) -> None:
    out, parquet = tmp_path / "results.jsonl", tmp_path / "results.parquet"
    ran = schedmate("batch", "diagnose", folder, "--out", out, "--parquet", parquet, "--workers", "2", "--json")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    summary = json.loads(ran.stdout)
    jsonschema.validate(summary, schema())
    assert (summary["cases"], summary["diagnosed"], summary["failures"]) == (6, 4, {"unreadable": 2})
    assert summary["by_category"]["resource-request"]["count"] == 2

    rows = rows_of(out)
    row_schema = {**schema(), "$ref": "#/$defs/row"}
    for unwanted in ("type", "required", "properties", "additionalProperties"):
        row_schema.pop(unwanted)
    for row in rows.values():
        jsonschema.validate(row, row_schema)
    assert rows["multi"]["diagnosis"]["culprit_ranks"] == [1]
    assert rows["disk.log"]["diagnosis"]["category"] == "storage"
    assert rows["binary.log"]["error"]["kind"] == rows["empty.log"]["error"]["kind"] == "unreadable"
    assert SECRET not in out.read_text()
    diagnosed = schedmate("diagnose", folder / "disk.log", "--json")
    assert rows["disk.log"]["diagnosis"] == json.loads(diagnosed.stdout), "the same contract as for one"

    table = pq.read_table(parquet).to_pylist()
    assert {line["case"]: line["category"] for line in table} == {
        name: (row["diagnosis"] or {}).get("category") for name, row in rows.items()
    }
    first = next(line for line in table if line["case"] == "multi")
    assert first["culprit_ranks"] == [1] and first["evidence"][0]["file"] == "rank_1.log"


@pytest.mark.slow
def test_running_again_does_only_what_is_new_changed_or_failed(schedmate: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    words = ("batch", "diagnose", folder, "--out", out, "--json")
    schedmate(*words)
    before = rows_of(out)
    (folder / "oom.log").write_text(NO_SPACE)
    (folder / "new.log").write_text(OOM)
    (folder / "disk.log").touch()
    with out.open("ab") as stream:
        stream.write(b'{"case": "torn.log", "kind": "fi')
    summary = json.loads(schedmate(*words).stdout)
    after = rows_of(out)
    assert summary["already_done"] == 3, "disk, secret and multi"
    assert {name for name in before if after[name] == before[name]} >= {"disk.log", "secret.log", "multi"}
    assert after["oom.log"]["diagnosis"]["category"] == "storage"
    assert after["new.log"]["diagnosis"]["category"] == "resource-request"
    assert len(out.read_text().splitlines()) == len(after) == 7, "no torn and no outdated row stays"
    assert json.loads(schedmate(*words, "--fresh").stdout)["already_done"] == 0


def test_rows_of_vanished_cases_stay_but_do_not_count(schedmate: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    schedmate("batch", "diagnose", folder, "--out", out)
    (folder / "oom.log").unlink()
    summary = json.loads(schedmate("batch", "diagnose", folder, "--out", out, "--json").stdout)
    assert summary["cases"] == 5 and "oom.log" in rows_of(out)


class Chosen:
    """An engine whose outcomes are given for some cases; the rest runs for real."""

    name = "chosen"

    def __init__(self, given: dict[str, ItemFailed]) -> None:
        self._given = given

    def map(self, function: Any, items: Any, *, workers: int, timeout_s: float) -> Iterator[Any]:
        items = list(items)
        for case in items:
            if case.name in self._given:
                yield case, self._given[case.name]
        rest = [case for case in items if case.name not in self._given]
        yield from LocalEngine().map(function, rest, workers=workers, timeout_s=timeout_s)


def test_a_case_that_dies_or_hangs_costs_only_itself_and_is_tried_again(folder: Path, tmp_path: Path) -> None:
    options = Options(tmp_path / "r.jsonl", None, workers=2, timeout_s=60, fresh=False)
    settings = load_settings({"SCHEDMATE_DATA_DIR": str(tmp_path)})
    given = {"oom.log": ItemFailed("crashed", "its process died"), "disk.log": ItemFailed("timeout", "took too long")}
    summary = run_batch(find_cases(folder), options, settings, Chosen(given), lambda n: None)
    assert summary.in_trouble
    assert summary.failures == {"crashed": 1, "timeout": 1, "unreadable": 2} and summary.diagnosed == 2
    again = run_batch(find_cases(folder), options, settings, LocalEngine(), lambda n: None)
    assert not again.in_trouble and again.already_done == 2 and again.diagnosed == 4


@pytest.mark.slow
def test_a_time_limit_is_kept_and_told(schedmate: Run, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "small.log").write_text(OOM)
    # Gigabytes once unpacked, whatever the machine: the same compressed part over and over.
    part = gzip.compress("".join(f"[rank{n % 8}]: step {n} error rate {n / 7}\n" for n in range(300_000)).encode())
    with (logs / "vast.log.gz").open("wb") as vast:
        for _ in range(300):
            vast.write(part)
    out = tmp_path / "r.jsonl"
    ran = schedmate("batch", "diagnose", logs, "--out", out, "--timeout", "3", "--workers", "1", "--json")
    assert ran.returncode == 1, "a case came to nothing"
    assert json.loads(ran.stdout)["failures"] == {"timeout": 1}
    rows = rows_of(out)
    assert rows["vast.log.gz"]["error"]["kind"] == "timeout" and rows["small.log"]["status"] == "diagnosed"


@pytest.mark.parametrize("after_s", [0.3, 0.6, 0.8, 1.0])
def test_ctrl_c_in_a_terminal_is_clean_at_any_moment(folder: Path, tmp_path: Path, after_s: float) -> None:
    for number in range(600):
        (folder / f"job_{number}.log").write_text(OOM)
    running = start(folder, tmp_path / "r.jsonl", tmp_path)
    time.sleep(after_s)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=20)
    # before the command line is up Python itself ends by the signal, or with 1 while it reads its site packages, which
    # a busy machine still does at the first moment; a fast machine may be done by the last
    assert running.returncode in (130, -signal.SIGINT, 0) or "init_import_site" in said
    assert "worker" not in said and "spawn" not in said
    if running.returncode == 130:
        assert "Traceback" not in said


def start(folder: Path, out: Path, tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(Path(sys.executable).parent / "schedmate"), "batch", "diagnose", str(folder), "--out", str(out),
         "--workers", "2", "--json"],
        env={**os.environ, "SCHEDMATE_DATA_DIR": str(tmp_path / "data")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        # a shell that was told to run us in the background has Ctrl-C ignored, which children inherit
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_it_goes_on_where_it_was_stopped(folder: Path, tmp_path: Path, ending: signal.Signals) -> None:
    for number in range(150):
        (folder / f"job_{number}.log").write_text(OOM.replace("79.11", f"{number}.11"))
    out = tmp_path / "r.jsonl"
    running = start(folder, out, tmp_path)
    deadline = time.monotonic() + 30
    while (not out.exists() or out.stat().st_size < 5000) and time.monotonic() < deadline:
        time.sleep(0.005)
    running.send_signal(ending)
    _, said = running.communicate(timeout=20)
    done = len(rows_of(out))
    assert 0 < done < 156, "it was stopped in the middle"
    if ending == signal.SIGINT:
        assert running.returncode == 130
        assert "run the same command again" in said and "Traceback" not in said

    again = start(folder, out, tmp_path)
    summary = json.loads(again.communicate(timeout=60)[0])
    assert again.returncode == 0
    assert summary["already_done"] >= done - 2, "all but the unreadable two, which are tried again"
    assert summary["diagnosed"] == 154
    assert len(out.read_text().splitlines()) == 156


def test_two_runs_do_not_write_to_one_file(schedmate: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    with Results(out) as results:
        results.keep(lambda row: True)
        ran = schedmate("batch", "diagnose", folder, "--out", out)
    assert ran.returncode == 2 and "another run is writing" in ran.stderr


@pytest.mark.slow
def test_bad_input_is_one_line(schedmate: Run, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("my thesis\n")
    for words, said in (
        ((tmp_path / "missing",), "no such folder"),
        ((folder / "oom.log",), "is a file"),
        ((folder, "--out", other), "holds something else"),
        ((folder, "--out", other, "--fresh"), "holds something else"),
        ((folder, "--out", tmp_path), "cannot be written"),
        ((folder, "--out", "/proc/x.jsonl"), "cannot be written"),
        ((folder, "--out", tmp_path / "r.jsonl", "--parquet", "/proc/x.parquet"), "cannot be written"),
        ((folder, "--engine", "quantum"), "no engines named"),
        ((folder, "--workers", "0"), "workers"),
    ):
        ran = schedmate("batch", "diagnose", *words)
        assert ran.returncode == 2, words
        assert said in ran.stderr and "Traceback" not in ran.stderr and ran.stderr.count("\n") == 1, ran.stderr
    assert other.read_text() == "my thesis\n"


def test_the_table_is_for_people(schedmate: Run, folder: Path, tmp_path: Path) -> None:
    ran = schedmate("batch", "diagnose", folder, "--out", tmp_path / "r.jsonl")
    assert ran.returncode == 0
    assert "resource-request" in ran.stdout and "6 cases, 4 diagnosed" in ran.stdout and "2 unreadable" in ran.stdout


def test_names_that_are_no_text(schedmate: Run, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    Path(os.fsdecode(os.fsencode(logs) + b"/job_\xff.log")).write_text(OOM)
    out, parquet = tmp_path / "r.jsonl", tmp_path / "r.parquet"
    ran = schedmate("batch", "diagnose", logs, "--out", out, "--parquet", parquet)
    assert ran.returncode == 0, ran.stderr
    assert pq.read_table(parquet).num_rows == 1
    again = json.loads(schedmate("batch", "diagnose", logs, "--out", out, "--json").stdout)
    assert again["already_done"] == 1


def test_failed_rows_hold_no_secrets() -> None:
    row = failed_row(Case(Path("x"), "x", "file"), "error", f"no\nluck with {SECRET}", 1.23456)
    assert row["error"]["message"] == "no luck with <redacted>" and row["seconds"] == 1.235


def test_what_is_no_file_is_never_replaced(schedmate: Run, folder: Path, tmp_path: Path) -> None:
    device, pipe = tmp_path / "null", tmp_path / "pipe"
    device.symlink_to("/dev/null")
    os.mkfifo(pipe)
    for special in (device, pipe):
        for words in (("--out", special), ("--out", tmp_path / "r.jsonl", "--parquet", special)):
            ran = schedmate("batch", "diagnose", folder, *words)
            assert ran.returncode == 2 and "pipe" in ran.stderr, ran.stderr
            assert device.is_symlink() and not (tmp_path / "r.jsonl").exists()


def test_a_link_to_the_results_stays_one(schedmate: Run, folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "r.jsonl")
    assert schedmate("batch", "diagnose", folder, "--out", link).returncode == 0
    assert link.is_symlink() and rows_of(tmp_path / "r.jsonl")


def test_results_and_parquet_are_two_files(schedmate: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    ran = schedmate("batch", "diagnose", folder, "--out", out, "--parquet", tmp_path / "logs" / ".." / "r.jsonl")
    assert ran.returncode == 2 and "two files" in ran.stderr
    assert not out.exists()


def test_a_full_disk_is_told_and_leaves_whole_rows(tmp_path: Path) -> None:
    row = failed_row(Case(tmp_path, "a", "file"), "error", "x" * 300, 0.0)
    path = tmp_path / "r.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Results(path) as results:
        results.keep(lambda row: True)
        results.add(row)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, before[1]))
        try:
            with pytest.raises(UserError, match="goes on from there"):
                results.add({**row, "case": "b"})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text().count("\n") == 1 and path.read_text().endswith("\n")
    with Results(path) as results:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))
        try:
            with pytest.raises(UserError, match="goes on from there"):
                results.keep(lambda row: True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == [path] and rows_of(path).keys() == {"a"}
