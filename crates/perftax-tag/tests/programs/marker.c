/*
 * marker THREADS MESSAGES [fork|says]: every thread handles so many messages, ids from thread * 1000000 + 1 on; each begins, is left
 * and taken up again, and ends. Half of the work is done in another file (other.c), which includes the header, too.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perftax_tag.h"

void other_end(uint64_t id);

static uint64_t messages;

static void *handle(void *argument)
{
    uint64_t first = (uint64_t)(uintptr_t)argument * 1000000 + 1;

    for (uint64_t id = first; id < first + messages; id++) {
        perftax_begin(id);
        perftax_switch(0);
        perftax_switch(id);
        other_end(id);
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long threads = argc > 1 ? strtoul(argv[1], 0, 10) : 1;
    const char *how = argc > 3 ? argv[3] : "";
    pthread_t thread[64];

    messages = argc > 2 ? strtoull(argv[2], 0, 10) : 1;
    for (unsigned long i = 1; i < threads && i < 64; i++)
        if (pthread_create(&thread[i], 0, handle, (void *)(uintptr_t)i))
            return 1;
    handle(0);
    if (!strcmp(how, "fork")) {
        pid_t child = fork();

        if (!child) {
            handle((void *)(uintptr_t)50);
            _exit(0);
        }
        waitpid(child, 0, 0);
        handle((void *)(uintptr_t)51);
    }
    for (unsigned long i = 1; i < threads && i < 64; i++)
        pthread_join(thread[i], 0);
    if (!strcmp(how, "says")) {
        char text[2001];
        uint64_t id = perftax_new_id();

        memset(text, 'x', sizeof text - 1);
        text[sizeof text - 1] = 0;
        perftax_name(7, "GET /cart?of=eight");
        perftax_name(7, "");
        perftax_name(7, text);
        perftax_child(7, (uint64_t)1 << 61);
        perftax_identity(7, 0x4bf92f3577b34da6, 0xa3ce929d0e0e4736, 0xf067aa0ba902b700);
        perftax_send(7);
        perftax_receive(7);
        perftax_carrier(9);
        if (perftax_new_id() != id + 1 || id >> 31 != ((uint64_t)getpid() & 0x3fffff))
            return 1;
    }
    printf("%u\n", perftax_tag_state);
    return 0;
}
