"""One small program for each common style, read as a user would launch it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace


def test_plain_argparse_defaults(tmp_path: Path, kit: SimpleNamespace) -> None:
    facts = kit.read(kit.grow(tmp_path, kit.PLAIN), "python train.py")
    assert kit.values(facts, "framework", "workload_type", "task", "dataset") == (
        "pytorch",
        "train",
        "image-classification",
        "MNIST",
    )
    assert kit.values(facts, "batch_size_per_gpu", "global_batch_size", "epochs", "iter_type") == (50, 50, 7, "epoch")
    assert kit.values(facts, "optimizer", "learning_rate", "num_gpus", "num_nodes", "parallelism") == (
        "SGD",
        0.05,
        1,
        1,
        ["none"],
    )
    assert kit.values(facts, "precision", "checkpoints", "resumable", "early_stopping") == ("fp32", False, False, False)
    assert facts.value("model_params_approx") == 784 * 32 + 32 + 32 * 10
    assert facts.value("max_steps") == 1200 * 7
    evidence = facts.facts["batch_size_per_gpu"].evidence[0]
    assert (evidence.file, evidence.line) == ("train.py", 9)
    assert facts.facts["batch_size_per_gpu"].how == "default"


def test_launch_overrides_beat_defaults_and_open_dead_code(tmp_path: Path, kit: SimpleNamespace) -> None:
    facts = kit.read(
        kit.grow(tmp_path, kit.PLAIN),
        "CUDA_VISIBLE_DEVICES=0 python -u train.py --epochs=2 --batch-size 10 --save --amp",
    )
    assert kit.values(facts, "epochs", "batch_size_per_gpu", "checkpoints", "precision") == (2, 10, True, "amp-fp16")
    assert facts.facts["epochs"].how == "override"
    assert facts.facts["epochs"].evidence[0].file == "launch"


DDP = """
import os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

class Numbers(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, i):
        return i

total_batch = 256
accum = 4
def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    micro = total_batch // dist.get_world_size() // accum
    loader = DataLoader(Numbers(), batch_size=micro, sampler=DistributedSampler(Numbers()))
    model = DDP(torch.nn.Linear(4, 4).to(rank), device_ids=[rank])
    opt = torch.optim.AdamW(model.parameters(), 3e-4)
    start = 0
    if os.path.exists("last.pt"):
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        start = state["epoch"]
    for epoch in range(start, 5):
        for i, batch in enumerate(loader):
            loss = model(batch).sum() / accum
            loss.backward()
            if (i + 1) % accum == 0:
                opt.step()
                opt.zero_grad()
        if rank == 0:
            torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, "last.pt")
main()
"""


def test_ddp_sizes_follow_from_the_world(tmp_path: Path, kit: SimpleNamespace) -> None:
    facts = kit.read(kit.grow(tmp_path, {"t.py": DDP}), "torchrun --nnodes=2 --nproc_per_node 4 t.py")
    assert kit.values(facts, "num_gpus", "num_nodes", "parallelism") == (8, 2, ["ddp"])
    assert kit.values(facts, "batch_size_per_gpu", "grad_accum", "global_batch_size") == (8, 4, 256)
    assert kit.values(facts, "checkpoints", "resumable", "epochs", "learning_rate") == (True, True, 5, 3e-4)
    assert facts.value("max_steps") == 4 * 5  # ceil(ceil(1000 / 8) / 8) = 16 batches, 4 steps


def test_unknown_world_is_not_guessed(tmp_path: Path, kit: SimpleNamespace) -> None:
    facts = kit.read(kit.grow(tmp_path, {"t.py": DDP}), "torchrun --nproc_per_node=gpu t.py")
    assert kit.values(facts, "num_gpus", "batch_size_per_gpu") == (None, None)
    assert facts.value("parallelism") == ["ddp"]


def test_sbatch_script_with_variables(tmp_path: Path, kit: SimpleNamespace) -> None:
    script = """#!/bin/bash
#SBATCH --nodes=3
#SBATCH --gres=gpu:a100:4   # per node
#SBATCH --ntasks-per-node=1
GPUS=4
LR=${LR:-0.01}
ARGS=( --epochs $((2 * 3)) --lr "$LR" )
if [ "$1" == "big" ]; then BATCH=64; else BATCH=16; fi
srun torchrun --nnodes $SLURM_NNODES \\
    --nproc_per_node=$GPUS \\
    $HOME/somewhere/train.py "${ARGS[@]}" \\
    --batch-size $BATCH
