"""A call that takes too many steps is given up alone: its value is unknown, the rest of the program is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

LEVELS = 20


TWICE = "return g{next}(x) + g{next}(x)"


def chain(leaf: str = "return 1", inner: str = TWICE) -> str:
    """Functions each of which calls the next one twice, down to a leaf: more than a million calls.

    The first of them go on after the call of an ``inner`` one was given up.
    """
    bodies = ((TWICE if i < 3 else inner).format(next=i + 1) for i in range(LEVELS))
    levels = "".join(f"def g{i}(x):\n    {body}\n" for i, body in enumerate(bodies))
    return f"{levels}def g{LEVELS}(x):\n    {leaf}\n"


TRAINING = """
import torch
model = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.25)
for epoch in range({epochs}):
    for x, y in torch.utils.data.DataLoader(torch.load("d"), batch_size=32):
        torch.nn.functional.mse_loss(model(x), y).backward()
        opt.step()
"""
KNOWN = ("framework", "workload_type", "epochs", "batch_size_per_gpu", "optimizer", "learning_rate")
VALUES = ("pytorch", "train", 7, 32, "SGD", 0.25)


def told(facts: object) -> list[str]:
    return [w for w in facts.warnings if "takes too many steps" in w]  # type: ignore[attr-defined]


def inside(text: str, depth: int) -> str:
    for level in range(depth):
        text = f"def run{level}():\n" + "".join(f"    {line}\n" for line in text.splitlines()) + f"run{level}()\n"
    return text


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("leaf", ["return 1", "return print(x)", "return other(x)"])
def test_the_program_around_it_is_read(tmp_path: Path, kit: SimpleNamespace, depth: int, leaf: str) -> None:
    text = chain(leaf) + inside(f"q = g0(1)\n{TRAINING.format(epochs=7)}", depth)
    kit.grow(tmp_path, {"t.py": text})
    facts = kit.read(tmp_path, "python t.py")
    assert kit.values(facts, *KNOWN) == VALUES
    assert len(told(facts)) == 1 and told(facts)[0].startswith("t.py:")


@pytest.mark.parametrize("absent", ["checkpoints", "resumable", "early_stopping"])
def test_what_was_not_met_proves_nothing(tmp_path: Path, kit: SimpleNamespace, absent: str) -> None:
    kit.grow(tmp_path, {"t.py": f"{chain()}q = g0(1)\n{TRAINING.format(epochs=7)}"})
    assert kit.read(tmp_path, "python t.py").value(absent) is None


#: name -> (what stands before, the first and the last line of each function, what the loop counts to)
WRITERS = {
    "a global": ("n = 3\n", "global n; n = 4", "n = 7", "n"),
    "a global that is set first": ("n = 3\n", "global n; n = 7", "pass", "n"),
    "a global that is set last": ("n = 3\n", "global n", "n = 7", "n"),
    "an attribute": ("class C: pass\nc = C()\nc.n = 3\n", "c.n = 4", "c.n = 7", "c.n"),
    "a key": ("c = {'n': 3}\n", "c['n'] = 4", "c['n'] = 7", "c['n']"),
    "a list": ("c = [1, 2, 3]\n", "pass", "c.append(1)", "len(c)"),
    "under a condition": ("n = 3\nimport zoo\n", "global n", "n = 7 if zoo.a() else 8", "n"),
    "its value": ("", "pass", "pass", "q"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_it_may_have_set_is_not_known(tmp_path: Path, kit: SimpleNamespace, writer: str) -> None:
    before, first, last, epochs = WRITERS[writer]
    levels = chain(inner=f"{first}\n    v = g{{next}}(x) + g{{next}}(x)\n    {last}\n    return v")
    kit.grow(tmp_path, {"t.py": f"{before}{levels}q = g0(1)\n{TRAINING.format(epochs=epochs)}"})
    facts = kit.read(tmp_path, "python t.py")
    assert kit.values(facts, "framework", "optimizer", "epochs") == ("pytorch", "SGD", None)
    assert told(facts)
