"""`Columns` against a walk through the entries in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schedmate.scheduler.columns import MOST_RESERVATIONS, Columns, Entry

seconds = st.sampled_from([0.0, 1.0, 5.0, 9.0, float("inf")])
jobs = st.lists(st.tuples(st.integers(0, 3), seconds, seconds), max_size=200)
starts = st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 3.0, 7.0, 12.0])), max_size=4)


def late_of(bounds: tuple[float, ...], starts_s: list[tuple[int, float]], now: float) -> int:
    return sum(1 << bit for bit, (field, start_s) in enumerate(starts_s) if now + bounds[field] > start_s)


@given(jobs, starts, st.data())
def test_the_first_admitted_is_that_of_a_walk(
    given_jobs: list[tuple[int, float, float]], starts_s: list[tuple[int, float]], data: st.DataObject
) -> None:
    live: list[Entry | None] = [(float(key), slot, slot) for slot, (key, _, _) in enumerate(given_jobs)]
    bounds = [row[1:] for row in given_jobs]
    entries: list[Entry] = sorted(entry for entry in live if entry is not None)
    first = entries[: data.draw(st.integers(0, len(entries)))]
    columns = Columns(first, [bounds[entry[2]] for entry in first], 2, live)
    for entry in data.draw(st.permutations(entries[len(first) :])):
        columns.add(entry, bounds[entry[2]])
    gone = data.draw(st.sets(st.sampled_from(range(len(live))))) if live else set()
    for slot in gone:
        live[slot] = None
    for slot in sorted(gone)[::2]:  # taken back: the very entry that was there
        live[slot] = next(entry for entry in entries if entry[2] == slot)
        columns.add(next(entry for entry in entries if entry[2] == slot), bounds[slot])
    largest = data.draw(st.integers(0, 15))

    def admitted(late: int) -> bool:  # what is refused beside some is refused beside more
        return late & ~largest == 0

    expected = next(
        (
            (entry, late_of(bounds[entry[2]], starts_s, 2.0))
            for entry in entries
            if live[entry[2]] is entry and admitted(late_of(bounds[entry[2]], starts_s, 2.0))
        ),
        None,
    )
    assert columns.first(starts_s, 2.0, admitted) == expected
    assert columns.first(starts_s, 2.0, admitted) == expected, "asking changes nothing"
    there = [bounds[entry[2]][0] for entry in entries if live[entry[2]] is entry]
    assert columns.least(0) <= min(there, default=float("inf"))


def test_more_reservations_than_there_are_bits_are_refused() -> None:
    columns = Columns([], [], 1, [])
    try:
        columns.first([(0, 1.0)] * (MOST_RESERVATIONS + 1), 0.0, lambda late: True)
    except ValueError as error:
        assert str(MOST_RESERVATIONS + 1) in str(error)
    else:
        raise AssertionError("nothing was said")


def test_columns_of_thousands_forget_those_that_are_gone() -> None:
    live: list[Entry | None] = [(float(slot), slot, slot) for slot in range(3000)]
    columns = Columns([entry for entry in live if entry], [(1.0,)] * 3000, 1, live)
    for slot in range(2900):
        live[slot] = None
    for _ in range(2):
        assert columns.first([], 0.0, lambda late: True) == ((2900.0, 2900, 2900), 0)
    assert len(columns) == 100
