/* SPDX-License-Identifier: MIT OR Apache-2.0
 * forks ROUNDS: a process and its child each add to a counter of its own, at one address, and to one that they share; each on a CPU of its own, where
 * there are as many, and at the same time: else which of them meets the other is left to the scheduler. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t own[8] __attribute__((aligned(64)));

static void stay_on(int cpu)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    /* A machine may have fewer. */
    sched_setaffinity(0, sizeof cpus, &cpus);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 100000;
    uint64_t *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child < 0)
        return 1;
    stay_on(child ? 1 : 2);
    /* On a line of its own. */
    for (__atomic_add_fetch(both + 64, 1, __ATOMIC_SEQ_CST); __atomic_load_n(both + 64, __ATOMIC_SEQ_CST) < 2;)
        sched_yield();
    for (long round = 0; round < rounds; round++) {
        own[0]++;
        __atomic_add_fetch(both, 1, __ATOMIC_SEQ_CST);
    }
    if (child == 0)
        _exit(0);
    int status = 1;
    waitpid(child, &status, 0);
    return status || __atomic_load_n(both, __ATOMIC_SEQ_CST) != (uint64_t)(2 * rounds);
}
