"""Files that an operator names: what is no small file is refused at once, what is no file is never replaced."""

from __future__ import annotations

import os
import resource
import signal
import socket
from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate.files import check_output, read_small, refuse_inputs, whole_file, write_whole


def _special(tmp_path: Path) -> list[Path]:
    fifo, link, bound = tmp_path / "fifo", tmp_path / "null", tmp_path / "socket"
    os.mkfifo(fifo)
    link.symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(bound))
    return [fifo, link, bound, Path("/dev/zero"), tmp_path]


def test_only_small_text_files_are_read(tmp_path: Path) -> None:
    good, large, binary = tmp_path / "good", tmp_path / "large", tmp_path / "binary"
    good.write_bytes(b"\xef\xbb\xbfa = 1\n")
    large.write_bytes(b" " * (2 << 20))
    binary.write_bytes(b"\xff\xfe\x80")
    assert read_small(good, "hint") == "a = 1\n"
    for bad in (*_special(tmp_path), large, binary, tmp_path / "missing", Path("nul\0l")):
        with pytest.raises(UserError, match="hint"):
            read_small(bad, "hint")


def test_outputs_are_files_or_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    check_output(tmp_path / "old", "hint")
    check_output(tmp_path / "new", "hint")
    for bad in _special(tmp_path):
        with pytest.raises(UserError, match=r"cannot be written.*hint"):
            check_output(bad, "hint")


def test_an_output_is_whole_or_the_old_one_stays(tmp_path: Path) -> None:
    old = tmp_path / ("n" * 250)
    old.write_text("old")
    old.chmod(0o640)
    with pytest.raises(KeyError), whole_file(old, "hint") as stream:
        stream.write(b"half")
        raise KeyError
    assert old.read_text() == "old" and list(tmp_path.iterdir()) == [old]
    write_whole(old, "new", "hint")
    assert old.read_text() == "new" and old.stat().st_mode & 0o777 == 0o640 and list(tmp_path.iterdir()) == [old]


def test_an_output_behind_a_link_is_written_through_it(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    link.symlink_to(target)
    for text in ("one", "two"):
        write_whole(link, text, "hint")
        assert link.is_symlink() and target.read_text() == text
    for bad in (*_special(tmp_path), tmp_path / "no" / "file", Path("nul\0l")):
        with pytest.raises(UserError, match=r"cannot be written.*hint"):
            write_whole(bad, "x", "hint")


def test_a_full_disk_keeps_the_old_output(tmp_path: Path) -> None:
    """The limit on the size of files stands for the full disk: it too fails a write half way."""
    old = tmp_path / "old"
    old.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        with pytest.raises(UserError, match=r"cannot be written.*hint"):
            write_whole(old, "x" * 100_000, "hint")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert old.read_text() == "old" and list(tmp_path.iterdir()) == [old]


def test_inputs_are_not_written_over_under_any_name(tmp_path: Path) -> None:
    read, link, twin, other = (tmp_path / name for name in ("read", "link", "twin", "other"))
    read.write_text("x")
    link.symlink_to(read)
    twin.hardlink_to(read)
    other.write_text("x")
    refuse_inputs(other, [read, link, tmp_path / "missing"], "hint")
    refuse_inputs(tmp_path / "new", [read], "hint")
    for same in (read, link, twin, tmp_path / "." / "read"):
        with pytest.raises(UserError, match=r"read itself.*hint"):
            refuse_inputs(same, [other, read], "hint")
