"""`schedmate llm`: what works at an endpoint, and what was asked of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

OK = {"word": "backfill", "letters": 8}


def llm(schedmate: Any, scripted: Any, *words: str) -> Any:
    model = ["--set", "llm.provider=openai", "--set", f"llm.base_url={scripted.url}", "--set", "llm.model=m"]
    return schedmate(*model, "--set", "llm.timeout_s=5", "llm", *words)


def test_each_way_of_asking_is_tried(schedmate: Any, scripted: Any, steps: Any) -> None:
    scripted.script = [
        steps.fails(400, "no schemas here"),
        steps.says("so be it"),
        steps.says(f"Well: {json.dumps(OK)}"),
    ]
    found = llm(schedmate, scripted, "check", "--json")
    assert found.returncode == 0, found.stderr
    rungs = json.loads(found.stdout)["rungs"]
    assert [(each["rung"], each["works"]) for each in rungs] == [
        ("json_schema", False), ("json_mode", False), ("prompted", True),
    ]  # fmt: skip
    assert "no schemas here" in rungs[0]["says"] and "no JSON" in rungs[1]["says"]
    assert scripted.rungs() == ["json_schema", "json_object", "none"]


def test_where_nothing_works_it_says_so(schedmate: Any, scripted: Any, steps: Any) -> None:
    scripted.script = [steps.fails(401, "who are you")]
    found = llm(schedmate, scripted, "check")
    assert found.returncode == 1 and "who are you" in found.stdout and "Traceback" not in found.stderr


def test_without_a_model_there_is_nothing_to_check(schedmate: Any) -> None:
    found = schedmate("llm", "check")
    assert found.returncode == 2 and "llm.provider" in found.stderr


def test_what_a_diagnosis_cost_stands_in_the_ledger(schedmate: Any, scripted: Any, steps: Any, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "epoch 1\nERROR: the frobnicator has come loose\nsrun: error: node1: task 0: Exited with exit code 3\n"
    )
    scripted.script = [steps.says("nothing to say")]
    model = ["--set", "llm.provider=openai", "--set", f"llm.base_url={scripted.url}", "--set", "llm.model=m"]
    kept = ["--set", f"data.dir={tmp_path / 'data'}"]
    schedmate(*model, *kept, "diagnose", log)
    assert scripted.requests
    found = schedmate(*kept, "llm", "usage", "--json")
    (row,) = json.loads(found.stdout)["rows"]
    assert (row["asked"], row["accepted"], row["model"]) == (1, 0, "m") and row["tokens_sent"] > 0
    assert "refine_diagnosis" in schedmate(*kept, "llm", "usage").stdout
    assert json.loads(schedmate(*kept, "llm", "usage", "--since", "2999-01-01", "--json").stdout)["rows"] == []
    assert schedmate("llm", "usage", "--since", "soon").returncode == 2


@pytest.mark.parametrize(
    "url", ["http://[::1/v1", "http://127.0.0.1:1/v1\nx", "ftp://a/v1", "notaurl", "http://a b/v1"]
)
def test_what_is_no_address_is_said_to_be_none(schedmate: Any, url: str) -> None:
    env = {"SCHEDMATE_LLM_PROVIDER": "openai", "SCHEDMATE_LLM_MODEL": "m", "SCHEDMATE_LLM_BASE_URL": url}
    done = schedmate("llm", "check", env=env)
    assert done.returncode == 2 and "llm.base_url is no address" in done.stderr and "internal" not in done.stderr


def test_a_key_with_a_line_end_is_named(schedmate: Any) -> None:
    env = {
        "SCHEDMATE_LLM_PROVIDER": "openai",
        "SCHEDMATE_LLM_MODEL": "m",
        "SCHEDMATE_LLM_BASE_URL": "http://127.0.0.1:1/v1",
        "SCHEDMATE_LLM_API_KEY": "sk-1\nx",
    }
    done = schedmate("llm", "check", env=env)
    assert done.returncode == 2 and "llm.api_key" in done.stderr
