/*
 * lock MESSAGES: two threads handle messages under one lock: one so many, the odd ones, of which every hundredth number less 1 (99, 199, …) keeps the lock while it sleeps for 3 ms, the other
 * even ones meanwhile.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "perftax_tag.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t messages;
static volatile int done;

static void spin(uint64_t ns)
{
    struct timespec now;
    uint64_t until;

    clock_gettime(CLOCK_MONOTONIC, &now);
    for (until = now.tv_sec * 1000000000ull + now.tv_nsec + ns; now.tv_sec * 1000000000ull + now.tv_nsec < until;)
        clock_gettime(CLOCK_MONOTONIC, &now);
}

static void *handle(void *first)
{
    struct timespec pause = { 0, 3000000 }, turn = { 0, 300000 };

    for (uint64_t id = (uint64_t)(uintptr_t)first; id % 2 ? id <= 2 * messages : !done; id += 2) {
        perftax_begin(id);
        pthread_mutex_lock(&lock);
        if (id % 100 == 99)
            nanosleep(&pause, 0);
        else
            spin(3000);
        pthread_mutex_unlock(&lock);
        perftax_end(id);
        /* Who waits has its turn: locks are not fair. */
        if (id % 100 == 99)
            nanosleep(&turn, 0);
        spin(2000);
    }
    return 0;
}

int main(int words, char **word)
{
    pthread_t other;

    messages = words > 1 ? strtoull(word[1], 0, 10) : 1000;
    if (pthread_create(&other, 0, handle, (void *)2))
        return 1;
    handle((void *)1);
    done = 1;
    pthread_join(other, 0);
    return 0;
}
