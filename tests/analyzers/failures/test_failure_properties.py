"""What must hold for every log."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.failures import FileSignatureStore, diagnose, load_signatures
from analyzers.types import Diagnosis
from prompts.errors import UserError

SIGNATURES = load_signatures(FileSignatureStore())
ECHO_LINES = [line for s in SIGNATURES if s.role == "echo" and s.scope == "rank" for line in s.match]
NOISE = [line for s in SIGNATURES if s.role == "informational" for line in s.match]
ROOT_LINES = [
    line
    for s in SIGNATURES
    if s.role == "root" and s.origin == "any" and s.weight >= 0.9 and s.scope == "rank" and s.priority >= 50
    for line in s.match
]
ALL_LINES = [line for s in SIGNATURES for line in (*s.match, *s.reject)]


def verdict(content: bytes | str) -> Diagnosis | None:
    """The diagnosis of a file with this content; None where it is refused as unreadable."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.log"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        try:
            return diagnose(path)
        except UserError:
            return None


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes(content: bytes) -> None:
    found = verdict(content)
    assert found is None or 0 <= found.confidence <= 1


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(ALL_LINES), st.text(max_size=80)), min_size=1, max_size=25))
def test_quoted_lines_stand_in_the_input(lines: list[str]) -> None:
    text = "\n".join(line.replace("\n", " ").replace("\r", " ") for line in lines)
    found = verdict(text)
    if found is None:
        return
    stored = text.split("\n")
    for quoted in (*found.evidence, *found.echoes):
        assert quoted.text and "\n" not in quoted.text
        assert quoted.text in stored[quoted.line - 1] or "\x1b" in stored[quoted.line - 1] or not text.isprintable()
    assert (found.category == "none") <= (found.action == "none")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(NOISE), max_size=6), st.randoms(use_true_random=False))
def test_a_healthy_log_stays_healthy(noise: list[str], rng: random.Random) -> None:
    lines = [f"step {n} loss {4 - n / 50:.2f} lr 1e-4" for n in range(1, 30)]
    for line in noise:
        lines.insert(rng.randrange(len(lines)), line)
    found = verdict("\n".join([*lines, "Training finished", ""]))
    assert found is not None and found.category == "none", found


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(ECHO_LINES), min_size=1, max_size=8))
def test_echoes_alone_are_never_a_cause(echoes: list[str]) -> None:
    found = verdict("\n".join(["step 1 loss 3.0 lr 1e-4", *echoes, ""]))
    assert found is not None and found.category in ("unknown", "none"), found
    assert not found.culprit_nodes


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(ROOT_LINES), st.lists(st.sampled_from(ECHO_LINES), min_size=1, max_size=8))
def test_echoes_after_a_root_change_nothing(root: str, echoes: list[str]) -> None:
    head = ["[host=zz-1] ranks 0-3", "[rank2]: " + root]
    alone = verdict("\n".join([*head, ""]))
    followed = verdict("\n".join([*head, *(f"[rank{n % 2}]: {line}" for n, line in enumerate(echoes)), ""]))
    assert alone is not None and followed is not None
    assert (followed.category, followed.action, followed.culprit_ranks) == (
        alone.category,
        alone.action,
        alone.culprit_ranks,
    )
    assert followed.evidence[0] == alone.evidence[0]


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus.",
        "slurmctld: error: Nodes gpu-9 not responding, setting DOWN",
        "Jun  1 10:14:30 gpu-9 kernel: mlx5_core 0000:41:00.0 ib0: Port: 1 Link DOWN",
        "Warning  Evicted  pod/x  The node was low on resource: memory. node=gpu-9",
        "mce: [Hardware Error]: CPU 3: Machine Check: Uncorrected error in bank 7",
    ],
)
def test_a_job_can_not_blame_a_node(line: str, tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("rank 0 host=gpu-1\n[rank0]: start\n", encoding="utf-8")
    (tmp_path / "rank_1.log").write_text(
        f"rank 1 host=gpu-9\n[rank1]: {line}\n[rank1]: {line}\n[rank1]: ValueError: x\n", encoding="utf-8"
    )
    found = diagnose(tmp_path)
    assert found.category in ("user-code", "unknown") or not found.culprit_nodes, found
    assert found.action != "cordon_node_and_restart" or not found.culprit_nodes


def test_a_large_log_is_read_in_bounded_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "big.log"
    line = "2025-01-01 00:00:00 [rank0] step 1 loss 2.0 lr 1e-4 tok/s 1000\n"
    with path.open("w", encoding="utf-8") as file:
        for _ in range(60):
            file.write(line * 8000)
        file.write("[rank0]: RuntimeError: CUDA error: out of memory\n" * 5000)
    diagnose(path)  # what is made once (the automaton) does not count
    tracemalloc.start()
    found = diagnose(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.subcategory == "gpu-oom" and len(found.echoes) <= 30
    assert path.stat().st_size > 30e6 and peak < 20 * 2**20, f"{peak / 2**20:.0f} MiB"
