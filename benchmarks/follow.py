"""What following many growing logs costs: processor time of one core and memory.

A folder of logs is written by this process at a steady rate, one in ten with a progress bar, while
`schedmate progress --follow --json` reads it in another. Its first look at the folder is not counted.

Example: python -m benchmarks.follow --logs 200 --seconds 10
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from random import Random

#: What is wanted: share of one core, and MiB.
MOST_SHARE, MOST_MIB = 0.20, 300.0
#: After the first look, so long is waited before counting.
SETTLE_S = 6.0
TICK_S = 0.5
SCHEDMATE = Path(__file__).resolve().parents[1] / ".venv" / "bin" / "schedmate"
_NOISE = "DEBUG dataloader: worker {a} fetched shard {b} in 12.5 ms"


def lines(number: int, random: Random) -> Iterator[str]:
    """What log ``number`` prints: steps with loss and time, three lines of noise for each; or a bar."""
    for step in range(1, 1 << 40):
        loss = 2 + 8 / (1 + step / 500) + random.gauss(0, 0.02)
        if number % 10 == 9:
            yield f"\rtrain:   3%|▎         | {step}/900000 [00:{step // 60 % 60:02d}:{step % 60:02d}<75:12:01, "
            yield f" 1.02it/s, loss={loss:.3f}]"
            continue
        yield f"{datetime.now():%Y-%m-%d %H:%M:%S} INFO step {step}/900000 loss {loss:.4f} lr 3.0e-4 tok/s 45210\n"
        for _ in range(3):
            noise = _NOISE.format(a=random.randrange(8), b=random.randrange(9999))
            yield f"{datetime.now():%Y-%m-%d %H:%M:%S} {noise}\n"


def spent(pid: int) -> tuple[float, float]:
    """Processor seconds (user and system) of a process so far, and its peak memory in MiB."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak_kib / 1024


def write(paths: list[Path], sources: Sequence[Iterator[str]], per_s: float, until: float) -> int:
    """Append lines to all logs in turn at ``per_s`` lines a second in all until that time; how many were written."""
    begun, written, turn = time.monotonic(), 0, 0
    while (now := time.monotonic()) < until:
        due = int((now - begun) * per_s) - written
        share, rest = divmod(due, len(sources))
        for at in range(len(sources)):
            index = (turn + at) % len(sources)
            count = share + (at < rest)
            if count:
                with paths[index].open("a", encoding="utf-8") as stream:
                    stream.write("".join(next(sources[index]) for _ in range(count)))
        turn, written = (turn + rest) % len(sources), written + due
        time.sleep(TICK_S)
    return written


def measure(folder: Path, logs: int, per_s: float, seconds: float, every_s: float) -> str:
    """One row of the table."""
    sources = [lines(number, Random(number)) for number in range(logs)]
    paths = [folder / f"job-{number}.out" for number in range(logs)]
    for path, source in zip(paths, sources, strict=True):
        path.write_text("".join(next(source) for _ in range(200)), encoding="utf-8")
    told = folder.parent / "told.jsonl"
    with told.open("w", encoding="utf-8") as output:
        reader = subprocess.Popen(
            [str(SCHEDMATE), "progress", str(folder), "--follow", "--json", "--every", str(every_s)], stdout=output
        )
        try:
            while told.stat().st_size == 0 or told.read_bytes().count(b"\n") < logs:
                time.sleep(TICK_S)
                if reader.poll() is not None:
                    raise SystemExit(f"schedmate progress ended with {reader.returncode}")
            write(paths, sources, per_s, time.monotonic() + SETTLE_S)
            before, begun = spent(reader.pid)[0], time.monotonic()
            written = write(paths, sources, per_s, begun + seconds)
            passed = time.monotonic() - begun
            after, peak = spent(reader.pid)
        finally:
            reader.terminate()
            reader.wait()
    return f"| {logs:,} | {written / passed:,.0f} | {(after - before) / passed:.1%} | {peak:.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--lines", type=float, default=5000.0, help="lines a second in all (default 5000)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long is measured (default 60)")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two looks (default 2)")
    asked = parser.parse_args()
    print("| logs | lines/s | of one core | peak MiB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="schedmate-follow-") as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        print(measure(logs, asked.logs, asked.lines, asked.seconds, asked.every))
    print(f"\nWanted: at most {MOST_SHARE:.0%} of one core and {MOST_MIB:.0f} MiB.")


if __name__ == "__main__":
    main()
