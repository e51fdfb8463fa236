"""How fast failed jobs' logs are diagnosed, beside `grep -F -f` on the same files, and in how much memory.

All logs are generated in a temporary folder and removed again: one large log with progress on most lines that fails at
its end, one that fails at its start and then prints after-effects only, a folder of many ranks' files of which one has
the cause and all others the same time-out, the same folder with warnings on most lines, and small logs. Each is read by
a process of its own on one core. Of the large ones the time counts above what starting costs, of the small ones all of
it.

Example: python -m benchmarks.diagnosis_speed --megabytes 100 --ranks 64
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random

from benchmarks.logs import MB, best, progress_lines, run, text_lines

#: MB/s of large logs, seconds of a folder, seconds of a small log.
WANTED_MB_PER_S, WANTED_FOLDER_S, WANTED_SMALL_S = 200, 10.0, 0.4
PEAK_MIB = 300
FILE_MB = 1
SMALL_KB = (10, 100, 1000)
#: What `grep -F -f` looks for: the words that errors have in common.
WORDS = """
    Error Exception Traceback NCCL CUDA Xid memory timeout Watchdog Killed SIGTERM SIGKILL CANCELLED PREEMPT failed
    refused unreachable denied quota segfault core abort nan checkpoint
"""
CAUSE = b"""Traceback (most recent call last):
  File "/work/train.py", line 211, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB
"""


def time_out(rank: int) -> bytes:
    """What each rank's watchdog prints when another one is gone."""
    said = "[rank{r}]:[E ProcessGroupNCCL.cpp:563] [Rank {r}] Watchdog caught collective operation timeout: "
    said += (
        "WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for {ms} milliseconds "
    )
    said += "before timing out.\n"
    return "".join(said.format(r=rank, n=900 + k // 40, ms=600_000 + k) for k in range(200)).encode()


def warning(rank: int) -> bytes:
    """A warning that comes again and again."""
    return (
        f"[rank{rank}]:[W socket.cpp:697] [c10d] The client socket has failed to connect to [node-7]:29500 "
        "(errno: 110 - Connection timed out).\n"
    ).encode()


def fails_at_its_end(path: Path, size: int) -> None:
    """Progress on most lines, then the cause."""
    with path.open("wb", buffering=1 << 20) as stream:
        _fill(stream.write, progress_lines(Random(7)), size)
        stream.write(CAUSE)


def fails_at_its_start(path: Path, size: int) -> None:
    """The cause, then no step any more: warnings of eight ranks among what workers and libraries print."""

    def lines() -> Iterator[bytes]:
        for number, line in enumerate(text_lines(Random(7))):
            if b"loss" not in line:
                yield line
            if number % 20 == 0:
                yield warning(number // 20 % 8)

    with path.open("wb", buffering=1 << 20) as stream:
        stream.write(CAUSE)
        _fill(stream.write, lines(), size)


def ranks(folder: Path, number: int, warnings: bool) -> None:
    """A file for each rank; one has the cause, the others wait for it."""
    folder.mkdir()
    progress = list(islice(progress_lines(Random(3)), 5 * FILE_MB * MB // 1000))
    for rank in range(number):
        with (folder / f"rank_{rank}.log").open("wb") as stream:
            stream.write(f"[2025-09-12 07:59:00] rank {rank} host=node-{rank // 8}\n".encode())
            said = warning(rank)
            body = (
                part for at, line in enumerate(progress) for part in ((line, said) if warnings and at % 8 else (line,))
            )
            _fill(stream.write, body, FILE_MB * MB - 40_000)
            stream.write(CAUSE if rank == number // 3 else time_out(rank))


def _fill(write: Callable[[bytes], int], lines: Iterator[bytes], size: int) -> None:
    written = 0
    for line in lines:
        written += write(line)
        if written >= size:
            return


def small(path: Path, size: int) -> None:
    """A short log that fails."""
    fails_at_its_end(path, size - len(CAUSE))


def large_row(name: str, path: Path, few: Path, words: Path, repeats: int) -> list[str]:
    """A row of the table: pace above the start, memory, and grep's pace."""
    reader = (
        "import sys\nfrom pathlib import Path\nfrom analyzers.failures import diagnose\ndiagnose(Path(sys.argv[1]))"
    )
    own = best([sys.executable, "-c", reader], path, few, repeats)
    grep = best(["grep", "-r", "-c", "-F", "-f", str(words)], path, few, repeats)
    files = list(path.iterdir()) if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files) / MB
    wanted = f"{WANTED_FOLDER_S:.0f} s" if path.is_dir() else f"{size / WANTED_MB_PER_S:.1f} s"
    return [name, f"{size:,.0f}", f"{own.cpu_s:.1f} s", wanted, f"{size / own.cpu_s:,.0f}", f"{own.peak_mib:.0f}",
            f"{size / grep.cpu_s:,.0f}"]  # fmt: skip


def small_row(folder: Path, kilobytes: int, repeats: int) -> list[str]:
    """A row of the table: all of `schedmate diagnose`, with what was compiled before kept and without."""
    path = folder / "small.log"
    small(path, kilobytes * 1000)
    command = [str(Path(sys.executable).with_name("schedmate")), "diagnose", "--json", str(path)]
    kept = min((run(command, folder / "out") for _ in range(repeats + 1)), key=lambda each: each.cpu_s)
    name = f"{kilobytes} kB, with its start"
    return [name, f"{kilobytes / 1000:g}", f"{kept.cpu_s:.2f} s", f"{WANTED_SMALL_S} s", "-",
            f"{kept.peak_mib:.0f}", "-"]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2000, help="size of each large log (default 2000)")
    parser.add_argument("--ranks", type=int, default=1024, help="files of 1 MB in a folder (default 1024)")
    parser.add_argument("--repeats", type=int, default=2, help="the best of so many runs is shown (default 2)")
    parser.add_argument("--folder", type=Path, help="where the logs are written (default: the system's)")
    asked = parser.parse_args()
    print("| logs | MB | CPU | wanted | MB/s | peak MiB | grep -F -f MB/s |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="schedmate-diagnosis-", dir=asked.folder) as scratch:
        folder = Path(scratch)
        few, words = folder / "few.log", folder / "words"
        small(few, 10_000)
        words.write_text("\n".join(WORDS.split()) + "\n", encoding="ascii")
        for name, write in (("fails at its end", fails_at_its_end), ("fails at its start", fails_at_its_start)):
            path = folder / "large.log"
            write(path, asked.megabytes * MB)
            _print(large_row(name, path, few, words, asked.repeats))
            path.unlink()
        for name, warnings in (("a folder of ranks", False), ("the same, warnings on most lines", True)):
            path = folder / name.replace(" ", "-")
            ranks(path, asked.ranks, warnings)
            _print(large_row(name, path, few, words, asked.repeats))
            for file in path.iterdir():
                file.unlink()
        for kilobytes in SMALL_KB:
            _print(small_row(folder, kilobytes, asked.repeats))
    print(f"\nProcessor time of one core; memory is to stay below {PEAK_MIB} MiB.")


def _print(row: list[str]) -> None:
    print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
