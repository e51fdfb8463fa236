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
