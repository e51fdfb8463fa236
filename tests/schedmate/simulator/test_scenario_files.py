"""Scenario files that are wrong are refused in words that name the place; expectations that fail are told in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate.simulator.scenario import needs, play, read_scenario, variations

GOOD = """
about: a test
cluster: {gpu: 1x8}
policy: easy
running:
  - a: {gpus: 8, estimate: 10, place: [0]}
queue:
  - b: {gpus: 8, estimate: 10, runtime: 10}
expect: {running: {a: [0]}, waiting: {b: needs}, reserved: {b: 10}}
events:
  - {at: 10, end: a, expect: {started: [b]}}
finally: {starts: {b: 10}, ends: {b: 20}}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "case.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_one_plays(tmp_path: Path) -> None:
    assert play(read_scenario(written(tmp_path, GOOD))) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("about: a test", "", "no 'about'"),
        ("policy: easy", "policy: hard", "no policy 'hard'"),
        ("policy: easy", "policy: {base: easy, reservation: 2}", "unknown key 'reservation'"),
        ("policy: easy", "policy: {base: core, queueing: lifo}", "no queueing 'lifo'"),
        ("policy: easy", "policy: {base: core, order: random}", "'random' is not known"),
        ("cluster: {gpu: 1x8}", "cluster: {gpu: 1y8}", "not NODESxGPUS"),
        ("cluster: {gpu: 1x8}", "cluster: {pools: 7}", "neither a list nor a mapping"),
        ("gpus: 8, estimate: 10, place", "gpu_count: 8, estimate: 10, place", "unknown key 'gpu_count'"),
        ("gpus: 8, estimate: 10, place", "gpus: eight, estimate: 10, place", "not a whole number"),
        ("estimate: 10, place", "estimate: soon, place", "not a length of time"),
        ("place: [0]", "place: [x]", "does not name numbers"),
        ("place: [0]", "place: {room: 1}", "unknown key 'room'"),
        ("place: [0]", "roles: {w: {gpus: 1}}", "amounts belong into the roles"),
        ("place: [0]", "place: [3]", "does not fit where it is said to run"),
        ("  - b:", "  - a:", "two jobs are called a"),
        ("  - b: {gpus: 8, estimate: 10, runtime: 10}", "  - b\n", "is not one job"),
        ("at: 10", "when: 10", "unknown key 'when'"),
        ("at: 10, end", "end", "no 'at'"),
        ("at: 10", "at: -1", "not in the order of time"),
        ("end: a", "end: z", "there is no job z"),
        ("end: a", "cordon: gpu", "does not name a place"),
        ("end: a", "bad_gpu: gpu/0", "does not name a place"),
        ("end: a", "cordon: gpu/7", "pool gpu has no node 7"),
        ("end: a", "cordon: tpu/0", "there is no pool tpu"),
        ("end: a", "bad_gpu: gpu/0/9", "has no GPU 9"),
        ("end: a", "evict: z", "there is no job z"),
        ("end: a", "evict: b", "job b does not run"),
        ("end: a", "restart: 1", "neither true nor false"),
        ("expect: {started: [b]}", "expect: {start: [b]}", "unknown key 'start'"),
        ("reserved: {b: 10}", "reserved: {b: {soon: 1}}", "unknown key 'soon'"),
        ("running: {a: [0]}", "running: 7", "not a mapping"),
        ("finally: {", "finally: {begins: 1, ", "unknown key 'begins'"),
        ("policy: easy", "policy: easy\ntenants: {a/b: {}}", "has no parent a"),
        ("policy: easy", "policy: easy\ntenants: {a: {quota: {gpu: 9}}}", "GPUs of type gpu to give"),
        ("policy: easy", "policy: easy\ntenants: {a: {quota: {tpu: 9}}}", "no pool has"),
        ("policy: easy", "policy: easy\nvary: [{n: 1}]\ncolour: red", "unknown key 'colour'"),
        ("1x8", "${n}x8", "no value for $n"),
        ("about: a test", "about: [", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        play(read_scenario(path))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        variations(tmp_path / "nothing.yaml")
    with pytest.raises(UserError, match="not a mapping"):
        needs(written(tmp_path, "[1, 2]"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "running: {a: [0]}",
            "running: {a: [0], b: }",
            "b should run (the scheduler says: b reserved on gpu [0], needs 8",
        ),
        ("running: {a: [0]}", "running: {}", "a should not run (the scheduler says: a started on gpu [0], was running"),
        ("running: {a: [0]}", "running: {a: [1]}", "a should run on nodes [1], runs on [0]"),
        ("running: {a: [0]}", "running: {a: {pool: tpu}}", "a should run on pool tpu, runs on gpu"),
        ("running: {a: [0]}", "running: {'*': {count: 2}}", "2 of * should run, 1 do"),
        ("waiting: {b: needs}", "waiting: {b: lacks}", "not because it 'lacks': needs 8 GPUs, 0 of pool gpu are free"),
        ("waiting: {b: needs}", "why: {b: lacks}", "the reason given for b should hold 'lacks'"),
        ("waiting: {b: needs}", "refused: {b: }", "b should be refused"),
        ("waiting: {b: needs}", "whole_free: {gpu: 1}", "1 whole nodes of gpu should be free, 0 are"),
        ("waiting: {b: needs}", "evicted: [a]", "evicted should be a, was nobody"),
        ("reserved: {b: 10}", "reserved: {b: {guaranteed: 5}}", "guaranteed start of b should be 5 s, is none"),
        ("reserved: {b: 10}", "reserved: {}", "b should not have a reservation"),
        ("started: [b]", "started: []", "at 10 s: started in this cycle should be nobody, was b"),
        ("starts: {b: 10}", "starts: {b: 11}", "at the end: b should have started at 11 s, started at 10"),
        ("starts: {b: 10}", "never: [b]", "b should never start, started at 10 s"),
        ("ends: {b: 20}", "ends: {b: 21}", "b should have ended at 21 s, ended at 20"),
        ("ends: {b: 20}", "evictions: {b: 1}", "evictions should be {'b': 1}, were {}"),
    ],
)
def test_what_differs_is_told(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in GOOD
    (complaint,) = play(read_scenario(written(tmp_path, GOOD.replace(old, new, 1))))
    assert complaint.startswith("case, at ")
    assert words in complaint
