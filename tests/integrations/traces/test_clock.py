"""Local times: zones, offsets, the hours that clocks skip and repeat."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.traces.clock import TWICE, Clock, OddTime, settled
from integrations.traces.values import BadValueError
from prompts.errors import UserError
from schedmate.durations import zone_named
from schedmate.ports import TraceNotes

ZONES = ("UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe", "+05:30", "-03:00")


@settings(max_examples=200, deadline=None)
@given(seconds=st.integers(0, 2_000_000_000), zone=st.sampled_from(ZONES))
def test_a_moment_comes_back_from_its_local_time(seconds: int, zone: str) -> None:
    local = datetime.fromtimestamp(seconds, zone_named(zone)).replace(tzinfo=None)
    read = Clock(zone_named(zone)).seconds(local.isoformat(), "t")
    assert seconds in (read, read.other if isinstance(read, OddTime) else read)


@settings(max_examples=200, deadline=None)
@given(
    change=st.sampled_from(
        [("Europe/Berlin", 1792890000), ("America/Los_Angeles", 1793523600), ("Australia/Lord_Howe", 1775314800)]
    ),
    submit=st.integers(-7200, 7200),
    waits=st.tuples(st.integers(0, 5400), st.integers(0, 5400)),
    ran=st.integers(0, 9000),
)
def test_an_end_that_is_sure_tells_the_start(
    change: tuple[str, int], submit: int, waits: tuple[int, int], ran: int
) -> None:
    """Around the change of clocks: what is settled is in order, is what was meant wherever nothing is remarked, and the
    start is, wherever the end is one moment."""
    zone, moment = zone_named(change[0]), change[1]
    meant = [moment + submit, moment + submit + waits[0], moment + submit + sum(waits)]
    meant.append(meant[-1] + ran)
    clock, notes = Clock(zone), TraceNotes()
    read = [clock.seconds(datetime.fromtimestamp(each, zone).replace(tzinfo=None).isoformat(), "t") for each in meant]
    found = settled(read, ran, notes)
    assert found == sorted(found, key=lambda each: each or 0.0)
    assert found == meant or notes.remarks == {TWICE: 1}
    if not isinstance(read[-1], OddTime):
        assert found[2:] == meant[2:]


@given(seconds=st.integers(0, 2_000_000_000), zone=st.sampled_from(ZONES))
def test_a_stated_zone_counts(seconds: int, zone: str) -> None:
    text = datetime.fromtimestamp(seconds, UTC).isoformat()
    assert Clock(zone_named(zone)).seconds(text, "t") == seconds


def test_the_skipped_and_the_repeated_hour() -> None:
    clock = Clock(ZoneInfo("Europe/Berlin"))
    skipped = clock.seconds("2026-03-29T02:30:00", "t")
    assert skipped == datetime(2026, 3, 29, 1, 30, tzinfo=UTC).timestamp()
    first = clock.seconds("2026-10-25T02:30:00", "t")
    assert isinstance(skipped, OddTime) and skipped.other == skipped - 3600
    assert isinstance(first, OddTime) and first.other == first + 3600
    assert not isinstance(clock.seconds("2026-10-25T03:00:00", "t"), OddTime)


@pytest.mark.parametrize("name", ["", "Nowhere", "../etc/passwd", "+99:00", "Europe", "\0"])
def test_unknown_zones_are_one_line(name: str) -> None:
    with pytest.raises(UserError, match="--timezone"):
        zone_named(name)


@pytest.mark.parametrize("cell", ["", "x", "2026-13-01", "2026-02-30T00:00:00", "9" * 500])
def test_what_is_no_time(cell: str) -> None:
    with pytest.raises(BadValueError):
        Clock().seconds(cell, "t")
