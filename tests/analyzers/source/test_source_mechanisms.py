"""Ways in which programs set a rate, a batch or a length that are easily read past."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

JAX = """
from absl import app, flags
import jax, optax
import flax.linen as nn
import tensorflow_datasets as tfds
from flax.training import train_state
F = flags.FLAGS
flags.DEFINE_integer("per_device_batch_size", 24, "")
flags.DEFINE_float("peak", 3e-4, "")

class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(x)

def main(_):
    schedule = {schedule}
    data = tfds.load("mnist", split="train").batch(F.per_device_batch_size * jax.device_count())
    net = Net()
    state = train_state.TrainState.create(apply_fn=net.apply, params={{}}, tx=optax.adam(schedule))

    {decorator}
    def step(state, batch):
        grads = jax.grad(lambda p: net.apply(p, batch).sum())(state.params)
        return state.apply_gradients(grads=grads)

    for i, batch in zip(range(500), data):
        state = step(state, batch)

app.run(main)
"""


@pytest.mark.parametrize(
    ("schedule", "rate"),
    [
        ("optax.warmup_cosine_decay_schedule(0.0, F.peak, 100, 500)", 3e-4),
        ("optax.warmup_cosine_decay_schedule(0.0, peak_value=F.peak, warmup_steps=100, decay_steps=500)", 3e-4),
        ("optax.warmup_exponential_decay_schedule(1e-5, F.peak, 100, 50, 0.5)", 3e-4),
        ("optax.linear_schedule(0.0, F.peak, 100)", 3e-4),
        ("optax.linear_onecycle_schedule(500, F.peak)", 3e-4),
        ("optax.cosine_decay_schedule(F.peak, 500)", 3e-4),
        ("optax.join_schedules([optax.linear_schedule(0., F.peak, 9), optax.constant_schedule(1e-5)], [9])", 3e-4),
        ("optax.constant_schedule(0.0)", None),
        ("optax.warmup_cosine_decay_schedule(0.0, unknown(), 100, 500)", None),
    ],
)
def test_the_peak_of_a_schedule_by_position(
    tmp_path: Path, kit: SimpleNamespace, schedule: str, rate: float | None
) -> None:
    kit.grow(tmp_path, {"train.py": JAX.format(schedule=schedule, decorator="@jax.jit")})
    assert kit.read(tmp_path, "python train.py").value("learning_rate") == rate


@pytest.mark.parametrize("decorator", ["@jax.pmap", "@functools.partial(jax.pmap, axis_name='batch')"])
def test_a_batch_for_each_device_is_not_multiplied(tmp_path: Path, kit: SimpleNamespace, decorator: str) -> None:
    text = "import functools\n" + JAX.format(schedule="1e-3", decorator=decorator)
    kit.grow(tmp_path, {"train.py": text})
    names = ("batch_size_per_gpu", "global_batch_size", "num_gpus", "parallelism")
    assert kit.values(kit.read(tmp_path, "python train.py"), *names) == (24, None, None, ["dp"])
    assert kit.values(kit.read(tmp_path, "python train.py", gpus=4), *names) == (24, 96, 4, ["dp"])


YAML = {
    "conf/base.yml": "optim:\n  lr: 2e-5\n  name: adamw\ndata: {batch: 4}\nrun: {epochs: 3}\n",
    "settings.py": """
import yaml
def read(path, changes):
    cfg = yaml.safe_load(open(path))
    for change in changes:
        name, text = change.split("=", 1)
        *sections, last = name.split(".")
        part = cfg
        for section in sections:
            part = part.setdefault(section, {})
        part[last] = yaml.safe_load(text)
    return cfg
""",
    "train.py": """
import argparse, torch, torchvision
from settings import read
p = argparse.ArgumentParser()
p.add_argument("--conf")
p.add_argument("--opt", nargs="*", default=[])
a = p.parse_args()
cfg = read(a.conf, a.opt)
model = torchvision.models.resnet18().cuda()
opt = torch.optim.AdamW(model.parameters(), lr=cfg["optim"]["lr"])
loader = torch.utils.data.DataLoader(torchvision.datasets.CIFAR10("d"), batch_size=cfg["data"]["batch"])
for epoch in range(cfg["run"]["epochs"]):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad(); loss.backward(); opt.step()
""",
}


def test_dotted_changes_of_a_home_made_configuration(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, YAML)
    names = ("learning_rate", "batch_size_per_gpu", "epochs")
    assert kit.values(kit.read(tmp_path, "python train.py --conf conf/base.yml"), *names) == (2e-5, 4, 3)
    facts = kit.read(tmp_path, "python train.py --conf conf/base.yml --opt optim.lr=1e-3 data.batch=16 run.epochs=9")
    assert kit.values(facts, *names) == (1e-3, 16, 9)
    assert facts.facts["learning_rate"].evidence[0].file == "launch"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("first, *rest = [3, 5, 7]", "first"),
        ("*rest, last = [5, 7, 3]", "last"),
        ("one, *_, two = [3, 4, 5]", "one"),
        ("*empty, only = [3]", "only"),
        ("one, *middle, two = [9, 3, 9]; (only,) = middle", "only"),
    ],
)
def test_starred_targets(tmp_path: Path, kit: SimpleNamespace, written: str, found: str) -> None:
    text = kit.PLAIN["train.py"].replace("range(args.epochs)", f"range({found})")
    kit.grow(
        tmp_path, {**kit.PLAIN, "train.py": text.replace("    args = get_args()", f"    args = get_args(); {written}")}
    )
    assert kit.read(tmp_path, "python train.py").value("epochs") == 3


ENGINE = """
import argparse, deepspeed, torch
from transformers import AutoModelForCausalLM
p = argparse.ArgumentParser()
p.add_argument("--rate", type=float)
p = deepspeed.add_config_arguments(p)
a = p.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2")
engine, optimizer, loader, _ = deepspeed.initialize(args=a, model=model, training_data=[1, 2])
if a.rate is not None:
    for group in optimizer.param_groups:
        group["lr"] = a.rate
