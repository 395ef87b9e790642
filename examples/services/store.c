/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* store PORT: the last one of three services, with marks of perftax_tag.h. A thread a connection. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "perftax_tag.h"
#include "wire.h"

static uint64_t last;

/* What the thread has run for: what others take of its CPU meanwhile is not the delay that is planted. A system call, so it is asked seldom. */
static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void touch_new_pages(uint64_t until_us)
{
    const size_t size = 2 << 20;

    while (now_us() < until_us) {
        char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        madvise(pages, size, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < size; at += 4096)
            pages[at] = 1;
        munmap(pages, size);
    }
}

/* The kernel makes random numbers for us. */
static void call_the_kernel(uint64_t until_us)
{
    static char random[1 << 20];
    const int device = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

    while (now_us() < until_us)
        if (read(device, random, sizeof random) < 0)
            exit(1);
    close(device);
}

static void work(void)
{
    volatile uint64_t x = 1;

    for (int i = 0; i < 2000; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
}

static void *serve(void *connection)
{
    const int from = (int)(intptr_t)connection, yes = 1;
    struct frame frame;

    setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    while (recv(from, &frame, sizeof frame, MSG_WAITALL) == sizeof frame) {
        const uint64_t id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
        const uint64_t until_us = now_us() + frame.delay_us;
        const struct timespec delay = {0, frame.delay_us * 1000L};

        perftax_begin(id);
        perftax_name(id, "get");
        perftax_identity(id, frame.trace_high, frame.trace_low, frame.span);
        perftax_receive(id);
        work();
        switch (frame.where) {
        case STORE_BLOCKED: nanosleep(&delay, NULL); break;
        case STORE_PAGE_FAULT: touch_new_pages(until_us); break;
        case STORE_SYSTEM_CALL: call_the_kernel(until_us); break;
        }
        perftax_send(id);
        perftax_end(id);
        if (send(from, &frame, sizeof frame, 0) != sizeof frame)
            break;
    }
    close(from);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    const int listening = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

    if (argc != 2)
        return 2;
    at.sin_port = htons((uint16_t)atoi(argv[1]));
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listening, (struct sockaddr *)&at, sizeof at) || listen(listening, 64)) {
        perror("store");
        return 1;
    }
    for (;;) {
        pthread_t thread;
        const int connection = accept(listening, NULL, NULL);

        if (connection < 0 || pthread_create(&thread, NULL, serve, (void *)(intptr_t)connection))
            return 1;
        pthread_detach(thread);
    }
}
