"""The compiled scanner finds what Python's own `re` finds: first matches of each stretch, every one where asked."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.logs import worth
from analyzers.logs.blockscan import STRETCH_BYTES, Pattern, compiled, stretches
from analyzers.logs.formats import known_formats
from analyzers.logs.reading import read_line
from analyzers.logs.remarks import BROKEN, FINISHED, PAUSING
from analyzers.logs.words import Worded

pytest.importorskip("hyperscan")

_LINES = st.lists(
    st.sampled_from([b"step 12 of 90", b"nothing here", b"loss=2.5", b"EPOCH 3", b"", b"\xff\xfe\x00", b"x" * 300]),
    max_size=40,
)


@given(_LINES, st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_every_match_and_the_last_one_are_those_of_re(lines: list[bytes], end: bytes) -> None:
    block = end.join(lines)
    scanner = compiled(
        [[Pattern("epoch [0-9]", every=True)], [Pattern(r"loss=[0-9]"), Pattern("step [0-9]", every=True)]]
    )
    assert scanner is not None

    hits = scanner.hits(block)

    for index, expression in enumerate((rb"(?i)epoch [0-9]", rb"(?i)loss=[0-9]", rb"(?i)step [0-9]")):
        ends = [match.end() for match in re.finditer(expression, block)]
        expected = ends[:1] if index == 1 else ends
        assert [at for at, pattern in hits if pattern == index] == expected
        assert scanner.last(block, 0, len(block), index) == (ends[-1] if ends else None)


@given(st.lists(st.integers(0, 3000), max_size=200), st.sampled_from([b"\n", b"\r"]))
def test_stretches_follow_each_other_and_end_with_lines(lengths: list[int], end: bytes) -> None:
    block = b"".join(b"a" * length + end for length in lengths)
    parts = list(stretches(block))
    assert b"".join(block[start:stop] for start, stop in parts) == block
    assert all(stop - start <= STRETCH_BYTES and block[stop - 1 : stop] == end for start, stop in parts)


def test_a_stretch_without_a_line_end_is_cut() -> None:
    block = b"a" * (3 * STRETCH_BYTES + 5)
    assert [stop - start for start, stop in stretches(block)] == [STRETCH_BYTES] * 3 + [5]


def test_one_hit_for_each_stretch_however_dense() -> None:
    scanner = compiled([[Pattern("step [0-9]")]])
    assert scanner is not None
    block = b"step 1\n" * (3 * STRETCH_BYTES // 7)
    assert len(scanner.hits(block)) == len(list(stretches(block)))


def test_what_every_known_format_prints_is_worth_reading() -> None:
    """Each sample line that counts something has a hit: nothing that is known is passed over unseen."""
    scanner = worth.scanner()
    assert scanner is not None
    samples = [sample.line for known in known_formats() for sample in known.samples]
    assert len(samples) > 30
    for line in samples:
        reading = read_line(line, known_formats())
        if reading is not None and (reading.step, reading.epoch, reading.loss) != (None, None, None):
            assert scanner.hits(line.encode()), line


@pytest.mark.parametrize("pattern", [FINISHED, BROKEN, PAUSING])
@pytest.mark.parametrize(
    "line",
    [
        "Training completed.", "`Trainer.fit` stopped: `max_steps=9` reached.", "JOB FINISHED", "Early stopping at 9",
        "exiting program", "All done!", "{'train_runtime': 9.1}", "loss became nan", "NON-FINITE LOSS", "loss NaN",
        "loss scale already at minimum", "Evaluating", "running validation", "Saving checkpoint", "sampling 4 texts",
        "Generating", "torch.compile: compiling", "testing", "step 9 loss 2.1", "done training", "done trAINing",
    ],
)  # fmt: skip
def test_words_never_hide_a_match(pattern: Worded, line: str) -> None:
    assert bool(pattern.search(line)) == bool(pattern.pattern.search(line))
