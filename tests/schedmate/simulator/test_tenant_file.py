"""Tenants as people write them, and what is wrong with some of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate.scheduler import Queueing, Quota
from schedmate.simulator.cluster_file import read_cluster, read_tenants
from schedmate.simulator.of_tenants import tenant_names

POOLS = "pools: {a100: 2x8}\n"


def written(folder: Path, tenants: str) -> Path:
    path = folder / "c.yaml"
    path.write_text(POOLS + tenants)
    return path


def test_a_tree_by_path(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
tenants:
  lab: {quota: {a100: 12}}
  lab/vision: {weight: 2, queue: strict, quota: {a100: {guaranteed: 8, borrow: 4, lend: 2}}}
  lab/text: {isolated: true, quota: {a100: 0.5}}
  other:
""",
    )
    tenants = read_tenants(path, read_cluster(path))
    assert list(tenant_names(tenants)) == ["lab", "lab/vision", "lab/text", "other"]
    lab, other = tenants
    vision, text = lab.children
    assert (vision.weight, vision.queueing, vision.quotas["a100"]) == (2.0, Queueing.STRICT, Quota(8, 4, 2))
    assert (text.isolated, text.quotas["a100"]) == (True, Quota(0.5))
    assert (lab.queueing, lab.quotas["a100"], other.quotas) == (None, Quota(12), {})


@pytest.mark.parametrize("tenants", ["", "tenants:", "tenants: {}"])
def test_there_may_be_none(tmp_path: Path, tenants: str) -> None:
    path = written(tmp_path, tenants)
    assert read_tenants(path, read_cluster(path)) == ()


@pytest.mark.parametrize(
    ("tenants", "words"),
    [
        ("[lab]", "tenants is not a mapping"),
        ("{lab: 8}", "tenants: lab is not a mapping"),
        ("{lab: {quota: 8}}", "tenants: lab: quota is not a mapping"),
        ("{lab: {quota: {tpu: 1}}}", "tenants: tenant lab has quota of GPU type tpu, which no pool has"),
        ("{lab: {quota: {a100: 17}}}", "tenants: the cluster has 16 GPUs of type a100 to give, 17 are guaranteed"),
        ("{lab: {quota: {a100: -1}}}", "tenants: lab: quota: a100: guaranteed is -1"),
        ("{lab: {quota: {a100: .nan}}}", "guaranteed is nan"),
        ("{lab: {quota: {a100: {most: 4}}}}", "quota: a100: unknown key 'most'"),
        ("{lab: {queue: fast}}", "tenants: lab: no queueing 'fast'"),
        ("{lab: {weight: 0}}", "weight is 0"),
        ("{lab: {isolated: maybe}}", "isolated is 'maybe'"),
        ("{lab: {colour: red}}", "unknown key 'colour'"),
        ("{lab/a: {}}", "tenant lab/a has no parent lab"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, tenants: str, words: str) -> None:
    path = written(tmp_path, f"tenants: {tenants}\n")
    with pytest.raises(UserError) as raised:
        read_tenants(path, read_cluster(path))
    assert str(raised.value).startswith(f"{path}: ")
    assert words in str(raised.value)


@pytest.mark.parametrize("name", ['""', "lab/", "/lab", "lab//vision", "lab" + "/x" * 100])
def test_a_name_that_is_no_path(tmp_path: Path, name: str) -> None:
    parts = name.split("/")
    above = "".join(f"  {'/'.join(parts[:i])}:\n" for i in range(1, len(parts)) if parts[0])
    path = written(tmp_path, f"tenants:\n{above}  {name}: {{}}\n")
    with pytest.raises(UserError, match="is no path of a tenant"):
        read_tenants(path, read_cluster(path))
