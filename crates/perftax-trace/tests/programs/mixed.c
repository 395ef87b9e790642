// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * mixed MESSAGES CALLS STEPS [PIPED]: a thread handles so many messages, each of so many system calls that do next to nothing and so many steps of arithmetic; PIPED: and
 * of so many turns with another thread, each of which waits for the other by a pipe. Prints the CPU time of the process without its start, in seconds.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "perftax_tag.h"

static int there[2], back[2];

static double cpu_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *answer(void *nothing)
{
    char word;

    while (read(there[0], &word, 1) == 1 && write(back[1], &word, 1) == 1)
        ;
    return nothing;
}

int main(int argc, char **argv)
{
    uint64_t messages = argc > 1 ? strtoull(argv[1], 0, 10) : 100000, x = 88172645463325252u;
    long calls = argc > 2 ? atol(argv[2]) : 10, steps = argc > 3 ? atol(argv[3]) : 1000, piped = argc > 4 ? atol(argv[4]) : 0;
    pthread_t thread;
    double began_s;
    char word = 1;

    if (pipe(there) || pipe(back) || pthread_create(&thread, 0, answer, 0)) {
        perror("mixed");
        return 1;
    }
    began_s = cpu_s();
    for (uint64_t id = 1; id <= messages; id++) {
        perftax_begin(id);
        for (long i = 0; i < calls; i++)
            syscall(SYS_getppid);
        for (long i = 0; i < steps; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        for (long i = 0; i < piped; i++)
            if (write(there[1], &word, 1) != 1 || read(back[0], &word, 1) != 1)
                return 1;
        perftax_end(id);
    }
    printf("%.6f\n", cpu_s() - began_s);
    close(there[1]);
    pthread_join(thread, 0);
    return x == 0;
}
