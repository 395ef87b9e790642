/*
 * leaderless LATER: a thread handles messages, from 1 on, while the first one waits for its input, and then ends. The messages that come once it has
 * ended are numbered from 1000001 on; after LATER of them the program ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perftax_tag.h"

/* State Z: it has ended, and stays until the others have. */
static int first_has_ended(void)
{
    char path[64], text[256], *behind_name;
    FILE *file;
    size_t bytes;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    file = fopen(path, "r");
    if (!file)
        return 0;
    bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = 0;
    behind_name = strrchr(text, ')');
    return behind_name && behind_name[1] == ' ' && behind_name[2] == 'Z';
}

static void *work(void *later)
{
    uint64_t last = 1000000 + strtoull(later, 0, 10);
    int is_alone = 0;

    for (uint64_t id = 1; id <= last; id++) {
        if (!is_alone && first_has_ended()) {
            is_alone = 1;
            id = 1000001;
        }
        perftax_begin(id);
        usleep(100);
        perftax_end(id);
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    char byte;

    if (argc < 2 || pthread_create(&thread, 0, work, argv[1]))
        return 1;
    if (read(0, &byte, 1) < 0)
        return 1;
    pthread_exit(0);
}
