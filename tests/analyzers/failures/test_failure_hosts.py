"""Hosts before lines and in file names."""

from __future__ import annotations

import pytest

from analyzers.failures.hosts import NO_LABELS, labels_of, looks_like_host


@pytest.mark.parametrize(
    "name", ["gn022", "cn-0417", "gpu-b12", "n13", "node01", "c12.cluster.local", "10.0.3.9", "dgx-a100-7"]
)
def test_hosts(name: str) -> None:
    assert looks_like_host(name)


@pytest.mark.parametrize(
    "name", ["rank2", "gpu0", "gpu-13", "step400", "fold3", "worker-2", "v2", "slurm-88213", "train", "epoch_1"]
)
def test_counters_are_no_hosts(name: str) -> None:
    assert not looks_like_host(name)


def test_a_counter_like_name_is_a_host_where_a_companion_knows_it() -> None:
    lines = ["gpu-13: rank 7 of 8", "[rank7] ready"]
    assert labels_of(lines).hosts == frozenset()
    assert labels_of(lines, frozenset({"gpu-13"})).hosts == {"gpu-13"}


def test_the_stack_under_a_label_keeps_its_indentation() -> None:
    lines = [f"cn07: 2026-01-02 10:00:0{n} [rank 4/8] step {n}" for n in range(4)]
    labels = labels_of(lines)
    assert labels.hosts == {"cn07"} and labels.throughout
    assert labels.split('cn07:   File "x.py", line 3') == ("cn07", '  File "x.py", line 3')
    stripped = labels.prefix("cn07: [rank4]: KeyError: 'x'")
    assert (stripped.node, stripped.rank, stripped.rest) == ("cn07", 4, "KeyError: 'x'")


def test_many_hosts_in_one_file() -> None:
    lines = [f"cn0{n % 3}: [rank{n}]: step 1 loss 2" for n in range(9)]
    assert labels_of(lines).hosts == {"cn00", "cn01", "cn02"}


def test_without_labels_nothing_is_cut() -> None:
    assert labels_of(["step 1", "KeyError: 3"]) == NO_LABELS and NO_LABELS.split("cn07: x") == (None, "cn07: x")
