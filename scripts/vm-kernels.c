// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls into perf_event, each between two system calls that nothing else makes: a trace of the kernel's instructions is cut there (scripts/vm-kernels).
   Usage: vm-kernels; standard output has one line for each pair of marks, in their order: the call's name. */
#define _GNU_SOURCE
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM = 3, REPETITIONS = 9, EVENTS_MAX = 16, PAGE = 4096, RING_PAGES = 128, NAMES = 1 << 16 };
#define NEVER (1ULL << 40)

static char names[NAMES];
static size_t named;
static volatile char touched[PAGE];

static inline long call(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return result;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void name(const char *text)
{
    size_t left = NAMES - named;
    int written = snprintf(names + named, left, "%s\n", text);
    if ((size_t)written >= left)
        die("names");
    named += written;
}

/* What is between the marks: the end of the first mark's call, the operation, the start of the second one's. */
#define MARKED(nth, text, operation)                                        \
    do {                                                                    \
        if ((nth) >= WARM) {                                                \
            name(text);                                                     \
            call(SYS_sched_get_priority_max, 0, 0, 0, 0, 0);                \
            operation;                                                      \
            call(SYS_sched_get_priority_min, 0, 0, 0, 0, 0);                \
        } else {                                                            \
            operation;                                                      \
        }                                                                   \
    } while (0)

#define REPEAT(nth) for (int nth = 0; nth < WARM + REPETITIONS; nth++)

/* The events of `perftax selfcost`, in its order. */
static const unsigned long long software[] = {PERF_COUNT_SW_PAGE_FAULTS,     PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS,
                                              PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_COUNT_SW_PAGE_FAULTS_MAJ,  PERF_COUNT_SW_DUMMY,
                                              PERF_COUNT_SW_ALIGNMENT_FAULTS, PERF_COUNT_SW_EMULATION_FAULTS};
static const unsigned long long hardware[] = {PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
                                              PERF_COUNT_HW_BRANCH_MISSES};

static struct perf_event_attr attributes(int is_hardware, int nth)
{
    struct perf_event_attr attr = {0};
    attr.size = sizeof attr;
    attr.type = is_hardware ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE;
    attr.config = is_hardware ? hardware[nth % 4] : software[nth % 8];
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    attr.disabled = 1;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    return attr;
}

static int opened(struct perf_event_attr *attr, pid_t pid, int leader)
{
    int fd = call(SYS_perf_event_open, (long)attr, pid, -1, leader, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        die("perf_event_open");
    return fd;
}

static void open_all(int *fds, int is_hardware, int count, int is_group)
{
    for (int nth = 0; nth < count; nth++) {
        struct perf_event_attr attr = attributes(is_hardware, nth);
        if (is_group) {
            attr.read_format |= PERF_FORMAT_GROUP;
            attr.disabled = nth == 0;
        }
        fds[nth] = opened(&attr, 0, is_group && nth > 0 ? fds[0] : -1);
    }
}

static void close_all(const int *fds, int count)
{
    for (int nth = 0; nth < count; nth++)
        close(fds[nth]);
}

static void each(const int *fds, int count, unsigned long command)
{
    for (int nth = 0; nth < count; nth++)
        call(SYS_ioctl, fds[nth], command, 0, 0, 0);
}

static void read_each(const int *fds, int count)
{
    unsigned long long words[3 + EVENTS_MAX];
    for (int nth = 0; nth < count; nth++)
        call(SYS_read, fds[nth], (long)words, sizeof words, 0, 0);
}

static void start_read_stop(int is_hardware, int count, int is_group)
{
    char text[3][96];
    const char *verbs[] = {"start", "read", "stop"}, *set = is_hardware ? "hardware" : "software";
    int fds[EVENTS_MAX], asked = is_group ? 1 : count;
    for (int nth = 0; nth < 3; nth++)
        snprintf(text[nth], sizeof text[nth], "%s, %s, %d %s", verbs[nth], is_group ? "group" : "singles", count, set);
    open_all(fds, is_hardware, count, is_group);
    REPEAT(nth) {
        MARKED(nth, text[0], each(fds, asked, PERF_EVENT_IOC_ENABLE));
        MARKED(nth, text[1], read_each(fds, asked));
        MARKED(nth, text[2], each(fds, asked, PERF_EVENT_IOC_DISABLE));
    }
    close_all(fds, count);
}

static void by_prctl(int is_hardware, int count)
{
    char text[2][96];
    int fds[EVENTS_MAX];
    for (int nth = 0; nth < 2; nth++)
        snprintf(text[nth], sizeof text[nth], "%s, prctl, %d %s", nth ? "stop" : "start", count, is_hardware ? "hardware" : "software");
    open_all(fds, is_hardware, count, 0);
    REPEAT(nth) {
        MARKED(nth, text[0], call(SYS_prctl, PR_TASK_PERF_EVENTS_ENABLE, 0, 0, 0, 0));
        MARKED(nth, text[1], call(SYS_prctl, PR_TASK_PERF_EVENTS_DISABLE, 0, 0, 0, 0));
    }
    close_all(fds, count);
}

/* Another event stays open, as in selfcost: the first one switches perf's hooks on in the whole kernel. */
static void open_close(int is_hardware)
{
    char text[2][96];
    int standing, fd = -1;
    struct perf_event_attr attr = attributes(is_hardware, 0);
    for (int nth = 0; nth < 2; nth++)
        snprintf(text[nth], sizeof text[nth], "%s, 1 %s", nth ? "close" : "open", is_hardware ? "hardware" : "software");
    open_all(&standing, is_hardware, 1, 0);
    REPEAT(nth) {
        MARKED(nth, text[0], fd = opened(&attr, 0, -1));
        MARKED(nth, text[1], call(SYS_close, fd, 0, 0, 0, 0));
    }
    close(standing);
}

static void map_unmap(int pages, const char *map, const char *unmap)
{
    struct perf_event_attr attr = attributes(1, 0);
    long bytes = (1 + pages) * (long)PAGE;
    REPEAT(nth) {
        int fd = opened(&attr, 0, -1);
        void *ring = NULL;
        MARKED(nth, map, ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        if (ring == MAP_FAILED)
            die("mmap");
        MARKED(nth, unmap, call(SYS_munmap, (long)ring, bytes, 0, 0, 0));
        close(fd);
    }
}

static void other_calls(int is_hardware)
{
    const char *set = is_hardware ? "hardware" : "software";
    char text[4][96];
    static const char *calls[] = {"ioctl RESET", "ioctl ID", "ioctl PERIOD", "read() into an untouched page"};
    struct perf_event_attr attr = attributes(is_hardware, 0);
    unsigned long long id, period = NEVER;
    attr.sample_period = NEVER;
    int fd = opened(&attr, 0, -1);
    for (int nth = 0; nth < 4; nth++)
        snprintf(text[nth], sizeof text[nth], "%s, 1 %s", calls[nth], set);
    REPEAT(nth) {
        MARKED(nth, text[0], call(SYS_ioctl, fd, PERF_EVENT_IOC_RESET, 0, 0, 0));
        MARKED(nth, text[1], call(SYS_ioctl, fd, PERF_EVENT_IOC_ID, (long)&id, 0, 0));
        period++;
        MARKED(nth, text[2], call(SYS_ioctl, fd, PERF_EVENT_IOC_PERIOD, (long)&period, 0, 0));
        void *untouched = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MARKED(nth, text[3], call(SYS_read, fd, (long)untouched, 24, 0, 0));
        munmap(untouched, PAGE);
    }
    close(fd);
}

static void breakpoint(void)
{
    static unsigned long watched[2];
    struct perf_event_attr attr = attributes(0, 0), other;
    attr.type = PERF_TYPE_BREAKPOINT;
    attr.config = 0;
    attr.bp_type = HW_BREAKPOINT_W;
    attr.bp_addr = (unsigned long)&watched[0];
    attr.bp_len = HW_BREAKPOINT_LEN_8;
    other = attr;
    other.bp_addr = (unsigned long)&watched[1];
    int standing, fd = -1;
    open_all(&standing, 0, 1, 0);
    REPEAT(nth) {
        MARKED(nth, "open, a breakpoint", fd = opened(&attr, 0, -1));
        MARKED(nth, "ioctl MODIFY_ATTRIBUTES, a breakpoint", call(SYS_ioctl, fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, (long)&other, 0, 0));
        MARKED(nth, "close, a breakpoint", call(SYS_close, fd, 0, 0, 0, 0));
    }
    close(standing);
}

enum watching { PER_TASK, INHERITED, SAMPLING };

/* Two processes that pass a byte to each other while events watch them. Two switches between the marks. */
static void switches(int is_hardware, int count, enum watching watching)
{
    static const char *how[] = {"per task", "inherited", "sampling, per task"};
    char text[96], byte = 0;
    int there[2], back[2], fds[2 * EVENTS_MAX];
    if (pipe(there) || pipe(back))
        die("pipe");
    if (count)
        snprintf(text, sizeof text, "two switches, %d %s, %s", count, is_hardware ? "hardware" : "software", how[watching]);
    else
        snprintf(text, sizeof text, "two switches, no event");
    int opened_before = watching == INHERITED ? count : 0;
    for (int nth = 0; nth < opened_before; nth++) {
        struct perf_event_attr attr = attributes(is_hardware, nth);
        attr.inherit = 1;
        attr.disabled = 0;
        fds[nth] = opened(&attr, 0, -1);
    }
    pid_t child = fork();
    if (child == 0) {
        close(there[1]);
        while (call(SYS_read, there[0], (long)&byte, 1, 0, 0) == 1)
            call(SYS_write, back[1], (long)&byte, 1, 0, 0);
        _exit(0);
    }
    int events = watching == INHERITED ? count : 2 * count;
    for (int nth = opened_before; nth < events; nth++) {
        struct perf_event_attr attr = attributes(is_hardware, nth / 2);
        attr.disabled = 0;
        if (watching == SAMPLING) {
            attr.sample_period = 1000003;
            attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
        }
        fds[nth] = opened(&attr, nth % 2 ? child : 0, -1);
    }
    REPEAT(nth)
        MARKED(nth, text, {
            call(SYS_write, there[1], (long)&byte, 1, 0, 0);
            call(SYS_read, back[0], (long)&byte, 1, 0, 0);
        });
    close_all(fds, events);
    close(there[1]);
    waitpid(child, NULL, 0);
    close(there[0]);
    close(back[0]);
    close(back[1]);
}

static void *nothing(void *of) { return of; }

/* A thread that is created and joined; events are inherited by it. */
static void threads(int is_hardware, int count)
{
    char text[96];
    int fds[EVENTS_MAX];
    snprintf(text, sizeof text, count ? "a thread, %d %s, inherited" : "a thread, no event", count, is_hardware ? "hardware" : "software");
    for (int nth = 0; nth < count; nth++) {
        struct perf_event_attr attr = attributes(is_hardware, nth);
        attr.inherit = 1;
        attr.disabled = 0;
        fds[nth] = opened(&attr, 0, -1);
    }
    REPEAT(nth) {
        pthread_t thread;
        MARKED(nth, text, {
            if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
                die("pthread_create");
        });
    }
    close_all(fds, count);
}

__attribute__((noinline)) static void turns(long count)
{
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(count));
}

/* An event that samples instructions of this program, with a ring that holds everything. */
static int sampling(unsigned long long period, int precise, void **ring)
{
    struct perf_event_attr attr = attributes(1, 0);
    attr.sample_period = period;
    attr.precise_ip = precise;
    attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    attr.sample_id_all = 1;
    attr.watermark = 1;
    attr.wakeup_watermark = RING_PAGES * PAGE / 2;
    int fd = opened(&attr, 0, -1);
    *ring = mmap(NULL, (1 + RING_PAGES) * (long)PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*ring == MAP_FAILED)
        die("mmap");
    return fd;
}

/* Interrupts come between the marks: one each 1000 instructions, or none. */
static void interrupts(unsigned long long period, const char *text)
{
    void *ring;
    int fd = sampling(period, 0, &ring);
    REPEAT(nth) {
        call(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0, 0, 0);
        MARKED(nth, text, turns(50000));
        call(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0, 0, 0);
    }
    munmap(ring, (1 + RING_PAGES) * (long)PAGE);
    close(fd);
}

/* Records that a buffer holds are read when their event stops: that is between the marks. */
static void records(int count)
{
    char text[96];
    void *ring;
    int fd = sampling(1000, 3, &ring);
    snprintf(text, sizeof text, "stop, PEBS, %d records", count);
    REPEAT(nth) {
        call(SYS_ioctl, fd, PERF_EVENT_IOC_RESET, 0, 0, 0);
        call(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0, 0, 0);
        turns(count * 1001L / 2 + 100);
        MARKED(nth, text, call(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0, 0, 0));
    }
    munmap(ring, (1 + RING_PAGES) * (long)PAGE);
    close(fd);
}

int main(void)
{
    memset(names, 0, sizeof names);
    touched[0] = 1;
    if (mlockall(MCL_CURRENT))
        die("mlockall");
    REPEAT(nth)
        MARKED(nth, "marks", (void)0);
    REPEAT(nth)
        MARKED(nth, "a call that does nothing", call(SYS_getppid, 0, 0, 0, 0, 0));
    for (int is_hardware = 0; is_hardware < 2; is_hardware++) {
        static const int counts[2][6] = {{1, 2, 4, 8, 16}, {1, 2, 3, 4}};
        for (const int *count = counts[is_hardware]; *count; count++) {
            start_read_stop(is_hardware, *count, 1);
            start_read_stop(is_hardware, *count, 0);
            by_prctl(is_hardware, *count);
        }
        open_close(is_hardware);
        other_calls(is_hardware);
    }
    breakpoint();
    map_unmap(0, "mmap, the event's page", "munmap, the event's page");
    map_unmap(RING_PAGES, "mmap, page and ring of 512 KiB", "munmap, page and ring of 512 KiB");
    switches(0, 0, PER_TASK);
    switches(0, 1, INHERITED);
    switches(0, 1, PER_TASK);
    switches(0, 8, PER_TASK);
    switches(1, 1, INHERITED);
    switches(1, 1, PER_TASK);
    switches(1, 4, PER_TASK);
    switches(1, 1, SAMPLING);
    threads(0, 0);
    threads(0, 1);
    threads(0, 4);
    threads(1, 1);
    threads(1, 4);
    interrupts(NEVER, "no interrupts");
    interrupts(1000, "interrupts");
    records(100);
    records(200);
    fwrite(names, 1, named, stdout);
    return 0;
}
