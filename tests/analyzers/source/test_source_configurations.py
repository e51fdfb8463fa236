"""Configurations that frameworks run from: Python files that inherit, trees of nodes, lazy calls."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

RUNNER = {
    "configs/_base_/data.py": """
size = 8
crop = dict(type='RandomCrop', crop_size=28)
train_dataloader = dict(batch_size=size * 2, dataset=dict(type='CIFAR10', pipeline=[crop]))
""",
    "configs/_base_/plan.py": """
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.3, momentum=0.9))
train_cfg = dict(by_epoch=True, max_epochs=40)
auto_scale_lr = dict(base_batch_size=32)
""",
    "configs/_base_/net.py": "model = dict(type='ImageClassifier', backbone=dict(type='ResNet', depth=18))\n",
    "configs/big.py": """
_base_ = ['_base_/data.py', '_base_/plan.py', '_base_/net.py']
model = dict(backbone=dict(_delete_=True, type='VisionTransformer', arch='b', with_cp=True))
train_cfg = dict(max_epochs=25)
custom_hooks = [dict(type='EMAHook'), dict(type='EarlyStoppingHook', monitor='accuracy')]
""",
    "train.py": """
import argparse
from copy import deepcopy
from mmengine.config import Config, DictAction
from mmengine.runner import Runner
p = argparse.ArgumentParser()
p.add_argument('config')
p.add_argument('--amp', action='store_true')
p.add_argument('--scale', action='store_true')
p.add_argument('--launcher', default='none')
p.add_argument('--cfg-options', nargs='+', action=DictAction)
a = p.parse_args()
cfg = Config.fromfile(a.config)
if a.amp:
    cfg.optim_wrapper.type = 'AmpOptimWrapper'
if a.scale:
    cfg.auto_scale_lr.enable = True
loader = deepcopy(dict(pin_memory=True))
loader.update(cfg.train_dataloader)
cfg.train_dataloader = loader
if a.cfg_options is not None:
    cfg.merge_from_dict(a.cfg_options)
Runner.from_cfg(cfg).train()
""",
}
FIELDS = ("framework", "workload_type", "epochs", "batch_size_per_gpu", "global_batch_size", "learning_rate",
          "optimizer", "precision", "num_gpus", "early_stopping", "image_size")  # fmt: skip


def test_a_runner_and_what_its_configuration_inherits(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, RUNNER)
    facts = kit.read(tmp_path, "python train.py configs/big.py")
    expected = ("pytorch", "train", 25, 16, 16, 0.3, "SGD", "fp32", 1, True, 28)
    assert kit.values(facts, *FIELDS) == expected
    assert kit.values(facts, "model", "activation_checkpointing") == ("ImageClassifier (VisionTransformer b)", True)
    assert {(e.file, e.line) for e in facts.facts["epochs"].evidence} == {("configs/big.py", 4)}


def test_a_runner_on_several_gpus_with_options(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, RUNNER)
    command = (
        "torchrun --nproc_per_node 4 train.py configs/big.py --launcher pytorch --amp --scale "
        "--cfg-options train_dataloader.batch_size=32 train_cfg.max_epochs=3 optim_wrapper.accumulative_counts=2"
    )
    facts = kit.read(tmp_path, command)
    # The rate is written for a batch of 32; 4 x 32 x 2 samples are learnt from at once.
    expected = ("pytorch", "train", 3, 32, 256, 2.4, "SGD", "amp-fp16", 4, True, 28)
    assert kit.values(facts, *FIELDS) == expected


def test_what_a_runner_inherits_from_elsewhere_is_not_known(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, {**RUNNER, "configs/far.py": "_base_ = 'otherpkg::_base_/schedule.py'\nwork_dir = 'x'\n"})
    facts = kit.read(tmp_path, "python train.py configs/far.py")
    assert kit.values(facts, "epochs", "learning_rate", "early_stopping", "precision") == (None,) * 4


def test_a_configuration_that_imports_its_bases(tmp_path: Path, kit: SimpleNamespace) -> None:
    pure = """
from mmengine.config import read_base
with read_base():
    from ._base_.data import *
    from ._base_.plan import *
    from ._base_.net import *
train_cfg.max_epochs = 9
optim_wrapper.update(dict(optimizer=dict(type='AdamW', lr=1e-3)))
"""
    kit.grow(tmp_path, {**RUNNER, "configs/pure.py": pure})
    facts = kit.read(tmp_path, "python train.py configs/pure.py")
    assert kit.values(facts, "epochs", "optimizer", "learning_rate", "batch_size_per_gpu") == (9, "AdamW", 1e-3, 16)


DETECTOR = {
    "setup.py": "",
    "configs/base.yaml": """
