"""Which nodes are named, and that nobody can get one named alone."""

from __future__ import annotations

import pytest

from analyzers.failures.past import rank_nodes
from analyzers.types import FailureRecord
from benchmarks.lemons import SETTINGS, month, play

HOUR_S = 3600.0


def ended(hour: int, nodes: str, category: str = "none", user: str = "u", **more: object) -> FailureRecord:
    given = {"user": user, "work": f"{user}-train", "nodes": tuple(nodes.split()), "nodes_told": True, **more}
    return FailureRecord(f"{user}-{hour}-{nodes}", hour * HOUR_S, category, **given)  # type: ignore[arg-type]


def healthy(count: int = 400, nodes: int = 20) -> list[FailureRecord]:
    return [ended(hour, f"n{hour % nodes}", user=f"u{hour % 7}") for hour in range(count)]


def named(records: list[FailureRecord], **more: int) -> list[str]:
    return [each.node for each in rank_nodes(sorted(records, key=lambda r: r.at_s), **more) if each.named]


def failures_on(node: str, users: list[str], category: str = "unknown", **more: object) -> list[FailureRecord]:
    return [ended(400 + at, node, category, user=user, **more) for at, user in enumerate(users)]


def test_three_users_fail_on_one_node() -> None:
    assert named(healthy() + failures_on("n3", ["u1", "u2", "u5"])) == ["n3"]
    standing = rank_nodes(healthy() + failures_on("n3", ["u1", "u2", "u5"]))[0]
    assert standing.users == standing.failures == 3 and standing.expected < 1.5
    assert standing.evidence >= standing.needed


def test_one_users_jobs_alone_never_name_a_node() -> None:
    many = failures_on("n3", ["mallory"] * 40)
    assert named(healthy() + many) == []
    works = [ended(500 + at, "n3", "unknown", user="mallory", work=f"w{at}") for at in range(40)]
    assert named(healthy() + works) == []
    nobody = [ended(600 + at, "n3", "unknown", user="", work=f"w{at}") for at in range(40)]
    assert named(healthy() + works + nobody) == []
    trusted = [ended(hour, f"n{hour % 20}", user="mallory") for hour in range(400)]
    assert named(healthy() + trusted + works + failures_on("n3", ["u1"])) == []


def test_the_platforms_word_counts_whosoever_job_it_was() -> None:
    proven = failures_on("n3", ["bo", "bo"], "infrastructure-hardware", culprits=("n3",))
    assert named(healthy() + proven) == ["n3"]
    assert named(healthy() + proven[:1]) == []


def test_one_failure_is_too_few_whoever_tells_it() -> None:
    lost = failures_on("n3", ["bo"], "infrastructure-hardware", culprits=("n3",))
    assert named(lost) == [] and rank_nodes(lost)[0].failures == 1
    assert named([*healthy(4000), ended(4001, "n3", "infrastructure-hardware", culprits=("n3",))]) == []


@pytest.mark.parametrize("category", ["user-code", "data", "scheduler-or-preemption", "resource-request"])
def test_what_is_the_jobs_own_fault_does_not_count(category: str) -> None:
    assert rank_nodes(healthy() + failures_on("n3", ["u1", "u2", "u5"], category)) == ()


def test_where_a_job_only_says_itself_that_it_ran_does_not_count() -> None:
    claimed = failures_on("n3", ["u1", "u2", "u5"], nodes_told=False)
    assert rank_nodes(healthy() + claimed) == ()


def test_without_jobs_that_ended_well_nobody_is_named() -> None:
    assert named([ended(at, f"n{at % 5}", "unknown", user=f"u{at}") for at in range(60)]) == []


def test_who_fails_everywhere_blames_nobody() -> None:
    crashing = [ended(hour, f"n{hour % 20}", "unknown", user=f"c{hour % 3}") for hour in range(1, 300, 2)]
    assert named(healthy() + crashing) == []


def test_nodes_that_always_fail_together_are_not_told_apart() -> None:
    pairs = [ended(at, "n3 n4", user=f"u{at % 7}") for at in range(0, 400, 40)]
    records = [each for each in healthy() if each.nodes[0] not in ("n3", "n4")] + pairs
    ranked = rank_nodes(
        sorted(records + failures_on("n3 n4", ["u1", "u2", "u3", "u4", "u5"]), key=lambda r: r.at_s), nodes_total=20
    )
    assert not any(each.named for each in ranked)
    assert {each.node: each.beside for each in ranked[:2]} == {"n3": ("n4",), "n4": ("n3",)}


def test_a_node_that_turned_bad_after_long_good_service_is_named() -> None:
    assert named(healthy(2000) + [ended(2001 + at, "n3", "unknown", user=f"u{at}") for at in range(4)]) == ["n3"]


def test_simulated_month() -> None:
    outcome = play(SETTINGS[0], seed=0)
    assert all(count is not None and count <= 3 for count in outcome.until.values()), outcome
    assert len(outcome.until) == 2 and not outcome.false
    assert len(outcome.struck) > 10  # what three strikes would have done


def test_a_month_is_the_same_every_time() -> None:
    assert month(SETTINGS[1], 3) == month(SETTINGS[1], 3)
