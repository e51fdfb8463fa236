"""`schedmate analyze` as a user runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

TRAIN = """
import argparse, torch, torchvision
p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=4)
args = p.parse_args()
data = torchvision.datasets.CIFAR10("d")
net = torch.nn.Linear(3072, 10).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
for epoch in range(args.epochs):
    for x, y in torch.utils.data.DataLoader(data, batch_size=100):
        net(x).sum().backward()
        opt.step()
torch.save(net, "x.pt")
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A small job's folder."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "start-\x1b[31m.sh").write_text("python train.py --epochs 2\n")
    return folder


def schema() -> dict[str, Any]:
    """The schema of the command's JSON."""
    loaded: dict[str, Any] = json.loads(files("schedmate").joinpath("schemas/analyze.schema.json").read_text())
    return loaded


def test_json_follows_its_schema(schedmate: Run, job: Path) -> None:
    done = schedmate("analyze", job, "--command", "python train.py --epochs 6", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, schema())
    assert answer["facts"]["epochs"] == {
        "value": 6,
        "confidence": answer["facts"]["epochs"]["confidence"],
        "evidence": [{"file": "launch", "line": 1}],
        "how": "override",
    }
    assert answer["facts"]["max_steps"]["value"] == 3000
    assert answer["warnings"] == []


def test_every_fact_name_is_in_the_schema() -> None:
    from analyzers.types import FACT_NAMES

    assert set(schema()["properties"]["facts"]["properties"]) == set(FACT_NAMES)


def test_every_derived_quantity_is_in_the_schema() -> None:
    from analyzers.source.workload import QUANTITIES

    assert set(schema()["properties"]["derived"]["properties"]) == set(QUANTITIES)


def test_what_follows_from_the_facts_is_told_with_how(schedmate: Run, job: Path) -> None:
    (job / "train.py").write_text(
        "import torch, torchvision\n"
        "net = torchvision.models.resnet18().cuda()\n"
        "data = torchvision.datasets.ImageFolder('train')\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "crop = torchvision.transforms.RandomResizedCrop(224)\n"
        "for epoch in range(3):\n"
        "    for x, y in torch.utils.data.DataLoader(data, batch_size=64):\n"
        "        net(x.cuda()).sum().backward()\n"
        "        opt.step()\n"
    )
    words = ("analyze", job, "--command", "python train.py")
    answer = json.loads(schedmate(*words, "--gpu-type", "a100", "--json").stdout)
    jsonschema.validate(answer, schema())
    flops, step = answer["derived"]["flops_per_step"], answer["derived"]["step_time_s"]
    assert flops["value"] == pytest.approx(64 * 3 * 2 * 1.814e9, rel=0.001) and "resnet18" in flops["how"]
    assert step["low"] < step["value"] < step["high"] and "rough" in step["how"]
    shown = schedmate(*words).stdout
    assert any(line.split()[:1] == ["flops_per_step"] for line in shown.splitlines()) and "step_time_s" not in shown


def test_the_table_shows_values_with_their_evidence(schedmate: Run, job: Path) -> None:
    done = schedmate("analyze", job, "--command", "python train.py")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.split()[:1] == ["epochs"])
    assert row.split()[1] == "4" and "train.py:4" in row


def test_control_characters_never_reach_the_terminal(schedmate: Run, job: Path) -> None:
    done = schedmate("analyze", job, "--command", "bash 'start-\x1b[31m.sh'")
    assert done.returncode == 0 and "\x1b" not in done.stdout
    missing = schedmate("analyze", job, "--command", "bash 'gone-\x1b[31m.sh'")
    assert missing.returncode == 0 and "\x1b" not in missing.stdout
    assert "not in the work dir" in missing.stdout


def test_a_file_is_refused_with_the_folder_to_name(schedmate: Run, job: Path) -> None:
    done = schedmate("analyze", job / "train.py", "--command", "python train.py", "--json")
    assert done.returncode == 2 and f"perhaps {job}" in done.stderr


@pytest.mark.parametrize("words", [("missing", "python train.py"), ("job", ""), ("job", "   ")])
def test_bad_use_is_one_line_and_exit_2(schedmate: Run, job: Path, words: tuple[str, str]) -> None:
    folder, command = words
    done = schedmate("analyze", job.parent / folder, "--command", command)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and "Traceback" not in done.stderr


def test_a_command_that_can_not_be_split_is_a_warning(schedmate: Run, job: Path) -> None:
    done = schedmate("analyze", job, "--command", "python 'train.py", "--json")
    assert done.returncode == 0
    jsonschema.validate(json.loads(done.stdout), schema())


def test_every_labelled_public_job_is_read(shared_data: Path, tmp_path: Path) -> None:
    from analyzers.source import analyze
    from analyzers.types import Submission

    for line in (shared_data / "source_facts" / "labels.jsonl").read_text().splitlines():
        case = json.loads(line)
        facts = analyze(Submission(case["launch"], tmp_path))
        assert not [w for w in facts.warnings if "internal error" in w]


def test_what_was_given_and_is_otherwise_in_the_job_is_told(schedmate) -> None:
    words = ["analyze", Path(__file__).resolve().parents[3] / "examples/train", "--command", "bash run.sh", "--json"]
    told = json.loads(schedmate(*words, "--gpus", "3", "--gpu-type", "banana").stdout)["warnings"]
    assert "3 gpus were given, the job itself uses 1" in told
    assert any("GPU type banana is not known" in each and "H100" in each for each in told)
    assert json.loads(schedmate(*words, "--gpus", "1", "--gpu-type", "a100-80gb").stdout)["warnings"] == []