for epoch in range(2):
    for batch in loader:
        engine.backward(engine(batch).loss)
        engine.step()
"""


def test_a_rate_put_into_the_parameter_groups_goes_before_the_configuration(
    tmp_path: Path, kit: SimpleNamespace
) -> None:
    config = '{"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}}'
    kit.grow(tmp_path, {"t.py": ENGINE, "ds.json": config})
    command = "deepspeed --num_gpus 2 t.py --deepspeed_config ds.json"
    assert kit.read(tmp_path, command).value("learning_rate") == 3e-4
    assert kit.read(tmp_path, command + " --rate 1e-4").value("learning_rate") == 1e-4


def test_a_rate_put_in_by_a_schedule_of_the_loop_is_not_the_rate(tmp_path: Path, kit: SimpleNamespace) -> None:
    change = "        for group in opt.param_groups:\n            group['lr'] = 1e-9\n        train_one_epoch("
    kit.grow(tmp_path, {**kit.PLAIN, "train.py": kit.PLAIN["train.py"].replace("        train_one_epoch(", change)})
    assert kit.read(tmp_path, "python train.py").value("learning_rate") == 0.05


def test_a_program_that_hands_its_words_to_megatron(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(
        tmp_path,
        {
            "pretrain_gpt.py": "import torch\nfrom megatron.training import pretrain\n"
            "if __name__ == '__main__':\n    pretrain(None, None, None, None)\n",
            "job.sbatch": '#!/bin/bash\n#SBATCH -N 1\nLR=${LR:-3e-4}\nARGS="--num-layers 12 --hidden-size 768 \\\n'
            ' --micro-batch-size 4 --global-batch-size 64 --seq-length 1024 --train-iters 900 --lr $LR --bf16"\n'
            "srun torchrun --nproc_per_node 8 pretrain_gpt.py $ARGS\n",
        },
    )
    facts = kit.read(tmp_path, "env LR=1e-4 sbatch job.sbatch")
    names = ("learning_rate", "batch_size_per_gpu", "global_batch_size", "max_steps", "seq_len", "precision")
    assert kit.values(facts, *names) == (1e-4, 4, 64, 900, 1024, "bf16")
    assert facts.value("workload_type") == "train"


HF = """
from dataclasses import dataclass, field
from datasets import load_dataset
from transformers import (AutoModelForSequenceClassification, AutoTokenizer, HfArgumentParser, Trainer,
                          TrainingArguments)
@dataclass
class Data:
    longest: int = field(default=320)
data_args, args = HfArgumentParser((Data, TrainingArguments)).parse_args_into_dataclasses()
tok = AutoTokenizer.from_pretrained("bert-base-uncased")
def cut(rows):
    return tok(rows["text"], truncation=True, max_length=data_args.longest)
data = load_dataset("imdb").map(cut, batched=True)
Trainer(model=AutoModelForSequenceClassification.from_pretrained("bert-base-uncased"), args=args,
        train_dataset=data["train"]).train()
