"""What a name stands for after something else than an assignment gave it another meaning."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

LOOP = """
import torch
opt = torch.optim.SGD(torch.nn.Linear(4, 4).parameters(), lr=0.25)
for epoch in range(N):
    for x, y in torch.utils.data.DataLoader(torch.load("d"), batch_size=32):
        torch.nn.functional.mse_loss(x, y).backward()
        opt.step()
"""
DECORATED = (
    "def other(f):\n    def inner():\n        return {gives}\n    return inner\n"
    "@other\ndef n():\n    return 5\nN = n()\n"
)
REBOUND = {
    "literal text": ("N = 5\nexec('N = 30')\n", 30),
    "text of a file": ("N = 5\nexec(open('over.py').read())\n", 30),
    "text that is not known": ("N = 5\nimport sys\nexec(sys.stdin.read())\n", None),
    "text of a file that is not there": ("N = 5\nexec(open('none.py').read())\n", None),
    "the names of the module": ("N = 5\nglobals().update(N=30)\n", 30),
    "a decorator that replaces": (DECORATED.format(gives="30"), 30),
    "a decorator that wraps": (DECORATED.format(gives="f()"), 5),
}


@pytest.mark.parametrize("how", REBOUND)
def test_the_last_meaning_counts(tmp_path: Path, kit: SimpleNamespace, how: str) -> None:
    text, epochs = REBOUND[how]
    kit.grow(tmp_path, {"t.py": f"{text}{LOOP}", "over.py": "N = 30\n"})
    facts = kit.read(tmp_path, "python t.py")
    assert kit.values(facts, "epochs", "learning_rate") == (epochs, 0.25)
