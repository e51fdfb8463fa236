"""Lengths of time as people write them."""

from __future__ import annotations

import pytest

from prompts.errors import UserError
from schedmate.durations import parse_duration, parse_moment, short_duration, zone_named


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("90s", 90),
        ("1h30m", 5400),
        ("1H 30MIN", 5400),
        ("2d", 172_800),
        ("0.5h", 1800),
        ("01:30:00", 5400),
        ("1-12:00:00", 129_600),
        ("36:00:00", 129_600),
    ],
)
def test_what_is_understood(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(("text", "seconds"), [("1970-01-02", 82_800), ("1970-01-02T00:00Z", 86_400), ("60", 60)])
def test_moments_of_a_zone(text: str, seconds: float) -> None:
    assert parse_moment(text, zone=zone_named("Europe/Berlin")) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5", "0", "nan", "inf", "1x", "h", "1h junk", "10:30", "1e300"])
def test_what_is_not_says_how_to_write_it(text: str) -> None:
    with pytest.raises(UserError, match="HH:MM:SS"):
        parse_duration(text, "--limit")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3_599, "1 h 00 min"),
        (11_100, "3 h 05 min"),
        (187_200, "2 d 04 h"),
    ],
)
def test_short_forms(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("86400.5", 86_400.5),
        ("1970-01-02", 86_400),
        ("1970-01-01T01:00:00", 3_600),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_moments(text: str, seconds: float) -> None:
    assert parse_moment(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "2026-13-01"])
def test_what_is_no_moment_says_how_to_write_it(text: str) -> None:
    with pytest.raises(UserError, match="--before"):
        parse_moment(text, "--before")
