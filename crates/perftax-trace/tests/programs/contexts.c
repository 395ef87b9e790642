/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * contexts THREADS MESSAGES swap|place FILE [LIBRARY]: threads that publish which trace they work on (OpenTelemetry's thread context, OTEP 4947), by swapping the
 * pointer or by flipping `valid` in place. Every message has a trace of its own and two spans; of up to a thousand every hundredth is handed to another thread for its second half. The variable is the
 * program's own, or that of a library which is built of this file, too (-DLIBRARY -shared).
 *
 * A message takes 50 us, or CONTEXTS_SLEEP_US, and receives 64 bytes then, of a thread alone. FILE gets a line for each message: trace (high and low half, in hexadecimal), and CLOCK_MONOTONIC_RAW before and after it was attached first and detached last, ns.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>

struct record {
    uint8_t trace[16], span[8], valid, flags;
    uint16_t bytes;
} __attribute__((packed));

__attribute__((visibility("default"))) __thread struct record *otel_thread_ctx_v1;
static __thread struct record records[2];
static __thread unsigned turn;

#define ordered() __atomic_signal_fence(__ATOMIC_SEQ_CST)

static void put(uint8_t *to, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(word >> (56 - 8 * i));
}

static void fill(struct record *record, uint64_t high, uint64_t low, uint64_t span)
{
    put(record->trace, high);
    put(record->trace + 8, low);
    put(record->span, span);
}

/* Low half 0: detaches. */
__attribute__((visibility("default"))) void attach(int in_place, uint64_t high, uint64_t low, uint64_t span)
{
    struct record *record = &records[in_place ? 0 : turn++ & 1];

    if (in_place) {
        if (!otel_thread_ctx_v1)
            *(struct record *volatile *)&otel_thread_ctx_v1 = record;
        *(volatile uint8_t *)&record->valid = 0;
        ordered();
        if (low) {
            fill(record, high, low, span);
            ordered();
            *(volatile uint8_t *)&record->valid = 1;
        }
        return;
    }
    if (low) {
        fill(record, high, low, span);
        record->valid = 1;
    }
    ordered();
    *(struct record *volatile *)&otel_thread_ctx_v1 = low ? record : 0;
}

#ifndef LIBRARY
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void (*do_attach)(int, uint64_t, uint64_t, uint64_t) = attach;
static int in_place, here = -1, there = -1;
static long within_us = 50;
static unsigned long threads, messages;
static struct message {
    uint64_t high, low, begin[2], end[2];
} *all;
static pthread_barrier_t ready;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_us(long us)
{
    struct timespec pause = { us / 1000000, us % 1000000 * 1000 };

    nanosleep(&pause, 0);
}

/* What is received by TCP is what perftax takes for work. */
static void connect_to_self(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM, 0);

    there = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 1) ||
        getsockname(listening, (struct sockaddr *)&address, &length) ||
        connect(there, (struct sockaddr *)&address, sizeof address) || (here = accept(listening, 0, 0)) < 0) {
        perror("contexts: connect");
        exit(1);
    }
}

static void publish(uint64_t high, uint64_t low, uint64_t span, uint64_t times[2])
{
    times[0] = now_ns();
    do_attach(in_place, high, low, span);
    times[1] = now_ns();
}

static void *second_half(void *of)
{
    struct message *message = of;
    uint64_t ignored[2];

    /* A thread's first context is seen when it is looked for. */
    do_attach(in_place, 0, 0, 0);
    sleep_us(300000);
    publish(message->high, message->low, 3, ignored);
    sleep_us(200);
    publish(0, 0, 0, message->end);
    sleep_us(20000);
    return 0;
}

static void *handle(void *number)
{
    unsigned long first = (unsigned long)(uintptr_t)number * messages;
    pthread_t other;
    char bytes[64] = { 0 };

    do_attach(in_place, 0, 0, 0);
    pthread_barrier_wait(&ready);
    sleep_us(400000);
    for (unsigned long i = first; i < first + messages; i++) {
        struct message *message = &all[i];
        uint64_t ignored[2];

        message->high = 0x4bf92f3577b34da6;
        message->low = 0x1000000 + i;
        publish(message->high, message->low, 1, message->begin);
        sleep_us(within_us);
        if (there >= 0 && (write(there, bytes, sizeof bytes) != sizeof bytes || read(here, bytes, sizeof bytes) != sizeof bytes))
            exit(1);
        publish(message->high, message->low, 2, ignored);
        publish(0, 0, 0, message->end);
        if (i % 100 == 50 && messages <= 1000) {
            pthread_create(&other, 0, second_half, message);
            pthread_join(other, 0);
        }
    }
    sleep_us(20000);
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t thread[64];
    FILE *file;

    if (argc < 5 || !(file = fopen(argv[4], "w")))
        return 2;
    threads = strtoul(argv[1], 0, 10);
    messages = strtoul(argv[2], 0, 10);
    in_place = !strcmp(argv[3], "place");
    if (getenv("CONTEXTS_SLEEP_US")) {
        within_us = atol(getenv("CONTEXTS_SLEEP_US"));
        connect_to_self();
    }
    if (argc > 5) {
        void *library = dlopen(argv[5], RTLD_NOW);

        if (!library || !(do_attach = (void (*)(int, uint64_t, uint64_t, uint64_t))dlsym(library, "attach"))) {
            fprintf(stderr, "contexts: %s\n", dlerror());
            return 1;
        }
    }
    all = calloc(threads * messages, sizeof *all);
    pthread_barrier_init(&ready, 0, (unsigned)threads);
    for (unsigned long i = 0; i < threads; i++)
        pthread_create(&thread[i], 0, handle, (void *)(uintptr_t)i);
    for (unsigned long i = 0; i < threads; i++)
        pthread_join(thread[i], 0);
    for (unsigned long i = 0; i < threads * messages; i++)
        fprintf(file, "%016llx%016llx,%llu,%llu,%llu,%llu\n", (unsigned long long)all[i].high, (unsigned long long)all[i].low,
                (unsigned long long)all[i].begin[0], (unsigned long long)all[i].begin[1], (unsigned long long)all[i].end[0],
                (unsigned long long)all[i].end[1]);
    return fclose(file) != 0;
}
#endif
