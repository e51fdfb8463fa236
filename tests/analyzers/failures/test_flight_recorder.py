"""Dumps of the flight recorder, as PyTorch 2.13 writes them (pickle of plain values, or JSON)."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from analyzers.failures import diagnose
from analyzers.types import Diagnosis


def _dump(calls: list[tuple[str, list[int]]], group: str = "0", state: str = "scheduled") -> dict[str, Any]:
    entries = [
        {
            "frames": [
                {"name": "all_reduce", "filename": "/venv/lib/python3.11/site-packages/torch/d.py", "line": 1},
                {"name": "step", "filename": "/job/train.py", "line": 40 + number},
            ],
            "record_id": number,
            "process_group": (group, "default_pg"),
            "collective_seq_id": number,
            "profiling_name": f"nccl:{operation}",
            "input_sizes": [shape],
            "state": state,
            "is_p2p": False,
        }
        for number, (operation, shape) in enumerate(calls, 1)
    ]
    config = {"": {"name": "", "desc": "", "ranks": "[0, 1, 2, 3]"}}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}


def _job(folder: Path, dumps: dict[int, dict[str, Any]], as_json: bool = False) -> Diagnosis:
    for rank, dump in dumps.items():
        raw = json.dumps(dump).encode() if as_json else pickle.dumps(dump, protocol=2)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(raw)
    return diagnose(folder)


REDUCE = ("all_reduce", [8])


@pytest.mark.parametrize("as_json", [False, True])
def test_the_rank_that_did_not_come_is_suspected(tmp_path: Path, as_json: bool) -> None:
    found = _job(tmp_path, {r: _dump([REDUCE] * (3 if r == 2 else 4)) for r in range(4)}, as_json)
    assert (found.category, found.culprit_ranks) == ("unknown", (2,))
    assert "number 3" in found.evidence[0].text
    assert "/job/train.py:43" in found.evidence[0].text
    assert any("number 4" in line.text for line in found.evidence)


def test_another_operation_is_the_codes_fault(tmp_path: Path) -> None:
    found = _job(tmp_path, {r: _dump([REDUCE, ("broadcast", [4]) if r == 1 else REDUCE]) for r in range(4)})
    assert (found.category, found.subcategory, found.culprit_ranks) == ("user-code", "desync", (1,))


def test_other_shapes_of_the_same_reduction_are_the_codes_fault(tmp_path: Path) -> None:
    found = _job(tmp_path, {r: _dump([("all_reduce", [9] if r == 3 else [8])]) for r in range(4)})
    assert (found.subcategory, found.culprit_ranks) == ("desync", (3,))


def test_shapes_that_may_differ_by_rank_blame_nobody(tmp_path: Path) -> None:
    found = _job(tmp_path, {r: _dump([("all_to_all", [r])]) for r in range(4)})
    assert found.culprit_ranks == ()


def test_a_rank_without_a_dump_is_the_one_that_was_missed(tmp_path: Path) -> None:
    found = _job(tmp_path, {r: _dump([REDUCE] * 4) for r in (0, 1, 3)})
    assert (found.category, found.culprit_ranks) == ("unknown", (2,))


def test_who_waits_elsewhere_is_not_to_blame(tmp_path: Path) -> None:
    """Rank 1 misses the second reduction of all because it waits for rank 0 in a group of two."""
    pair = {"ranks": "[0, 1]"}
    dumps = {r: _dump([REDUCE] * (2 if r > 1 else 1)) for r in range(4)}
    for dump in dumps.values():
        dump["pg_config"]["7"] = pair
    dumps[1]["entries"] += _dump([REDUCE], group="7")["entries"]
    assert _job(tmp_path, dumps).culprit_ranks == (0,)


def test_a_pickle_that_names_a_class_builds_nothing(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    hostile = (
        b"\x80\x02}(X\x07\x00\x00\x00versioncposix\nsystem\nX\x09\x00\x00\x00pg_config"
        + b"(S'touch "
        + str(ran).encode()
        + b"'\ntRu."
    )
    (tmp_path / "nccl_trace_rank_0").write_bytes(hostile)
    (tmp_path / "job.log").write_text("step 1 loss 2\nValueError: bad\n")
    found = diagnose(tmp_path)
    assert not ran.exists()
    assert any("nccl_trace_rank_0" in warning for warning in found.warnings)


@pytest.mark.parametrize("cut", [30, 100, 400])
def test_a_dump_cut_short_is_left_out_with_a_warning(tmp_path: Path, cut: int) -> None:
    whole = pickle.dumps(_dump([REDUCE] * 4), protocol=2)
    (tmp_path / "nccl_trace_rank_0").write_bytes(whole[:cut])
    (tmp_path / "job.log").write_text(
        "Traceback (most recent call last):\n  File \"/job/a.py\", line 1\nKeyError: 'x'\n"
    )
    found = diagnose(tmp_path)
    assert found.category == "user-code"
    assert any("nccl_trace_rank_0" in warning for warning in found.warnings)


def test_of_two_halves_neither_is_the_odd_one(tmp_path: Path) -> None:
    found = _job(tmp_path, {r: _dump([("broadcast", [4]) if r % 2 else REDUCE]) for r in range(4)})
    assert (found.subcategory, found.culprit_ranks) == ("desync", ())
    assert "different" in found.summary


@pytest.mark.parametrize("field", ["input_sizes", "process_group", "profiling_name", "state", "frames"])
def test_a_few_bytes_that_stand_for_gigabytes_are_refused(tmp_path: Path, field: str) -> None:
    nested: tuple[Any, ...] = ("x",)
    for _ in range(60):
        nested = (nested, nested)
    dump = _dump([REDUCE])
    dump["entries"][0][field] = [nested] if field in ("input_sizes", "frames") else nested
    (tmp_path / "job.log").write_text("ValueError: bad\n")
    found = _job(tmp_path, {0: dump, 1: _dump([REDUCE])})
    assert any("nccl_trace_rank_0" in warning for warning in found.warnings)
