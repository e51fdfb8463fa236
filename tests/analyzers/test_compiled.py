"""Kept databases of patterns: loaded when they are ours and whole, else made again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyzers import compiled

hyperscan = pytest.importorskip("hyperscan")
WORDS = ("out of memory", r"rank \d+")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "schedmate" / "patterns"


def finds(database: Any) -> list[int]:
    found: list[int] = []
    database.scan(b"rank 3 is out of memory", match_event_handler=lambda number, *_: found.append(number))
    return sorted(set(found))


def ask(must: bool = True) -> Any:
    return compiled.database(WORDS, [0, 0], must=must)


def is_kept() -> bool:
    return ask(must=False) is not None


def test_the_second_time_nothing_is_compiled(cache: Path) -> None:
    assert not is_kept()
    assert finds(ask()) == [0, 1]
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and cache.stat().st_mode & 0o777 == 0o700
    assert finds(ask(must=False)) == [0, 1]


def test_other_patterns_are_other_databases(cache: Path) -> None:
    ask()
    assert compiled.database(("something else",), [0], must=False) is None
    assert compiled.database(WORDS, [hyperscan.HS_FLAG_CASELESS, 0], must=False) is None


def _cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1000])


def _changed(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1000] ^= 1
    file.write_bytes(bytes(content))


def _emptied(file: Path) -> None:
    file.write_bytes(b"")


def _nonsense(file: Path) -> None:
    compiled.store(file, b"whole, but no database")


def _writable(file: Path) -> None:
    file.chmod(0o620)


def _link(file: Path) -> None:
    elsewhere = file.parent.parent / "elsewhere"
    shutil.move(file, elsewhere)
    file.symlink_to(elsewhere)


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize("spoil", [_cut_off, _changed, _emptied, _nonsense, _writable, _link, _fifo])
def test_what_is_wrong_is_made_again(spoil: Callable[[Path], None], cache: Path) -> None:
    ask()
    (file,) = cache.iterdir()
    spoil(file)
    assert not is_kept()
    assert finds(ask()) == [0, 1]
    assert is_kept() and file.lstat().st_mode & 0o777 == 0o600


def test_a_folder_that_others_can_write_is_not_used(cache: Path) -> None:
    ask()
    cache.chmod(0o770)
    assert not is_kept()
    (file,) = cache.iterdir()
    file.unlink()
    assert finds(ask()) == [0, 1] and not list(cache.iterdir())


def test_what_belongs_to_somebody_else_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask()
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert not is_kept()
    assert finds(ask()) == [0, 1]


@pytest.mark.parametrize("home", ["/dev/null", "relative/folder", ""])
def test_without_a_place_to_keep_it_it_is_compiled(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.chdir(tmp_path)
    assert finds(ask()) == [0, 1] and not list(tmp_path.iterdir())


def test_few_are_kept(cache: Path) -> None:
    for number in range(12):
        compiled.database((f"word {number}",), [0])
    assert len(list(cache.iterdir())) == 8
    assert compiled.database(("word 11",), [0], must=False) is not None


def test_a_bad_pattern_is_told(cache: Path) -> None:
    with pytest.raises(ValueError, match="cannot compile"):
        compiled.database(("(",), [0])
