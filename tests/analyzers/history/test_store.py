"""The history file: survives cuts at any byte, other writers, and rubbish."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.history import FileHistoryStore, MemoryHistoryStore
from analyzers.history.codec import decode, encode
from analyzers.ports import HistoryStore
from analyzers.types import JobRecord, Submission
from prompts.errors import UserError


def job(job_id: str, submit_s: float = 0, duration_s: float | None = 10, **more: object) -> JobRecord:
    return JobRecord(job_id=job_id, submit_s=submit_s, duration_s=duration_s, gpus=1, **more)  # type: ignore[arg-type]


def test_both_stores_are_history_stores(tmp_path: Path) -> None:
    assert isinstance(FileHistoryStore(tmp_path / "h.jsonl"), HistoryStore)
    assert isinstance(MemoryHistoryStore(), HistoryStore)


def test_what_goes_in_comes_out_in_order_of_submission(tmp_path: Path) -> None:
    records = [job("b", 5), job("a", 1, user="ann", facts={"epochs": 3}), job("c", 9, None)]
    store = FileHistoryStore(tmp_path / "deep" / "h.jsonl")
    assert len(store) == 0
    assert store.add(records) == 3
    again = FileHistoryStore(tmp_path / "deep" / "h.jsonl")
    assert [r.job_id for r in again.records()] == ["a", "b", "c"]
    assert next(iter(again.records())) == records[1]


def test_the_same_job_id_replaces(tmp_path: Path) -> None:
    store = FileHistoryStore(tmp_path / "h.jsonl")
    store.add([job("a", duration_s=10)])
    store.add([job("a", duration_s=20)])
    for seen in (store, FileHistoryStore(tmp_path / "h.jsonl")):
        assert [r.duration_s for r in seen.records()] == [20]
        assert [r.duration_s for r, _ in seen.similar(Submission("", gpus=1))] == [20]


def test_what_another_process_appends_is_seen(tmp_path: Path) -> None:
    one, other = FileHistoryStore(tmp_path / "h.jsonl"), FileHistoryStore(tmp_path / "h.jsonl")
    one.add([job("a")])
    assert len(other) == 1
    other.add([job("b")])
    assert len(one) == 2


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    store = FileHistoryStore(path)
    store.add([job("a"), job("b")])
    (tmp_path / "new").write_text(encode(job("z")) + "\n")
    (tmp_path / "new").rename(path)
    assert [r.job_id for r in store.records()] == ["z"]
    path.unlink()
    assert len(store) == 0


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_cut_at_any_byte_loses_at_most_one_record_and_the_next_write_is_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "h.jsonl"
    FileHistoryStore(path).add([job(str(i), i, name=f"näme {i}") for i in range(5)])
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    complete = whole[:cut].count(b"\n")
    store = FileHistoryStore(path)
    assert complete <= len(store) <= complete + 1
    before = len(store)
    store.add([job("next", 99)])
    for seen in (store, FileHistoryStore(path)):
        assert len(seen) == before + 1
        assert "next" in {r.job_id for r in seen.records()}
        assert seen.skipped == len(seen.warnings) == before_torn(whole[:cut])


def before_torn(text: bytes) -> int:
    """1 when the text ends in something that is no whole record."""
    tail = text.rpartition(b"\n")[2]
    if not tail:
        return 0
    try:
        json.loads(tail)
    except ValueError:
        return 1
    return 0


def test_a_torn_line_is_reported_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    FileHistoryStore(path).add([job("a"), job("b")])
    path.write_bytes(path.read_bytes()[:-8])
    store = FileHistoryStore(path)
    assert len(store) == 1 and store.skipped == 1
    assert "line 2" in store.warnings[0] and "never finished" in store.warnings[0]
    store.add([job("c")])
    path.write_bytes(path.read_bytes() + b"rubbish\n")
    fresh = FileHistoryStore(path)
    assert len(fresh) == 2 and "line 4" in fresh.warnings[1]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{}",
        "null",
        '{"job_id": 5, "submit_s": 0, "gpus": 1}',
        '{"job_id": "x", "submit_s": "now", "gpus": 1}',
        '{"job_id": "x", "submit_s": NaN, "gpus": 1}',
        '{"job_id": "x", "submit_s": 1e999, "gpus": 1}',
        '{"job_id": "x", "submit_s": 0, "gpus": true}',
        '{"job_id": "x", "submit_s": 0, "gpus": 1' + "0" * 400 + "}",
        '{"job_id": "x", "submit_s": 0, "gpus": 1, "duration_s": -1}',
        '{"job_id": "x", "submit_s": 0, "gpus": 1, "user": ["a"]}',
        '{"job_id": "x", "submit_s": 0, "gpus": 1, "outcome": "splendid"}',
        '{"job_id": "x", "submit_s": 0, "gpus": 1, "facts": 3}',
        "[" * 100_000,
    ],
)
def test_rubbish_lines_are_skipped_and_counted(tmp_path: Path, line: str) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(encode(job("a")) + "\n" + line + "\n" + encode(job("b")) + "\n")
    store = FileHistoryStore(path)
    assert [r.job_id for r in store.records()] == ["a", "b"]
    assert store.skipped == 1 and "line 2" in store.warnings[0]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_skipped_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "h.jsonl"
    path.write_bytes(data)
    try:
        len(FileHistoryStore(path))
    except UserError as error:
        assert "\n" not in str(error)


def test_a_file_that_is_no_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,submit\n1,2\n")
    with pytest.raises(UserError, match="not a job history"):
        len(FileHistoryStore(path))
    with pytest.raises(UserError, match="folder"):
        FileHistoryStore(tmp_path).add([job("a")])


def test_a_record_that_could_not_be_read_back_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    store = FileHistoryStore(tmp_path / "h.jsonl")
    with pytest.raises(UserError):
        store.add([job("a"), job("b", duration_s=float("nan"))])
    assert not store.path.exists()


NUMBERS = (
    "submit_s", "duration_s", "gpus", "start_s", "requested_s", "peak_gpu_memory_mib", "mean_gpu_utilization",
    "peak_host_memory_mib", "eligible_s", "end_s", "cpus", "memory_mib", "ran_so_far_s", "nodes",
    "gpu_milli", "attempts",
)  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused_in_one_line_wherever_a_history_is_kept(
    tmp_path: Path, name: str, value: float
) -> None:
    for store in (FileHistoryStore(tmp_path / "h.jsonl"), MemoryHistoryStore()):
        with pytest.raises(UserError) as told:
            store.add([job("a"), replace(job("b"), **{name: value})])
        assert str(told.value).startswith(f"job 'b' can not be stored: {name} is no ") and "\n" not in str(told.value)
        assert len(store) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, 10**400) for name in NUMBERS),
        *((name, value) for name in ("submit_s", "duration_s", "start_s", "end_s", "gpus") for value in (1e16, -1e300)),
    ],
)
def test_a_number_that_is_too_large_is_refused_wherever_a_history_is_kept(
    tmp_path: Path, name: str, value: float
) -> None:
    """Two of the largest added have no end, and larger whole numbers are no floats."""
    for store in (FileHistoryStore(tmp_path / "h.jsonl"), MemoryHistoryStore()):
        with pytest.raises(UserError, match=f"job 'b' can not be stored: {name} is no "):
            store.add([job("a"), replace(job("b"), **{name: value})])
        assert len(store) == 0


@pytest.mark.parametrize("name", ["duration_s", "gpus", "nodes", "gpu_milli", "attempts"])
def test_where_nothing_can_be_below_0_it_is_refused_wherever_a_history_is_kept(tmp_path: Path, name: str) -> None:
    for store in (FileHistoryStore(tmp_path / "h.jsonl"), MemoryHistoryStore()):
        with pytest.raises(UserError, match=f"{name} is no (whole )?number"):
            store.add([replace(job("b"), **{name: -1})])
        store.add([replace(job("b"), **{name: 0})])


def test_every_number_of_a_record_is_looked_at() -> None:
    hints = get_type_hints(JobRecord)
    assert {name for name, hint in hints.items() if {int, float} & {hint, *get_args(hint)}} == set(NUMBERS)


def test_secrets_are_not_stored(tmp_path: Path) -> None:
    store = FileHistoryStore(tmp_path / "h.jsonl")
    store.add([job("a", command="python t.py --password=hunter2horse", facts={"dataset": "s3://k:hunter2horse@b/d"})])
    assert "hunter2horse" not in store.path.read_text()


def write_many(path: Path, writer: int) -> None:
    store = FileHistoryStore(path)
    for i in range(20):
        store.add([job(f"{writer}-{i}-{j}", name="x" * 3000) for j in range(3)])


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    workers = [multiprocessing.Process(target=write_many, args=(path, n)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    store = FileHistoryStore(path)
    assert len(store) == 3 * 20 * 3 and store.skipped == 0


names = st.none() | st.text(max_size=12)
records = st.builds(
    JobRecord,
    job_id=st.text(min_size=1, max_size=8),
    submit_s=st.floats(-1e9, 1e10),
    duration_s=st.none() | st.floats(0, 1e9),
    gpus=st.integers(0, 10_000),
    start_s=st.none() | st.floats(0, 1e9),
    user=names,
    tenant=names,
    fingerprint=names,
    requested_s=st.none() | st.floats(0, 1e9),
    outcome=st.sampled_from([None, "completed", "failed", "cancelled", "timeout"]),
    facts=st.dictionaries(st.text(max_size=5), st.integers() | st.booleans(), max_size=3),
)


@given(records)
def test_a_record_survives_its_line(record: JobRecord) -> None:
    line = encode(record)
    assert "\n" not in line
    assert decode(line) == record


def test_what_is_no_file_keeps_no_history(tmp_path: Path) -> None:
    device, pipe = tmp_path / "null", tmp_path / "pipe"
    device.symlink_to("/dev/null")
    os.mkfifo(pipe)
    for special in (device, pipe):
        store = FileHistoryStore(special)
        with pytest.raises(UserError, match="device, pipe"):
            len(store)
        with pytest.raises(UserError, match="device, pipe"):
            FileHistoryStore(special).add([JobRecord("a", 0.0, 1.0, 1)])


def test_jobs_are_taken_out_for_good_and_by_what_they_are_now(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    store, other = FileHistoryStore(path), FileHistoryStore(path)
    store.add([job("a", user="ann"), job("b", user="bob"), job("c", user="ann")])
    store.add([job("a", user="ann", duration_s=20), job("c", user="bob")])
    path.write_bytes(path.read_bytes() + b"rubbish\n")
    assert len(other) == 3
    path.chmod(0o640)
    assert store.remove(lambda record: record.user == "ann") == 1
    for seen in (store, other, FileHistoryStore(path)):
        assert [r.job_id for r in seen.records()] == ["b", "c"] and seen.skipped == 1
    assert path.stat().st_mode & 0o777 == 0o640 and sorted(p.name for p in tmp_path.iterdir()) == ["h.jsonl"]
    assert store.remove(lambda record: False) == 0
    assert store.clear() == 2
    assert len(other) == 0 and path.read_bytes() == b"" and other.skipped == 0
    store.add([job("z")])
    assert len(other) == 1


def test_a_removal_that_fails_leaves_the_history_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileHistoryStore(tmp_path / "h.jsonl")
    store.add([job("a"), job("b")])
    before = store.path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        store.remove(lambda record: record.job_id == "a")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [before] and len(store) == 2


def test_the_file_behind_a_link_is_the_one_written_anew(tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "h.jsonl"
    FileHistoryStore(real).add([job("a"), job("b")])
    link.symlink_to(real)
    assert FileHistoryStore(link).remove(lambda record: record.job_id == "a") == 1
    assert link.is_symlink() and [r.job_id for r in FileHistoryStore(real).records()] == ["b"]


def remove_many(path: Path) -> None:
    store = FileHistoryStore(path)
    for n in range(40):
        store.remove(lambda record, n=n: record.job_id.startswith(f"bad-{n}-"))  # type: ignore[misc]


def test_what_is_written_while_others_remove_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    FileHistoryStore(path).add([job(f"bad-{n}-{i}") for n in range(40) for i in range(3)])
    reader = FileHistoryStore(path)
    workers = [multiprocessing.Process(target=write_many, args=(path, n)) for n in range(2)]
    workers.append(multiprocessing.Process(target=remove_many, args=(path,)))
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        assert len(reader) <= 240 and reader.skipped == 0
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len(reader) == len(FileHistoryStore(path)) == 2 * 20 * 3


@pytest.mark.parametrize("name", ["requested_s", "peak_gpu_memory_mib", "mean_gpu_utilization", "cpus", "memory_mib"])
def test_a_size_below_nothing_is_not_known_and_the_job_is_kept(name: str) -> None:
    line = json.dumps({"job_id": "a", "submit_s": -5, "duration_s": 10, "gpus": 1, name: -1})
    assert decode(line) == job("a", -5)
    assert getattr(decode(line.replace(": -1}", ": 0}")), name) == 0


class AddedMeanwhile(list[JobRecord | None]):
    """Another thread adds a job just before the records are looked at for the first time."""

    left = (job("late"),)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice) and self.left:
            self.append(self.left[0])
            self.left = ()
        return super().__getitem__(at)


def test_what_is_added_while_news_are_told_is_news_once() -> None:
    store = MemoryHistoryStore([job("a"), job("b")])
    store._index._records = AddedMeanwhile(store._index._records)
    mark, first = store.news(None)
    _, second = store.news(mark)
    assert [each.job_id for each in (*first, *second)] == ["a", "b", "late"]
