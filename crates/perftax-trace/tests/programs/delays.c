/*
 * delays MESSAGES [CODE [STEPS]]: a thread handles so many messages of some microseconds each. Every five hundredth is delayed, in turn by waiting in a system
 * call (id % 4 == 0), by the kernel's work in one (1), by spinning (2), by leaving the message to nobody (3). It ends with CODE. With STEPS every message
 * computes so many steps more.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perftax_tag.h"

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void spin(uint64_t ns)
{
    uint64_t from = now_ns();

    while (now_ns() - from < ns)
        ;
}

static char buffer[8 << 20];

/* The kernel's work for so long, however fast this machine clears memory. */
static int busy_kernel(int zero, uint64_t ns)
{
    uint64_t from = now_ns();

    do
        if (read(zero, buffer, sizeof buffer) < 0)
            return -1;
    while (now_ns() - from < ns);
    return 0;
}

static __attribute__((noinline)) uint64_t regressed(uint64_t x, uint64_t steps)
{
    while (steps--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

int main(int argc, char **argv)
{
    uint64_t messages = argc > 1 ? strtoull(argv[1], 0, 10) : 1000;
    uint64_t steps = argc > 3 ? strtoull(argv[3], 0, 10) : 0, x = 88172645463325252u;
    int zero = open("/dev/zero", O_RDONLY), turn = 0;

    /* Its pages are there before. */
    memset(buffer, 1, sizeof buffer);
    for (uint64_t id = 1; id <= messages; id++) {
        struct timespec pause = { 0, 3000000 };

        perftax_begin(id);
        spin(2000);
        x = regressed(x, steps);
        if (id % 500 == 0)
            switch (turn++ % 4) {
            case 0: nanosleep(&pause, 0); break;
            case 1:
                if (busy_kernel(zero, 3000000) < 0)
                    return 1;
                break;
            case 2: spin(3000000); break;
            case 3:
                perftax_switch(0);
                spin(3000000);
                perftax_switch(id);
            }
        perftax_end(id);
    }
    return x ? argc > 2 ? atoi(argv[2]) : 0 : 1;
}
