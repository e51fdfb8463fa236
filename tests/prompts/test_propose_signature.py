"""A model proposes how to know a failure again: what is taken becomes a harmless candidate, and nothing else does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from analyzers.failures.proving import sample_faults
from analyzers.types import Diagnosis, LogEvidence
from schedmate.config import Settings, load_settings
from schedmate.language_model import gateway_for
from schedmate.signatures import SignatureFolder
from schedmate.signatures.folder import shipped_signatures
from schedmate.signatures.proposing import proposed

LINE = "rank 3: custom_loader: shard 17 checksum differs from manifest, giving up"
FOUND = Diagnosis(
    "data", "corrupt-shard", 0.6, evidence=(LogEvidence("job.log", 3, LINE),), retryable=False,
    action="fix_data_or_skip", summary="Shard 17 is corrupt.",
)  # fmt: skip
GOOD: dict[str, Any] = {
    "phrase": "shard 17 checksum differs from manifest",
    "says": "A shard is not what the manifest says.",
    "other_line": "rank 0: custom_loader: shard 4 checksum differs from manifest",
    "unlike": ["custom_loader: shard 17 checksum verified", "custom_loader: manifest read"],
}


def settings(scripted: Any) -> Settings:
    return load_settings(
        {
            "SCHEDMATE_LLM_PROVIDER": "openai",
            "SCHEDMATE_LLM_MODEL": "scripted",
            "SCHEDMATE_LLM_BASE_URL": scripted.url,
            "SCHEDMATE_LLM_TIMEOUT_S": "5",
        }
    )


def test_a_good_proposal_is_a_candidate_with_samples_that_hold(scripted: Any, steps: Any, tmp_path: Path) -> None:
    scripted.script = [steps.says(GOOD)]
    row, model = proposed(FOUND, gateway_for(settings(scripted)))
    assert row is not None and model == "scripted"
    assert (row["category"], row["action"], row["scope"], row["role"]) == (
        "data",
        "fix_data_or_skip",
        "job",
        "ambiguous",
    )
    assert re.search(row["pattern"], LINE.replace("17", "90210")) and not re.search(row["pattern"], "shard checksum")
    folder = SignatureFolder(tmp_path)
    entry = folder.add(row, {"proposed_by": "model"}, shipped_signatures())
    assert entry.state == "candidate" and folder.promoted() == []
    assert sample_faults([entry.signature], (*shipped_signatures(), entry.signature)) == {}


@pytest.mark.parametrize(
    "bad",
    [
        {"phrase": "words that stand in no line"},
        {"phrase": "shard 17 checksum", "unlike": ["shard 9 checksum differs", "x"]},
        {"other_line": "something else altogether"},
        {"phrase": "rank 3: 17, g"},
        {"phrase": "(a+)+ never there"},
    ],
)
def test_what_does_not_hold_is_refused(scripted: Any, steps: Any, bad: dict[str, Any]) -> None:
    scripted.script = [steps.says({**GOOD, **bad})] * 8
    row, why = proposed(FOUND, gateway_for(settings(scripted)))
    assert row is None and "not used" in why


def test_secrets_and_nothing_but_quoted_lines_are_sent(scripted: Any, steps: Any) -> None:
    key = "hf_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3h"
    line = f"custom_loader: manifest {key} differs from shard 17, giving up"
    found = Diagnosis("data", "x", 0.6, evidence=(LogEvidence("job.log", 1, line),), summary=f"see {key}")
    phrase = {**GOOD, "phrase": "differs from shard 17, giving up", "other_line": "it differs from shard 3, giving up"}
    scripted.script = [steps.says(phrase)]
    row, _ = proposed(found, gateway_for(settings(scripted)))
    assert row is not None and key not in str(row) and key not in str(scripted.requests)


def test_a_verdict_without_lines_asks_nobody(scripted: Any) -> None:
    assert proposed(Diagnosis("data", "x", 0.6), gateway_for(settings(scripted)))[0] is None
    assert not scripted.requests


def test_the_command(schedmate: Any, scripted: Any, steps: Any, tmp_path: Path) -> None:
    model = ["--set", "llm.provider=openai", "--set", f"llm.base_url={scripted.url}", "--set", "llm.model=m"]
    log = tmp_path / "job.log"
    log.write_text(f"step 1 loss 2.0 lr 1\n{LINE}\nexit code 1\n", encoding="utf-8")
    verdict = {
        "category": "data", "subcategory": "corrupt-shard", "confidence": 0.9, "culprit_rank": 3, "culprit_node": None,
        "evidence": [{"line": 2, "quote": "shard 17 checksum differs from manifest"}], "retryable": False,
        "action": "fix_data_or_skip", "summary": "Shard 17 is corrupt.",
    }  # fmt: skip
    scripted.script = [steps.says(verdict), steps.says(GOOD)]
    ran = schedmate(*model, "signatures", "propose", log, "--json")
    name = json.loads(ran.stdout)["id"]
    assert ran.returncode == 0 and name.startswith("model-shard-checksum"), ran
    shown = schedmate("signatures", "review", name)
    assert shown.returncode == 1 and "language model" in shown.stdout and "1 match samples" not in shown.stdout
    crash = tmp_path / "crash.log"
    crash.write_text(
        'Traceback (most recent call last):\n  File "/h/t.py", line 3, in f\nKeyError: 1\n', encoding="utf-8"
    )
    ran = schedmate(*model, "signatures", "propose", crash, "--json")
    assert ran.returncode == 1 and "the rules know it" in json.loads(ran.stdout)["why_not"]
    assert schedmate("signatures", "propose", log).returncode == 2
