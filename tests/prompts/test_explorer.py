"""A work dir that the reader can not follow: a scripted model looks around in it, within bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analyzers.types import Submission
from schedmate.config import Settings, load_settings
from schedmate.source import read_source, sharpened

RUN = """\
using Flux, TOML
# epochs = 1
conf = TOML.parsefile("conf.toml")
model = build(conf["model"])
"""
CONF = """\
# try epochs = 2
[training]
epochs = 35
learning_rate = 0.002
dataset = "LeafScans"
"""


@pytest.fixture
def job(tmp_path: Path) -> Submission:
    folder = tmp_path / "job"
    (folder / "sub").mkdir(parents=True)
    (folder / "run.jl").write_text(RUN)
    (folder / "conf.toml").write_text(CONF)
    (folder / "weights.bin").write_bytes(b"\0" * 100)
    (folder / "sub" / "private.jl").write_text("epochs = 3\n")
    (folder / ".schedmateignore").write_text("sub/\n")
    return Submission("julia --project run.jl", folder)


def settings(scripted: Any, **more: str) -> Settings:
    return load_settings(
        {
            "SCHEDMATE_LLM_PROVIDER": "openai",
            "SCHEDMATE_LLM_MODEL": "scripted",
            "SCHEDMATE_LLM_BASE_URL": scripted.url,
            "SCHEDMATE_LLM_TIMEOUT_S": "5",
            "SCHEDMATE_LLM_CACHE_MIB": "0",
            **more,
        }
    )


def look(steps: Any, action: str, path: str = "", line: int = 0, text: str = "") -> Any:
    return steps.says({"action": action, "path": path, "line": line, "text": text})


def answer(steps: Any, **values: str) -> Any:
    def reply(request: dict[str, Any]) -> Any:
        asked = request["response_format"]["json_schema"]["schema"]["properties"]
        return steps.says({name: {"value": values.get(name, "unknown"), "line": 0} for name in asked})

    return reply


def test_what_was_looked_up_is_asked_about_and_checked(scripted: Any, steps: Any, job: Submission) -> None:
    scripted.script = [
        look(steps, "read", "conf.toml"),
        look(steps, "search", text="Flux"),
        look(steps, "done"),
        answer(steps, epochs="35", learning_rate="0.002", dataset="LeafScans", model="ResNet"),
    ]
    first = read_source(job)
    facts = sharpened(first, job, settings(scripted))
    assert "epochs" not in first.facts
    assert {n: facts.facts[n].value for n in ("epochs", "learning_rate", "dataset")} == {
        "epochs": 35,
        "learning_rate": 0.002,
        "dataset": "LeafScans",
    }
    assert "model" not in facts.facts, "no line speaks of it"
    evidence = facts.facts["epochs"].evidence[0]
    assert (evidence.file, evidence.line, facts.facts["epochs"].how) == ("conf.toml", 3, "model")
    assert len(scripted.requests) == 4


def test_what_is_ignored_is_neither_listed_nor_found_nor_read(scripted: Any, steps: Any, job: Submission) -> None:
    scripted.script = [
        look(steps, "search", text="epochs ="),
        look(steps, "read", "sub/private.jl"),
        look(steps, "read", "../job/sub/private.jl"),
        look(steps, "done"),
        answer(steps, epochs="3"),
    ]
    facts = sharpened(read_source(job), job, settings(scripted))
    assert "epochs" not in facts.facts
    assert b"private" not in b"".join(str(r["messages"][1]).encode() for r in scripted.requests[:2])
    assert b"epochs = 3\\n" not in scripted.received
    assert b"weights.bin" not in scripted.received, "nothing to read in there"


def test_comments_can_not_be_looked_up(scripted: Any, steps: Any, job: Submission) -> None:
    scripted.script = [
        look(steps, "read", "run.jl"),
        look(steps, "search", text="try epochs"),
        look(steps, "done"),
        answer(steps, epochs="1"),
    ]
    facts = sharpened(read_source(job), job, settings(scripted))
    assert "epochs" not in facts.facts and b"epochs = 1" not in scripted.received


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_it_looks_no_more_often_than_it_may(scripted: Any, steps: Any, job: Submission, looks: int) -> None:
    numbers = iter(range(1, 100))

    def again(request: dict[str, Any]) -> Any:
        asked = request["response_format"]["json_schema"]["schema"]["properties"]
        return look(steps, "read", "conf.toml", next(numbers)) if "action" in asked else answer(steps)(request)

    scripted.script = [again]
    sharpened(read_source(job), job, settings(scripted, SCHEDMATE_LLM_LOOKS=str(looks)))
    kinds = ["action" in r["response_format"]["json_schema"]["schema"]["properties"] for r in scripted.requests]
    assert sum(kinds) == looks and len(kinds) <= looks + 1


def test_its_looks_cost_no_more_tokens_than_they_may(scripted: Any, steps: Any, job: Submission) -> None:
    step = look(steps, "search", text="epochs")
    step.body["usage"] = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
    scripted.script = [step, answer(steps)]
    sharpened(read_source(job), job, settings(scripted, SCHEDMATE_LLM_LOOKS_TOKENS="1000"))
    kinds = ["action" in r["response_format"]["json_schema"]["schema"]["properties"] for r in scripted.requests]
    assert kinds.count(True) == 1


def test_the_same_look_twice_ends_it(scripted: Any, steps: Any, job: Submission) -> None:
    scripted.script = [look(steps, "read", "conf.toml"), look(steps, "read", "conf.toml"), answer(steps, epochs="35")]
    facts = sharpened(read_source(job), job, settings(scripted))
    assert len(scripted.requests) == 3 and facts.value("epochs") == 35


def test_a_program_that_was_followed_needs_no_looking_around(scripted: Any, steps: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nprint('x')\n")
    job = Submission("python train.py", tmp_path)
    scripted.script = [answer(steps)]
    sharpened(read_source(job), job, settings(scripted))
    assert all("action" not in str(r["response_format"]) for r in scripted.requests)


def test_an_endpoint_that_can_not_be_had_is_asked_once(scripted: Any, steps: Any, job: Submission) -> None:
    scripted.script = [steps.fails(401)]
    first = read_source(job)
    facts = sharpened(first, job, settings(scripted))
    assert facts.facts == first.facts and len(scripted.requests) == 1
    assert sum("not used" in warning for warning in facts.warnings) == 1


def test_what_the_launch_does_not_lead_to_is_told_and_not_counted(scripted: Any, steps: Any, job: Submission) -> None:
    ((job.workdir or Path()) / "other.jl").write_text("epochs = 999\n")
    scripted.script = [look(steps, "search", text="epochs"), look(steps, "done"), answer(steps, epochs="999")]
    facts = sharpened(read_source(job), job, settings(scripted))
    assert facts.facts["epochs"].value == 999 and facts.value("epochs") is None


def test_looking_around_takes_no_longer_than_one_question_may(scripted: Any, steps: Any, job: Submission) -> None:
    numbers = iter(range(1, 100))

    def slowly(request: dict[str, Any]) -> Any:
        asked = request["response_format"]["json_schema"]["schema"]["properties"]
        step = look(steps, "read", "conf.toml", next(numbers)) if "action" in asked else answer(steps)(request)
        step.wait_s = 0.6
        return step

    scripted.script = [slowly]
    known = settings(scripted, SCHEDMATE_LLM_LOOKS="50", SCHEDMATE_LLM_TIMEOUT_S="2")
    sharpened(read_source(job), job, known)
    assert len(scripted.requests) < 10


def test_what_a_slow_model_saw_is_asked_about_all_the_same(scripted: Any, steps: Any, job: Submission) -> None:
    """The time for looking is used up by looks that work; the question that they were for is still put."""
    slow_look = look(steps, "read", "conf.toml")
    slow_look.wait_s = 1.2
    scripted.script = [slow_look, answer(steps, epochs="35")]
    facts = sharpened(read_source(job), job, settings(scripted, SCHEDMATE_LLM_TIMEOUT_S="2"))
    assert facts.value("epochs") == 35 and len(scripted.requests) == 2
