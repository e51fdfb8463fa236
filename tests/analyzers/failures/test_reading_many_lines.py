"""What looks through many lines at once finds what looking at each finds, and no cause is lost among many lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.failures import diagnose
from analyzers.failures.above import Above
from analyzers.failures.block import Block, numbered
from analyzers.failures.hosts import NO_LABELS
from analyzers.failures.marks import PROGRESS, PROGRESS_HAS
from analyzers.failures.matcher import Matcher
from analyzers.failures.recognise import TIME_WITHIN_LINES
from analyzers.failures.sampling import _RANK, _RANK_SHAPE, Share
from analyzers.failures.steps import Step, Steps, is_progress
from analyzers.logs.intake import Cutter, segments
from analyzers.logs.prefix import strip_prefix

STEPS = [
    "step 5 loss 2.0 lr 1e-4",
    "[2025-01-01 00:00:00] iteration        7/  100 | elapsed time per iteration (ms): 310.0 | lm loss: 2.0E+00",
    "elapsed 3 s, grad_norm 0.1 at global_step=17",
    " 40%|████      | 400/1000 [00:10<00:15, 40.00it/s]",
    "{'loss': 1.2, 'learning_rate': 1e-5, 'epoch': 0.1}",
    "120/500 [====>.....] - ETA: 3s - loss: 0.3",
    "12/50 - 3s - loss: 0.3",
]
OTHERS = ["", "wandb: step 5 loss 2.0", "step 5", "loss 2.0", "2025-01-01 00:00:00 INFO fetched shard", "é 漢字", "\tx"]
LINES = st.lists(st.sampled_from([*STEPS, *OTHERS]), min_size=1, max_size=120)


def test_what_lines_of_progress_have() -> None:
    loose = re.compile("|".join(f"(?:{each})" for each in PROGRESS_HAS))
    for line in STEPS:
        assert PROGRESS.search(line) and loose.search(line), line


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab\r\b é1:\n", max_size=12), min_size=1, max_size=20), st.integers(1, 99))
def test_a_block_knows_its_lines(parts: list[str], first: int) -> None:
    text = "\n".join(parts).replace("\r\n", "\n")
    shown = [
        (number, part)
        for number, line in enumerate(text.split("\n"), first)
        for part in (segments(line) if "\r" in line or "\b" in line else [line])
    ]
    block = Block(first, text.encode())
    assert len(block) == len(shown)
    assert [(block.number(at), block.line(at)) for at in range(len(block))] == shown
    assert block.lines(0, len(block)) == [part for _, part in shown]
    for at, (number, part) in enumerate(shown):
        start, stop = block.span(at, at + 1)
        assert block.data[start:stop].decode().removesuffix("\n") == part
        assert not part or block.index_of(start + 1) == at
        assert block.after(number) == sum(other <= number for other, _ in shown)
        assert block.ends_line(at) == (at + 1 == len(shown) or shown[at + 1][0] != number)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["", "ab", "é", "x" * 3000]), min_size=1, max_size=40), st.data())
def test_a_block_tells_which_lines_matches_end_in(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines).encode()
    block = Block(1, text)
    for end in data.draw(st.lists(st.integers(0, len(text)))):
        assert block.index_of(end) == text.count(b"\n", 0, max(0, end - 1))
    starts = [sum(len(line.encode()) + 1 for line in lines[:at]) for at in range(len(lines))]
    assert [block.start(at) for at in range(len(block))] == starts


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("ab\r\b é\x1b[m\n", max_size=12), min_size=1, max_size=20), st.integers(1, 60))
def test_blocks_are_numbered_as_their_pieces_are_cut(parts: list[str], size: int) -> None:
    text = "".join(parts).encode()
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    counting, cutting = Cutter(), Cutter()
    expected = [*(block for chunk in chunks if (block := counting.push(chunk))), counting.rest()]
    pieces = [*(piece for chunk in chunks if (piece := cutting.cut(chunk)))]
    last = cutting.rest()
    found = numbered([*pieces, last[1]] if last else pieces)
    assert [(each.first, each.data) for each in found] == [
        (first, Block(first, raw).data) for first, raw in filter(None, expected)
    ]


@given(st.text("rankRANKdefaulttask[], :=_0123456789x", max_size=40).map(str.encode))
def test_a_line_tells_no_rank_that_its_shape_does_not(head: bytes) -> None:
    assert _RANK.search(head) is None or _RANK_SHAPE.search(head.translate(None, b"0123456789"))


@settings(max_examples=60, deadline=None)
@given(LINES, st.data())
def test_steps_are_found_from_both_ends(lines: list[str], data: st.DataObject) -> None:
    block = Block(1, "\n".join(lines).encode())
    start = data.draw(st.integers(0, len(lines)))
    stop = data.draw(st.integers(start, len(lines)))
    expected = [Step(at, lines[at].rstrip()) for at in range(start, stop) if is_progress(lines[at])]
    assert list(Steps().forward(block, start, stop)) == expected
    assert list(Steps().backward(block, start, stop)) == expected[::-1]


@settings(max_examples=60, deadline=None)
@given(LINES)
def test_the_nearest_time_above(lines: list[str]) -> None:
    block, above = Block(1, "\n".join(lines).encode()), Above()
    for at in range(0, len(lines), 3):
        dated = [line for line in lines[max(0, at - TIME_WITHIN_LINES) : at] if strip_prefix(line).time is not None]
        assert above.dated(block, at, NO_LABELS) == dated[-1:]


def test_a_crowd_of_matches_is_sampled_and_nothing_else_is_lost() -> None:
    pytest.importorskip("hyperscan")
    lines = [f"warning {n} of many" for n in range(60_000)]
    lines[41_234] = "the cause"
    block = Block(1, "\n".join(lines).encode())
    found, _ = Matcher(["warning", "cause"]).candidates(block, 1000, 1000)
    assert list(range(900)) == sorted(found)[:900] and 41_234 in found
    assert len(found) < 2000 and len(lines) - 1 in found
    assert len(Matcher(["warning", "cause"]).candidates(block).lines) == len(lines)


ROOT = """Traceback (most recent call last):
  File "/w/train.py", line 7, in <module>
    main()
  File "/w/model.py", line 3, in main
    y = layer(x)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x4)
