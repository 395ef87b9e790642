/*
 * Allocations that are slow by fragmentation: fragments FILE REQUESTS EVERY.
 *
 * Most requests take a small block from a list of the last ones that were given back. Each EVERYth takes a large one: the allocator looks for the next free chunk that is large
 * enough, from where it stopped the last time, and passes many that are too small, all over an arena that is larger than any cache. As often another request takes as long by
 * computing, and misses nothing. A message is a request; which are which is written to FILE: id, m (misses) or c (computes).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "perftax_tag.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d61
#define PR_SET_VMA_ANON_NAME 0
#endif

/* A free chunk, at its beginning: the next one of the list lies anywhere. */
struct chunk {
    uint64_t bytes, next, payload[6];
};

enum { CHUNKS = 1 << 20, SMALL = 64, LARGE = 4096, BETWEEN = 150, CACHED = 16, STEPS = 500, MORE_STEPS = 1600 };

static struct chunk *arena;
static uint64_t rover;
static struct chunk *cached[CACHED];
static unsigned int cached_count;

__attribute__((noinline)) static uint64_t compute(uint64_t x, int steps)
{
    int i;

    for (i = 0; i < steps; i++) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* The next free chunk of at least so many bytes. */
__attribute__((noinline)) static struct chunk *next_fit(uint64_t bytes)
{
    uint64_t at = rover;

    do {
        at = arena[at].next;
    } while (arena[at].bytes < bytes);
    rover = at;
    return &arena[at];
}

__attribute__((noinline)) static struct chunk *allocate(uint64_t bytes)
{
    if (bytes <= SMALL && cached_count) {
        return cached[--cached_count];
    }
    return next_fit(bytes);
}

__attribute__((noinline)) static void give_back(struct chunk *chunk)
{
    if (chunk->bytes == SMALL && cached_count < CACHED) {
        cached[cached_count++] = chunk;
    }
}

int main(int argc, char **argv)
{
    uint64_t id, requests, every, sum = 0, i, at = 0;
    FILE *truth;

    if (argc != 4 || !(truth = fopen(argv[1], "w"))) {
        fprintf(stderr, "usage: fragments FILE REQUESTS EVERY\n");
        return 2;
    }
    requests = strtoull(argv[2], NULL, 0);
    every = strtoull(argv[3], NULL, 0);
    arena = mmap(NULL, CHUNKS * sizeof(*arena), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    /* Where the kernel knows such names. */
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, arena, CHUNKS * sizeof(*arena), "arena");
    /* An odd step visits all. */
    for (i = 0; i < CHUNKS; i++) {
        arena[at].bytes = i % BETWEEN == 0 ? LARGE : SMALL;
        arena[at].next = (at + 514229) % CHUNKS;
        at = arena[at].next;
    }
    for (i = 0; i < CACHED; i++) {
        give_back(&arena[i * 7 + (arena[i * 7].bytes == LARGE)]);
    }
    for (id = 1; id <= requests; id++) {
        uint64_t turn = id % (2 * every);
        struct chunk *chunk;

        perftax_begin(id);
        sum += compute(id, STEPS);
        chunk = allocate(turn == every ? LARGE : SMALL);
        chunk->payload[0] = id;
        if (turn == 0) {
            sum += compute(id, MORE_STEPS);
        }
        give_back(chunk);
        perftax_end(id);
        if (turn == every || turn == 0) {
            fprintf(truth, "%llu %c\n", (unsigned long long)id, turn == every ? 'm' : 'c');
        }
    }
    fprintf(truth, "# %llu\n", (unsigned long long)sum);
    return fclose(truth) != 0;
}
