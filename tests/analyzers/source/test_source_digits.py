"""Numbers of thousands of digits, wherever a program takes its numbers from: no fact, and no defect."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

LOOP = """
import torch
opt = torch.optim.SGD(torch.nn.Linear(4, 4).parameters(), lr=0.25)
for epoch in range(n):
    for x, y in torch.utils.data.DataLoader(torch.load("d"), batch_size=32):
        torch.nn.functional.mse_loss(x, y).backward()
        opt.step()
"""
TAKERS = {
    "argparse": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--epochs', type=int)\n"
    "n = p.parse_args().epochs\n",
    "absl": "from absl import flags\nflags.DEFINE_integer('epochs', 1, '')\nn = flags.FLAGS.epochs\n",
    "click": "import click\n@click.command()\n@click.option('--epochs', type=int)\n"
    "def main(epochs):\n    pass\nn = 1\n",
    "fire": "import fire\ndef main(epochs=1):\n    pass\nfire.Fire(main)\nn = 1\n",
    "sys.argv": "import sys\nn = int(sys.argv[2])\n",
    "a library's own": "from zoo import n\n",
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("digits", [50, 400, 4000, 5000])
@pytest.mark.parametrize("digit", ["9", "\u0669", "\u00b2"])
def test_are_no_facts(tmp_path: Path, kit: SimpleNamespace, taker: str, digits: int, digit: str) -> None:
    kit.grow(tmp_path, {"t.py": f"{TAKERS[taker]}{LOOP}"})
    facts = kit.read(tmp_path, f"python t.py --epochs {digit * digits}")
    assert facts.value("epochs") in (None, 1)
    assert facts.value("learning_rate") == 0.25
    kit.read(tmp_path, f"torchrun other.py --epochs {digit * digits} --lr {digit * digits}")