"""
CAUGHT = """Traceback (most recent call last):
  File "/w/data.py", line {n}, in get
    return decode(item)
ValueError: broken item {n}
skipping item {n}, trying the next one
"""


def crowded(lines: int) -> str:
    """Warnings, tracebacks that were caught, and steps, over and over."""
    warning = "[rank{r}]:[W socket.cpp:697] [c10d] The client socket has failed to connect to [node-7]:29500 (x).\n"
    parts = []
    for n in range(lines // 5):
        parts.append(CAUGHT.format(n=n) if n % 5 == 0 else warning.format(r=n % 8) * 4)
        parts.append(f"step {n} loss {2 + 1 / (n + 1):.3f} lr 1e-4\n")
    return "".join(parts)


@pytest.mark.parametrize("after", [0, 30_000])
def test_a_cause_in_a_crowd(after: int, tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(crowded(40_000) + ROOT + "echo: exiting\n" * after, encoding="utf-8")
    found = diagnose(path)
    assert found.evidence[0].text.startswith("RuntimeError: mat1"), found
    assert found.category == "user-code" and any("/w/model.py" in line.text for line in found.evidence)


def test_attempts_without_end_are_read(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text("=== attempt 1 ===\nValueError: x\n" * 3_000 + "=== attempt 2 ===\n" + ROOT, encoding="utf-8")
    found = diagnose(path)
    assert found.evidence[0].text.startswith("RuntimeError: mat1"), found


def test_an_error_far_into_a_bar_is_found(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    bar = "".join(f"\r {n % 100}%|##   | {n}/90000 [00:10<00:15, 40.00it/s]" for n in range(2000))
    path.write_text(f"start\n{bar}{ROOT}", encoding="utf-8")
    assert diagnose(path).evidence[0].text.startswith("RuntimeError: mat1")


def test_each_of_many_files_gets_less() -> None:
    few, many = Share.of_each(1), Share.of_each(1024)
    assert all(low <= high for low, high in zip(_values(many), _values(few), strict=True))
    assert min(_values(Share.of_each(10**9))) > 0


def _values(share: Share) -> list[int]:
    return [getattr(share, name) for name in Share.__dataclass_fields__]
