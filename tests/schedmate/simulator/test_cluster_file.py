"""Cluster descriptions: both forms, and one line for everything that is wrong with them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate.scheduler import ClusterSpec, PoolSpec
from schedmate.scheduler.cluster_types import NodeShape, Profile
from schedmate.scheduler.topology import Topology
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
        ("pools: {a: 4x8, b: 4x8, a: 2x8}", "line 1: 'a' is there twice"),
        ("pools: {a: 4x8}\ntenants:\n  x: {}\n  x: {}", "line 4: 'x' is there twice"),
        ("pools: {a: 8}", "pool 'a' is 8, not NODESxGPUS"),
        ("pools: {a: 0 x 8}", "nodes is 0"),
        ("pools: {a: 9999999999x8}", "nodes is 9999999999"),
        ("pools: [{name: a, nodes: two}]", "pool 1: nodes is 'two'"),
        ("pools: [{name: a, nodes: 8, gpu_memory: much}]", "pool 1: gpu_memory is 'much'"),
        ("pools: [{name: a, nodes: 8, memory: -1}]", "pool 1: memory is -1"),
        ("pools: [{name: a, nodes: 8, speed: 0}]", "pool 1: speed is 0"),
        ("pools: [{name: a, nodes: 8, cpus: .inf}]", "pool 1: cpus is inf"),
        ("pools: [{name: a, nodes: 8, cpus: 1.0e+300}]", "pool 1: cpus is 1e+300"),
        ("pools: [{name: a, nodes: 8, islands: 3}]", "8 GPUs can not be cut into 3 equal islands"),
        ("pools: [{name: a, nodes: 8, nics: 1.5}]", "nics is 1.5"),
        ("pools: [{name: a, nodes: 8, gpus_per_node: 99999, numa: 1}]", "gpus_per_node is 99999"),
        ("pools: [{name: a, nodes: 8, labels: [x]}]", "labels is not a mapping"),
        ("pools: [{name: a, nodes: 8, zone: []}]", "zone is a list"),
        ("pools: [{name: a, nodes: 8, groups: {rack: 4}}]", "unknown key 'rack'"),
        ("pools: [{name: a, nodes: 8, groups: {leaf: 0}}]", "groups: leaf is 0"),
        ("pools: [{name: a, nodes: 8, groups: {leaf: [4, 5]}}]", "add up to 9 or more"),
        ("pools: [{name: a, nodes: 8, groups: {leaf: [2x3]}}]", "add up to 6"),
        ("pools: [{name: a, nodes: 8, groups: {leaf: [3, 5], spine: 4}}]", "spine group begins inside a leaf group"),
        ("pools: [{name: a, nodes: 8, except: {8: {zone: z}}}]", "the pool has no nodes 8"),
        ("pools: [{name: a, nodes: 8, except: {0-3: {zone: z}, 3: {zone: y}}}]", "node 3 is named twice"),
        ("pools: [{name: a, nodes: 8, except: {first: {zone: z}}}]", "not numbers of nodes"),
        ("pools: [{name: a, nodes: 8, except: {0: {groups: 4}}}]", "unknown key 'groups'"),
        ("pools: [{name: a, nodes: 8, except: 0-3}]", "except is not a mapping"),
        ("pools: [{name: a, nodes: 8, slices: {half: 0.5}}]", "slice half is not a mapping"),
        ("pools: [{name: a, nodes: 8, slices: {two: {gpu: 2}}}]", "needs 1 to 1000 milli"),
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


def test_everything_about_a_pool(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        """
pools:
  - name: h100
    nodes: 6
    gpus_per_node: 8
    gpu_memory: 80Gi
    speed: 2
    groups: {leaf: [4, 2], spine: 6}
    islands: 2
    numa: 2
    nics: 4
    cpus: 96.5
    memory: 1.5Ti
    labels: {row: a}
    slices: {half: {gpu: 0.5, memory: 40Gi}}
    except:
      1, 4-5: {zone: web, taints: [spot, old], gpus_per_node: 4}
"""
    )
    usual = NodeShape(8, 2, 2, 4, 96_500, 1_572_864, None, frozenset({("row", "a")}))
    other = NodeShape(4, 2, 2, 4, 96_500, 1_572_864, None, frozenset({("row", "a")}), frozenset({"spot", "old"}), "web")
    assert read_cluster(tmp_path / "c.yaml").pools == (
        PoolSpec.detailed(
            "h100",
            ((1, usual), (1, other), (2, usual), (2, other)),
            Topology(leaf=(0, 4), spine=(0,)),
            2.0,
            81_920,
            (Profile("half", 500, 40_960),),
        ),
    )


def test_memory_and_speed_alone_leave_a_pool_plain(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("pools: [{name: a, nodes: 2, gpu_memory: 80Gi, speed: 2}]")
    assert read_cluster(tmp_path / "c.yaml").pools == (PoolSpec("a", 2, 8, speed=2.0, gpu_memory_mib=81_920),)


def test_every_example_of_the_page_can_be_read(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "cluster-file.md"
    examples = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) > 5
    for text in examples:
        (tmp_path / "c.yaml").write_text(text)
        assert read_cluster(tmp_path / "c.yaml").gpus > 0
