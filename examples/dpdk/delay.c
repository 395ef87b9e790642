/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Five ways to be slow, from 50 us to 2 ms. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "delay.h"

#define SHORTEST 50e3 /* ns */
#define LONGEST  2e6
#define SCANNED  16384
#define ZEROES   ((size_t)64 << 20)
#define FRESH    ((size_t)64 << 20)
#define WAYS     (sizeof ways / sizeof ways[0])

#define NOINLINE __attribute__((noinline))

struct delay {
    uint64_t id, asked, took;
    unsigned int way;
};

static struct delay *list;
static uint64_t delays, next;
static uint32_t scanned[SCANNED];
static char *zeroes, *fresh;
static size_t touched;
static double zeroes_a_ns;
static int zero = -1, bell = -1;
static pid_t hog;
static volatile uint64_t *hog_ns;

void die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("forward: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* From 0 to 1, the same ones in every run. */
static double chance(void)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(state >> 11) * 0x1p-53;
}

/* The five ways. */

/* A table that is searched from its beginning, again and again. */
static NOINLINE void scan_routes(uint64_t ns)
{
    uint64_t until = now() + ns;
    volatile uint32_t found = 0;

    do
        for (uint32_t i = 0; i < SCANNED; i++)
            if (scanned[i] == UINT32_MAX)
                found = i;
    while (now() < until);
    (void)found;
}

/* System calls that keep the kernel busy: most often one. */
static NOINLINE void read_zeroes(uint64_t ns)
{
    uint64_t until = now() + ns, from;

    while ((from = now()) < until) {
        size_t wanted = (size_t)((double)(until - from) * zeroes_a_ns) + 4096;

        if (read(zero, zeroes, wanted < ZEROES ? wanted : ZEROES) < 0)
            die("/dev/zero: %s", strerror(errno));
    }
}

/* Memory that is not there before it is touched. It is given back when the packet is done with. */
static NOINLINE void touch_fresh(uint64_t ns)
{
    uint64_t until = now() + ns;

    for (touched = 0; touched < FRESH && now() < until; touched += 4096)
        *(volatile char *)(fresh + touched) = 1;
}

static NOINLINE void sleep_shortly(uint64_t ns)
{
    struct timespec pause = { 0, (long)ns };

    nanosleep(&pause, 0);
}

/* Another process, which goes first, is woken on this CPU. */
static NOINLINE void wake_hog(uint64_t ns)
{
    *hog_ns = ns;
    if (eventfd_write(bell, 1))
        die("cannot wake the other process: %s", strerror(errno));
}

static const struct {
    const char *name;
    void (*delay)(uint64_t ns);
} ways[] = {
    { "scan", scan_routes }, { "read", read_zeroes }, { "fault", touch_fresh }, { "sleep", sleep_shortly }, { "hog", wake_hog },
};

void delay_if_due(uint64_t id)
{
    struct delay *due = &list[next];
    uint64_t from;

    if (next == delays || due->id != id)
        return;
    from = now();
    ways[due->way].delay(due->asked);
    due->took = now() - from;
    next++;
}

void delay_tidy(void)
{
    if (touched)
        madvise(fresh, touched, MADV_DONTNEED);
    touched = 0;
}

/* What the hog does: for each ring of the bell, keep the CPU for so long. */
static __attribute__((noreturn)) void be_hog(int cpu)
{
    struct sched_param first = { .sched_priority = 1 };
    cpu_set_t cpus;
    eventfd_t rung;

    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_setaffinity(0, sizeof cpus, &cpus))
        die("CPU %d: %s. Name two that the machine has: forward 0,1 ...", cpu, strerror(errno));
    if (sched_setscheduler(0, SCHED_FIFO, &first))
        die("SCHED_FIFO: %s. Run it as root, or with CAP_SYS_NICE", strerror(errno));
    *hog_ns = 0;
    while (!eventfd_read(bell, &rung))
        for (uint64_t until = now() + *hog_ns; now() < until;)
            ;
    _exit(1);
}

static void start_hog(int cpu)
{
    int status;

    hog_ns = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bell = eventfd(0, 0);
    if (hog_ns == MAP_FAILED || bell < 0)
        die("no shared memory or no eventfd: %s", strerror(errno));
    *hog_ns = 1;
    hog = fork();
    if (hog < 0)
        die("fork: %s", strerror(errno));
    if (!hog)
        be_hog(cpu);
    while (*hog_ns) {
        if (waitpid(hog, &status, WNOHANG) == hog)
            exit(1); /* it said why */
        usleep(1000);
    }
}

void delay_prepare(uint64_t wanted, uint64_t packets, int cpu)
{
    uint64_t from;

    delays = wanted;
    if (delays)
        start_hog(cpu);
    list = calloc(delays + 1, sizeof *list);
    zeroes = malloc(ZEROES);
    fresh = mmap(0, FRESH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    zero = open("/dev/zero", O_RDONLY);
    if (!list || !zeroes || fresh == MAP_FAILED || zero < 0)
        die("no memory, or no /dev/zero: %s", strerror(errno));
    madvise(fresh, FRESH, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, and needs not be told */
    for (uint64_t i = 0; i < delays; i++) {
        list[i].id = 1 + (uint64_t)(((double)i + chance()) * (double)packets / (double)delays);
        list[i].way = (unsigned int)(i % WAYS);
        list[i].asked = (uint64_t)(SHORTEST * exp(chance() * log(LONGEST / SHORTEST)));
    }
    for (uint32_t i = 0; i < SCANNED; i++)
        scanned[i] = i;
    /* Its pages are there from now on. */
    memset(zeroes, 1, ZEROES);
    from = now();
    if (read(zero, zeroes, ZEROES) != (ssize_t)ZEROES)
        die("/dev/zero: %s", strerror(errno));
    zeroes_a_ns = (double)ZEROES / (double)(now() - from);
}

void delay_end(const char *path)
{
    FILE *file = fopen(path, "w");

    if (hog) {
        kill(hog, SIGKILL);
        waitpid(hog, 0, 0);
    }
    if (!file)
        die("%s: %s", path, strerror(errno));
    for (uint64_t i = 0; i < delays; i++)
        fprintf(file, "%" PRIu64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\n", list[i].id, ways[list[i].way].name, list[i].asked, list[i].took);
    if (fclose(file))
        die("%s: %s", path, strerror(errno));
}
