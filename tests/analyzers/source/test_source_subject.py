"""What data, which framework, which kind of work: names that say something, and names that say nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from analyzers.source.idioms.data import told_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/data/imagenet/train", "ImageNet"), ("path/to/imagenet", "ImageNet"), ("/imagenet/validation/", "ImageNet"),
        ("data-bin/wikitext-103", "WikiText-103"), ("torch/cifar100", "CIFAR-100"),
        ("datasets/imagenet64", "imagenet64"),
        ("~/data/plant_leaves_raw", "plant_leaves_raw"), ("yahma/alpaca-cleaned", "yahma/alpaca-cleaned"),
        ("reviews.csv", "reviews.csv"), ("/mnt/data/val", None), ("./data", None), ("input.txt", None),
        ("images/train", None), ("train.json", None), ("custom", None), ("2024-01-01", None),
    ],
)  # fmt: skip
def test_what_a_path_says_about_the_data(text: str, name: str | None) -> None:
    assert told_name(text) == name


@pytest.mark.parametrize(
    ("name", "dataset"), [("ImageDataset", None), ("SupervisedDataset", None), ("Cifar10Dataset", "CIFAR-10")]
)
def test_a_class_of_one_s_own_names_the_data_only_where_the_name_is_known(
    tmp_path: Path, kit: SimpleNamespace, name: str, dataset: str | None
) -> None:
    own = f"class {name}(torch.utils.data.Dataset):\n    pass\n\ndef get_args"
    text = (
        kit.PLAIN["train.py"]
        .replace("def get_args", own)
        .replace('torchvision.datasets.MNIST("data", train=True)', f"{name}()")
    )
    text = text.replace('torchvision.datasets.MNIST("data", train=False)', f"{name}()")
    kit.grow(tmp_path, {**kit.PLAIN, "train.py": text})
    assert kit.read(tmp_path, "python train.py").value("dataset") == dataset


def test_one_of_several_data_sets_that_nothing_decides_between(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
import torch, os
from datasets import load_dataset
if os.path.exists("a"):
    data = load_dataset("imdb")
else:
    data = load_dataset("ag_news")
torch.nn.Linear(2, 2)(data).sum().backward()
"""
    kit.grow(tmp_path, {"train.py": text})
    assert kit.read(tmp_path, "python train.py").value("dataset") is None


def test_a_library_for_the_logs_is_not_the_framework(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
import torch
class Logs:
    def __init__(self):
        import tensorflow as tf
        self.writer = tf.summary.create_file_writer("logs")
class Net(torch.nn.Module):
    def forward(self, x):
        return x
logs = Logs()
net = Net()
net.load_state_dict(torch.load("w.pt"))
net.eval()
with torch.no_grad():
    image = net(torch.randn(1, 3))
"""
    kit.grow(tmp_path, {"sample_images.py": text, "eval_images.py": text, "run.py": text})
    assert kit.values(kit.read(tmp_path, "python sample_images.py"), "framework", "workload_type") == (
        "pytorch", "inference",
    )  # fmt: skip
    assert kit.read(tmp_path, "python eval_images.py").value("workload_type") == "eval"
    assert kit.read(tmp_path, "python run.py").value("workload_type") is None


@pytest.mark.parametrize(
    ("line", "kind"), [("acc = accuracy_score(y, net(y))", "eval"), ("save_image(net(y), 'out.png')", "inference")]
)
def test_measuring_or_using_a_model(tmp_path: Path, kit: SimpleNamespace, line: str, kind: str) -> None:
    text = f"""
import torch, timm
from sklearn.metrics import accuracy_score
from torchvision.utils import save_image
net = timm.create_model("resnet18", pretrained=True)
net.eval()
y = torch.zeros(3)
{line}
"""
    kit.grow(tmp_path, {"run.py": text})
    assert kit.read(tmp_path, "python run.py").value("workload_type") == kind


def test_arguments_left_over_from_dataclasses(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
from dataclasses import dataclass, field
from transformers import HfArgumentParser, TrainingArguments, Trainer, AutoModelForCausalLM
@dataclass
class Model:
    name: str = field(default="gpt2")
parser = HfArgumentParser((Model, TrainingArguments))
model_args, args, rest = parser.parse_args_into_dataclasses(return_remaining_strings=True)
trainer = Trainer(model=AutoModelForCausalLM.from_pretrained(model_args.name), args=args)
trainer.train()
"""
    kit.grow(tmp_path, {"train.py": text})
    facts = kit.read(tmp_path, "python train.py --output_dir o --learning_rate 3e-5")
    assert kit.values(facts, "model", "learning_rate", "workload_type") == ("gpt2", 3e-5, "finetune")


def test_options_typed_after_their_defaults(tmp_path: Path, kit: SimpleNamespace) -> None:
    own = "p.add_argument('--epochs', type=type(7), default=7)"
    text = kit.PLAIN["train.py"].replace('p.add_argument("--epochs", type=int, default=7)', own)
    kit.grow(tmp_path, {**kit.PLAIN, "train.py": text})
    assert kit.read(tmp_path, "python train.py --epochs 12").value("epochs") == 12


@pytest.mark.parametrize(
    ("line", "dataset"),
    [
        ("torchvision.datasets.utils.download_url('u', 'r')", None),
        ("torchvision.datasets.CelebA('d')", "CelebA"),
        ("yaml.safe_load(open('coco.yaml'))\ndataset = 'coco.yaml'\nprint(dataset)", "COCO"),
    ],
)
def test_what_a_library_of_data_sets_is_used_for(
    tmp_path: Path, kit: SimpleNamespace, line: str, dataset: str | None
) -> None:
    text = f"import torch, torchvision, yaml\n{line}\ntorch.nn.Linear(2, 2)(1).sum().backward()\n"
    kit.grow(tmp_path, {"train.py": text})
    assert kit.read(tmp_path, "python train.py").value("dataset") == dataset


def test_pixels_of_a_flattened_image_are_not_its_side(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = kit.PLAIN["train.py"].replace(
        "args = get_args()", "args = get_args()\n    image_size = 784\n    print(image_size)"
    )
    kit.grow(tmp_path, {**kit.PLAIN, "train.py": text})
    assert kit.read(tmp_path, "python train.py").value("image_size") == 28
