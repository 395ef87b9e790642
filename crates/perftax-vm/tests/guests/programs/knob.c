/* knob NUMBER [VALUE]: writes a model-specific register of CPU 0, or prints it. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    uint64_t value = argc == 3 ? strtoull(argv[2], 0, 0) : 0;
    int file = open("/dev/cpu/0/msr", argc == 3 ? O_WRONLY : O_RDONLY);
    off_t number = argc > 1 ? strtoul(argv[1], 0, 0) : 0;
    ssize_t done = argc == 3 ? pwrite(file, &value, sizeof(value), number) : pread(file, &value, sizeof(value), number);

    if (argc < 2 || argc > 3 || done != sizeof(value)) {
        perror("knob");
        return 1;
    }
    if (argc == 2)
        printf("%" PRIu64 "\n", value);
    return 0;
}
