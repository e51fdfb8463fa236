"""Counters with unknown names: read whatever the noun, and not taken from ids, sizes, times and scores."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.logs import read_progress
from analyzers.logs.dates import time_of, time_within
from analyzers.logs.prefix import strip_prefix
from analyzers.types import Progress


def read(folder: Path, form: str, count: int = 40) -> Progress:
    """A log of ``form``, with the time, the record's number ``i`` and a falling ``loss``."""
    lines = []
    for i in range(1, count + 1):
        time = datetime(2026, 11, 25, 8) + timedelta(seconds=30 * i)
        lines.append(form.format(time=time, i=i, loss=3 / (1 + i / 10), wave=50 + 7 * (i % 3), **multiples(i)))
    (folder / "x.log").write_text("\n".join(lines) + "\n")
    return read_progress(folder / "x.log")


def multiples(i: int) -> dict[str, int]:
    return {f"x{k}": k * i for k in (2, 30, 37, 50, 500, 1200, 4096, 5000)}


@pytest.mark.parametrize(
    ("form", "step", "total", "pace"),
    [
        ("{time} molecules {x5000}/900000 objective {loss:.4f}", 200000, 900000, 0.006),
        ("{time} molecules {x5000} of 900000", 200000, 900000, 0.006),
        ("{time} {x5000:,} of 900,000 graphs embedded", 200000, 900000, 0.006),
        ("{time} <tool> cells seen={x500} of 90000 ~~ objective:{loss:.3f} ~~ 12.0 c/s", 20000, 90000, 0.06),
        ("{time} seen={x500} objective={loss:.3f}", 20000, None, 0.06),
        ("{time} game {x37} finished, elo {i}", 37 * 40, None, 30 / 37),
        ("{time} processed {x50} out of 9000 scenes", 2000, 9000, 0.6),
        ("{time} Bild {x50} von 9000, Fehler {loss:.3f}", 2000, 9000, 0.6),
        ('{{"ts":"{time:%Y-%m-%dT%H:%M:%SZ}","n":{x500},"n_total":90000,"obj":{loss:.3f}}}', 20000, 90000, 0.06),
        ('{{"ts":"{time:%Y-%m-%dT%H:%M:%SZ}","docs_done":{x500},"docs_total":90000}}', 20000, 90000, 0.06),
        ("{time} progress {i}%", 40, 100, 30),
        ("{time} fitting the potential ... {i}.0% done", 40, 100, 30),
        ("{time} worker=7 photons={x500} flux={loss:.3f} temp=41", 20000, None, 0.06),
    ],
)
def test_a_counter_of_any_noun(form: str, step: int, total: int | None, pace: float, tmp_path: Path) -> None:
    found = read(tmp_path, form)
    assert (found.current_step, found.total_steps, found.format) == (step, total, "general")
    assert found.seconds_per_step == pytest.approx(pace)
    if total is not None:
        assert found.eta_seconds == pytest.approx((total - step) * pace)


def test_five_lines_are_enough(tmp_path: Path) -> None:
    assert read(tmp_path, "{time} molecules {x500} of 90000", 5).current_step == 2500
    assert read(tmp_path, "{time} molecules {x500} of 90000", 4).current_step is None


@pytest.mark.parametrize(
    "form",
    [
        "{time} handled request id=10{i:03d} port=4{i:04d} offset={x4096} elapsed={x30} mem {x50}/81920 MiB",
        "{time} ticket {x2} job {i} uptime={x30}s",
        "{time} top1 {i}.2% gpu_util {i}% temperature {i} disk {i}% used",
        "{time} since the start {x30} seconds",
        "{time} quanta={x30}",  # runs with the clock
        "{time} lattice 99{i:04d}",  # no count starts so far from zero
        "{time} buffers 1{x2}/2{x2}",  # no total that stays
        "{time} waves {wave}/100",
        "{time} file.bin: {i}%|###  | {i}.0M/100M",
        "{time} heap {x30} MB of 9000 MB, {x30}/9000 KiB",
        "{time} speed {i} items/s, 4{i} GB free",
    ],
)
def test_other_numbers_do_not_count(form: str, tmp_path: Path) -> None:
    found = read(tmp_path, form)
    assert (found.current_step, found.total_steps, found.anomaly) == (None, None, None)


