"""Descriptions of frameworks: each is well formed and says where it has it from; some of them at work."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analyzers.source.knowledge.frameworks import Framework, Rules, frameworks
from analyzers.types import FACT_NAMES

#: What a rule may speak of beside a fact.
OTHERS = {"gpus", "nodes", "batch_for_learning_rate"}
RUNS = {"", "training", "loop", "evaluation", "inference", "preprocessing"}
PARTS = {
    "key", "value", "text", "when", "map", "match", "times", "over", "plus", "count", "positive", "sure", "open",
}  # fmt: skip


def _all_rules(framework: Framework) -> list[Rules]:
    return [*(c.rules for c in framework.calls), *(c.rules for c in framework.commands)]


def _patterns(alternative: dict[str, Any]) -> list[str]:
    texts = [str(t) for wanted in alternative.get("when", {}).values() for t in (wanted if isinstance(wanted, list) else
             [wanted])]  # fmt: skip
    texts += [str(raw) for raw in alternative.get("map", {})]
    return [*(t[1:] for t in texts if t.startswith("~")), alternative.get("match", "")]


@pytest.mark.parametrize("framework", frameworks(), ids=lambda f: f.name)
def test_a_description_is_well_formed(framework: Framework) -> None:
    assert framework.source and all(s.startswith("https://") for s in framework.source)
    assert framework.packages and framework.family in ("pytorch", "pytorch-lightning", "jax", "tensorflow")
    assert {c.runs for c in (*framework.calls, *framework.commands)} <= RUNS
    for rules in _all_rules(framework):
        assert set(rules) <= {*FACT_NAMES, *OTHERS}
        for alternatives in rules.values():
            for alternative in alternatives:
                assert set(alternative) <= PARTS
                assert len({"key", "value", "text", "open"} & set(alternative)) == 1
                assert all(re.compile(pattern) for pattern in _patterns(alternative) if pattern)


NAMES = ("workload_type", "epochs", "batch_size_per_gpu", "image_size", "optimizer", "num_gpus", "task", "model")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("yolo detect train data=coco8.yaml model=yolov8n.pt epochs=20 optimizer=SGD device=0,1",
         ("finetune", 20, None, 640, "SGD", 2, "object-detection", "yolov8n.pt")),
        ("yolo train model=yolov8n-seg.yaml data=x.yaml batch=8",
         ("train", 100, 8, 640, None, 1, "instance-segmentation", "yolov8n-seg.yaml")),
        ("python fit.py", ("finetune", 3, 16, 320, None, 1, "object-detection", "yolov8s.pt")),
        ("yolo predict model=best.pt source=x.jpg", ("inference", None, None, 640, None, 1, None, "best.pt")),
    ],
)  # fmt: skip
def test_one_framework_by_command_and_by_call(
    tmp_path: Path, kit: SimpleNamespace, command: str, expected: tuple[object, ...]
) -> None:
    program = "from ultralytics import YOLO\nm = YOLO('yolov8s.pt')\nm.train(data='d.yaml', epochs=3, imgsz=320)\n"
    facts = kit.read(kit.grow(tmp_path, {"fit.py": program}), command)
    got = kit.values(facts, *NAMES)
    assert got[:5] + got[6:] == expected[:5] + expected[6:]
    assert facts.value("num_gpus") in (None, expected[5])


TUNED = """
model_name_or_path: some/model-7b
stage: sft
do_train: true
finetuning_type: lora
dataset: one,two
cutoff_len: 1024
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
learning_rate: 1.0e-4
num_train_epochs: 5.0
bf16: true
"""
ANSWER = ("epochs", "learning_rate", "batch_size_per_gpu", "grad_accum", "precision", "seq_len", "global_batch_size")


def test_a_configuration_file_under_what_is_given(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {"sft.yaml": TUNED})
    facts = kit.read(tmp_path, "CUDA_VISIBLE_DEVICES=0,1 llamafactory-cli train sft.yaml num_train_epochs=2")
    assert kit.values(facts, *ANSWER) == (2, 1e-4, 2, 4, "bf16", 1024, 16)
    assert {e.file for e in facts.facts["precision"].evidence} == {"sft.yaml"}
    unseen = kit.read(tmp_path, "llamafactory-cli train elsewhere.yaml learning_rate=1e-5")
    assert kit.values(unseen, "epochs", "learning_rate", "precision", "seq_len") == (None, 1e-5, None, None)


@pytest.mark.parametrize(
    ("command", "gpus", "kind", "workload"),
    [
        ("vllm serve org/model -tp 4 --dtype bfloat16", 4, ["tp"], "inference"),
        ("vllm serve org/model", 1, ["none"], "inference"),
        ("lm_eval --model hf --model_args pretrained=org/model,dtype=float16 --tasks t", 1, ["none"], "eval"),
        ("accelerate launch --num_processes 4 -m lm_eval --model hf --model_args pretrained=m --tasks t", 4, ["ddp"],
         "eval"),
        ("tune run --nnodes 2 --nproc_per_node 8 full_finetune_distributed --config mine.yaml", 16, ["fsdp"],
         "finetune"),
        ("nnUNetv2_train 5 3d_fullres 0 -num_gpus 2", 2, ["ddp"], "train"),
    ],
)  # fmt: skip
def test_programs_that_serve_evaluate_and_tune(
    tmp_path: Path, kit: SimpleNamespace, command: str, gpus: int | None, kind: list[str], workload: str
) -> None:
    facts = kit.read(tmp_path, command)
    assert kit.values(facts, "num_gpus", "parallelism", "workload_type") == (gpus, kind, workload)
