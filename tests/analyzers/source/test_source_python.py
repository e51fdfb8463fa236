"""Python that programs keep their configuration in: hand-read words, sets, hooks of base classes, class variables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

PROGRAM = """
import sys, torch
import torch.nn as nn
from dataclasses import dataclass, replace
from typing import ClassVar
from torch.utils.data import DataLoader

class Buildable:
    @dataclass(kw_only=True)
    class Config:
        _owner: ClassVar[type | None] = None
        epochs: int = 2
        def build(self):
            if self._owner is None:
                raise NotImplementedError("nobody")
            return self._owner(replace(self))
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if issubclass(cls.__dict__["Config"], Buildable.Config):
            cls.Config._owner = cls

class Trainer(Buildable):
    @dataclass(kw_only=True)
    class Config(Buildable.Config):
        batch: int = 4
    def __init__(self, config):
        self.config = config
    def train(self):
        refused = []
        for layer in unknown_layers():
            if layer.bad:
                refused.append(layer)
        if refused:
            raise ValueError(refused)
        model = nn.Linear(2, 2)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(self.config.epochs):
            for x in DataLoader([1, 2], batch_size=self.config.batch):
                model(x).mean().backward()
                opt.step()

KINDS = frozenset(["small"]) | frozenset(["large"])
name, words, i = None, sys.argv[1:], 0
while i < len(words):
    if words[i] == "--kind":
        name = words[i + 1]
        i += 1
    i += 1
if name not in KINDS:
    raise ValueError(name)
config = {"small": Trainer.Config(epochs=3), "large": Trainer.Config(epochs=9, batch=16)}[name]
config.build().train()
"""


def test_a_program_is_followed_through_its_own_configuration(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {"train.py": f"from layers import unknown_layers\n{PROGRAM}"})
    facts = kit.read(tmp_path, "python train.py --verbose --kind large")
    assert kit.values(facts, "workload_type", "epochs", "batch_size_per_gpu") == ("train", 9, 16)
    facts = kit.read(tmp_path, "python train.py --kind small")
    assert kit.values(facts, "epochs", "batch_size_per_gpu") == (3, 4)


def test_half_of_the_parallelism_is_not_all_of_it(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
import argparse, torch
import torch.nn as nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.utils.data import DataLoader
import own_tensor_parallel
p = argparse.ArgumentParser()
p.add_argument("--tp-size", type=int, default=1)
args = p.parse_args()
model = FSDP(own_tensor_parallel.split(nn.Linear(2, 2), args.tp_size))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x in DataLoader([1, 2]):
        model(x).mean().backward()
        opt.step()
"""
    kit.grow(tmp_path, {"train.py": text})
    launch = "torchrun --nproc_per_node 4 train.py"
    assert kit.read(tmp_path, f"{launch} --tp-size 2").value("parallelism") is None
    assert kit.read(tmp_path, launch).value("parallelism") == ["fsdp"]
