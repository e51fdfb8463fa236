"""Cluster descriptions: both forms, and one line for everything that is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate.scheduler import ClusterSpec, PoolSpec
from schedmate.simulator.cluster_file import read_cluster, uniform_cluster

EXPECTED = ClusterSpec((PoolSpec("a100", 48, 8), PoolSpec("v100", 24, 4)))


@pytest.mark.parametrize(
    "text",
    [
        "pools: {a100: 48x8, v100: 24 x 4}",
        "pools:\n  - {name: a100, nodes: 48}\n  - name: v100\n    nodes: 24\n    gpus_per_node: 4\n",
    ],
)
def test_both_forms(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    assert read_cluster(tmp_path / "c.yaml") == EXPECTED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no `pools`"),
        ("nodes: 4", "no `pools`"),
        ("pools: 4", "neither a list nor a mapping"),
        ("pools: []", "at least one pool"),
        ("pools: {}", "at least one pool"),
        ("pools: {a: 8}", "pool 'a' is 8, not NODESxGPUS"),
        ("pools: {a: 0 x 8}", "nodes is 0"),
        ("pools: {a: 9999999999x8}", "nodes is 9999999999"),
        ("pools: [{name: a, nodes: two}]", "pool 1: nodes is 'two'"),
        ("pools: [{name: a, nodes: true}]", "nodes is True"),
        ("pools: [{name: a, nodes: .nan}]", "nodes is nan"),
        ("pools: [{name: a, nodes: 1, gpus_per_node: -1}]", "gpus_per_node is -1"),
        ("pools: [{name: a, nodes: 1}, {name: a, nodes: 1}]", "same name"),
        ("pools: [{nodes: 1}]", "pool 1: no 'name'"),
        ("pools: [a]", "pool 1 is not a mapping"),
        ("pools: [{name: a, nodes: 1, gpu: 8}]", "unknown key 'gpu'"),
        ("pools: {a: 1x1}\nracks: 3", "unknown key 'racks'"),
        ("pools: [", "line 1: not valid YAML"),
        ("pools: !!python/object/apply:os.getcwd []", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        read_cluster(path)
    assert words in str(raised.value)
    assert "c.yaml" in str(raised.value)


def test_not_a_text_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UserError, match="not a text file"):
        read_cluster(tmp_path / "c.yaml")
    with pytest.raises(UserError, match="is a folder"):
        read_cluster(tmp_path)
    with pytest.raises(UserError, match="No such file"):
        read_cluster(tmp_path / "none.yaml")


@pytest.mark.parametrize(("nodes", "gpus"), [(0, 8), (4, 0), (-1, 8), (10**9, 8)])
def test_sizes_out_of_range(nodes: int, gpus: int) -> None:
    with pytest.raises(UserError, match="--nodes and --gpus-per-node"):
        uniform_cluster(nodes, gpus)


@pytest.mark.parametrize("value", ["9" * 5000 + "x1", "0x" + "f" * 5000, "[" * 5000, "2001-99-99", "x" * 100_000])
def test_absurd_values_are_one_short_line(tmp_path: Path, value: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"pools: {{a: {value}}}")
    with pytest.raises(UserError) as raised:
        read_cluster(path)
    assert len(str(raised.value)) < 600


def test_aliases_are_not_unfolded(tmp_path: Path) -> None:
    levels = [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 12)]
    path = tmp_path / "c.yaml"
    for pools in ("{x: *l11}", "[{name: *l11, nodes: 1}]", "[{name: a, nodes: *l11}]", "*l11"):
        path.write_text("\n".join(["l0: &l0 [lol]", *levels, f"pools: {pools}"]))
        with pytest.raises(UserError) as raised:
            read_cluster(path)
        assert len(str(raised.value)) < 600
        path.write_text("\n".join([f"pools: {pools}".replace("*l11", "&p [*p, *p]")]))
        with pytest.raises(UserError):
            read_cluster(path)


def test_a_pipe_is_no_cluster_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.yaml")
    with pytest.raises(UserError, match="pipe"):
        read_cluster(tmp_path / "c.yaml")
