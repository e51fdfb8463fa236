"""Patterns of ``.schedmateignore``, compared with git's own reading of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.source.ignore import Ignored, glob_match, parse_rules

PATHS = [
    "train.py", "a.py", "b.txt", "src/a.py", "src/deep/a.py", "src/deep/er/x.yaml", "data/a.py", "data/keep.py",
    "x/data/b.txt", "conf/[1].yaml", "conf/a1.yaml", "conf/b2.yaml", "#hash", "!bang", "sp ace.py", "src/data",
]  # fmt: skip
PATTERNS = [
    "*", "*.py", "/a.py", "a.py", "src/", "src", "data/", "data", "/data", "src/*", "src/**", "**/a.py", "src/**/a.py",
    "**/deep", "*.py\n!a.py", "*\n!train.py", "data/\n!data/keep.py", "data/*\n!data/keep.py", "conf/?[0-9].yaml",
    "conf/[!a]*.yaml", "conf/\\[1].yaml", "\\#hash", "\\!bang", "# comment", "", "sp ace.py", "*.yaml\n!*.yaml",
    "src/deep/**", "deep/a.py", "/src/deep", "**", "**/data/**", "a*.p?", "*/a.py", "**/*.py", "!a.py",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_as_git_reads_them(tmp_path: Path) -> None:
    environment = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": "/usr/bin:/bin"}
    subprocess.run(["git", "init", "-q", tmp_path], check=True, env=environment)
    for name in PATHS:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for patterns in PATTERNS:
        (tmp_path / ".gitignore").write_text(patterns)
        asked = subprocess.run(
            ["git", "-C", tmp_path, "-c", "core.quotePath=false", "check-ignore", "--no-index", "--stdin", "-z"],
            input="\0".join(PATHS), capture_output=True, text=True, env=environment, check=False,
        )  # fmt: skip
        theirs = {name for name in asked.stdout.split("\0") if name}
        ignored = Ignored(tuple(parse_rules(patterns)))
        assert {name for name in PATHS if ignored(name)} == theirs, patterns


def test_a_path_from_here_is_meant_as_written() -> None:
    """Git takes ``./a.py`` for nothing; who writes it here wants the file left alone."""
    assert Ignored(tuple(parse_rules("./a.py")))("a.py")


def test_rules_of_a_folder_above_are_relative_to_it() -> None:
    ignored = Ignored(tuple(parse_rules("job/a.py\n/b.py\nc.py\n", base=("job",))))
    assert [name for name in ("a.py", "b.py", "c.py", "x/a.py", "x/c.py") if ignored(name)] == [
        "a.py",
        "c.py",
        "x/c.py",
    ]


def test_a_path_out_of_the_work_dir_is_matched_from_the_folder_of_the_rule() -> None:
    ignored = Ignored(tuple(parse_rules("lib/\n/top.py\nany.py\njob/x.py", base=("job",))))
    paths = ("../lib/a.py", "../top.py", "../sub/any.py", "../job/x.py", "../other.py", "../../top.py", "../../any.py")
    assert [path for path in paths if ignored(path)] == list(paths[:4])
    assert not Ignored(tuple(parse_rules("a.py")))("../a.py"), "rules of the work dir are for what lies in it"


@given(pattern=st.text("*?[]ab-!\\", max_size=12), text=st.text("ab]", max_size=12))
def test_any_pattern_is_survived(pattern: str, text: str) -> None:
    glob_match(pattern, text)
    Ignored(tuple(parse_rules(pattern)))(text)
    assert glob_match("*" + text.replace("]", "\\]") + "*", text)


def test_a_pattern_of_many_stars_comes_to_an_end() -> None:
    """Backtracking over all the stars would take longer than the universe is old."""
    assert not glob_match("*a" * 60 + "b", "a" * 2000)
    assert not Ignored(tuple(parse_rules("**/a/" * 60 + "b")))("a/" * 60)
    assert Ignored(tuple(parse_rules("x")))("a/" * 100), "a path too deep to be looked at counts as ignored"
