"""What holds for every format: recognised by content, packed or not, and hostile input costs one line."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrations.traces.csv_rows import HEADER_AGAIN
from prompts.errors import UserError
from schedmate.repeats import TWICE, jobs_once
from schedmate.traces import format_name_of, format_names, open_trace

PACKERS: dict[str, Any] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}
OF_SEVERAL_FILES = {"pai"}


def test_each_format_has_a_sample_or_tests_of_its_own(sample) -> None:
    from integrations.traces import common_csv  # noqa: F401 (the entry points lead into this package)

    assert sample[0] in set(format_names()) - OF_SEVERAL_FILES


def test_recognised_by_content_whatever_the_name(sample, tmp_path: Path) -> None:
    name, text = sample
    (tmp_path / "x.bin").write_text(text)
    assert format_name_of(tmp_path / "x.bin") == name
    (tmp_path / "y.bin").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert format_name_of(tmp_path / "y.bin") == name


@pytest.mark.parametrize("packer", sorted(PACKERS))
def test_packed_in_any_way(sample, tmp_path: Path, packer: str) -> None:
    name, text = sample
    data = PACKERS[packer](text[:40].encode()) + PACKERS[packer](text[40:].encode())  # two streams, one after the other
    (tmp_path / "t").write_bytes(data)
    records, notes = open_trace(tmp_path / "t")
    assert len(list(records)) == notes.rows == 3
    assert format_name_of(tmp_path / "t") == name


@pytest.mark.parametrize("packer", sorted(PACKERS))
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_packing_is_one_line(sample, tmp_path: Path, packer: str, damage: str) -> None:
    data = PACKERS[packer](sample[1].encode() * 3)
    data = data[: len(data) // 2] if damage == "cut" else data[:40] + bytes(b ^ 0x55 for b in data[40:60]) + data[60:]
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(UserError) as error:
        list(open_trace(tmp_path / "t", sample[0])[0])
    assert "\n" not in str(error.value) and error.value.hint


@pytest.mark.parametrize("other", sorted(set(format_names())))
def test_the_wrong_format_forced_is_one_line_or_skipped_rows(sample, tmp_path: Path, other: str) -> None:
    (tmp_path / "t").write_text(sample[1])
    try:
        records, notes = open_trace(tmp_path / "t", other)
        assert len(list(records)) == notes.rows
    except UserError as error:
        assert "\n" not in str(error)


def test_a_header_alone_is_one_line(sample, tmp_path: Path) -> None:
    head = sample[1].split("\n", 1)[0][:60] if sample[1][0] in "[{" else sample[1].split("\n", 1)[0] + "\n"
    (tmp_path / "t").write_text(head)
    with pytest.raises(UserError) as error:
        list(open_trace(tmp_path / "t", sample[0])[0])
    assert "\n" not in str(error.value)


def test_a_file_put_behind_itself_has_its_header_told_and_its_jobs_once(sample, tmp_path: Path) -> None:
    text = sample[1]
    if text[0] in "[{;":
        pytest.skip("has no header line that could come again")
    (tmp_path / "t").write_text(text + text)
    jobs, notes = jobs_once(lambda: open_trace(tmp_path / "t"), lambda records, _: list(records))
    assert len(jobs) == notes.rows == 3
    assert (notes.remarks[HEADER_AGAIN], notes.skipped) == (1, {TWICE: 3})


def test_nul_bytes_and_bytes_of_another_encoding_cost_no_row(sample, tmp_path: Path) -> None:
    name, text = sample
    user = next((word for word in ("ann", "u1", "ua", "LS") if word in text), None)
    if user is None:
        pytest.skip("this sample names nobody")
    (tmp_path / "t").write_bytes(text.encode().replace(user.encode(), b"a\0nn\xe9"))
    records, notes = open_trace(tmp_path / "t", name)
    assert len(list(records)) == 3
    if name not in ("sacct-json", "philly"):
        assert sum(notes.remarks.values()) >= 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 2000), junk=st.binary(max_size=30), at=st.integers(0, 2000))
def test_garbage_anywhere_gives_counts_or_one_line(
    sample, tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes, at: int
) -> None:
    name, text = sample
    data = text.encode()
    data = data[:at] + junk + data[at:]
    path = tmp_path_factory.mktemp("garbage") / "t"
    path.write_bytes(data[: max(1, len(data) - cut)])
    try:
        records, notes = open_trace(path, name)
        found = list(records)
    except UserError as error:
        assert "\n" not in str(error)
        return
    assert len(found) == notes.rows
    for record in found:
        assert record.gpus >= 0 and (record.duration_s is None or 0 <= record.duration_s < 1e14)
