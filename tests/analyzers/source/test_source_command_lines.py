"""Command lines that a framework types or composes: jsonargparse, Lightning, Fabric, and programs known by name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

TYPED = {
    "pyproject.toml": '[project.scripts]\ntool = "tool.main:run"\n',
    "tool/__init__.py": "",
    "tool/data.py": """
class Data:
    def __init__(self, size: int = 3, mask: bool = False):
        self.size = size
class Words(Data):
    pass
""",
    "tool/main.py": """
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional, Union
import lightning as L
import torch
from jsonargparse import CLI
from tool.data import Data

@dataclass
class Plan:
    steps: int = 1
    batch: int = 2
    rate: float = 0.5

def fit(folder: Path, plan: Plan = Plan(steps=100, batch=4), data: Optional[Data] = None, devices: int = 1,
        optimizer: Union[str, Dict] = "AdamW", precision: Optional[str] = None):
    fabric = L.Fabric(devices=devices, precision=precision or "32-true", strategy="ddp" if devices > 1 else "auto")
    fabric.launch()
    model = fabric.setup(torch.nn.Linear(data.size, 1))
    name = optimizer if isinstance(optimizer, str) else optimizer["class_path"].rsplit(".", 1)[1]
    opt = getattr(torch.optim, name)(model.parameters(), lr=plan.rate)
    loader = torch.utils.data.DataLoader([1], batch_size=plan.batch)
    for step in range(plan.steps):
        fabric.backward(model(step))
        opt.step()
    fabric.save("x.ckpt", {})

def other(folder: Path): ...

def run():
    CLI({"fit": fit, "other": other})
""",
    "conf.yaml": """
folder: here
plan: {steps: 70, rate: 0.25}
data:
  class_path: tool.data.Words
  init_args: {size: 9}
optimizer: {class_path: torch.optim.SGD, init_args: {}}
precision: bf16-true
""",
}
FITTED = ("framework", "max_steps", "learning_rate", "optimizer", "precision", "num_gpus", "parallelism", "checkpoints")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fit here", ("pytorch", 100, 0.5, "AdamW", "fp32", 1, ["none"], True)),
        ("fit --config conf.yaml", ("pytorch", 70, 0.25, "SGD", "bf16", 1, ["none"], True)),
        ("fit --config conf.yaml --plan.steps 5 --plan.rate=1e-3 --devices 2 --precision 16-mixed",
         ("pytorch", 5, 1e-3, "SGD", "amp-fp16", 2, ["ddp"], True)),
        ("fit --config nowhere.yaml", (None,) * 8),
    ],
)  # fmt: skip
def test_a_function_typed_by_its_signature(
    tmp_path: Path, kit: SimpleNamespace, words: str, expected: tuple[object, ...]
) -> None:
    facts = kit.read(kit.grow(tmp_path, TYPED), f"tool {words}")
    if expected[1] is not None:
        assert kit.values(facts, *FITTED) == expected
    else:
        assert kit.values(facts, "max_steps", "learning_rate", "precision", "num_gpus") == (None,) * 4


LIGHTNING = {
    "parts.py": """
import lightning.pytorch as pl
import torch
class Net(pl.LightningModule):
    def __init__(self, body: torch.nn.Module, rate: float = 0.1):
        super().__init__()
        self.save_hyperparameters()
        self.body = body
    def training_step(self, batch, index):
        return self.body(batch).sum()
    def configure_optimizers(self):
        return torch.optim.Adam([{"params": self.body.parameters(), "lr": self.hparams.rate}])
class Body(torch.nn.Module):
    def __init__(self, width=2):
        super().__init__()
        self.layer = torch.nn.Linear(width, 1)
    def forward(self, x):
        return self.layer(x)
class Data(pl.LightningDataModule):
    def __init__(self, batch_size: int = 7):
        super().__init__()
        self.batch_size = batch_size
    def train_dataloader(self):
        return torch.utils.data.DataLoader([1, 2], batch_size=self.batch_size)
""",
    "train.py": """
