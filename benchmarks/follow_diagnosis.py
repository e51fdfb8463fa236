"""What following the logs of a running job for failures costs: processor time of one core and memory.

A folder of rank files is written by this process at a steady rate while `schedmate diagnose --follow --json` reads it
in another. Its first look at the folder is not counted. With ``--caught`` so many errors are raised, caught and
followed by more steps in the time that is measured, spread over it and the files: none of them may be told.

Example: python -m benchmarks.follow_diagnosis --logs 200 --seconds 10 --caught 50
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random

from benchmarks.follow import MOST_MIB, MOST_SHARE, SCHEDMATE, SETTLE_S, lines, spent, write

_CAUGHT = """Traceback (most recent call last):
  File "/home/u/train.py", line {line}, in fetch
    return self.shards[index]
  File "/home/u/shards.py", line 31, in __getitem__
    raise OSError(5, "Input/output error", self.path)
OSError: [Errno 5] Input/output error: '/data/shard-{line}.tar'
"""


#: A process that has used so much, and uses less than that share of a core in a while, has looked at everything.
_STARTED_CPU_S, _IDLE_SHARE, _LOOK_S = 0.5, 0.1, 3.0


class Rank:
    """What one rank prints; an error that it catches when asked for one."""

    def __init__(self, number: int) -> None:
        self._lines: Iterator[str] = lines(number, Random(number))
        self._is_bar = number % 10 == 9
        self.errors = 0

    def __iter__(self) -> Rank:
        return self

    def __next__(self) -> str:
        if self.errors:
            self.errors -= 1
            raised = _CAUGHT.format(line=datetime.now().microsecond % 900)
            return f"\n{raised}" if self._is_bar else raised
        return next(self._lines)


def measure(folder: Path, asked: argparse.Namespace) -> tuple[str, list[str]]:
    """One row of the table, and what was told."""
    ranks = [Rank(number) for number in range(asked.logs)]
    paths = [folder / f"rank_{number}.log" for number in range(asked.logs)]
    for path, rank in zip(paths, ranks, strict=True):
        path.write_text("".join(next(rank) for _ in range(asked.begun)), encoding="utf-8")
    told = folder.parent / "told.jsonl"
    with told.open("w", encoding="utf-8") as output:
        command = [str(SCHEDMATE), "diagnose", str(folder), "--follow", "--json", "--every", str(asked.every)]
        reader = subprocess.Popen(command, stdout=output)
        try:
            _until_first_look_is_over(reader)
            write(paths, ranks, asked.lines, time.monotonic() + SETTLE_S)
            before, begun = spent(reader.pid)[0], time.monotonic()
            written, caught = 0, 0
            while (passed := time.monotonic() - begun) < asked.seconds:
                due = int(asked.caught * passed / asked.seconds)
                for at in range(caught, due):
                    ranks[at * 7 % len(ranks)].errors += 1
                caught = due
                written += write(paths, ranks, asked.lines, min(begun + asked.seconds, time.monotonic() + 2))
            passed = time.monotonic() - begun
            after, peak = spent(reader.pid)
            events = [json.loads(line)["event"] for line in told.read_text(encoding="utf-8").splitlines()]
        finally:
            reader.kill()
            reader.wait()
    share = (after - before) / passed
    return f"| {asked.logs:,} | {written / passed:,.0f} | {asked.caught} | {share:.1%} | {peak:.0f} |", events


def _until_first_look_is_over(reader: subprocess.Popen[bytes]) -> None:
    """Wait until the process has worked, and works no more (while nothing fails it prints nothing)."""
    before, now = 0.0, 0.0
    while now < _STARTED_CPU_S or now - before > _IDLE_SHARE * _LOOK_S:
        time.sleep(_LOOK_S)
        before, now = now, spent(reader.pid)[0]
        if reader.poll() is not None:
            raise SystemExit(f"schedmate diagnose ended with {reader.returncode}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--lines", type=float, default=5000.0, help="lines a second in all (default 5000)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long is measured (default 60)")
    parser.add_argument("--begun", type=int, default=2000, help="lines that each log has before (default 2000)")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two looks (default 2)")
    parser.add_argument("--caught", type=int, default=0, help="errors that are caught meanwhile (default 0)")
    asked = parser.parse_args()
    print("| logs | lines/s | caught errors | of one core | peak MiB |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="schedmate-follow-") as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        row, events = measure(logs, asked)
        print(row)
    print(
        f"\nTold: {', '.join(events) or 'nothing'}. Wanted: at most {MOST_SHARE:.0%} of one core, {MOST_MIB:.0f} MiB."
    )


if __name__ == "__main__":
    main()
