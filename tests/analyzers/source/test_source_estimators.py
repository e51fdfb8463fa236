"""TensorFlow's Estimators, simulations learned from in minibatches, submitted tasks, schedules, own optimizers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

ESTIMATOR = """
import tensorflow as tf
flags = tf.flags
FLAGS = flags.FLAGS
flags.DEFINE_bool("use_tpu", False, "")
flags.DEFINE_integer("train_batch_size", 16, "")
flags.DEFINE_float("learning_rate", 1e-3, "")
class DecayOptimizer(tf.train.Optimizer):
    def __init__(self, learning_rate):
        self.rate = learning_rate
def model_fn(features, labels, mode, params):
    if mode == tf.estimator.ModeKeys.TRAIN:
        rate = tf.train.polynomial_decay(FLAGS.learning_rate, 0, 100)
        train_op = DecayOptimizer(learning_rate=rate).minimize(features)
    else:
        train_op = tf.train.AdamOptimizer(0.7).minimize(features)
    return tf.contrib.tpu.TPUEstimatorSpec(mode=mode, train_op=train_op)
def main(_):
    estimator = tf.contrib.tpu.TPUEstimator(
        use_tpu=FLAGS.use_tpu, model_fn=model_fn, train_batch_size=FLAGS.train_batch_size)
    estimator.train(input_fn=lambda params: None, max_steps=500)
if __name__ == "__main__":
    tf.app.run()
"""


def test_an_estimator_trains_by_its_model_function(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {"run.py": ESTIMATOR})
    facts = kit.read(tmp_path, "python run.py --train_batch_size=24 --learning_rate=2e-5")
    assert kit.values(facts, "framework", "workload_type") == ("tensorflow", "train")
    assert kit.values(facts, "global_batch_size", "batch_size_per_gpu", "max_steps") == (24, 24, 500)
    assert kit.values(facts, "optimizer", "learning_rate", "grad_accum") == ("DecayOptimizer", 2e-5, 1)
    assert kit.values(facts, "checkpoints", "resumable", "num_gpus") == (True, True, 1)
    on_tpu = kit.read(tmp_path, "python run.py --use_tpu=True")
    assert on_tpu.value("num_gpus") is None


SIMULATION = """
import gymnasium as gym
import torch
import torch.nn as nn
def make_env(name):
    def thunk():
        return gym.make(name)
    return thunk
envs = gym.vector.SyncVectorEnv([make_env("CartPole-v1") for i in range(4)])
model = nn.Linear(4, 2)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
batch = 4 * 128
for update in range(100):
    for epoch in range(4):
        for start in range(0, batch, batch // 4):
            loss = model(envs.step(start)).mean()
            loss.backward()
            opt.step()
"""


def test_each_step_learns_from_a_minibatch_of_what_was_collected(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {"ppo.py": SIMULATION})
    facts = kit.read(tmp_path, "python ppo.py")
    assert kit.values(facts, "batch_size_per_gpu", "grad_accum") == (128, 1)
    assert kit.values(facts, "task", "dataset") == ("reinforcement-learning", "CartPole-v1")


def test_a_submitted_task_knows_its_world(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
import os, submitit, torch
import torch.nn as nn
from torch.utils.data import DataLoader
def main():
    world = int(os.environ["SLURM_NTASKS"]) if "SLURM_PROCID" in os.environ else 1
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.01 * world)
    for epoch in range(2):
        for x in DataLoader([1, 2, 3], batch_size=8):
            model(x).mean().backward()
            opt.step()
executor = submitit.AutoExecutor(folder="logs")
executor.update_parameters(nodes=2, gpus_per_node=4, tasks_per_node=4)
executor.submit(main)
"""
    kit.grow(tmp_path, {"submit.py": text})
    facts = kit.read(tmp_path, "python submit.py")
    assert kit.values(facts, "num_gpus", "learning_rate", "parallelism") == (8, 0.08, ["ddp"])


def test_a_schedule_written_as_a_function_gives_its_peak(tmp_path: Path, kit: SimpleNamespace) -> None:
    text = """
import jax, optax
import jax.numpy as jnp
def schedule(base, warmup, total):
    def rate(step):
        progress = jnp.clip((step - warmup) / float(total - warmup), 0.0, 1.0)
        lr = base * 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
        return jnp.asarray(lr * jnp.minimum(1.0, step / warmup))
    return rate
tx = optax.sgd(learning_rate=schedule(0.03, 10, 100), momentum=0.9)
state = tx.init({})
for step in range(100):
    updates, state = tx.update({}, state)
    params = optax.apply_updates({}, updates)
"""
    kit.grow(tmp_path, {"train.py": text})
    facts = kit.read(tmp_path, "python train.py")
    assert kit.values(facts, "optimizer", "learning_rate") == ("SGD", 0.03)


def test_a_configuration_that_is_locked_is_still_one(tmp_path: Path, kit: SimpleNamespace) -> None:
    config = """
import ml_collections
def get_config(size):
    config = ml_collections.ConfigDict()
    config.epochs = {"small": 3, "large": 9}[size]
    config.batch = 32
    return config.lock()
"""
    text = """
from absl import app
from ml_collections import config_flags
import torch, torch.nn as nn
from torch.utils.data import DataLoader
CONFIG = config_flags.DEFINE_config_file("config")
def main(_):
    config = CONFIG.value
    model = nn.Linear(2, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(config.epochs):
        for x in DataLoader([1, 2], batch_size=config.batch):
            model(x).mean().backward()
            opt.step()
app.run(main)
"""
    kit.grow(tmp_path, {"cfg.py": config, "train.py": text})
    facts = kit.read(tmp_path, "python train.py --config=$(pwd)/cfg.py:large --config.batch=8")
    assert kit.values(facts, "epochs", "batch_size_per_gpu") == (9, 8)
