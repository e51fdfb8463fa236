"""Files that an operator names: what is no small file is refused at once, what is no file is never replaced."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from prompts.errors import UserError
from schedmate.files import check_output, read_small


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
