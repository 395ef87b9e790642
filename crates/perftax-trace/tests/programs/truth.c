// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * truth MESSAGES DELAYED SEED FILE: a thread handles so many messages of some microseconds each; so many of them, chosen by the seed, are
 * delayed by 20 us to 2 ms, in turn by
 *
 *     spin      computing
 *     faults    touching pages that are not there yet
 *     preempt   another process, which is woken for it and has a real-time priority on the same CPU
 *     sleep     waiting in a system call
 *     thrash    reading lines that a thread on another CPU keeps writing to
 *
 * FILE gets a line for each delay: id, way, nanoseconds asked for, nanoseconds that it took.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "perftax_tag.h"

#define LINES 4096
#define LINE  64
#define PAGE  4096
#define WAYS  5
#define NEW_PAGES ((size_t)16384)

static const char *const way_names[WAYS] = { "spin", "faults", "preempt", "sleep", "thrash" };
/* What is shared with the process that preempts. */
static volatile struct { uint64_t spin_ns; } *asked;
static int to_hog[2], from_hog[2];
static volatile int thrashing;
static volatile char lines[LINES * LINE] __attribute__((aligned(PAGE)));

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t step(uint64_t x)
{
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

static uint64_t work(uint64_t x, int steps)
{
    while (steps--)
        x = step(x);
    return x;
}

static __attribute__((noinline)) uint64_t spin_for(uint64_t ns, uint64_t x)
{
    uint64_t until = now_ns() + ns;

    while (now_ns() < until)
        x = work(x, 400);
    return x;
}

static __attribute__((noinline)) void touch_new_pages(char *pages, uint64_t ns)
{
    uint64_t until = now_ns() + ns;

    for (size_t at = 0; now_ns() < until && at < NEW_PAGES * PAGE; at += PAGE)
        pages[at] = 1;
}

/* Functions, for those who tell messages by these instead of by marks. */
static __attribute__((noinline)) void message_begins(uint64_t id)
{
    perftax_begin(id);
}

static __attribute__((noinline)) void message_ends(uint64_t id)
{
    perftax_end(id);
}

static char *new_pages(void)
{
    char *pages = mmap(0, NEW_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(pages, NEW_PAGES * PAGE, MADV_NOHUGEPAGE);
    return pages;
}

static void be_preempted(uint64_t ns)
{
    char word = 1;

    asked->spin_ns = ns;
    if (write(to_hog[1], &word, 1) != 1 || read(from_hog[0], &word, 1) != 1) {
        perror("hog");
        exit(1);
    }
}

static void sleep_for(uint64_t ns)
{
    struct timespec pause = { 0, (long)ns };

    nanosleep(&pause, 0);
}

static __attribute__((noinline)) void read_thrashed_lines(uint64_t ns)
{
    uint64_t until = now_ns() + ns;
    unsigned sum = 0;

    while (now_ns() < until)
        for (int i = 0; i < 64; i++)
            sum += (unsigned)lines[(i * 61 % LINES) * LINE];
    lines[0] = (char)sum;
}

static void *thrash(void *cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((int)(size_t)cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (;;) {
        struct timespec pause = { 0, 20000 };

        if (!thrashing)
            nanosleep(&pause, 0);
        else
            for (int i = 0; i < LINES; i++)
                lines[i * LINE]++;
    }
    return 0;
}

static void hog(void)
{
    struct sched_param priority = { .sched_priority = 1 };
    char word;

    prctl(PR_SET_NAME, "hog");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_setscheduler(0, SCHED_FIFO, &priority)) {
        perror("sched_setscheduler");
        _exit(1);
    }
    /* It answers before it works: nobody waits for it, it takes the CPU. */
    while (read(to_hog[0], &word, 1) == 1) {
        if (write(from_hog[1], &word, 1) != 1)
            break;
        spin_for(asked->spin_ns, 1);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    uint64_t messages = argc > 1 ? strtoull(argv[1], 0, 10) : 100000, delayed = argc > 2 ? strtoull(argv[2], 0, 10) : 20;
    uint64_t seed = argc > 3 ? strtoull(argv[3], 0, 10) : 1, x = seed * 2654435761u + 88172645463325252u;
    FILE *file = fopen(argc > 4 ? argv[4] : "truth.csv", "w");
    uint64_t *delay_ns = calloc(messages + 1, sizeof *delay_ns);
    uint8_t *ways = calloc(messages + 1, 1);
    pthread_t thread;
    cpu_set_t set;
    pid_t child;

    if (!file || !delay_ns || !ways || messages < 2 * delayed) {
        fprintf(stderr, "truth: cannot begin\n");
        return 1;
    }
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof set, &set);
    asked = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (asked == MAP_FAILED || pipe(to_hog) || pipe(from_hog)) {
        perror("truth");
        return 1;
    }
    child = fork();
    if (!child)
        hog();
    pthread_create(&thread, 0, thrash, (void *)(size_t)(sysconf(_SC_NPROCESSORS_ONLN) > 1));
    memset((void *)(size_t)lines, 1, sizeof lines);
    for (uint64_t i = 0; i < delayed; i++) {
        uint64_t id;

        do {
            x = step(x);
            id = 1 + x % messages;
        } while (delay_ns[id] || id < messages / 100);
        x = step(x);
        /* Evenly over the logarithm: 20 us to 2 ms. */
        delay_ns[id] = 20000;
        for (uint64_t parts = x % 1000; parts >= 10; parts -= 10)
            delay_ns[id] += delay_ns[id] * 476 / 10000;
        ways[id] = (uint8_t)(i % WAYS);
    }
    for (uint64_t id = 1; id <= messages; id++) {
        if (!delay_ns[id]) {
            message_begins(id);
            x = work(x, 1500);
            message_ends(id);
            continue;
        }
        thrashing = ways[id] == 4;
        if (thrashing)
            spin_for(300000, x);
        uint64_t ns = delay_ns[id], from;
        char *pages = ways[id] == 1 ? new_pages() : 0;

        from = now_ns();
        message_begins(id);
        x = work(x, 1500);
        switch (ways[id]) {
        case 0: x = spin_for(ns, x); break;
        case 1: touch_new_pages(pages, ns); break;
        case 2: be_preempted(ns); break;
        case 3: sleep_for(ns); break;
        case 4: read_thrashed_lines(ns);
        }
        message_ends(id);
        fprintf(file, "%llu,%s,%llu,%llu\n", (unsigned long long)id, way_names[ways[id]], (unsigned long long)ns,
                (unsigned long long)(now_ns() - from));
        thrashing = 0;
        if (pages)
            munmap(pages, NEW_PAGES * PAGE);
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    free(delay_ns);
    free(ways);
    return fclose(file) || x == 0;
}
