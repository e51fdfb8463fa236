"""Diagnoses broken, huge and hostile logs for some minutes and says what went wrong.

Logs are put together from lines of labelled failures, of the signatures' own samples and of training logs: shuffled,
cut, repeated, cut off in the middle, in several encodings, with forged prefixes of ranks and hosts, forged lines of
kernels and schedulers, and lines that instruct a model. Each case is read by a process of its own for many cases, which
must not crash, must stay within its memory and its time, and must blame no node: what a job prints proves nothing
about a node. Lines in a kernel's or scheduler's own form are taken for theirs where they stand in the output of the
whole job, which clusters do mix, and a process that speaks of its own host is believed where a line of the launch
states that host (``host=``); how often either names a node is told apart, and it must never count as proof
(``node_proof``).

Example: python -m benchmarks.fuzz_diagnosis --minutes 20 --keep /tmp/found
"""

from __future__ import annotations

import argparse
import bz2
import io
import json
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fuzz_cases import FORGED, KINDS, pool

#: What one case may take: processor seconds in all, more for each MB of it; MiB above those of an empty log.
BASE_S, S_PER_MB = 2.0, 1.0
MOST_MIB = 200.0
#: A case is broken off after so many processor seconds; a worker that does not answer even then is given up.
MOST_CPU_S, WAIT_S = 90.0, 900.0
_CASES_PER_WORKER = 200
_PLATFORM = re.compile(
    r"kernel: |^kern  :|NVRM: |^\s{0,4}\[ {0,6}\d+\.\d+\]|Memory cgroup out|slurm|\b(?:srun|prolog|epilog|mpirun|PBS)\b"
    r"|^[\w.-]+:\d+:\d+ \[\d+\] .*NCCL|pod/|node/|kubelet|\bReason:|^(?:event|Warning|Normal|\d+[smhd])\b"
)
_PROCESS = re.compile(r"\[?(?:rank|default|1,)\d{1,6}\]?(?:<stderr>)?: ?|\d{1,6}: ")

# -- reading them -------------------------------------------------------------------------------------------------


def work() -> None:
    """The worker: paths on stdin, one line of JSON for each on stdout."""
    import resource

    from analyzers.failures import diagnose
    from prompts.errors import UserError

    def peak_mib() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def break_off(*_: object) -> None:
        raise TimeoutError(f"not done after {MOST_CPU_S:.0f} s of CPU")

    start = 0.0
    signal.signal(signal.SIGPROF, break_off)
    for row in sys.stdin:
        began = time.process_time()
        answer: dict[str, Any] = {}
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
        try:
            found = diagnose(Path(row.rstrip("\n")))
            answer |= {"category": found.category, "action": found.action, "nodes": list(found.culprit_nodes)}
            answer["proof"] = found.node_proof
            answer["evidence"] = [line.text for line in found.evidence]
            assert 0 <= found.confidence <= 1
            assert (found.category == "none") <= (found.action == "none")
        except UserError:
            answer["refused"] = True
        except Exception as error:  # noqa: BLE001  # whatever goes wrong is told
            answer["error"] = f"{type(error).__name__}: {error}"
        start = start or peak_mib()
        answer |= {"cpu_s": time.process_time() - began, "more_mib": peak_mib() - start}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


