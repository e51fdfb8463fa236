# ruff: noqa: E501 (log lines are as long as they are)
"""The last checkpoint that a run can go on from: only what was written completely counts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from analyzers.logs import read_progress, restart_point
from analyzers.logs.formats import CheckpointLine, Sample, checkpoint_lines, parse_format
from analyzers.logs.intake import discover
from analyzers.logs.progress import assess
from analyzers.logs.saving import may_save, read_save
from analyzers.logs.scan import Detail, feed
from analyzers.logs.tracker import Tracker

KNOWN = [
    pytest.param(known, sample, id=f"{known.says}-{sample.line[:40]}")
    for known in checkpoint_lines()
    for sample in known.samples
]


@pytest.mark.parametrize(("known", "sample"), KNOWN)
def test_a_known_line_is_read(known: CheckpointLine, sample: Sample) -> None:
    found = read_save(sample.line)
    assert may_save(sample.line)
    assert found is not None
    assert found.says == known.says
    assert {name: getattr(found, name) for name in sample.reads} == dict(sample.reads)


def test_every_known_line_has_a_sample() -> None:
    assert all(known.samples for known in checkpoint_lines())


@pytest.mark.parametrize(
    ("text", "says", "path", "step", "epoch"),
    [
        ("Saved checkpoint to /ckpt/run7/step_4000.pt", "done", "/ckpt/run7/step_4000.pt", 4000, None),
        ("=> saving checkpoint 'model_best.pth.tar'", "begun", "model_best.pth.tar", None, None),
        ("checkpoint saved: runs/a/ckpt-1200.pt (3.1 GB in 12.4 s)", "done", "runs/a/ckpt-1200.pt", 1200, None),
        ("Checkpoint written to s3://bucket/run/epoch-12/", "done", "s3://bucket/run/epoch-12/", None, 12),
        ("wrote snapshot ./snap/iter_30000.npz", "done", "./snap/iter_30000.npz", 30000, None),
        ("Finished saving checkpoint for step 500", "done", None, 500, None),
        ("Writing model state for iteration 250 to /scratch/x/", "begun", "/scratch/x/", 250, None),
        ("Model saved at epoch 9 in ./weights/last.pth", "done", "./weights/last.pth", None, 9),
        ("failed to save checkpoint at step 900: timed out", "failed", None, 900, None),
        ("OSError: [Errno 28] No space left on device", "failed", None, None, None),
        ("RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing file data/17: file write failed", "failed", None, None, None),
        ("Removed old checkpoint ./ck/step-100", "removed", "./ck/step-100", None, None),
        ("Resuming training from ./ck/step-100", "loaded", "./ck/step-100", 100, None),
        ("resuming from ckpt_005000", "loaded", "ckpt_005000", 5000, None),
        ("Save checkpoint: output/ppyoloe", "begun", "output/ppyoloe", None, None),
        ("[rank 0] checkpoint ckpt_007000 written in 11.2s", "done", "ckpt_007000", 7000, None),
        ("Finished saving the checkpoint in 9.41 seconds.", "done", None, None, None),
        ("FSDP state dict saved to /fs/run1/gs400 (95.0 s)", "done", "/fs/run1/gs400", None, None),
        ("checkpoint saved to /data/My Runs/exp 1/step_300.pt", "done", "/data/My Runs/exp 1/step_300.pt", 300, None),
        ("Saved checkpoint to /mnt/my drive/run a/ckpt-30 in 3.2 s", "done", "/mnt/my drive/run a/ckpt-30", 30, None),
        ('Saving checkpoint to "/mnt/my drive/run a/"', "begun", "/mnt/my drive/run a/", None, None),
        ("saved /mnt/a b/model.pt (3 GB)", "done", "/mnt/a b/model.pt", None, None),
        ("Checkpoint saved to /s/run 7/epoch 3 step 900.ckpt", "done", "/s/run 7/epoch 3 step 900.ckpt", 900, 3),
        ("Resumed from '/data/My Runs/step_300.pt'", "loaded", "/data/My Runs/step_300.pt", 300, None),
        ("could not save checkpoint /data/My Runs/s_3.pt", "failed", "/data/My Runs/s_3.pt", None, None),
        ("Removed old checkpoint '/data/My Runs/step-100'", "removed", "/data/My Runs/step-100", None, None),
        ("saving checkpoint to /x and optimizer to /y", "begun", "/x", None, None),
        ("saved checkpoint to /data/a, 3 GB/s", "done", "/data/a", None, None),
        ("saved checkpoint /data/a 300/1000", "done", "/data/a", None, None),
        ("saved checkpoint /data/a 3.2 GB/s", "done", "/data/a", None, None),
        ("step 29: saved checkpoint ckpt-30", "done", "ckpt-30", 30, None),
        ("Saved checkpoint for step 500: tf_ckpts/ckpt-12", "done", "tf_ckpts/ckpt-12", 500, None),
        ("restart file run.60.rst written", "done", "run.60.rst", None, None),
        ("async_save: true", "async", None, None, None),
    ],
)  # fmt: skip
def test_lines_of_no_known_format(
    text: str, says: str, path: str | None, step: int | None, epoch: float | None
) -> None:
    found = read_save(text)
    assert may_save(text)
    assert found is not None
    assert (found.says, found.path, found.step, found.epoch) == (says, path, step, epoch)


@pytest.mark.parametrize(
    "text",
    [
        "checkpoints will be saved to /ckpt/run7 every 500 steps",
        "save_steps=500, save_total_limit=3, checkpoint_dir=/ckpt",
        "Saving logs to runs/exp3",
        "plots saved in out/curves",
        "saved 20 sample images to out/samples.png",
        "Loading checkpoint shards: 100%|##########| 4/4 [00:02<00:00,  1.9it/s]",
        "Saving the dataset (3/8 shards): 100%|####| 1000/1000",
        "Some weights of the model checkpoint at bert-base were not used",
        "activation checkpointing saves 12 GB of memory",
        "energy saving mode is on",
        "no checkpoint found in /ckpt/run7, training from scratch",
        "hyperparameters saved to hparams.yaml",
        "step 100 loss 2.1 saved_tensors 12",
    ],
)
def test_what_is_no_checkpoint(text: str) -> None:
    assert read_save(text) is None


BEFORE = [f"2025-03-04 14:{minute:02d}:00 step {10 * minute}/900 loss {3 - minute / 40:.3f}" for minute in range(1, 11)]
NEXT = "2025-03-04 14:12:00 step 110/900 loss 2.71"


def _read(folder: Path, *lines: str) -> tuple[object, object]:
    (folder / "train.log").write_text("\n".join([*BEFORE, *lines]) + "\n")
    found = read_progress(folder / "train.log")
    safe, unsafe = found.checkpoint, found.unsafe_checkpoint
    return safe and (safe.path, safe.step), unsafe and (unsafe.path, unsafe.step)


SAVE = "2025-03-04 14:10:01 Saving checkpoint to ck/step_100.pt"
AGAIN = "2025-03-04 14:12:01 Saving checkpoint to ck/step_110.pt"


@pytest.mark.parametrize(
    ("lines", "safe", "unsafe"),
    [
        ((SAVE,), None, ("ck/step_100.pt", 100)),
        ((SAVE, NEXT), ("ck/step_100.pt", 100), None),
        ((SAVE, "2025-03-04 14:10:09 checkpoint saved"), ("ck/step_100.pt", 100), None),
        ((SAVE, "OSError: [Errno 28] No space left on device", NEXT), None, ("ck/step_100.pt", 100)),
        ((SAVE, "Traceback (most recent call last):", NEXT), None, ("ck/step_100.pt", 100)),
        ((SAVE, NEXT, AGAIN), ("ck/step_100.pt", 100), ("ck/step_110.pt", 110)),
        ((SAVE, NEXT, AGAIN, "Training finished"), ("ck/step_110.pt", 110), None),
        ((SAVE, NEXT, "Deleting old checkpoint ck/step_100.pt"), None, None),
        (("saving checkpoint to out", NEXT), ("out", 100), None),
        (("saving checkpoint to out", NEXT, "saving checkpoint to out"), None, ("out", 110)),  # in the same place
        (("Resuming from checkpoint old/step_90.pt", NEXT), ("old/step_90.pt", 90), None),
        (("Resuming from checkpoint old/step_90.pt",), None, None),
        (("Scheduled async checkpoint save for ck/step=100.ckpt", NEXT), None, ("ck/step=100.ckpt", 100)),
        (("Scheduled async checkpoint save for ck/step=100.ckpt", NEXT, "Async checkpoint save for step 100 (ck/step=100.ckpt) finalized successfully."), ("ck/step=100.ckpt", 100), None),
        (("Saving the checkpoint (or staging if async is enabled).", "Finished saving the checkpoint (or staging if async is enabled)in 3.21 seconds."), (None, 100), None),
        (("async_mode = 'async'", "Saving the checkpoint (or staging if async is enabled).", "Finished saving the checkpoint (or staging if async is enabled)in 3.21 seconds."), None, (None, 100)),
    ],
)  # fmt: skip
def test_what_is_safe(tmp_path: Path, lines: tuple[str, ...], safe: object, unsafe: object) -> None:
    assert _read(tmp_path, *lines) == (safe, unsafe)


def test_its_step_is_the_last_before_it_and_its_time_that_of_the_line(tmp_path: Path) -> None:
    lines = [*BEFORE, "2025-03-04 14:10:30 model checkpoint written to /ck/latest/", NEXT]
    (tmp_path / "train.log").write_text("\n".join(lines))
    found = restart_point(tmp_path)
    assert found is not None
    assert (found.path, found.step, found.time) == ("/ck/latest/", 100, datetime(2025, 3, 4, 14, 10, 30))
    assert found.evidence.line == 11


def test_one_rank_that_did_not_finish_its_part_makes_it_unsafe(tmp_path: Path) -> None:
    for rank in range(4):
        lines = [*BEFORE, "Saving checkpoint shard at step 100", NEXT, "Saving checkpoint shard at step 110"]
        (tmp_path / f"rank_{rank}.log").write_text("\n".join(lines + ["checkpoint shard saved"] * (rank != 2)))
    found = read_progress(tmp_path)
    assert found.checkpoint is not None
    assert found.unsafe_checkpoint is not None
    assert (found.checkpoint.step, found.unsafe_checkpoint.step) == (100, 110)


def test_found_in_the_middle_of_a_large_log(tmp_path: Path) -> None:
    """Where few lines are read, and with far more of them than are read one by one before and after it."""

    def train(begin: int, end: int) -> list[str]:
        return [f"iter {step}: loss {2 + step % 7 / 9:.4f}, time 245.10ms, mfu 38.20%" for step in range(begin, end)]

    lines = [*train(1, 30_000), "checkpoint saved to ck/30000.pt", *train(30_000, 40_000)]
    (tmp_path / "train.log").write_text("\n".join(lines))
    file = discover(tmp_path / "train.log")[0]
    tracker = Tracker()
    tracker.begin(file.name, file.rank)
    feed(file, tracker, pytest.fail, Detail(16 * 1024, 64 * 1024, 48 * 1024))
    tracker.end()
    found = assess(tracker)
    assert found.checkpoint is not None
    assert found.checkpoint.path == "ck/30000.pt"
    assert dict(found.metrics) == {"mfu": pytest.approx(0.382)}


@pytest.mark.parametrize(
    "checkpoint",
    [
        "saving",
        {"says": "begun", "contains": "a"},
        {"says": "maybe", "contains": "a", "line": "a"},
        {"says": "done", "contains": "a", "line": "("},
        {"says": "done", "contains": "a", "line": "(?P<size>a)"},
    ],
)
def test_a_malformed_one_is_named(checkpoint: object) -> None:
    with pytest.raises(ValueError, match=r"bad\.yaml: checkpoints: "):
        parse_format({"name": "x", "checkpoints": [checkpoint]}, "bad.yaml")
