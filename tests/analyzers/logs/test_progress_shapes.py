"""Shapes of plans, tables, paces and stamps that no format's file is needed for."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.logs import read_progress
from analyzers.types import Progress


def _read(tmp_path: Path, text: str) -> Progress:
    log = tmp_path / "a.log"
    log.write_text(text, encoding="utf-8")
    return read_progress(log)


_STEPS = "".join(f"step {step} loss {3 - step / 900:.4f} (1.50 s/it)\n" for step in range(10, 200, 10))


@pytest.mark.parametrize(
    ("line", "total"),
    [
        ("+ python train.py --lr 3e-4 --max_steps=900 --eval_steps=400", 900),
        ("python ppo.py --total-timesteps 900 --track", 900),
        ("OrderedDict([('n_steps', 64),\n             ('n_timesteps', 900.0),", 900),
        ("[ Info: 900 steps, batch 256, Adam(0.001)", 900),
        ("plan: 1,900 training iterations", 1900),
        ("max_duration: 900ba", 900),
        ("cmd --max_iters=900\nmax_iters = 60000\nOverriding: max_iters = 900", 900),
        ("warm-up: 900 steps", None),
        ("checkpoint every: 900 steps", None),
    ],
)
def test_how_many_steps_there_will_be(tmp_path: Path, line: str, total: int | None) -> None:
    found = _read(tmp_path, f"{line}\n{_STEPS}")
    assert (found.current_step, found.total_steps) == (190, total)


def test_a_pace_without_a_name(tmp_path: Path) -> None:
    assert _read(tmp_path, _STEPS).seconds_per_step == pytest.approx(1.5)


def test_an_epoch_after_a_step_is_no_unit(tmp_path: Path) -> None:
    found = _read(tmp_path, "".join(f"step {step} ep {1 + step // 50} loss 2.5\n" for step in range(1, 120)))
    assert (found.current_step, found.current_epoch) == (119, 3)


def test_cells_between_bars_under_names_of_two_lines(tmp_path: Path) -> None:
    head = "|  Epoch  |  Iteration  |  Time Elapsed  |  Mini-batch  |  Mini-batch  |\n"
    head += "|         |             |   (hh:mm:ss)   |   Accuracy   |     Loss     |\n"
    head += "|=====================================================================|\n"
    rows = "".join(
        f"|  {1 + k // 8} |  {20 * k} |  00:{k // 6:02d}:{k * 10 % 60:02d} |  {60 + k / 9:.2f}% |  {3 - k / 50:.4f} |\n"
        for k in range(1, 50)
    )
    found = _read(tmp_path, head + rows)
    assert (found.current_step, found.current_epoch, found.last_loss) == (980, 7, 2.02)
    assert found.seconds_per_step == pytest.approx(0.5, rel=0.02)


def test_the_plainest_loss_of_a_block_counts(tmp_path: Path) -> None:
    block = "|  total_timesteps  | {step} |\n|  entropy_loss  | -4.7 |\n|  loss  | {loss} |\n|  value_loss  | 0.1 |\n"
    found = _read(tmp_path, "".join(block.format(step=100 * k, loss=3 - k / 90) for k in range(1, 45)))
    assert found.last_loss == pytest.approx(3 - 44 / 90)


def test_a_collectors_stamp_stands_once_before_all_drawings_of_a_bar(tmp_path: Path) -> None:
    lines = ""
    for minute in range(30):
        bars = "".join(f"\r {k}%|##  | {k}/900 [00:01<00:05, 9.00it/s]" for k in range(10 * minute, 10 * minute + 10))
        lines += f"2025-10-16T02:{minute:02d}:43.500224856Z {bars}\n"
    found = _read(tmp_path, lines)
    assert found.not_understood == ()
    assert found.seconds_per_step == pytest.approx(6.0, rel=0.05)


def test_a_counter_of_what_is_left_counts_from_where_it_was_first_seen(tmp_path: Path) -> None:
    text = "".join(f"{k // 60:02d}:{k % 60:02d}:00  {4990 - 10 * k:,} tiles left   misfit 4.{k}\n" for k in range(90))
    found = _read(tmp_path, text)
    assert (found.current_step, found.total_steps) == (890, 4990)
    assert found.seconds_per_step == pytest.approx(6.0)
    assert found.eta_seconds == pytest.approx(4100 * 6.0, rel=0.01)
