"""Predicted GPU memory against what PyTorch's tracker measured (a data file), and what the prediction is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gpu_memory import (
    MEASURED,
    comparisons,
    configurations,
    facts_of,
    facts_read,
    line,
    measured_mib,
    summary,
    summary_lines,
)

ROWS = comparisons()
#: What a prediction may be told; anything else would be knowledge of how the network was built here.
TOLD = {
    "model", "model_params_approx", "model_shape", "task", "workload_type", "batch_size_per_gpu", "optimizer",
    "precision", "grad_accum", "image_size", "seq_len", "num_gpus", "parallelism", "activation_checkpointing",
    "adapters",
}  # fmt: skip


def test_every_kind_of_training_is_measured() -> None:
    trains = [row.configuration.train for row in ROWS]
    assert len(ROWS) >= 60 and {row.configuration.name for row in ROWS} == {c.name for c in configurations()}
    assert sum("image" in train for train in trains) >= 20 and sum("outputs" in train for train in trains) >= 4
    assert sum(bool(train.get("checkpointing")) for train in trains) >= 10
    assert {train.get("precision", "fp32") for train in trains} == {"fp32", "amp-fp16", "bf16"}
    assert {1, 2, 3} <= {train.get("zero") for train in trains}
    assert {"sgd", "adam", "adamw"} <= {train["optimizer"] for train in trains}
    assert sum("frozen" in train for train in trains) >= 3


def test_the_prediction_is_near_what_is_measured() -> None:
    found = summary(ROWS)
    assert found["answered"] == found["configurations"]
    assert found["median_error"] <= 0.15 and found["p90_error"] <= 0.35 and found["under_by_10"] <= 0.05


def test_what_was_looked_at_and_what_was_not_are_predicted_alike() -> None:
    parts = [[row for row in ROWS if row.configuration.part == part] for part in ("seen", "kept back", "later")]
    assert min(len(part) for part in parts) >= 10
    assert all(summary(part)["median_error"] <= 0.15 and summary(part)["p90_error"] <= 0.35 for part in parts)


def test_only_facts_are_told() -> None:
    assert all(set(facts_of(row.configuration).facts) <= TOLD for row in ROWS)


def test_the_page_shows_what_the_command_prints() -> None:
    page = (Path(__file__).parents[2] / "docs/gpu-memory.md").read_text(encoding="utf-8").splitlines()
    assert set(summary_lines("handed over", ROWS)) <= set(page)
    assert {line(row) for row in ROWS} <= set(page)


def test_zero_divides_by_stage() -> None:
    known = json.loads(MEASURED.read_text(encoding="utf-8"))
    each = next(c for c in configurations() if c.train.get("zero") == 3)
    found, train = known[each.name], each.train
    peaks = [measured_mib({**train, "zero": stage, "gpus": 8}, found) for stage in (2, 3)]
    assert peaks[1] == pytest.approx(peaks[0] - 7 / 8 * found["passes"]["Parameter"], rel=0.02)
    assert measured_mib({**train, "gpus": 64}, found) < measured_mib({**train, "gpus": 8}, found)


def test_a_program_is_read_to_the_facts_that_are_handed_over() -> None:
    named = {each.name: each for each in configurations()}
    each = named["gpt2 8x1024 bf16 sgd checkpointing"]
    read, told = facts_read(each), facts_of(each)
    assert read is not None
    for name in ("model", "batch_size_per_gpu", "seq_len", "precision", "activation_checkpointing"):
        assert read.value(name) == told.value(name)