"""
    tree = kit.grow(tmp_path, {**kit.PLAIN, "run.sbatch": script})
    facts = kit.read(tree, "sbatch run.sbatch big")
    assert kit.values(facts, "num_gpus", "num_nodes", "epochs", "batch_size_per_gpu") == (12, 3, 6, 64)
    assert facts.value("learning_rate") == 0.01
    where = facts.facts["epochs"].evidence[0]
    assert (where.file, where.line) == ("run.sbatch", 11)
    assert kit.read(tree, "LR=0.5 sbatch run.sbatch").value("batch_size_per_gpu") == 16


def test_megatron_style_launch_without_its_source(tmp_path: Path, kit: SimpleNamespace) -> None:
    script = """
GPT="--num-layers 24 --hidden-size 2048 --seq-length 1024 --micro-batch-size 4 --global-batch-size 512"
PAR="--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"
python -m torch.distributed.run --nproc_per_node 8 --nnodes 4 $MEGATRON/pretrain_gpt.py $GPT $PAR --bf16 \\
   --lr 1e-4 --optimizer adam --train-iters 1000 --save $CKPT --load $CKPT
"""
    facts = kit.read(kit.grow(tmp_path, {"go.sh": script}), "bash go.sh")
    assert kit.values(facts, "num_gpus", "num_nodes", "precision", "max_steps", "seq_len") == (
        32,
        4,
        "bf16",
        1000,
        1024,
    )
    assert facts.value("parallelism") == ["tp", "pp", "ddp"]
    assert kit.values(facts, "batch_size_per_gpu", "global_batch_size", "grad_accum") == (4, 512, 16)
    assert kit.values(facts, "checkpoints", "resumable", "learning_rate", "optimizer") == (True, True, 1e-4, "Adam")


def test_accelerate_with_its_yaml(tmp_path: Path, kit: SimpleNamespace) -> None:
    train = """
import torch
from accelerate import Accelerator
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification
def main():
    acc = Accelerator(gradient_accumulation_steps=2)
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
    loader = torch.utils.data.DataLoader(load_dataset("glue", "mrpc")["train"], shuffle=True, batch_size=16)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model, opt, loader = acc.prepare(model, opt, loader)
    for epoch in range(3):
        for batch in loader:
            with acc.accumulate(model):
                acc.backward(model(**batch).loss)
                opt.step()
    acc.save_state("out")
main()
"""
    config = "distributed_type: FSDP\nnum_processes: 8\nnum_machines: 2\nmixed_precision: bf16\n"
    tree = kit.grow(tmp_path, {"nlp.py": train, "acc.yaml": config})
    facts = kit.read(tree, "accelerate launch --config_file acc.yaml nlp.py")
    assert kit.values(facts, "num_gpus", "num_nodes", "parallelism", "precision") == (8, 2, ["fsdp"], "bf16")
    assert kit.values(facts, "grad_accum", "global_batch_size", "workload_type", "task") == (
        2,
        256,
        "finetune",
        "text-classification",
    )
    bare = kit.read(tree, "accelerate launch nlp.py")
    assert kit.values(bare, "num_gpus", "num_nodes", "precision", "parallelism") == (None, None, None, None)


def test_deepspeed_configuration_file(tmp_path: Path, kit: SimpleNamespace) -> None:
    train = """
import argparse, deepspeed, torch
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10)
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()
net = torch.nn.Linear(8, 8)
engine, opt, loader, _ = deepspeed.initialize(args=args, model=net, training_data=[1])
for step in range(args.steps):
    loss = engine(torch.ones(8)).sum()
    engine.backward(loss)
    engine.step()
