"""The output folder: only what the demo wrote is ever replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate.workload.folder import OutFolder, manifest_name

MANIFEST = manifest_name("demo")


def _fill(root: Path) -> None:
    out = OutFolder(root, "demo")
    out.write("report.html", "one")
    out.write("workload/a/b.txt", "two")
    out.close()


def test_writes_again_over_its_own_files(tmp_path: Path) -> None:
    root = tmp_path / "out"
    _fill(root)
    _fill(root)
    assert (root / "report.html").read_text() == "one"


def test_old_files_of_its_own_go(tmp_path: Path) -> None:
    root = tmp_path / "out"
    _fill(root)
    out = OutFolder(root, "demo")
    out.write("report.html", "new")
    out.close()
    assert not (root / "workload").exists()


def test_refuses_a_folder_that_it_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not made by `schedmate demo`"):
        OutFolder(tmp_path, "demo")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_leaves_a_foreign_file_inside_its_folder_alone(tmp_path: Path) -> None:
    root = tmp_path / "out"
    _fill(root)
    (root / "workload/a/notes.txt").write_text("mine")
    _fill(root)
    assert (root / "workload/a/notes.txt").read_text() == "mine"


def test_says_so_when_a_foreign_file_is_in_the_way(tmp_path: Path) -> None:
    out = OutFolder(tmp_path / "out", "demo")
    (tmp_path / "out" / "report.html").write_text("mine")
    with pytest.raises(UserError, match="in the way"):
        out.write("report.html", "demo")
    assert (tmp_path / "out" / "report.html").read_text() == "mine"


def test_a_manifest_that_points_outside_removes_nothing_there(tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("keep")
    root = tmp_path / "out"
    (root / "link").parent.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "keep.txt").write_text("keep")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    names = ["../victim.txt", str(victim), "link/keep.txt"]
    (root / MANIFEST).write_text(json.dumps({"files": names}))
    OutFolder(root, "demo")
    assert victim.read_text() == "keep" and (tmp_path / "elsewhere/keep.txt").read_text() == "keep"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 3}', '{"files": [1]}'])
def test_a_damaged_manifest_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(UserError, match="damaged"):
        OutFolder(tmp_path, "demo")


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UserError, match="is a file"):
        OutFolder(tmp_path / "out", "demo")


@pytest.mark.parametrize("place", ["/proc/schedmate-demo", "/dev/null/out"])
def test_a_place_that_can_not_be_written_even_by_root(place: str) -> None:
    with pytest.raises(UserError, match="can not be written"):
        OutFolder(Path(place), "demo")
