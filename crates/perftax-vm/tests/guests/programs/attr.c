/*
 * attr: how the kernel takes PEBS samples with one bit of the attributes changed, and beside another event.
 * From a base that gets many records to an interrupt (user-mode instructions, precise 2, a fixed period, a watermark), every bit of
 * sample_type and every flag is flipped in turn; each line tells what was changed, and the records and interrupts that came, or the
 * error. What came is counted by the emulated PMU itself (its own registers), not by the kernel.
 * Usage: attr BASE_SAMPLE_TYPE [FLAGS]    hexadecimal; so many bits of the flags, 38 have a meaning in Linux 6.1
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PERIOD 1009
#define TURNS 400000            /* of eight instructions */
#define RING (1 + 512)          /* pages */
#define GENERAL 0xff03ffull     /* registers that a record holds */
#define EMULATION_RECORDS 0x50540010
#define EMULATION_INTERRUPTS 0x50540012

static int msr;

static uint64_t emulated(off_t number)
{
    uint64_t value = 0;

    if (pread(msr, &value, 8, number) != 8)
        perror("msr"), exit(1);
    return value;
}

static void work(void)
{
    uint64_t turns = TURNS, data[2] = { 0 };

    asm volatile("1: addq $1, %%r8\n mov (%1), %%rax\n mov %%r8, 8(%1)\n lea 3(%%rax), %%rdx\n xor %%rdx, %%r10\n nop\n dec %0\n jnz 1b"
                 : "+r"(turns) : "r"(data) : "rax", "rdx", "r8", "r10", "memory");
}

static struct perf_event_attr base(uint64_t sample_type)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = PERF_COUNT_HW_INSTRUCTIONS, .sample_period = PERIOD,
        .sample_type = sample_type, .disabled = 1, .precise_ip = 2, .exclude_kernel = 1, .exclude_hv = 1, .watermark = 1,
        .wakeup_watermark = 1 << 20, .branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY,
        .clockid = 4 /* CLOCK_MONOTONIC_RAW */, .sample_regs_user = GENERAL, .sample_regs_intr = GENERAL, .sample_stack_user = 64,
    };
    return attr;
}

/* The flags are one word, behind read_format. */
static uint64_t *flags(struct perf_event_attr *attr)
{
    return (uint64_t *)(&attr->read_format + 1);
}

static int start(struct perf_event_attr *attr, void **ring)
{
    int fd = syscall(SYS_perf_event_open, attr, 0, 0, -1, 0);

    *ring = MAP_FAILED;
    if (fd < 0)
        return -errno;
    *ring = mmap(0, RING * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*ring == MAP_FAILED) {
        int error = errno;

        close(fd);
        return -error;
    }
    return fd;
}

static void stop(int fd, void *ring)
{
    if (fd >= 0) {
        munmap(ring, RING * 4096);
        close(fd);
    }
}

/* One or two events; NAME BIT records interrupts, or NAME BIT error NUMBER. */
static void observe(const char *name, int bit, struct perf_event_attr *attr, struct perf_event_attr *other)
{
    void *ring, *other_ring;
    int fd = start(attr, &ring), other_fd = other ? start(other, &other_ring) : -1;
    uint64_t records, interrupts;

    if (fd < 0 || (other && other_fd < 0)) {
        printf("%s %d error %d\n", name, bit, fd < 0 ? -fd : -other_fd);
    } else {
        records = emulated(EMULATION_RECORDS);
        interrupts = emulated(EMULATION_INTERRUPTS);
        ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
        if (other)
            ioctl(other_fd, PERF_EVENT_IOC_ENABLE, 0);
        work();
        /* Before anything is stopped: that reads the buffer, too. */
        records = emulated(EMULATION_RECORDS) - records;
        interrupts = emulated(EMULATION_INTERRUPTS) - interrupts;
        printf("%s %d %lu %lu\n", name, bit, records, interrupts);
        if (other)
            ioctl(other_fd, PERF_EVENT_IOC_DISABLE, 0);
        ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    }
    stop(fd, ring);
    stop(other_fd, other_ring);
}

int main(int argc, char **argv)
{
    uint64_t sample_type = strtoull(argc > 1 ? argv[1] : "0", 0, 16);
    struct perf_event_attr attr, other;
    int bit, bits = argc > 2 ? atoi(argv[2]) : 38;

    msr = open("/dev/cpu/0/msr", O_RDONLY);
    attr = base(sample_type);
    observe("base", 0, &attr, 0);
    for (bit = 0; bit < 25; bit++) {
        attr = base(sample_type ^ 1ull << bit);
        observe("sample", bit, &attr, 0);
    }
    for (bit = 0; bit < bits; bit++) {
        attr = base(sample_type);
        *flags(&attr) ^= 1ull << bit;
        observe("flag", bit, &attr, 0);
    }
    /* Beside another event: one more of the same, one bit changed each; then one that only counts, one without PEBS. */
    for (bit = 0; bit < 25; bit++) {
        attr = base(sample_type);
        other = base(sample_type ^ 1ull << bit);
        observe("beside", bit, &attr, &other);
    }
    attr = base(sample_type);
    other = base(sample_type);
    other.precise_ip = 0;
    observe("beside-ordinary", 0, &attr, &other);
    other.sample_period = 0;
    observe("beside-counting", 0, &attr, &other);
    other = base(sample_type);
    other.freq = 1;
    observe("beside-frequency", 0, &attr, &other);
    return 0;
}
