"""The file: two writers, a writer killed at any moment, a broken file, very many records."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from analyzers.failures.accounting import JobRow
from analyzers.failures.past import FileFailureStore, records_of_rows
from analyzers.ports import FailureStore
from analyzers.types import FailureRecord, LogEvidence
from prompts.errors import UserError

WRITER = """
import sys
from pathlib import Path
from analyzers.failures.past import FileFailureStore
from analyzers.types import FailureRecord
store = FileFailureStore(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    store.add([FailureRecord(f"{sys.argv[2]}-{number}-{part}", number, "unknown", failure="f") for part in range(3)])
    print(number, flush=True)
"""


def record(job: str = "1", **more: object) -> FailureRecord:
    values = {"at_s": 5.0, "category": "unknown", "failure": "f1", **more}
    return FailureRecord(job, **values)  # type: ignore[arg-type]


def store(tmp_path: Path, most: int = 1000) -> FileFailureStore:
    return FileFailureStore(tmp_path / "d" / "failures.sqlite", most)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    kept = store(tmp_path)
    assert isinstance(kept, FailureStore)
    assert (len(kept), kept.latest_s(), list(kept.since(0)), kept.same_failure("f1", limit=5)) == (0, None, [], [])
    assert not kept.path.exists()
    whole = record(
        "7", subcategory="nccl", attempt=2, user="bo", work="train-#", own_code=True, nodes=("n1", "n2.x"),
        nodes_told=True, culprits=("n1",), data="/d/x.tar", retryable=False,
        node_fault=True, accused=("n2.x",),
    )  # fmt: skip
    assert kept.add([whole, record("8", at_s=9.0)]) == 2
    assert list(kept.since(0)) == [whole, record("8", at_s=9.0)] and kept.latest_s() == 9.0
    assert kept.same_data("/d/x.tar", limit=5) == [whole] and kept.same_data("", limit=5) == []
    assert [each.job_id for each in kept.same_failure("f1", limit=1)] == ["8"]


def test_a_diagnosis_takes_the_place_of_accounting_and_never_the_other_way(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.add([record(failure="")])
    kept.add([record(category="user-code")])
    kept.add([record(failure="", category="none")])
    assert [each.category for each in kept.since(0)] == ["user-code"]


def test_one_id_of_two_users_is_two_jobs(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.add([record("train", user="bo", failure="f1"), record("train", user="ann", failure="f2")])
    kept.add([record("train", user="ann", failure="f3")])
    assert {(each.user, each.failure) for each in kept.since(0)} == {("bo", "f1"), ("ann", "f3")}


def test_who_does_not_tell_the_user_means_the_one_that_is_known(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.add([record("7", user="bo", failure="", category="none"), record("8")])
    kept.add([record("7", category="user-code"), record("8", user="ann", category="data")])
    assert [(each.job_id, each.user, each.category) for each in kept.since(0)] == [
        ("7", "bo", "user-code"),
        ("8", "ann", "data"),
    ]
    kept.add([record("8", user="cy", category="storage"), record("8", category="framework")])
    assert sorted((each.user, each.category) for each in kept.since(0) if each.job_id == "8") == [
        ("", "framework"),  # whose it is nobody can say
        ("ann", "data"),
        ("cy", "storage"),
    ]


OLD_SCHEMA = """
CREATE TABLE ended (number INTEGER PRIMARY KEY, job_id, attempt, at_s, category, subcategory, user, work, failure,
    own_code, nodes, nodes_told, culprits, data, retryable, UNIQUE (job_id, attempt));
CREATE INDEX ended_at ON ended (at_s);
CREATE INDEX ended_failure ON ended (failure, at_s) WHERE failure != '';
CREATE INDEX ended_data ON ended (data, at_s) WHERE data != '';
INSERT INTO ended VALUES (4, '7', 0, 5.0, 'unknown', '', 'bo', '', 'f1', 0, 'n1', 1, '', '', NULL);
INSERT INTO ended VALUES (9, '7', 1, 6.0, 'data', '', '', '', 'f1', 0, 'n1', 1, '', '', 0);
"""


def test_a_store_of_an_older_version_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(OLD_SCHEMA)
    kept = FileFailureStore(path)
    before = list(kept.since(0))
    assert [(each.job_id, each.attempt, each.user) for each in before] == [("7", 0, "bo"), ("7", 1, "")]
    for _ in range(2):
        kept.add([record("7", user="ann", at_s=9.0)])
        assert list(kept.since(0)) == [*before, record("7", user="ann", at_s=9.0)]
    with closing(sqlite3.connect(path)) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE sql IS NOT NULL")}
    assert names == {"ended", "ended_at", "ended_failure", "ended_data"}


def test_a_store_without_the_later_columns_is_read_as_it_is_and_gets_them_when_written(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(OLD_SCHEMA.replace("UNIQUE (job_id, attempt)", "UNIQUE (job_id, attempt, user)"))
    whole = path.read_bytes()
    kept = FileFailureStore(path)
    before = list(kept.since(0))
    assert len(kept) == 2 == len(before) and {(each.node_fault, each.accused) for each in before} == {(False, ())}
    assert kept.same_failure("f1", limit=5) == before[::-1] and path.read_bytes() == whole
    for number in range(2):
        kept.add([record(f"8{number}", node_fault=True, accused=("n4",), at_s=9.0 + number)])
    assert [(each.job_id, each.node_fault, each.accused) for each in kept.since(8)] == [
        ("80", True, ("n4",)),
        ("81", True, ("n4",)),
    ]
    assert list(kept.since(0))[:2] == before


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path) -> None:
    kept = store(tmp_path, 100)
    kept.add(record(str(number), at_s=number) for number in range(250))
    assert len(kept) == 90 and min(each.at_s for each in kept.since(0)) == 160


def test_hostile_names_are_bounded_and_never_more_than_one(tmp_path: Path) -> None:
    kept = store(tmp_path)
    names = ("a b", "", "x" * 5000, "n1\nn2", "\ud800", "ok'; DROP TABLE ended; --", "n9")
    kept.add([record("j" * 9999, nodes=names, user="u" * 9999, work="\ud800", data="https://u:geheim12345@h/x.tar")])
    (found,) = kept.since(0)
    assert found.nodes == ("?", "n9") and len(found.user) == 300 == len(found.job_id)
    assert "geheim" not in found.data
    kept.add([record("2", nodes=tuple(f"n{number}" for number in range(9000)))])
    assert max(len(each.nodes) for each in kept.since(0)) == 4096
    with pytest.raises(UserError):
        kept.add([record("3", at_s=float("nan"))])


def test_two_writers_and_one_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, name, count], stdout=subprocess.PIPE, text=True)
        for name, count in (("a", "30"), ("b", "100000"))
    ]
    told = -1
    stream = writers[1].stdout
    assert stream is not None
    while told < 20:
        told = int(stream.readline())
    os.kill(writers[1].pid, signal.SIGKILL)
    told += len(stream.read().split())  # what it had said before
    assert writers[0].communicate()[0].count("\n") == 30 and writers[0].returncode == 0
    writers[1].wait()
    kept = FileFailureStore(path)
    jobs = [each.job_id for each in kept.since(0)]
    first, second = (sum(job.startswith(name) for job in jobs) for name in "ab")
    assert first == 90 and second % 3 == 0 and second >= 3 * (told + 1)
    assert kept.add([record()]) == 1


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_a_file_that_is_none_of_ours(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.sqlite"
    path.write_bytes(content)
    kept = FileFailureStore(path)
    if not content:
        assert list(kept.since(0)) == []
        return
    with pytest.raises(UserError, match=r"f\.sqlite"):
        kept.add([record()])


def test_a_torn_file_is_refused_in_words_or_read(tmp_path: Path) -> None:
    kept = FileFailureStore(tmp_path / "f.sqlite")
    kept.add(record(str(number)) for number in range(3000))
    whole = kept.path.read_bytes()
    for length in (100, 5000, len(whole) // 2, len(whole) - 1):
        kept.path.write_bytes(whole[:length])
        try:
            assert len(list(kept.since(0))) <= 3000
        except UserError as error:
            assert "f.sqlite" in str(error)


@pytest.mark.slow
def test_many_records_are_answered_soon(tmp_path: Path) -> None:
    from analyzers.failures.past import rank_nodes

    kept = FileFailureStore(tmp_path / "f.sqlite")
    kept.add(
        FailureRecord(
            str(n), n, "unknown" if n % 50 == 0 else "none", user=f"u{n % 300}", work=f"w{n % 7}",
            failure=f"f{n % 90}" if n % 50 == 0 else "", nodes=(f"n{n % 997}", f"n{n % 991}"), nodes_told=True,
        )
        for n in range(150_000)
    )  # fmt: skip
    begin = time.process_time()
    sum(hash(str(n)) for n in range(500_000))
    unit = time.process_time() - begin
    begin = time.process_time()
    assert len(kept.same_failure("f50", limit=200)) == 200
    assert time.process_time() - begin < unit
    begin = time.process_time()
    assert not any(each.named for each in rank_nodes(kept.since(0)))
    assert time.process_time() - begin < 60 * unit


def test_rows_that_somebody_else_spoilt_are_left_out(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.add([record("1"), record("2", at_s=6.0)])
    with closing(sqlite3.connect(kept.path)) as db:
        db.execute("UPDATE ended SET nodes = NULL WHERE job_id = '1'")
        db.commit()
    assert [each.job_id for each in kept.since(0)] == ["2"]


@pytest.mark.parametrize("at_s", ["9e999", "-9e999", "1e300", "NULL", "'soon'"])
def test_a_row_with_a_time_that_is_none_spoils_no_other(at_s: str, tmp_path: Path) -> None:
    from analyzers.failures.past import rank_nodes

    kept = store(tmp_path)
    kept.add(record(str(number), at_s=float(number), nodes=("n1",)) for number in range(4))
    whole = rank_nodes(each for each in kept.since(-1e18) if each.job_id != "2")
    with closing(sqlite3.connect(kept.path)) as db:
        db.execute(f"UPDATE ended SET at_s = {at_s} WHERE job_id = '2'")
        db.commit()
    assert [each.job_id for each in kept.since(-math.inf)] == ["0", "1", "3"]
    assert kept.latest_s() == 3.0
    assert rank_nodes(kept.since(-math.inf)) == whole
    with pytest.raises(UserError):
        kept.add([record("4", at_s=1e300)])


def test_an_end_far_in_the_future_is_a_mistake_of_the_file() -> None:
    row = JobRow("1", "FAILED", "x", "bo", ("n1",), None, datetime(2999, 1, 1), LogEvidence("a", 1, "x"))
    assert list(records_of_rows([row])) == []
