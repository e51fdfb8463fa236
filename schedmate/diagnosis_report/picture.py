"""What happened when, a row for each rank: the ranks that are named first, then those that spoke first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from analyzers.failures import Moment
from analyzers.types import Diagnosis
from schedmate.report import Figure, Plot, Scale, figure, linear
from schedmate.report.scale import duration

_MOST_ROWS = 24
_ROW_PX = 22
_NARROW_BELOW_PX = 500
_STEPS_S = (1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000)
_STYLES = (("progress", "s-core", 2.4), ("put-aside", "s-fifo", 3.0), ("evidence", "s-easy", 4.6))
_WORDS = {"progress": "progress", "put-aside": "put aside", "evidence": "evidence"}


def ranks_over_time(found: Diagnosis, moments: Sequence[Moment]) -> Figure | None:
    """The picture, or None where fewer than two lines have a time."""
    dated = [moment for moment in moments if moment.at_s is not None]
    if len(dated) < 2 or all(moment.at_s == dated[0].at_s for moment in dated):
        return None
    rows = _rows(found, dated)
    left_out = len({_label(moment) for moment in dated}) - len(rows)
    caption = "Time since the first line shown. A row is a rank, or a file where no rank is known."
    if left_out:
        caption += f" {left_out} more rows like these are left out."
    return figure(
        "Who said what when", _in_words(rows, dated), caption, partial(_draw, rows, dated, set(_named(found)))
    )


def _label(moment: Moment) -> str:
    return f"rank {moment.rank}" if moment.rank is not None else moment.line.file.rpartition("/")[2][-24:]


def _named(found: Diagnosis) -> list[str]:
    return [f"rank {rank}" for rank in found.culprit_ranks]


def _rows(found: Diagnosis, dated: list[Moment]) -> list[str]:
    """Labels of the rows, from the top: the named ranks, those with evidence, then by their first error."""
    first: dict[str, tuple[bool, bool, float]] = {}
    named = set(_named(found))
    for moment in dated:
        label = _label(moment)
        at = moment.at_s if moment.kind != "progress" and moment.at_s is not None else float("inf")
        _, proves, before = first.get(label, (True, True, float("inf")))
        first[label] = (label not in named, proves and moment.kind != "evidence", min(before, at))
    return sorted(first, key=lambda label: (*first[label], len(label), label))[:_MOST_ROWS]


def _draw(rows: list[str], dated: list[Moment], named: set[str], width: int) -> tuple[str, float]:
    left = 150 if width >= _NARROW_BELOW_PX else 104
    top, height = 34.0, float(_ROW_PX * len(rows))
    shown = [moment for moment in dated if _label(moment) in rows]
    high = max(moment.at_s or 0.0 for moment in shown)
    wide = width >= _NARROW_BELOW_PX
    step = next((step for step in _STEPS_S if high / step <= (6 if wide else 3)), high)
    ticks = [step * count for count in range(int(high / step) + 1)]
    time = linear(0.0, high, duration, ticks)
    lanes = Scale(0.0, float(len(rows)), (), lambda value: value)
    plot = Plot((left, top, width - left - 20, height), time, lanes).axes(x_label="", grid_x=True)
    place = {label: len(rows) - index - 0.5 for index, label in enumerate(rows)}
    for label, y in place.items():
        plot.line([(0.0, y), (high, y)], "guide thin")
        plot.label(left - 8, plot.at(0.0, y)[1] + 4, label, "tick end strong" if label in named else "tick end")
    for kind, style, radius in _STYLES:
        points = [(moment.at_s or 0.0, place[_label(moment)]) for moment in shown if moment.kind == kind]
        plot.dots(points, style, radius)
    at = float(left)
    for kind, style, _ in _STYLES:
        plot.label(at, 16, f"● {_WORDS[kind]}", style)
        at += 92
    return plot.svg(), top + height + 30


def _in_words(rows: list[str], dated: list[Moment]) -> str:
    proofs = [moment for moment in dated if moment.kind == "evidence"]
    said = "; ".join(f"{_label(moment)} at {duration(moment.at_s or 0.0)}" for moment in proofs[:6])
    return f"{len(rows)} rows of dots over time. Evidence: {said}." if said else f"{len(rows)} rows of dots over time."
