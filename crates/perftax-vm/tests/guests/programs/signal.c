/*
 * Instruction-based sampling as the PES study's benchmarks do it: the program itself opens the event, and a signal for each sample has it
 * read the ring.
 *
 *   signal TYPE CONFIG PERIOD SIGNALS TURNS     SIGNALS 0: the ring is read at the end
 *
 * A line for each sample in the loop: which of the turn's eleven instructions, of one op each, and which turn.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define RING (64 * PAGE)
#define MOST 10000
#define R8 (1ull << 16)

static volatile struct perf_event_mmap_page *control;
static char *ring;
static int count;
static struct { uint64_t ip, r8; } samples[MOST];

static void drain(int number)
{
    uint64_t head = control->data_head, tail = control->data_tail;

    (void)number;
    while (tail < head) {
        /* Records of these sizes never wrap in their first eight bytes; words are taken one by one. */
        struct perf_event_header *header = (void *)(ring + tail % RING);
        uint64_t ip = *(uint64_t *)(ring + (tail + 8) % RING), r8 = *(uint64_t *)(ring + (tail + 24) % RING);

        if (header->type == PERF_RECORD_SAMPLE && count < MOST) {
            samples[count].ip = ip;
            samples[count++].r8 = r8;
        }
        tail += header->size;
    }
    control->data_tail = tail;
}

extern char turn[];
void work(uint64_t turns);
__asm__(".text\n.balign 64\n"
        "work: xorl %r8d, %r8d\n movq %rdi, %rcx\n jmp turn\n.balign 64\n"
        "turn: addq $1, %r8\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n decq %rcx\n jnz turn\n ret\n");

int main(int argc, char **argv)
{
    struct perf_event_attr attr = { .size = sizeof(attr), .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_REGS_INTR, .disabled = 1 };
    /* Where each instruction of the turn begins. */
    static const int starts[] = { 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15 };
    int event, signals, i, j;

    if (argc < 6)
        return 2;
    attr.type = atoi(argv[1]);
    attr.config = strtoull(argv[2], 0, 0);
    attr.sample_period = strtoull(argv[3], 0, 0);
    attr.sample_regs_intr = R8;
    signals = atoi(argv[4]);
    attr.wakeup_events = signals ? 1 : MOST;
    event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
    if (event < 0) {
        perror("perf_event_open");
        return 1;
    }
    control = mmap(0, PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
    if (control == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    ring = (char *)control + PAGE;
    if (signals) {
        signal(SIGRTMIN, drain);
        fcntl(event, F_SETFL, O_ASYNC);
        fcntl(event, F_SETSIG, SIGRTMIN);
        fcntl(event, F_SETOWN, getpid());
    }
    ioctl(event, PERF_EVENT_IOC_ENABLE, 0);
    work(strtoull(argv[5], 0, 0));
    ioctl(event, PERF_EVENT_IOC_DISABLE, 0);
    drain(0);
    for (i = 0; i < count; i++)
        for (j = 0; j < 11; j++)
            if (samples[i].ip == (uint64_t)turn + starts[j])
                printf("%d %ld\n", j, (long)samples[i].r8);
    return 0;
}