engine.save_checkpoint("out")
"""
    config = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 3},
              "bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": {"lr": 0.0002}}}  # fmt: skip
    tree = kit.grow(tmp_path, {"ds.py": train, "ds.json": json.dumps(config)})
    facts = kit.read(tree, "deepspeed --num_gpus 4 ds.py --deepspeed --deepspeed_config ds.json --steps 77")
    assert kit.values(facts, "parallelism", "precision", "optimizer", "learning_rate") == (
        ["zero3"],
        "bf16",
        "AdamW",
        0.0002,
    )
    assert kit.values(facts, "batch_size_per_gpu", "grad_accum", "global_batch_size", "max_steps") == (4, 2, 32, 77)
    assert facts.value("iter_type") == "step"


def test_hydra_tree_with_overrides(tmp_path: Path, kit: SimpleNamespace) -> None:
    files = {
        "conf/config.yaml": "defaults:\n  - _self_\n  - trainer: cpu\n  - experiment: null\n"
        "lr: 0.1\ndata:\n  batch_size: ${base}\nbase: 24\n",
        "conf/trainer/cpu.yaml": "accelerator: cpu\ndevices: 1\nmax_epochs: 4\n",
        "conf/trainer/gpu.yaml": "defaults:\n  - cpu\naccelerator: gpu\ndevices: 2\nstrategy: ddp\n",
        "conf/experiment/big.yaml": "# @package _global_\ndefaults:\n  - override /trainer: gpu\n"
        "lr: 0.3\ntrainer:\n  max_epochs: 9\n",
        "main.py": """
import hydra, torch
import lightning as L
class Lit(L.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Linear(2, 2)
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
    def train_dataloader(self):
        return torch.utils.data.DataLoader([0], batch_size=cfg_batch)
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    global cfg_batch
    cfg_batch = cfg.data.batch_size
    trainer = L.Trainer(**cfg.trainer)
    trainer.fit(Lit(cfg.lr))
main()
""",
    }
    tree = kit.grow(tmp_path, files)
    facts = kit.read(tree, "python main.py experiment=big trainer.devices=4 +extra=1")
    assert kit.values(facts, "framework", "num_gpus", "parallelism", "epochs") == ("pytorch-lightning", 4, ["ddp"], 9)
    assert kit.values(facts, "learning_rate", "optimizer", "checkpoints") == (0.3, "Adam", True)
    assert kit.read(tree, "python main.py base=7").value("batch_size_per_gpu") == 7
    plain = kit.read(tree, "python main.py lr=1e-4 trainer=cpu")
    assert kit.values(plain, "num_gpus", "epochs", "learning_rate") == (0, 4, 1e-4)


def test_configuration_by_exec_and_equals_signs(tmp_path: Path, kit: SimpleNamespace) -> None:
    files = {
        "train.py": """
import torch
batch_size = 12
max_iters = 600
learning_rate = 6e-4
device = "cuda"
exec(open("configure.py").read())
model = torch.nn.Linear(3, 3).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=learning_rate)
step = 0
while True:
    x = torch.randn(batch_size, 3)
    model(x).sum().backward()
    opt.step()
    step += 1
    if step > max_iters:
        break
""",
        "configure.py": """
import sys
from ast import literal_eval
for arg in sys.argv[1:]:
    if "=" not in arg:
        exec(open(arg).read())
    else:
        key, val = arg.split("=")
        key = key[2:]
        if key in globals():
            try:
                attempt = literal_eval(val)
            except ValueError:
                attempt = val
            globals()[key] = attempt
""",
        "small.py": "batch_size = 4\nlearning_rate = 1e-3\n",
    }
    facts = kit.read(kit.grow(tmp_path, files), "python train.py small.py --max_iters=50 --device=cpu")
    assert kit.values(facts, "max_steps", "iter_type", "learning_rate", "num_gpus") == (50, "step", 1e-3, 0)
    assert facts.value("batch_size_per_gpu") == 4


def test_trainer_arguments_through_the_command_line(tmp_path: Path, kit: SimpleNamespace) -> None:
    train = """
from dataclasses import dataclass, field
from transformers import HfArgumentParser, TrainingArguments, Trainer, AutoModelForCausalLM
from datasets import load_dataset
@dataclass
class ModelArguments:
    model_name: str = field(default="gpt2")
    max_seq_length: int = 512
def main():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained(model_args.model_name)
    data = load_dataset("wikitext", "wikitext-2-raw-v1")
    block = model_args.max_seq_length
    trainer = Trainer(model=model, args=training_args, train_dataset=data["train"])
    trainer.train()
main()
"""
    facts = kit.read(
        kit.grow(tmp_path, {"clm.py": train}),
        "torchrun --nproc_per_node 2 clm.py --model_name gpt2-large --per_device_train_batch_size 2 "
        "--gradient_accumulation_steps 8 --bf16 --output_dir out --num_train_epochs 5 --gradient_checkpointing",
    )
    assert kit.values(facts, "model", "model_params_approx", "task") == ("gpt2-large", 774030080, "language-modeling")
    assert kit.values(facts, "batch_size_per_gpu", "grad_accum", "global_batch_size", "epochs") == (2, 8, 32, 5)
    assert kit.values(facts, "precision", "activation_checkpointing", "checkpoints", "workload_type") == (
        "bf16",
        True,
        True,
        "finetune",
    )
    assert kit.values(facts, "seq_len", "learning_rate", "parallelism") == (512, 5e-5, ["ddp"])


def test_jax_flags_and_config_file(tmp_path: Path, kit: SimpleNamespace) -> None:
    files = {
        "main.py": """
