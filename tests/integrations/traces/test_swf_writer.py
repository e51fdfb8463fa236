"""SWF written and read back; what it has no place for is counted; and the extended form of Alea."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from integrations.traces.swf_writer import SwfWriter
from integrations.traces.values import outcome_of
from schedmate.ports import TraceNotes
from schedmate.traces import open_trace

WHOLE = st.integers(0, 10**9).map(float)
STATES = st.sampled_from(["completed", "failed", "cancelled", None])


@st.composite
def swf_jobs(draw: st.DrawFn) -> JobRecord:
    """Jobs that SWF has a place for."""
    submit_s, duration_s = draw(WHOLE), draw(st.integers(1, 10**7).map(float))
    wait_s, limit_s, state = draw(st.none() | WHOLE), draw(st.none() | WHOLE), draw(STATES)
    start_s = None if wait_s is None else submit_s + wait_s
    return JobRecord(
        job_id="x",
        submit_s=submit_s,
        duration_s=duration_s,
        gpus=draw(st.integers(1, 1000)),
        start_s=start_s,
        end_s=None if start_s is None else start_s + duration_s,
        requested_s=None if limit_s is None else duration_s + limit_s,
        state=state,
        outcome=outcome_of(state),
    )


def back(path: Path, records: list[JobRecord]) -> tuple[list[JobRecord], dict[str, int], TraceNotes]:
    stream = io.StringIO()
    count, lost = SwfWriter().write(records, stream, TraceNotes(epoch_s=0.0))
    path.write_text(stream.getvalue())
    found, notes = open_trace(path, "swf")
    read = list(found)
    assert len(read) == count
    return read, dict(lost), notes


@settings(max_examples=150, deadline=None)
@given(records=st.lists(swf_jobs(), min_size=1, max_size=6))
def test_what_swf_has_a_place_for_comes_back(
    tmp_path_factory: pytest.TempPathFactory, records: list[JobRecord]
) -> None:
    read, lost, notes = back(tmp_path_factory.mktemp("swf") / "t", records)
    assert (not lost and notes.epoch_s is not None) or notes.epoch_s is None
    ordered = sorted(records, key=lambda record: record.submit_s)
    shift_s = ordered[0].submit_s

    def told(record: JobRecord, by_s: float) -> tuple[object, ...]:
        start_s = None if record.start_s is None else record.start_s - by_s
        return (record.submit_s - by_s, start_s, record.duration_s, record.gpus, record.requested_s, record.state)

    assert [told(record, 0) for record in read] == [told(record, shift_s) for record in ordered]


def test_names_become_numbers_and_losses_are_counted(tmp_path: Path) -> None:
    records = [
        JobRecord("a", 10.5, 60, 2, user="ann", tenant="v", name="bert", partition="p", gpu_type="a100", attempts=2,
                  state="node_fail", outcome="failed", start_s=5, memory_mib=2048),
        JobRecord("b", 20, None, 1, user="bob", state="running"),
        JobRecord("c", 30, 60, 0),
    ]  # fmt: skip
    stream = io.StringIO()
    count, lost = SwfWriter().write(records, stream, TraceNotes(epoch_s=1e9))
    text = stream.getvalue()
    assert count == 2 and "UnixStartTime: 1000000010" in text and "Note: User 1 is ann" in text
    assert lost == {
        "the job itself, which asks for no GPU": 1,
        "the GPU type": 1,
        "the number of attempts": 1,
        "the exact state": 2,
        "a start before submission": 1,
        "fractions of a second": 1,
    }
    (tmp_path / "t").write_text(text)
    (record,), notes = (list(part) if i == 0 else part for i, part in enumerate(open_trace(tmp_path / "t")))
    assert (record.user, record.tenant, record.name, record.partition) == ("1", "1", "app1", "1")
    assert record.memory_mib == 2048 and notes.skipped == {"runtime is 0 or less": 1}


@pytest.mark.parametrize(
    ("extra", "gpus", "cpus", "nodes", "partition"),
    [
        ("2 3609 all:excl:2x20", 2, 40, 2, "0"),
        ("0 3609 normal:1x40", 0, 40, 1, "0"),
        ("-1 gpu_long 2:ppn=8:gpu=2:cl_doom+1:ppn=4:gpu=1#excl", 5, 40, 3, "gpu_long"),
        ("-1 short 1:ppn=40:mem=4gb", 40, None, 1, "short"),
    ],
)
def test_the_extended_form(read, extra: str, gpus: int, cpus: float | None, nodes: int, partition: str) -> None:
    (record,), _ = read(f"1 1 0 3609 40 3609 -1 40 7200 1048576 1 0 0 -1 0 -1 -1 -1 {extra}\n")
    assert (record.gpus, record.cpus, record.nodes, record.partition) == (gpus, cpus, nodes, partition)
    assert record.memory_mib == 1024 * nodes
