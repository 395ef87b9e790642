// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * truth MESSAGES DELAYED SEED FILE [served]: a thread handles so many messages of some microseconds each; so many of them, chosen by the seed, are
 * delayed by 20 us to 2 ms, in turn by
 *
 *     spin      computing
 *     faults    touching pages that are not there yet
 *     preempt   another process, which is woken for it and has a real-time priority on the same CPU
 *     sleep     waiting in a system call
 *     thrash    reading lines that a thread on another CPU keeps writing to
 *     lock      waiting for a lock that another thread holds, which computes meanwhile for a message of its own
 *
 * Messages are numbered as they begin. Where they are served, each is a request on a connection of its thread's. FILE gets a line for each delay: number, way, nanoseconds asked
 * for (of a lock: that it was waited for), nanoseconds that it took, and the number of the message that held the lock or 0.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "perftax_tag.h"

#define LINES 4096
#define LINE  64
#define PAGE  4096
#define WAYS  6
#define NEW_PAGES ((size_t)16384)

static const char *const way_names[WAYS] = { "spin", "faults", "preempt", "sleep", "thrash", "lock" };
/* What is shared with the process that preempts. */
static volatile struct { uint64_t spin_ns; } *asked;
static int to_hog[2], from_hog[2];
static volatile int thrashing;
static volatile char lines[LINES * LINE] __attribute__((aligned(PAGE)));

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t step(uint64_t x)
{
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

static uint64_t work(uint64_t x, int steps)
{
    while (steps--)
        x = step(x);
    return x;
}

static __attribute__((noinline)) uint64_t spin_for(uint64_t ns, uint64_t x)
{
    uint64_t until = now_ns() + ns;

    while (now_ns() < until)
        x = work(x, 400);
    return x;
}

static __attribute__((noinline)) void touch_new_pages(char *pages, uint64_t ns)
{
    uint64_t until = now_ns() + ns;

    for (size_t at = 0; now_ns() < until && at < NEW_PAGES * PAGE; at += PAGE)
        pages[at] = 1;
}

/* Messages of the two threads that have any, and their connections, where they are served. */
enum { MAIN, HOLDER, THREADS };
static uint64_t last_number;
static int connections[THREADS] = { -1, -1 }, clients[THREADS];

/* Functions, for those who tell messages by these instead of by marks. */
static __attribute__((noinline)) uint64_t message_begins(int thread)
{
    uint64_t number;
    char request[16];

    if (connections[thread] >= 0 && read(connections[thread], request, sizeof request) != sizeof request)
        exit(1);
    number = __atomic_add_fetch(&last_number, 1, __ATOMIC_SEQ_CST);
    perftax_begin(number);
    return number;
}

static __attribute__((noinline)) void message_ends(int thread, uint64_t number)
{
    static const char answer[16];

    if (connections[thread] >= 0 && write(connections[thread], answer, sizeof answer) != sizeof answer)
        exit(1);
    perftax_end(number);
}

/* Asks, and asks again when it was answered. */
static void *client(void *connection)
{
    static const char request[16];
    char answer[16];
    int fd = *(int *)connection;

    while (write(fd, request, sizeof request) == sizeof request && read(fd, answer, sizeof answer) == sizeof answer)
        ;
    return 0;
}

static void serve(void)
{
    struct sockaddr_in address = { AF_INET, 0, { htonl(INADDR_LOOPBACK) }, { 0 } };
    socklen_t length = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    pthread_t thread;

    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, THREADS) ||
        getsockname(listening, (struct sockaddr *)&address, &length)) {
        perror("truth: listen");
        exit(1);
    }
    for (int i = 0; i < THREADS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(clients[i], (struct sockaddr *)&address, sizeof address) || (connections[i] = accept(listening, 0, 0)) < 0) {
            perror("truth: connect");
            exit(1);
        }
        setsockopt(clients[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(connections[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        pthread_create(&thread, 0, client, &clients[i]);
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t wanted, is_held, is_over;
static volatile uint64_t held_ns, holder;

/* Holds the lock when it is wanted to. */
static void *hold(void *cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((int)(size_t)cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (;;) {
        sem_wait(&wanted);
        holder = message_begins(HOLDER);
        pthread_mutex_lock(&lock);
        sem_post(&is_held);
        spin_for(held_ns, 1);
        pthread_mutex_unlock(&lock);
        message_ends(HOLDER, holder);
        sem_post(&is_over);
    }
    return 0;
}

/* Whoever comes late to it waits for less than it is held. */
static __attribute__((noinline)) uint64_t wait_for_lock(void)
{
    uint64_t from = now_ns();

    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return now_ns() - from;
}

static char *new_pages(void)
{
    char *pages = mmap(0, NEW_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(pages, NEW_PAGES * PAGE, MADV_NOHUGEPAGE);
    return pages;
}

static void be_preempted(uint64_t ns)
{
    char word = 1;

    asked->spin_ns = ns;
    if (write(to_hog[1], &word, 1) != 1 || read(from_hog[0], &word, 1) != 1) {
        perror("hog");
        exit(1);
    }
}

static void sleep_for(uint64_t ns)
{
    struct timespec pause = { 0, (long)ns };

    nanosleep(&pause, 0);
}

static __attribute__((noinline)) void read_thrashed_lines(uint64_t ns)
{
    uint64_t until = now_ns() + ns;
    unsigned sum = 0;

    while (now_ns() < until)
        for (int i = 0; i < 64; i++)
            sum += (unsigned)lines[(i * 61 % LINES) * LINE];
    lines[0] = (char)sum;
}

static void *thrash(void *cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((int)(size_t)cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (;;) {
        struct timespec pause = { 0, 20000 };

        if (!thrashing)
            nanosleep(&pause, 0);
        else
            for (int i = 0; i < LINES; i++)
                lines[i * LINE]++;
    }
    return 0;
}

static void hog(void)
{
    struct sched_param priority = { .sched_priority = 1 };
    char word;

    prctl(PR_SET_NAME, "hog");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_setscheduler(0, SCHED_FIFO, &priority)) {
        perror("sched_setscheduler");
        _exit(1);
    }
    /* It answers before it works: nobody waits for it, it takes the CPU. */
    while (read(to_hog[0], &word, 1) == 1) {
        if (write(from_hog[1], &word, 1) != 1)
            break;
        spin_for(asked->spin_ns, 1);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    uint64_t messages = argc > 1 ? strtoull(argv[1], 0, 10) : 100000, delayed = argc > 2 ? strtoull(argv[2], 0, 10) : 20;
    uint64_t seed = argc > 3 ? strtoull(argv[3], 0, 10) : 1, x = seed * 2654435761u + 88172645463325252u;
    FILE *file = fopen(argc > 4 ? argv[4] : "truth.csv", "w");
    uint64_t *delay_ns = calloc(messages + 1, sizeof *delay_ns);
    uint8_t *ways = calloc(messages + 1, 1);
    pthread_t thread;
    cpu_set_t set;
    pid_t child;

    if (!file || !delay_ns || !ways || messages < 2 * delayed) {
        fprintf(stderr, "truth: cannot begin\n");
        return 1;
    }
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof set, &set);
    asked = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (asked == MAP_FAILED || pipe(to_hog) || pipe(from_hog)) {
        perror("truth");
        return 1;
    }
    child = fork();
    if (!child)
        hog();
    pthread_create(&thread, 0, thrash, (void *)(size_t)(sysconf(_SC_NPROCESSORS_ONLN) > 1));
    sem_init(&wanted, 0, 0);
    sem_init(&is_held, 0, 0);
    sem_init(&is_over, 0, 0);
    pthread_create(&thread, 0, hold, (void *)(size_t)(sysconf(_SC_NPROCESSORS_ONLN) > 1));
    if (argc > 5)
        serve();
    memset((void *)(size_t)lines, 1, sizeof lines);
    for (uint64_t i = 0; i < delayed; i++) {
        uint64_t id;

        do {
            x = step(x);
            id = 1 + x % messages;
        } while (delay_ns[id] || id < messages / 100);
        x = step(x);
        /* Evenly over the logarithm: 20 us to 2 ms. */
        delay_ns[id] = 20000;
        for (uint64_t parts = x % 1000; parts >= 10; parts -= 10)
            delay_ns[id] += delay_ns[id] * 476 / 10000;
        ways[id] = (uint8_t)(i % WAYS);
    }
    for (uint64_t id = 1; id <= messages; id++) {
        uint64_t number;

        if (!delay_ns[id]) {
            number = message_begins(MAIN);
            x = work(x, 1500);
            message_ends(MAIN, number);
            continue;
        }
        thrashing = ways[id] == 4;
        if (thrashing)
            spin_for(300000, x);
        uint64_t ns = delay_ns[id], from;
        char *pages = ways[id] == 1 ? new_pages() : 0;

        holder = 0;
        if (ways[id] == 5) {
            held_ns = ns;
            sem_post(&wanted);
            sem_wait(&is_held);
        }
        from = now_ns();
        number = message_begins(MAIN);
        x = work(x, 1500);
        switch (ways[id]) {
        case 0: x = spin_for(ns, x); break;
        case 1: touch_new_pages(pages, ns); break;
        case 2: be_preempted(ns); break;
        case 3: sleep_for(ns); break;
        case 4: read_thrashed_lines(ns); break;
        case 5: ns = wait_for_lock();
        }
        message_ends(MAIN, number);
        uint64_t took_ns = now_ns() - from;

        if (ways[id] == 5)
            sem_wait(&is_over);
        fprintf(file, "%llu,%s,%llu,%llu,%llu\n", (unsigned long long)number, way_names[ways[id]], (unsigned long long)ns,
                (unsigned long long)took_ns, (unsigned long long)holder);
        thrashing = 0;
        if (pages)
            munmap(pages, NEW_PAGES * PAGE);
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    free(delay_ns);
    free(ways);
    return fclose(file) || x == 0;
}