from lightning.pytorch.cli import LightningCLI
from parts import Data, Net
class Mine(LightningCLI):
    def add_arguments_to_parser(self, parser):
        parser.set_defaults({"trainer.max_epochs": 90, "model.rate": 0.7})
Mine(Net, Data)
""",
    "conf.yaml": """
trainer:
  accelerator: gpu
  devices: 2
  precision: bf16-mixed
  strategy: ddp
  callbacks:
    - class_path: lightning.pytorch.callbacks.EarlyStopping
      init_args: {monitor: loss}
model:
  rate: 0.3
  body: {class_path: parts.Body, init_args: {width: 5}}
data: {batch_size: 16}
""",
}
LIT = ("framework", "epochs", "learning_rate", "batch_size_per_gpu", "global_batch_size", "num_gpus", "precision",
       "early_stopping", "resumable", "parallelism")  # fmt: skip


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--config conf.yaml", ("pytorch-lightning", 90, 0.3, 16, 32, 2, "bf16", True, True, ["ddp"])),
        ("-c conf.yaml --trainer.max_epochs=4 --model.rate 1e-4 --trainer.devices=4 --data.batch_size=8",
         ("pytorch-lightning", 4, 1e-4, 8, 32, 4, "bf16", True, True, ["ddp"])),
    ],
)  # fmt: skip
def test_a_lightning_command_line(
    tmp_path: Path, kit: SimpleNamespace, words: str, expected: tuple[object, ...]
) -> None:
    facts = kit.read(kit.grow(tmp_path, LIGHTNING), f"python train.py fit {words}")
    assert kit.values(facts, *LIT) == expected


def test_a_lightning_configuration_elsewhere_leaves_open(tmp_path: Path, kit: SimpleNamespace) -> None:
    facts = kit.read(kit.grow(tmp_path, LIGHTNING), "python train.py fit --config /elsewhere/conf.yaml")
    assert kit.values(facts, "epochs", "num_gpus", "precision", "batch_size_per_gpu") == (None,) * 4


SEQUENCES = ("workload_type", "max_steps", "iter_type", "optimizer", "learning_rate", "precision", "grad_accum",
             "num_gpus", "seq_len", "task", "early_stopping")  # fmt: skip


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 fairseq-train bin/x --arch t --optimizer adam --lr 5e-4 --update-freq 4 --fp16 "
         "--max-update 90 --task language_modeling --tokens-per-sample 256 --max-tokens 2048",
         ("train", 90, "step", "Adam", 5e-4, "amp-fp16", 4, 2, 256, "language-modeling", False)),
        ("fairseq-train bin/x --arch t --optimizer adam --lr 5e-4 --patience 3",
         ("train", None, None, "Adam", 5e-4, "fp32", 1, None, None, "machine-translation", True)),
        ("fairseq-train bin/x --arch t --optimizer sgd $MORE",
         (None, None, None, "SGD", None, None, None, None, None, None, None)),
        ("fairseq-generate bin/x --path m.pt --batch-size 8 --fp16 --task translation",
         ("inference", None, None, None, None, "amp-fp16", None, 1, None, "machine-translation", False)),
    ],
)  # fmt: skip
def test_programs_that_are_known_by_name(
    tmp_path: Path, kit: SimpleNamespace, command: str, expected: tuple[object, ...]
) -> None:
    facts = kit.read(tmp_path, command)
    assert kit.values(facts, *SEQUENCES) == expected
    assert facts.value("framework") == "pytorch"


def test_a_known_program_that_composes_its_configuration(tmp_path: Path, kit: SimpleNamespace) -> None:
    conf = """
common: {fp16: true}
task:
  _name: masked_lm
  data: ???
  tokens_per_sample: 512
