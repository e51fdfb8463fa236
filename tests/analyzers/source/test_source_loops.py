"""Loops that are not what they look like: slices of a batch, generators, fits in a loop."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

SLICED = """
import torch, torchvision
import torch.nn as nn
from torch.utils.data import DataLoader
net = nn.Linear(784, 10)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(torchvision.datasets.MNIST("d"), batch_size=48)
size = {size}
for step in range(700):
    x, y = next(iter(loader))
    for i in range(0, x.shape[0], size):
        nn.functional.cross_entropy(net(x[i : i + size]), y[i : i + size]).backward()
    opt.step()
"""


@pytest.mark.parametrize(("size", "facts"), [(16, (16, 3)), (20, (20, 3)), (48, (48, 1)), (90, (48, 1))])
def test_a_batch_worked_through_in_slices(
    tmp_path: Path, kit: SimpleNamespace, size: int, facts: tuple[int, int]
) -> None:
    kit.grow(tmp_path, {"train.py": SLICED.format(size=size)})
    found = kit.read(tmp_path, "python train.py")
    assert kit.values(found, "batch_size_per_gpu", "grad_accum") == facts
    assert kit.values(found, "max_steps", "iter_type", "epochs") == (700, "step", None)


def test_a_generator_that_gives_one_piece_is_no_loop_of_its_own(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
import torch, torchvision
import torch.nn as nn
from torch.utils.data import DataLoader
net = nn.Linear(784, 10)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(torchvision.datasets.MNIST("d"), batch_size=48)
def pieces(size, *tensors):
    if size == -1:
        yield tensors
    else:
        for i in range(0, len(tensors[0]), size):
            yield tuple(t[i : i + size] for t in tensors)
for step in range(700):
    x, y = next(iter(loader))
    for i, (a, b) in enumerate(pieces(-1, x, y)):
        nn.functional.cross_entropy(net(a), b).backward()
    opt.step()
"""
    kit.grow(tmp_path, {"train.py": text})
    found = kit.read(tmp_path, "python train.py")
    assert kit.values(found, "max_steps", "epochs", "iter_type", "grad_accum") == (700, None, "step", 1)


def test_a_function_with_a_generator_inside_still_returns(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = kit.PLAIN["train.py"].replace("batch_size=args.batch_size", "batch_size=size()")
    own = "\ndef size():\n    def inner():\n        yield 1\n    return 24\n\nif __name__"
    kit.grow(tmp_path, {**kit.PLAIN, "train.py": text.replace("\nif __name__", own)})
    assert kit.read(tmp_path, "python train.py").value("batch_size_per_gpu") == 24


KERAS = """
import keras
from keras import layers
{before}
for i in {loop}:
    {inside}
    model.fit(x, y, batch_size=128, epochs={epochs})
"""
BUILT = 'model = keras.Sequential([layers.Dense(10)]); model.compile(optimizer="{name}", loss="mse")'


@pytest.mark.parametrize(
    ("before", "loop", "inside", "epochs", "expected"),
    [
        (BUILT, "range(1, 60)", "pass", 1, 59),
        (BUILT, "range(5)", "pass", 4, 20),
        (BUILT, "open('list')", "pass", 4, None),
        ("", "range(5)", BUILT, 4, None),
    ],
)
def test_fits_in_a_loop(
    tmp_path: Path, kit: SimpleNamespace, before: str, loop: str, inside: str, epochs: int, expected: int | None
) -> None:
    text = KERAS.format(before=before, loop=loop, inside=inside, epochs=epochs).replace("{name}", "rmsprop")
    kit.grow(tmp_path, {"train.py": text})
    found = kit.read(tmp_path, "python train.py")
    assert kit.values(found, "epochs", "iter_type", "batch_size_per_gpu") == (expected, "epoch", 128)
    assert kit.values(found, "optimizer", "learning_rate", "framework") == ("RMSprop", 1e-3, "tensorflow")


def test_keras_on_another_backend(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = 'import os\nos.environ["KERAS_BACKEND"] = "jax"\n' + KERAS.format(
        before=BUILT.format(name="sgd"), loop="range(1)", inside="pass", epochs=3
    )
    kit.grow(tmp_path, {"train.py": text})
    assert kit.values(kit.read(tmp_path, "python train.py"), "framework", "learning_rate") == ("jax", 0.01)


UNDER_A_CONDITION = """
import torch, torchvision
import torch.nn as nn
net = nn.Linear(784, 10)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
batch_size = 64
for step in range(5000):
    x, y = draw(batch_size)
    if step % 10 == 0:
        loss = nn.functional.mse_loss(net(x), y)
        {first}
        loss.backward()
        {last}
"""


@pytest.mark.parametrize(
    ("first", "last", "accumulated"),
    [
        ("opt.zero_grad()", "opt.step()", 1),
        ("pass", "if (step + 1) % 4 == 0: opt.step()", 4),
    ],
)
def test_learning_now_and_then_is_no_accumulation(
    tmp_path: Path, kit: SimpleNamespace, first: str, last: str, accumulated: int
) -> None:
    kit.grow(tmp_path, {"train.py": UNDER_A_CONDITION.format(first=first, last=last)})
    facts = kit.read(tmp_path, "python train.py")
    assert kit.values(facts, "grad_accum", "global_batch_size") == (accumulated, 64 * accumulated)


def test_a_walk_over_a_text_in_strides_is_no_slice_of_a_batch(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
import torch
import torch.nn as nn
batch_size, length = 20, 6
words = open("w.txt")
net = nn.Sequential(nn.Embedding(len(words), 8), nn.Linear(8, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.002)
ids = load(batch_size)
for epoch in range(7):
    for i in range(0, ids.size(1) - length, length):
        loss = nn.functional.cross_entropy(net(ids[:, i : i + length]), ids[:, i + 1])
        loss.backward()
        opt.step()
"""
    kit.grow(tmp_path, {"train.py": text})
    facts = kit.read(tmp_path, "python train.py")
    assert kit.values(facts, "batch_size_per_gpu", "grad_accum", "epochs", "iter_type") == (20, 1, 7, "epoch")


def test_all_data_in_one_batch_is_one_step_an_epoch(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
import torch
import torch.nn as nn
net = nn.Linear(16, 7)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x, y = torch.load("x.pt"), torch.load("y.pt")
def train(epoch):
    opt.zero_grad()
    nn.functional.nll_loss(net(x), y).backward()
    opt.step()
for epoch in range(200):
    train(epoch)
"""
    kit.grow(tmp_path, {"train.py": text})
    facts = kit.read(tmp_path, "python train.py")
    assert kit.values(facts, "epochs", "max_steps", "iter_type", "batch_size_per_gpu") == (200, 200, "epoch", None)
