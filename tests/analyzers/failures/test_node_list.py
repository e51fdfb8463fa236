"""Ranks placed by the scheduler's node list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.failures.node_list import expand, learn_nodes, place_by_list
from analyzers.failures.topology import Topology


@pytest.mark.parametrize(
    ("written", "nodes"),
    [
        ("n[01-03,7],login1", ("n01", "n02", "n03", "n7", "login1")),
        ("gpu-a1,gpu-a2", ("gpu-a1", "gpu-a2")),
        ("rack2-n[9-11].local", ("rack2-n9.local", "rack2-n10.local", "rack2-n11.local")),
        ("n[3-1]", ()),
    ],
)
def test_host_lists(written: str, nodes: tuple[str, ...]) -> None:
    assert expand(written) == nodes


def test_a_list_that_contradicts_what_is_known_places_nobody() -> None:
    topology = Topology()
    learn_nodes("SLURM_JOB_NODELIST=n[1-2] world_size=4", topology)
    topology.place(0, "n2")
    topology.place(3, None)
    place_by_list(topology)
    assert topology.node(3) is None


def test_an_uneven_list_places_nobody() -> None:
    topology = Topology()
    learn_nodes("SLURM_JOB_NODELIST=n[1-3] world_size=4", topology)
    topology.place(3, None)
    place_by_list(topology)
    assert topology.node(3) is None


@given(st.text(alphabet="n0123456789[]-,.", max_size=40))
def test_no_list_is_too_odd_or_too_long(written: str) -> None:
    assert len(expand(written)) <= 20_000
