"""How fast logs are read for their progress, beside `grep -F -f` and Drain3 on the same file, and in how much memory.

Three logs are generated in a temporary folder and removed again: progress on most lines, one endless progress bar, and
ordinary text with little progress in it. Each reader runs in a process of its own on one core; Drain3 is measured where
it is installed, on the beginning of the file.

Example: python -m benchmarks.logs --megabytes 100
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random

MB = 1_000_000
#: What reading is to reach, in MB/s on one core, and the most memory for it.
TARGETS = {"progress": 150.0, "bar": 150.0, "text": 300.0}
PEAK_MIB = 300.0
#: Drain3 reads about 1 MB/s: this much of the file tells its pace.
DRAIN_BYTES = 8 * MB
#: What `grep -F -f` looks for: words of progress and of trouble.
WORDS = """
    loss step iteration epoch it/s s/it eta global_step nan inf Traceback Error Killed CANCELLED checkpoint eval
    finished completed max_steps total_steps num_epochs samples/s tokens/s
"""
_START = datetime(2025, 9, 12, 8, 0, 0)
_TEXT = (
    "INFO dataloader.worker-{a}: fetched shard s3://corpus/part-{b:05d}.tar in {c:.2f} ms, queue depth {d}",
    "DEBUG nccl: Channel {d:02d}/16 : {a}[{b}] -> {d}[{a}] [send] via NET/IB/{d}/GDRDMA",
    "WARNING urllib3.connectionpool: Retrying after connection broken by ReadTimeoutError: /v1/metrics/{b}",
    "INFO fsdp: rank {a} resharded parameters of block {d}, {b} MiB allocated, {c:.1f} MiB reserved",
    "INFO http.access: 10.2.{a}.{d} - GET /healthz 200 {b} bytes {c:.3f}s",
    "DEBUG scheduler: learning rate group {d} set to {c:.3e}; momentum buffers {b} kept",
)


def progress_lines(random: Random) -> Iterator[bytes]:
    """Iterations with loss and time, an evaluation and a checkpoint now and then, a little noise between."""
    yield b"config: train_iters=100000000 micro_batch_size=4 save_interval=5000\n"
    for step in count(1):
        now = _START + timedelta(seconds=0.31 * step)
        loss = 2.0 + 8.0 / (1 + step / 5000) + random.gauss(0, 0.03)
        yield (
            f"[{now:%Y-%m-%d %H:%M:%S}] iteration {step:>9}/100000000 | consumed samples: {512 * step} | elapsed time "
            f"per iteration (ms): {random.gauss(310, 4):.1f} | learning rate: 1.5E-04 | lm loss: {loss:.6E} | grad "
            f"norm: {random.random():.3f}\n"
        ).encode()
        if step % 1000 == 0:
            yield f"[{now:%Y-%m-%d %H:%M:%S}] validation loss at iteration {step}: {loss + 0.1:.4f}\n".encode()
        if step % 5000 == 0:
            yield f"[{now:%Y-%m-%d %H:%M:%S}] saving checkpoint at iteration {step} to /ckpt/iter_{step:07d}\n".encode()
        if step % 7 == 0:
            yield _text_line(random, now)


def bar_lines(random: Random) -> Iterator[bytes]:
    """One bar that is redrawn with carriage returns and never ends its line."""
    for step in count(1):
        done = int(0.31 * step)
        yield (
            f"\rtrain:   3%|▎         | {step}/90000000 [{done // 3600:02d}:{done // 60 % 60:02d}:{done % 60:02d}"
            f"<775:12:01,  3.22it/s, loss={2 + random.random() / 50:.3f}, lr=0.0003]"
        ).encode()


def text_lines(random: Random) -> Iterator[bytes]:
    """What workers, libraries and health checks print; a step each two thousand lines."""
    for number in count(1):
        now = _START + timedelta(seconds=0.002 * number)
        yield _text_line(random, now)
        if number % 2000 == 0:
            step = number // 2000
            yield f"{now:%Y-%m-%d %H:%M:%S} INFO train: step {step}/1000000 loss {2 + 1 / step:.4f}\n".encode()


def _text_line(random: Random, now: datetime) -> bytes:
    values = {"a": random.randrange(64), "b": random.randrange(9000), "c": 500 * random.random()}
    return f"{now:%Y-%m-%d %H:%M:%S} {random.choice(_TEXT).format(**values, d=random.randrange(16))}\n".encode()


KINDS: dict[str, Callable[[Random], Iterator[bytes]]] = {
    "progress": progress_lines,
    "bar": bar_lines,
    "text": text_lines,
}


def write_log(path: Path, kind: str, size: int) -> None:
    """A log of about ``size`` bytes."""
    written = 0
    with path.open("wb", buffering=1 << 20) as stream:
        for line in KINDS[kind](Random(7)):
            written += stream.write(line)
            if written >= size:
                return


@dataclass(frozen=True, slots=True)
class Run:
    """One reader on one file: processor seconds (user and system) above those of an empty file, and peak MiB."""

    cpu_s: float
    peak_mib: float


def run(command: list[str], output: Path) -> Run:
    """One run in a process of its own, on one core. Its output goes to a file: grep stops early for /dev/null."""
    environment = {**os.environ, "LC_ALL": "C", "OMP_NUM_THREADS": "1"}
    to_file = (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    pid = os.posix_spawnp(command[0], command, environment, file_actions=[to_file])
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):  # grep and progress tell findings with 1
        raise SystemExit(f"{' '.join(command)} failed")
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def best(command: list[str], file: Path, empty: Path, repeats: int) -> Run:
    """The best of some runs on ``file``, less what starting costs (a run on ``empty``)."""
    output = file.with_suffix(".out")
    start = min(run([*command, str(empty)], output).cpu_s for _ in range(repeats))
    runs = [run([*command, str(file)], output) for _ in range(repeats)]
    return Run(max(1e-6, min(run.cpu_s for run in runs) - start), max(run.peak_mib for run in runs))


def drain_pace(path: Path) -> float | None:
    """MB/s of Drain3 over the beginning of the file, or None where it is not installed."""
    if importlib.util.find_spec("drain3") is None:
        return None
    script = (
        "import sys\nfrom drain3 import TemplateMiner\nminer = TemplateMiner()\n"
        f"data = open(sys.argv[1], 'rb').read({DRAIN_BYTES}).decode('utf-8', 'replace').replace('\\r', '\\n')\n"
        "for line in data.splitlines():\n    miner.add_log_message(line)\n"
    )
    started = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return min(DRAIN_BYTES, path.stat().st_size) / MB / min(spent, time.perf_counter() - started)


def measure(folder: Path, kind: str, megabytes: int, repeats: int) -> list[str]:
    """One row of the table."""
    log, few, words = folder / f"{kind}.log", folder / "few.log", folder / "words"
    write_log(log, kind, megabytes * MB)
    few.write_bytes(b"step 1/2 loss 3.0\n")
    words.write_text("\n".join(WORDS.split()) + "\n", encoding="ascii")
    reader = "import sys\nfrom pathlib import Path\nfrom analyzers.logs import read_progress\n"
    reader += "read_progress(Path(sys.argv[1]))"
    own = best([sys.executable, "-c", reader], log, few, repeats)
    grep = best(["grep", "-c", "-F", "-f", str(words)], log, few, repeats)
    drain = drain_pace(log)
    size = log.stat().st_size / MB
    log.unlink()
    return [
        kind, f"{size:,.0f}", f"{size / own.cpu_s:,.0f}", f"{TARGETS[kind]:.0f}", f"{own.peak_mib:.0f}",
        f"{size / grep.cpu_s:,.0f}", "not installed" if drain is None else f"{drain:.1f}",
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2000, help="size of each log (default 2000)")
    parser.add_argument("--repeats", type=int, default=2, help="the best of so many runs is shown (default 2)")
    parser.add_argument("--only", choices=sorted(KINDS), help="only this log")
    parser.add_argument("--folder", type=Path, help="where the logs are written (default: the system's)")
    asked = parser.parse_args()
    print("| log | MB | MB/s | wanted | peak MiB | grep -F -f MB/s | Drain3 MB/s |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="schedmate-logs-", dir=asked.folder) as folder:
        for kind in [asked.only] if asked.only else KINDS:
            print(f"| {' | '.join(measure(Path(folder), kind, asked.megabytes, asked.repeats))} |", flush=True)
    print(f"\nProcessor time of one core; memory is to stay below {PEAK_MIB:.0f} MiB.")


if __name__ == "__main__":
    main()
