"""Which model it is: the function that makes a variant, the part that a wrapper holds, layers added one by one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

STEP = """
opt = torch.optim.AdamW(groups(model), lr=3e-4)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
"""
HEAD = """
import torch, torchvision
import torch.nn as nn
from torch.utils.data import DataLoader
loader = DataLoader(torchvision.datasets.CIFAR10("d"), batch_size=32)
def groups(model):
    plain = []
    for name, p in model.named_parameters():
        plain.append(p)
    return [{"params": plain}]
"""
ZOO = """
import torch.nn as nn
class Patches(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList()
        for i in range(depth):
            self.blocks.append(nn.Linear(width, width, bias=False))
        self.add_module("last", nn.Linear(width, 10, bias=False))
    def forward(self, x):
        return x
def patches_small(**kwargs):
    return Patches(width=20, depth=4, **kwargs)
def build_model(name):
    return globals()[name]()
"""


def test_a_variant_is_called_like_the_function_that_makes_it(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = f"{HEAD}\nimport zoo\nmodel = zoo.__dict__['patches_small']()\n{STEP}"
    kit.grow(tmp_path, {"zoo.py": ZOO, "train.py": text})
    facts = kit.read(tmp_path, "python train.py")
    assert kit.values(facts, "model", "model_params_approx") == ("patches_small", 4 * 400 + 200)


def test_a_general_function_does_not_name_its_model(tmp_path: Path, kit: SimpleNamespace) -> None:
    own = ZOO.replace("patches_small", "make")
    kit.grow(tmp_path, {"zoo.py": own, "train.py": f"{HEAD}\nimport zoo\nmodel = zoo.build_model('make')\n{STEP}"})
    assert kit.read(tmp_path, "python train.py").value("model") == "Patches"


@pytest.mark.parametrize("own_layer", [False, True])
def test_a_wrapper_of_what_it_is_given(tmp_path: Path, kit: SimpleNamespace, *, own_layer: bool) -> None:
    extra = "self.extra = nn.Linear(5, 5)" if own_layer else "pass"
    text = f"""{HEAD}
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(512, 10)
class Both(nn.Module):
    def __init__(self, backbone, head):
        super().__init__()
        self.head = head
        self.backbone = backbone
        {extra}
model = Both(torchvision.models.resnet18(), Head())
{STEP}"""
    kit.grow(tmp_path, {"train.py": text})
    assert kit.read(tmp_path, "python train.py").value("model") == ("Both" if own_layer else "resnet18")


@pytest.mark.parametrize(
    ("layer", "count"),
    [
        ("nn.Linear(10, 10, bias=False)", 200),
        ("Own(10, 10, bias=False)", 200),
        ("mystery(10)", 100),
        ("AutoModel.from_pretrained('x')", None),
        ("nn.utils.weight_norm(nn.Linear(10, 10, bias=False))", 200),
    ],
)
def test_parameters_that_are_not_known_are_not_counted_as_none(
    tmp_path: Path, kit: SimpleNamespace, layer: str, count: int | None
) -> None:
    text = f"""{HEAD}
from transformers import AutoModel
def mystery(n):
    return n
class Own(nn.Linear):
    pass
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(10, 10, bias=False)
        self.b = {layer}
model = Net()
{STEP}"""
    kit.grow(tmp_path, {"train.py": text})
    assert kit.read(tmp_path, "python train.py").value("model_params_approx") == count


TIMM = """
import argparse, timm, torch
import torch.nn as nn
from timm.data import create_dataset, create_loader
from timm.optim import create_optimizer_v2, optimizer_kwargs
from timm.scheduler import create_scheduler_v2, scheduler_kwargs
from timm.utils import NativeScaler
p = argparse.ArgumentParser()
p.add_argument("--opt", default="sgd")
p.add_argument("--lr", type=float, default=0.2)
p.add_argument("--epochs", type=int, default=90)
p.add_argument("--sched", default="cosine")
p.add_argument("--cooldown-epochs", type=int, default=5)
args = p.parse_args()
model = timm.create_model("resnet18").cuda()
data = create_dataset("torch/cifar100", root="d", split="train")
loader = create_loader(data, input_size=(3, 32, 32), batch_size=96, is_training=True)
optimizer = create_optimizer_v2(model, **optimizer_kwargs(cfg=args))
schedule, epochs = create_scheduler_v2(optimizer, **scheduler_kwargs(args))
scaler = NativeScaler()
criterion = nn.CrossEntropyLoss()
for epoch in range(0, epochs):
    for x, y in loader:
        scaler(criterion(model(x), y), optimizer, parameters=model.parameters())
"""


def test_timm_s_factories(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {"train.py": TIMM})
    names = ("optimizer", "learning_rate", "epochs", "batch_size_per_gpu", "dataset", "model", "workload_type", "task")
    expected = ("SGD", 0.2, 95, 96, "CIFAR-100", "resnet18", "train", "image-classification")
    assert kit.values(kit.read(tmp_path, "python train.py"), *names) == expected
    facts = kit.read(tmp_path, "python train.py --opt adamw --sched step --epochs 30")
    assert kit.values(facts, "optimizer", "epochs") == ("AdamW", 30)


def test_an_optimizer_of_one_s_own_and_rates_of_groups(tmp_path: Path, kit: SimpleNamespace) -> None:
    own = "class LARS(torch.optim.Optimizer):\n    pass\nmodel = nn.Linear(2, 2)\n"
    made = "LARS([{'params': model.parameters(), 'lr': 0.3}], lr=0)"
    text = HEAD + own + STEP.replace("torch.optim.AdamW(groups(model), lr=3e-4)", made)
    kit.grow(tmp_path, {"train.py": text, "bare.py": text.replace(", 'lr': 0.3", "")})
    assert kit.values(kit.read(tmp_path, "python train.py"), "optimizer", "learning_rate") == ("LARS", 0.3)
    assert kit.values(kit.read(tmp_path, "python bare.py"), "optimizer", "learning_rate") == ("LARS", None)


BARE = "class {0}(nn.Module):\n    pass\nmodel = {0}()"


@pytest.mark.parametrize(
    ("network", "score", "task"),
    [
        (BARE.format("UNet"), "dice_loss(model(x), y)", "image-segmentation"),
        (BARE.format("GCN"), "nn.functional.nll_loss(model(x), y)", "node-classification"),
        (BARE.format("BarlowTwins"), "model(x).sum()", "self-supervised learning"),
        (BARE.format("GaussianDiffusion"), "model(x).sum()", "generation (diffusion)"),
        ("model = nn.Sequential(nn.Embedding(900, 8), nn.Linear(8, 900))", "nn.functional.cross_entropy(model(x), y)",
         "language-modeling"),
        ("import gymnasium\nmodel = nn.Linear(4, 2)", "model(x).sum()", "reinforcement-learning"),
        (BARE.format("Net"), "model(x).sum()", None),
    ],
)  # fmt: skip
def test_a_task_by_what_is_computed(
    tmp_path: Path, kit: SimpleNamespace, network: str, score: str, task: str | None
) -> None:
    text = HEAD.replace('torchvision.datasets.CIFAR10("d")', "open('d')") + network + STEP
    text = text.replace("nn.functional.cross_entropy(model(x), y)\n        loss.b", f"{score}\n        loss.b")
    given = "def dice_loss(a, b):\n    return torch.dice(a, b)\n"
    kit.grow(tmp_path, {"train.py": text.replace("loader = ", given + "loader = ", 1)})
    assert kit.read(tmp_path, "python train.py").value("task") == task


@pytest.mark.parametrize(
    ("made", "model"), [("Sizes('tiny-7')", "tiny-7"), ("Sizes(open('x').read())", None), ("12", "Net")]
)
def test_a_model_is_called_like_its_configuration(
    tmp_path: Path, kit: SimpleNamespace, made: str, model: str | None
) -> None:
    text = f"""{HEAD}
from dataclasses import dataclass
@dataclass
class Sizes:
    name: str
    width: int = 8
class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.a = nn.Linear(8, 8)
model = Net({made})
{STEP}"""
    kit.grow(tmp_path, {"train.py": text})
    assert kit.read(tmp_path, "python train.py").value("model") == model


@pytest.mark.parametrize(
    ("program", "kind"), [("finetune/lora.py", "finetune"), ("run_finetuning.py", "finetune"), ("train.py", "train")]
)
def test_a_program_that_is_called_for_tuning(tmp_path: Path, kit: SimpleNamespace, program: str, kind: str) -> None:
    kit.grow(tmp_path, {program: f"{HEAD}\nmodel = nn.Linear(2, 2)\n{STEP}"})
    assert kit.read(tmp_path, f"python {program}").value("workload_type") == kind
