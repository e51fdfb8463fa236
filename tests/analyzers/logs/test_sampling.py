"""What is read of a large log when most of it is passed over: the same as when every line is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from analyzers.logs import worth
from analyzers.logs.intake import discover
from analyzers.logs.progress import assess
from analyzers.logs.scan import Detail, feed
from analyzers.logs.tracker import Tracker
from analyzers.types import Progress

_START = datetime(2025, 9, 12, 8, 0, 0)
_WHOLE = Detail(1 << 40, 0, 0)
_SPARE = Detail(16 * 1024, 64 * 1024, 48 * 1024)


def _at(seconds: float) -> str:
    return f"{_START + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


def _steps_in_epochs(random: Random) -> Iterator[str]:
    """Steps that restart in each of many short epochs, which are announced on lines of their own."""
    done = 0
    for epoch in range(1, 400):
        yield f"{_at(done * 0.5)} ===== Epoch {epoch}/500 =====\n"
        for batch in range(10, 310, 10):
            done += 10
            yield f"{_at(done * 0.5)} batch {batch}/300 loss {2 + random.random() / 9:.4f} acc {random.random():.3f}\n"
        yield f"{_at(done * 0.5)} validation: accuracy {random.random():.3f}, {random.random():.3f} of the best\n"


def _bars(random: Random) -> Iterator[str]:
    """Bars of one epoch each, redrawn with carriage returns, without the epoch's name."""
    for epoch in range(8):
        for step in range(1, 1500):
            left = (1500 - step) // 4
            yield f"\r{100 * step // 1500:3d}%|██    | {step}/1500 [{step // 240:02d}:{step // 4 % 60:02d}<"
            yield f"{left // 60:02d}:{left % 60:02d},  4.00it/s, loss={2 + random.random() / 9:.3f}]"
        yield f"\nepoch {epoch + 1} of 20 done, mean loss {2 + random.random() / 9:.3f}\n"


def _slowing(random: Random) -> Iterator[str]:
    """Three times slower from two thirds on."""
    passed = 0.0
    for step in range(1, 12000):
        passed += random.gauss(0.4, 0.01) * (3 if step > 8000 else 1)
        yield f"[{_at(passed)}] iteration {step:8d}/ 20000 | lm loss: {3 + random.random() / 9:.5E} | grad: 0.9 |\n"


def _diverged(random: Random) -> Iterator[str]:
    """Not a number from the middle to the end."""
    for step in range(1, 12000):
        loss = 3 + random.random() / 9 if step < 6000 else math.nan
        yield f"[{_at(step * 0.4)}] step: {step} loss: {loss:.4f} lr: 0.0003 tokens_per_second: 45210\n"


def _seldom(random: Random) -> Iterator[str]:
    """A step each thousand lines of other output; how many there will be is said in the midst of it."""
    for number in range(12000):
        passed = number * 0.01
        yield f"{_at(passed)} DEBUG dataloader worker {random.randrange(8)} fetched {random.randrange(999)} objects\n"
        if number == 5000:
            yield f"{_at(passed)} INFO trainer: max_steps: 900\n"
        if number % 1000 == 0:
            yield f"{_at(passed)} INFO trainer: step {number // 1000 + 1}, loss {3 - number / 1e5:.4f}\n"


def _ranks(random: Random) -> Iterator[str]:
    """Four ranks' lines mixed."""
    for step in range(1, 3500):
        for rank in sorted(range(4), key=lambda _: random.random()):
            yield f"{rank}: {_at(step * 2)} step {step}/9000 loss {3 - step / 5e3:.4f} 12 GiB\n"


def _table(random: Random) -> Iterator[str]:
    """Rows of numbers under their names."""
    yield "step,epoch,loss,lr,seconds_per_step,max_memory\n"
    for step in range(1, 24000):
        yield f"{step},{step / 9000:.4f},{2 + random.random() / 9:.5f},0.0001,{random.gauss(0.5, 0.01):.4f},41.2\n"


def _ended(random: Random) -> Iterator[str]:
    """Over in the middle; what follows is the clean-up's own noise."""
    for step in range(1, 5001):
        yield f"{_at(step * 0.4)} step {step}/5000 loss {3 - step / 5e3 + random.random() / 50:.4f}\n"
    yield f"{_at(2001)} Training completed after 5000 steps\n"
    for number in range(8000):
        yield f"{_at(2001 + number / 10)} INFO uploader: part sent, {random.randrange(999)} more in the queue\n"


def _read(path: Path, detail: Detail) -> Progress:
    tracker = Tracker()
    for file in discover(path):
        tracker.begin(file.name, file.rank)
        feed(file, tracker, lambda _: None, detail)
        tracker.end()
    return assess(tracker)


@pytest.mark.parametrize("with_scanner", [True, False])
@pytest.mark.parametrize(
    "lines", [_steps_in_epochs, _bars, _slowing, _diverged, _seldom, _ranks, _table, _ended], ids=lambda f: f.__name__
)
def test_passing_over_most_lines_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Callable[[Random], Iterator[str]], with_scanner: bool
) -> None:
    if not with_scanner:
        monkeypatch.setattr(worth, "scanner", lambda: None)
    log = tmp_path / "train.log"
    log.write_text("".join(lines(Random(5))), encoding="utf-8")
    assert log.stat().st_size > 4 * (_SPARE.head_bytes + _SPARE.tail_bytes)

    whole, spare = _read(log, _WHOLE), _read(log, _SPARE)

    assert whole.format is not None
    for name in ("current_step", "total_steps", "current_epoch", "total_epochs", "anomaly", "ended"):
        assert getattr(spare, name) == getattr(whole, name), name
    assert str(spare.last_loss) == str(whole.last_loss)
    for name in ("seconds_per_step", "eta_seconds"):
        assert (getattr(spare, name) or 0) == pytest.approx(getattr(whole, name) or 0, rel=0.05), name


def test_the_beginning_the_middle_and_the_end_are_each_read_once(tmp_path: Path) -> None:
    """Every line reaches the tracker with its own number, whatever the sizes."""
    log = tmp_path / "train.log"
    text = [f"step {number}/9999 loss {number}.5" for number in range(1, 600)]
    log.write_text("\n".join(text), encoding="utf-8")
    for detail in (
        Detail(100, 1 << 40, 100),
        Detail(0, 1 << 40, 1),
        Detail(1, 1 << 40, 1 << 30),
        Detail(5000, 0, 9000),
    ):
        seen: list[tuple[int, str]] = []
        tracker = Tracker()
        tracker.begin("train.log", None)
        tracker.line = lambda number, line, seen=seen: seen.append((number, line)) or True  # type: ignore[method-assign,misc,func-returns-value]
        feed(discover(log)[0], tracker, lambda _: None, detail)
        assert [(number, line) for number, line in seen if text[number - 1] != line] == []
        assert [number for number, _ in seen] == sorted({number for number, _ in seen})
        assert seen[0][0] == 1
        assert seen[-1][0] == len(text)
