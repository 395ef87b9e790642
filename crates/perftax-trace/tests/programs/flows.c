/*
 * Packets through a flow table: flows FILE PACKETS EVERY.
 *
 * Most packets are of a few flows whose entries stay in the caches. Each EVERYth is of a flow that was not seen for long: its bucket's chain lies in entries all over a table that
 * is larger than any cache. As often another one takes as long by computing, and misses nothing. A message is a packet; which are which is
 * written to FILE: id, m (misses) or c (computes).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "perftax_tag.h"

/* 64 bytes: a cache line. */
struct flow {
    uint64_t key, next, packets, padding[5];
};

enum { COMMON = 16, RARE = 1 << 20, CHAIN = 150, STEPS = 500, MORE_STEPS = 1600 };

static struct flow common_flows[COMMON];
static struct flow rare_flows[RARE];
static uint64_t state = 88172645463325252ULL;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* What every packet takes: a checksum of it, in registers. */
__attribute__((noinline)) static uint64_t checksum(uint64_t x, int steps)
{
    int i;

    for (i = 0; i < steps; i++) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Follows a chain until its end. */
__attribute__((noinline)) static uint64_t lookup(struct flow *table, uint64_t first, int length)
{
    uint64_t at = first;
    int i;

    for (i = 0; i < length; i++) {
        table[at].packets++;
        at = table[at].next;
    }
    return at;
}

int main(int argc, char **argv)
{
    uint64_t id, packets, every, sum = 0, i;
    FILE *truth;

    if (argc != 4 || !(truth = fopen(argv[1], "w"))) {
        fprintf(stderr, "usage: flows FILE PACKETS EVERY\n");
        return 2;
    }
    packets = strtoull(argv[2], NULL, 0);
    every = strtoull(argv[3], NULL, 0);
    for (i = 0; i < COMMON; i++) {
        common_flows[i].next = (i + 1) % COMMON;
    }
    /* An odd step visits all. */
    for (i = 0; i < RARE; i++) {
        rare_flows[i].next = (i + 514229) % RARE;
    }
    for (id = 1; id <= packets; id++) {
        uint64_t turn = id % (2 * every);

        perftax_begin(id);
        sum += checksum(id, STEPS);
        sum += lookup(common_flows, id % COMMON, CHAIN);
        if (turn == every) {
            sum += lookup(rare_flows, next_random() % RARE, CHAIN);
        } else if (turn == 0) {
            sum += checksum(id, MORE_STEPS);
        }
        perftax_end(id);
        if (turn == every || turn == 0) {
            fprintf(truth, "%llu %c\n", (unsigned long long)id, turn == every ? 'm' : 'c');
        }
    }
    fprintf(truth, "# %llu\n", (unsigned long long)sum);
    return fclose(truth) != 0;
}
