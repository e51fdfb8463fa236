"""What a log measures beside its progress, under one name each."""

from __future__ import annotations

import pytest

from analyzers.logs.fields import pairs
from analyzers.logs.measures import measures


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("iter 20: loss 3.1, time 245.10ms, mfu 38.20%", {"mfu": 0.382}),
        ("step: 10 loss: 8.2 grad_norm: 1.52 tps: 5,512 tflops: 310.2 mfu: 31.36%",
         {"grad_norm": 1.52, "tokens_per_second": 5512, "tflops": 310.2, "mfu": 0.3136}),
        ("iteration 5/ 90 | learning rate: 1.5E-04 | loss scale: 1.0 | grad norm: 1.021 | "
         "throughput per GPU (TFLOP/s/GPU): 210.3 |",
         {"learning_rate": 1.5e-4, "loss_scale": 1.0, "grad_norm": 1.021, "tflops_per_gpu": 210.3}),
        ("{'loss': 1.7, 'grad_norm': 2.15, 'learning_rate': 4.2e-05, 'epoch': 0.48}",
         {"grad_norm": 2.15, "learning_rate": 4.2e-5}),
        ("{'eval_loss': 1.9, 'eval_accuracy': 0.81, 'eval_samples_per_second': 40.0}",
         {"eval_loss": 1.9, "eval_accuracy": 0.81}),
        ("step=120 RunningAvgSamplesPerSec=51.2, CurrSamplesPerSec=52.0", {"samples_per_second": 51.2}),
        ("step 7 lr 3.0e-4 tok/s 45210", {"learning_rate": 3e-4, "tokens_per_second": 45210}),
        ("step 7 at 12.4k tokens/s/gpu", {"tokens_per_second_per_gpu": 12400}),
        ("throughput 1,024 images/sec", {"samples_per_second": 1024}),
        ("gnorm 0.9 wps 5000", {"grad_norm": 0.9, "tokens_per_second": 5000}),
        ("train_acc: 71.5%", {"accuracy": 0.715}),
        ("max_grad_norm: 1.0, lr_scheduler: 1, warmup_lr 0.1, num_samples 400", None),
        ("read at 310 MB/s, 3 it/s", None),
    ],
)  # fmt: skip
def test_one_name_each(text: str, want: dict[str, float] | None) -> None:
    found = measures(text, pairs(text))
    assert (found is None) == (want is None)
    if want is not None:
        assert found == pytest.approx(want)
