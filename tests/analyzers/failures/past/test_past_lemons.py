"""Which nodes are named, and that nobody can get one named alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.failures.past import rank_nodes
from analyzers.failures.past.background import Background
from analyzers.failures.past.starts import starts_of
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
    proven = failures_on("n3", ["bo", "bo", "bo"], "infrastructure-hardware", culprits=("n3",))
    assert named(healthy() + proven) == named(healthy() + proven[:2]) == ["n3"]
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


def told(hour: int, nodes: str, user: str, *accused: str, **more: object) -> FailureRecord:
    """A failure that only the job's own log calls a node's fault."""
    return ended(hour, nodes, "infrastructure-hardware", user=user, node_fault=True, accused=accused, **more)


def test_logs_of_three_users_that_tell_of_broken_hardware_name_a_node_of_large_jobs() -> None:
    gang = " ".join(f"n{node}" for node in range(8))
    users = ["u1", "u2", "u5"]
    assert named(healthy() + [told(400 + at, gang, user, "n3") for at, user in enumerate(users)]) == ["n3"]
    standing = rank_nodes(healthy() + [told(400 + at, gang, user, "n3") for at, user in enumerate(users)])[0]
    assert (standing.failures, standing.by_log, standing.proven, standing.users) == (3, 3, 0, 3)
    unnamed = rank_nodes(healthy() + [told(400 + at, gang, user) for at, user in enumerate(users)])
    assert not any(each.named for each in unnamed) and {each.failures for each in unnamed} == {3}
    unknown = rank_nodes(healthy() + [ended(400 + at, gang, "unknown", user=user) for at, user in enumerate(users)])
    assert not any(each.named for each in unknown)


def test_told_hardware_is_stronger_than_a_failure_of_unknown_cause() -> None:
    users = ["u1", "u2", "u5"]
    of_log = rank_nodes(healthy() + [told(400 + at, "n3", user) for at, user in enumerate(users)])[0]
    of_nobody = rank_nodes(healthy() + failures_on("n3", users))[0]
    assert of_log.named and of_log.evidence > of_nobody.evidence + 0.5


def test_a_user_who_forges_broken_hardware_names_no_node() -> None:
    forged = [told(400 + at, "n3", "mallory", "n3", work=f"w{at}") for at in range(40)]
    assert named(healthy() + forged) == []
    assert named(healthy() + forged + failures_on("n3", ["u1"])) == []
    elsewhere = [told(400 + at, f"n{5 + at % 9}", "mallory", "n3") for at in range(40)]
    assert named(healthy() + elsewhere) == []  # it did not run there
    gang = " ".join(f"n{node}" for node in range(16))
    forged = [told(400 + at, gang, "mallory", "n3", work=f"w{at}") for at in range(3)]
    accident = ended(400, "n3", "infrastructure-hardware", user="bo", culprits=("n3",))
    assert named([*healthy(), accident, *forged]) == []


def test_a_match_that_is_wrong_everywhere_is_its_own_background() -> None:
    wrong = [told(hour, f"n{hour % 20}", f"u{hour % 7}") for hour in range(1, 400, 5)]
    assert (
        named([*healthy(), *wrong, *(told(401 + at, "n3", user) for at, user in enumerate(["u1", "u2", "u5"]))]) == []
    )


def test_many_short_jobs_beside_do_not_make_two_accidents_proof() -> None:
    flood = [ended(hour, f"n{hour % 20}", user="flood") for hour in range(20_000)]
    assert named(flood + [told(20_000 + at, "n3", user) for at, user in enumerate(["u1", "u2"])]) == []


def test_the_first_nodes_of_jobs_are_named_for_the_whole_job_more_often() -> None:
    gang = "n3 " + " ".join(f"n{node}" for node in range(4, 11))
    last = " ".join(f"n{node}" for node in range(4, 11)) + " n3"
    users = ["u1", "u2", "u5"]
    first, other = (
        rank_nodes(healthy() + [told(400 + at, nodes, user, "n3") for at, user in enumerate(users)])[0]
        for nodes in (gang, last)
    )
    assert other.evidence > first.evidence + 1


@pytest.mark.parametrize("true", [0.005, 0.02])
def test_an_accident_of_hardware_is_on_average_worth_hardly_more_than_it_should_be(true: float) -> None:
    """The rate that it is weighed against where all nodes are good: its mean inverse is hardly more than that of the
    true one, however few such accidents there have been."""
    rng = np.random.default_rng(5)
    worth = []
    for _ in range(100):
        told_here = rng.random(300) < true
        records = [
            told(hour, f"n{hour % 20}", f"u{hour}") if broken else ended(hour, f"n{hour % 20}", user=f"u{hour}")
            for hour, broken in enumerate(told_here)
        ]
        starts = starts_of([*records, told(300, "n3", "u300")])
        rates = Background(starts).rates(np.zeros(len(starts.kind), dtype=np.bool_))
        worth.append(true / rates[-1])
    assert 0.3 < np.mean(worth) <= 1.1


HISTORY = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from(["none", "unknown", "told", "named"])), max_size=40
)


def history(drawn: list[tuple[int, int, str]], users: list[str]) -> list[FailureRecord]:
    records = healthy(60, 6)
    for at, (node, user, how) in enumerate(drawn):
        nodes = f"n{node} n{(node + 1 + at % 4) % 6}"
        if how in ("told", "named"):
            records.append(told(60 + at, nodes, users[user], *([f"n{node}"] if how == "named" else [])))
        else:
            records.append(ended(60 + at, nodes, how, user=users[user]))
    return records


@given(HISTORY, st.permutations([f"u{number}" for number in range(5)]))
@settings(max_examples=40, deadline=None)
def test_who_is_called_what_changes_nothing(drawn: list[tuple[int, int, str]], names: list[str]) -> None:
    plain = history(drawn, [f"x{number}" for number in range(5)])
    assert rank_nodes(plain) == rank_nodes(history(drawn, [f"x{name}" for name in names]))


@given(HISTORY, st.integers(0, 5), st.integers(1, 60), st.sampled_from(["unknown", "told", "named"]))
@settings(max_examples=40, deadline=None)
def test_failures_of_one_user_alone_name_no_node(
    drawn: list[tuple[int, int, str]], node: int, count: int, how: str
) -> None:
    elsewhere = [each for each in history(drawn, [f"x{n}" for n in range(5)]) if f"n{node}" not in each.nodes]
    good = [ended(at, f"n{node}", user=f"u{at % 7}") for at in range(60)]
    mine = [
        told(200 + at, f"n{node}", "mallory", f"n{node}", work=f"w{at}") if how != "unknown"
        else ended(200 + at, f"n{node}", "unknown", user="mallory", work=f"w{at}")
        for at in range(count)
    ]  # fmt: skip
    assert f"n{node}" not in named(elsewhere + good + mine)


@given(HISTORY, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_one_more_failure_told_by_another_user_speaks_against_the_node(
    drawn: list[tuple[int, int, str]], node: int
) -> None:
    """Where logs seldom tell of hardware: where they often do, one more may be worth less than none."""
    calm = [each if each[2] in ("none", "unknown") else (each[0], each[1], "none") for each in drawn]
    before = [*history(calm, [f"x{n}" for n in range(5)]), told(110, f"n{node}", "y", f"n{node}")]
    after = [*before, told(110, f"n{node}", "z", f"n{node}")]
    evidence = [
        next((each.evidence for each in rank_nodes(records) if each.node == f"n{node}"), None)
        for records in (before, after)
    ]
    assert evidence[1] is not None and (evidence[0] is None or evidence[1] >= evidence[0])
