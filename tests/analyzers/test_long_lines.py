"""Lines made of one thing over and over cost no more than their length, whichever pattern meets them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyzers.failures import diagnose
from analyzers.history.text import grams, script, stem, words
from analyzers.logs import read_progress

_UNITS = (
    "a", "A", "1", " ", "\t", ".", "-", "_", "/", "[", "(", "|", "=", ":", ",", "'", "#", "a ", "a.", "a-", "a_", "1 ",
    "1,", "1.", "1:", "1/", "1-", "a:", "a=", "[1", "a1", "a1-", "a, ", "[a] ", "a=1 ", "loss ", "step ", "epoch 1 ",
    "rank 1 ", "node ", "Error: ", "12:34:56 ", "2025-01-01 ", "it/s ", "a@", "  a", "\t1", "1%|", "1/1 ", "1epoch:",
)  # fmt: skip
_HEADS = ("", "pid=1", "loss: 2.1 step=", "x 180", "job 12 ", ",,", "Traceback (most recent call last) ", "1%|")
_LINE_CHARS = 4000


def _lines() -> str:
    lines = (head + (unit * _LINE_CHARS)[:_LINE_CHARS] + end for head in _HEADS for unit in _UNITS for end in ("", "!"))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (read_progress, "run.log"),
        *((diagnose, name) for name in ("run.log", "dmesg.txt", "sacct.txt", "k8s_events.txt")),
    ],
)
def test_a_file_of_long_monotonous_lines_is_read_in_time(
    read: Callable[[Path], Any], name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(_lines())  # 3 MB
    since = time.process_time()
    read(path)
    assert time.process_time() - since < 12


@pytest.mark.parametrize("function", [grams, script, stem, words])
def test_long_commands_are_compared_in_time(function: Callable[[str], Any]) -> None:
    since = time.process_time()
    for unit in _UNITS:
        function(unit * (100_000 // len(unit)))
    assert time.process_time() - since < 5
