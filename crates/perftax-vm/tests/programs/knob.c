/* knob NUMBER VALUE: writes a model-specific register of CPU 0. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    uint64_t value = argc == 3 ? strtoull(argv[2], 0, 0) : 0;
    int file = open("/dev/cpu/0/msr", O_WRONLY);

    if (argc != 3 || file < 0 || pwrite(file, &value, sizeof(value), strtoul(argv[1], 0, 0)) != sizeof(value)) {
        perror("knob");
        return 1;
    }
    return 0;
}
