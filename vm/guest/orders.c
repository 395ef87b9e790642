/*
 * Unpacks what a guest is to do: orders FILE MSR, where FILE is the memory of the device that it shares with whoever started it, and MSR the
 * processor's registers. The memory's first page says in decimal how many pages of an archive follow (cpio, "newc":
 * Documentation/driver-api/early-userspace/buffer-format.rst), whose files land below the working directory. Before it is looked at a write to
 * a register of the emulation stops the machine where that is to be saved, so that each that loads it finds orders of its own. Without a
 * library, and each file written at once, so that little is left to do then.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define PAGE 4096L

enum {
    SYS_write = 1, SYS_open = 2, SYS_close = 3, SYS_mmap = 9, SYS_pwrite64 = 18, SYS_mkdir = 83, SYS_unlink = 87, SYS_symlink = 88,
    SYS_umask = 95
};
enum { O_RDONLY = 0, O_WRONLY = 1, O_CREAT = 0100, O_TRUNC = 01000, PROT_READ = 1, MAP_SHARED = 1, EEXIST = 17 };
enum { S_IFMT = 0170000, S_IFDIR = 0040000, S_IFREG = 0100000, S_IFLNK = 0120000 };
/* A header: its length, and where the fields that are used stand. */
enum { HEADER = 110, MODE = 14, FILE_BYTES = 54, NAME_BYTES = 94, DIGITS = 8 };
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

static long number(const char *digits)
{
    long value = 0;
    int i;

    for (i = 0; i < DIGITS; i++) {
        value = 16 * value + (digits[i] <= '9' ? digits[i] - '0' : (digits[i] | 32) - 'a' + 10);
    }
    return value;
}

static long padded(long bytes)
{
    return (bytes + 3) & ~3L;
}

/* Writes a file; whether it could be. */
static int file(const char *name, long mode, const char *bytes, long left)
{
    long to, wrote;

    call(SYS_unlink, (long)name, 0, 0, 0, 0);
    to = call(SYS_open, (long)name, O_WRONLY | O_CREAT | O_TRUNC, mode, 0, 0);
    while (to >= 0 && left > 0) {
        wrote = call(SYS_write, to, (long)bytes, left, 0, 0);
        if (wrote <= 0) {
            return 0;
        }
        bytes += wrote;
        left -= wrote;
    }
    return to >= 0 && call(SYS_close, to, 0, 0, 0, 0) == 0;
}

/* A link's target is no string in the archive. */
static int link_to(const char *name, const char *bytes, long count)
{
    char target[PAGE];
    long i;

    if (count >= PAGE) {
        return 0;
    }
    for (i = 0; i < count; i++) {
        target[i] = bytes[i];
    }
    target[count] = 0;
    call(SYS_unlink, (long)name, 0, 0, 0, 0);
    return call(SYS_symlink, (long)target, (long)name, 0, 0, 0) == 0;
}

/* Whether all that is in an archive of so many bytes could be made. */
static int unpack(const char *archive, long bytes)
{
    long at = 0, mode, size, data, made;
    const char *name;

    while (at + HEADER <= bytes && archive[at] == '0') {
        mode = number(archive + at + MODE);
        size = number(archive + at + FILE_BYTES);
        name = archive + at + HEADER;
        data = padded(at + HEADER + number(archive + at + NAME_BYTES));
        at = padded(data + size);
        if (at > bytes) {
            return 0;
        }
        switch (mode & S_IFMT) {
        case S_IFDIR:
            made = call(SYS_mkdir, (long)name, mode & 07777, 0, 0, 0);
            if (made < 0 && made != -EEXIST) {
                return 0;
            }
            break;
        case S_IFREG:
            if (!file(name, mode & 07777, archive + data, size)) {
                return 0;
            }
            break;
        case S_IFLNK:
            if (!link_to(name, archive + data, size)) {
                return 0;
            }
            break;
        default:
            /* The trailer. */
            return 1;
        }
    }
    return 0;
}

/* The exit code: 0, or 1 where the memory cannot be read or a file not be made. */
__attribute__((used)) static int start(const long *stack)
{
    long file, registers, one = 1, pages = 0, i;
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
    memory = pages ? mapped(file, PAGE + pages * PAGE) : 0;
    call(SYS_umask, 0, 0, 0, 0, 0);
    return !memory || !unpack(memory + PAGE, pages * PAGE);
}

/* The stack holds the arguments: how many, then each (System V ABI, AMD64 supplement, 3.4.1). */
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call start\n mov %eax, %edi\n mov $60, %eax\n syscall\n");
