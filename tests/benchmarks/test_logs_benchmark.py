"""The benchmarks of reading logs run on small logs and measure what they say."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from random import Random

import pytest

from analyzers.logs import read_progress
from benchmarks.follow import lines
from benchmarks.logs import KINDS, best, measure, write_log


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_generated_logs_hold_progress_that_is_read(tmp_path: Path, kind: str) -> None:
    log = tmp_path / "a.log"
    write_log(log, kind, 700_000)
    assert 700_000 <= log.stat().st_size < 702_000
    found = read_progress(log)
    assert found.current_step
    assert found.total_steps
    assert found.last_loss == pytest.approx(2, rel=4)
    assert found.anomaly is None


def test_a_run_costs_more_on_a_larger_file(tmp_path: Path) -> None:
    large, empty = tmp_path / "large", tmp_path / "empty"
    large.write_bytes(b"step 1 loss 2\n" * 2_000_000)
    empty.write_bytes(b"")
    run = best(["grep", "-c", "-F", "-e", "step"], large, empty, repeats=1)
    assert run.cpu_s > 1e-6
    assert run.peak_mib > 0


def test_one_row_of_the_table(tmp_path: Path) -> None:
    row = measure(tmp_path, "progress", 1, repeats=1)
    assert row[0] == "progress"
    assert row[1] == "1"
    assert float(row[2].replace(",", "")) > 0
    assert not (tmp_path / "progress.log").exists()


def test_followed_logs_are_read(tmp_path: Path) -> None:
    for number in (0, 9):
        log = tmp_path / f"{number}.log"
        log.write_text("".join(islice(lines(number, Random(1)), 400)))
        assert read_progress(log).current_step == (100 if number == 0 else 200)
