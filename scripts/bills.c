/* What scripts/bills records: one kind of work a word. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile unsigned long watched;
static volatile unsigned long sink;
static long times, between, deep, frame;

__attribute__((noinline)) static unsigned long spin(long steps)
{
    unsigned long x = 1;
    while (steps-- > 0)
        x = (x * 6364136223846793005 + 1442695040888963407) ^ (x >> 33);
    /* Else what is the same each time is done once. */
    __asm__ volatile("" : "+r"(x) : : "memory");
    return x;
}

/* Half of a second-level cache, at random. */
static void chase(void)
{
    enum { lines = 4096 };
    static struct { unsigned next, rest[15]; } line[lines];
    unsigned order[lines], at = 0;
    for (unsigned i = 0; i < lines; i++)
        order[i] = i;
    for (unsigned i = lines - 1; i > 0; i--) {
        unsigned j = rand() % (i + 1), kept = order[i];
        order[i] = order[j], order[j] = kept;
    }
    for (unsigned i = 0; i < lines; i++)
        line[order[i]].next = order[(i + 1) % lines];
    for (long i = 0; i < times; i++)
        at = line[at].next;
    sink = at;
}

/* A fault a page, with work between. */
static void touch(long pages)
{
    enum { most = 1024 };
    for (long done = 0; done < pages; done += most) {
        long size = (pages - done < most ? pages - done : most) * 4096;
        char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || madvise(memory, size, MADV_NOHUGEPAGE))
            exit(1);
        for (long at = 0; at < size; at += 4096) {
            memory[at] = 1;
            sink = spin(between);
        }
        munmap(memory, size);
    }
}
static void touch_all(void) { touch(times); }

/* A fault a page, every other one the kernel's. */
static void touch_twice(void)
{
    int zero = open("/dev/zero", O_RDONLY);
    for (long done = 0; done < times; done += 1024) {
        char *memory = mmap(0, 1024 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || madvise(memory, 1024 * 4096, MADV_NOHUGEPAGE))
            exit(1);
        for (long page = 0; page < 1024; page++) {
            if (page % 2)
                memory[page * 4096] = 1;
            else if (read(zero, memory + page * 4096, 8) != 8)
                exit(1);
            sink = spin(between);
        }
        munmap(memory, 1024 * 4096);
    }
}

/* Below so many frames of such a size. */
__attribute__((noinline)) static void under(long frames, void (*what)(void))
{
    volatile char room[frame];
    memset((char *)room, 1, frame);
    if (frames > 0)
        under(frames - 1, what);
    else
        what();
    sink = room[0];
}

static void spin_all(void) { sink = spin(times); }

/* A part of it in the kernel. */
static void mixed(void)
{
    static char memory[65536];
    int zero = open("/dev/zero", O_RDONLY);
    for (long i = 0; i < times; i++) {
        sink = spin(between);
        if (read(zero, memory, sizeof memory) < 0)
            exit(1);
    }
}

static void calls(void)
{
    for (long i = 0; i < times; i++) {
        syscall(SYS_getppid);
        sink = spin(between);
    }
}

/* As many reads as writes. */
static void copies(void)
{
    static char memory[512];
    int from = open("/dev/zero", O_RDONLY), to = open("/dev/null", O_WRONLY);
    for (long i = 0; i < times; i++) {
        if (read(from, memory, sizeof memory) < 0 || write(to, memory, sizeof memory) < 0)
            exit(1);
        sink = spin(between);
    }
}

/* Two processes in turn on one CPU. */
static void pong(void)
{
    int there[2], back[2];
    cpu_set_t one;
    char byte = 0;
    CPU_ZERO(&one);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
    if (sched_setaffinity(0, sizeof one, &one) || pipe(there) || pipe(back))
        exit(1);
    pid_t child = fork();
    for (long i = 0; i < times; i++) {
        if (child == 0 && read(there[0], &byte, 1) != 1)
            exit(1);
        sink = spin(between);
        if (write(child ? there[1] : back[1], &byte, 1) != 1 || (child && read(back[0], &byte, 1) != 1))
            exit(1);
    }
    if (child == 0)
        exit(0);
    wait(0);
}

static void writes(void)
{
    for (long i = 0; i < times; i++) {
        watched = i;
        sink = spin(between);
    }
}

static void *thread(void *of)
{
    touch((long)of);
    return 0;
}
/* So many threads at once. */
static void threads(void)
{
    pthread_t each[1024];
    for (long i = 0; i < deep; i++)
        if (pthread_create(&each[i], 0, thread, (void *)times))
            exit(1);
    for (long i = 0; i < deep; i++)
        pthread_join(each[i], 0);
}
/* So many threads, one after another. */
static void churn(void)
{
    for (long i = 0; i < deep; i++) {
        pthread_t one;
        if (pthread_create(&one, 0, thread, (void *)times) || pthread_join(one, 0))
            exit(1);
    }
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int count, char **words)
{
    static const struct { const char *name; void (*does)(void); } known[] = {
        { "spin", spin_all }, { "chase", chase }, { "touch", touch_all }, { "touch-twice", touch_twice }, { "mixed", mixed }, { "calls", calls },
        { "copies", copies }, { "pong", pong }, { "writes", writes }, { "threads", threads }, { "churn", churn },
    };
    double began = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
    times = count > 2 ? atol(words[2]) : 0;
    between = count > 3 ? atol(words[3]) : 0;
    deep = count > 4 ? atol(words[4]) : 0;
    frame = count > 5 ? atol(words[5]) : 16;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (count > 1 && !strcmp(words[1], known[i].name)) {
            int is_of_threads = known[i].does == threads || known[i].does == churn;
            under(is_of_threads ? 0 : deep, known[i].does);
            /* What it took, where nobody else can tell: none of its children are sampled. */
            if (getenv("TOOK")) {
                FILE *to = fopen(getenv("TOOK"), "w");
                fprintf(to, "%.9f %.9f\n", now(CLOCK_MONOTONIC) - began, now(CLOCK_PROCESS_CPUTIME_ID) - used);
                return fclose(to) != 0;
            }
            return 0;
        }
    return 2;
}
