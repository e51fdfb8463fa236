"""Scales, plots and excerpts: values land where they should and untrusted text stays text."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedmate.report import Plot, figure, linear, logarithmic, read_excerpt, render_page
from schedmate.report.excerpt import LONGEST_CHARS, printable
from schedmate.report.plot import spread
from schedmate.report.scale import NBSP, duration, percent, tick_duration


@pytest.mark.parametrize(
    "seconds, told",
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (90, "1.5 min"),
        (3600, "1 h"),
        (9.97 * 3600, "10 h"),
        (86_400, "24 h"),
        (2.5 * 86_400, "2.5 d"),
    ],
)
def test_durations_in_words(seconds: float, told: str) -> None:
    assert duration(seconds).replace(NBSP, " ") == told


def test_ticks_are_round() -> None:
    assert [value for value, _ in linear(0, 1, percent).ticks] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert [label.replace(NBSP, " ") for _, label in logarithmic(10, 100_000, tick_duration).ticks] == [
        "10 s",
        "1 min",
        "10 min",
        "1 h",
        "6 h",
        "1 d",
    ]


@given(st.floats(0.1, 1e6), st.floats(1.1, 1e4), st.floats(0, 1e9))
def test_places_stay_on_the_axis_and_keep_order(low: float, factor: float, value: float) -> None:
    for scale in (linear(low, low * factor, str), logarithmic(low, low * factor, str)):
        assert 0 <= scale.place(value) <= scale.place(value * 1.5 + 1) <= 1
        assert scale.place(low) == 0 and scale.place(low * factor) == pytest.approx(1)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_labels_keep_their_distance(places: list[float]) -> None:
    moved = sorted(spread(places, 10, 0, 100))
    assert all(b - a >= 10 - 1e-6 for a, b in pairwise(moved))


def test_a_plot_is_well_formed_and_escapes_labels() -> None:
    plot = Plot((40, 10, 200, 100), linear(0, 10, str), linear(0, 1, percent))
    plot.axes("x & y <unit>", "y").steps([(0, 0), (5, 0.5), (10, 1)], "s-fifo").dots([(1, 1)], "s-easy")
    plot.band([(0, 0), (1, 0)], [(0, 1), (1, 1)], "factor").bars([(3, 0.1, 0.9)], "s-easy").note(5, 0.5, "<b>")
    html = str(figure("A <title>", "what it & shows", "caption", lambda width: (plot.svg(), 150)).html)
    for svg in re.findall(r"<svg.*?</svg>", html, re.S):
        root = ElementTree.fromstring(svg)
        assert root.find("title").text == "A <title>" and root.find("desc").text == "what it & shows"
    assert plot.at(5, 0.5) == (140, 60)


HOSTILE = "\x1b[31m</code><script>alert(1)</script> ![x](http://evil) \u202e & {{ 7*7 }}"


def test_excerpt_text_is_escaped_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("fine\n" + HOSTILE + "\nfine\n", encoding="utf-8")
    part = read_excerpt(tmp_path, "rank_0.log", {2: "root"})
    (tmp_path / "t.html.j2").write_text(
        '{% extends "base.html.j2" %}{% import "parts.html.j2" as parts %}'
        "{% block body %}{{ parts.excerpt(part) }}{% endblock %}"
    )
    page = render_page(tmp_path, "t.html.j2", part=part)
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page and "\u202e" not in page and "{{ 7*7 }}" in page
    assert page.count("<mark>") == 1


def test_excerpt_keeps_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    inside = tmp_path / "logs"
    inside.mkdir()
    (inside / "link.log").symlink_to(tmp_path / "secret")
    assert read_excerpt(inside, "../secret", {1: "root"}).lines == ()
    assert read_excerpt(inside, "link.log", {1: "root"}).lines == ()
    assert read_excerpt(inside, "missing.log", {1: "root"}).lines == ()


def test_excerpt_of_several_places_marks_the_gap(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join(f"line {i}" for i in range(1, 101)))
    lines = read_excerpt(tmp_path, "a.log", {10: "root", 90: "root"}, around=1).lines
    assert [line.number for line in lines] == [9, 10, 11, 89, 90, 91]
    assert [line.gap for line in lines] == [False, False, False, True, False, False]


@given(st.text(max_size=2000))
def test_printable_is_short_and_has_no_control_characters(text: str) -> None:
    shown = printable(text)
    assert len(shown) <= LONGEST_CHARS + 3
    assert all(c == "\t" or c.isprintable() for c in shown)


def test_a_progress_bar_shows_its_last_state() -> None:
    assert printable("  0%|  | 0/9\r 50%|# | 5/9\r100%|##| 9/9\r") == "100%|##| 9/9"
