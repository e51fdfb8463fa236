"""Where pauses keep coming: by steps, by the clock, set anew by each of them; and how long they may last."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.logs.evenly import Even
from analyzers.logs.habits import Course, Habit
from analyzers.logs.pauses import Silence
from analyzers.logs.unevenness import longest_again

_COURSE = Course(stride=10.0, gap=30.0, since=10.0, before=0.0, begun=0.0, first=30.0)


def _silence(step: float, time: float, seconds: float = 100.0) -> Silence:
    return Silence(int(step), int(step) + 1, step, time, seconds, is_new_epoch=False)


def test_a_clock_that_each_save_sets_anew_is_followed_past_what_delays_it() -> None:
    """A save each hour; now and then an evaluation is running when it is due, and it comes at the end of that."""
    begins = [3600.0, 7200.0, 10800.0, 16000.0, 19600.0, 23200.0, 28000.0, 31600.0]
    silences = [_silence(700 + 13 * at, begin) for at, begin in enumerate(begins)]
    delayed = silences[3]._replace(time=13000.0, seconds=3100.0)
    habit = Habit([*silences[:3], delayed, *silences[4:]], _COURSE)
    assert habit.due(1234.0, 31600.0 + 3600.0)
    assert not habit.due(1234.0, 31600.0 + 1800.0)


def test_what_comes_by_steps_is_not_expected_by_the_clock_too() -> None:
    """Steps of one pace come as evenly as a clock: only the record of the step is waited for."""
    habit = Habit([_silence(500.0 * at, 1600.0 * at) for at in range(1, 6)], _COURSE)
    assert habit.due(3000.0, 9600.0)
    assert not habit.due(2980.0, 9540.0)
    assert not habit.due(3010.0, 9630.0)


def test_two_that_steps_explain_by_chance_may_be_of_the_clock() -> None:
    habit = Habit([_silence(420.0, 3570.0), _silence(850.0, 7170.0)], _COURSE)
    assert habit.due(1290.0, 10770.0)


@pytest.mark.parametrize("first", [False, True])
def test_a_step_is_passed_before_or_after_its_record_but_not_both(first: bool) -> None:
    """Of pauses at multiples of 681, seen from records each 50 steps."""
    at = [681.0 * times for times in (1, 2, 3)]
    places = [50.0 * (math.ceil(one / 50) - 1 if first else math.floor(one / 50)) for one in at]
    even = Even(places, 50.0, 50.0, from_zero=True)
    assert even.due(2700.0)
    assert not even.due(2650.0)
    assert not even.due(2750.0)


@given(
    strides=st.integers(3, 400) | st.sampled_from([10, 20, 50, 100, 200]),
    stride=st.sampled_from([1, 5, 10, 50]),
    count=st.integers(3, 9),
    is_first=st.booleans(),
)
def test_pauses_at_multiples_of_steps_are_due_at_the_next_and_only_there(
    strides: int, stride: int, count: int, is_first: bool
) -> None:
    """Whether each comes before the record of its step (``is_first``) or after it."""
    every = strides * stride
    *places, here = (float(every * times - is_first * stride) for times in range(1, count + 2))
    even = Even(places, float(stride), float(stride), from_zero=True)
    assert even.due(here)
    assert not even.due(here - 2 * stride)
    assert strides not in (10, 20, 50, 100, 200) or not even.due(here - stride), "a round number is taken to be it"
    assert all(even.keeps_coming(at) for at in range(count))


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=40))
def test_a_pause_may_last_as_long_as_before_and_longer_the_less_is_known(seconds: list[float]) -> None:
    found = longest_again(seconds)
    assert found >= max(seconds)
    assert longest_again(seconds[:1] * 20) < longest_again(seconds[:1])


def test_pauses_of_one_length_are_waited_for_less_long_than_uneven_ones() -> None:
    assert longest_again([100.0] * 12) < 160 < longest_again([60.0, 100.0, 180.0] * 4)
