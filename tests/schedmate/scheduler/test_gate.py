"""Whose hints are believed: who has proved to be worth it, whatever the others say."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import gate as rules
from schedmate.scheduler.gate import Gate, Record, Trust, Who

BLIND_S = 3600.0
Say = Callable[[float, random.Random], float]

TRUTH: Say = lambda true_s, draw: true_s  # noqa: E731
MINUTE: Say = lambda true_s, draw: 60.0  # noqa: E731
OPPOSITE: Say = lambda true_s, draw: 3600.0**2 / true_s  # noqa: E731
TENTH: Say = lambda true_s, draw: true_s / 10  # noqa: E731
TENFOLD: Say = lambda true_s, draw: true_s * 10  # noqa: E731
NOISY: Say = lambda true_s, draw: true_s * draw.lognormvariate(0.0, 1.0)  # noqa: E731


def seen(gate: Gate, said: dict[str, Say], jobs: int, seed: int = 1, tenant: str = "") -> Gate:
    """So many jobs of each owner end, in turn; each owner says what it says."""
    draw = random.Random(seed)
    for number in range(jobs):
        for owner, say in said.items():
            true_s = draw.lognormvariate(7.0, 2.0)
            who = Who(owner, "user", tenant)
            gate.end(f"{owner}-{number}", {who: say(true_s, draw)}, BLIND_S, draw.choice((1, 1, 2, 8)), true_s)
            gate.look([(key, ()) for key in gate.take_in()])
    return gate


@pytest.mark.parametrize("say", [TRUTH, NOISY])
def test_nothing_is_believed_at_first_and_what_proves_itself_is(say: Say) -> None:
    gate = seen(Gate(), {"ann": say}, rules.OWN - 1)
    assert gate.factor(Who("ann", "user")) is None
    assert "too few" in gate.trust(Who("ann", "user")).words()
    seen(gate, {"ann": say}, 100)
    assert gate.factor(Who("ann", "user")) is not None
    assert "hints of ann from user are used" in gate.trust(Who("ann", "user")).words()


@pytest.mark.parametrize("say", [MINUTE, OPPOSITE])
def test_what_is_worse_than_nothing_is_not_believed(say: Say) -> None:
    gate = seen(Gate(), {"ann": say}, 300)
    assert gate.factor(Who("ann", "user")) is None
    trust = gate.trust(Who("ann", "user"))
    assert trust.ratio is not None and trust.ratio > 1
    assert "hints of ann from user are not used: by" in trust.words()


def test_one_who_turns_to_lies_is_found_out_and_one_who_turns_to_truth_too() -> None:
    gate = seen(Gate(), {"ann": TRUTH, "bob": MINUTE}, 500)
    assert gate.factor(Who("ann", "user")) == 1.0 and gate.factor(Who("bob", "user")) is None
    seen(gate, {"ann": MINUTE, "bob": TRUTH}, 150, seed=2)
    assert gate.factor(Who("ann", "user")) is None
    seen(gate, {"bob": TRUTH}, 3000, seed=3)
    assert gate.factor(Who("bob", "user")) is not None


def test_who_says_a_tenth_of_everything_is_taken_at_ten_times_that() -> None:
    gate = seen(Gate(), {"ann": TENTH, "bob": TRUTH, "cyd": TENFOLD}, 500)
    assert gate.factor(Who("ann", "user")) == pytest.approx(10.0, rel=0.05)
    assert gate.factor(Who("bob", "user")) == 1.0
    assert gate.factor(Who("cyd", "user")) in (None, 1.0)
    assert "times what they say" in gate.trust(Who("ann", "user")).words()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([MINUTE, OPPOSITE, TENTH, NOISY]), min_size=1, max_size=3), st.integers(0, 99))
def test_what_others_say_never_touches_ones_own_record(liars: list[Say], seed: int) -> None:
    """Their jobs are the same; what is said of them differs."""

    def record(says: list[Say]) -> Record | None:
        draw, gate = random.Random(seed), Gate()
        for number in range(80):
            for owner, say in enumerate([TRUTH, *says]):
                true_s, gpus = draw.lognormvariate(7.0, 2.0), draw.choice((1, 2, 8))
                said_s = say(true_s, random.Random(number))
                gate.end(f"{owner}-{number}", {Who(str(owner), "user"): said_s}, BLIND_S, gpus, true_s)
                gate.look([(key, ()) for key in gate.take_in()])
        return gate.judge(Who("0", "user"))

    assert record(liars) == record([TRUTH] * len(liars))


def test_the_word_of_a_good_source_counts_for_newcomers_and_of_a_bad_one_does_not() -> None:
    good = seen(Gate(), {f"u{i}": TRUTH for i in range(20)}, 10)
    assert good.factor(Who("new", "user")) == 1.0
    assert good.factor(Who("new", "other source")) is None
    assert "those who are new" in good.trust(Who("new", "user")).words()
    bad = seen(Gate(), {f"u{i}": MINUTE for i in range(20)}, 10)
    assert bad.factor(Who("new", "user")) is None


def test_one_owner_alone_can_not_ruin_a_source_for_newcomers() -> None:
    gate = seen(Gate(), {f"u{i}": TRUTH for i in range(6)}, rules.OWN)
    assert gate.factor(Who("new", "user")) == 1.0
    seen(gate, {"liar": MINUTE}, 5000)
    assert gate.factor(Who("new", "user")) == 1.0
    assert gate.factor(Who("liar", "user")) is None


NEW = Who("new", "user", "lab")


def many(say: Say, owners: int = 30) -> dict[str, Say]:
    """So many people who all say the same."""
    return {f"{owners}-{number}": say for number in range(owners)}


def honest_tenants() -> Gate:
    """Six of them, each with ten people of whom five jobs have ended."""
    gate = Gate()
    for tenant in ("lab", "t1", "t2", "t3", "t4", "t5"):
        seen(gate, many(TRUTH, 10), 5, tenant=tenant)
    return gate


def test_who_is_new_is_judged_by_the_newcomers_of_its_tenant_once_enough_of_those_have_ended() -> None:
    gate = honest_tenants()
    liar = Who("new", "user", "liars")
    seen(gate, many(MINUTE, rules.OWN - 1), 1, tenant="liars")
    assert gate.factor(liar) == 1.0
    assert "hints of those who are new from user are used" in gate.trust(liar).words()
    seen(gate, {"one more": MINUTE}, 1, tenant="liars")
    assert gate.factor(liar) is None
    assert "hints of those of liars who are new from user are not used: by 50 ended" in gate.trust(liar).words()
    assert gate.factor(NEW) == 1.0
    assert "hints of those of lab who are new from user are used: by 50 ended" in gate.trust(NEW).words()
    assert gate.factor(NEW._replace(source="other")) is None
    assert [trust.tenant for trust in gate.trusts] == ["", "lab", "liars", "t1", "t2", "t3", "t4", "t5"]


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([TRUTH, MINUTE, NOISY]),
    st.lists(st.sampled_from([MINUTE, OPPOSITE, TENTH, NOISY]), min_size=1, max_size=3),
    st.integers(0, 99),
)
def test_what_other_tenants_say_never_touches_the_record_of_a_tenants_newcomers(
    own: Say, others: list[Say], seed: int
) -> None:
    """Their jobs are the same; what is said of them differs."""

    def record(says: list[Say]) -> Record | None:
        draw, gate = random.Random(seed), Gate()
        for number in range(rules.OWN + 30):
            for tenant, say in enumerate([own, *says]):
                true_s, gpus = draw.lognormvariate(7.0, 2.0), draw.choice((1, 2, 8))
                who = Who(f"{tenant}-{number // 5}", "user", str(tenant))
                said_s = say(true_s, random.Random(number))
                gate.end(f"{tenant}-{number}", {who: said_s}, BLIND_S, gpus, true_s)
                gate.look([(key, ()) for key in gate.take_in()])
        new = Who("new", "user", "0")
        assert gate.judged_by(new) == Who(None, "user", "0")
        return gate.judge(new)

    assert record(others) == record([TRUTH] * len(others))


def test_under_however_many_names_a_tenant_lies_it_can_not_ruin_a_source_for_new_tenants() -> None:
    gate, new = honest_tenants(), Who("new", "user", "new tenant")
    assert gate.factor(new) == 1.0
    seen(gate, many(MINUTE), 40, tenant="liars")
    assert gate.factor(new) == gate.factor(Who("nobody's", "user")) == 1.0
    assert gate.trust(new).ended == 7 * rules.OWN
    assert gate.factor(Who("30-0", "user", "liars")) is None


def test_an_owner_of_enough_jobs_is_judged_by_itself_in_whatever_tenant_it_works() -> None:
    gate = seen(Gate(), {"ann": TRUTH}, rules.OWN // 2, tenant="lab")
    seen(gate, {"ann": TRUTH}, rules.OWN // 2, seed=2, tenant="liars")
    seen(gate, many(MINUTE), 10, tenant="liars")
    assert [gate.factor(Who("ann", "user", tenant)) for tenant in ("lab", "liars", "")] == [1.0] * 3
    assert "hints of ann from user are used: by 50 ended" in gate.trust(Who("ann", "user", "liars")).words()
    assert gate.factor(Who("bob", "user", "liars")) is None


def test_a_tenant_that_speaks_for_itself_is_an_owner_and_vouches_for_its_newcomers() -> None:
    lab = Who("lab", "user", "lab")
    gate = seen(Gate(), {"lab": TRUTH}, rules.OWN - 1, tenant="lab")
    assert gate.judged_by(lab) == gate.judged_by(NEW) == Who(None, "user")
    seen(gate, {"lab": TRUTH}, 1, seed=2, tenant="lab")
    assert gate.judged_by(lab) == Who("lab", "user") and gate.judged_by(NEW) == Who(None, "user", "lab")
    assert gate.factor(lab) == gate.factor(NEW) == 1.0
    assert gate.trust(lab).ended == gate.trust(NEW).ended == rules.OWN


def test_a_job_that_has_run_for_longer_than_was_said_counts_before_it_has_ended() -> None:
    """Who tells the truth of what is short and lies of what is long is found out while that still runs."""

    def told(long_s: float) -> float | None:
        """Of short jobs the truth, and of five that run for longer than all of them this."""
        gate = Gate()
        for number in range(rules.OWN):
            true_s = 20.0 * (1 + number)
            gate.end(f"j{number}", {Who("ann", "user"): true_s}, BLIND_S, 1, true_s)
        gate.look([(key, [rules.Seen(long_s, BLIND_S, 1, 1e6)] * 5) for key in gate.take_in()])
        return gate.factor(Who("ann", "user"))

    assert told(60.0) is None
    assert told(1e7) == told(1e6) == 1.0


JOBS = st.tuples(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), st.integers(1, 9), st.integers(1, 9))


@given(st.lists(JOBS, max_size=40), st.randoms())
@settings(deadline=None)
def test_the_order_of_what_ends_at_one_moment_does_not_matter(
    jobs: list[tuple[str, str, int, int]], random: random.Random
) -> None:
    def at_once(order: list[int]) -> tuple[Gate, tuple[Trust, ...]]:
        gate = Gate()
        for number in order:
            owner, tenant, said_s, true_s = jobs[number]
            gate.end(f"j{number}", {Who(owner, "user", tenant): float(said_s)}, 5.0, 1, float(true_s))
        gate.look([(key, ()) for key in gate.take_in()])
        return gate, gate.trusts

    order = list(range(len(jobs)))
    random.shuffle(order)
    with patch.multiple(rules, STEP=2, OWN=4, MOST_RECORDS=4):
        assert at_once(order) == at_once(sorted(order))


def test_what_was_found_out_is_recalled_and_goes_on_alike() -> None:
    old = seen(Gate(), {"ann": TRUTH, "bob": MINUTE}, 70)
    seen(old, many(MINUTE), 2, tenant="lab")
    old.end("late", {Who("ann", "user"): 5.0}, BLIND_S, 1, 7.0)
    new = Gate()
    new.recall(old)
    assert new == old and new.trusts == old.trusts
    for each in (old, new):
        seen(each, {"ann": MINUTE, "bob": TRUTH}, 100, seed=5)
        seen(each, many(TRUTH), 2, seed=5, tenant="lab")
    assert new == old and new.trust(NEW).ended == 120
    seen(new, {"ann": TRUTH}, 30, seed=6)
    assert new != old


def test_there_are_never_more_records_than_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_RECORDS", 3)
    gate = seen(Gate(), {f"u{i}": TRUTH for i in range(5)}, rules.OWN)
    assert len({trust.owner for trust in gate.trusts if trust.owner is not None}) <= 3
    for tenant in range(5):
        seen(gate, {"ann": TRUTH, "bob": MINUTE}, rules.OWN, tenant=f"t{tenant}")
        seen(gate, many(MINUTE), 3, tenant=f"t{tenant}")
    assert len([trust for trust in gate.trusts if trust.owner is not None or trust.tenant]) <= 3
    assert gate.judged_by(Who("new", "user", "t0")) == Who(None, "user")
    assert gate.judged_by(Who("new", "user", "t4")) == Who(None, "user", "t4")


@pytest.mark.parametrize("true_s", [0.0, 1e-9, 1e12])
def test_no_size_upsets_it(true_s: float) -> None:
    gate = seen(Gate(), {"ann": lambda _, draw: true_s}, 200)
    for number in range(100):
        gate.end(f"z{number}", {Who("ann", "user"): 0.0}, 0.0, 0, true_s)
    gate.look([(key, ()) for key in gate.take_in()])
    assert all(math.isfinite(trust.factor) for trust in gate.trusts)


def test_what_an_owners_jobs_usually_last_is_known_once_it_is_judged_by_itself() -> None:
    gate = Gate()
    for at in range(rules.OWN):
        assert gate.usual_s(Who("ann", "user")) is None
        gate.end(f"j{at}", {Who("ann", "user"): 1.0}, 3600.0, 1, 100.0 if at % 5 else 1000.0)
        gate.take_in()
    assert gate.usual_s(Who("ann", "user")) == (280.0, 1000.0)
    assert gate.usual_s(Who("bob", "user")) is None