def test_a_known_counter_wins(tmp_path: Path) -> None:
    assert read(tmp_path, "{time} molecules {x5000}/900000 step {x2}/180").current_step == 80


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**6), st.integers(5, 60), st.sampled_from(["voxels", "spins", "orbits", "Wörter"]))
def test_any_stride(tmp_path_factory: pytest.TempPathFactory, stride: int, count: int, noun: str) -> None:
    total = stride * 100
    text = "".join(f"{noun} {stride * i} of {total}\n" for i in range(1, count + 1))
    path = tmp_path_factory.mktemp("m") / "x.log"
    path.write_text(text)
    found = read_progress(path)
    assert (found.current_step, found.total_steps) == (stride * count, total)


TIME = datetime(2026, 11, 25, 20, 4, 5)


@pytest.mark.parametrize(
    "form",
    [
        "%d.%m.%Y %H:%M:%S",
        "%d.%m.%Y, %H:%M:%S",
        "%d/%m/%Y %H:%M:%S",
        "%m/%d/%Y %I:%M:%S %p",
        "%d-%m-%Y %H:%M:%S",
        "%d.%m.%y %H:%M:%S",
        "%d-%b-%Y %H:%M:%S",
        "%d %B %Y %H:%M:%S",
        "%d/%b/%Y:%H:%M:%S",
        "%b %d, %Y %I:%M:%S %p",
        "%a %b %d %H:%M:%S %Y",
        "%a %b %d %H:%M:%S CET %Y",
        "%a, %d %b %Y %H:%M:%S",
        "%Y%m%d %H:%M:%S",
        "%Y%m%d-%H%M%S",
        "%Y-%m-%d_%H-%M-%S",
        "%Y/%m/%d %H:%M:%S",
    ],
)
@pytest.mark.parametrize("around", ["{} ", "[{}] ", "({}) - "])
def test_orders_of_a_date(form: str, around: str) -> None:
    found = strip_prefix(around.format(TIME.strftime(form)) + "molecules 5")
    assert found.time == TIME
    assert found.rest.endswith("molecules 5")


def test_day_and_month_that_can_not_be_told_apart() -> None:
    time = strip_prefix("05/11/2026 08:00:40 molecules 5").time
    assert time is not None
    assert (time.year, time.month, time.day, time.hour, time.second) == (1904, 1, 1, 8, 40)
    assert strip_prefix("05.11.2026 08:00:40 x").time == datetime(2026, 11, 5, 8, 0, 40)
    assert strip_prefix("45/31/2026 08:00:40 x").time is None
    assert time_within("at 25.11.2026 08:00:40 it began") == datetime(2026, 11, 25, 8, 0, 40)
    assert time_of({"h": "25", "mi": "00"}) is None


def test_rows_of_numbers_without_names_count_in_one_column(tmp_path: Path) -> None:
    found = read(tmp_path, "{time}   {x1200:,}   {loss:.4f}   740.2   {wave}   3.0e-04")
    assert (found.current_step, found.seconds_per_step) == (48_000, pytest.approx(30 / 1200))
    assert read(tmp_path, "{time}   77   {loss:.4f}   {wave}").current_step is None


def test_epochs_that_a_launch_command_overrides_are_a_total(tmp_path: Path) -> None:
    lines = ["+ python tools/train.py -c a.yml --amp -o epoch=36 log_iter=20 Reader.batch_size=16"]
    lines += [
        f"Epoch: [{epoch}] [{step}/90] loss: {2 - epoch / 9:.3f}" for epoch in range(3) for step in range(0, 90, 10)
    ]
    (tmp_path / "x.log").write_text("\n".join(lines))
    assert read_progress(tmp_path / "x.log").total_epochs == 36
