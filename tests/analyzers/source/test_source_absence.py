"""What was not met is not thereby absent: no fact may rest on code that nobody read, or on a placeholder."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

LOOP = """
import torch, torchvision
import torch.nn as nn
from torch.utils.data import DataLoader
{imports}
net = nn.Linear(784, 10).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(torchvision.datasets.MNIST("d"), batch_size=32)
{before}
for epoch in range(5):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
ABSENT = ("checkpoints", "resumable", "precision", "activation_checkpointing", "early_stopping")


def test_an_unknown_package_that_gets_no_object_proves_nothing_missing(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {"train.py": LOOP.format(imports="import zzfiles", before="zzfiles.copy('a', 'b')")})
    assert kit.values(kit.read(tmp_path, "python train.py"), *ABSENT) == (False, False, "fp32", False, False)


@pytest.mark.parametrize("before", ["helper = zzkit.Helper(Net())", "zzkit.wrap(step)", "zzkit.add([Net()])"])
def test_an_unknown_package_that_gets_the_program_may_do_anything(
    tmp_path: Path, kit: SimpleNamespace, before: str
) -> None:
    own = "import zzkit\nclass Net(nn.Module):\n    pass\ndef step():\n    pass\n"
    kit.grow(tmp_path, {"train.py": LOOP.format(imports=own, before=before)})
    assert kit.values(kit.read(tmp_path, "python train.py"), *ABSENT) == (None,) * 5


