"""Lines that look like failures and are printed by healthy jobs: no signature may take one for a cause."""

from __future__ import annotations

import pytest

from analyzers.failures.signatures import FileSignatureStore, load_signatures

SIGNATURES = load_signatures(FileSignatureStore())
HARMLESS = (
    "WARNING: vocabulary size 50257 is not divisible by 128, padding it to 50304",
    "UserWarning: num_heads should be a multiple of 8 for the fast path",
    "Warning: environment variable HF_TOKEN is not set, using anonymous access",
    "UserWarning: Plan failed with a cudnnException: CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: cudnnFinalizeFailed "
    "cudnn_status: CUDNN_STATUS_NOT_SUPPORTED (Triggered internally at Conv_v8.cpp:919.)",
    "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.",
    "n1:12:99 [0] NCCL INFO TUNER/Plugin: Failed to find ncclTunerPlugin_v3 symbol.",
    "n1:12:99 [0] NCCL INFO NET/OFI Using aws-ofi-nccl 1.14.2",
    "n1:12:99 [0] NCCL INFO Channel 00/0 : 0[4] -> 8[4] [send] via NET/AWS Libfabric/4/GDRDMA",
    "This TensorFlow binary is optimized to use available CPU instructions in performance-critical operations.",
    "To enable the following instructions: AVX2 AVX512F FMA, rebuild TensorFlow with the appropriate compiler flags.",
    "ptxas info    : 0 bytes gmem, Used 32 registers",
    "autotuning kernel 12 of 40: best 3.1 us",
    "torch.cuda.is_available() is False, using the CPU",
    "RuntimeError: Event loop is closed",
    "Some weights of the model checkpoint were not used: ['lm_head.bias']",
    "Token indices sequence length is longer than the specified maximum sequence length for this model (700 > 512)",
    "Setting pad_token_id to eos_token_id:2 for open-end generation.",
    "The tokenizer you are loading has a chat template; using it",
    "GPU KV cache size: 400,000 tokens; maximum concurrency 12.2x",
    "srun: job 12 queued and waiting for resources",
    "srun: job 12 has been allocated resources",
    "slurmstepd: pyxis: importing docker image: nvcr/pytorch:25.01",
    "Normal  Scheduled  default-scheduler  Successfully assigned ml/train-0 to gpu-3",
    "Normal  SuccessfulAttachVolume  attachdetach-controller  AttachVolume.Attach succeeded for volume pvc-1",
    "Workload ml/train-1 admitted by ClusterQueue team-a, quota reserved after 20 s",
    "kernel: pcieport 0000:80:01.0: PME: Signaling with IRQ 40",
    "kernel: mce: CPU0 supports 32 MCE banks",
    "kernel: mlx5_core 0000:1a:00.0: firmware version: 28.39.1002",
    "kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07",
    "systemd[1]: Started nvidia-fabricmanager.service - FabricManager service.",
    "dcgm: diagnostic memory test: Pass - All",
    "lock acquired on /cache/models/x.lock after 3 s",
    "License: Apache-2.0, licensed to the public",
    "Generating train split: 100%|##########| 1000/1000 [00:01<00:00, 900 examples/s]",
    "Skipping 3 records with a duplicate key",
    "eval/exact_match: 0.41 eval/error_rate: 0.03 eval/timeout_rate: 0.0",
    "grad_norm: 1.2 loss_scale: 65536 skipped: 0",
    "Restored checkpoint 400, value from arguments kept for learning_rate",
)


@pytest.mark.parametrize("line", HARMLESS)
def test_no_cause_is_seen(line: str) -> None:
    hits = [signature for signature in SIGNATURES if signature.regex.search(line)]
    best = max(hits, key=lambda signature: signature.priority, default=None)
    assert best is None or best.role in ("echo", "informational"), f"{best.id} takes it for a {best.role}"
