"""The distribution that everything is mixed into."""

from __future__ import annotations

import math

import numpy as np
import pytest

from predictors.mixture import bells, between, mix


def test_a_bell_has_the_quantiles_of_a_log_normal() -> None:
    levels = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
    z = np.array([-2.326, -1.282, -0.674, 0.0, 0.674, 1.282, 2.326])
    found = np.log(bells([1_000.0], [0.8], [1.0]).quantile_s(levels))
    assert found == pytest.approx(math.log(1_000) + 0.8 * z, abs=0.1)


def test_mass_decides_between_parts() -> None:
    short, long = bells([10.0], [0.1], [9.0]), bells([10_000.0], [0.1], [1.0])
    both = mix([short, long])
    assert both.mass == pytest.approx(10)
    assert both.quantile_s([0.5])[0] == pytest.approx(10, rel=0.1)
    assert both.quantile_s([0.99])[0] == pytest.approx(10_000, rel=0.3)
    assert both.share_above(1_000) == pytest.approx(0.1, abs=0.001)
    assert mix([short, long.scaled(1_000.0)]).quantile_s([0.5])[0] == pytest.approx(10_000, rel=0.1)


def test_between_is_even_on_the_log_scale_and_survives_a_reversed_range() -> None:
    assert between(10.0, 1_000.0, 1.0).quantile_s([0.5])[0] == pytest.approx(100, rel=0.01)
    assert between(50.0, 10.0, 1.0).quantile_s([0.1, 0.9]) == pytest.approx([50, 50])


def test_the_limit_cuts_and_one_second_is_the_least() -> None:
    q = bells([0.001, 1e6], [1.0, 1.0], [1.0, 1.0]).quantiles(500.0)
    assert q.p10 == 1.0 and q.p99 == 500.0


def test_points_out_of_all_bounds_still_have_quantiles() -> None:
    wide = bells([1.0], [400.0], [1.0])
    with np.errstate(all="raise"):
        found = wide.quantile_s([0.0, 0.1, 0.5, 0.9, 1.0])
    assert np.isfinite(found).all() and (found > 0.0).all() and (np.diff(found) >= 0.0).all()
