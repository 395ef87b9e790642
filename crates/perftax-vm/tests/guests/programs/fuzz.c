/*
 * fuzz SECONDS SEED: everything that /dev/perftax can be asked, in absurd and in nearly right ways, by processes that are killed at
 * random moments. Prints what was tried and how often it was granted.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perftax_ioctl.h"

enum { OPEN, START, STOP, READ, INFO, WORK, UNKNOWN, MAP, UNMAP, POLL, CLOSE, KINDS };
static const char *const names[KINDS] = { "open", "start", "stop", "read", "info", "work", "unknown", "map", "unmap", "poll", "close" };

struct tally {
    uint64_t tried[KINDS], granted[KINDS];
};

static uint64_t state;

static uint64_t any(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t below(uint64_t limit)
{
    return any() % limit;
}

/* Small, round, just beside a power of two, or anything. */
static uint64_t number(void)
{
    switch (below(5)) {
    case 0: return below(5);
    case 1: return below(100000);
    case 2: return 4096 * below(1000);
    case 3: return (1ull << below(64)) + below(3) - 1;
    default: return any();
    }
}

static void fill(void *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)memory)[i] = any();
}

/* Nine in ten as it should be, then perhaps with a byte or a field changed. */
static void make_start(struct perftax_start *start)
{
    if (below(10) == 0) {
        fill(start, sizeof(*start));
        return;
    }
    *start = (struct perftax_start){ .version = PERFTAX_VERSION, .events = 1 + below(4), .buffer_bytes = 1 + below(300000) };
    for (unsigned i = 0; i < start->events; i++) {
        int samples = below(3) > 0;

        start->event[i] = (struct perftax_event){ .select = below(2) ? 0xc0 : any() & 0xffff, .period = samples ? 200 + below(20000) : 0,
                                                  .flags = (samples ? PERFTAX_EVENT_PEBS : 0) | (1 + below(3)) };
    }
    if (below(3) == 0) {
        start->flags = PERFTAX_START_COPY;
        start->ring_bytes = 4096 * (1 + below(64));
    } else if (below(4) == 0) {
        *start = (struct perftax_start){ .version = PERFTAX_VERSION, .flags = PERFTAX_START_RIDE, .threshold = 1 + below(400) };
    }
    if (below(4) == 0)
        start->threshold = number();
    if (below(8) == 0)
        start->buffer_bytes = number() & 0x7ffffff;
    if (below(8) == 0)
        start->flags = any() & 0xf;
    if (below(8) == 0)
        start->groups = number();
    if (below(8) == 0)
        ((uint8_t *)start)[below(sizeof(*start))] = any();
}

/* A page that is not there, one that cannot be written, or the object. */
static void *place(void *object)
{
    static void *protected;

    if (!protected)
        protected = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    switch (below(16)) {
    case 0: return (void *)(uintptr_t)number();
    case 1: return protected;
    default: return object;
    }
}

static void user(struct tally *tally)
{
    int device[2] = { -1, -1 };
    struct { void *at; size_t bytes; } mapped[8] = { 0 };
    size_t ring = 0;

    for (;;) {
        int kind = below(KINDS), *fd = &device[below(2)], slot = below(8), granted = 0;
        struct perftax_start start;
        struct perftax_read core;
        struct perftax_info info;
        struct perftax_work work;

        switch (kind) {
        case OPEN:
            if (*fd < 0)
                *fd = open("/dev/perftax", O_RDWR | O_CLOEXEC);
            granted = *fd >= 0;
            break;
        case START:
            make_start(&start);
            granted = !ioctl(*fd, PERFTAX_IOC_START, place(&start));
            if (granted)
                ring = start.ring_bytes;
            for (volatile int i = granted ? below(1000000) : 0; i > 0; i--)
                ;
            break;
        case STOP:
            granted = !ioctl(*fd, PERFTAX_IOC_STOP, number());
            break;
        case READ:
            fill(&core, sizeof(core));
            if (below(8))
                core.version = PERFTAX_VERSION, core.cpu = below(4);
            granted = !ioctl(*fd, PERFTAX_IOC_READ, place(&core));
            break;
        case INFO:
            granted = !ioctl(*fd, PERFTAX_IOC_INFO, place(&info));
            break;
        case WORK:
            work = (struct perftax_work){ .version = PERFTAX_VERSION, .operations = below(50) ? below(100000) : any() };
            granted = !ioctl(*fd, PERFTAX_IOC_WORK, place(&work));
            break;
        case UNKNOWN:
            granted = !ioctl(*fd, below(2) ? _IOC(below(4), PERFTAX_IOC_MAGIC, below(9), number() & 0x3fff) : any(), place(&start));
            break;
        case MAP:
            mapped[slot].bytes = ring && below(4) ? 4096 + ring : below(4) ? 4096 * (1 + below(65)) : number();
            mapped[slot].at = mmap(0, mapped[slot].bytes, below(2) ? PROT_READ | PROT_WRITE : any() & 7, below(4) ? MAP_SHARED : MAP_PRIVATE, *fd,
                                   below(4) ? (off_t)PERFTAX_RING(below(3)) : (off_t)(number() & ~4095ull));
            granted = mapped[slot].at != MAP_FAILED;
            if (!granted)
                mapped[slot].at = 0;
            break;
        case UNMAP:
            /* First the ring's page is filled with what a hostile reader would write. */
            if (mapped[slot].at) {
                int memory[2];

                if (!pipe(memory)) {
                    /* By a system call, which fails where a write of one's own would be a fault. */
                    uint64_t words[6] = { any(), any(), any(), any(), any(), any() };

                    if (write(memory[1], words, sizeof(words)) > 0)
                        granted = read(memory[0], mapped[slot].at, sizeof(words)) > 0;
                    close(memory[0]);
                    close(memory[1]);
                }
                if (below(2)) {
                    munmap(mapped[slot].at, mapped[slot].bytes);
                    mapped[slot].at = 0;
                }
            }
            break;
        case POLL: {
            struct pollfd waiting = { .fd = *fd, .events = any() };

            granted = poll(&waiting, 1, below(3)) > 0;
            break;
        }
        case CLOSE:
            if (*fd >= 0 && below(3) == 0)
                granted = !close(*fd), *fd = -1;
            break;
        }
        __atomic_add_fetch(&tally->tried[kind], 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&tally->granted[kind], granted, __ATOMIC_RELAXED);
    }
}

int main(int argc, char **argv)
{
    time_t end = time(0) + (argc > 1 ? atoi(argv[1]) : 10);
    struct tally *tally = mmap(0, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int killed = 0, died = 0;

    state = 0x9e3779b97f4a7c15 ^ (argc > 2 ? strtoull(argv[2], 0, 0) : 1) * 0xbf58476d1ce4e5b9;
    while (time(0) < end) {
        pid_t users[3];

        for (int i = 0; i < 3; i++) {
            any();
            users[i] = fork();
            if (!users[i]) {
                state ^= (uint64_t)i << 40;
                user(tally);
            }
        }
        usleep(below(300000));
        for (int i = 0; i < 3; i++) {
            int status;

            if (users[i] < 0)
                continue;
            kill(users[i], SIGKILL);
            waitpid(users[i], &status, 0);
            killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            died += !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
    }
    printf("killed %d died %d", killed, died);
    for (int i = 0; i < KINDS; i++)
        printf(" %s %lu/%lu", names[i], tally->granted[i], tally->tried[i]);
    printf("\n");
    return 0;
}
