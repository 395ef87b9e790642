/*
 * Writes to standard output what a guest is to do: orders FILE MSR, where FILE is the memory of the device that it shares with whoever started
 * it, and MSR the processor's registers. Its first page says in decimal how many pages of an archive follow. Before it is looked at a write to a
 * register of the emulation stops the machine where that is to be saved, so that each that loads it finds orders of its own. Without a library,
 * so that little is left to do then.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define PAGE 4096L

enum { SYS_write = 1, SYS_open = 2, SYS_mmap = 9, SYS_pwrite64 = 18 };
enum { O_RDONLY = 0, O_WRONLY = 1, PROT_READ = 1, MAP_SHARED = 1 };
/* The emulation's (vm/qemu/pmu.c). */
enum { MSR_EMULATION_PAUSE = 0x50540008 };

static long call(long number, long a, long b, long c, long d, long e)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = 0;

    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}

static const char *mapped(long file, long bytes)
{
    long at = call(SYS_mmap, 0, bytes, PROT_READ, MAP_SHARED, file);

    return at < 0 && at > -PAGE ? 0 : (const char *)at;
}

/* The exit code: 0, or 1 where the memory cannot be read or the output not be written. */
__attribute__((used)) static int start(const long *stack)
{
    long file, registers, one = 1, pages = 0, done = 0, bytes, wrote, i;
    const char *memory;

    if (stack[0] != 3) {
        return 1;
    }
    file = call(SYS_open, stack[2], O_RDONLY, 0, 0, 0);
    registers = call(SYS_open, stack[3], O_WRONLY, 0, 0, 0);
    call(SYS_pwrite64, registers, (long)&one, sizeof(one), MSR_EMULATION_PAUSE, 0);
    memory = mapped(file, PAGE);
    for (i = 0; memory && memory[i] >= '0' && memory[i] <= '9'; i++) {
        pages = 10 * pages + memory[i] - '0';
    }
    bytes = pages * PAGE;
    memory = pages ? mapped(file, PAGE + bytes) : 0;
    while (memory && done < bytes) {
        wrote = call(SYS_write, 1, (long)memory + PAGE + done, bytes - done, 0, 0);
        if (wrote <= 0) {
            return 1;
        }
        done += wrote;
    }
    return !memory;
}

/* The stack holds the arguments: how many, then each (System V ABI, AMD64 supplement, 3.4.1). */
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call start\n mov %eax, %edi\n mov $60, %eax\n syscall\n");
