/*
 * Messages of known work: executed FILE MESSAGES.
 *
 * work() takes five instructions a step, whether its loads hit or miss. Most messages are alike; one in forty has eight times the steps (more work), one in forty misses at each (slower
 * work), one in forty sleeps in the middle, one in forty goes to another thread there. All threads are held to one CPU. FILE gets a line for each: id, kind, steps.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "perftax_tag.h"

enum { STEPS = 400, EVERY = 40, TABLE = 32 << 20, STRIDE = 1024 + 64 };

static char *table;
static _Atomic uint64_t handed, taken;
static uint64_t handed_steps;
static atomic_int is_over;

/* Steps of `n`, each a load; where `stride` is not 0, each of another line, in memory that no cache has. */
__attribute__((noinline)) static void work(uint64_t n, uint64_t stride)
{
    static uint64_t far;
    uint64_t at = stride ? far : 0, mask = TABLE - 1, loaded;

    __asm__ volatile("1: mov (%[table],%[at]), %[loaded]\n\t"
                     "add %[stride], %[at]\n\t"
                     "and %[mask], %[at]\n\t"
                     "dec %[n]\n\t"
                     "jnz 1b"
                     : [n] "+r"(n), [at] "+r"(at), [loaded] "=&r"(loaded)
                     : [table] "r"(table), [stride] "r"(stride), [mask] "r"(mask)
                     : "memory", "cc");
    if (stride)
        far = at;
}

/* What marks a message, for probes. */
__attribute__((noinline)) static void begins(uint64_t id)
{
    __asm__ volatile("" : : "r"(id) : "memory");
    perftax_begin(id);
}

__attribute__((noinline)) static void ends(uint64_t id)
{
    __asm__ volatile("" : : "r"(id) : "memory");
    perftax_end(id);
}

static void *other(void *unused)
{
    (void)unused;
    while (!is_over) {
        uint64_t id = handed;

        if (id == taken) {
            sched_yield();
            continue;
        }
        perftax_switch(id);
        work(handed_steps, 0);
        ends(id);
        taken = id;
    }
    return NULL;
}

/* Takes the CPU from messages now and then, and is at none. */
static void *neighbour(void *unused)
{
    struct timespec pause = { 0, 3000000 };

    (void)unused;
    while (!is_over) {
        work(20000, 0);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct timespec pause = { 0, 100000 };
    pthread_t threads[2];
    uint64_t id, messages;
    cpu_set_t first;
    FILE *truth;

    if (argc != 3 || !(truth = fopen(argv[1], "w"))) {
        fprintf(stderr, "usage: executed FILE MESSAGES\n");
        return 2;
    }
    messages = strtoull(argv[2], NULL, 0);
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
    table = aligned_alloc(4096, TABLE + 4096);
    for (id = 0; id < TABLE + 4096; id += 4096)
        table[id] = 1;
    pthread_create(&threads[0], NULL, other, NULL);
    pthread_create(&threads[1], NULL, neighbour, NULL);
    for (id = 1; id <= messages; id++) {
        uint64_t steps = STEPS + id % 7 * 10;
        char kind = 'u';

        switch (id % EVERY) {
        case 0:
            kind = 'm';
            steps *= 8;
            begins(id);
            work(steps, 0);
            ends(id);
            break;
        case 10:
            kind = 's';
            begins(id);
            work(steps, STRIDE);
            ends(id);
            break;
        case 20:
            kind = 'w';
            begins(id);
            work(steps / 2, 0);
            nanosleep(&pause, NULL);
            work(steps - steps / 2, 0);
            ends(id);
            break;
        case 30:
            kind = 'h';
            handed_steps = steps - steps / 2;
            begins(id);
            work(steps / 2, 0);
            perftax_switch(0);
            handed = id;
            while (taken != id)
                sched_yield();
            break;
        default:
            begins(id);
            work(steps, 0);
            ends(id);
        }
        fprintf(truth, "%llu %c %llu\n", (unsigned long long)id, kind, (unsigned long long)steps);
    }
    is_over = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return fclose(truth) != 0;
}
