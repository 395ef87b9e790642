// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * generated MESSAGES map|dump|nothing: makes a function in memory, as a runtime does, and handles so many messages by it; says what it is called in /tmp/perf-PID.map (of its own PID
 * namespace) or in jit-PID.dump, which it maps, in the folder that it runs in.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perftax_tag.h"

/* mov %rdi,%rcx; loop: dec %rcx; jnz loop; ret */
static const unsigned char code[] = { 0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3 };

#define NAME "int Made.whileItRuns(int)"

int main(int argc, char **argv)
{
    uint64_t messages = argc > 1 ? strtoull(argv[1], 0, 10) : 1000;
    const char *how = argc > 2 ? argv[2] : "map";
    unsigned char *made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char path[64];

    if (made == MAP_FAILED)
        return 1;
    memcpy(made, code, sizeof code);
    /* Of this perf is told nothing: as of Node's. */
    if (mprotect(made, 4096, PROT_READ | PROT_EXEC))
        return 1;
    if (!strcmp(how, "map")) {
        FILE *file;

        snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
        file = fopen(path, "w");
        if (!file)
            return 1;
        fprintf(file, "%lx %lx %s\n", (unsigned long)made, (unsigned long)sizeof code, NAME);
        fclose(file);
    } else if (!strcmp(how, "dump")) {
        struct { uint32_t magic, version, bytes, machine, zero, pid; uint64_t time, flags; } head =
            { 0x4a695444, 1, 40, 62, 0, (uint32_t)getpid(), 0, 0 };
        struct { uint32_t what, bytes; uint64_t time; uint32_t pid, tid; uint64_t at, code, size, number; char name[sizeof NAME]; } __attribute__((packed)) loaded =
            { 0, sizeof loaded + sizeof code, 0, head.pid, head.pid, (uint64_t)made, (uint64_t)made, sizeof code, 1, NAME };
        int file;

        snprintf(path, sizeof path, "jit-%d.dump", getpid());
        file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
        if (file < 0 || write(file, &head, sizeof head) != sizeof head || write(file, &loaded, sizeof loaded) != sizeof loaded ||
            write(file, code, sizeof code) != sizeof code || mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED)
            return 1;
    }
    for (uint64_t id = 1; id <= messages; id++) {
        perftax_begin(id);
        ((void (*)(uint64_t))(void *)made)(100000);
        perftax_end(id);
    }
    return 0;
}
