"""What is left out is told, and what was cut is not presented as whole."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

PROGRAM = """
import sys, torch, yaml
from net import TinyNet
conf = yaml.safe_load(open(sys.argv[1]))
model = TinyNet(3)
opt = torch.optim.SGD(model.parameters(), lr=conf["lr"])
for epoch in range(conf["epochs"]):
    model(torch.zeros(1)).sum().backward()
    opt.step()
"""


@pytest.mark.parametrize("kind", ["climbs", "link", "fifo", "device"])
def test_a_configuration_that_must_not_be_read_is_named(tmp_path: Path, kit: SimpleNamespace, kind: str) -> None:
    kit.grow(tmp_path, {"secret.yaml": "lr: 0.3\nepochs: 8\n"})
    root = kit.grow(tmp_path / "job", {"net.py": kit.PLAIN["net.py"], "train.py": PROGRAM})
    name = "../secret.yaml" if kind == "climbs" else "conf.yaml"
    if kind == "fifo":
        os.mkfifo(root / name)
    elif kind != "climbs":
        (root / name).symlink_to("../secret.yaml" if kind == "link" else "/dev/zero")
    facts = kit.read(root, f"python train.py {name}")
    assert {"epochs", "learning_rate"}.isdisjoint(facts.facts)
    assert [w for w in facts.warnings if name in w and "was not read" in w]


@pytest.mark.parametrize(
    "assignment", ["X={}", "X='{}'", 'X="{}"', "Y={}\nX=$Y", "X=a\nX+={}", "X=${{Z:-{}}}", "export X={}"]
)
def test_a_value_that_was_cut_is_not_known(tmp_path: Path, kit: SimpleNamespace, assignment: str) -> None:
    root = kit.grow(
        tmp_path, {**kit.PLAIN, "run.sh": assignment.format("7" * 150_000) + "\npython train.py --epochs ${#X}\n"}
    )
    facts = kit.read(root, "bash run.sh")
    assert facts.value("batch_size_per_gpu") == 50
    assert "epochs" not in facts.facts


def test_a_value_of_bearable_length_is(tmp_path: Path, kit: SimpleNamespace) -> None:
    root = kit.grow(tmp_path, {**kit.PLAIN, "run.sh": "X=" + "7" * 900 + "\npython train.py --epochs ${#X}\n"})
    assert kit.read(root, "bash run.sh").value("epochs") == 900
