from __future__ import annotations

import numpy as np
import pytest

from perftax_fleet import buckets


def contract(latency: int) -> tuple[int, int]:
    """The contract's words in whole numbers: one each below 256, then 128 for each doubling."""
    if latency < 256:
        return latency, latency + 1
    width = 1 << (latency.bit_length() - 1 - 7)
    low = latency // width * width
    return low, min(low + width, 2**63 - 1)


def test_buckets_are_the_contracts() -> None:
    powers = [2**k + d for k in range(1, 63) for d in (-1, 0, 1)]
    rng = np.random.default_rng(1)
    numbers = [0, 1, 255, 256, 257, 2**63 - 1, *powers, *(int(2**x) for x in rng.uniform(0, 62.9, 2000))]
    low, high = buckets.bounds(np.array(numbers, dtype=np.int64))
    assert [*zip(low.tolist(), high.tolist(), strict=True)] == [contract(n) for n in numbers]


def test_a_doubling_has_128_buckets() -> None:
    low, _ = buckets.bounds(np.arange(4096, 8192))
    assert len(set(low.tolist())) == 128


def test_a_histogram_counts_every_message() -> None:
    low, high, count = buckets.histogram(np.array([5, 5, 1000, 1001, 1_000_000]))
    assert low.tolist() == [5, 1000, 999_424]
    assert high.tolist() == [6, 1004, 1_003_520]
    assert count.tolist() == [2, 2, 1]


def test_a_negative_latency_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        buckets.bounds(np.array([3, -1]))
