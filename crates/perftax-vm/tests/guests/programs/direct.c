/*
 * perftax.ko from user space. A loop of eight instructions a turn is what is sampled.
 *
 *   direct count PERIOD BUFFER_BYTES TURNS [THRESHOLD [small|huge]]
 *       records, interrupts, records to an interrupt, instructions counted meanwhile, spurious interrupts, overruns, ns without and
 *       with sampling, cycles in the handler, smallest page, why it ended early
 *   direct copy PERIOD BUFFER_BYTES TURNS RING_BYTES [THRESHOLD [GROUPS]]
 *       records written, lost, read from the ring, those whose instruction lies in the loop, of those such whose r13 is a little less than
 *       the one's before, wakings
 *   direct ride THRESHOLD COMMAND...    every CPU's: records at interrupts, interrupts, times lowered
 *   direct work OPERATIONS              operations done, locked loads and instructions that the kernel's counters saw
 *   direct info
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perftax_ioctl.h"

#define INSTRUCTIONS 0x00c0
#define LOCK_LOADS 0x21d0
#define EACH_CPU(cpu) for (cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++)

static int device;
static struct perftax_start start = { .version = PERFTAX_VERSION };

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t number(char **argv, int i)
{
    while (i-- > 0)
        if (!*argv++)
            return 0;
    return *argv ? strtoull(*argv, 0, 0) : 0;
}

static int failed(const char *what)
{
    printf("%s %s\n", what, strerror(errno));
    return 1;
}

/* r13 counts the turns down. */
static uint64_t timed(uint64_t turns)
{
    uint64_t data[2] = { 0 }, from = now();

    asm volatile("mov %0, %%r13\n.globl loop_start\nloop_start: addq $1, %%r8\n mov (%1), %%rax\n mov %%r8, 8(%1)\n lea 3(%%rax), %%rdx\n"
                 "xor %%rdx, %%r10\n nop\n dec %%r13\n jnz loop_start\n.globl loop_end\nloop_end:"
                 : : "r"(turns), "r"(data) : "rax", "rdx", "r8", "r10", "r13", "memory");
    return now() - from;
}

static void sample_loop(uint64_t period)
{
    start.events = 2;
    start.event[0] = (struct perftax_event){ .select = INSTRUCTIONS, .period = period, .flags = PERFTAX_EVENT_USER | PERFTAX_EVENT_PEBS };
    start.event[1] = (struct perftax_event){ .select = INSTRUCTIONS, .flags = PERFTAX_EVENT_USER };
    if (getenv("KERNEL"))
        start.event[0].flags |= PERFTAX_EVENT_KERNEL;
}

static int reading(struct perftax_read *read, int cpu)
{
    *read = (struct perftax_read){ .version = PERFTAX_VERSION, .cpu = cpu };
    return ioctl(device, PERFTAX_IOC_READ, read);
}

/* All CPUs together. */
static int reading_all(struct perftax_read *all)
{
    struct perftax_read read;
    int cpu, none = 1;

    *all = (struct perftax_read){ 0 };
    EACH_CPU(cpu) {
        if (reading(&read, cpu))
            continue;
        none = 0;
        all->records += read.records;
        all->interrupts += read.interrupts;
        all->spurious += read.spurious;
        all->overruns += read.overruns;
        all->handler_tsc += read.handler_tsc;
        all->count[1] += read.count[1];
        all->flags |= read.flags;
        all->capacity = read.capacity;
        all->page_bytes = read.page_bytes;
    }
    return none;
}

static int count(char **argv)
{
    uint64_t turns = number(argv, 2), off, on;
    struct perftax_read read;

    sample_loop(number(argv, 0));
    start.buffer_bytes = number(argv, 1);
    start.threshold = number(argv, 3);
    if (argv[2] && argv[3] && argv[4])
        start.flags |= strcmp(argv[4], "huge") ? PERFTAX_START_SMALL : PERFTAX_START_HUGE;
    off = timed(turns);
    if (ioctl(device, PERFTAX_IOC_START, &start))
        return failed("refused");
    on = timed(turns);
    if (getenv("CRASH"))
        abort();
    if (ioctl(device, PERFTAX_IOC_STOP) || reading_all(&read))
        return failed("failed");
    printf("done %llu %llu %llu %llu %llu %llu %lu %lu %llu %llu %u\n", read.records, read.interrupts, read.capacity, read.count[1],
           read.spurious, read.overruns, off, on, read.handler_tsc, read.page_bytes, read.flags);
    return 0;
}

