/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Delays that are put into packets, and what both files need. */
#ifndef DELAY_H
#define DELAY_H

#include <stdint.h>
#include <time.h>

/* Says what is wrong, and ends the program. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

static inline uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* So many delays, over so many packets, in a thread on one CPU. Forks: comes before threads are made. */
void delay_prepare(uint64_t delays, uint64_t packets, int cpu);
/* Packet id is handled: it is delayed, if it is to be. Packets come in their order. */
void delay_if_due(uint64_t id);
/* The packet has been handled: what its delay left behind is thrown away. */
void delay_tidy(void);
/* Writes the list of delays, and ends what was started. */
void delay_end(const char *path);

#endif
