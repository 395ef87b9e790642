/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hog: has a real-time priority on CPU 0. Takes nanoseconds from standard input, eight bytes each, answers each with a byte, then computes for so long: nobody waits for
 * it, it takes the CPU.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(void)
{
    struct sched_param priority = { .sched_priority = 1 };
    uint64_t asked, until;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(0, &set);
    prctl(PR_SET_NAME, "hog");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_setaffinity(0, sizeof set, &set) || sched_setscheduler(0, SCHED_FIFO, &priority)) {
        perror("hog");
        return 1;
    }
    while (read(0, &asked, sizeof asked) == sizeof asked) {
        if (write(1, "", 1) != 1)
            return 1;
        until = now_ns() + asked;
        while (now_ns() < until)
            ;
    }
    return 0;
}
