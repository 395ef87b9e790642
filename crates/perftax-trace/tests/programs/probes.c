/*
 * probes MESSAGES CHILDREN: so many children (none: the program itself) handle so many messages each, between the static probes
 * demo:request__start(text) and demo:request__done. Every fiftieth waits 2 ms, and its text is another; every seventieth is never ended.
 * The notes are written by hand: sys/sdt.h is not needed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEMAPHORE(name) \
    __attribute__((section(".probes"), used)) volatile unsigned short name##_semaphore = 0

/* A probe is a nop, and a note that says where it is. The argument is placed by `constraint`. */
#define PROBE(name, arguments, constraint, value)                          \
    __asm__ volatile(                                                      \
        "990: nop\n"                                                       \
        ".pushsection .note.stapsdt,\"\",\"note\"\n"                       \
        ".balign 4\n"                                                      \
        ".4byte 992f-991f, 994f-993f, 3\n"                                 \
        "991: .asciz \"stapsdt\"\n"                                        \
        "992: .balign 4\n"                                                 \
        "993: .8byte 990b, _.stapsdt.base, " #name "_semaphore\n"          \
        ".asciz \"demo\"\n"                                                \
        ".asciz \"" #name "\"\n"                                           \
        ".asciz \"" arguments "\"\n"                                       \
        "994: .balign 4\n"                                                 \
        ".popsection\n"                                                    \
        ".ifndef _.stapsdt.base\n"                                         \
        ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
        ".weak _.stapsdt.base\n"                                           \
        ".hidden _.stapsdt.base\n"                                         \
        "_.stapsdt.base: .space 1\n"                                       \
        ".size _.stapsdt.base, 1\n"                                        \
        ".popsection\n"                                                    \
        ".endif\n"                                                         \
        :                                                                  \
        : constraint(value))

SEMAPHORE(request__start);
SEMAPHORE(request__done);

static int seen;

static __attribute__((noinline)) void handle(uint64_t i)
{
    char text[64];
    struct timespec pause = { 0, 2000000 };

    snprintf(text, sizeof text, i % 50 ? "GET item %llu" : "PUT 'item %llu'", (unsigned long long)i);
    /* The semaphore says whether anybody listens. */
    seen |= request__start_semaphore;
    PROBE(request__start, "8@%0 4@$7", "r", text);
    if (i % 50 == 0)
        nanosleep(&pause, 0);
    if (i % 70)
        PROBE(request__done, "8@%0", "r", i);
}

static int work(uint64_t messages)
{
    for (uint64_t i = 1; i <= messages; i++)
        handle(i);
    return seen ? 0 : 9;
}

int main(int argc, char **argv)
{
    uint64_t messages = argc > 1 ? strtoull(argv[1], 0, 10) : 1000;
    int children = argc > 2 ? atoi(argv[2]) : 0, worst = 0, status;

    if (!children)
        return work(messages);
    for (int child = 0; child < children; child++)
        if (!fork())
            _exit(work(messages));
    while (wait(&status) > 0)
        if (WEXITSTATUS(status) > worst)
            worst = WEXITSTATUS(status);
    return worst;
}
