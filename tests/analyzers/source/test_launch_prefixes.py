"""Commands that start another one, with their options: what is started is found behind each of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

PREFIXES = [
    "nice -n 5", "nice -5", "nice --adjustment=5", "nohup nice -n 5", "time nice -n 5", "nice -n 5 timeout 3h",
    "timeout -s KILL -k 10 3h", "timeout --signal KILL 3h", "sudo -u a", "sudo -E -u a A=1", "sudo --", "doas -u a",
    "ionice -c2 -n3", "ionice -c 2 -n 3", "chrt -f 50", "chrt --idle 0", "taskset -c 0-3", "taskset 0xff", "env -u X",
    "env -i A=1", "env --unset X A=1", "env -S A=1", "stdbuf -o L", "stdbuf -oL -eL", "setsid -w", "xvfb-run -a",
    "xvfb-run -s '-screen 0 1x1x24'", "numactl -N 0 -m 0", "numactl --cpunodebind 0 --membind=0", "time -f %e -o out",
    "/usr/bin/time -vo out", "exec -a name", "command", "command -p", "flock -w 5 lock", "strace -f -o out",
    "srun -n 1 -pgpu", "srun -lu -c8", "srun --mpi pmix", "runuser -u a --", "systemd-run --scope -p MemoryMax=9G",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_program_behind_a_prefix_is_read(tmp_path: Path, kit: SimpleNamespace, prefix: str) -> None:
    root = kit.grow(tmp_path, kit.PLAIN)
    facts = kit.read(root, f"{prefix} python train.py --epochs 4 --lr 0.5")
    assert kit.values(facts, "epochs", "learning_rate", "batch_size_per_gpu") == (4, 0.5, 50)
    assert not [w for w in facts.warnings if "program" in w]
    assert facts.fingerprint == kit.read(root, "python train.py --epochs 4 --lr 0.5").fingerprint or "srun" in prefix


@pytest.mark.parametrize("command", ["command -v python", "command -V train.sh || exit 1; nice -n", "sudo -u"])
def test_a_prefix_that_starts_nothing(tmp_path: Path, kit: SimpleNamespace, command: str) -> None:
    facts = kit.read(kit.grow(tmp_path, kit.PLAIN), command)
    assert not facts.facts
    assert any("starts no program" in w for w in facts.warnings)