static int copy(char **argv)
{
    extern char loop_start[], loop_end[];
    uint64_t period = number(argv, 0), turns = number(argv, 2), got = 0, inside = 0, tagged = 0, wakings = 0, at, before = turns + 1;
    struct pollfd waiting = { .fd = device, .events = POLLIN };
    struct perftax_ring *ring;
    struct perftax_read read;
    struct perftax_info info = { 0 };
    int child;

    sample_loop(period);
    start.buffer_bytes = number(argv, 1);
    start.flags = PERFTAX_START_COPY;
    start.ring_bytes = number(argv, 3);
    start.threshold = number(argv, 4);
    start.groups = number(argv, 5);
    if (ioctl(device, PERFTAX_IOC_START, &start) || ioctl(device, PERFTAX_IOC_INFO, &info))
        return failed("refused");
    ring = mmap(0, 4096 + start.ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, device, PERFTAX_RING(0));
    if (ring == MAP_FAILED)
        return failed("no ring");
    child = fork();
    if (!child) {
        timed(turns);
        _exit(0);
    }
    for (int ended = 0; !ended;) {
        wakings += !getenv("LATE") && poll(&waiting, 1, 10) > 0;
        ended = waitpid(child, 0, WNOHANG) == child;
        if (ended && ioctl(device, PERFTAX_IOC_STOP))
            return failed("failed");
        if (getenv("LATE") && !ended)
            continue;
        for (at = ring->tail; at < __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE); at++, got++) {
            const char *record = (char *)ring + 4096 + at % ring->capacity * ring->record_bytes;
            /* Fixed records: RFLAGS, RIP, then RAX to RDI, RBP, RSP, R8 to R15. Adaptive ones: size, RIP, ..., then the same order. */
            const uint64_t *field = (const uint64_t *)record;
            uint64_t ip = field[1], r13 = field[info.adaptive ? 4 + (start.groups & 1 ? 4 : 0) + 15 : 15];

            if (ip < (uintptr_t)loop_start || ip > (uintptr_t)loop_end)
                continue;
            inside++;
            tagged += r13 < before && before - r13 <= 2 * period;
            before = r13;
        }
        __atomic_store_n(&ring->tail, at, __ATOMIC_RELEASE);
    }
    if (reading(&read, 0))
        return failed("failed");
    printf("copied %llu %llu %lu %lu %lu %lu\n", read.records, read.lost, got, inside, tagged, wakings);
    return 0;
}

static int ride(char **argv)
{
    struct perftax_read read;
    int child, cpu;

    start.flags = PERFTAX_START_RIDE;
    start.threshold = number(argv, 0);
    if (ioctl(device, PERFTAX_IOC_START, &start))
        return failed("refused");
    child = fork();
    if (!child) {
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    waitpid(child, 0, 0);
    if (ioctl(device, PERFTAX_IOC_STOP))
        return failed("failed");
    EACH_CPU(cpu)
        if (!reading(&read, cpu))
            printf("rode %d %llu %llu %llu %u\n", cpu, read.records, read.interrupts, read.lowered, read.record_bytes);
    return 0;
}

static int work(char **argv)
{
    struct perftax_work work = { .version = PERFTAX_VERSION, .operations = number(argv, 0) };
    uint64_t locked = 0, instructions = 0;
    struct perftax_read read;
    int cpu;

    start.events = 2;
    start.event[0] = (struct perftax_event){ .select = LOCK_LOADS, .flags = PERFTAX_EVENT_KERNEL };
    start.event[1] = (struct perftax_event){ .select = INSTRUCTIONS, .flags = PERFTAX_EVENT_KERNEL };
    start.buffer_bytes = 4096;
    if (ioctl(device, PERFTAX_IOC_START, &start))
        return failed("refused");
    if (ioctl(device, PERFTAX_IOC_WORK, &work) || ioctl(device, PERFTAX_IOC_STOP))
        return failed("failed");
    EACH_CPU(cpu)
        if (!reading(&read, cpu))
            locked += read.count[0], instructions += read.count[1];
    printf("worked %llu %lu %lu %llu\n", work.operations, locked, instructions, work.elapsed_ns);
    return 0;
}

static int info(char **argv)
{
    struct perftax_info info = { 0 };

    (void)argv;
    if (ioctl(device, PERFTAX_IOC_INFO, &info))
        return failed("failed");
    printf("info %u %u %u %u %u %u\n", info.version, info.own_buffer, info.counters, info.record_format, info.record_bytes, info.adaptive);
    return 0;
}

/* Another user, with CAP_PERFMON and nothing else. */
static int keep_perfmon_alone(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { 0 }, { .effective = 1u << (38 - 32), .permitted = 1u << (38 - 32) } };

    return prctl(PR_SET_KEEPCAPS, 1) || setuid(1000) || syscall(SYS_capset, &header, data);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(char **argv);
    } modes[] = { { "count", count }, { "copy", copy }, { "ride", ride }, { "work", work }, { "info", info } };

    setvbuf(stdout, 0, _IOLBF, 0);
    if (getenv("PERFMON_ALONE") && keep_perfmon_alone())
        return failed("no capability");
    device = open("/dev/perftax", O_RDWR | O_CLOEXEC);
    if (device < 0)
        return failed("refused");
    if (getenv("WRONG_VERSION"))
        start.version++;
    for (unsigned i = 0; argc > 1 && i < sizeof(modes) / sizeof(*modes); i++)
        if (!strcmp(argv[1], modes[i].name))
            return modes[i].run(argv + 2);
    return 2;
}
