/* followed SECONDS TRUTH: messages one after the other, each 20th of which waits for 5 ms; TRUTH gets one line each: id, ns, whether it waits.
 *
 * What others call those that wait, and what each is called, is said. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "perftax_tag.h"

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    FILE *truth = fopen(argv[2], "w");
    if (!truth)
        return 1;
    const long long until = now_ns() + (long long)(atof(argv[1]) * 1e9);
    for (unsigned id = 1; now_ns() < until; id++) {
        const int waits = id % 20 == 0;
        char name[64];
        snprintf(name, sizeof name, waits ? "GET /late?n=%u" : "GET /soon?n=%u", id);
        const long long began = now_ns();
        perftax_begin(id);
        perftax_name(id, name);
        if (waits) {
            perftax_identity(id, 0x0123456789abcdefULL, id, 0xfedcba9876543210ULL);
            const struct timespec some = {0, 5000000};
            nanosleep(&some, NULL);
        } else {
            while (now_ns() < began + 200000)
                ;
        }
        perftax_end(id);
        fprintf(truth, "%u,%lld,%d\n", id, now_ns() - began, waits);
    }
    return fclose(truth);
}
