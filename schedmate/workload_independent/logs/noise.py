"""Lines that look bad and mean nothing: real logs are full of them, those of healthy jobs too."""

from __future__ import annotations

from collections.abc import Iterator

from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.settings import Project

#: Of all jobs, those whose logs have such lines; of their pieces, those that are followed by one.
_JOBS = 0.6
_PIECES = 0.03
_FIRST = (
    "/opt/conda/lib/python3.11/site-packages/torch/utils/data/dataloader.py:617: UserWarning: This "
    "DataLoader will create 16 "
    "worker processes in total. Our suggested max number of worker in current system is 8\n",
    "wandb: Network error (ConnectionError), entering retry loop.\n",
    "E0000 00:00:1751.0 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register "
    "factory for plugin cuDNN "
    "when one has already been registered\n",
    "WARNING: could not import apex, falling back to native layer norm\n",
    "[W socket.cpp:697] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99 - Cannot assign "
    "requested address).\n",
    "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling "
    "parallelism to avoid deadlocks...\n",
    "fatal: not a git repository (or any of the parent directories): .git\n",
)
_OF_IMAGES = (
    "skipped a broken image ({name}/00{n}.jpg): cannot identify image file\n",
    "UserWarning: Corrupt EXIF data.  Expecting to read 4 bytes but only got 0.\n",
)
_LATER = (
    "wandb: ERROR Error while calling W&B API: rate limit exceeded (<Response [429]>)\n",
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\n",
    "warning: checkpoint upload failed (timeout), will try again at the next save\n",
    "NCCL WARN NET/OFI Failed to find any suitable provider, using socket\n",
)


def with_noise(pieces: Iterator[str], project: Project, draw: Draw) -> Iterator[str]:
    """The pieces with such lines before and between them; only after a piece that ends its line."""
    if not draw.chance(_JOBS):
        yield from pieces
        return
    for _ in range(draw.whole(1, 3)):
        yield draw.one(_FIRST)
    later = _LATER + (_OF_IMAGES if project.dataset.kind in ("image", "segmentation", "detection") else ())
    for piece in pieces:
        yield piece
        if piece.endswith("\n") and draw.chance(_PIECES):
            yield draw.one(later).format(name=project.dataset.name, n=draw.whole(1000, 9999))
