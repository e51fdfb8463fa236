"""What may be said of a program that nobody has looked at: which model learns, which data, which value is given."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

HEAD = """
import argparse, torch, torchvision
import torch.nn as nn
from torch.utils.data import DataLoader
p = argparse.ArgumentParser()
p.add_argument("--model", default="Blocks-S/2")
p.add_argument("--data", default="")
p.add_argument("--val-data", default="")
p.add_argument("--batch", type=int, default=64)
p.add_argument("--resume", default="")
p.add_argument("--eval", action="store_true")
args = p.parse_args()
print(args.model)
class Blocks(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layer = nn.Linear(width, width)
    def forward(self, x):
        return self.layer(x)
class Other(nn.Module):
    def forward(self, x):
        return x
loader = DataLoader(torchvision.datasets.CIFAR10("d"), batch_size=args.batch)
"""
LOOP = """
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
"""
ADAM = "\nopt = torch.optim.Adam(model.parameters(), lr=1e-3)\n"


def test_a_frozen_helper_is_not_the_model(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = f"{HEAD}\nfrom diffusers import AutoencoderKL\nvae = AutoencoderKL.from_pretrained('some/vae')\n"
    kit.grow(tmp_path, {"train.py": f"{text}model = Blocks()\n{ADAM}{LOOP}"})
    assert kit.read(tmp_path, "python train.py").value("model") == "Blocks-S/2"
    assert kit.read(tmp_path, "python train.py --model Blocks-XL/2").value("model") == "Blocks-XL/2"
    assert kit.read(tmp_path, "python train.py").value("workload_type") == "train"


def test_one_of_several_models_is_not_guessed(tmp_path: Path, kit: SimpleNamespace) -> None:
    chosen = "import zoo\nmodel = (Blocks if zoo.answer() else Other)()\n"
    kit.grow(tmp_path, {"train.py": f"{HEAD}{chosen}{ADAM}{LOOP}"})
    assert kit.read(tmp_path, "python train.py --model any_small").value("model") == "any_small"
    untold = HEAD.replace("print(args.model)", "")
    kit.grow(tmp_path, {"train.py": f"{untold}{chosen}{ADAM}{LOOP}"})
    assert kit.read(tmp_path, "python train.py").value("model") is None


def test_decorators_of_the_tree_register(tmp_path: Path, kit: SimpleNamespace) -> None:
    registry = """
MODELS = {}
def register(name=None):
    def inner(made):
        MODELS[name or made.__name__] = made
        return made
    return inner
"""
    program = "@register('wide')\ndef wide_model():\n    return Blocks(16)\nmodel = MODELS['wide']()\n"
    kit.grow(
        tmp_path,
        {"registry.py": registry, "train.py": f"{HEAD}from registry import *\n{program}{ADAM}{LOOP}"},
    )
    assert kit.read(tmp_path, "python train.py").value("model_params_approx") == 16 * 16 + 16


@pytest.mark.parametrize("declares", ["argparse", "absl"])
def test_a_value_known_in_part_is_not_the_default(tmp_path: Path, kit: SimpleNamespace, declares: str) -> None:
    if declares == "argparse":
        lines = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--where', default='')\n"
        lines += "p.add_argument('--n', type=int, default=2)\nargs = p.parse_args()\n"
    else:
        lines = "from absl import flags, app\nargs = flags.FLAGS\nflags.DEFINE_string('where', '', '')\n"
        lines += "flags.DEFINE_integer('n', 2, '')\n"
    work = f"def main(_=None):\n    if not args.where:\n        raise ValueError('where?')\n    {STEPS}\n"
    start = "main()\n" if declares == "argparse" else "app.run(main)\n"
    kit.grow(tmp_path, {"train.py": f"{IMPORTS}{lines}{work}{start}"})
    facts = kit.read(tmp_path, "python train.py --where=$SOMEWHERE/data --n=5")
    assert kit.values(facts, "workload_type", "epochs") == ("train", 5)


IMPORTS = "import torch\nimport torch.nn as nn\nfrom torch.utils.data import DataLoader\n"
STEPS = """model = nn.Linear(4, 4)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.n):
        for x, y in DataLoader(data()):
            nn.functional.mse_loss(model(x), y).backward()
            opt.step()
def data():
    return [1, 2]"""


def test_data_for_validation_are_not_what_is_learned_from(tmp_path: Path, kit: SimpleNamespace) -> None:
    opened = "val = torchvision.datasets.ImageFolder(args.val_data)\ntrain = open(args.data)\n"
    text = HEAD.replace('torchvision.datasets.CIFAR10("d")', "stream(args.data)") + opened
    kit.grow(tmp_path, {"train.py": f"def stream(x): return x\n{text}model = Blocks()\n{ADAM}{LOOP}"})
    facts = kit.read(tmp_path, "python train.py --data /d/cc12m/part.tar --val-data /d/imagenet/val")
    assert "imagenet" not in str(facts.value("dataset")).lower()


def test_a_step_that_waits_for_a_counter_is_not_every_step(tmp_path: Path, kit: SimpleNamespace) -> None:
    waits = LOOP.replace("        opt.step()", "        if n - last >= accumulate:\n            opt.step()")
    head = f"{HEAD}import zoo\nn, last, accumulate = zoo.n(), zoo.n(), zoo.n()\nmodel = Blocks()\n"
    kit.grow(tmp_path, {"train.py": f"{head}{ADAM}{waits}"})
    assert kit.read(tmp_path, "python train.py").value("grad_accum") is None


def test_a_program_told_to_evaluate_only(tmp_path: Path, kit: SimpleNamespace) -> None:
    test = """
model.load_state_dict(torch.load(args.resume))
if args.eval:
    with torch.no_grad():
        for x, y in loader:
            accuracy = nn.functional.cross_entropy(model.eval()(x), y)
    exit(0)
"""
    kit.grow(tmp_path, {"main.py": f"{HEAD}model = Blocks()\n{ADAM}{test}{LOOP}"})
    facts = kit.read(tmp_path, "python main.py --eval --resume best.pth")
    assert kit.values(facts, "workload_type", "checkpoints", "epochs") == ("eval", False, None)
    assert kit.read(tmp_path, "python main.py").value("workload_type") == "train"


def test_a_program_that_writes_data_prepares_them(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = "import tensorflow as tf\nout = tf.python_io.TFRecordWriter('x')\nout.write(open('in.txt').read())\n"
    kit.grow(tmp_path, {"create_records.py": text})
    assert kit.read(tmp_path, "python create_records.py").value("workload_type") == "preprocess"