MODEL: {META_ARCHITECTURE: GeneralizedRCNN, BACKBONE: {NAME: build_resnet_fpn_backbone}}
DATASETS:
  TRAIN: ("coco_2017_train",)
  TEST: ("coco_2017_val",)
SOLVER: {IMS_PER_BATCH: 16, BASE_LR: 0.02, MAX_ITER: 900}
""",
    "configs/mask.yaml": "_BASE_: base.yaml\nMODEL: {MASK_ON: True}\nSOLVER: {MAX_ITER: 700}\n",
    "tools/net.py": """
from detectron2.config import get_cfg
from detectron2.engine import DefaultTrainer, default_argument_parser, launch
class Mine(DefaultTrainer):
    pass
def main(args):
    cfg = get_cfg()
    cfg.merge_from_file(args.config_file)
    cfg.merge_from_list(args.opts)
    if args.eval_only:
        return Mine.test(cfg, Mine.build_model(cfg))
    trainer = Mine(cfg)
    trainer.resume_or_load(resume=args.resume)
    return trainer.train()
if __name__ == "__main__":
    args = default_argument_parser().parse_args()
    launch(main, args.num_gpus, num_machines=args.num_machines, args=(args,))
""",
}
DETECTED = ("workload_type", "max_steps", "learning_rate", "global_batch_size", "batch_size_per_gpu", "num_gpus",
            "dataset", "optimizer", "checkpoints", "task")  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--num-gpus 4", ("train", 700, 0.02, 16, 4, 4, "coco_2017_train", "SGD", True, "instance-segmentation")),
        ("SOLVER.IMS_PER_BATCH 2 SOLVER.BASE_LR 0.0025",
         ("train", 700, 0.0025, 2, 2, 1, "coco_2017_train", "SGD", True, "instance-segmentation")),
        ("--eval-only MODEL.WEIGHTS /w.pth",
         ("eval", None, None, 1, 1, 1, "coco_2017_val", None, False, "instance-segmentation")),
    ],
)  # fmt: skip
def test_a_default_trainer_and_its_nodes(
    tmp_path: Path, kit: SimpleNamespace, options: str, expected: tuple[object, ...]
) -> None:
    kit.grow(tmp_path, DETECTOR)
    facts = kit.read(tmp_path / "tools", f"./net.py --config-file ../configs/mask.yaml {options}")
    assert kit.values(facts, *DETECTED) == expected


def test_nodes_that_can_not_be_read_leave_all_open(tmp_path: Path, kit: SimpleNamespace) -> None:
    kit.grow(tmp_path, DETECTOR)
    facts = kit.read(tmp_path / "tools", "./net.py --config-file /elsewhere/x.yaml --num-gpus 2")
    assert kit.values(facts, "max_steps", "learning_rate", "global_batch_size", "dataset") == (None,) * 4
    assert facts.value("num_gpus") == 2


def test_a_trainer_with_its_own_optimizer(tmp_path: Path, kit: SimpleNamespace) -> None:
    own = DETECTOR["tools/net.py"].replace(
        "    pass\n", "    @classmethod\n    def build_optimizer(cls, cfg, m): ...\n"
    )
    kit.grow(tmp_path, {**DETECTOR, "tools/net.py": own})
    facts = kit.read(tmp_path / "tools", "./net.py --config-file ../configs/mask.yaml")
    assert kit.values(facts, "optimizer", "learning_rate", "max_steps") == (None, None, 700)


LAZY = {
    "configs/common/optim.py": """
import torch
from detectron2.config import LazyCall as L
SGD = L(torch.optim.SGD)(params=L(print)(model=None), lr=0.02, momentum=0.9)
""",
    "configs/common/plan.py": "train = dict(max_iter=900, amp=dict(enabled=False))\n",
    "configs/lazy.py": """
from .common.optim import SGD as optimizer
from .common.plan import train
optimizer.lr = 0.01
train.max_iter = 800
""",
    "lazy_net.py": """
from detectron2.config import LazyConfig, instantiate
from detectron2.engine import AMPTrainer, SimpleTrainer, default_argument_parser, launch
def main(args):
    cfg = LazyConfig.apply_overrides(LazyConfig.load(args.config_file), args.opts)
    optim = instantiate(cfg.optimizer)
    trainer = (AMPTrainer if cfg.train.amp.enabled else SimpleTrainer)(None, None, optim)
    trainer.train(0, cfg.train.max_iter)
