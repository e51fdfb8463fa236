"""What is counted, by hand: states of facts, measures of logs, changes, intervals and verdicts."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.types import Diagnosis, LogEvidence
from schedmate.evaluation.jobs import State, state_of
from schedmate.evaluation.logs import judge_log, same_line
from schedmate.evaluation.report import Counts, Prices, asking, changes, interval, quality, rejections
from schedmate.evaluation.run import Row
from schedmate.evaluation.verdict import result_of

STATES: tuple[State, ...] = get_args(State)
OOM = "[rank5]: torch.OutOfMemoryError: CUDA out of memory"


def row(*items: tuple[str, bool, State, State], **more: Any) -> Row:
    made: Row = {
        "key": "k",
        "kind": "jobs",
        "id": "one",
        "items": [{"name": n, "wanted": w, "without": a, "with_model": b} for n, w, a, b in items],
        "blamed_without": False,
        "blamed_with": False,
        "questions": [],
        "notes": [],
        "error": "",
        "seconds_without": 0.5,
        "seconds_with": 2.0,
    }
    made.update(more)  # type: ignore[typeddict-item]
    return made


def question(*attempts: tuple[str, bool, float, int, int], **more: Any) -> Any:
    rows = [
        {"rung": r, "accepted": ok, "outcome": "", "seconds": s, "tokens_sent": a, "tokens_received": b}
        for r, ok, s, a, b in attempts
    ]
    made = {"template": "t@1", "accepted": True, "cached": False, "failure": "", "reason": "", "seconds": 1.0}
    return {**made, "attempts": rows, **more}


@pytest.mark.parametrize(
    ("name", "found", "state"),
    [
        ("epochs", 3, "right"),
        ("epochs", 4, "wrong"),
        ("epochs", None, "silent"),
        ("max_steps", 1200, "right"),
        ("max_steps", 1300, "wrong"),
        ("num_gpus", 8, "guess"),
        ("image_size", 32, "unjudged"),
        ("optimizer", "AdamW", "unjudged"),
        ("model", "resnet", "wrong"),
    ],
)
def test_the_state_of_a_fact(name: str, found: Any, state: str) -> None:
    label = {
        "expected": {"epochs": 3, "max_steps": None, "num_gpus": None, "image_size": None, "model": "resnet 50"},
        "accept": {"max_steps": [None, 1200]},
        "must_not_guess": ["num_gpus"],
        "wrong_values": {"model": ["resnet"]},
    }
    assert state_of(label, name, found) == state


def test_every_measure_of_a_log() -> None:
    label = {
        "category": "resource-request",
        "alt_categories": ["user-code"],
        "evidence_line": OOM + ".",
        "culprit_rank": 5,
        "culprit_node": "cn08",
        "retryable": False,
        "action": "lower_gpu_memory",
        "alt_actions": ["fix_config"],
    }
    found = Diagnosis(
        "user-code", "", 0.6, (5, 6), ("cn08", "cn09"),
        evidence=(LogEvidence("a.log", 3, f"\x1b[31m{OOM}\x1b[0m"),), retryable=None, action="fix_config",
    )  # fmt: skip
    judged = judge_log(label, found)
    assert judged.measures == {
        "category": (True, "right"),
        "category_strict": (True, "wrong"),
        "evidence": (True, "right"),
        "rank": (True, "wrong"),
        "node": (True, "wrong"),
        "retryable": (True, "silent"),
        "action": (True, "right"),
    }
    assert judged.blamed, "cn09 had nothing to do with it"
    open_ = judge_log(label, Diagnosis("unknown", "", 0.2))
    assert {state for _, state in open_.measures.values()} == {"silent"} and not open_.blamed


def test_who_is_blamed_though_innocent() -> None:
    several: dict[str, Any] = {"category": "storage", "files": ["a", "b"], "culprit_rank": None, "culprit_node": None}
    blaming = Diagnosis("storage", "", 0.9, (3,), ())
    assert judge_log(several, blaming).measures["rank"] == (False, "guess") and judge_log(several, blaming).blamed
    assert not judge_log({**several, "files": ["a"]}, blaming).blamed, "one file: where it was seen"
    assert not judge_log({**several, "category": "unknown"}, blaming).blamed
    assert judge_log({**several, "files": ["a"]}, Diagnosis("storage", "", 0.9, (), ("n1",))).blamed


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ("short", "short", True),
        ("short", "a short one", False),
        (OOM, f"2026-03-04 {OOM}", True),
        (OOM, OOM + "x" * 161, False),
        (f"{OOM}\n{OOM}", OOM, False),
        ("", "", False),
    ],
)
def test_when_two_lines_are_one(found: str, wanted: str, same: bool) -> None:
    assert same_line(found, wanted) is same


def test_what_is_added_mended_and_broken() -> None:
    counts = Counts()
    for before, after in [
        ("silent", "right"), ("silent", "right"), ("silent", "wrong"), ("silent", "guess"), ("silent", "unjudged"),
        ("wrong", "right"), ("right", "wrong"), ("right", "silent"), ("right", "right"), ("silent", "silent"),
    ]:  # fmt: skip
        counts.add(True, before, after)  # type: ignore[arg-type]
    assert changes(counts) == {
        "added_right": 2, "added_wrong": 2, "added_unjudged": 1, "mended": 1, "broken": 2,
    }  # fmt: skip
    assert quality(counts, with_model=False) == {
        "right": 3, "wrong": 1, "guesses": 0, "precision": 0.75, "recall": 0.3,
    }  # fmt: skip
    assert quality(counts, with_model=True) == {
        "right": 4, "wrong": 2, "guesses": 1, "precision": 0.571429, "recall": 0.4,
    }  # fmt: skip


def test_a_value_that_is_accepted_and_not_wanted_lifts_no_recall() -> None:
    counts = Counts()
    counts.add(False, "right", "right")
    counts.add(True, "silent", "right")
    assert quality(counts, with_model=True)["recall"] == 1.0
    assert quality(counts, with_model=False)["recall"] == 0.0


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(STATES), st.sampled_from(STATES)), max_size=30))
def test_the_changes_account_for_every_right_one(cases: list[tuple[bool, State, State]]) -> None:
    counts = Counts()
    for case in cases:
        counts.add(*case)
    told = changes(counts)
    before, after = quality(counts, with_model=False), quality(counts, with_model=True)
    unjudged_before = counts.changed["unjudged", "right"]
    assert after["right"] - before["right"] == (told["added_right"] + told["mended"] + unjudged_before - told["broken"])
    for each in (before, after):
        assert all(share is None or 0 <= share <= 1 for share in (each["precision"], each["recall"]))


def test_the_interval_is_that_of_wilson() -> None:
    assert interval(0, 0) is None
    assert interval(8, 10) == [0.4902, 0.9433]
    assert interval(10, 10) == [0.7225, 1.0]


def test_seconds_tokens_rungs_and_cost_by_hand() -> None:
    rows = [
        row(questions=[question(("json_schema", False, 0.5, 100, 10), ("json_mode", True, 1.5, 120, 20), seconds=2.0)]),
        row(questions=[question(cached=True, seconds=0.0)]),
        row(questions=[question(("json_schema", True, 3.0, 100, 30), seconds=6.0)]),
        row(
            questions=[
                question(("json_schema", False, 4.0, 1, 1), accepted=False, failure="endpoint", seconds=4.0),
                question(accepted=False, failure="not_asked", reason="left alone for 14 s more"),
                question(("repair", False, 1.0, 5, 5), accepted=False, failure="content", reason="no 'x'", seconds=1.0),
            ]
        ),
    ]
    told = asking(rows, Prices(2.0, 10.0, wait_s=5.0))
    assert (told["asked"], told["accepted"], told["cached"]) == (6, 3, 1)
    assert (told["endpoint_failures"], told["not_accepted"], told["not_asked"]) == (1, 1, 1)
    assert (told["seconds"], told["seconds_median"], told["seconds_p95"]) == (13.0, 2.0, 6.0)
    assert told["slower_than_wait"] == 1
    assert (told["tokens_sent"], told["tokens_received"]) == (326, 66)
    assert told["cost"] == pytest.approx((326 * 2 + 66 * 10) / 1e6)
    assert {each["rung"]: (each["requests"], each["accepted"]) for each in told["by_rung"]} == {
        "json_schema": (3, 1), "json_mode": (1, 1), "prompted": (0, 0), "repair": (1, 0),
    }  # fmt: skip


def test_reasons_are_put_together_without_their_numbers() -> None:
    rows = [
        row(
            questions=[question(accepted=False, failure="not_asked", reason=f"left alone for {n} s more")],
            notes=[
                f"m epochs not used: {n} is not what the cited line gives it",
                f"m says seq_len {n} where the first reading has 512",
                "m added model",
                "answer of m not used: told already",
            ],
        )
        for n in (3, 14)
    ]
    assert rejections(rows) == [
        {"why": "# is not what the cited line gives it", "count": 2},
        {"why": "left alone for # s more", "count": 2},
        {"why": "says something else than the first reading, which stands", "count": 2},
    ]


SURE: list[tuple[str, bool, State, State]] = [("epochs", True, "right", "right")] * 98
GOOD: tuple[str, bool, State, State] = ("model", True, "silent", "right")
BAD: tuple[str, bool, State, State] = ("task", True, "silent", "wrong")
BROKEN: tuple[str, bool, State, State] = ("task", True, "right", "silent")
OPEN: tuple[str, bool, State, State] = ("task", True, "silent", "silent")


@pytest.mark.parametrize(
    ("items", "verdict"),
    [
        ([GOOD, OPEN], "helps"),
        ([GOOD, BAD], "helps"),
        ([GOOD, BAD, BAD], "mixed"),
        ([OPEN], "no_difference"),
        ([BAD], "harms"),
        ([BROKEN], "harms"),
        ([GOOD, BROKEN], "harms"),
    ],
)
def test_the_verdict(items: list[tuple[str, bool, State, State]], verdict: str) -> None:
    rows = [row(*SURE, *items, questions=[question(("json_schema", True, 1.0, 1, 1))])]
    found = result_of({"jobs": rows}, {"jobs": {}}, Prices(), asked=True)
    assert found["verdict"] == found["jobs"]["verdict"] == verdict, found["says"]
    assert found["logs"] is None


@pytest.mark.parametrize(("wrong", "verdict"), [(0, "helps"), (1, "helps"), (2, "mixed")])
def test_where_nothing_was_said_before_most_must_be_right(wrong: int, verdict: str) -> None:
    asked = [question(("json_schema", True, 1.0, 1, 1))]
    rows = [row(*[("category", True, "silent", "right")] * 9, *[BAD] * wrong, questions=asked)]
    assert result_of({"jobs": rows}, {"jobs": {}}, Prices(), asked=True)["verdict"] == verdict


def test_verdicts_about_nothing() -> None:
    def verdict(rows: list[Row], asked: bool = True) -> str:
        return str(result_of({"jobs": rows}, {"jobs": {}}, Prices(), asked=asked)["verdict"])

    refused = question(accepted=False, failure="content", reason="x")
    assert verdict([]) == "no_cases"
    assert verdict([row(GOOD)], asked=False) == "no_model"
    assert verdict([row(OPEN)]) == "nothing_to_ask"
    assert verdict([row(OPEN, questions=[refused])]) == "no_answer"


def test_the_worse_of_two_sets_counts_and_logs_are_judged_by_their_category() -> None:
    asked = {"questions": [question(("json_schema", True, 1.0, 1, 1))]}
    jobs = [row(*SURE, GOOD, **asked)]
    logs = [row(("category", True, "silent", "wrong"), ("action", True, "silent", "right"), **asked)]
    found = result_of({"jobs": jobs, "logs": logs}, {"jobs": {}, "logs": {"not a label": 2}}, Prices(), asked=True)
    assert (found["jobs"]["verdict"], found["logs"]["verdict"], found["verdict"]) == ("helps", "harms", "harms")
    assert found["logs"]["total"]["wanted"] == 1 and found["logs"]["skipped"] == {"not a label": 2}
    assert "1 of 1 is few to go by" in found["says"]
