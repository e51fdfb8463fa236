"""Finding similar jobs: the nearest first, nothing from the future, fast on large histories."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.history import MemoryHistoryStore
from analyzers.history.index import end_s
from analyzers.history.similarity import Query, similarity
from analyzers.history.text import script, stem
from analyzers.types import JobRecord, Submission


def job(job_id: str, **more: object) -> JobRecord:
    return JobRecord(**{"job_id": job_id, "submit_s": 0.0, "duration_s": 10.0, "gpus": 1, **more})  # type: ignore[arg-type]


def nearest(store: MemoryHistoryStore, submission: Submission, fingerprint: str = "") -> str:
    return store.similar(submission, fingerprint)[0][0].job_id


def test_each_sign_decides_where_all_else_is_equal() -> None:
    plain = {"user": "ann", "name": "eval", "command": "python eval.py", "requested_s": 3600.0, "gpu_type": "A100"}
    pairs = [
        (Submission("", user="bob"), {"user": "bob"}),
        (Submission("", name="train-bert-17"), {"name": "train-bert-3"}),
        (Submission("python /new/train.py --lr 1"), {"command": "python /old/train.py --lr 2"}),
        (Submission("", gpus=8), {"gpus": 8}),
        (Submission("", limit_s=86_400), {"requested_s": 80_000.0}),
        (Submission("", gpu_type="h100"), {"gpu_type": "H100"}),
    ]
    for submission, sign in pairs:
        store = MemoryHistoryStore([job("no", **plain), job("yes", **{**plain, **sign}), job("no too", **plain)])
        assert nearest(store, submission) == "yes", submission


def test_the_same_code_goes_before_the_same_user() -> None:
    store = MemoryHistoryStore([job("user", user="ann", fingerprint="f1"), job("code", user="bob", fingerprint="f2")])
    assert nearest(store, Submission("", user="ann", gpus=1), "f2") == "code"


def test_who_and_how_many_alone_is_less_alike_than_the_same_work() -> None:
    asked = Submission("bash run.sh", user="ann", gpus=8, name="gpt")

    def score(**more: object) -> float:
        store = MemoryHistoryStore([job("j", user="ann", gpus=8, **more)])
        return store.similar(asked, "code")[0][1]

    unknown, same_name, other_name = score(), score(name="gpt"), score(name="yolo")
    same_code, other_code = score(fingerprint="code"), score(fingerprint="other")
    assert same_code > same_name > unknown > other_name > other_code
    assert unknown < 0.7 and other_name < 0.6 and same_name > 0.8


def test_similarity_is_between_0_and_1_and_falling() -> None:
    store = MemoryHistoryStore([job(str(i), user=f"u{i % 3}", gpus=1 + i % 8) for i in range(100)])
    scores = [score for _, score in store.similar(Submission("", user="u1", gpus=2), k=30)]
    assert scores == sorted(scores, reverse=True) and len(scores) == 30
    assert scores[0] == 1.0 and all(0 < score <= 1 for score in scores)


def test_jobs_still_running_are_never_offered() -> None:
    store = MemoryHistoryStore([job("running", duration_s=None), job("ended")])
    assert [r.job_id for r, _ in store.similar(Submission("", gpus=1))] == ["ended"]
    assert len(store) == 2


jobs = st.lists(
    st.tuples(st.integers(0, 100), st.none() | st.integers(0, 50), st.integers(0, 100), st.sampled_from("abc")),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(jobs=jobs, now=st.integers(0, 250), seed=st.integers(0, 1000))
def test_no_look_ahead(jobs: list[tuple[int, int | None, int, str]], now: int, seed: int) -> None:
    """What ends after ``before_s`` changes nothing, whatever it is and in whatever order the jobs were added."""
    history = [
        job(
            str(i),
            submit_s=float(submit),
            start_s=None if wait is None else float(submit + wait),
            duration_s=float(ran),
            user=user,
        )
        for i, (submit, wait, ran, user) in enumerate(jobs)
    ]
    asked = Submission("", user="a", gpus=1)
    known = [record for record in history if end_s(record) <= now]
    with_future = MemoryHistoryStore(random.Random(seed).sample(history, len(history)))
    found = with_future.similar(asked, k=100, before_s=now)
    assert all(end_s(record) <= now for record, _ in found)
    expected = MemoryHistoryStore(known).similar(asked, k=100, before_s=now)
    assert sorted((r.job_id, s) for r, s in found) == sorted((r.job_id, s) for r, s in expected)


def test_adding_out_of_order_in_bulk_finds_the_latest() -> None:
    order = list(range(6_000))
    random.Random(1).shuffle(order)
    store = MemoryHistoryStore(job(str(i), submit_s=float(i), user="ann") for i in order)
    found = store.similar(Submission("", user="ann"), k=5, before_s=3_000.5)
    assert max(end_s(record) for record, _ in found) == 3_000.0


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("train-2024-05-01-a3f9c1d", "train_2024_05_02_77be01c", True),
        ("ResNet50 seed=1", "resnet50-seed-2", True),
        ("bert", "gpt", False),
    ],
)
def test_stems(a: str, b: str, same: bool) -> None:
    assert (stem(a) == stem(b)) is same


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("torchrun --nproc_per_node 8 /home/a/Train_GPT.py --lr 1e-4", "train_gpt.py"),
        ("bash run.sh", "run.sh"),
        ("python -m pkg.train", ""),
    ],
)
def test_scripts(command: str, expected: str) -> None:
    assert script(command) == expected


@pytest.mark.slow
def test_a_search_does_not_walk_through_the_whole_history() -> None:
    """A hundred times as many jobs of other people cost a search little: a ratio in one run, not a time."""
    asked = Submission("python train_7.py --lr 0.3 --model m3 --data d1", user="u7", name="train-bert-x", gpus=4)
    small, large = (store_of(n, users=n // 5) for n in (1_000, 100_000))
    for store in (small, large):
        store.similar(asked, "f7", before_s=90_000)  # the first search files the jobs
    ratio = min(timed(large, asked) for _ in range(5)) / min(timed(small, asked) for _ in range(5))
    assert ratio < 10


def store_of(jobs: int, users: int) -> MemoryHistoryStore:
    rng = random.Random(0)
    return MemoryHistoryStore(
        job(
            str(i),
            submit_s=float(i),
            duration_s=rng.uniform(1, 1e5),
            gpus=rng.choice([1, 2, 4, 8]),
            user=f"u{rng.randrange(users)}",
            name=f"{rng.choice(['bert', 'gpt', 'resnet', 'vit'])}-{rng.randrange(users)}",
            command=f"python train_{rng.randrange(users)}.py --lr 0.1 --model m{rng.randrange(users)} --data d{i % 7}",
            fingerprint=f"f{rng.randrange(users)}",
        )
        for i in range(jobs)
    )


def timed(store: MemoryHistoryStore, asked: Submission) -> float:
    start = time.perf_counter()
    store.similar(asked, "f7", k=50, before_s=90_000)
    return time.perf_counter() - start


@pytest.mark.parametrize(("asked_s", "past_s"), [(5e-324, 1e15), (1e15, 5e-324)])
def test_limits_however_far_apart_can_be_compared(asked_s: float, past_s: float) -> None:
    """What a store and the API accept: a limit that is no number beside another one has nothing to do with it."""
    store = MemoryHistoryStore([JobRecord("a", 0.0, 60.0, 1, user="ann", requested_s=past_s)])
    (_, score), (_, without) = (
        store.similar(Submission("", user="ann", limit_s=limit_s))[0] for limit_s in (asked_s, None)
    )
    assert 0.0 < score < without


@settings(deadline=None)
@given(data=st.data())
def test_what_is_kept_of_jobs_compared_before_changes_no_bit(data: st.DataObject) -> None:
    some = st.sampled_from([None, "train.py --lr 1", "eval.py"])
    signs = st.fixed_dictionaries({
        **dict.fromkeys(("fingerprint", "name", "command", "user", "gpu_type", "tenant"), some),
        "gpus": st.sampled_from([0, 2]), "requested_s": st.sampled_from([None, 60.0]),
    })  # fmt: skip
    records = [job(str(n), **each) for n, each in enumerate(data.draw(st.lists(signs, min_size=1, max_size=12)))]
    asked = data.draw(signs)
    submission = Submission(
        asked["command"] or "", user=asked["user"], tenant=asked["tenant"], name=asked["name"],
        gpus=asked["gpus"] or None, gpu_type=asked["gpu_type"], limit_s=asked["requested_s"],
    )  # fmt: skip
    now_s = data.draw(st.sampled_from([None, 1e6]))
    shared = Query(submission, asked["fingerprint"] or "", now_s)
    for record in records:
        alone = Query(submission, asked["fingerprint"] or "", now_s)
        assert similarity(shared, record, 10.0) == similarity(alone, record, 10.0)
