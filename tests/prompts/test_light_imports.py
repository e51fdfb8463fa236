"""What only a language model needs is not imported where none is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Run as the installed command is, then say what was imported.
RUN = """
import sys
from schedmate.start import main
code = 0
try:
    main()
except SystemExit as end:
    code = end.code or 0
print("IMPORTED", *sys.modules, file=sys.stderr)
raise SystemExit(code)
"""
#: (pydantic itself is none of them: the command line's own library uses it.)
HEAVY = (
    "langchain",
    "langchain_core",
    "langchain_openai",
    "langsmith",
    "openai",
    "httpx",
    "tiktoken",
    "transformers",
    "torch",
)
GATEWAY = (
    "prompts.guard", "prompts.ladder", "prompts.answers", "prompts.templates", "prompts.openai_endpoint",
    "prompts.transformers_endpoint", "prompts.answer_cache", "prompts.ledger", "prompts.outgoing",
    "analyzers.source.second", "analyzers.source.opened",
)  # fmt: skip


def imported(tmp_path: Path, *words: str) -> set[str]:
    known = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SCHEDMATE_DATA_DIR": str(tmp_path / "data")}
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUN, *words],
        env=known | {name: os.environ[name] for name in ("VIRTUAL_ENV",) if name in os.environ},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(done.stderr.rpartition("IMPORTED ")[2].split())


@pytest.mark.parametrize(
    "words",
    [["--help"], ["analyze", "JOB", "--command", "python train.py"], ["analyze", "JOB", "--command", "julia x"],
     ["predict", "JOB", "--command", "python train.py", "--json"], ["diagnose", "JOB/job.log"],
     ["--set", "llm.model=unused", "predict", "JOB", "--command", "python train.py"]],
)  # fmt: skip
def test_commands_without_a_model_stay_light(tmp_path: Path, words: list[str]) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / "train.py").write_text("import torch, mystery\nmystery.go(lr=0.1)\n")
    (job / "job.log").write_text("ERROR something odd happened\nexit code 1\n")
    found = imported(tmp_path, *(word.replace("JOB", str(job)) for word in words))
    assert "schedmate.cli" in found
    assert not {name for name in found if name.split(".")[0] in HEAVY}
    assert not {name for name in found if name.startswith(GATEWAY)}


def test_with_a_model_they_are(tmp_path: Path) -> None:
    """So the test above can fail."""
    (tmp_path / "train.py").write_text("import mystery\nmystery.go()\n")
    model = ["--set", "llm.provider=openai", "--set", "llm.base_url=http://127.0.0.1:9/v1", "--set", "llm.model=m"]
    found = imported(tmp_path, *model, "predict", str(tmp_path), "--command", "python train.py")
    assert {"langchain_openai", "openai", "prompts.guard", "prompts.outgoing"} <= found


def test_a_key_on_the_command_line_is_warned_of(schedmate) -> None:
    done = schedmate("--set", "llm.api_key=sk-not-a-real-key-1234567890", "config", "show", "--json")
    assert done.returncode == 0
    assert "SCHEDMATE_LLM_API_KEY" in done.stderr and "all users" in done.stderr
    assert "sk-not-a-real" not in done.stdout + done.stderr
    assert schedmate("--set", "llm.model=m", "config", "show", "--json").stderr == ""