from absl import app, flags
from ml_collections import config_flags
import jax, train
FLAGS = flags.FLAGS
config_flags.DEFINE_config_file("config", None, "config")
def main(argv):
    train.run(FLAGS.config)
if __name__ == "__main__":
    app.run(main)
""",
        "train.py": """
import jax, optax
import tensorflow_datasets as tfds
from flax.training import train_state
def step(state, batch):
    return state.apply_gradients(grads=1)
def run(config):
    data = tfds.load(config.dataset, split="train").batch(config.batch_size)
    tx = optax.adam(config.lr * config.batch_size / 256)
    state = train_state.TrainState.create(apply_fn=None, params=None, tx=tx)
    p_step = jax.jit(step)
    for epoch in range(config.num_epochs):
        for batch in data:
            state = p_step(state, batch)
""",
        "configs/base.py": """
import ml_collections
def get_config():
    c = ml_collections.ConfigDict()
    c.lr = 0.1
    c.batch_size = 512
    c.num_epochs = 10
    c.dataset = "cifar10"
    return c
""",
    }
    facts = kit.read(kit.grow(tmp_path, files), "python main.py --config=configs/base.py --config.num_epochs=20")
    assert kit.values(facts, "framework", "epochs", "learning_rate", "optimizer", "dataset") == (
        "jax",
        20,
        0.2,
        "Adam",
        "cifar10",
    )
    assert facts.value("batch_size_per_gpu") == 512


def test_keras_fit(tmp_path: Path, kit: SimpleNamespace) -> None:
    code = """
import tensorflow as tf
(x, y), _ = tf.keras.datasets.cifar10.load_data()
model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
model.compile(optimizer=tf.keras.optimizers.Adam(1e-4), loss="mse")
stop = tf.keras.callbacks.EarlyStopping(patience=3)
model.fit(x, y, batch_size=96, epochs=11, callbacks=[stop])
model.save("m.keras")
"""
    facts = kit.read(kit.grow(tmp_path, {"k.py": code}), "python3 k.py")
    assert kit.values(facts, "framework", "epochs", "batch_size_per_gpu", "early_stopping") == (
        "tensorflow",
        11,
        96,
        True,
    )
    assert kit.values(facts, "checkpoints", "dataset", "optimizer", "learning_rate") == (True, "CIFAR-10", "Adam", 1e-4)


def test_notebook(tmp_path: Path, kit: SimpleNamespace) -> None:
    loop = "for epoch in range(epochs):\n  for b in data:\n    model(b).backward()\n    opt.step()\n"
    cells = [
        "%matplotlib inline\nimport torch\n",
        "epochs = 6\nmodel = torch.nn.Linear(1, 1)\n!pip install x\n",
        "opt = torch.optim.Adam(model.parameters())\n" + loop,
    ]
    book = {"cells": [{"cell_type": "code", "source": c.splitlines(keepends=True)} for c in cells], "nbformat": 4}
    tree = kit.grow(tmp_path, {"n.ipynb": json.dumps(book, indent=1)})
    facts = kit.read(tree, "jupyter nbconvert --to notebook --execute n.ipynb")
    assert kit.values(facts, "epochs", "optimizer", "learning_rate", "num_gpus") == (6, "Adam", 1e-3, 0)
    where = facts.facts["optimizer"].evidence[0]
    assert "torch.optim.Adam" in (tmp_path / "n.ipynb").read_text().splitlines()[where.line - 1]


def test_click_typer_and_fire(tmp_path: Path, kit: SimpleNamespace) -> None:
    body = """
    import torch
    m = torch.nn.Linear(2, 2)
    o = torch.optim.SGD(m.parameters(), lr=lr)
    for epoch in range(epochs):
        for b in torch.utils.data.DataLoader([0], batch_size=3):
            m(b).backward(); o.step()
"""
    click = f"""
import click
@click.command()
@click.option('--epochs', default=5)
@click.option('-r', '--lr', type=float, default=.1)
def main(epochs, lr):{body}
if __name__ == '__main__':
    main()
