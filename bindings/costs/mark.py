# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same as mark.c, in Python."""
from time import perf_counter_ns

from perftax_tag import begin

MARKS, BLOCKS, WARM = 100000, 20, 10


def main():
    for block in range(-WARM, BLOCKS):
        start = perf_counter_ns()
        for i in range(1, MARKS + 1):
            pass
        between = perf_counter_ns()
        for i in range(1, MARKS + 1):
            begin(i)
        stop = perf_counter_ns()
        if block >= 0:
            print(f"{(stop - between - (between - start)) / MARKS:.3f}")


main()
