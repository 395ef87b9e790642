"""The buckets of latency histograms: everybody's are the same, so that histograms merge by adding up.

Below 256 ns each nanosecond has a bucket of its own; beyond there are 128 for each doubling.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]

EXACT_BELOW_NS = 256
_BITS = 7  # 2**7 = 128 buckets a doubling


def bounds(latency_ns: Times) -> tuple[Times, Times]:
    """The bucket of each latency: from `low` to below `high`. The top bucket's end is the largest 64-bit number."""
    latency = np.asarray(latency_ns, dtype=np.int64)
    if latency.size and int(latency.min()) < 0:
        raise ValueError(f"latency {int(latency.min())} ns: needs 0 or more")
    # Of halves, because 2**63 is no int64. A number beyond 2**53 may round up to the next power of two as a double.
    half = latency >> 1
    exponent = np.frexp(half.astype(np.float64))[1].astype(np.int64)
    exponent -= (exponent > 0) & (np.left_shift(1, np.maximum(exponent - 1, 0)) > half)
    shift = np.maximum(exponent - _BITS, 0)
    low = (latency >> shift) << shift
    width = np.left_shift(np.int64(1), shift)
    largest = np.iinfo(np.int64).max
    high = low + np.minimum(width, largest - low)
    return low, high


def histogram(latency_ns: Times) -> tuple[Times, Times, Times]:
    """`low`, `high` and number of messages of the buckets that hold any, by `low`."""
    low, high = bounds(latency_ns)
    lows, first, counts = np.unique(low, return_index=True, return_counts=True)
    return lows, high[first], counts.astype(np.int64)
