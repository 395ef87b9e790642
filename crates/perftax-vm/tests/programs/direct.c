/*
 * direct PERIOD BUFFER_BYTES TURNS: PEBS by perftax.ko of a loop of eight instructions a turn. Prints records, interrupts, records
 * to an interrupt, instructions counted meanwhile, spurious interrupts, overruns, and ns without and with sampling.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "perftax_ioctl.h"

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t timed(uint64_t turns)
{
    uint64_t data[2] = { 0 }, from = now();

    asm volatile("1: addq $1, %%r8\n mov (%1), %%rax\n mov %%r8, 8(%1)\n lea 3(%%rax), %%rdx\n xor %%rdx, %%r10\n nop\n dec %0\n jnz 1b"
                 : "+r"(turns) : "r"(data) : "rax", "rdx", "r8", "r10", "memory");
    return now() - from;
}

int main(int argc, char **argv)
{
    uint64_t number[3] = { 0 }, off, on;
    struct perftax_start start = { .version = PERFTAX_VERSION, .events = 2 };
    struct perftax_read read = { .version = PERFTAX_VERSION };
    int fd = open("/dev/perftax", O_RDWR), i;

    for (i = 0; i < 3 && i + 1 < argc; i++)
        number[i] = strtoull(argv[i + 1], 0, 0);
    start.buffer_bytes = number[1];
    start.event[0] = (struct perftax_event){ .select = 0xc0, .period = number[0], .flags = PERFTAX_EVENT_USER | PERFTAX_EVENT_PEBS };
    start.event[1] = (struct perftax_event){ .select = 0xc0, .flags = PERFTAX_EVENT_USER };
    if (getenv("WRONG_VERSION"))
        start.version++;
    if (fd < 0 || (off = timed(number[2]), ioctl(fd, PERFTAX_IOC_START, &start))) {
        printf("refused %s\n", strerror(errno));
        return 1;
    }
    on = timed(number[2]);
    if (getenv("CRASH"))
        abort();
    if (ioctl(fd, PERFTAX_IOC_STOP) || ioctl(fd, PERFTAX_IOC_READ, &read)) {
        printf("failed %s\n", strerror(errno));
        return 1;
    }
    printf("done %llu %llu %llu %llu %llu %llu %lu %lu\n", read.records, read.interrupts, read.capacity, read.count[1], read.spurious,
           read.overruns, off, on);
    return 0;
}