@dataclass(slots=True)
class Worker:
    """A process that reads cases; a new one after so many, or after one that did not answer."""

    process: subprocess.Popen[str] | None = None
    left: int = 0

    def read(self, folder: Path) -> dict[str, Any]:
        """What came of one case."""
        if self.process is None or not self.left:
            self.close()
            self._start()
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        self.left -= 1
        try:
            self.process.stdin.write(f"{folder}\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], WAIT_S)
            answer = self.process.stdout.readline() if ready else ""
        except BrokenPipeError:
            answer = ""
        if answer:
            told: dict[str, Any] = json.loads(answer)
            return told
        problem = "crashed" if self.process.poll() is not None else f"no answer in {WAIT_S:.0f} s"
        self.close()
        return {"error": problem, "cpu_s": 0.0, "more_mib": 0.0}

    def _start(self) -> None:
        command = [sys.executable, "-c", "from benchmarks.fuzz_diagnosis import work; work()"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.left = _CASES_PER_WORKER
        with tempfile.TemporaryDirectory() as folder:  # what is compiled and imported once
            text = "".join(f"[rank{n % 4}]: step {n} loss 2.0\nRuntimeError: x {n}\n" for n in range(20_000))
            (Path(folder) / "a.log").write_text(text, encoding="ascii")
            self.read(Path(folder))

    def close(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None


def problem(answer: dict[str, Any], megabytes: float, case: Path) -> str:
    """What is wrong with what came of a case; empty where nothing is."""
    if "error" in answer:
        return str(answer["error"])
    if answer["cpu_s"] > BASE_S + S_PER_MB * megabytes:
        return f"took {answer['cpu_s']:.1f} s for {megabytes:.1f} MB"
    if answer["more_mib"] > MOST_MIB:
        return f"took {answer['more_mib']:.0f} MiB"
    if (
        "category" in answer
        and blames(answer)
        and not _in_a_platforms_form(answer["evidence"])
        and not _stated(answer, case)
    ):
        return f"blames {answer['nodes']} for {answer['category']}: {answer['evidence'][:1]}"
    if answer.get("proof") not in (None, "job-log"):
        return f"takes the job's own output for proof ({answer['proof']}) against {answer['nodes']}"
    return ""


def blames(answer: dict[str, Any]) -> bool:
    """Whether a node is named as broken."""
    broken = answer.get("action") == "cordon_node_and_restart" or answer["category"].startswith("infrastructure")
    return bool(answer.get("nodes")) and broken


def _in_a_platforms_form(evidence: list[str]) -> bool:
    return any(_PLATFORM.search(line) and not _PROCESS.match(line) for line in evidence)


def _stated(answer: dict[str, Any], case: Path) -> bool:
    """Whether a line of the launch states the host of each node, and no forged line speaks against one."""
    if any(forged_line in line for line in answer["evidence"] for forged_line in FORGED):
        return False
    text = "\n".join(_text(file) for file in case.iterdir())
    return all(re.search(rf"(?i)\b(?:host|node)\w* ?[=:] ?{re.escape(node)}\b", text) for node in answer["nodes"])


def _text(file: Path) -> str:
    content = file.read_bytes()
    for packed_by in (zlib.decompressobj(wbits=31), bz2.BZ2Decompressor()):
        try:
            content = packed_by.decompress(content)
        except (OSError, zlib.error):
            continue
    return content.replace(b"\0", b"").decode("utf-8", "replace")


@dataclass(slots=True)
class Tally:
    """What has been tried so far."""

    cases: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    categories: Counter[str] = field(default_factory=Counter)
    megabytes: float = 0.0
    cpu_s: float = 0.0
    slowest: float = 0.0
    most_mib: float = 0.0
    on_a_form: int = 0

    def lines(self, minutes: float) -> Iterator[str]:
        """The report."""
        yield f"{minutes:.1f} minutes, {self.cases.total()} cases, {self.megabytes:,.0f} MB, {self.cpu_s:,.0f} s of CPU"
        yield f"slowest {self.slowest:.2f} s/MB (above 1 MB), most memory {self.most_mib:.0f} MiB above the usual"
        yield f"nodes named for a line in a platform's own form, or of a host that the launch states: {self.on_a_form}"
        yield "cases: " + ", ".join(f"{name} {number}" for name, number in sorted(self.cases.items()))
        yield "verdicts: " + ", ".join(f"{name} {number}" for name, number in self.categories.most_common())
        yield f"problems: {len(self.problems)}"
        yield from self.problems


def fuzz(minutes: float, seed: int, keep: Path | None, say: Callable[[str], object]) -> Tally:
    """Try cases until the time is over."""
    tally, worker = Tally(), Worker()
    since = time.monotonic()
    lines = pool(Random(seed))
    try:
        for number in count(seed):
            if time.monotonic() - since > 60 * minutes:
                break
            lines.random = Random(number)
            make = lines.random.choice(KINDS)
            with tempfile.TemporaryDirectory(prefix="schedmate-fuzz-") as scratch:
                make(Path(scratch), lines)
                size = sum(file.stat().st_size for file in Path(scratch).iterdir()) / 1e6
                answer = worker.read(Path(scratch))
                tally.cases[make.__name__] += 1
                tally.categories["refused" if "refused" in answer else answer.get("category", "failed")] += 1
                tally.megabytes += size
                tally.cpu_s += answer["cpu_s"]
                tally.slowest = max(tally.slowest, answer["cpu_s"] / size if size > 1 else 0.0)
                tally.most_mib = max(tally.most_mib, answer["more_mib"])
                wrong = problem(answer, size, Path(scratch))
                tally.on_a_form += not wrong and "category" in answer and blames(answer)
                if wrong:
                    tally.problems.append(f"{make.__name__} {number}: {wrong}")
                    say(tally.problems[-1])
                    if keep is not None:
                        _keep(Path(scratch), keep / f"{make.__name__}-{number}")
                    if "took" in wrong:
                        worker.close()  # its peak would hide the next one's
    finally:
        worker.close()
    return tally


def _keep(case: Path, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    for file in case.iterdir():
        (where / file.name).write_bytes(file.read_bytes())


def main(words: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="the first case's number (default 0)")
    parser.add_argument("--keep", type=Path, help="folder for the cases that went wrong")
    asked = parser.parse_args(words)
    said = io.TextIOWrapper(sys.stderr.buffer, write_through=True)
    since = time.monotonic()
    tally = fuzz(asked.minutes, asked.seed, asked.keep, lambda line: said.write(line + "\n"))
    print("\n".join(tally.lines((time.monotonic() - since) / 60)))
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
