"""Objects of a long array, whatever the pieces they are read in."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.traces import json_stream
from prompts.errors import UserError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(values=st.lists(VALUES, max_size=8), piece=st.integers(1, 9), indent=st.sampled_from([None, 2]))
def test_any_pieces_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], piece: int, indent: int | None
) -> None:
    text = json.dumps({"jobs": values}, indent=indent)
    path = tmp_path_factory.mktemp("stream") / "t"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "chunks", lambda _: (text[i : i + piece] for i in range(0, len(text), piece)))
        assert [value for _, value in json_stream.objects(path, "jobs")] == values


@pytest.mark.parametrize(
    "text", ['[{"a": 1}, {"a": ', '[{"a": 1} {"b"', '[{"a": 1}, {a: 2}]', "[" * 100_000, '["' + "x" * 50, "{}", "[1,"]
)
def test_what_is_no_json_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(UserError) as error:
        list(json_stream.objects(tmp_path / "t", None))
    assert "\n" not in str(error.value)


def test_a_long_array_is_not_held(tmp_path: Path) -> None:
    one = json.dumps({"name": "x" * 1000})
    with (tmp_path / "t").open("w") as stream:
        stream.write("[" + one)
        for _ in range(30_000):
            stream.write("," + one)
        stream.write("]")
    tracemalloc.start()
    count = sum(1 for _ in json_stream.objects(tmp_path / "t", None))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 30_001 and peak_bytes < 24 << 20
