"""The scorer of the source reader, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyzers.types import FACT_NAMES
from benchmarks import source_facts
from schedmate.evaluation.jobs import Score, agrees, judge

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "found", "wanted", "right"),
    [
        ("epochs", 3, 3.0, True),
        ("epochs", 3, 4, False),
        ("epochs", True, 1, False),
        ("learning_rate", 0.1004, 0.1, True),
        ("learning_rate", 0.102, 0.1, False),
        ("model_params_approx", 120, 100, True),
        ("model_params_approx", 130, 100, False),
        ("parallelism", ["ddp", "zero1"], ["zero1", "ddp"], True),
        ("parallelism", ["ddp"], ["ddp", "tp"], False),
        ("optimizer", "torch.optim.AdamW", "AdamW", True),
        ("optimizer", "Adam", "AdamW", False),
        ("model", "resnet50", "ResNet-50 (torchvision)", True),
        ("model", "vgg16", "ResNet-50", False),
        ("precision", "bf16", "BF16", True),
        ("checkpoints", False, False, True),
    ],
)
def test_what_counts_as_right(name: str, found: object, wanted: object, right: bool) -> None:
    assert agrees(name, found, wanted) is right


def test_precision_recall_and_guesses_by_hand() -> None:
    label = {
        "id": "one",
        "expected": {"epochs": 3, "model": None, "dataset": "CIFAR-10", "num_gpus": None, "seq_len": 7},
        "accept": {"model": [None, "gpt2"]},
        "must_not_guess": ["num_gpus"],
        "wrong_values": {"dataset": ["cifar"]},
    }
    score = Score()
    judge(score, label, {"epochs": 3, "model": "bert", "dataset": "cifar", "num_gpus": 8})
    assert (score.right.total(), score.said.total(), score.labelled.total()) == (1, 4, 3)
    assert score.guessed == {"num_gpus": 1} and len(score.misses) == 2


def test_it_reads_the_jobs_whose_trees_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own+er").symlink_to(ROOT / "examples")
    row = {
        "id": "one",
        "repo": "own/er",
        "workdir": "train",
        "launch": "bash run.sh",
        "expected": {"framework": "pytorch"},
    }
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps(row) + "\n" + json.dumps({**row, "repo": "not/there"}) + "\n")
    assert source_facts.main([str(labels), str(tmp_path)]) == 0
    assert "1 jobs (1 without a tree): precision 1.000, recall 1.000" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["opened_1", "opened_2", "held_back"])
def test_the_labels_that_are_here_are_whole(name: str) -> None:
    rows = [json.loads(line) for line in (ROOT / f"benchmarks/data/jobs/{name}.jsonl").read_text().splitlines()]
    assert len({row["id"] for row in rows}) == len(rows) >= 30
    for row in rows:
        assert len(row["commit"]) == 40 and row["launch"].strip() and set(row["expected"]) <= set(FACT_NAMES), row["id"]
