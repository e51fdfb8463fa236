"""What counts as a case, by names alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.errors import UserError
from schedmate.batch.cases import Case, content_digest, find_cases


def make(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    return root


def found(root: Path) -> dict[str, str]:
    return {case.name: case.kind for case in find_cases(root).cases}


def test_rank_and_node_files_make_a_folder_one_case(tmp_path: Path) -> None:
    make(
        tmp_path,
        "a/rank_0.log", "a/rank_1.log", "a/slurm.out", "a/deep/extra.log",
        "b/node_n1_torchrun.log", "b/dmesg_n1.txt",
        "c/attempt_0/0/stderr.log", "c/attempt_0/1/stderr.log",
        "d/worker-0.log.gz", "d/worker-1.log.gz",
        "single.log", "more/train.out", "more/even/job-17.err", "more/plain",
    )  # fmt: skip
    assert found(tmp_path) == {
        "a": "folder", "b": "folder", "c": "folder", "d": "folder",
        "more/even/job-17.err": "file", "more/plain": "file", "more/train.out": "file", "single.log": "file",
    }  # fmt: skip


def test_the_folder_itself_may_be_the_case(tmp_path: Path) -> None:
    assert found(make(tmp_path, "rank_0.log", "rank_1.log")) == {".": "folder"}


def test_one_odd_name_among_many_logs_makes_no_case_of_all(tmp_path: Path) -> None:
    make(tmp_path, "dmesg_panic.log", *(f"job_{n}.log" for n in range(9)))
    assert len(found(tmp_path)) == 10


def test_natural_order(tmp_path: Path) -> None:
    make(tmp_path, "job_10.log", "job_9.log", "job_1.log")
    assert list(found(tmp_path)) == ["job_1.log", "job_9.log", "job_10.log"]


def test_what_is_no_log_is_left_out_and_counted(tmp_path: Path) -> None:
    make(tmp_path, "a.log", "train.py", "x.pt", "labels.jsonl", "README.md", "LICENSE", ".hidden/b.log", "conf.yaml")
    (tmp_path / "out.log").symlink_to("/etc/hostname")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.log").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.log")
    result = find_cases(tmp_path)
    assert [case.name for case in result.cases] == ["a.log"]
    assert result.left_out == {"not a log by its name": 6, "hidden": 1, "link": 3, "not a regular file": 1}


@pytest.mark.parametrize(("name", "said"), [("missing", "no such folder"), ("a.log", "is a file"), ("none", "no log")])
def test_roots_that_will_not_do(tmp_path: Path, name: str, said: str) -> None:
    make(tmp_path, "a.log", "none/data.csv")
    with pytest.raises(UserError, match=said):
        find_cases(tmp_path / name)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_the_digest_is_that_of_the_content(tmp_path_factory: pytest.TempPathFactory, one: bytes, other: bytes) -> None:
    folder = tmp_path_factory.mktemp("digest")
    first, second = folder / "one.log", folder / "other.log"
    first.write_bytes(one)
    second.write_bytes(other)
    same = content_digest(Case(first, "a", "file")) == content_digest(Case(second, "b", "file"))
    assert same == (one == other)
    before = content_digest(Case(folder, ".", "folder"))
    second.rename(folder / "renamed.log")
    assert content_digest(Case(folder, ".", "folder")) != before, "names tell ranks apart and count too"
