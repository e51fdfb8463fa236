# ruff: noqa: E501 (log lines are as long as they are)
"""Launcher, logger and collector prefixes, alone and nested."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.logs.prefix import NO_YEAR, Prefix, strip_prefix


@pytest.mark.parametrize(
    ("text", "rank", "node", "time", "rest"),
    [
        ("[rank5]: boom", 5, None, None, "boom"),
        ("[rank2 host=gpu-1]: boom", 2, "gpu-1", None, "boom"),
        ("[default0]:boom", 0, None, None, "boom"),
        (" 3: boom", 3, None, None, "boom"),
        ("2: [rank11]: boom", 11, None, None, "boom"),
        ("[1,3]<stdout>:boom", 3, None, None, "boom"),
        ("[4] boom", 4, None, None, "boom"),
        ("(TrainWorker pid=77, ip=10.0.0.3) boom", None, "10.0.0.3", None, "boom"),
        ("[pod/llm-worker-0/main] boom", None, "llm-worker-0", None, "boom"),
        ("llm-worker-2 boom", None, "llm-worker-2", None, "boom"),
        ("gpu-1:31:310 [3] NCCL INFO x", None, "gpu-1", None, "NCCL INFO x"),
        ("[gpu-1:19981] x", None, "gpu-1", None, "x"),
        ("fjord-3: x", None, "fjord-3", None, "x"),
        ("gpu-3 kernel: NVRM", None, "gpu-3", None, "kernel: NVRM"),
        ("Jun  3 16:26:26 gpu-3 kernel: NVRM", None, "gpu-3", datetime(NO_YEAR, 6, 3, 16, 26, 26), "kernel: NVRM"),
        ("2025-06-13T16:26:26Z gpu-3 kernel: NVRM", None, "gpu-3", datetime(2025, 6, 13, 16, 26, 26, tzinfo=UTC), "kernel: NVRM"),
        ("2025-06-13T16:26:26.5+02:00 x", None, None, datetime(2025, 6, 13, 16, 26, 26, 500000, timezone(timedelta(hours=2))), "x"),
        ("2025-06-13 16:26:26,123 - root - INFO - x", None, None, datetime(2025, 6, 13, 16, 26, 26, 123000), "x"),
        ("[2025-06-13 16:26:26,123] [INFO] [a.py:96:f] [Rank 7] x", 7, None, datetime(2025, 6, 13, 16, 26, 26, 123000), "x"),
        ("[INFO|trainer.py:2134] 2025-06-13 16:26:26 >> x", None, None, datetime(2025, 6, 13, 16, 26, 26), "x"),
        ("I0613 16:26:26.5 1398 train.py:211] x", None, None, datetime(NO_YEAR, 6, 13, 16, 26, 26, 500000), "x"),
        ("[rank0]:[E211 03:51:14.4 P.cpp:616] [Rank 0] x", 0, None, datetime(NO_YEAR, 2, 11, 3, 51, 14, 400000), "x"),
        ("[06/13 16:26:26 d2.utils.events]:  x", None, None, datetime(NO_YEAR, 6, 13, 16, 26, 26), "x"),
        ("[Fri Jun 13 16:26:26 2025] x", None, None, datetime(2025, 6, 13, 16, 26, 26), "x"),
        ("[16:26:26] x", None, None, datetime(NO_YEAR, 1, 1, 16, 26, 26), "x"),
        ("1757664017.5 x", None, None, datetime(2025, 9, 12, 8, 0, 17, 500000, UTC), "x"),
        ("2025-06-13T16:26:26.123456789Z stdout F x", None, None, datetime(2025, 6, 13, 16, 26, 26, 123456, UTC), "x"),
        ("2025/06/06 06:48:20 WARNING urllib3.pool: x", None, None, datetime(2025, 6, 6, 6, 48, 20), "urllib3.pool: x"),
        ("INFO:root:x", None, None, None, "x"),
        ("epoch-3: loss 2", None, None, None, "epoch-3: loss 2"),
        ("12/400 [===>...] - ETA: 3s", None, None, None, "12/400 [===>...] - ETA: 3s"),
        ("step 5: loss 3", None, None, None, "step 5: loss 3"),
        ("2025-13-45 99:99:99 x", None, None, None, "x"),
        ("", None, None, None, ""),
    ],
)  # fmt: skip
def test_prefix(text: str, rank: int | None, node: str | None, time: datetime | None, rest: str) -> None:
    assert strip_prefix(text) == Prefix(rank, node, time, rest)


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text_is_split_and_keeps_its_end(text: str) -> None:
    assert text.endswith(strip_prefix(text).rest)


def test_no_pattern_backtracks_badly() -> None:
    for part in ("a-", "1:", "[", "word ", "2025-01-01 ", "a.b-1", "(pid=1, ", "[a "):
        text = part * 20_000
        assert text.endswith(strip_prefix(text).rest)
