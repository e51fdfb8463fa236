"""Local times: zones, offsets, the hours that clocks skip and repeat."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.traces.clock import Clock
from integrations.traces.values import BadValueError
from prompts.errors import UserError
from schedmate.durations import zone_named
from schedmate.ports import TraceNotes

ZONES = ("UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe", "+05:30", "-03:00")


@settings(max_examples=200, deadline=None)
@given(seconds=st.integers(0, 2_000_000_000), zone=st.sampled_from(ZONES))
def test_a_moment_comes_back_from_its_local_time(seconds: int, zone: str) -> None:
    local = datetime.fromtimestamp(seconds, zone_named(zone)).replace(tzinfo=None)
    clock = Clock(zone_named(zone))
    assert clock.seconds(local.isoformat(), "t", seconds) == seconds  # told what it can not lie before


@given(seconds=st.integers(0, 2_000_000_000), zone=st.sampled_from(ZONES))
def test_a_stated_zone_counts(seconds: int, zone: str) -> None:
    text = datetime.fromtimestamp(seconds, UTC).isoformat()
    assert Clock(zone_named(zone)).seconds(text, "t") == seconds


def test_the_skipped_and_the_repeated_hour() -> None:
    notes = TraceNotes()
    clock = Clock(ZoneInfo("Europe/Berlin"), notes)
    skipped = clock.seconds("2026-03-29T02:30:00", "t")
    assert skipped == datetime(2026, 3, 29, 1, 30, tzinfo=UTC).timestamp()
    assert not notes.remarks
    first = clock.seconds("2026-10-25T02:30:00", "t")
    assert clock.seconds("2026-10-25T02:30:00", "t", not_before_s=first + 1) == first + 3600
    assert list(notes.remarks.values()) == [2]


@pytest.mark.parametrize("name", ["", "Nowhere", "../etc/passwd", "+99:00", "Europe", "\0"])
def test_unknown_zones_are_one_line(name: str) -> None:
    with pytest.raises(UserError, match="--timezone"):
        zone_named(name)


@pytest.mark.parametrize("cell", ["", "x", "2026-13-01", "2026-02-30T00:00:00", "9" * 500])
def test_what_is_no_time(cell: str) -> None:
    with pytest.raises(BadValueError):
        Clock().seconds(cell, "t")
