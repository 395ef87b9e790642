/*
 * queue MESSAGES: one thread begins messages and leaves them in a queue, another takes them out and works on them, 20 us each. Every fiftieth touches pages of a table that
 * nobody has touched before; every hundredth takes 3 ms, and those behind it wait for the worker so long.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "perftax_tag.h"

enum { PAGE = 4096, PAGES = 40, ROOM = 4096 };

static char table[64 << 20] __attribute__((aligned(PAGE)));
static uint64_t queue[ROOM];
static uint64_t put, taken, there;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void work(uint64_t ns)
{
    uint64_t from = now_ns();

    while (now_ns() - from < ns)
        ;
}

__attribute__((noinline)) static void touch(uint64_t turn)
{
    uint64_t page;

    for (page = 0; page < PAGES; page++)
        *(volatile char *)&table[(turn * PAGES + page) % (sizeof table / PAGE) * PAGE] = 1;
}

static void *worker(void *argument)
{
    uint64_t messages = *(uint64_t *)argument, id;

    pthread_setname_np(pthread_self(), "worker");
    __atomic_store_n(&there, 1, __ATOMIC_RELEASE);
    for (id = 1; id <= messages; id++) {
        while (__atomic_load_n(&put, __ATOMIC_ACQUIRE) < id)
            usleep(50);
        perftax_switch(queue[id % ROOM]);
        work(id % 100 == 0 ? 3000000 : 20000);
        if (id % 50 == 25)
            touch(id / 50);
        perftax_end(id);
        __atomic_store_n(&taken, id, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t messages = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000, id;
    pthread_t thread;

    /* A fault each: where the kernel has no large pages this fails, and is not needed. */
    madvise(table, sizeof table, MADV_NOHUGEPAGE);
    if (pthread_create(&thread, NULL, worker, &messages))
        return 1;
    while (!__atomic_load_n(&there, __ATOMIC_ACQUIRE))
        usleep(100);
    for (id = 1; id <= messages; id++) {
        /* Ten come together, each ms. */
        if (id % 10 == 0)
            usleep(1000);
        while (id - __atomic_load_n(&taken, __ATOMIC_ACQUIRE) > ROOM / 2)
            usleep(100);
        perftax_begin(id);
        queue[id % ROOM] = id;
        perftax_switch(0);
        __atomic_store_n(&put, id, __ATOMIC_RELEASE);
    }
    return pthread_join(thread, NULL);
}
