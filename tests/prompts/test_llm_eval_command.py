"""`schedmate llm eval` against an endpoint over real HTTP: what models of several kinds add, break and cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "schedmate/schemas/llm-eval.schema.json").read_text())
EXAMPLES = ROOT / "examples"
JOB = """\
from mystery_lib import Plan
plan = Plan(
    net="HydroNet",
    dataset="RiverGauges-2",
    nb_epochs=40,
)
second_dataset = plan.then(dataset="LakeLevels", seed_epochs=7)
"""
LOG = """\
rank 0: step 100 loss 2.1
rank 3: shelf: tray 17 does not add up with its slip, giving up
srun: error: node7: task 3: Exited with exit code 9
"""
RIGHT = {"epochs": ("40", "nb_epochs=40"), "model": ("HydroNet", "net="), "dataset": ("RiverGauges-2", "dataset=")}
CAUSE = {
    "category": "data",
    "subcategory": "bad-tray",
    "confidence": 0.9,
    "evidence": [{"line": 2, "quote": "tray 17 does not add up with its slip"}],
    "culprit_rank": 3,
    "culprit_node": None,
    "retryable": False,
    "action": "fix_data_or_skip",
    "summary": "Tray 17 is bad.",
}


@pytest.fixture
def sets(tmp_path: Path) -> list[str]:
    """Two labelled jobs that the reader can not follow, a labelled log, and rows that are no case."""
    for name in ("one", "two"):
        folder = tmp_path / "trees" / name
        folder.mkdir(parents=True)
        (folder / "train.py").write_text(JOB.replace("HydroNet", f"HydroNet{name}"))
    expected = {"epochs": 40, "model": "HydroNetone", "dataset": "RiverGauges-2", "num_nodes": 1, "learning_rate": None}
    rows: list[Any] = [
        {"id": "one", "repo": "one", "launch": "python train.py", "expected": expected},
        {"id": "two", "repo": "two", "launch": "python train.py", "expected": {**expected, "model": "HydroNettwo"}},
        {"id": "gone", "repo": "gone", "launch": "python train.py", "expected": expected},
        {"id": "out", "repo": "../..", "launch": "python train.py", "expected": expected},
        {"id": "one", "repo": "one", "launch": "python train.py", "expected": expected},
        {"id": "bare", "repo": "one"},
        7,
    ]
    jobs, logs = tmp_path / "jobs.jsonl", tmp_path / "logs.jsonl"
    jobs.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{nonsense\n")
    label = {"category": "data", "culprit_rank": 3, "culprit_node": None, "retryable": False}
    logs.write_text(json.dumps({"id": "tray", "log": LOG, "action": "fix_data_or_skip", **label}) + "\n")
    return ["--jobs", str(jobs), "--trees", str(tmp_path / "trees"), "--logs", str(logs)]


def model(
    steps: Any, findings: dict[str, tuple[str, str]], cause: dict[str, Any] | None = None
) -> Callable[[dict[str, Any]], Any]:
    """A model that finds these values, in the lines that hold the texts beside them, and says this of logs."""

    def answer(request: dict[str, Any]) -> Any:
        form = request["response_format"]["json_schema"]
        if form["name"] == "RefinedDiagnosis":
            return steps.says(cause or CAUSE)
        if form["name"] == "ExploreStep":
            return steps.says({"action": "done", "path": "", "line": 0, "text": ""})
        lines = [line for line in request["messages"][-1]["content"].split("\n") if line.startswith("[")]
        body = {}
        for name in form["schema"]["properties"]:
            value, part = findings.get(name, ("unknown", ""))
            at = next((int(line[1 : line.index("]")]) for line in lines if part and part in line), 0)
            body[name] = {"value": value, "line": at}
        return steps.says(body)

    return answer


def llm_eval(schedmate: Any, scripted: Any, *words: str, code: int = 0, **settings: str) -> dict[str, Any]:
    told = {"provider": "openai", "base_url": scripted.url, "model": "m", "timeout_s": "5", **settings}
    options = [word for name, value in told.items() for word in ("--set", f"llm.{name}={value}")]
    done = schedmate(*options, "llm", "eval", *words, "--json")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def test_a_model_that_adds_right_facts(schedmate: Any, scripted: Any, steps: Any, sets: list[str]) -> None:
    found_there = {**RIGHT, "model": ("HydroNetone", "net=")}  # wrong of the second job: it stands nowhere in it
    scripted.script = [model(steps, found_there)]
    found = llm_eval(schedmate, scripted, *sets, price_sent="1000000", price_received="2000000")
    jobs, logs, questions = found["jobs"], found["logs"], found["questions"]
    assert (found["cases"], found["done"], jobs["cases"], logs["cases"]) == (3, 3, 2, 1)
    assert jobs["skipped"] == {
        "not a label": 2,
        "with an id that was there before": 1,
        "without a source tree": 2,
        "without id, repo or launch": 1,
    }
    total = jobs["total"]
    assert total["wanted"] == 8 and total["without"]["right"] == 2, "the number of nodes, of both"
    assert total["changes"] == {"added_right": 5, "added_wrong": 0, "added_unjudged": 0, "mended": 0, "broken": 0}
    assert (total["without"]["recall"], total["with_model"]["recall"]) == (0.25, 0.875)
    by_name = {each["name"]: each["changes"]["added_right"] for each in jobs["by_name"]}
    assert by_name == {"epochs": 2, "model": 1, "dataset": 2, "num_nodes": 0, "learning_rate": 0}
    assert (jobs["model_right"], jobs["model_said"]) == (5, 5)
    assert logs["total"]["changes"]["added_right"] == 1
    assert {each["name"]: each["with_model"]["right"] for each in logs["by_name"]} == {
        "category": 1, "category_strict": 1, "rank": 1, "node": 0, "retryable": 1, "action": 1,
    }  # fmt: skip
    assert (questions["asked"], questions["accepted"], questions["cached"]) == (3, 3, 0)
    assert (questions["tokens_sent"], questions["tokens_received"], questions["cost"]) == (3, 3, 9.0)
    assert questions["by_rung"][0]["requests"] == questions["by_rung"][0]["accepted"] == 3
    assert [reason["count"] for reason in found["rejected"]] == [1]
    assert found["verdict"] == "helps" and "facts added right 5, added wrong 0" in found["says"]


def test_a_model_that_lies_with_lines_that_exist(
    schedmate: Any, scripted: Any, steps: Any, sets: list[str], tmp_path: Path
) -> None:
    lies = {"epochs": ("7", "seed_epochs"), "dataset": ("LakeLevels", "LakeLevels")}
    quoted = {**CAUSE, "category": "storage", "evidence": [{"line": 1, "quote": "step 100 loss 2.1"}]}
    scripted.script = [model(steps, lies, quoted)]
    found = llm_eval(schedmate, scripted, *sets, code=1)
    changes = {each["name"]: each["changes"]["added_wrong"] for each in found["jobs"]["by_name"]}
    assert changes == {"epochs": 0, "model": 0, "dataset": 2, "num_nodes": 0, "learning_rate": 0}
    total = found["jobs"]["total"]
    assert (total["without"]["precision"], total["with_model"]["precision"]) == (1.0, 0.5)
    assert total["changes"]["broken"] == 0
    assert found["rejected"] == [{"why": "no line gives it the value #", "count": 2}], "seeds are no epochs"
    assert found["logs"]["total"]["changes"] == {
        "added_right": 0, "added_wrong": 1, "added_unjudged": 0, "mended": 0, "broken": 0,
    }  # fmt: skip
    assert found["logs"]["verdict"] == "harms" and found["verdict"] == "harms"
    assert "leave it off" in found["says"]


def test_a_model_that_hangs_is_counted_and_ends(
    schedmate: Any, scripted: Any, steps: Any, sets: list[str], tmp_path: Path
) -> None:
    slow = steps.says("{}")
    slow.wait_s = 2
    scripted.script = [slow]
    kept = tmp_path / "kept.jsonl"
    found = llm_eval(schedmate, scripted, *sets, "--out", str(kept), code=1, timeout_s="0.3")
    assert found["verdict"] == "no_answer" and found["questions"]["endpoint_failures"] == 3
    assert found["jobs"]["total"]["with_model"] == found["jobs"]["total"]["without"]


def test_a_model_that_breaks_half_way_and_a_run_that_goes_on(
    schedmate: Any, scripted: Any, steps: Any, sets: list[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    words = [*sets, "--out", str(kept)]
    scripted.script = [model(steps, RIGHT), steps.says("no JSON at all")]
    found = llm_eval(schedmate, scripted, *words)
    rungs = {each["rung"]: (each["requests"], each["accepted"]) for each in found["questions"]["by_rung"]}
    assert rungs == {"json_schema": (3, 1), "json_mode": (2, 0), "prompted": (2, 0), "repair": (2, 0)}
    assert found["questions"]["not_accepted"] == 2
    assert found["rejected"][0]["count"] == 2 and "no JSON" in found["rejected"][0]["why"]
    rows = kept.read_text().splitlines()
    assert [json.loads(line)["id"] for line in rows] == ["one", "two", "tray"]

    asked = len(scripted.requests)
    assert llm_eval(schedmate, scripted, *words) == found and len(scripted.requests) == asked

    kept.write_text("\n".join(rows[:1]) + "\n" + rows[1][:50])  # killed while the second was written
    scripted.script = [model(steps, RIGHT)]
    again = llm_eval(schedmate, scripted, *words)
    assert again["questions"]["accepted"] == 3 and len(scripted.requests) == asked + 2
    assert [json.loads(line)["id"] for line in kept.read_text().splitlines()] == ["one", "two", "tray"]

    assert llm_eval(schedmate, scripted, *words, timeout_s="6")["questions"]["cached"] == 3, "more time may tell more"
    other = llm_eval(schedmate, scripted, *words, model="other")
    assert other["model"] == "other" and len(scripted.requests) == asked + 5, "another model is asked anew"


def test_ctrl_c_keeps_what_is_done(schedmate: Any, scripted: Any, steps: Any, sets: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    hangs = steps.says("{}")
    hangs.wait_s = 60
    scripted.script = [model(steps, RIGHT), hangs]
    words = ["llm.provider=openai", f"llm.base_url={scripted.url}", "llm.model=m", "llm.timeout_s=60"]
    settings = [word for each in words for word in ("--set", each)]
    run = subprocess.Popen(
        [Path(sys.executable).parent / "schedmate", *settings, "llm", "eval", *sets, "--json", "--out", kept],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "SCHEDMATE_DATA_DIR": str(tmp_path / "schedmate-data")},
    )  # fmt: skip
    while len(scripted.requests) < 2:
        assert run.poll() is None
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    told, complaint = run.communicate(timeout=60)
    found = json.loads(told)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert run.returncode == 130 and "run the same command again" in complaint and "Traceback" not in complaint
    assert (found["cases"], found["done"], found["questions"]["accepted"]) == (3, 1, 1)
    scripted.script = [model(steps, RIGHT)]
    assert llm_eval(schedmate, scripted, *sets, "--out", str(kept), timeout_s="60")["done"] == 3
    assert len(scripted.requests) == 4


def test_what_a_budget_kept_from_being_asked_is_asked_later(
    schedmate: Any, scripted: Any, steps: Any, sets: list[str], tmp_path: Path
) -> None:
    words = [*sets, "--out", str(tmp_path / "kept.jsonl")]
    scripted.script = [model(steps, RIGHT)]
    poor = llm_eval(schedmate, scripted, *words, code=1, tokens_per_day="10")
    assert poor["questions"]["not_asked"] == 3 and not scripted.requests
    assert "were not sent" in poor["says"]
    rich = llm_eval(schedmate, scripted, *words)
    assert rich["questions"]["accepted"] == 3 and rich["done"] == 3


def test_logs_that_the_rules_know_are_asked_about_only_blindly(
    schedmate: Any, scripted: Any, steps: Any, tmp_path: Path
) -> None:
    logs = tmp_path / "logs.jsonl"
    known = "rank 0: step 1 loss 2\n[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
    rows = [
        {"id": "memory", "log": known, "category": "resource-request"},
        {"id": "healthy", "log": "step 1/2 loss 2.0\nstep 2/2 loss 1.9\ntraining finished\n", "category": "none"},
    ]
    logs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = {**CAUSE, "category": "resource-request", "culprit_rank": 0}
    scripted.script = [model(steps, {}, {**told, "evidence": [{"line": 2, "quote": "CUDA out of memory"}]})]
    words = ["--logs", str(logs), "--out", str(tmp_path / "kept.jsonl")]
    found = llm_eval(schedmate, scripted, *words)
    assert found["verdict"] == "nothing_to_ask" and found["logs"]["total"]["without"]["right"] == 2
    assert not scripted.requests and not found["blind"]
    blind = llm_eval(schedmate, scripted, *words, "--blind")
    assert blind["blind"] and len(scripted.requests) == 1, "not about the one that did not fail"
    total = blind["logs"]["total"]
    assert (total["without"]["right"], total["with_model"]["right"], total["changes"]["added_right"]) == (1, 2, 1)


def test_kept_answers_cost_nothing(schedmate: Any, scripted: Any, steps: Any, sets: list[str]) -> None:
    scripted.script = [model(steps, RIGHT)]
    first = llm_eval(schedmate, scripted, *sets)
    again = llm_eval(schedmate, scripted, *sets)
    assert again["questions"]["cached"] == again["questions"]["accepted"] == 3
    assert again["questions"]["tokens_sent"] == 0 and again["questions"]["seconds_median"] is None
    assert again["jobs"]["total"] == first["jobs"]["total"] and len(scripted.requests) == 3


def test_without_a_model_and_without_labels(schedmate: Any) -> None:
    done = schedmate("llm", "eval", "--limit", "2", "--json")
    found = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert done.returncode == 0 and found["verdict"] == "no_model" and found["synthetic"]
    assert found["jobs"]["cases"] == found["logs"]["cases"] == 2 and found["jobs"]["total"]["with_model"] is None
    assert found["jobs"]["total"]["without"]["precision"] >= 0.9
    told = schedmate("llm", "eval", "--limit", "1")
    assert "synthetic" in told.stderr and "No language model is configured" in told.stdout


def test_the_examples_are_labelled_rightly(schedmate: Any) -> None:
    labelled = EXAMPLES / "labelled"
    done = schedmate(
        "llm", "eval", "--jobs", labelled / "jobs.jsonl", "--trees", EXAMPLES, "--logs", labelled / "logs.jsonl",
        "--log-files", EXAMPLES, "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["jobs"]["cases"] == 3 and found["logs"]["cases"] == 2 and not found["jobs"]["skipped"]
    assert found["jobs"]["total"]["without"]["wrong"] == found["logs"]["total"]["without"]["wrong"] == 0
    assert found["jobs"]["total"]["without"]["recall"] < 1, "something is left for a model"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--jobs", "none.jsonl"], "--trees"),
        (["--jobs", "none.jsonl", "--trees", "."], "none.jsonl"),
        (["--jobs", ".", "--trees", "."], "not a file"),
        (["--log-files", "."], "--logs"),
        (["--limit", "1", "--out", "notes.txt"], "is not what"),
        (["--logs", "notes.txt", "--out", "notes.txt"], "notes.txt"),
        (["--limit", "1", "--out", "no/where"], "written"),
    ],
)
def test_wrong_usage_is_one_line(schedmate: Any, tmp_path: Path, words: list[str], told: str) -> None:
    (tmp_path / "notes.txt").write_text("my own notes\n")
    done = schedmate("llm", "eval", *words, cwd=tmp_path)
    assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert (tmp_path / "notes.txt").read_text() == "my own notes\n"