def test_a_trainer_of_an_unknown_library_has_defaults_that_nobody_read(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = "import torch\nfrom ignite.engine import SuperTrainer\nt = SuperTrainer()\nt.train()\n"
    kit.grow(tmp_path, {"train.py": text})
    assert kit.values(kit.read(tmp_path, "python train.py"), *ABSENT) == (None,) * 5


@pytest.mark.parametrize(
    ("before", "resumable"),
    [
        ("def last_checkpoint(d):\n    pass\nstart = last_checkpoint('out')", True),
        (
            "import types\nargs = types.SimpleNamespace(resume_checkpoint='')\nif args.resume_checkpoint:\n    pass",
            True,
        ),
        ("import wandb\nwandb.init(project='p', resume='allow')", False),
        ("def never(args):\n    return args.resume", False),
    ],
)
def test_a_way_to_go_on_counts_where_it_is_reached(
    tmp_path: Path, kit: SimpleNamespace, before: str, resumable: bool
) -> None:
    kit.grow(tmp_path, {"train.py": LOOP.format(imports="", before=before)})
    assert kit.read(tmp_path, "python train.py").value("resumable") is resumable


@pytest.mark.parametrize(("resume", "resumable"), [("None", False), ("path", True)])
def test_a_trainer_resumes_when_it_is_given_a_place(
    tmp_path: Path, kit: SimpleNamespace, resume: str, resumable: bool
) -> None:
    text = f"""
from transformers import Trainer, TrainingArguments, AutoModelForCausalLM
def train(path=None):
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    trainer = Trainer(model=model, args=TrainingArguments(output_dir="o"))
    trainer.train(resume_from_checkpoint={resume})
train()
"""
    kit.grow(tmp_path, {"train.py": text})
    assert kit.read(tmp_path, "python train.py").value("resumable") is resumable


@pytest.mark.parametrize(
    ("line", "precision"),
    [
        ("if args.use_fp16:\n    convert(net)", "amp-fp16"),
        ("if args.bf16:\n    convert(net)", "bf16"),
        ("convert(net)", "fp32"),
        ("if args.amp:\n    convert(net)", None),
    ],
)
def test_a_switch_for_the_program_s_own_half_precision(
    tmp_path: Path, kit: SimpleNamespace, line: str, precision: str | None
) -> None:
    given = "import types, os\nargs = types.SimpleNamespace(use_fp16=True, bf16=True, amp=os.path.exists('x'))"
    before = f"{given}\ndef convert(net):\n    pass\n{line}"
    kit.grow(tmp_path, {"train.py": LOOP.format(imports="", before=before)})
    assert kit.read(tmp_path, "python train.py").value("precision") == precision


def test_a_switch_for_the_program_s_own_recomputation(tmp_path: Path, kit: SimpleNamespace) -> None:
    before = "use_checkpoint = True\nif use_checkpoint:\n    print(1)"
    kit.grow(tmp_path, {"train.py": LOOP.format(imports="", before=before)})
    assert kit.read(tmp_path, "python train.py").value("activation_checkpointing") is True


SCHEDULED = """
import math
import numpy as np
import torch, torchvision
import torch.nn as nn
from torch.utils.data import DataLoader

def cosine(high, low, steps, warmup):
    up = np.linspace(0, high, warmup) if warmup > 0 else np.array([])
    down = low + 0.5 * (high - low) * (1 + np.cos(np.pi * np.arange(steps - warmup) / steps))
    return np.concatenate((up, down))

net = nn.Linear(784, 10)
opt = torch.optim.{optimizer}
loader = DataLoader(torchvision.datasets.MNIST("d"), batch_size=32)
rates = {rates}
for epoch in range(5):
    for i, (x, y) in enumerate(loader):
        for n, group in enumerate(opt.param_groups):
            group["lr"] = rates[i]
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("optimizer", "rates", "rate"),
    [
        ("AdamW(net.parameters())", "cosine(0.002 * 64 / 256, 1e-6, 900, 10)", 0.0005),
        ("SGD(net.parameters(), lr=0, momentum=0.9)", "cosine(0.3, 0.0, 900, 0)", 0.3),
        ("AdamW(net.parameters())", "open('rates').read()", None),
        ("SGD(net.parameters(), lr=0.7)", "open('rates').read()", 0.7),
    ],
)
def test_a_rate_that_every_step_sets_anew(
    tmp_path: Path, kit: SimpleNamespace, optimizer: str, rates: str, rate: float | None
) -> None:
    kit.grow(tmp_path, {"train.py": SCHEDULED.format(optimizer=optimizer, rates=rates)})
    found = kit.read(tmp_path, "python train.py").value("learning_rate")
    assert found == (pytest.approx(rate) if rate is not None else None)


def test_weights_that_another_launch_would_load_leave_resuming_open(tmp_path: Path, kit: SimpleNamespace) -> None:
    before = "start = ''\nif start:\n    net.load_state_dict(torch.load(start))"
    kit.grow(tmp_path, {"train.py": LOOP.format(imports="", before=before)})
    assert kit.read(tmp_path, "python train.py").value("resumable") is None


@pytest.mark.parametrize(
    ("switch", "precision"), [("enabled=True", "amp-fp16"), ("enabled=False", "fp32"), ("enabled=unknown()", None)]
)
def test_autocast_with_a_switch(tmp_path: Path, kit: SimpleNamespace, switch: str, precision: str | None) -> None:
    text = LOOP.format(imports="import os", before=f"context = torch.autocast('cuda', {switch})")
    kit.grow(tmp_path, {"train.py": text.replace("unknown()", "os.path.exists('x')")})
    assert kit.read(tmp_path, "python train.py").value("precision") == precision


GIVEN = """
import json
from dataclasses import dataclass
from transformers import Trainer, TrainingArguments, AutoModelForCausalLM
@dataclass
class Sizes:
    batch: int = 4
sizes = Sizes(**json.load({file}))
args = TrainingArguments(per_device_train_batch_size=sizes.batch, output_dir="o", **json.load({file}))
Trainer(model=AutoModelForCausalLM.from_pretrained("gpt2"), args=args).train()
"""


@pytest.mark.parametrize(
    ("file", "expected"), [("open('a.json')", (6, 3, 5e-5)), ("open('b.json')", (None, None, None))]
)
def test_defaults_that_an_unseen_mapping_may_replace(
    tmp_path: Path, kit: SimpleNamespace, file: str, expected: tuple[float | None, ...]
) -> None:
    kit.grow(tmp_path, {"train.py": GIVEN.format(file=file), "a.json": '{"batch": 6}'})
    facts = kit.read(tmp_path, "python train.py")
    assert kit.values(facts, "batch_size_per_gpu", "epochs", "learning_rate") == expected
