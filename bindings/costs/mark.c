/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* mark: what a mark takes beyond the loop around it, ns, a line for each of BLOCKS blocks of MARKS marks; those before are for warming up. */
#include <stdio.h>
#include <time.h>

#include "perftax_tag.h"

enum { MARKS = 100000, BLOCKS = 20, WARM = 10 };

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

int main(void)
{
    volatile uint64_t sink = 0;

    for (int block = -WARM; block < BLOCKS; block++) {
        double from = now_ns(), between, to;

        for (uint64_t i = 1; i <= MARKS; i++)
            sink = i;
        between = now_ns();
        for (uint64_t i = 1; i <= MARKS; i++) {
            sink = i;
            perftax_begin(i);
        }
        to = now_ns();
        if (block >= 0)
            printf("%.3f\n", (to - between - (between - from)) / MARKS);
    }
    return (int)sink == 0;
}
