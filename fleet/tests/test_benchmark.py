from __future__ import annotations

import math

import pytest

from benchmark import cpu_s, exponent, growth, line

SIZES = [100, 300, 1000, 3000]


def test_the_exponent_of_a_power_is_found() -> None:
    assert exponent(SIZES, [2e-3 * n**1.1 for n in SIZES]) == pytest.approx(1.1)


def test_times_below_the_bases_have_no_exponent() -> None:
    assert math.isnan(exponent([1, 2, 3], [0.1, -0.1, 0.2]))
    assert math.isnan(exponent([1, 2], [0.1, 0.2]))


def test_a_line_gives_the_fixed_part() -> None:
    assert line(SIZES, [4 + 0.01 * n for n in SIZES]) == pytest.approx((4, 0.01))


def test_a_sum_that_grows_as_its_data_has_an_exponent_of_one() -> None:
    times = [[[1 + 0.01 * n] * 3, [3 + 0.02 * n] * 3] for n in SIZES]
    found = growth(SIZES, [[1.0] * 4, [3.0] * 4], times, resamples=20)
    assert found.exponent == pytest.approx(1)
    assert found.exponent_ends == pytest.approx((1, 1))
    assert (found.fixed_s, found.slope_s) == pytest.approx((4, 0.03))


def test_scatter_widens_the_exponents_interval() -> None:
    times = [[[0.01 * n * f for f in (0.8, 1.0, 1.3)]] for n in SIZES]
    low, high = growth(SIZES, [[0.1]], times, resamples=200).exponent_ends
    assert low < 0.97
    assert high > 1.03


def test_cpu_time_is_spent() -> None:
    before = cpu_s()
    while cpu_s() - before < 0.05:
        sum(range(100_000))
    assert cpu_s() > before