distributed_training: {distributed_world_size: 64}
dataset: {batch_size: 16}
optimizer: {_name: adam}
optimization: {lr: [0.0005], max_update: 125}
"""
    kit.grow(tmp_path, {"conf/base.yaml": conf})
    command = (
        "fairseq-hydra-train --config-dir conf --config-name base task.data=d/wiki "
        "distributed_training.distributed_world_size=8 +optimization.update_freq='[2]'"
    )
    facts = kit.read(tmp_path, command)
    expected = ("train", 125, "step", "Adam", 5e-4, "amp-fp16", 2, 8, 512, "masked-language-modeling", False)
    assert kit.values(facts, *SEQUENCES) == expected
    assert kit.values(facts, "batch_size_per_gpu", "global_batch_size") == (16, 256)
    unseen = kit.read(tmp_path, "fairseq-hydra-train --config-dir /far --config-name base optimization.max_update=7")
    assert kit.values(unseen, "max_steps", "precision", "learning_rate", "num_gpus") == (7, None, None, None)


NESTED = """
from dataclasses import dataclass, field
import torch, torchvision
IMPORT
@dataclass
class Optim:
    name: str = "adamw"
    lr: float = 0.5
@dataclass
class Plan:
    optim: Optim = field(default_factory=lambda: Optim(lr=0.25))
    steps: int = 30
    bf16: bool = True
def fit(cfg):
    model = torchvision.models.resnet18().cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.optim.lr)
    for step in range(cfg.steps):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=cfg.bf16):
            loss = model(torch.rand(4)).sum()
        loss.backward()
        opt.step()
START
"""
WRAPPED = "@pyrallis.wrap()\ndef main(cfg: Plan):\n    fit(cfg)\nmain()"


@pytest.mark.parametrize(
    ("library", "start", "words", "expected"),
    [
        ("import tyro", "fit(tyro.cli(Plan))", "", (30, 0.25, "bf16")),
        ("import tyro", "fit(tyro.cli(Plan))", "--optim.lr 1e-3 --no-bf16 --steps=5", (5, 1e-3, "fp32")),
        ("import tyro", "fit(tyro.cli(Plan, default=Plan(steps=8)))", "--optim.lr 1e-3", (8, 1e-3, "bf16")),
        ("import pyrallis", WRAPPED, "--config_path c.yaml --optim.lr 2e-3", (77, 2e-3, "bf16")),
        ("import draccus", "fit(draccus.parse(config_class=Plan))", "--steps 6", (6, 0.25, "bf16")),
    ],
)  # fmt: skip
def test_command_lines_of_nested_dataclasses(
    tmp_path: Path, kit: SimpleNamespace, library: str, start: str, words: str, expected: tuple[object, ...]
) -> None:
    program = NESTED.replace("IMPORT", library).replace("START", start)
    facts = kit.read(kit.grow(tmp_path, {"train.py": program, "c.yaml": "steps: 77\n"}), f"python train.py {words}")
    assert kit.values(facts, "max_steps", "learning_rate", "precision") == expected


def test_an_option_that_takes_all_that_is_left(tmp_path: Path, kit: SimpleNamespace) -> None:
    program = """
import argparse, torch
from yacs.config import CfgNode as CN
_C = CN()
_C.SOLVER = CN()
_C.SOLVER.LR, _C.SOLVER.STEPS = 0.1, 10
p = argparse.ArgumentParser()
p.add_argument("--cfg", default="")
p.add_argument("--opts", default=None, nargs=argparse.REMAINDER)
a = p.parse_args()
cfg = _C.clone()
if a.cfg:
    cfg.merge_from_file(a.cfg)
if a.opts is not None:
    cfg.merge_from_list(a.opts)
cfg.freeze()
model = torch.nn.Linear(2, 2).cuda()
opt = torch.optim.SGD(model.parameters(), lr=cfg.SOLVER.LR)
for step in range(cfg.SOLVER.STEPS):
    model(step).backward()
    opt.step()
"""
    kit.grow(tmp_path, {"train.py": program, "x.yaml": "SOLVER: {STEPS: 20}\n"})
    names = ("max_steps", "learning_rate")
    assert kit.values(kit.read(tmp_path, "python train.py"), *names) == (10, 0.1)
    negative = kit.read(tmp_path, "python train.py --cfg x.yaml --opts SOLVER.LR -3 SOLVER.STEPS 5")
    assert kit.values(negative, *names) == (5, None)
    assert kit.values(kit.read(tmp_path, "python train.py --cfg x.yaml --opts SOLVER.LR 0.3"), *names) == (20, 0.3)
