/*
 * register MESSAGES DELAY_NS [library] [truth]: two threads that handle so many messages each, of some ten microseconds, with their ids in r13 (even
 * ones are the first thread's). Every hundredth of a thread is delayed, in turn by spinning, by waiting in a system call, by the kernel's
 * work in one. With `library` most of the time goes to a library that uses r13 for itself. With `truth` it says at its end how long each
 * message took by its own clock: number, ns from before its beginning to behind its end, ns from behind its beginning to before its end. Who
 * is interrupted between the clock and the message has a first number that is too long, and a second one that is not.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perftax_tag_register.h"

static uint64_t messages, delay_ns;
static int has_library;
static uint64_t *took, *within;

static uint64_t now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void spin(uint64_t ns)
{
    uint64_t until = now() + ns;

    while (now() < until)
        ;
}

/* Called by libc, which was not built for the tag. */
static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void sort(uint64_t seed)
{
    uint32_t numbers[256];

    for (int i = 0; i < 256; i++)
        numbers[i] = (uint32_t)((seed += 0x9e3779b97f4a7c15) >> 32);
    qsort(numbers, 256, sizeof *numbers, compare);
}

static void read_for(uint64_t ns)
{
    static __thread char buffer[1 << 16];
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    uint64_t until = now() + ns;

    while (now() < until)
        if (read(zero, buffer, sizeof buffer) < 0)
            exit(1);
    close(zero);
}

static void *work(void *of)
{
    PERFTAX_REGISTER_GUEST;
    uint64_t first = (uint64_t)(uintptr_t)of;
    int turn = 0;

    for (uint64_t i = 1; i <= messages; i++) {
        uint64_t id = 2 * i + first;
        struct timespec pause = { 0, (long)delay_ns };

        uint64_t began = now();

        perftax_register_begin(id);
        uint64_t inside = now();

        if (has_library)
            sort(id);
        else
            spin(10000);
        if (i % 100 == 0)
            switch (turn++ % 3) {
            case 0: spin(delay_ns); break;
            case 1: nanosleep(&pause, 0); break;
            case 2: read_for(delay_ns); break;
            }
        within[id] = now() - inside;
        perftax_register_end();
        took[id] = now() - began;
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t second;

    messages = argc > 1 ? strtoull(argv[1], 0, 10) : 1000;
    delay_ns = argc > 2 ? strtoull(argv[2], 0, 10) : 500000;
    has_library = argc > 3 && !strcmp(argv[3], "library");
    took = calloc(2 * messages + 2, sizeof *took);
    within = calloc(2 * messages + 2, sizeof *within);
    if (!took || !within)
        return 1;
    if (pthread_create(&second, 0, work, (void *)1))
        return 1;
    work((void *)0);
    if (pthread_join(second, 0))
        return 1;
    if (argc > 3 && !strcmp(argv[argc - 1], "truth"))
        for (uint64_t id = 2; id < 2 * messages + 2; id++)
            printf("%llu %llu %llu\n", (unsigned long long)id, (unsigned long long)took[id], (unsigned long long)within[id]);
    return 0;
}