"""


def test_the_length_that_a_mapped_function_cuts_to(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {"t.py": HF})
    assert kit.read(tmp_path, "python t.py --output_dir o").value("seq_len") == 320
    assert kit.read(tmp_path, "python t.py --output_dir o --longest 64").value("seq_len") == 64


KERAS = """
import tensorflow as tf
import tensorflow_datasets as tfds
strategy = {strategy}
SIZE = 48 * strategy.num_replicas_in_sync
with strategy.scope():
    model = tf.keras.applications.ResNet50(classes=10)
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse")
model.fit(tfds.load("cifar10", split="train", as_supervised=True).batch(SIZE), epochs=2)
"""


@pytest.mark.parametrize(
    ("strategy", "gpus", "expected"),
    [
        ("tf.distribute.MirroredStrategy(devices=['/gpu:0', '/gpu:1'])", None, (48, 96, 2)),
        ("tf.distribute.MirroredStrategy()", None, (48, None, None)),
        ("tf.distribute.MirroredStrategy()", 4, (48, 192, 4)),
        ("tf.distribute.get_strategy()", None, (48, 48, 1)),
    ],
)
def test_keras_batches_for_each_replica(
    tmp_path: Path, kit: SimpleNamespace, strategy: str, gpus: int | None, expected: tuple[int | None, ...]
) -> None:
    kit.grow(tmp_path, {"t.py": KERAS.format(strategy=strategy)})
    facts = kit.read(tmp_path, "python t.py", **({"gpus": gpus} if gpus else {}))
    assert kit.values(facts, "batch_size_per_gpu", "global_batch_size", "num_gpus") == expected


def test_leaving_the_function_bounds_the_steps_like_leaving_the_loop(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
import argparse, torch, torchvision
def main():
    p = argparse.ArgumentParser()
    p.add_argument("--stop-after", type=int, default=0)
    a = p.parse_args()
    model = torchvision.models.resnet18().cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torchvision.datasets.CIFAR10("d"), batch_size=50)
    step = 0
    for epoch in range(30):
        for x, y in loader:
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            opt.step()
            step += 1
            if a.stop_after and step >= a.stop_after:
                return
main()
"""
    kit.grow(tmp_path, {"t.py": text})
    assert kit.values(kit.read(tmp_path, "python t.py"), "epochs", "max_steps") == (30, 30_000)
    assert kit.values(kit.read(tmp_path, "python t.py --stop-after 20"), "max_steps", "iter_type") == (20, "step")


COUNTED = """
import torch, torchvision
model = torchvision.models.resnet18().cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torchvision.datasets.CIFAR10("d"), batch_size=4)
state = {"seen": 0, "done": 0}
limit, every = LIMIT
for x, y in loader:
    if state["seen"] >= limit:
        break
    state["seen"] += 1
    torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    if state["seen"] % every == 0:
        opt.step()
        state["done"] += 1
"""


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("1000, 10", (100, 10, "step")),  # batches are counted; every tenth makes a step
        ("1000, 64 // torch.cuda.device_count()", (None, None, "step")),
        ("50000 // torch.cuda.device_count(), 1", (None, 1, "step")),
    ],
)  # fmt: skip
def test_batches_that_are_counted_and_steps_that_are_made(
    tmp_path: Path, kit: SimpleNamespace, limit: str, expected: tuple[object, ...]
) -> None:
    facts = kit.read(kit.grow(tmp_path, {"train.py": COUNTED.replace("LIMIT", limit)}), "python train.py")
    assert kit.values(facts, "max_steps", "grad_accum", "iter_type") == expected


NAMED = """
import argparse
class Node(dict): ...
p = argparse.ArgumentParser()
p.add_argument("--batch", type=int)
p.add_argument("--conf", default="conf.yaml")
a = p.parse_args()
def given(name):
    return hasattr(a, name) and eval(f"a.{name}")
import os, yaml, torch, torchvision
from pathlib import Path
conf = {"batch": 3, "rate": 0.5}
here = Path(__file__).resolve().parent
if os.path.isfile(here / a.conf):
    conf.update(yaml.safe_load(open(here / a.conf)))
if given("batch"):
    conf["batch"] = a.batch
rate = conf.get("rate") or 0.1
model = torchvision.models.resnet18().cuda()
opt = torch.optim.SGD(model.parameters(), lr=rate)
for x, y in torch.utils.data.DataLoader(torchvision.datasets.CIFAR10("d"), batch_size=conf["batch"]):
    torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("words", "expected"), [("", (7, 0.25)), ("--batch 9", (9, 0.25)), ("--conf no.yaml", (3, 0.5))]
)
def test_names_that_are_evaluated_and_files_beside_the_program(
    tmp_path: Path, kit: SimpleNamespace, words: str, expected: tuple[object, ...]
) -> None:
    kit.grow(tmp_path, {"sub/train.py": NAMED, "sub/conf.yaml": "batch: 7\nrate: 0.25\n"})
    got = kit.values(kit.read(tmp_path, f"python sub/train.py {words}"), "batch_size_per_gpu", "learning_rate")
    assert got == expected or (got == (None, None) and "no.yaml" in words)


SETTINGS = """
from dataclasses import dataclass
import torch, torchvision, yaml
@dataclass
class Settings:
    rate: float = 0.1
    rounds: int = 10
    batch: int = 4
s = Settings(GIVEN)
model = torchvision.models.resnet18().cuda()
opt = torch.optim.SGD(model.parameters(), lr=s.rate)
for step in range(s.rounds):
    torch.nn.functional.cross_entropy(model(step), step).backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", (0.1, 10)),
        ("rate=0.2", (0.2, 10)),
        ("**{'rounds': 3}", (0.1, 3)),
        ("**yaml.safe_load(open('/elsewhere/x.yaml'))", (None, None)),
        ("rate=0.3, **yaml.safe_load(open('/elsewhere/x.yaml'))", (0.3, None)),
    ],
)
def test_defaults_do_not_hold_under_what_is_not_known(
    tmp_path: Path, kit: SimpleNamespace, given: str, expected: tuple[object, ...]
) -> None:
    facts = kit.read(kit.grow(tmp_path, {"train.py": SETTINGS.replace("GIVEN", given)}), "python train.py")
    assert kit.values(facts, "learning_rate", "max_steps") == expected