args = default_argument_parser().parse_args()
launch(main, args.num_gpus, args=(args,))
""",
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [("", (800, 0.01, "SGD", "fp32", 1)),
     ("--num-gpus 2 train.max_iter=50 optimizer.lr=1e-3 train.amp.enabled=True", (50, 1e-3, "SGD", "amp-fp16", 2))],
)  # fmt: skip
def test_lazy_configurations(tmp_path: Path, kit: SimpleNamespace, options: str, expected: tuple[object, ...]) -> None:
    kit.grow(tmp_path, LAZY)
    facts = kit.read(tmp_path, f"python lazy_net.py --config-file configs/lazy.py {options}")
    assert kit.values(facts, "max_steps", "learning_rate", "optimizer", "precision", "num_gpus") == expected


STAGES = {
    "two": ("learn.fit_one_cycle(2, 1e-3)\nlearn.fit_one_cycle(n_epoch=3, lr_max=1e-2)", 5, 0.01),
    "maybe": ("learn.fit(2, 1e-3)\nif sizes():\n    learn.fit(3, 1e-2)", None, None),
    "a loop": ("for size in sizes():\n    learn.fit(2, 1e-3)", None, 0.001),
    "plus": ("learn.to_fp16().fine_tune(4, 1e-2, freeze_epochs=2)", 6, 0.01),
    "a slice": ("learn.fit_one_cycle(4, slice(1e-5, 1e-3))", 4, None),
}


@pytest.mark.parametrize("name", STAGES)
def test_calls_that_train_one_after_the_other(tmp_path: Path, kit: SimpleNamespace, name: str) -> None:
    calls, epochs, rate = STAGES[name]
    program = "import torch\nfrom fastai.vision.all import *\nfrom mine import data, sizes\n"
    kit.grow(tmp_path, {"train.py": f"{program}learn = vision_learner(data(), resnet18)\n{calls}\n"})
    assert kit.values(kit.read(tmp_path, "python train.py"), "epochs", "learning_rate") == (epochs, rate)


DURATIONS = {
    "'10ep'": (10, None, "epoch"),
    "12": (12, None, "epoch"),
    "'700ba'": (None, 700, "step"),
    "'1e9tok'": (None, None, "step"),
    "duration()": (None, None, None),
    "'ep'": (None, None, None),
}


@pytest.mark.parametrize("duration", DURATIONS)
def test_a_number_with_its_unit(tmp_path: Path, kit: SimpleNamespace, duration: str) -> None:
    program = "from composer import Trainer\nfrom mine import model, loader, duration\n"
    kit.grow(tmp_path, {"train.py": f"{program}Trainer(model=model, max_duration={duration}).fit(loader)\n"})
    facts = kit.read(tmp_path, "composer -n 2 train.py")
    assert kit.values(facts, "epochs", "max_steps", "iter_type") == DURATIONS[duration]


def test_a_default_is_told_from_what_is_written(tmp_path: Path, kit: SimpleNamespace) -> None:
    program = "from skorch import NeuralNet\nfrom mine import Net, hooks, x\n"
    kit.grow(tmp_path, {"train.py": f"{program}NeuralNet(Net, lr=0.5, callbacks=hooks()).fit(x)\n"})
    facts = kit.read(tmp_path, "python train.py").facts
    assert (facts["epochs"].value, facts["epochs"].how) == (10, "default")
    assert (facts["learning_rate"].value, facts["learning_rate"].how) == (0.5, "literal")
    assert facts["epochs"].evidence[0].line == 3
    # What hooks() gives back may stop early.
    assert "early_stopping" not in facts or facts["early_stopping"].confidence < 0.5


@pytest.mark.parametrize("call", ["**options()", "*options()", "lr=0.1, **{'batch_size': 4, **options()}"])
@pytest.mark.parametrize("name", ["NeuralNet", "build"])
def test_arguments_that_are_not_known_leave_the_defaults_open(
    tmp_path: Path, kit: SimpleNamespace, name: str, call: str
) -> None:
    program = "from skorch import NeuralNet\nfrom mine import Net, options, x\n"
    program += "def build(*args, **more):\n    return NeuralNet(Net, *args, **more)\n"
    kit.grow(tmp_path, {"train.py": f"{program}{name}(optimizer='SGD', {call}).fit(x)\n"})
    facts = kit.read(tmp_path, "python train.py")
    assert kit.values(facts, "framework", "optimizer", "epochs") == ("pytorch", "SGD", None)
    # The options may hold those that go before these two (optimizer__lr, iterator_train__batch_size).
    assert kit.values(facts, "learning_rate", "batch_size_per_gpu") == (None, None)


def test_builtins_stay_themselves_beside_a_star(tmp_path: Path, kit: SimpleNamespace) -> None:
    program = "import torch\nfrom fastai.basics import *\nm = torch.nn.Linear(2, 2)\n"
    loop = "o = torch.optim.SGD(m.parameters(), 0.1)\n"
    loop += "for epoch in range(12):\n    for x in loader:\n        m(x).sum().backward()\n        o.step()\n"
    kit.grow(tmp_path, {"train.py": program + loop})
    assert kit.values(kit.read(tmp_path, "python train.py"), "epochs") == (12,)
