from __future__ import annotations

import pytest

from benchmark import cpu_s, exponent


def test_the_exponent_of_a_power_is_found() -> None:
    sizes = [100, 300, 1000, 3000]
    fit = exponent(sizes, [2e-3 * n**1.1 for n in sizes])
    assert fit
    assert fit[0] == pytest.approx(1.1)
    assert fit[1] == pytest.approx(0, abs=1e-6)


def test_scatter_widens_the_exponents_interval() -> None:
    fit = exponent([100, 300, 1000, 3000], [1.0, 4.0, 8.0, 33.0])
    assert fit
    assert fit[1] > 0.1


def test_times_below_the_empty_querys_have_no_exponent() -> None:
    assert exponent([1, 2, 3], [0.1, -0.1, 0.2]) is None
    assert exponent([1, 2], [0.1, 0.2]) is None


def test_cpu_time_is_spent() -> None:
    before = cpu_s()
    while cpu_s() - before < 0.05:
        sum(range(100_000))
    assert cpu_s() > before