"""
    typer = f"""
import typer
app = typer.Typer()
@app.command()
def main(epochs: int = 5, lr: float = typer.Option(0.1, '--rate')):{body}
app()
"""
    fire = f"import fire\ndef train(epochs=5, lr=0.1):{body}\nfire.Fire(train)\n"
    tree = kit.grow(tmp_path, {"c.py": click, "t.py": typer, "f.py": fire})
    assert kit.values(kit.read(tree, "python c.py -r 0.7"), "epochs", "learning_rate") == (5, 0.7)
    assert kit.values(kit.read(tree, "python t.py --epochs 8 --rate 0.2"), "epochs", "learning_rate") == (8, 0.2)
    assert kit.values(kit.read(tree, "python f.py --epochs=9"), "epochs", "learning_rate") == (9, 0.1)


def test_evaluation_inference_and_preprocessing(tmp_path: Path, kit: SimpleNamespace) -> None:
    files = {
        "gen.py": """
import torch
from transformers import AutoModelForCausalLM
m = AutoModelForCausalLM.from_pretrained('facebook/opt-1.3b', torch_dtype=torch.float16).cuda()
m.generate(torch.ones(1))
""",
        "prep.py": """
from datasets import load_dataset
import tiktoken
enc = tiktoken.get_encoding('gpt2')
d = load_dataset('openwebtext').map(enc.encode_ordinary)
d.save_to_disk('out')
""",
    }
    tree = kit.grow(tmp_path, files)
    generation = kit.read(tree, "python gen.py")
    assert kit.values(generation, "workload_type", "model", "precision", "checkpoints") == (
        "inference",
        "facebook/opt-1.3b",
        "amp-fp16",
        False,
    )
    assert generation.value("optimizer") is None
    preparation = kit.read(tree, "python prep.py")
    assert kit.values(preparation, "workload_type", "framework", "num_gpus", "task") == (
        "preprocess",
        "none",
        0,
        "tokenization",
    )
    assert preparation.value("batch_size_per_gpu") is None


def test_unbounded_run_that_stops_on_a_goal(tmp_path: Path, kit: SimpleNamespace) -> None:
    code = """
import gymnasium as gym, torch
from itertools import count
env = gym.make("CartPole-v1")
net = torch.nn.Linear(4, 2)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
def finish():
    net(torch.ones(4)).sum().backward()
    opt.step()
reward = 0.0
for episode in count(1):
    for t in range(1, 5000):
        state, r, done, _, _ = env.step(0)
        if done:
            break
    reward = 0.9 * reward + r
    finish()
    if reward > env.spec.reward_threshold:
        break
"""
    facts = kit.read(kit.grow(tmp_path, {"rl.py": code}), "python rl.py")
    assert kit.values(facts, "iter_type", "early_stopping", "task", "num_gpus") == (
        "unbounded",
        True,
        "reinforcement-learning",
        0,
    )
    assert kit.values(facts, "epochs", "max_steps") == (None, None)


def test_values_set_but_never_used_do_not_count(tmp_path: Path, kit: SimpleNamespace) -> None:
    code = """
import torch
class Config:
    batch_size = 777
    lr = 0.5
cfg = Config()
m = torch.nn.Linear(1, 1)
o = torch.optim.Adam(m.parameters(), lr=cfg.lr)
for step in range(30):
    m(torch.ones(1)).backward()
    o.step()
"""
    facts = kit.read(kit.grow(tmp_path, {"a.py": code}), "python a.py")
    assert kit.values(facts, "batch_size_per_gpu", "learning_rate", "max_steps") == (None, 0.5, 30)


def test_the_request_tells_how_many_devices_a_program_finds(tmp_path: Path, kit: SimpleNamespace) -> None:
    code = """
import torch
m = torch.nn.DataParallel(torch.nn.Linear(1, 1)).cuda()
o = torch.optim.Adam(m.parameters())
for epoch in range(2):
    for b in torch.utils.data.DataLoader([0], batch_size=64 * torch.cuda.device_count()):
        m(b).backward()
        o.step()
"""
    tree = kit.grow(tmp_path, {"dp.py": code})
    unknown = kit.read(tree, "python dp.py")
    assert kit.values(unknown, "num_gpus", "global_batch_size", "parallelism") == (None, None, ["dp"])
    known = kit.read(tree, "python dp.py", gpus=4)
    assert kit.values(known, "num_gpus", "global_batch_size") == (4, 256)
